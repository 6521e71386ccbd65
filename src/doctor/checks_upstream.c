/* SPDX-License-Identifier: Apache-2.0 */
/* doctor/checks_upstream.c - the proxy that this machine must use: does it let one host through?
 *
 * The door itself asks it, as for a run, and sends one request without a body or anything of the
 * user's: to the first host that the rules name, else to one that is there for examples. */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/sys/wait.h"
#include "doctor/machine.h"
#include "egress/monitor.h"
#include "egress/proxy_hint.h"
#include "model/dialect/credentials.h"
#include "model/settings/rule.h"

#define NOBODYS_HOST "example.com"

/* Only names and settings that lead to the proxy: no other credential, and no other host. */
struct proxy_trial {
	struct spec *spec;
	const char *host;
	bool without_login; /* a command would have to be run for it */
};

static const char *host_of(struct arena *a, const struct spec *from)
{
	for (size_t i = 0; i < from->egress.allow.n; i++) {
		struct err unused;
		struct rule r;

		if (rule_parse(a, from->egress.allow.v[i], &r, &unused) == 0 && r.host &&
		    r.host[0] != '*' && !r.n_ports && !rule_is_narrow(&r))
			return r.host;
	}
	return NOBODYS_HOST;
}

static int take_login(struct proxy_trial *t, const struct spec *from, struct err *e)
{
	const struct credential_spec *c;

	if (credential_login(from, &c, e) < 0)
		return -e->code;
	t->without_login = c && c->from == FROM_COMMAND;
	if (!c || t->without_login)
		return 0;
	t->spec->origin[FIELD_CREDENTIALS] = ORIGIN_API;
	return spec_set_key(t->spec, "egress.upstream_login", c->name, ORIGIN_API, e) < 0
		       ? -e->code
		       : credentials_add(t->spec->arena, &t->spec->credentials, c, e);
}

static int trial_settle(struct proxy_trial *t, const struct spec *from, struct err *e)
{
	struct spec *s = t->spec;

	for (size_t i = 0; i < from->egress.roots.n; i++)
		if (spec_set_key(s, "egress.roots", from->egress.roots.v[i], ORIGIN_API, e) < 0)
			return -e->code;
	t->host = host_of(s->arena, from);
	return spec_set_key(s, "network", "proxy", ORIGIN_API, e) < 0 ||
			       spec_set_key(s, "egress.upstream_proxy", from->egress.upstream_proxy,
					    ORIGIN_API, e) < 0 ||
			       spec_set_key(s, "egress.allow", t->host, ORIGIN_API, e) < 0 ||
			       take_login(t, from, e) < 0
		       ? -e->code
		       : 0;
}

/* A name that the kernel chooses; it has no file. */
static int listen_own(struct sockaddr_un *a, socklen_t *n, struct err *e)
{
	CLEANUP(fd) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	*a = (struct sockaddr_un){ .sun_family = AF_UNIX };
	*n = sizeof(*a);
	if (fd < 0 || bind(fd, (const struct sockaddr *)a, sizeof(a->sun_family)) < 0 ||
	    listen(fd, 1) < 0 || getsockname(fd, (struct sockaddr *)a, n) < 0)
		return err_sys(e, "cannot make a socket");
	return TAKE_FD(fd);
}

static int send_request(const struct proxy_trial *t, const struct sockaddr_un *a, socklen_t n,
			struct err *e)
{
	CLEANUP(fd) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char text[600];
	int len = snprintf(text, sizeof(text),
			   "HEAD https://%s/ HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n",
			   t->host, t->host);

	if (fd < 0 || connect(fd, (const struct sockaddr *)a, n) < 0 ||
	    fd_write_all(fd, text, (size_t)len) < 0)
		return err_sys(e, "cannot ask the door");
	return TAKE_FD(fd);
}

/* What the worker tells of the request: 0 when it went through. */
static int hear(struct egress *g, uint64_t until, struct err *e)
{
	struct egress_event ev;
	int fd;

	while ((fd = egress_fd(g)) >= 0 && clock_us() < until) {
		switch (egress_next(g, &ev)) {
		case EGRESS_QUIET:
			(void)wait_fd(fd, POLLIN, clock_after(100));
			continue;
		case EGRESS_GONE:
			return err_set(e, ERR_UNAVAILABLE, EPIPE, "the door is gone");
		case EGRESS_NEWS:
			break;
		}
		if (ev.kind == EGRESS_EVENT_UNREACHED || ev.kind == EGRESS_EVENT_DENY)
			return err_refuse(e, ERR_UNAVAILABLE, ECONNREFUSED,
					  ev.hint[0] ? ev.hint : "look at egress.upstream_proxy",
					  "%.400s", ev.what);
		if (ev.kind == EGRESS_EVENT_DONE && ev.status)
			return 0;
	}
	return err_refuse(e, ERR_UNAVAILABLE, ETIMEDOUT, "are its name and port right?",
			  "egress.upstream_proxy did not answer in time");
}

static int ask_chain(struct proxy_trial *t, struct err *e)
{
	CLEANUP(egress) struct egress *g = NULL;
	CLEANUP(fd) int own = -1;
	CLEANUP(fd) int asking = -1;
	const struct door_socket what = { .kind = DOOR_OWN };
	struct sockaddr_un a;
	socklen_t n;

	own = listen_own(&a, &n, e);
	if (own < 0 || egress_start(t->spec, environ, &g, e) < 0 || !egress_authority(g, e) ||
	    egress_attach(g, &what, &own, 1, e) < 0 || egress_await(g, 2 * HEALTH_MS, e) < 0)
		return -e->code;
	asking = send_request(t, &a, n, e);
	return asking < 0 ? -e->code : hear(g, clock_after(2 * HEALTH_MS), e);
}

static void say_none(const struct machine *m, struct finding *f)
{
	bool needed = m->spec && m->spec->network == NETWORK_PROXY;
	char hint[PROXY_HINT_SIZE];

	if (!proxy_hint(environ, hint)) {
		finding_say(f, CHECK_SKIP, "none is set: hosts are reached directly");
		return;
	}
	finding_say(f, needed ? CHECK_WARN : CHECK_SKIP,
		    "none is set, and the environment names one");
	if (needed)
		finding_hint(f, "%s", hint);
}

void check_upstream_proxy(struct machine *m, struct finding *f)
{
	CLEANUP(spec) struct spec *s = NULL;
	struct proxy_trial t = { 0 };
	struct err e = { 0 };

	if (!m->spec || !m->spec->egress.upstream_proxy || !*m->spec->egress.upstream_proxy) {
		say_none(m, f);
		return;
	}
	s = t.spec = spec_new(&e);
	if (s && trial_settle(&t, m->spec, &e) == 0 && ask_chain(&t, &e) == 0) {
		finding_say(f, CHECK_PASS, "%.200s lets %s through", m->spec->egress.upstream_proxy,
			    t.host);
		return;
	}
	say_error(f, m->spec->network == NETWORK_PROXY ? CHECK_FAIL : CHECK_WARN, &e);
	if (t.without_login)
		finding_hint(f, "tried without egress.upstream_login, which a command gives: a "
				"run asks it");
}
