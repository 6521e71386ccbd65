/* SPDX-License-Identifier: Apache-2.0 */
/* apps/mcp/mcp_http.c - see mcp_http.h: who calls, of which era a message is, whose session.
 *
 * By its head alone a call is taken or not: the address that it names, the page that it comes from,
 * its token. There is one path. */
#include "apps/mcp/mcp_http.h"

#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "apps/mcp/mcp_http_internal.h"
#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/text/str.h"
#include "http/tcp_listen.h"

#define PATH "/mcp"
#define REVOKE_US ((uint64_t)1000 * 1000)
#define SCHEME "Bearer "
#define LONE "http" /* the tenant of a token that is in no file */

/* ---- who ---- */

/* "localhost:PORT" is as good as the address itself. */
static bool is_here(const struct http_call *c, struct http1_text t)
{
	const char *authority = http_authority(c), *colon = strrchr(authority, ':');
	char named[TCP_AUTHORITY];

	(void)snprintf(named, sizeof(named), "localhost%s", colon ? colon : "");
	return http1_text_is(t, authority) || http1_text_is(t, named);
}

/* A page of a name that was led here says that name; one of another server says its own. */
static bool comes_from_here(const struct http_call *c)
{
	static const char scheme[] = "http://";
	size_t n = http1_count(c->head->fields, c->head->n_fields, "Origin");
	struct http1_text t = http_field(c, "Origin");

	if (!is_here(c, c->head->host))
		return false;
	return !n ||
	       (t.p && t.n > sizeof(scheme) - 1 && memcmp(t.p, scheme, sizeof(scheme) - 1) == 0 &&
		is_here(c, (struct http1_text){ t.p + sizeof(scheme) - 1,
						t.n - (sizeof(scheme) - 1) }));
}

static bool by_token(struct mcp_http *h, struct http_call *c)
{
	struct http1_text t = http_field(c, "Authorization");
	const struct token *found = NULL;

	c->caller->known = false;
	if (t.p && t.n > sizeof(SCHEME) - 1 && strncasecmp(t.p, SCHEME, sizeof(SCHEME) - 1) == 0)
		found = tokens_find(h->tokens, t.p + sizeof(SCHEME) - 1,
				    t.n - (sizeof(SCHEME) - 1));
	if (!found)
		return http_turn_away(
			c, PROBLEM_UNAUTHENTICATED,
			"send Authorization: Bearer TOKEN, the one that brig mcp --http has "
			"printed or one of its --token-file",
			t.p ? "the token is not known" : "there is no token");
	if (!(found->scopes & SCOPE_RUN))
		return http_turn_away(c, PROBLEM_FORBIDDEN, NULL,
				      "the token's scopes do not include this");
	if (found->ceiling || found->sandboxes)
		return http_turn_away(
			c, PROBLEM_FORBIDDEN,
			"give it a token without ceiling= and sandboxes=; brig mcp's own settings "
			"bound all",
			"the token has a ceiling or a number of sandboxes of its own, which only "
			"the daemon applies");
	(void)snprintf(c->caller->tenant, sizeof(c->caller->tenant), "%s", found->tenant);
	memcpy(c->caller->digest, found->digest, sizeof(c->caller->digest));
	c->caller->known = true;
	return http_count(c, found->tenant) ||
	       http_turn_away(c, PROBLEM_QUOTA, NULL, "this token has too many connections");
}

/* ---- what ---- */

static bool is_json(const struct http_call *c)
{
	struct http1_text t = http_field(c, "Content-Type");
	const char *semicolon = t.p ? memchr(t.p, ';', t.n) : NULL;
	size_t n = semicolon ? (size_t)(semicolon - t.p) : t.n;

	while (t.p && n && t.p[n - 1] == ' ')
		n--;
	return t.p && http1_text_is((struct http1_text){ t.p, n }, "application/json");
}

static bool refuse_with(struct http_call *c, int status, const char *lines, const char *what)
{
	struct err e;

	(void)problem_say(PROBLEM_INVALID, &e, "%s", what);
	http_last(c);
	http_refuse(c, status, lines, PROBLEM_INVALID, &e);
	return false;
}

static bool method_is(const struct http_call *c, const char *method)
{
	return c->head->method.n == strlen(method) &&
	       memcmp(c->head->method.p, method, c->head->method.n) == 0;
}

static bool admit(void *arg, struct http_call *c)
{
	if (!comes_from_here(c))
		return http_turn_away(c, PROBLEM_FORBIDDEN,
				      "name the address that brig mcp listens on",
				      "the Host or Origin field names another server");
	if (!by_token(arg, c))
		return false;
	if (!str_eq(c->path, PATH))
		return http_turn_away(c, PROBLEM_NOT_FOUND, "POST " PATH, "there is nothing here");
	c->body_max = 0;
	if (method_is(c, "DELETE"))
		return true;
	if (!method_is(c, "POST"))
		return refuse_with(c, 405, "Allow: POST, DELETE\r\n",
				   "messages are sent by POST, and answered there");
	c->body_max = RPC_MESSAGE_MAX;
	return is_json(c) || refuse_with(c, 415, NULL, "the body must be application/json");
}

/* ---- messages ---- */

static bool is_modern(const struct http_call *c, const struct rpc_message *m)
{
	const struct jread *meta = jread_get(m->params, "_meta");

	return header_says(http_field(c, "MCP-Protocol-Version"), MCP_MODERN) ||
	       jread_get(meta, "io.modelcontextprotocol/protocolVersion") ||
	       jread_get(meta, "io.modelcontextprotocol/clientCapabilities");
}

/* The session that a message of the older era names, or begins. NULL: it was answered. */
static struct mcp_session *session_of(struct mcp_tenant *t, struct http_call *c,
				      const struct rpc_message *m)
{
	struct http1_text id = http_field(c, "Mcp-Session-Id"),
			  version = http_field(c, "MCP-Protocol-Version");
	struct mcp_session *s;
	struct err e = { 0 };

	if (version.p && !version_known(version)) {
		exchange_refuse(c, 400, m->id, RPC_VERSION, "Unsupported protocol version",
				"{\"supported\":[\"" MCP_MODERN "\",\"" MCP_LEGACY "\"]}");
		return NULL;
	}
	if (m->kind == RPC_IS_REQUEST && str_eq(m->method, "initialize")) {
		s = session_new(t, &e);
		if (!s)
			exchange_refuse(c, 503, m->id, RPC_INTERNAL, e.what, NULL);
		return s;
	}
	s = session_find(t, id);
	if (!s)
		exchange_refuse(c, id.p ? 404 : 400, m->id, id.p ? RPC_SESSION : RPC_REQUEST,
				id.p ? "there is no such session: say initialize"
				     : "Mcp-Session-Id is missing: say initialize first",
				NULL);
	return s;
}

static void cancel(struct mcp_http *h, const struct mcp_session *s, const struct rpc_message *m)
{
	for (struct mcp_exchange *x = h->exchanges, *next; x; x = next) {
		next = x->next;
		if (x->session != s || x->over)
			continue;
		mcp_take(x->peer, m);
		exchange_drop(x);
	}
}

static void serve_message(struct mcp_http *h, struct http_call *c, struct mcp_tenant *t,
			  const struct rpc_message *m)
{
	const bool modern = is_modern(c, m);
	struct mcp_session *s = NULL;
	struct mcp_exchange *x;
	const char *why = NULL;
	int code;

	if (!modern && !(s = session_of(t, c, m)))
		return;
	if (m->kind != RPC_IS_REQUEST) {
		if (s && m->kind == RPC_IS_NOTIFICATION &&
		    str_eq(m->method, "notifications/cancelled"))
			cancel(h, s, m);
		http_answer(c, 202, NULL, NULL, "", 0);
		return;
	}
	code = modern ? headers_check(c->head, m, &why) : 0;
	if (code) {
		exchange_refuse(c, 400, m->id, code, why, NULL);
		return;
	}
	x = exchange_new(h, c, t, s);
	if (!x)
		return;
	if (!modern && str_eq(m->method, "initialize"))
		(void)snprintf(x->fields, sizeof(x->fields), "Mcp-Session-Id: %s\r\n", s->id);
	mcp_take(x->peer, m);
}

static void end_session(struct mcp_http *h, struct http_call *c, struct mcp_tenant *t)
{
	struct mcp_session *s = session_find(t, http_field(c, "Mcp-Session-Id"));

	if (!s) {
		exchange_refuse(c, http_field(c, "Mcp-Session-Id").p ? 404 : 400, "", RPC_SESSION,
				"there is no such session", NULL);
		return;
	}
	for (struct mcp_exchange *x = h->exchanges, *next; x; x = next) {
		next = x->next;
		if (x->session != s)
			continue;
		x->peer = mcp_peer_free(x->peer);
		exchange_drop(x);
		x->session = NULL;
	}
	session_free(t, s);
	http_answer(c, 204, NULL, NULL, "", 0);
}

static void mcp_http_serve(void *arg, struct http_call *c)
{
	CLEANUP(rpc) struct rpc_message m = { 0 };
	struct mcp_http *h = arg;
	struct mcp_tenant *t;
	const char *why = NULL;
	struct err e = { 0 };
	int code;

	/* The token may have been taken back while the body came. */
	if (!by_token(h, c))
		return;
	t = tenant_of(h, c->caller->tenant, &e);
	if (!t) {
		http_problem(c, PROBLEM_QUOTA, &e);
		return;
	}
	if (method_is(c, "DELETE")) {
		end_session(h, c, t);
		return;
	}
	code = rpc_parse(c->body, c->body_len, &m, &why);
	if (code)
		exchange_refuse(c, 400, m.id, code, why, NULL);
	else
		serve_message(h, c, t, &m);
}

/* ---- life ---- */

static bool still_may(void *arg, const struct http_call *c)
{
	struct mcp_http *h = arg;

	return tokens_holds(h->tokens, c->caller->digest, c->caller->tenant, SCOPE_RUN);
}

static void on_revoke(struct loop_timer *t, uint64_t now)
{
	struct mcp_http *h = CONTAINER_OF(t, struct mcp_http, revoke);

	http_revoke(h->http, still_may, h);
	loop_at(h->loop, t, now + REVOKE_US);
}

static void mcp_http_on_signal(struct loop_watch *w, uint32_t events UNUSED)
{
	loop_stop(((struct mcp_http *)w)->loop);
}

static void mcp_http_settle(void *arg)
{
	http_settle(arg);
}

static int mcp_http_begin(struct mcp_http *h, const struct mcp_http_options *o, struct err *e)
{
	const struct http_service by = { .admit = admit, .serve = mcp_http_serve, .arg = h };
	char authority[TCP_AUTHORITY], url[TCP_AUTHORITY + 16], token[TOKEN_SIZE] = "";
	CLEANUP(fd) int fd = -1;

	if ((o->token_file ? tokens_open(o->token_file, &h->tokens, e)
			   : tokens_lone(LONE, token, &h->tokens, e)) < 0)
		return -e->code;
	/* What no sandbox can honour stops the server, not the first call. */
	if (loop_new(&h->loop, e) < 0 || http_new(h->loop, &by, &h->http, e) < 0 ||
	    (!o->token_file && !tenant_of(h, LONE, e)))
		return -e->code;
	fd = tcp_listen(o->listen,
			"listen on 127.0.0.1; from elsewhere by ssh -L, or behind something that "
			"speaks TLS",
			authority, e);
	if (fd < 0 || http_listen(h->http, TAKE_FD(fd), false, authority, e) < 0)
		return -e->code;
	h->signals = (struct loop_watch){ .fd = o->signals, .ready = mcp_http_on_signal };
	if (o->signals >= 0 && loop_want(h->loop, &h->signals, EPOLLIN) < 0)
		return err_set(e, ERR_INTERNAL, EIO, "cannot wait for signals");
	h->revoke.due = on_revoke;
	loop_at(h->loop, &h->revoke, clock_us() + REVOKE_US);
	(void)snprintf(url, sizeof(url), "http://%s" PATH, authority);
	if (o->listens)
		o->listens(url, token);
	return 0;
}

int mcp_http(const struct spec *s, const struct mcp_http_options *o, struct err *e)
{
	struct mcp_http h = { .spec = s, .daemon = o->daemon };
	int r = mcp_http_begin(&h, o, e);

	if (r == 0)
		loop_run(h.loop, mcp_http_settle, h.http);
	/* Those who wait are told nothing more; what they have started ends. */
	while (h.exchanges)
		exchange_free(h.exchanges);
	h.http = http_free(h.http);
	tenants_free(&h);
	(void)tokens_free(h.tokens);
	h.loop = loop_free(h.loop);
	return r;
}
