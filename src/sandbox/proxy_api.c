/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/proxy_api.c - brig.h: the door alone, around sandbox/proxy.h.
 *
 *     made -> started (a thread of ours serves) -> stopped
 *
 * The thread starts the door's processes, so that they end with it, hears what they decide, and
 * ends when the descriptor `stop` can be read. */
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "egress/credential/cred.h"
#include "model/dialect/credentials.h"
#include "sandbox/manager.h"
#include "sandbox/proxy.h"

enum proxy_stage { MADE, STARTING, SERVING, OVER };

struct brig_proxy {
	struct spec *spec;    /* as it was asked for */
	struct spec *checked; /* as it is run */
	brig_resolver_fn *resolve;
	void *resolve_arg;
	brig_note_fn *denied;
	void *denied_arg;
	char **envp; /* what the resolver said, in locked memory; NULL: the environment */
	size_t n_envp;
	int stop;
	pthread_t thread;
	bool threaded; /* there is one, to be joined */

	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t moved;
	enum proxy_stage stage;
	uint16_t port;
	char url[48];
	char *authority;
	struct outcome *o;
	struct err e;
};

static int proxy_api_fail(const struct err *from, struct brig_error *to)
{
	error_export(from, to);
	return -from->code;
}

brig_proxy *brig_proxy_new(brig_manager *m)
{
	brig_proxy *p = calloc(1, sizeof(*p));
	struct err e = { 0 };

	if (!p)
		return NULL;
	(void)pthread_mutex_init(&p->lock, NULL);
	(void)pthread_cond_init(&p->moved, NULL);
	p->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	p->spec = spec_clone(manager_spec(m), &e);
	if (p->spec && p->stop >= 0)
		return p;
	brig_proxy_free(p);
	return NULL;
}

static void forget_values(brig_proxy *p)
{
	for (size_t i = 0; i < p->n_envp; i++)
		cred_value_free(p->envp[i], SECRET_MAX + 1);
	free(p->envp);
	p->envp = NULL;
	p->n_envp = 0;
}

void brig_proxy_free(brig_proxy *p)
{
	struct brig_error ignored;

	if (!p)
		return;
	(void)brig_proxy_stop(p, NULL, &ignored);
	forget_values(p);
	(void)spec_free(p->spec);
	(void)spec_free(p->checked);
	(void)outcome_free(p->o);
	(void)fd_close(p->stop);
	(void)pthread_cond_destroy(&p->moved);
	(void)pthread_mutex_destroy(&p->lock);
	free(p->authority);
	free(p);
}

/* ---- settings ---- */

static int proxy_api_set(brig_proxy *p, const char *key, const char *value, struct brig_error *be)
{
	struct err e = { 0 };

	if (!key || !value)
		return error_missing(key ? "value" : "name of a setting", be);
	if (p->checked)
		(void)err_set(&e, ERR_USAGE, EBUSY, "this proxy was started already");
	else if (spec_set_key(p->spec, key, value, ORIGIN_API, &e) == 0)
		return 0;
	return proxy_api_fail(&e, be);
}

int brig_proxy_set(brig_proxy *p, const char *key, const char *value, struct brig_error *e)
{
	return proxy_api_set(p, key, value, e);
}

int brig_proxy_allow(brig_proxy *p, const char *rule, struct brig_error *e)
{
	return proxy_api_set(p, "egress.allow", rule, e);
}

int brig_proxy_port(brig_proxy *p, uint16_t port, struct brig_error *e)
{
	char text[8];

	(void)snprintf(text, sizeof(text), "%u", port);
	return proxy_api_set(p, "egress.port", text, e);
}

int brig_proxy_credential(brig_proxy *p, const char *name, const char *host, struct brig_error *be)
{
	struct err e = { 0 };

	if (!name || !host)
		return proxy_api_set(p, "use_credentials", name, be);
	if (p->checked)
		(void)err_set(&e, ERR_USAGE, EBUSY, "this proxy was started already");
	else if (credentials_declare(p->spec, name, host, &e) == 0)
		return 0;
	return proxy_api_fail(&e, be);
}

void brig_proxy_resolver(brig_proxy *p, brig_resolver_fn *fn, void *arg)
{
	p->resolve = fn;
	p->resolve_arg = arg;
}

void brig_proxy_on_denial(brig_proxy *p, brig_note_fn *fn, void *arg)
{
	p->denied = fn;
	p->denied_arg = arg;
}

/* ---- starting ---- */

/* NAME=value, as if it came from an environment; nothing when the resolver has none. */
static int resolve_one(brig_proxy *p, const char *name, struct err *e)
{
	char value[SECRET_MAX + 1];
	size_t len = strlen(name);
	char *line = NULL;
	int n = p->resolve(p->resolve_arg, name, value, sizeof(value)), r = 0;

	if (n >= 0 && (size_t)n + len + 1 > SECRET_MAX)
		r = err_set(e, ERR_CONFIG, E2BIG, "credential '%.60s': the value is too long",
			    name);
	else if (n < 0 && n != -ENOENT)
		r = err_errno(e, n, "credential '%.60s'", name);
	else if (n >= 0 && cred_value_new("", 0, &line, e) == 0) {
		memcpy(line, name, len);
		line[len] = '=';
		memcpy(line + len + 1, value, (size_t)n);
		line[len + 1 + (size_t)n] = '\0';
		p->envp[p->n_envp++] = line;
	} else if (n >= 0)
		r = -e->code;
	explicit_bzero(value, sizeof(value));
	return r;
}

/* The values of this run are the resolver's word alone: the environment is not looked at. */
static int resolve_all(brig_proxy *p, struct err *e)
{
	struct credentiallist granted = { 0 };
	const struct credential_spec *login;

	if (!p->resolve)
		return 0;
	if (credentials_granted(p->checked->arena, p->checked, &granted, e) < 0 ||
	    credential_login(p->checked, &login, e) < 0 ||
	    (login && credentials_add(p->checked->arena, &granted, login, e) < 0))
		return -e->code;
	p->envp = calloc(granted.n + 1, sizeof(*p->envp));
	if (!p->envp)
		return err_nomem(e);
	for (size_t i = 0; i < granted.n; i++)
		if (granted.v[i].from == FROM_ENVIRONMENT &&
		    resolve_one(p, granted.v[i].source.v[0], e) < 0)
			return -e->code;
	return 0;
}

static int proxy_api_check(brig_proxy *p, struct err *e)
{
	char *const self[] = { (char[]){ "proxy" } };
	const char *home = getenv("HOME");
	char cwd[PATH_MAX];
	struct place at = { .cwd = cwd, .home = home && home[0] == '/' ? home : NULL };

	if (p->checked)
		return err_set(e, ERR_USAGE, EBUSY, "this proxy was started already");
	if (!getcwd(cwd, sizeof(cwd)) || cwd[0] != '/')
		return err_sys(e, "the current folder is gone");
	p->checked = spec_clone(p->spec, e);
	p->o = outcome_new();
	if (!p->checked || !p->o)
		return err_nomem(e);
	if (spec_set_key(p->checked, "network", "proxy", ORIGIN_API, e) < 0 ||
	    spec_set_argv(p->checked, 1, self, e) < 0 || spec_check(p->checked, &at, e) < 0)
		return -e->code;
	return resolve_all(p, e);
}

static void move_to(brig_proxy *p, enum proxy_stage stage)
{
	(void)pthread_mutex_lock(&p->lock);
	p->stage = stage;
	(void)pthread_cond_broadcast(&p->moved);
	(void)pthread_mutex_unlock(&p->lock);
}

static int proxy_api_on_ready(void *arg, uint16_t port, const char *authority, struct err *e)
{
	brig_proxy *p = arg;

	p->port = port;
	(void)snprintf(p->url, sizeof(p->url), "http://127.0.0.1:%u", port);
	p->authority = strdup(authority);
	if (!p->authority)
		return err_nomem(e);
	move_to(p, SERVING);
	return 0;
}

static void on_denied(void *arg, const char *text)
{
	const brig_proxy *p = arg;

	if (p->denied)
		p->denied(p->denied_arg, text);
}

static void *proxy_api_serve(void *arg)
{
	brig_proxy *p = arg;

	(void)proxy_run(p->checked, p->envp ? p->envp : environ, -1, p->stop, proxy_api_on_ready,
			on_denied, p, p->o, &p->e);
	move_to(p, OVER);
	return NULL;
}

/* With every signal blocked: they are the program's. */
static int start_thread(brig_proxy *p, struct err *e)
{
	sigset_t all, old;
	int r;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &old);
	p->stage = STARTING;
	r = pthread_create(&p->thread, NULL, proxy_api_serve, p);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	p->threaded = r == 0;
	if (r == 0)
		return 0;
	errno = r;
	return err_sys(e, "no thread for the proxy");
}

int brig_proxy_start(brig_proxy *p, struct brig_error *be)
{
	struct err e = { 0 };
	enum proxy_stage stage;

	if (proxy_api_check(p, &e) < 0 || start_thread(p, &e) < 0)
		return proxy_api_fail(&e, be);
	(void)pthread_mutex_lock(&p->lock);
	while (p->stage == STARTING)
		(void)pthread_cond_wait(&p->moved, &p->lock);
	stage = p->stage;
	(void)pthread_mutex_unlock(&p->lock);
	forget_values(p);
	if (stage == SERVING)
		return 0;
	return brig_proxy_stop(p, NULL, be);
}

uint16_t brig_proxy_listens(const brig_proxy *p)
{
	return p->port;
}

const char *brig_proxy_url(const brig_proxy *p)
{
	return p->url;
}

const char *brig_proxy_authority(const brig_proxy *p)
{
	return p->authority;
}

int brig_proxy_stop(brig_proxy *p, brig_result **ret, struct brig_error *be)
{
	const uint64_t one = 1;

	if (ret)
		*ret = NULL;
	if (!p->threaded)
		return 0;
	(void)!write(p->stop, &one, sizeof(one));
	(void)pthread_join(p->thread, NULL);
	p->threaded = false;
	if (ret && !(*ret = result_new(p->o)))
		(void)err_nomem(&p->e);
	else if (ret)
		p->o = NULL;
	(void)outcome_free(TAKE_PTR(p->o));
	return p->e.code ? proxy_api_fail(&p->e, be) : 0;
}
