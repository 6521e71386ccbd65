/* SPDX-License-Identifier: Apache-2.0 */
#include "image/login.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes/base64.h"
#include "base/sys/clock.h"
#include "base/files/exposed.h"
#include "base/files/fd.h"
#include "base/bytes/jread.h"
#include "base/bytes/json.h"
#include "base/sys/wait.h"
#include "base/text/str.h"
#include "proc/host_program.h"
#include "proc/host_find.h"
#include "proc/spawn.h"

#define FILE_MAX ((size_t)256 << 10)
#define ANSWER_MAX ((size_t)16 << 10)
#define ENVIRONMENT_MAX ((size_t)4 << 20)
#define HELPER_US 10000000
#define HUB "docker.io"
#define HUB_HOST "index." HUB /* what its credentials are kept under */
#define HUB_KEY "https://" HUB_HOST "/v1/"

const char *login_registry(const char *ref, char *out, size_t n)
{
	size_t len = strcspn(ref, "/");

	(void)snprintf(out, n, "%.*s", (int)len, ref);
	if (!ref[len] || (!strpbrk(out, ".:") && !str_eq(out, "localhost")))
		(void)snprintf(out, n, HUB);
	return out;
}

/* ---- files ---- */

/* Keys are hosts, or addresses with a scheme and a path. */
static bool is_key_of(const char *key, const char *registry)
{
	const char *scheme = strstr(key, "://"), *host = scheme ? scheme + 3 : key;
	size_t n = strcspn(host, "/");

	if (str_eq(registry, HUB) && n == strlen(HUB_HOST) && strncmp(host, HUB_HOST, n) == 0)
		return true;
	return n == strlen(registry) && strncmp(host, registry, n) == 0;
}

static const struct jread *of_registry(const struct jread *table, const char *registry)
{
	for (void *it = jread_first(table); it; it = jread_next(table, it))
		if (is_key_of(jread_key(it), registry))
			return jread_value(it);
	return NULL;
}

static int unusable(const char *registry, const char *what, struct err *e)
{
	(void)err_set(e, ERR_CONFIG, EINVAL, "the credentials kept for registry '%.100s' %s",
		      registry, what);
	return err_hint(e, "docker login %.100s writes them anew", registry);
}

static int login_set(char *to, size_t room, const char *from)
{
	size_t n = strlen(from);

	if (n >= room)
		return -E2BIG;
	memcpy(to, from, n + 1);
	return 0;
}

/* It becomes the name of a program. */
static bool is_helper(const char *name)
{
	size_t n = strlen(name);

	return n && n < LOGIN_HELPER_MAX &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") ==
		       n;
}

static int read_auth(const char *auth, const char *registry, struct login *ret, struct err *e)
{
	char both[LOGIN_USER_MAX + LOGIN_SECRET_MAX];
	ssize_t n = base64_read(auth, strlen(auth), both, sizeof(both) - 1);
	char *colon = NULL;
	int r = -EBADMSG;

	if (n > 0 && !memchr(both, '\0', (size_t)n)) {
		both[n] = '\0';
		colon = strchr(both, ':');
	}
	if (colon) {
		*colon = '\0';
		r = login_set(ret->user, sizeof(ret->user), both);
		if (r == 0)
			r = login_set(ret->secret, sizeof(ret->secret), colon + 1);
	}
	explicit_bzero(both, sizeof(both));
	return r < 0 || !ret->user[0] ? unusable(registry, "make no sense", e) : 0;
}

int login_read(const char *text, size_t n, const char *registry, struct login *ret, struct err *e)
{
	CLEANUP(jread) struct jread *v = NULL;
	const struct jread *entry;
	const char *helper, *auth, *token;

	if (jread_parse(text, n, &v, e) < 0)
		return -e->code;
	helper = jread_text(of_registry(jread_get(v, "credHelpers"), registry));
	if (!helper)
		helper = jread_str(v, "credsStore");
	if (helper && *helper)
		return is_helper(helper) ? login_set(ret->helper, sizeof(ret->helper), helper)
					 : unusable(registry, "name a strange helper", e);
	entry = of_registry(jread_get(v, "auths"), registry);
	token = jread_str(entry, "identitytoken");
	auth = jread_str(entry, "auth");
	if (token && *token)
		return login_set(ret->secret, sizeof(ret->secret), token) < 0
			       ? unusable(registry, "are too long", e)
			       : 0;
	return auth && *auth ? read_auth(auth, registry, ret, e) : 1;
}

int login_answer(const char *text, size_t n, struct login *ret, struct err *e)
{
	CLEANUP(jread) struct jread *v = NULL;
	const char *user, *secret;

	if (jread_parse(text, n, &v, e) < 0)
		return -e->code;
	user = jread_str(v, "Username");
	secret = jread_str(v, "Secret");
	if (!user || !secret || login_set(ret->secret, sizeof(ret->secret), secret) < 0 ||
	    login_set(ret->user, sizeof(ret->user), str_eq(user, "<token>") ? "" : user) < 0)
		return err_set(e, ERR_CONFIG, EBADMSG, "its answer makes no sense");
	return 0;
}

/* ---- helper programs ---- */

static int login_spawn(const char *name, int in, int out, pid_t *ret, struct err *e)
{
	CLEANUP(arena) struct arena *a = arena_new(ENVIRONMENT_MAX);
	const char *const argv[] = { name, "get", NULL };
	char program[PATH_MAX];
	struct host_program h = { .program = program,
				  .argv = argv,
				  .streams = (const int[]){ in, out, -1 },
				  .dies_with = SIGKILL };

	if (!a)
		return err_nomem(e);
	if (host_find(name, NULL, NULL, program, e) < 0 ||
	    host_environment(a, host_keyring_names, environ, NULL, &h.envp, e) < 0)
		return -e->code;
	return host_start(&h, ret, NULL, e);
}

static int read_end(int fd, char *out, size_t room, size_t *len)
{
	uint64_t until = clock_us() + HELPER_US;

	for (*len = 0; *len < room;) {
		ssize_t r = wait_read(fd, out + *len, room - *len, until);

		if (r <= 0)
			return (int)r;
		*len += (size_t)r;
	}
	return -E2BIG;
}

/* The words of all such programs for a registry that nobody has logged in to; images for everybody
 * are fetched without. */
static bool says_none(const char *out, size_t n)
{
	static const char words[] = "credentials not found in native keychain";

	while (n && (out[n - 1] == '\n' || out[n - 1] == '\r' || out[n - 1] == ' '))
		n--;
	return n == sizeof(words) - 1 && memcmp(out, words, n) == 0;
}

/* The registry goes in as a line, the answer comes out as JSON. 1: there is none. */
static int talk(const char *name, const char *registry, char *out, size_t *len, struct err *e)
{
	const char *key = str_eq(registry, HUB) ? HUB_KEY : registry;
	int in[2] = { -1, -1 }, from[2] = { -1, -1 }, r, status = 0;
	pid_t pid = -1;

	r = pipe2(in, O_CLOEXEC) < 0 || pipe2(from, O_CLOEXEC) < 0 ? -errno : 0;
	if (r == 0)
		r = fd_write_all(in[1], key, strlen(key));
	err_clear(e);
	if (r == 0)
		r = login_spawn(name, in[0], from[1], &pid, e);
	(void)fd_close(in[0]);
	(void)fd_close(in[1]);
	(void)fd_close(from[1]);
	if (r == 0)
		r = read_end(from[0], out, ANSWER_MAX, len);
	(void)fd_close(from[0]);
	if (pid > 0) {
		if (r < 0)
			(void)kill(pid, SIGKILL);
		status = proc_wait(pid);
	}
	if (e->code)
		return -e->code;
	if (r < 0)
		return err_errno(e, r, "cannot be asked");
	if (status && says_none(out, *len))
		return 1;
	return status ? err_set(e, ERR_CONFIG, EACCES, "it has none") : 0;
}

static int ask_helper(const char *registry, struct login *l, struct err *e)
{
	CLEANUP(mem) char *answer = malloc(ANSWER_MAX);
	char name[LOGIN_HELPER_MAX + 32];
	size_t n = 0;
	int r;

	if (!answer)
		return err_nomem(e);
	(void)snprintf(name, sizeof(name), "docker-credential-%s", l->helper);
	r = talk(name, registry, answer, &n, e);
	if (r == 0)
		r = login_answer(answer, n, l, e);
	explicit_bzero(answer, ANSWER_MAX);
	if (r > 0)
		return 1;
	return r < 0 ? err_wrap(e, "credentials for '%.100s' from '%s'", registry, name) : 0;
}

/* ---- where they may be ---- */

static const struct {
	const char *variable, *path; /* below the variable's folder; NULL: it is the file */
	bool podman;
} places[] = { { "REGISTRY_AUTH_FILE", NULL, true },
	       { "XDG_RUNTIME_DIR", "containers/auth.json", true },
	       { "XDG_CONFIG_HOME", "containers/auth.json", true },
	       { "HOME", ".config/containers/auth.json", true },
	       { "DOCKER_CONFIG", "config.json", false },
	       { "HOME", ".docker/config.json", false } };

/* As login_read, from the first file that knows the registry. */
static int login_refuse(const char *path, const struct err *why, struct err *e)
{
	(void)err_set(e, ERR_POLICY, EPERM, "the credentials in '%.150s' are not used: %.200s",
		      path, why->what);
	exposed_hint("keep it where no sandbox may write", why, e);
	return -e->code;
}

static int login_find_file(const char *registry, bool podman, char *text, struct login *ret,
			   struct err *e)
{
	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		const char *value = getenv(places[i].variable);
		struct err why = { 0 };
		char path[PATH_MAX];
		ssize_t n;
		int r;

		if ((places[i].podman && !podman) || !value || value[0] != '/' ||
		    snprintf(path, sizeof(path), "%s%s%s", value, places[i].path ? "/" : "",
			     places[i].path ? places[i].path : "") >= PATH_MAX)
			continue;
		n = fd_read_file(AT_FDCWD, path, text, FILE_MAX);
		r = n > 0 ? login_read(text, (size_t)n, registry, ret, e) : 1;
		if (r == 0 && exposed_path(path, NULL, EXPOSED_SHARED, &why))
			return login_refuse(path, &why, e);
		if (r <= 0)
			return r < 0 ? err_wrap(e, "'%.150s'", path) : 0;
	}
	return 1;
}

static void login_put(const struct login *l, const char *registry, struct buf *out)
{
	CLEANUP(buf) struct buf text = BUF_INIT(ANSWER_MAX);
	struct json j;

	json_init(&j, &text, false);
	json_object(&j);
	if (l->user[0]) {
		json_kstr(&j, "username", l->user);
		json_kstr(&j, "password", l->secret);
	} else {
		json_kstr(&j, "identitytoken", l->secret);
	}
	json_kstr(&j, "serveraddress", str_eq(registry, HUB) ? HUB_KEY : registry);
	json_object_end(&j);
	buf_puts(out, "X-Registry-Auth: ");
	base64_url(out, buf_str(&text), text.len);
	buf_puts(out, "\r\n");
	if (text.data)
		explicit_bzero(text.data, text.len);
}

int login_find(const char *registry, bool podman, struct login *ret, struct err *e)
{
	CLEANUP(mem) char *text = malloc(FILE_MAX);
	int r;

	if (!text)
		return err_nomem(e);
	r = login_find_file(registry, podman, text, ret, e);
	if (r == 0 && ret->helper[0])
		r = ask_helper(registry, ret, e);
	if (r == 0)
		ret->helper[0] = '\0';
	explicit_bzero(text, FILE_MAX);
	return r;
}

int login_field(const char *ref, bool podman, struct buf *out, struct err *e)
{
	struct login l = { 0 };
	char registry[256];
	int r;

	(void)login_registry(ref, registry, sizeof(registry));
	r = login_find(registry, podman, &l, e);
	if (r == 0)
		login_put(&l, registry, out);
	explicit_bzero(&l, sizeof(l));
	return r > 0 ? 0 : r;
}
