/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/api/route_dashboard.c - the dashboard: its address, its sessions, its pages. */
#include <stdio.h>
#include <string.h>

#include "base/bytes/random.h"
#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/text/str.h"
#include "daemon/api/api.h"
#include "daemon/dashboard/assets.h"
#include "http/tcp_listen.h"

#define LAPSE_US ((uint64_t)1000000)
#define CODE_SECONDS 60
#define PORTS_TRIED 64

static void dashboard_refuse(struct http_call *c, enum problem p, const char *what,
			     const char *hint)
{
	struct err e;

	(void)problem_say(p, &e, "%s", what);
	if (hint)
		(void)err_hint(&e, "%s", hint);
	http_problem(c, p, &e);
}

/* ---- the listener ---- */

static void on_lapse(struct loop_timer *t, uint64_t now)
{
	struct api *a = CONTAINER_OF(t, struct api, lapse);

	api_revoke(a);
	loop_at(a->loop, t, now + LAPSE_US);
}

/* A browser tries [::1] first, where anybody of this machine could listen with the same port, be
 * taken for us and be given the code: that one is ours as well. -1 in six: there is no IPv6. */
static int open_both(unsigned port, int *four, int *six, char authority[TCP_AUTHORITY],
		     struct err *e)
{
	char where[32], other[TCP_AUTHORITY];
	CLEANUP(fd) int fd = -1;

	(void)snprintf(where, sizeof(where), "127.0.0.1:%u", port);
	fd = tcp_listen(where, "use ssh -L", authority, e);
	if (fd < 0)
		return fd;
	(void)snprintf(where, sizeof(where), "[::1]%.8s", strrchr(authority, ':'));
	*six = tcp_listen(where, "use ssh -L", other, e);
	if (*six < 0 && e->code != EADDRNOTAVAIL && e->code != EAFNOSUPPORT)
		return -e->code;
	*four = TAKE_FD(fd);
	return 0;
}

static int listen_here(struct api *a, uint64_t port, struct err *e)
{
	char authority[TCP_AUTHORITY];
	int four = -1, six = -1, r = -EADDRINUSE;

	if (!a->sessions)
		a->sessions = calloc(1, sizeof(*a->sessions));
	if (!a->sessions)
		return err_nomem(e);
	if (random_hex(a->sessions->key, sizeof(a->sessions->key), e) < 0)
		return -e->code;
	for (int i = 0; i < (port ? 1 : PORTS_TRIED) && r == -EADDRINUSE; i++)
		r = open_both((unsigned)port, &four, &six, authority, e);
	if (r < 0)
		return r;
	if (six >= 0 && http_listen_pages(a->http, six, authority, e) < 0) {
		(void)fd_close(four);
		return -e->code;
	}
	if (http_listen_pages(a->http, four, authority, e) < 0)
		return -e->code;
	a->page_port = (uint16_t)strtoul(strrchr(authority, ':') + 1, NULL, 10);
	a->lapse.due = on_lapse;
	loop_at(a->loop, &a->lapse, clock_us() + LAPSE_US);
	return 0;
}

/* false: it was answered. */
static bool listens(struct api *a, struct http_call *c, const struct jread *body)
{
	int64_t port = jread_int(body, "port", 0);
	struct err e = { 0 };

	if (port < 0 || port > UINT16_MAX || (port && !c->caller->local)) {
		dashboard_refuse(c, PROBLEM_INVALID, "'port' is no port, or not yours to choose",
				 NULL);
		return false;
	}
	if (a->page_port && port && a->page_port != port) {
		dashboard_refuse(c, PROBLEM_CONFLICT,
				 "the dashboard listens on another port already",
				 "brig dashboard without --port; or restart the daemon");
		return false;
	}
	if (!a->page_port && listen_here(a, (uint64_t)port, &e) < 0) {
		http_problem(c, problem_of(&e), &e);
		return false;
	}
	return true;
}

/* POST /v1/dashboard */
void serve_dashboard(struct api *a, struct http_call *c, const struct jread *body)
{
	CLEANUP(buf) struct buf b = BUF_INIT(4096);
	struct session_for who = { .scopes = SCOPE_READ, .by_token = !c->caller->local };
	bool admin = jread_bool(body, "admin");
	char code[SESSION_SECRET], name[SESSION_NAME], url[256];
	struct err e = { 0 };
	struct json j;

	if (admin && !api_is_owner(c)) {
		dashboard_refuse(c, PROBLEM_FORBIDDEN,
				 "changes are the owner's, over the daemon's socket", NULL);
		return;
	}
	memcpy(who.tenant, c->caller->tenant, sizeof(who.tenant));
	memcpy(who.digest, c->caller->digest, sizeof(who.digest));
	if (admin)
		who.scopes |= SCOPE_ADMIN;
	if (!listens(a, c, body))
		return;
	if (sessions_code(a->sessions, &who, clock_us(), code, &e) < 0) {
		http_problem(c, e.code == EBUSY ? PROBLEM_QUOTA : PROBLEM_INTERNAL, &e);
		return;
	}
	sessions_name(a->sessions, who.tenant, name);
	(void)snprintf(url, sizeof(url), "http://" PAGE_HOST "/#code=%s", name, a->page_port, code);
	json_init(&j, &b, false);
	json_object(&j);
	json_kstr(&j, "url", url);
	json_ku64(&j, "expires_s", CODE_SECONDS);
	json_object_end(&j);
	api_answer_json(c, 200, &b);
}

/* ---- sessions ---- */

static void put_session(const struct session_for *who, uint64_t seconds, struct buf *b)
{
	struct json j;

	json_init(&j, b, false);
	json_object(&j);
	json_kstr(&j, "tenant", who->tenant[0] ? who->tenant : NULL);
	json_kbool(&j, "admin", who->scopes & SCOPE_ADMIN);
	json_ku64(&j, "expires_s", seconds);
	json_kstr(&j, "version", BRIG_VERSION);
	json_object_end(&j);
}

/* POST /v1/dashboard/session */
void serve_enter(struct api *a, struct http_call *c, const struct jread *body)
{
	CLEANUP(buf) struct buf b = BUF_INIT(4096);
	const char *code = jread_str(body, "code");
	char tenant[TENANT_SIZE], cookie[SESSION_SECRET], field[256];
	const struct page_session *s;
	uint64_t seconds = 0;
	struct err e = { 0 };

	if (!code || !api_page_of(a, c, tenant) ||
	    sessions_enter(a->sessions, tenant, code, clock_us(), cookie, &seconds, &e) < 0) {
		http_refuse(c, 401, NULL, PROBLEM_UNAUTHENTICATED, &e);
		return;
	}
	s = sessions_find(a->sessions, cookie, strlen(cookie), clock_us());
	if (s)
		put_session(&s->who, seconds, &b);
	(void)snprintf(field, sizeof(field),
		       "Set-Cookie: " SESSION_COOKIE
		       "%s; HttpOnly; SameSite=Strict; Path=/; Max-Age=%llu\r\n",
		       cookie, (unsigned long long)seconds);
	http_answer(c, 200, field, "application/json", buf_str(&b), b.len);
}

void serve_session(struct api *a, struct http_call *c, const struct jread *body UNUSED)
{
	CLEANUP(buf) struct buf b = BUF_INIT(4096);
	const struct page_session *s = sessions_holds(a->sessions, c->caller->digest, clock_us());

	if (s)
		put_session(&s->who, (s->until - clock_us()) / 1000000, &b);
	api_answer_json(c, 200, &b);
}

void serve_leave(struct api *a, struct http_call *c, const struct jread *body UNUSED)
{
	sessions_leave(a->sessions, c->caller->digest);
	http_answer(c, 204,
		    "Set-Cookie: " SESSION_COOKIE "; HttpOnly; SameSite=Strict; Path=/; "
		    "Max-Age=0\r\n",
		    NULL, NULL, 0);
}

/* ---- pages ---- */

void serve_asset(struct api *a UNUSED, struct http_call *c, const struct jread *body UNUSED)
{
	for (const struct asset *x = dashboard_assets; x->path; x++)
		if (str_eq(x->path, c->path)) {
			http_answer(c, 200, NULL, x->type, x->data, x->n);
			return;
		}
	dashboard_refuse(c, PROBLEM_NOT_FOUND, "there is no such page", NULL);
}
