/* SPDX-License-Identifier: Apache-2.0 */
/* apps/chat/chat_line.c - the door to a model: its settings, its socket, its thread. */

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "apps/chat/chat_internal.h"
#include "base/bytes/random.h"
#include "base/files/fd.h"
#include "base/files/state.h"
#include "base/sys/clock.h"
#include "base/text/str.h"
#include "model/dialect/credentials.h"
#include "sandbox/proxy.h"

enum line_stage { STARTING, SERVING, OVER };

struct chat_line {
	struct spec *spec; /* the door's */
	struct chat_endpoint to;
	char field[512]; /* the line with the placeholder; "": none */
	int listening;   /* the door's socket */
	int place;       /* its node, which has no name */
	int stop;
	note_fn *note;
	void *note_arg;
	struct outcome *o;
	pthread_t thread;
	bool threaded;

	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t moved;
	enum line_stage stage;
	struct err e;
};

/* ---- the door's settings ---- */

static int chat_line_set(struct spec *s, const char *key, const char *value, struct err *e)
{
	return spec_set_key(s, key, value, ORIGIN_API, e);
}

static int inherit_login(struct spec *d, const struct spec *s, struct err *e)
{
	const struct credential_spec *c;

	if (credential_login(s, &c, e) < 0)
		return -e->code;
	if (!c)
		return 0;
	d->origin[FIELD_CREDENTIALS] = ORIGIN_API;
	return chat_line_set(d, "egress.upstream_login", c->name, e) < 0
		       ? -e->code
		       : credentials_add(d->arena, &d->credentials, c, e);
}

/* What is the machine's, or its user's, and not one sandbox's. */
static int inherit(struct spec *d, const struct spec *s, struct err *e)
{
	char pair[512];

	d->audit = s->audit;
	d->leaks = s->leaks;
	for (size_t i = 0; i < s->egress.roots.n; i++)
		if (chat_line_set(d, "egress.roots", s->egress.roots.v[i], e) < 0)
			return -e->code;
	for (size_t i = 0; i < s->egress.resolve.n; i++) {
		(void)snprintf(pair, sizeof(pair), "%s=%s", s->egress.resolve.v[i].name,
			       s->egress.resolve.v[i].value);
		if (chat_line_set(d, "egress.resolve", pair, e) < 0)
			return -e->code;
	}
	for (size_t i = 0; i < s->egress.direct.n; i++)
		if (chat_line_set(d, "egress.direct", s->egress.direct.v[i], e) < 0)
			return -e->code;
	if (!s->egress.upstream_proxy)
		return 0;
	return chat_line_set(d, "egress.upstream_proxy", s->egress.upstream_proxy, e) < 0
		       ? -e->code
		       : inherit_login(d, s, e);
}

static int chat_line_allow(struct spec *d, const struct chat_endpoint *to, struct err *e)
{
	char rule[URL_HOST_SIZE + 1100], pair[128];

	(void)snprintf(rule, sizeof(rule), "POST %s:%u%s", to->host, to->port, to->path);
	(void)snprintf(pair, sizeof(pair), CHAT_NAME "=%s", to->pin);
	if (chat_line_set(d, "network", "proxy", e) < 0 ||
	    chat_line_set(d, "egress.allow", rule, e) < 0 ||
	    (to->pin[0] && chat_line_set(d, "egress.resolve", pair, e) < 0))
		return -e->code;
	return to->tls ? 0 : chat_line_set(d, "egress.https_only", "false", e);
}

/* A role can name any variable, and any server: together they are the user's to agree to. */
static int check_key(const struct spec *s, const struct chat_endpoint *to, struct err *e)
{
	if (s->chat.url_given || s->config_trusted || chat_endpoint_known(to))
		return 0;
	(void)err_set(e, ERR_CONFIG, EPERM, "the role would have %.60s sent to %.200s", to->key,
		      to->host);
	return err_hint(e,
			"brig allow FILE, if you know whose role it is; or --base-url URL; or "
			"declare the credential %.60s for that host (brig config --help)",
			to->key);
}

static int grant(struct chat_line *l, const struct spec *s, struct err *e)
{
	const char *name = l->to.key;
	const struct credential_spec *c = name ? credential_find(&s->credentials, name) : NULL;
	char host[URL_HOST_SIZE + 8];

	if (!name)
		return 0;
	if (!c && check_key(s, &l->to, e) < 0)
		return -e->code;
	(void)snprintf(host, sizeof(host), "%s:%u", l->to.host, l->to.port);
	if (c) {
		l->spec->origin[FIELD_CREDENTIALS] = ORIGIN_API;
		if (credentials_add(l->spec->arena, &l->spec->credentials, c, e) < 0)
			return -e->code;
	} else if (credentials_declare(l->spec, name, host, e) < 0) {
		return -e->code;
	}
	c = &l->spec->credentials.v[l->spec->credentials.n - 1];
	if (c->slot != SLOT_HEADER)
		return err_refuse(e, ERR_CONFIG, EINVAL, "give it a header",
				  "credential '%.60s' cannot be a model's key", name);
	(void)snprintf(l->field, sizeof(l->field), "%s: %s{%s}\r\n", c->field,
		       c->prefix ? c->prefix : "", name);
	return 0;
}

static int chat_line_settle(struct chat_line *l, const struct spec *s, struct err *e)
{
	char *const self[] = { (char[]){ "agent" } };
	const char *home = getenv("HOME");
	char cwd[PATH_MAX];
	struct place at = { .cwd = cwd, .home = home && home[0] == '/' ? home : NULL };

	if (!getcwd(cwd, sizeof(cwd)) || cwd[0] != '/')
		return err_sys(e, "the current folder is gone");
	l->spec = spec_new(e);
	if (!l->spec || chat_endpoint(&s->chat, &l->to, e) < 0 || inherit(l->spec, s, e) < 0 ||
	    chat_line_allow(l->spec, &l->to, e) < 0 || grant(l, s, e) < 0)
		return -e->code;
	if (spec_set_argv(l->spec, 1, self, e) < 0)
		return -e->code;
	return spec_check(l->spec, &at, e);
}

/* ---- the socket ---- */

/* It has a name for as long as it takes to open it: connecting goes by the node. */
static int listen_nameless(struct chat_line *l, struct err *e)
{
	CLEANUP(fd) int folder = state_open("run", NULL, 0, e);
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	char name[33];

	if (folder < 0 || random_hex(name, sizeof(name), e) < 0)
		return -e->code;
	(void)snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d/%s", folder, name);
	l->listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (l->listening < 0 || bind(l->listening, (struct sockaddr *)&a, sizeof(a)) < 0)
		return err_sys(e, "cannot make the socket to the door");
	l->place = openat(folder, name, O_PATH | O_CLOEXEC | O_NOFOLLOW);
	if (unlinkat(folder, name, 0) < 0 || l->place < 0 || listen(l->listening, 8) < 0)
		return err_sys(e, "cannot make the socket to the door");
	return 0;
}

/* ---- the thread ---- */

static void move_to(struct chat_line *l, enum line_stage stage)
{
	(void)pthread_mutex_lock(&l->lock);
	l->stage = stage;
	(void)pthread_cond_broadcast(&l->moved);
	(void)pthread_mutex_unlock(&l->lock);
}

static int chat_line_on_ready(void *arg, uint16_t port UNUSED, const char *authority UNUSED,
			      struct err *e UNUSED)
{
	move_to(arg, SERVING);
	return 0;
}

static void on_denied(void *arg, const char *text)
{
	const struct chat_line *l = arg;

	if (l->note)
		l->note(l->note_arg, text);
}

static void *chat_line_serve(void *arg)
{
	struct chat_line *l = arg;

	(void)proxy_run(l->spec, environ, l->listening, l->stop, chat_line_on_ready, on_denied, l,
			l->o, &l->e);
	move_to(l, OVER);
	return NULL;
}

static int chat_line_start(struct chat_line *l, struct err *e)
{
	sigset_t all, old;
	int r;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(&l->thread, NULL, chat_line_serve, l);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (r != 0)
		return err_errno(e, r, "no thread for the door");
	l->threaded = true;
	(void)pthread_mutex_lock(&l->lock);
	while (l->stage == STARTING)
		(void)pthread_cond_wait(&l->moved, &l->lock);
	r = l->stage == SERVING ? 0 : -1;
	(void)pthread_mutex_unlock(&l->lock);
	if (r < 0)
		*e = l->e;
	return r < 0 ? -e->code : 0;
}

/* The worker has it now. What of it was in this process's environment is gone, also from /proc. */
static void forget_variable(const char *name)
{
	char *value = name ? getenv(name) : NULL;

	if (value)
		explicit_bzero(value, strlen(value));
}

/* Its own variable, and that which the user's files take it from. */
static void forget_key(const struct chat_line *l)
{
	const struct credential_spec *c =
		l->spec->credentials.n ? &l->spec->credentials.v[0] : NULL;

	forget_variable(l->to.key);
	for (size_t i = 0; c && c->from == FROM_ENVIRONMENT && i < c->source.n; i++)
		forget_variable(c->source.v[i]);
}

int chat_line_open(const struct spec *s, note_fn *note, void *arg, struct chat_line **ret,
		   struct err *e)
{
	CLEANUP(chat_line) struct chat_line *l = calloc(1, sizeof(*l));

	if (!l)
		return err_nomem(e);
	l->listening = l->place = l->stop = -1;
	l->note = note;
	l->note_arg = arg;
	(void)pthread_mutex_init(&l->lock, NULL);
	(void)pthread_cond_init(&l->moved, NULL);
	l->o = outcome_new();
	l->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (!l->o || l->stop < 0)
		return err_nomem(e);
	if (chat_line_settle(l, s, e) < 0 || listen_nameless(l, e) < 0 || chat_line_start(l, e) < 0)
		return -e->code;
	forget_key(l);
	*ret = TAKE_PTR(l);
	return 0;
}

struct chat_line *chat_line_close(struct chat_line *l)
{
	const uint64_t one = 1;

	if (!l)
		return NULL;
	if (l->threaded) {
		(void)!write(l->stop, &one, sizeof(one));
		(void)pthread_join(l->thread, NULL);
	}
	(void)fd_close(l->listening);
	(void)fd_close(l->place);
	(void)fd_close(l->stop);
	(void)outcome_free(l->o);
	(void)spec_free(l->spec);
	(void)pthread_cond_destroy(&l->moved);
	(void)pthread_mutex_destroy(&l->lock);
	free(l);
	return NULL;
}

const char *chat_line_key(const struct chat_line *l)
{
	return l->to.key;
}

const char *chat_line_field(const struct chat_line *l)
{
	return l->field;
}

const struct chat_endpoint *chat_line_to(const struct chat_line *l)
{
	return &l->to;
}

int chat_line_place(const struct chat_line *l)
{
	return l->place;
}
