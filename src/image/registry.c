/* SPDX-License-Identifier: Apache-2.0 */
/* image/registry.c - see registry.h.
 *
 *   ask -> 401 -> token -> ask -> (redirect -> ask)* -> answer
 *
 * Each answer is met with the connection that brought it still open; whoever is done with it, or
 * does not like it, closes that. */
#include "image/registry.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/bytes/base64.h"
#include "base/bytes/jread.h"
#include "base/files/fd.h"
#include "base/text/str.h"
#include "base/text/url.h"
#include "image/challenge.h"
#include "proc/host_find.h"
#include "wire/tcp.h"
#include "wire/tls_client.h"

#define TOKEN_MAX ((size_t)6 << 10) /* it must fit into a request's head */
#define TOKEN_ANSWER_MAX ((size_t)64 << 10)
#define PIECE 65536

struct registry {
	struct registry_want want;
	struct tls_client *tls;
	char base[REF_HOST_MAX + 16]; /* https://HOST */
	char *authorization;          /* value of the field; NULL: not asked for yet */
};

struct ask {
	const char *method;
	char url[REGISTRY_URL_MAX];
	const char *fields, *type;
	const char *body; /* or NULL, and it is in fd */
	int fd;
	uint64_t size;
};

struct got {
	struct client *client;
	const struct http1_answer *answer; /* borrowed from the client */
};

static void got_done(struct got *g)
{
	g->client = client_free(g->client);
	g->answer = NULL;
}

/* ---- addresses ---- */

static bool same_place(const struct url *a, const struct url *b)
{
	return a->tls == b->tls && a->port == b->port && strcasecmp(a->host, b->host) == 0;
}

static bool registry_is_own(const struct registry *r, const struct url *u)
{
	struct err e = { 0 };
	struct url own;

	return url_parse(r->base, &own, &e) == 0 && same_place(&own, u);
}

int registry_follow(const char *from, const char *location, size_t n, char *ret, size_t room,
		    struct err *e)
{
	struct err unused = { 0 };
	struct url u, old;
	int len;

	if (!n || n >= REGISTRY_URL_MAX || memchr(location, '\0', n) ||
	    url_parse(from, &old, &unused) < 0)
		return err_set(e, ERR_UNAVAILABLE, EBADMSG, "the registry leads nowhere");
	if (location[0] == '/' && (n < 2 || location[1] != '/'))
		len = snprintf(ret, room, "%s://%s%.*s", old.tls ? "https" : "http", old.authority,
			       (int)n, location);
	else
		len = snprintf(ret, room, "%.*s", (int)n, location);
	if (len < 0 || (size_t)len >= room || url_parse(ret, &u, &unused) < 0)
		return err_set(e, ERR_UNAVAILABLE, EBADMSG, "the registry leads nowhere");
	if (old.tls && !u.tls)
		return err_set(e, ERR_POLICY, EPERM,
			       "the registry leads from https to http, where anybody can listen");
	return 0;
}

/* ---- one request ---- */

static int no_tls(const struct url *u, struct err *e)
{
	(void)err_wrap(e, "'%.200s'", u->authority);
	return ref_is_loopback(u->authority) && !e->hint[0]
		       ? err_hint(e, "a registry on this machine may go without TLS: --plain-http")
		       : -e->code;
}

static int connect_to(struct registry *r, const struct url *u, struct client **ret, struct err *e)
{
	struct addrinfo *addresses = NULL;
	struct transport t;
	int fd;

	if (!u->tls && !ref_is_loopback(u->authority))
		return err_refuse(e, ERR_POLICY, EPERM, "use a registry that speaks TLS",
				  "plain HTTP is not spoken with '%.200s'", u->host);
	/* Also from plain HTTP a redirect may lead to TLS. */
	if (u->tls && !r->tls && tls_client_new(&r->tls, e) < 0)
		return -e->code;
	/* Without TLS the address is all that says whom it is: [::1] may be somebody else's who
	 * listens at the same port, and is meant by whoever writes it. */
	if (tcp_resolve(!u->tls && str_eq(u->host, "localhost") ? "127.0.0.1" : u->host, u->port,
			&addresses, e) < 0)
		return -e->code;
	fd = tcp_connect(addresses, r->want.deadline, e);
	freeaddrinfo(addresses);
	if (fd < 0)
		return err_wrap(e, "'%.200s'", u->authority);
	if (!u->tls)
		t = transport_fd(fd);
	else if (transport_tls(r->tls, fd, u->host, r->want.deadline, &t, e) < 0)
		return no_tls(u, e);
	*ret = client_new(t, u->authority, e);
	return *ret ? 0 : -e->code;
}

static int send_body(struct registry *r, struct client *c, const struct ask *a, struct err *e)
{
	char piece[PIECE];

	for (uint64_t at = 0; at < a->size;) {
		uint64_t left = a->size - at;
		ssize_t n = pread(a->fd, piece, left < PIECE ? (size_t)left : PIECE, (off_t)at);
		int w;

		if (n <= 0)
			return err_set(e, ERR_INTERNAL, EIO, "cannot read what is to be sent");
		w = client_write(c, piece, (size_t)n, r->want.deadline, e);
		if (w < 0)
			return w;
		if (w > 0) /* it has heard enough, and says why */
			return 0;
		at += (uint64_t)n;
		if (r->want.progress)
			r->want.progress(r->want.arg, at, a->size);
	}
	return 0;
}

static int once(struct registry *r, const struct ask *a, const char *authorization, struct got *ret,
		struct err *e)
{
	CLEANUP(client) struct client *c = NULL;
	CLEANUP(buf) struct buf fields = BUF_INIT(TOKEN_MAX + 4096);
	const struct http1_answer *answer;
	struct client_request q = { .method = a->method, .type = a->type };
	struct url u;

	if (url_parse(a->url, &u, e) < 0)
		return -e->code;
	buf_puts(&fields, a->fields ? a->fields : "");
	buf_puts(&fields, "Connection: close\r\n");
	if (authorization)
		buf_printf(&fields, "Authorization: %s\r\n", authorization);
	q.target = u.target;
	q.fields = buf_str(&fields);
	q.body = a->body;
	q.body_len = a->size;
	q.apart = a->type && !a->body;
	if (fields.failed)
		return err_nomem(e);
	if (connect_to(r, &u, &c, e) < 0 || client_send(c, &q, r->want.deadline, e) < 0 ||
	    (q.apart && send_body(r, c, a, e) < 0) ||
	    client_answer(c, r->want.deadline, &answer, e) < 0)
		return -e->code;
	explicit_bzero(fields.data, fields.len);
	*ret = (struct got){ .client = TAKE_PTR(c), .answer = answer };
	return 0;
}

/* A body of at most what the buffer takes. */
static int read_small(struct registry *r, struct got *g, struct buf *b, struct err *e)
{
	if (g->answer->framing == HTTP1_LENGTH && g->answer->length >= b->max)
		return err_set(e, ERR_POLICY, EMSGSIZE, "the registry's answer is too long");
	return client_read_all(g->client, b, r->want.deadline, e);
}

/* ---- credentials ---- */

static int wants_login(const struct registry *r, struct err *e)
{
	(void)err_set(e, ERR_PERMISSION, EACCES, "registry '%.150s' %s", r->want.ref->host,
		      r->want.login ? "does not take the credentials kept for it"
				    : "wants a login, and none is kept for it");
	return err_hint(e, "docker login %.150s (or podman login) keeps one", r->want.ref->host);
}

static char *basic(const struct login *l)
{
	CLEANUP(buf) struct buf both = BUF_INIT(LOGIN_USER_MAX + LOGIN_SECRET_MAX + 2);
	CLEANUP(buf) struct buf text = BUF_INIT(TOKEN_MAX);

	buf_printf(&both, "%s:%s", l->user, l->secret);
	buf_puts(&text, "Basic ");
	base64_put(&text, buf_str(&both), both.len);
	if (both.data)
		explicit_bzero(both.data, both.len);
	return both.failed ? NULL : buf_take(&text);
}

static void registry_keep(struct registry *r, char *authorization)
{
	if (r->authorization)
		explicit_bzero(r->authorization, strlen(r->authorization));
	free(r->authorization);
	r->authorization = authorization;
}

static int token_url(const struct registry *r, const struct challenge *c, struct ask *a,
		     struct err *e)
{
	CLEANUP(buf) struct buf b = BUF_INIT(REGISTRY_URL_MAX);
	struct url u;

	if (url_parse(c->realm, &u, e) < 0)
		return err_wrap(e, "where the registry has its tokens");
	if (!u.tls && !(r->want.plain && ref_is_loopback(u.authority)))
		return err_set(e, ERR_POLICY, EPERM,
			       "the registry has its tokens where anybody can listen");
	buf_printf(&b, "%s%cservice=", c->realm, strchr(c->realm, '?') ? '&' : '?');
	url_put_escaped(&b, c->service);
	buf_puts(&b, "&scope=");
	url_put_escaped(&b, c->scope);
	if (b.failed || b.len >= sizeof(a->url))
		return err_set(e, ERR_UNAVAILABLE, EMSGSIZE, "the registry's realm is too long");
	memcpy(a->url, buf_str(&b), b.len + 1);
	return 0;
}

static bool registry_is_token(const char *t)
{
	return t && *t && strlen(t) < TOKEN_MAX - 16 && !str_has_control(t) && !strchr(t, ' ');
}

static int fetch_token(struct registry *r, const struct challenge *c, struct err *e)
{
	CLEANUP(buf) struct buf answer = BUF_INIT(TOKEN_ANSWER_MAX), text = BUF_INIT(TOKEN_MAX);
	CLEANUP(mem) char *login = r->want.login ? basic(r->want.login) : NULL;
	CLEANUP(jread) struct jread *v = NULL;
	struct ask a = { .method = "GET", .fd = -1 };
	struct got g = { 0 };
	const char *token;
	int r2;

	if (token_url(r, c, &a, e) < 0 || once(r, &a, login, &g, e) < 0)
		return -e->code;
	r2 = g.answer->status == 200 ? read_small(r, &g, &answer, e) : wants_login(r, e);
	got_done(&g);
	if (r2 < 0)
		return r2;
	if (jread_parse(buf_str(&answer), answer.len, &v, e) < 0)
		return err_wrap(e, "the registry's token");
	token = jread_str(v, "token");
	if (!token)
		token = jread_str(v, "access_token");
	if (!registry_is_token(token))
		return err_set(e, ERR_UNAVAILABLE, EBADMSG, "the registry's token is none");
	buf_printf(&text, "Bearer %s", token);
	registry_keep(r, buf_take(&text));
	return r->authorization ? 0 : err_nomem(e);
}

static int log_in(struct registry *r, const struct http1_answer *answer, struct err *e)
{
	struct http1_text t = http1_field(answer, "WWW-Authenticate");
	struct challenge c;

	if (!t.p)
		return wants_login(r, e);
	if (challenge_parse(t.p, t.n, &c, e) < 0)
		return -e->code;
	if (r->want.login && !r->want.login->user[0])
		return err_refuse(e, ERR_CONFIG, ENOTSUP,
				  "log in with a name and a password, or an access token as one",
				  "the login kept for '%.150s' is an identity token, which brig "
				  "does not exchange",
				  r->want.ref->host);
	if (c.scheme == CHALLENGE_BEARER)
		return fetch_token(r, &c, e);
	if (!r->want.login)
		return wants_login(r, e);
	registry_keep(r, basic(r->want.login));
	return r->authorization ? 0 : err_nomem(e);
}

/* ---- with logins and redirects ---- */

static int with_login(struct registry *r, const struct ask *a, struct got *ret, struct err *e)
{
	struct url u;
	int status;

	if (url_parse(a->url, &u, e) < 0)
		return -e->code;
	if (!registry_is_own(r, &u))
		return once(r, a, NULL, ret, e);
	if (once(r, a, r->authorization, ret, e) < 0)
		return -e->code;
	if (ret->answer->status != 401)
		return 0;
	status = log_in(r, ret->answer, e);
	got_done(ret);
	if (status < 0)
		return status;
	if (once(r, a, r->authorization, ret, e) < 0)
		return -e->code;
	if (ret->answer->status == 401) {
		got_done(ret);
		return wants_login(r, e);
	}
	return 0;
}

static bool is_redirect(int status)
{
	return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

static int registry_follow_to(struct ask *a, const struct http1_answer *answer, struct err *e)
{
	struct http1_text t = http1_field(answer, "Location");
	char next[REGISTRY_URL_MAX];

	if (registry_follow(a->url, t.p ? t.p : "", t.p ? t.n : 0, next, sizeof(next), e) < 0)
		return -e->code;
	memcpy(a->url, next, sizeof(next));
	return 0;
}

static int registry_ask(struct registry *r, struct ask *a, struct got *ret, struct err *e)
{
	for (int i = 0; i <= REGISTRY_REDIRECTS_MAX; i++) {
		int r2;

		if (with_login(r, a, ret, e) < 0)
			return -e->code;
		if (!is_redirect(ret->answer->status) ||
		    !(str_eq(a->method, "GET") || str_eq(a->method, "HEAD")))
			return 0;
		r2 = registry_follow_to(a, ret->answer, e);
		got_done(ret);
		if (r2 < 0)
			return r2;
	}
	return err_set(e, ERR_POLICY, ELOOP, "the registry redirects more than %d times",
		       REGISTRY_REDIRECTS_MAX);
}

static int registry_refused(const struct registry *r, int status, const char *what, struct err *e)
{
	const struct ref *ref = r->want.ref;

	if (status == 404)
		return err_refuse(e, ERR_UNAVAILABLE, ENOENT, "is the reference as you mean it?",
				  "%s is not in '%.100s/%.100s'", what, ref->host, ref->repository);
	if (status == 403)
		return err_refuse(e, ERR_PERMISSION, EACCES,
				  "is the login kept for it one that may do this?",
				  "'%.100s/%.100s' refuses %s", ref->host, ref->repository, what);
	return err_set(e, ERR_UNAVAILABLE, EREMOTEIO, "'%.100s/%.100s' answers %d for %s",
		       ref->host, ref->repository, status, what);
}

static void address(const struct registry *r, struct ask *a, const char *kind, const char *what)
{
	(void)snprintf(a->url, sizeof(a->url), "%s/v2/%s/%s/%s", r->base, r->want.ref->repository,
		       kind, what);
}

/* ---- down ---- */

int registry_manifest(struct registry *r, struct buf *ret, struct err *e)
{
	const struct ref *ref = r->want.ref;
	struct ask a = { .method = "GET", .fd = -1, .fields = "Accept: " OCI_MANIFEST_TYPE "\r\n" };
	struct got g = { 0 };
	int done;

	address(r, &a, "manifests", ref->digest[0] ? ref->digest : ref->tag);
	if (registry_ask(r, &a, &g, e) < 0)
		return -e->code;
	done = g.answer->status == 200 ? read_small(r, &g, ret, e)
				       : registry_refused(r, g.answer->status, "the manifest", e);
	got_done(&g);
	return done;
}

static int save(struct registry *r, struct got *g, uint64_t size, int fd, struct err *e)
{
	char piece[PIECE];
	uint64_t have = 0;
	ssize_t n;

	if (g->answer->framing == HTTP1_LENGTH && g->answer->length != size)
		return err_set(e, ERR_POLICY, EMSGSIZE,
			       "the registry sends another length than its manifest says");
	while ((n = client_read(g->client, piece, sizeof(piece), r->want.deadline, e)) > 0) {
		int w;

		have += (uint64_t)n;
		if (have > size)
			break;
		w = fd_write_all(fd, piece, (size_t)n);
		if (w < 0)
			return err_errno(e, w, "cannot keep what the registry sends");
		if (r->want.progress)
			r->want.progress(r->want.arg, have, size);
	}
	if (n < 0)
		return (int)n;
	return have == size ? 0
			    : err_set(e, ERR_POLICY, EMSGSIZE,
				      "the registry sends another length than its manifest says");
}

int registry_blob(struct registry *r, const struct oci_blob *b, int fd, struct err *e)
{
	struct ask a = { .method = "GET", .fd = -1 };
	struct got g = { 0 };
	int done;

	address(r, &a, "blobs", b->digest);
	if (registry_ask(r, &a, &g, e) < 0)
		return -e->code;
	done = g.answer->status == 200 ? save(r, &g, b->size, fd, e)
				       : registry_refused(r, g.answer->status, "a part of it", e);
	got_done(&g);
	return done;
}

/* ---- up ---- */

static int registry_is_there(struct registry *r, const struct oci_blob *b, struct err *e)
{
	struct ask a = { .method = "HEAD", .fd = -1 };
	struct got g = { 0 };
	int status;

	address(r, &a, "blobs", b->digest);
	if (registry_ask(r, &a, &g, e) < 0)
		return -e->code;
	status = g.answer->status;
	got_done(&g);
	return status == 200;
}

/* Where an upload goes; it stays with the registry, which gets credentials along. */
static int begin_upload(struct registry *r, const char *digest, struct ask *put, struct err *e)
{
	struct ask a = { .method = "POST", .fd = -1 };
	struct got g = { 0 };
	struct url u;
	size_t n;
	int done;

	address(r, &a, "blobs", "uploads/");
	if (registry_ask(r, &a, &g, e) < 0)
		return -e->code;
	done = g.answer->status == 202 ? registry_follow_to(&a, g.answer, e)
				       : registry_refused(r, g.answer->status, "an upload", e);
	got_done(&g);
	if (done < 0 || url_parse(a.url, &u, e) < 0)
		return -e->code;
	if (!registry_is_own(r, &u))
		return err_set(e, ERR_POLICY, EPERM, "the registry wants the upload elsewhere");
	n = strlen(a.url);
	(void)snprintf(a.url + n, sizeof(a.url) - n, "%cdigest=%s", strchr(a.url, '?') ? '&' : '?',
		       digest);
	memcpy(put->url, a.url, sizeof(a.url));
	return 0;
}

int registry_put_blob(struct registry *r, const struct oci_blob *b, int fd, struct err *e)
{
	struct ask a = {
		.method = "PUT", .fd = fd, .size = b->size, .type = "application/octet-stream"
	};
	struct got g = { 0 };
	int there = registry_is_there(r, b, e), status;

	if (there)
		return there < 0 ? there : 0;
	if (begin_upload(r, b->digest, &a, e) < 0 || registry_ask(r, &a, &g, e) < 0)
		return -e->code;
	status = g.answer->status;
	got_done(&g);
	return status == 201 ? 0 : registry_refused(r, status, "a part of it", e);
}

int registry_put_manifest(struct registry *r, const char *text, size_t n, struct err *e)
{
	struct ask a = {
		.method = "PUT", .fd = -1, .body = text, .size = n, .type = OCI_MANIFEST_TYPE
	};
	struct got g = { 0 };
	int status;

	address(r, &a, "manifests", r->want.ref->tag);
	if (registry_ask(r, &a, &g, e) < 0)
		return -e->code;
	status = g.answer->status;
	got_done(&g);
	return status == 201 ? 0 : registry_refused(r, status, "the manifest", e);
}

/* ---- */

int registry_open(const struct registry_want *w, struct registry **ret, struct err *e)
{
	CLEANUP(registry) struct registry *r = calloc(1, sizeof(*r));

	if (!r)
		return err_nomem(e);
	if (w->plain && !ref_is_loopback(w->ref->host))
		return err_refuse(e, ERR_POLICY, EPERM, "leave --plain-http out",
				  "plain HTTP is not spoken with '%.200s'", w->ref->host);
	r->want = *w;
	(void)snprintf(r->base, sizeof(r->base), "%s://%s", w->plain ? "http" : "https",
		       w->ref->host);
	/* Before anything is confined; reading all roots takes its time. */
	if (host_check_variables(host_tls_names, e) < 0)
		return -e->code;
	if (!w->plain && tls_client_new(&r->tls, e) < 0)
		return -e->code;
	*ret = TAKE_PTR(r);
	return 0;
}

struct registry *registry_free(struct registry *r)
{
	if (!r)
		return NULL;
	registry_keep(r, NULL);
	(void)tls_client_free(r->tls);
	free(r);
	return NULL;
}
