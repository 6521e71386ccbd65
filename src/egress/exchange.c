/* SPDX-License-Identifier: Apache-2.0 */
/* egress/exchange.c - one request and its answer.
 *
 * Both heads are parsed, filtered and written anew; raw bytes are never passed on. The order is
 * fixed: allowlist, leak scan, injection, evidence, request, scan and scrub of the answer. Bodies
 * stream in pieces; a piece is taken from one side only while the other has room, so memory is
 * bounded by the buffers of two links, and what came is passed on at once. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "egress/worker.h"

#define SECOND ((uint64_t)1000 * 1000)
#define MOVE_US (600 * SECOND) /* nothing moving; an answer may be thought about for long */
#define IDLE_US (90 * SECOND)
#define HALF_US (60 * SECOND) /* the same for a guest that has closed its side */
#define HEAD_ROOM ((size_t)256 << 10)
#define INTERIM_MAX 16
#define PIECE 16384

/* Between us and the next hop only, or ours to write: never passed on, whatever `Connection` says.
 */
static const char *const not_passed[] = {
	"Connection",
	"Keep-Alive",
	"Proxy-Connection",
	"Transfer-Encoding",
	"Content-Length",
	"TE",
	"Trailer",
	"Upgrade",
	"HTTP2-Settings",
	"Host",
	"Expect",
	"Forwarded",
	"X-Forwarded-For",
	"X-Forwarded-Host",
	"X-Forwarded-Proto",
	"X-Real-IP",
	"Via",
	"Alt-Svc",
	"Accept-Encoding",
	"Public-Key-Pins",
	"Proxy", /* which a CGI program would take for its own setting */
	/* Another method or path than the rules were asked about. */
	"X-HTTP-Method-Override",
	"X-HTTP-Method",
	"X-Method-Override",
	"X-Original-URL",
	"X-Rewrite-URL",
};

static bool passes(struct http1_text name)
{
	if (name.n >= 6 && strncasecmp(name.p, "Proxy-", 6) == 0)
		return false;
	for (size_t i = 0; i < ARRAY_LEN(not_passed); i++)
		if (http1_text_is(name, not_passed[i]))
			return false;
	return true;
}

/* Names a Connection field lists are for this hop only; what the door needs cannot be listed off.
 */
static bool listed_off(const struct http1_field *f, size_t n, struct http1_text name)
{
	static const char *const needed[] = { "Authorization", "Cookie", "Content-Encoding",
					      "Content-Type", "Set-Cookie" };
	char word[64];

	for (size_t i = 0; i < ARRAY_LEN(needed); i++)
		if (http1_text_is(name, needed[i]))
			return false;
	if (name.n >= sizeof(word))
		return false;
	memcpy(word, name.p, name.n);
	word[name.n] = '\0';
	return http1_lists(f, n, "Connection", word);
}

static struct http1_text method_of(const struct session *s)
{
	return (struct http1_text){ s->x.method, strlen(s->x.method) };
}

void exchange_done(struct session *s)
{
	struct exchange *x = &s->x;

	if (x->head.data)
		explicit_bzero(x->head.data, x->head.len); /* it may hold a credential */
	buf_done(&x->head);
	x->scan_up = scan_close(x->scan_up);
	x->scan_down = scan_close(x->scan_down);
	x->decoder = decoder_free(x->decoder);
	x->decoder_down = decoder_free(x->decoder_down);
	x->scrub = scrub_close(x->scrub);
}

/* ---- the request's head ---- */

static struct egress_text etext(struct http1_text t)
{
	return egress_text(t.p, t.n);
}

/* Which name and port a request is for; false: the layers contradict one another. */
static bool name_request(struct session *s, const struct http1_request *q,
			 struct egress_request *ret, struct host *name, const char **why)
{
	struct http1_text authority = q->form == HTTP1_ABSOLUTE ? q->authority : q->host;
	uint16_t usual = s->proxy && !s->tunnelled ? 80 : s->port, port = usual, again = usual;
	enum host_fault fault;
	struct host host;

	*why = "the Host field names another host or port than the target";
	if (s->proxy && !s->tunnelled && q->form != HTTP1_ABSOLUTE)
		return *why = "this is a proxy: the target must be a whole URL", false;
	if (q->form == HTTP1_ABSOLUTE && !http1_text_is(q->scheme, s->secure ? "https" : "http"))
		return *why = "the scheme does not fit the connection", false;
	if (q->form == HTTP1_ASTERISK || http1_text_is(q->method, "TRACE"))
		return *why = "this method is not passed on", false;
	*ret = (struct egress_request){ .via = s->secure ? EGRESS_VIA_TLS : EGRESS_VIA_HTTP,
					.host = etext(authority),
					.method = etext(q->method),
					.target = etext(q->path) };
	fault = host_parse_authority(etext(authority), usual, name, &port);
	if (fault == HOST_OK)
		ret->host = egress_text(name->name, name->len);
	else if (ret->host.n && ret->host.p[0] != '[' && memchr(ret->host.p, ':', ret->host.n))
		ret->host.n =
			(size_t)((const char *)memchr(ret->host.p, ':', ret->host.n) - ret->host.p);
	if (q->form == HTTP1_ABSOLUTE && fault != HOST_OK)
		return *why = "the target must be a name, with a port or without", false;
	if (q->form == HTTP1_ABSOLUTE &&
	    (host_parse_authority(etext(q->host), usual, &host, &again) != HOST_OK ||
	     !host_eq(&host, name) || again != port))
		return false;
	if ((!s->proxy || s->tunnelled) && port != s->port)
		return false;
	ret->port = port;
	if (s->tunnel.len)
		ret->tunnel = egress_text(s->tunnel.name, s->tunnel.len);
	if (s->secure)
		ret->sni = egress_text(s->sni.name, s->sni.len);
	return true;
}

/* Only codings the door can read, and only those the guest can. */
static const char *codings_for(const struct http1_request *q)
{
	bool gzip = http1_lists(q->fields, q->n_fields, "Accept-Encoding", "gzip");
	bool deflate = http1_lists(q->fields, q->n_fields, "Accept-Encoding", "deflate");

	return gzip && deflate ? "gzip, deflate" : gzip ? "gzip" : deflate ? "deflate" : "identity";
}

static void add_field(struct egress_head *h, struct http1_text name, struct http1_text value)
{
	if (h->n_fields < HEAD_FIELDS_MAX)
		h->fields[h->n_fields++] = (struct egress_field){ etext(name), etext(value) };
}

/* A part of an answer: where one has a credential, its value could be fetched in halves that no
 * scrubber knows. */
static bool asks_for_part(struct http1_text name)
{
	return http1_text_is(name, "Range") || http1_text_is(name, "If-Range");
}

static void filter_request(const struct http1_request *q, bool whole, struct egress_head *h)
{
	h->method = etext(q->method);
	h->target = etext(q->path);
	for (size_t i = 0; i < q->n_fields; i++)
		if (passes(q->fields[i].name) && !(whole && asks_for_part(q->fields[i].name)) &&
		    !listed_off(q->fields, q->n_fields, q->fields[i].name))
			add_field(h, q->fields[i].name, q->fields[i].value);
}

static void write_request(struct session *s, const struct http1_request *q,
			  const struct egress_head *h, struct buf *out)
{
	const struct egress_verdict *v = &s->x.v;
	bool usual = v->port == (s->secure ? 443 : 80);

	buf_add(out, h->method.p, h->method.n);
	buf_putc(out, ' ');
	buf_add(out, h->target.p, h->target.n);
	buf_printf(out, " HTTP/1.1\r\nHost: %s", v->host.name);
	if (!usual)
		buf_printf(out, ":%u", v->port);
	buf_puts(out, "\r\n");
	for (size_t i = 0; i < h->n_fields; i++) {
		buf_add(out, h->fields[i].name.p, h->fields[i].name.n);
		buf_puts(out, ": ");
		buf_add(out, h->fields[i].value.p, h->fields[i].value.n);
		buf_puts(out, "\r\n");
	}
	if (http1_count(q->fields, q->n_fields, "Accept-Encoding"))
		buf_printf(out, "Accept-Encoding: %s\r\n", codings_for(q));
	if (q->framing == HTTP1_CHUNKED)
		buf_puts(out, "Transfer-Encoding: chunked\r\n");
	else if (q->framing == HTTP1_LENGTH ||
		 http1_count(q->fields, q->n_fields, "Content-Length"))
		buf_printf(out, "Content-Length: %llu\r\n", (unsigned long long)q->length);
	if (q->expects)
		buf_puts(out, "Expect: 100-continue\r\n");
	buf_puts(out, "\r\n");
}

/* Allowlist, rate, leaks, credentials; the head as it will be sent is in x->head. */
static bool judge(struct session *s, const struct http1_request *q, const struct egress_request *e)
{
	CLEANUP(arena) struct arena *arena = arena_new(HEAD_ROOM);
	struct worker *k = s->k;
	struct exchange *x = &s->x;
	struct egress_head h = { .arena = arena };
	struct cred_target to = { .verified = s->secure };
	uint64_t used = 0;

	if (!egress_decide(k->rules, e, &x->v))
		return false;
	if (!arena)
		return verdict_deny(&x->v, EGRESS_INTERNAL, NULL, "no memory");
	if (!rate_name(k->rate, &x->v.host, &x->v) ||
	    !rate_request(k->rate, &x->v.host, loop_now(k->loop) / 1000, &x->v) ||
	    (k->scanner && !scan_host(k->scanner, &x->v.host, &x->v)))
		return false;
	to.host = &x->v.host;
	to.port = x->v.port;
	filter_request(q, k->creds && creds_bound(k->creds, &to), &h);
	if (k->scanner && !scan_head(k->scanner, SCAN_OUT, &h, &x->v))
		return false;
	if (k->creds && !cred_apply(k->creds, &to, &h, &used, &x->v))
		return false;
	for (size_t i = 0; i < k->plan->credentials.n && i < 64; i++)
		if ((used & (uint64_t)1 << i) && !report_credential(k, EGRESS_EVENT_INJECT, &x->v,
								    k->plan->credentials.v[i].name))
			return verdict_deny(&x->v, EGRESS_INTERNAL, NULL,
					    "the use of a credential cannot be recorded");
	x->head = (struct buf)BUF_INIT(HEAD_ROOM);
	write_request(s, q, &h, &x->head);
	if (x->head.failed)
		return verdict_deny(&x->v, EGRESS_BAD_REQUEST, NULL, "the head is too long");
	return rate_sent(k->rate, x->head.len, &x->v);
}

/* A coded body is scanned as what it says; one that the door cannot read only where nobody wants
 * to be strict. */
static bool open_scan(struct session *s, const struct http1_request *q)
{
	struct exchange *x = &s->x;
	size_t n = http1_count(q->fields, q->n_fields, "Content-Encoding");
	struct codings c = { 0 };
	struct err e = { 0 };

	if (!s->k->scanner || !x->has_body)
		return true;
	if (n > 1 ||
	    (n &&
	     coding_parse(etext(http1_only(q->fields, q->n_fields, "Content-Encoding")), &c) < 0))
		return !s->k->plan->leaks.strict ||
		       verdict_deny(&x->v, EGRESS_LEAK, "send the body as gzip or uncoded",
				    "a request body in this content coding cannot be scanned");
	if (scan_open(s->k->scanner, SCAN_OUT, &x->scan_up, &e) < 0 ||
	    (c.n && decoder_new(&c, &x->decoder, &e) < 0))
		return verdict_deny(&x->v, EGRESS_INTERNAL, NULL, "%s", e.what);
	return true;
}

static void begin(struct session *s, const struct http1_request *q)
{
	struct exchange *x = &s->x;

	*x = (struct exchange){ .minor = q->minor,
				.asked = http1_text_is(q->method, "HEAD") ? HTTP1_ASKED_HEAD
									  : HTTP1_ASKED_PLAIN,
				.has_body = q->framing != HTTP1_NO_BODY,
				.up_chunked = q->framing == HTTP1_CHUNKED,
				.expects = q->expects,
				.keep_guest = q->keeps_alive };
	memcpy(x->method, q->method.p, q->method.n);
	http1_body_start(&x->up_body, q->framing, q->length);
	x->up_done = !x->has_body;
}

void exchange_begin(struct session *s, const struct http1_request *q, size_t head)
{
	struct egress_request e;
	const char *why;
	struct host name = { 0 };

	begin(s, q);
	if (s->refused.reason) {
		struct egress_verdict v = s->refused;

		session_deny(s, &v, q->method);
		return;
	}
	if (!name_request(s, q, &e, &name, &why)) {
		s->x.v.host = s->tunnel.len ? s->tunnel : name;
		s->x.v.port = s->port;
		(void)verdict_deny(&s->x.v, EGRESS_BAD_REQUEST, NULL, "%s", why);
		session_deny(s, &s->x.v, q->method);
		return;
	}
	if (!judge(s, q, &e) || !open_scan(s, q)) {
		session_deny(s, &s->x.v, q->method);
		return;
	}
	if (!report_allow(s->k, &s->x.v, q->method)) {
		session_answer(s, 503, "internal", "the decision cannot be recorded");
		return;
	}
	link_take(&s->guest, head);
	s->state = SESSION_EXCHANGE;
	session_patience(s, MOVE_US);
}

/* ---- the way up ---- */

static bool put_chunk(struct link *l, bool chunked, const char *p, size_t n)
{
	char size[24];

	if (!n)
		return true;
	if (!chunked)
		return link_add(l, p, n);
	(void)snprintf(size, sizeof(size), "%zx\r\n", n);
	return link_add(l, size, strlen(size)) && link_add(l, p, n) && link_add(l, "\r\n", 2);
}

/* The end in the middle of an answer; what was read of it before is the guest's. */
static void cut(struct session *s)
{
	(void)report_flush(s->k);
	(void)link_flush(&s->guest);
	s->state = SESSION_DEAD;
}

/* Denied when part of it is gone already: the rest stays here, and the guest hears it if it still
 * can. */
static void stop(struct session *s, const struct egress_verdict *why)
{
	struct egress_verdict v = *why;

	v.host = s->x.v.host;
	v.port = s->x.v.port;
	if (s->x.answered) {
		report_deny(s->k, &v, method_of(s));
		cut(s);
	} else {
		session_deny(s, &v, method_of(s));
	}
}

struct decoded {
	struct session *s;
	struct egress_verdict *v;
};

static int scan_decoded(void *context, char *p, size_t n, struct err *e)
{
	struct decoded *d = context;
	struct scan_release ignored;

	(void)e;
	return scan_feed(d->s->x.scan_up, p, n, false, &ignored, d->v) ? 0 : -EPERM;
}

/* Nothing can be taken out of a coded body: what would be redacted passes as it is, what is blocked
 * is blocked. */
static bool check_coded(struct session *s, const char *p, size_t n, bool last,
			struct egress_verdict *v)
{
	struct decoded d = { .s = s, .v = v };
	struct scan_release ignored;
	struct err e = { 0 };
	char none[1] = "";
	int r = decoder_feed(s->x.decoder, p, n, last, scan_decoded, &d, &e);

	if (r == -EPERM)
		return false;
	if (r < 0)
		return verdict_deny(v, EGRESS_BAD_REQUEST, NULL,
				    "the request's content coding is broken");
	return !last || scan_feed(s->x.scan_up, none, 0, true, &ignored, v);
}

static bool check_up(struct session *s, const char *p, size_t n, bool last, struct scan_release *r,
		     struct egress_verdict *v)
{
	if (s->x.decoder)
		return check_coded(s, p, n, last, v);
	/* The scan may redact in place: the bytes are the guest's link's own. */
	return !s->x.scan_up || scan_feed(s->x.scan_up, (char *)(uintptr_t)p, n, last, r, v);
}

static bool send_up(struct session *s, const char *p, size_t n, bool last)
{
	struct exchange *x = &s->x;
	struct scan_release r = { .data = egress_text(p, n) };
	struct egress_verdict v = { 0 };

	if (!rate_sent(s->k->rate, n, &v) || !check_up(s, p, n, last, &r, &v)) {
		stop(s, &v);
		return false;
	}
	x->bytes_out += n;
	return put_chunk(&s->up->link, x->up_chunked, r.held.p, r.held.n) &&
	       put_chunk(&s->up->link, x->up_chunked, r.data.p, r.data.n);
}

static bool pump_up(struct session *s)
{
	struct exchange *x = &s->x;
	bool moved = false;

	while (s->state == SESSION_EXCHANGE && !x->up_done && !link_full(&s->up->link) &&
	       !session_tired(s)) {
		struct http1_text piece;
		ssize_t n;

		if (http1_body_done(&x->up_body)) {
			if (!send_up(s, "", 0, true))
				return true;
			if (x->up_chunked)
				(void)link_add(&s->up->link, "0\r\n\r\n", 5);
			x->up_done = true;
			return true;
		}
		if (!s->guest.in.len && !link_fill(&s->guest))
			break;
		n = http1_body_read(&x->up_body, link_data(&s->guest),
				    s->guest.in.len < PIECE ? s->guest.in.len : PIECE, &piece);
		if (n < 0) {
			struct egress_verdict v = { 0 };

			(void)verdict_deny(&v, EGRESS_BAD_REQUEST, NULL,
					   "the chunks are malformed");
			stop(s, &v);
			return true;
		}
		if (piece.n && !send_up(s, piece.p, piece.n, false))
			return true;
		link_take(&s->guest, (size_t)n);
		if (session_told(s))
			(void)link_push(&s->up->link);
		s->turn += (size_t)n;
		moved = true;
	}
	return moved;
}

/* ---- the way down ---- */

static void fail(struct session *s, int status, const char *what)
{
	struct egress_verdict v = s->x.v;

	report_done(s->k, &v, method_of(s), s->up ? &s->up->at_addr : NULL, 0, s->x.bytes_out,
		    s->x.bytes_in);
	if (s->x.answered)
		cut(s);
	else
		session_answer(s, status, "upstream", what);
}

/* A connection from the pool may have been closed just then: once more on a new one, if nothing of
 * the request would be sent twice that could matter. */
static bool try_again(struct session *s)
{
	struct exchange *x = &s->x;
	static const char *const safe[] = { "GET", "HEAD", "OPTIONS" };
	bool harmless = false;

	for (size_t i = 0; i < ARRAY_LEN(safe); i++)
		harmless |= strcmp(x->method, safe[i]) == 0;
	if (!s->up->reused || x->answered || x->has_body || !harmless || s->up->link.in.len)
		return false;
	s->up = upstream_free(s->up);
	s->up = upstream_get(s, &x->v, s->secure, true);
	x->sent = false;
	if (!s->up)
		session_answer(s, 503, "internal", "no memory");
	return true;
}

static void add_value(struct session *s, struct buf *out, struct http1_text t)
{
	struct err e = { 0 };

	if (!s->k->scrubber)
		buf_add(out, t.p, t.n);
	else if (scrub_text(s->k->scrubber, t.p, t.n, out, &s->x.scrubbed, &e) < 0)
		out->failed = true; /* better no answer than one with a value in it */
}

static enum down_framing frame_down(const struct exchange *x, const struct http1_answer *a)
{
	if (a->framing == HTTP1_NO_BODY)
		return DOWN_NONE;
	if (a->framing == HTTP1_LENGTH && !x->scrub)
		return DOWN_LENGTH;
	return x->minor == 1 ? DOWN_CHUNKED : DOWN_CLOSE;
}

static void write_answer(struct session *s, const struct http1_answer *a)
{
	CLEANUP(buf) struct buf b = BUF_INIT(HEAD_ROOM);
	struct exchange *x = &s->x;
	struct http1_text length = http1_field(a, "Content-Length");

	buf_printf(&b, "HTTP/1.1 %d ", a->status);
	add_value(s, &b, a->reason);
	buf_puts(&b, "\r\n");
	for (size_t i = 0; i < a->n_fields; i++) {
		const struct http1_field *f = &a->fields[i];

		if (!passes(f->name) || listed_off(a->fields, a->n_fields, f->name) ||
		    (x->scrub && http1_text_is(f->name, "Content-Encoding")))
			continue;
		add_value(s, &b, f->name);
		buf_puts(&b, ": ");
		add_value(s, &b, f->value);
		buf_puts(&b, "\r\n");
	}
	if (x->down == DOWN_LENGTH)
		buf_printf(&b, "Content-Length: %llu\r\n", (unsigned long long)a->length);
	else if (x->down == DOWN_CHUNKED)
		buf_puts(&b, "Transfer-Encoding: chunked\r\n");
	else if (length.p && a->status != 204) /* of HEAD and 304: what it would be */
		buf_printf(&b, "Content-Length: %.*s\r\n", (int)length.n, length.p);
	if (!x->keep_guest)
		buf_puts(&b, "Connection: close\r\n");
	buf_puts(&b, "\r\n");
	if (b.failed)
		s->guest.broken = true;
	(void)link_add(&s->guest, buf_str(&b), b.len);
}

/* What the body must go through on its way down. */
static bool open_filters(struct session *s, const struct http1_answer *a)
{
	struct exchange *x = &s->x;
	struct codings c = { 0 };
	struct err e = { 0 };
	size_t n = http1_count(a->fields, a->n_fields, "Content-Encoding");

	if (s->k->scanner && scan_open(s->k->scanner, SCAN_IN, &x->scan_down, &e) < 0)
		return false;
	if (a->framing == HTTP1_NO_BODY)
		return true;
	if (!s->k->scrubber || !scrub_needed(s->k->scrubber)) {
		/* What it says is looked at where it can be read. */
		if (x->scan_down && n == 1 &&
		    coding_parse(etext(http1_field(a, "Content-Encoding")), &c) == 0 && c.n)
			(void)decoder_new(&c, &x->decoder_down, &e);
		return true;
	}
	/* Unasked for, and unreadable: a secret could be in there. */
	if (n > 1 || (n && coding_parse(etext(http1_field(a, "Content-Encoding")), &c) < 0))
		return false;
	return scrub_open(s->k->scrubber, n ? &c : NULL, &x->scrub, &e) == 0;
}

static bool interim(struct session *s, const struct http1_answer *a)
{
	if (++s->x.interim > INTERIM_MAX)
		return false;
	if (a->status == 100 && s->x.expects) {
		s->x.expects = false;
		(void)link_add(&s->guest, "HTTP/1.1 100 Continue\r\n\r\n", 25);
	}
	return true;
}

static bool answer_head(struct session *s)
{
	struct link *u = &s->up->link;
	struct exchange *x = &s->x;
	struct egress_verdict v = { 0 };
	struct http1_answer a;
	struct err e = { 0 };
	ssize_t n = u->in.len ? http1_read_answer(link_data(u), u->in.len, x->asked, &a, &e) : 0;

	if (n == 0) {
		if (link_fill(u))
			return true;
		if (!u->eof && !u->broken)
			return false;
		if (!try_again(s))
			fail(s, 502, "the host closed the connection without an answer");
		return true;
	}
	if (n < 0) {
		fail(s, 502, e.what);
		return true;
	}
	if (a.status < 200) {
		if (!interim(s, &a))
			fail(s, 502, "the host says nothing but 1xx");
		else
			link_take(u, (size_t)n);
		return true;
	}
	if (!rate_received(s->k->rate, (size_t)n, &v)) {
		stop(s, &v);
		return true;
	}
	if (!open_filters(s, &a)) {
		fail(s, 502, "the answer has a content coding nobody asked for");
		return true;
	}
	x->status = a.status;
	x->keep_upstream = a.keeps_alive;
	x->down = frame_down(x, &a);
	/* With the request half sent nobody knows where the next one begins. */
	x->keep_guest &= x->down != DOWN_CLOSE && x->up_done;
	look_at(s, link_data(u), (size_t)n, a.framing == HTTP1_NO_BODY);
	write_answer(s, &a);
	http1_body_init(&x->down_body, &a);
	x->answered = true;
	link_take(u, (size_t)n);
	return true;
}

static bool send_down(struct session *s, const char *p, size_t n, bool last)
{
	struct exchange *x = &s->x;
	bool chunked = x->down == DOWN_CHUNKED;
	struct egress_verdict v = { 0 };

	if (!rate_received(s->k->rate, n, &v)) {
		stop(s, &v);
		return false;
	}
	x->bytes_in += n;
	if (x->scrub) {
		struct buf *out = &s->k->piece;
		struct err e;

		if (!out->max)
			*out = (struct buf)BUF_INIT(FLOW_MAX / 2);
		out->len = 0;
		out->failed = false;
		if (scrub_feed(x->scrub, p, n, last, out, &e) < 0 || out->failed) {
			fail(s, 502, "the answer's content coding is broken");
			return false;
		}
		look_at(s, buf_str(out), out->len, last);
		return put_chunk(&s->guest, chunked, buf_str(out), out->len);
	}
	look_at_body(s, p, n, last);
	return put_chunk(&s->guest, chunked, p, n);
}

static bool end_down(struct session *s)
{
	struct exchange *x = &s->x;

	if (!send_down(s, "", 0, true))
		return true;
	if (x->down == DOWN_CHUNKED)
		(void)link_add(&s->guest, "0\r\n\r\n", 5);
	x->down_done = true;
	return true;
}

static bool answer_body(struct session *s)
{
	struct link *u = &s->up->link;
	struct exchange *x = &s->x;
	bool moved = false;

	while (s->state == SESSION_EXCHANGE && !x->down_done && !link_full(&s->guest) &&
	       !session_tired(s)) {
		struct http1_text piece;
		ssize_t n;

		if (http1_body_done(&x->down_body))
			return end_down(s);
		if (!u->in.len && !link_fill(u)) {
			if (!u->eof && !u->broken)
				break;
			/* Cut short: the guest must not take it for whole. */
			if (u->broken || http1_body_end(&x->down_body) < 0) {
				fail(s, 502, "the answer was cut short");
				return true;
			}
			x->keep_upstream = false;
			continue;
		}
		n = http1_body_read(&x->down_body, link_data(u),
				    u->in.len < PIECE ? u->in.len : PIECE, &piece);
		if (n < 0) {
			fail(s, 502, "the answer's chunks are malformed");
			return true;
		}
		if (piece.n && !send_down(s, piece.p, piece.n, false))
			return true;
		link_take(u, (size_t)n);
		if (session_told(s))
			(void)link_push(&s->guest);
		s->turn += (size_t)n;
		moved = true;
	}
	return moved;
}

/* ---- */

static void finish(struct session *s)
{
	struct exchange *x = &s->x;
	bool whole = x->up_done, more = !s->guest.eof || s->guest.in.len > 0,
	     keep = x->keep_guest && whole && more;

	report_done(s->k, &x->v, method_of(s), &s->up->at_addr, x->status, x->bytes_out,
		    x->bytes_in);
	if (x->scrubbed || (x->scrub && scrub_hits(x->scrub)))
		(void)report_credential(s->k, EGRESS_EVENT_SCRUB, &x->v, NULL);
	if (whole && x->keep_upstream)
		upstream_release(TAKE_PTR(s->up));
	if (!keep) {
		session_linger(s);
		return;
	}
	exchange_done(s);
	s->up = upstream_free(s->up);
	s->state = SESSION_HEAD;
	session_patience(s, IDLE_US);
}

void exchange_stalled(struct session *s)
{
	fail(s, 504, "the host did not answer in time");
}

bool exchange_step(struct session *s)
{
	struct exchange *x = &s->x;
	bool moved = false;

	if (!s->up && !session_told(s))
		return false;
	if (!s->up && !(s->up = upstream_get(s, &x->v, s->secure, false))) {
		session_answer(s, 503, "internal", "no memory");
		return true;
	}
	upstream_step(s->up);
	if (s->up->state == UP_FAILED) {
		struct egress_verdict v = s->up->failure;

		if (v.reason == EGRESS_INTERNAL)
			fail(s, 502, v.what);
		else
			session_deny(s, &v, method_of(s));
		return true;
	}
	if (s->up->state != UP_OPEN)
		return false;
	if (!x->sent) {
		x->sent = link_add(&s->up->link, buf_str(&x->head), x->head.len);
		moved = true;
	}
	moved |= pump_up(s);
	if (s->state == SESSION_EXCHANGE)
		moved |= x->answered ? answer_body(s) : answer_head(s);
	if (s->state != SESSION_EXCHANGE)
		return true;
	if (moved)
		session_patience(s, s->guest.eof ? HALF_US : MOVE_US);
	if (x->down_done) {
		finish(s);
		return true;
	}
	/* What follows is the next request, read later. A guest that says no more may still listen;
	 * one that is gone is found out by what is sent to it. */
	if (x->up_done && !s->guest.eof && !link_fill(&s->guest) && s->guest.eof)
		session_patience(s, HALF_US);
	if (s->guest.broken || (s->guest.eof && !x->up_done && !s->guest.in.len))
		s->state = SESSION_DEAD;
	return moved;
}
