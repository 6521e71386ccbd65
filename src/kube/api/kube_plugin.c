/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/api/kube_plugin.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "base/bytes/base64.h"
#include "base/bytes/jread.h"
#include "base/bytes/json.h"
#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/sys/wait.h"
#include "base/text/clean.h"
#include "base/text/str.h"
#include "proc/host_find.h"
#include "proc/host_program.h"
#include "proc/spawn.h"

#define SEARCHED "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define SAID_MAX 512 /* of stderr */
#define VARIABLES_MAX 264
#define NOT_INSTALLED (-ENOENT)

/* ---- its answer ---- */

/* RFC 3339 in UTC or with an offset; whole seconds. 0: it is none. */
static int64_t time_of(const char *s)
{
	struct tm t = { 0 };
	const char *at = strptime(s, "%Y-%m-%dT%H:%M:%S", &t);
	int sign, hours, minutes;

	if (at && *at == '.')
		at += 1 + strspn(at + 1, "0123456789");
	if (!at)
		return 0;
	if (str_eq(at, "Z"))
		return timegm(&t);
	sign = *at == '-' ? -1 : *at == '+' ? 1 : 0;
	if (!sign || strlen(at) != 6 || strspn(at + 1, "0123456789") != 2 || at[3] != ':' ||
	    strspn(at + 4, "0123456789") != 2)
		return 0;
	hours = (at[1] - '0') * 10 + at[2] - '0';
	minutes = (at[4] - '0') * 10 + at[5] - '0';
	return timegm(&t) - (int64_t)sign * (hours * 60 + minutes) * 60;
}

static int take_copy(struct arena *a, const char *text, const char **ret, struct err *e)
{
	*ret = text && text[0] ? arena_strdup(a, text) : NULL;
	return text && text[0] && !*ret ? err_nomem(e) : 0;
}

static bool says(const struct jread *v, const char *key, const char *word)
{
	const char *said = jread_str(v, key);

	return said && str_eq(said, word);
}

int kube_plugin_read(struct arena *a, const char *version, const char *text, size_t n,
		     struct kube_given *ret, struct err *e)
{
	CLEANUP(jread) struct jread *root = NULL;
	struct kube_given g = { 0 };
	const struct jread *status;
	const char *until;

	if (jread_parse(text, n, &root, e) < 0)
		return err_wrap(e, "what the plugin printed");
	if (!says(root, "kind", "ExecCredential") || !says(root, "apiVersion", version))
		return err_set(e, ERR_CONFIG, EBADMSG, "the plugin printed no ExecCredential of %s",
			       version);
	status = jread_get(root, "status");
	if (take_copy(a, jread_str(status, "token"), &g.token, e) < 0 ||
	    take_copy(a, jread_str(status, "clientCertificateData"), &g.cert, e) < 0 ||
	    take_copy(a, jread_str(status, "clientKeyData"), &g.key, e) < 0)
		return -e->code;
	if ((!g.cert) != (!g.key) || (!g.token && !g.cert))
		return err_set(e, ERR_CONFIG, EBADMSG,
			       "the plugin printed neither a token nor a certificate with its key");
	if (g.token && !kube_token_valid(g.token))
		return err_set(e, ERR_CONFIG, EBADMSG,
			       "the plugin printed a token with a character that no token has");
	until = jread_str(status, "expirationTimestamp");
	if (until && !(g.expires = time_of(until)))
		return err_set(e, ERR_CONFIG, EBADMSG,
			       "the plugin's expirationTimestamp is no time");
	*ret = g;
	return 0;
}

/* ---- its question ---- */

static void put_cluster(struct json *j, const struct kube_config *c, const char *ca)
{
	CLEANUP(buf) struct buf coded = BUF_INIT((size_t)KUBECONFIG_MAX * 2);

	json_kobject(j, "cluster");
	json_kstr(j, "server", c->server);
	if (c->tls_name)
		json_kstr(j, "tls-server-name", c->tls_name);
	if (ca) {
		base64_put(&coded, ca, strlen(ca));
		json_kstr(j, "certificate-authority-data", buf_str(&coded));
	}
	json_object_end(j);
}

static void put_info(struct buf *out, const struct kube_config *c, const char *ca)
{
	struct json j;

	json_init(&j, out, false);
	json_object(&j);
	json_kstr(&j, "apiVersion", c->plugin->version);
	json_kstr(&j, "kind", "ExecCredential");
	json_kobject(&j, "spec");
	json_kbool(&j, "interactive", false);
	if (c->plugin->cluster_info)
		put_cluster(&j, c, ca);
	json_object_end(&j);
	json_object_end(&j);
}

/* Its own come last: of two of one name the last counts for whoever reads in order, and the first
 * for libc, so that ours are left out where it sets one. */
static bool sets(const char *const *env, const char *name)
{
	size_t n = strlen(name);

	for (; *env; env++)
		if (strncmp(*env, name, n) == 0 && (*env)[n] == '=')
			return true;
	return false;
}

static int make_env(struct arena *a, const struct kube_config *c, const char *ca,
		    const struct kube_begin *b, const char **env, struct err *e)
{
	CLEANUP(buf) struct buf info = BUF_INIT((size_t)KUBECONFIG_MAX * 2);
	const struct {
		const char *name, *value;
	} ours[] = { { "PATH", SEARCHED },
		     { "HOME", b->home },
		     { "USER", b->user },
		     { "LANG", "C.UTF-8" } };
	size_t n = 0;

	put_info(&info, c, ca);
	if (info.failed)
		return err_nomem(e);
	env[n++] = arena_printf(a, "KUBERNETES_EXEC_INFO=%s", buf_str(&info));
	for (size_t i = 0; i < ARRAY_LEN(ours); i++)
		if (ours[i].value[0] && !sets(c->plugin->env, ours[i].name))
			env[n++] = arena_printf(a, "%s=%s", ours[i].name, ours[i].value);
	for (size_t i = 0; i < n; i++)
		if (!env[i])
			return err_nomem(e);
	for (const char *const *v = c->plugin->env; *v; v++)
		if (!str_starts(*v, "KUBERNETES_EXEC_INFO="))
			env[n++] = *v;
	env[n] = NULL;
	return 0;
}

/* ---- the process ---- */

struct kube_plugin_run {
	pid_t pid;
	int out, err;
	struct buf text, said;
};

static int kube_plugin_start(struct arena *a, const char *const *argv, const char *const *env,
			     struct kube_plugin_run *r, struct err *e)
{
	static const char *const every[] = { "*", NULL };
	CLEANUP(fd) int out = -1, err = -1;
	const char *path = SEARCHED;
	char program[PATH_MAX];
	struct host_program h = {
		.program = program, .argv = argv, .dies_with = SIGKILL, .session = true
	};
	int ends[2];

	for (const char *const *v = env; *v; v++)
		path = str_starts(*v, "PATH=") ? *v + strlen("PATH=") : path;
	if (host_find(argv[0], path, NULL, program, e) < 0 || host_check_words(argv, NULL, e) < 0 ||
	    host_environment(a, every, (char *const *)(uintptr_t)env, NULL, &h.envp, e) < 0)
		return -e->code;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(e, "cannot make a pipe");
	r->out = ends[0];
	out = ends[1];
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(e, "cannot make a pipe");
	r->err = ends[0];
	err = ends[1];
	h.streams = (const int[]){ -1, out, err };
	return host_start(&h, &r->pid, NULL, e);
}

/* What does not fit is thrown away; the program is not to wait for us. */
static int drain(int fd, struct buf *b)
{
	char piece[4096];
	ssize_t n = read(fd, piece, sizeof(piece));
	size_t room = b->max > b->len + 1 ? b->max - b->len - 1 : 0;

	if (n > 0)
		buf_add(b, piece, (size_t)n < room ? (size_t)n : room);
	return n > 0 || (n < 0 && errno == EINTR) ? fd : fd_close(fd);
}

/* Until it closed its output, or time is over. */
static int listen_to(struct kube_plugin_run *r)
{
	uint64_t until = clock_us() + KUBE_PLUGIN_MS * 1000ULL;

	while (r->out >= 0) {
		struct pollfd p[] = { { .fd = r->out, .events = POLLIN },
				      { .fd = r->err, .events = POLLIN } };

		if (clock_us() >= until)
			return -ETIMEDOUT;
		if (wait_any(p, 2, until) < 0)
			return -errno;
		if (p[0].revents)
			r->out = drain(r->out, &r->text);
		if (r->err >= 0 && p[1].revents)
			r->err = drain(r->err, &r->said);
	}
	return 0;
}

/* It has closed its output, but may live: half a second is enough to end. */
static int end_of(pid_t pid, bool wait)
{
	int status = -ETIMEDOUT;

	for (int i = 0; wait && i < 100; i++) {
		pid_t p = waitpid(pid, &status, __WALL | WNOHANG);

		if (p == pid || p < 0) {
			(void)kill(-pid, SIGKILL); /* what it left behind */
			return p == pid ? status : -errno;
		}
		wait_moment(5);
	}
	(void)kill(-pid, SIGKILL);
	(void)kill(pid, SIGKILL);
	(void)proc_wait(pid);
	return -ETIMEDOUT;
}

static int kube_plugin_failed(const struct kube_config *c, const struct kube_plugin_run *r,
			      int status, struct err *e)
{
	CLEANUP(buf) struct buf said = BUF_INIT(SAID_MAX);
	const char *name = c->plugin->command;

	clean_put(&said, buf_str(&r->said), strcspn(buf_str(&r->said), "\r\n"));
	if (status == -ETIMEDOUT)
		(void)err_set(e, ERR_UNAVAILABLE, EACCES,
			      "the credential plugin '%.100s' took longer than %d seconds", name,
			      KUBE_PLUGIN_MS / 1000);
	else if (status == NOT_INSTALLED)
		(void)err_set(e, ERR_UNAVAILABLE, EACCES,
			      "the credential plugin '%.100s' is not installed", name);
	else
		(void)err_set(e, ERR_UNAVAILABLE, EACCES,
			      "the credential plugin '%.100s' failed%s%.150s", name,
			      said.len ? ": " : "", buf_str(&said));
	if (c->plugin->install) {
		buf_done(&said);
		said = (struct buf)BUF_INIT(SAID_MAX);
		clean_put(&said, c->plugin->install, strnlen(c->plugin->install, 200));
		return err_hint(e, "%s", buf_str(&said));
	}
	return err_hint(e, "it has HOME, PATH=" SEARCHED " and the kubeconfig's env; try it so");
}

int kube_plugin_run(struct arena *a, const struct kube_config *c, const char *ca,
		    const struct kube_begin *b, struct kube_given *ret, struct err *e)
{
	struct kube_plugin_run r = {
		.out = -1, .err = -1, .text = BUF_INIT(KUBE_PLUGIN_MAX), .said = BUF_INIT(SAID_MAX)
	};
	const char *argv[VARIABLES_MAX] = { c->plugin->command }, *env[VARIABLES_MAX];
	size_t n = 1;
	int status, code;

	for (const char *const *v = c->plugin->args; *v; v++)
		argv[n++] = *v;
	if (make_env(a, c, ca, b, env, e) < 0)
		return -e->code;
	code = kube_plugin_start(a, argv, env, &r, e);
	if (code == -ENOENT)
		code = kube_plugin_failed(c, &r, NOT_INSTALLED, e);
	else if (code < 0)
		code = err_wrap(e, "credential plugin '%.100s'", c->plugin->command);
	if (code == 0) {
		status = end_of(r.pid, listen_to(&r) == 0);
		if (status != 0)
			code = kube_plugin_failed(c, &r, status, e);
		else if (kube_plugin_read(a, c->plugin->version, buf_str(&r.text), r.text.len, ret,
					  e) < 0)
			code = err_wrap(e, "credential plugin '%.100s'", c->plugin->command);
	}
	(void)fd_close(r.out);
	(void)fd_close(r.err);
	buf_done(&r.text);
	buf_done(&r.said);
	return code;
}
