/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/api/api.c - see api.h: who calls, which route, is the body well formed, was it asked
 * before.
 */
#include "daemon/api/api.h"

#include <stdio.h>
#include <string.h>

#include "base/sys/clock.h"
#include "base/text/num.h"
#include "base/text/str.h"
#include "proc/files/files.h"

#define KEY_MAX 255
#define MESSAGE_MAX ((size_t)64 << 20)

/* ---- who ---- */

/* A browser that was led here by a name of somebody else's says that name. */
static bool host_ok(const struct http_call *c)
{
	static const char *const local[] = { "localhost", "brig", "127.0.0.1", "[::1]", NULL };
	const char *authority = http_authority(c),
		   *colon = authority ? strrchr(authority, ':') : NULL;
	char named[96];

	if (!authority) /* over TLS: a name of somebody else's has no certificate here */
		return true;
	if (!*authority) {
		for (size_t i = 0; local[i]; i++)
			if (http1_text_is(c->head->host, local[i]))
				return true;
		return false;
	}
	(void)snprintf(named, sizeof(named), "localhost%s", colon ? colon : "");
	return http1_text_is(c->head->host, authority) || http1_text_is(c->head->host, named);
}

static bool is_open_route(const struct http_call *c)
{
	return str_eq(c->path, "/healthz") || str_eq(c->path, "/readyz");
}

static bool by_token(struct api *a, struct http_call *c)
{
	static const char scheme[] = "Bearer ";
	struct http1_text t = http_field(c, "Authorization");
	const struct token *found = NULL;

	c->caller->known = false;
	c->caller->token = NULL;
	c->caller->scopes = 0;
	if (is_open_route(c))
		return true;
	if (a->tokens && t.p && t.n > sizeof(scheme) - 1 &&
	    strncasecmp(t.p, scheme, sizeof(scheme) - 1) == 0)
		found = tokens_find(a->tokens, t.p + sizeof(scheme) - 1,
				    t.n - (sizeof(scheme) - 1));
	if (!found)
		return http_turn_away(
			c, PROBLEM_UNAUTHENTICATED,
			"send Authorization: Bearer TOKEN; brig daemon token add makes one",
			t.p ? "the token is not known" : "there is no token");
	(void)snprintf(c->caller->tenant, sizeof(c->caller->tenant), "%s", found->tenant);
	c->caller->scopes = found->scopes;
	c->caller->token = found;
	memcpy(c->caller->digest, found->digest, sizeof(c->caller->digest));
	c->caller->known = true;
	return http_count(c, found->tenant) ||
	       http_turn_away(c, PROBLEM_QUOTA, NULL, "this tenant has too many connections");
}

/* The owner may act for a tenant of its own making, which no token can stand for: a token's name
 * has no '@'. What is asked for is still believed; whose it is, who sees it and how much there may
 * be of it are the tenant's. */
static bool act_for(struct http_call *c)
{
	struct http1_text t = http_field(c, "Brig-Tenant");
	char name[TENANT_SIZE];

	c->caller->tenant[0] = '\0';
	if (!http1_count(c->head->fields, c->head->n_fields, "Brig-Tenant"))
		return true;
	(void)snprintf(name, sizeof(name), "%.*s", t.p && t.n < sizeof(name) ? (int)t.n : 0,
		       t.p ? t.p : "");
	if (name[0] != '@' || strlen(name) != t.n || !tenant_name_ok(name + 1))
		return http_turn_away(c, PROBLEM_INVALID, "such as @mcp",
				      "the Brig-Tenant field is not @NAME");
	memcpy(c->caller->tenant, name, sizeof(name));
	return true;
}

/* ---- a browser ----
 *
 * Its session is a cookie, which it sends along whoever made it call: so the page must be ours. */

static bool reads_only(const struct http_call *c)
{
	return http1_text_is(c->head->method, "GET") || http1_text_is(c->head->method, "HEAD");
}

bool api_page_of(const struct api *a, const struct http_call *c, char tenant[TENANT_SIZE])
{
	const struct http1_text *host = &c->head->host;
	size_t before = strcspn(PAGE_HOST, "%");
	char name[SESSION_NAME], whole[128];

	if (!a->sessions || !host->p || host->n < before + sizeof(name) - 1)
		return false;
	memcpy(name, host->p + before, sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	(void)snprintf(whole, sizeof(whole), PAGE_HOST, name, a->page_port);
	return http1_text_is(*host, whole) && sessions_named(a->sessions, name, clock_us(), tenant);
}

static bool page_ok(const struct api *a, struct http_call *c, char tenant[TENANT_SIZE])
{
	const struct http1_text *host = &c->head->host;
	char own[128];

	if (!api_page_of(a, c, tenant))
		return http_turn_away(c, PROBLEM_FORBIDDEN, "brig dashboard prints the address",
				      "the Host field names another server");
	(void)snprintf(own, sizeof(own), "http://%.*s", (int)host->n, host->p);
	if ((!reads_only(c) || http1_count(c->head->fields, c->head->n_fields, "Origin")) &&
	    !http1_text_is(http_field(c, "Origin"), own))
		return http_turn_away(c, PROBLEM_FORBIDDEN, NULL,
				      "another page may not call the dashboard");
	return true;
}

/* The only cookie of that name; two of them are none. */
static struct http1_text cookie_of(const struct http_call *c)
{
	struct http1_text all = http_field(c, "Cookie"), found = { NULL, 0 };
	const char *at = all.p, *end = all.p ? all.p + all.n : NULL;
	size_t name = strlen(SESSION_COOKIE);

	while (at && at < end) {
		const char *semicolon = memchr(at, ';', (size_t)(end - at));
		size_t n = (size_t)((semicolon ? semicolon : end) - at);

		if (n > name && memcmp(at, SESSION_COOKIE, name) == 0) {
			if (found.p)
				return (struct http1_text){ NULL, 0 };
			found = (struct http1_text){ at + name, n - name };
		}
		at += n + 1;
		while (at < end && *at == ' ')
			at++;
	}
	return found;
}

/* One that a token stood for ends with it, and has no more than its scopes. */
static bool session_holds(struct api *a, const struct page_session *s, unsigned scopes)
{
	return s && (!s->who.by_token ||
		     (a->tokens && tokens_holds(a->tokens, s->who.digest, s->who.tenant, scopes)));
}

static bool by_session(struct api *a, struct http_call *c)
{
	struct http_caller *by = c->caller;
	struct http1_text t = cookie_of(c);
	const struct page_session *s;
	char tenant[TENANT_SIZE];

	by->known = by->session = false;
	by->token = NULL;
	by->scopes = 0;
	by->tenant[0] = '\0';
	if (!page_ok(a, c, tenant))
		return false;
	s = t.p ? sessions_find(a->sessions, t.p, t.n, clock_us()) : NULL;
	if (!s || !session_holds(a, s, SCOPE_READ) || !str_eq(s->who.tenant, tenant))
		return true; /* a session is asked for by the route */
	memcpy(by->tenant, s->who.tenant, sizeof(by->tenant));
	memcpy(by->digest, s->sum, sizeof(by->digest));
	by->scopes = s->who.scopes;
	by->known = by->session = true;
	return http_count(c, by->tenant) ||
	       http_turn_away(c, PROBLEM_QUOTA, NULL, "this tenant has too many connections");
}

static bool still_may(void *arg, const struct http_call *c)
{
	const struct api_route *r = c->route;
	struct api *a = arg;

	if (c->caller->session)
		return session_holds(a, sessions_holds(a->sessions, c->caller->digest, clock_us()),
				     r->scope);
	return !r->scope || (a->tokens && tokens_holds(a->tokens, c->caller->digest,
						       c->caller->tenant, r->scope));
}

/* The pages themselves are for everybody who knows their name. */
static bool page_may(struct api *a, struct http_call *c)
{
	const struct api_route *r = c->route;
	struct http1_text site = http_field(c, "Sec-Fetch-Site");

	if (!r->scope && reads_only(c))
		return true;
	if (http1_count(c->head->fields, c->head->n_fields, "Sec-Fetch-Site") &&
	    !http1_text_is(site, "same-origin") && !http1_text_is(site, "none"))
		return http_turn_away(c, PROBLEM_FORBIDDEN, NULL,
				      "another page may not call the dashboard");
	if (!r->scope)
		return true;
	if (!c->caller->session)
		return http_turn_away(c, PROBLEM_UNAUTHENTICATED, "brig dashboard opens one",
				      "there is no session, or it is over");
	return (r->page && (c->caller->scopes & r->page) == r->page && still_may(a, c)) ||
	       http_turn_away(c, PROBLEM_FORBIDDEN,
			      r->page & SCOPE_ADMIN ? "brig dashboard --admin opens one that may"
						    : NULL,
			      "this session may not");
}

static bool who(struct api *a, struct http_call *c)
{
	if (http_from_page(c))
		return by_session(a, c);
	if (c->caller->local && !c->peer->ours)
		return http_turn_away(c, PROBLEM_FOREIGN_PEER,
				      "call from outside of the sandbox, as the daemon's user",
				      c->peer->why);
	if (!host_ok(c))
		return http_turn_away(c, PROBLEM_FORBIDDEN,
				      "call the daemon by its address or localhost",
				      "the Host field names another server");
	if (http1_count(c->head->fields, c->head->n_fields, "Origin"))
		return http_turn_away(c, PROBLEM_FORBIDDEN, NULL,
				      "a web page may not call the daemon");
	if (!c->caller->local)
		return by_token(a, c);
	c->caller->known = true;
	c->caller->scopes = SCOPE_READ | SCOPE_RUN | SCOPE_ADMIN;
	return act_for(c);
}

/* ---- what ---- */

/* Does the path fit? Then its parts are written into the call's own copy. */
static bool api_fits(const char *pattern, const char *path, const char **parts, size_t *lens)
{
	size_t n = 0;

	for (;;) {
		size_t want = strcspn(pattern, "/"), have = strcspn(path, "/");

		if (pattern[0] == '{') {
			if (!have || memchr(path, '%', have))
				return false;
			parts[n] = path;
			lens[n++] = have;
		} else if (want != have || memcmp(pattern, path, want) != 0) {
			return false;
		}
		pattern += want;
		path += have;
		if (!*pattern || !*path)
			return !*pattern && !*path;
		pattern++;
		path++;
	}
}

static bool method_is(const struct http_call *c, const char *method)
{
	const struct http1_text *m = &c->head->method;
	bool head = m->n == 4 && memcmp(m->p, "HEAD", 4) == 0;

	return head ? str_eq(method, "GET")
		    : m->n == strlen(method) && memcmp(m->p, method, m->n) == 0;
}

static bool find_route(struct http_call *c)
{
	const char *parts[4] = { 0 };
	size_t lens[4] = { 0 };
	char allow[64] = "Allow: ";
	bool any = false;
	struct err e;

	for (const struct api_route *r = api_routes; r->method; r++) {
		size_t n = strlen(allow);

		if (!api_fits(r->path, c->path, parts, lens))
			continue;
		if (method_is(c, r->method)) {
			c->route = r;
			for (size_t i = 0; i < ARRAY_LEN(parts) && lens[i]; i++) {
				c->parts[i] = parts[i];
				((char *)(uintptr_t)parts[i])[lens[i]] = '\0';
			}
			return true;
		}
		(void)snprintf(allow + n, sizeof(allow) - n, "%s%s", any ? ", " : "", r->method);
		any = true;
	}
	if (!any)
		return http_turn_away(c, PROBLEM_NOT_FOUND, "/openapi.json lists all routes",
				      "there is no such route");
	(void)snprintf(allow + strlen(allow), sizeof(allow) - strlen(allow), "\r\n");
	(void)problem_say(PROBLEM_INVALID, &e, "this route has another method");
	http_last(c);
	http_refuse(c, 405, allow, PROBLEM_INVALID, &e);
	return false;
}

static const char *body_type(const struct api_route *r)
{
	if (r->takes)
		return r->takes;
	return r->raw ? "application/octet-stream" : "application/json";
}

static bool type_ok(const struct http_call *c, const struct api_route *r)
{
	struct http1_text t = http_field(c, "Content-Type");
	const char *want = body_type(r);
	size_t n = t.p ? t.n : 0;
	const char *semicolon = t.p ? memchr(t.p, ';', t.n) : NULL;

	if (semicolon)
		n = (size_t)(semicolon - t.p);
	while (n && t.p[n - 1] == ' ')
		n--;
	return http1_text_is((struct http1_text){ t.p, n }, want);
}

static bool in_scope(struct api *a, struct http_call *c)
{
	const struct api_route *r = c->route;

	if (http_from_page(c))
		return page_may(a, c);
	if (r->browser)
		return http_turn_away(c, PROBLEM_NOT_FOUND, "brig dashboard prints the address",
				      "there is no such route here");
	if ((c->caller->scopes & r->scope) == r->scope)
		return true;
	return http_turn_away(c, PROBLEM_FORBIDDEN,
			      r->scope == SCOPE_READ  ? "this takes a token with scope read"
			      : r->scope == SCOPE_RUN ? "this takes a token with scope run"
						      : "this takes a token with scope admin",
			      "the token's scopes do not include this");
}

static bool admit(void *arg, struct http_call *c)
{
	const struct api_route *r;
	struct err e;

	if (!who(arg, c) || !find_route(c) || !in_scope(arg, c))
		return false;
	r = c->route;
	if (!r->browser && api_check_query(r->query, c->query, &e) != PROBLEM_NONE) {
		http_last(c);
		http_problem(c, PROBLEM_INVALID, &e);
		return false;
	}
	if (!r->asks && !r->raw)
		c->body_max = 0;
	if (r->takes) {
		c->body_max = FILE_BYTES_MAX;
		c->unread = true;
	}
	if (c->head->framing == HTTP1_NO_BODY || type_ok(c, r) ||
	    (!r->asks && !r->raw && !r->takes))
		return true;
	(void)problem_say(PROBLEM_INVALID, &e, "the body must be %s", body_type(r));
	http_last(c);
	http_refuse(c, 415, NULL, PROBLEM_INVALID, &e);
	return false;
}

/* ---- asked before ---- */

struct keyed {
	struct api *api;
	char id[ONCE_ID_SIZE];
};

/* What may succeed the next time is not kept. Who left unanswered comes again with the same key. */
static void api_keep(struct http_call *c, int status, const char *body, size_t n)
{
	struct keyed *k = c->answered_arg;

	if (!status)
		once_leave(k->api->once, k->id);
	else if (status < 500 && status != 429 && status != 409)
		once_keep(k->api->once, k->id, status, body, n);
	else
		once_forget(k->api->once, k->id);
	free(k);
}

enum once_found api_once(struct api *a, struct http_call *c, char id[ONCE_ID_SIZE],
			 struct buf *answer)
{
	struct http1_text t = http_field(c, "Idempotency-Key");
	char route[HTTP1_TARGET_MAX + 40];
	struct once_key k = { .tenant = c->caller->tenant,
			      .route = route,
			      .key = t.p,
			      .key_len = t.n,
			      .body = c->body,
			      .body_len = c->body_len };
	enum once_found found;
	int status = 0;

	(void)snprintf(route, sizeof(route), "%s %s %s %s",
		       ((const struct api_route *)c->route)->name, c->parts[0] ? c->parts[0] : "",
		       c->parts[1] ? c->parts[1] : "", c->query);
	found = once_begin(a->once, &k, id, &status, answer);
	if (found == ONCE_BUSY || found == ONCE_CUT) {
		struct err e;

		(void)problem_say(PROBLEM_CONFLICT, &e,
				  found == ONCE_BUSY ? "the same request is being worked on"
						     : "this request was worked on and never "
						       "answered: it may have been done");
		if (found == ONCE_CUT)
			(void)err_hint(&e, "look whether it was, and use a new key");
		http_problem(c, PROBLEM_CONFLICT, &e);
	} else if (found == ONCE_OTHER) {
		(void)http_turn_away(c, PROBLEM_IDEMPOTENCY_MISMATCH,
				     "use a new key for another request",
				     "the key was used with another body");
	} else if (found == ONCE_FULL) {
		(void)http_turn_away(c, PROBLEM_QUOTA, "each is kept for a day; leave the key out",
				     "this tenant has used too many keys");
	} else if (found == ONCE_FAILED) {
		(void)http_turn_away(c, PROBLEM_INTERNAL, NULL, "the key cannot be written down");
	} else if (found == ONCE_DONE && !((const struct api_route *)c->route)->own_keys) {
		http_answer(c, status, "Idempotent-Replayed: true\r\n",
			    status < 400 ? "application/json" : "application/problem+json",
			    buf_str(answer), answer->len);
	}
	return found;
}

/* false: it was answered. */
static bool first_time(struct api *a, struct http_call *c)
{
	CLEANUP(buf) struct buf answer = BUF_INIT(MESSAGE_MAX);
	const struct api_route *r = c->route;
	struct http1_text t = http_field(c, "Idempotency-Key");
	struct keyed *k;

	if (!http1_count(c->head->fields, c->head->n_fields, "Idempotency-Key") ||
	    !str_eq(r->method, "POST") || http_from_page(c))
		return true;
	if (!t.p || !t.n || t.n > KEY_MAX)
		return http_turn_away(c, PROBLEM_INVALID, NULL, "the Idempotency-Key is malformed");
	if (r->own_keys)
		return true;
	k = calloc(1, sizeof(*k));
	if (!k)
		return http_turn_away(c, PROBLEM_INTERNAL, NULL, "out of memory");
	k->api = a;
	if (api_once(a, c, k->id, &answer) != ONCE_NEW) {
		free(k);
		return false;
	}
	c->answered = api_keep;
	c->answered_arg = k;
	return true;
}

/* ---- serving ---- */

static enum problem read_body(const struct http_call *c, struct jread **body, struct err *e)
{
	const struct api_route *r = c->route;

	if (!r->asks)
		return PROBLEM_NONE;
	if (jread_parse(c->body_len ? c->body : "{}", c->body_len ? c->body_len : 2, body, e) < 0)
		return PROBLEM_INVALID;
	return api_check(api_schema(r->asks), *body, e);
}

static void api_serve(void *arg, struct http_call *c)
{
	const struct api_route *r = c->route;
	CLEANUP(jread) struct jread *body = NULL;
	struct api *a = arg;
	struct err e = { 0 };
	enum problem p;

	/* The token may have been taken back while the body came, and its line read anew. */
	if (!c->caller->local &&
	    !((http_from_page(c) ? by_session(a, c) : by_token(a, c)) && in_scope(a, c)))
		return;
	p = read_body(c, &body, &e);
	if (p != PROBLEM_NONE)
		http_problem(c, p, &e);
	else if (first_time(a, c))
		r->serve(a, c, body);
}

void api_revoke(struct api *a)
{
	http_revoke(a->http, still_may, a);
}

void api_service(struct api *a, struct http_service *ret)
{
	*ret = (struct http_service){ .admit = admit, .serve = api_serve, .arg = a };
}

/* ---- for routes ---- */

static enum problem api_number(const struct jread *body, const char *key, bool time, uint64_t *ret,
			       struct err *e)
{
	int (*parse)(const char *, uint64_t *) = time ? num_duration : num_size;
	const struct jread *v = jread_get(body, key);
	int64_t n = jread_int(body, key, -1);

	if (jread_kind(v) == JREAD_NONE || jread_kind(v) == JREAD_NULL)
		return PROBLEM_NONE;
	if (jread_kind(v) == JREAD_STRING ? parse(jread_text(v), ret) < 0
					  : n < 0 || n > INT64_MAX / 1000) {
		(void)problem_say(PROBLEM_INVALID, e, "'%s' is not a %s", key,
				  time ? "time" : "size");
		(void)err_hint(e,
			       time ? "such as 500ms, 30s, 10m or 2h" : "such as 64k, 10m or 2g");
		return PROBLEM_INVALID;
	}
	if (jread_kind(v) != JREAD_STRING)
		*ret = (uint64_t)n * (time ? 1000 : 1);
	return PROBLEM_NONE;
}

enum problem api_time(const struct jread *body, const char *key, uint64_t otherwise, uint64_t *ret,
		      struct err *e)
{
	*ret = otherwise;
	return api_number(body, key, true, ret, e);
}

enum problem api_size(const struct jread *body, const char *key, uint64_t otherwise, uint64_t *ret,
		      struct err *e)
{
	*ret = otherwise;
	return api_number(body, key, false, ret, e);
}

void api_answer_json(struct http_call *c, int status, struct buf *b)
{
	struct err e;

	if (b->failed) {
		(void)problem_say(PROBLEM_INTERNAL, &e, "the answer is too long");
		http_problem(c, PROBLEM_INTERNAL, &e);
		return;
	}
	http_answer(c, status, NULL, "application/json", buf_str(b), b->len);
}

void api_answer_of(struct api *a, struct http_call *c, const char *key, size_t max, api_put_fn *put)
{
	CLEANUP(buf) struct buf b = BUF_INIT(max);
	struct err e = { 0 };
	enum problem p;
	struct json j;

	json_init(&j, &b, false);
	json_object(&j);
	json_key(&j, key);
	p = put(a->boxes, c->caller->tenant, c->parts[0], &j, &e);
	if (p != PROBLEM_NONE) {
		http_problem(c, p, &e);
		return;
	}
	json_object_end(&j);
	api_answer_json(c, 200, &b);
}

bool api_wants_events(const struct http_call *c)
{
	return http1_lists(c->head->fields, c->head->n_fields, "Accept", "text/event-stream");
}
