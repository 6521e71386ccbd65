/* SPDX-License-Identifier: Apache-2.0 */
/* egress/worker/exchange_head.c - the head of a request: who it is for, whether it may go, and how
 * it is written anew. */
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/text/cleanup.h"
#include "egress/oauth/oauth.h"
#include "egress/worker/exchange_internal.h"

/* Between us and the next hop only, or ours to write: never passed on, whatever `Connection` says.
 */
static const bool not_passed[HTTP1_NAMES] = {
	[HTTP1_NAME_CONNECTION] = true,
	[HTTP1_NAME_KEEP_ALIVE] = true,
	[HTTP1_NAME_PROXY_CONNECTION] = true,
	[HTTP1_NAME_TRANSFER_ENCODING] = true,
	[HTTP1_NAME_CONTENT_LENGTH] = true,
	[HTTP1_NAME_TE] = true,
	[HTTP1_NAME_TRAILER] = true,
	[HTTP1_NAME_UPGRADE] = true,
	[HTTP1_NAME_HTTP2_SETTINGS] = true,
	[HTTP1_NAME_HOST] = true,
	[HTTP1_NAME_EXPECT] = true,
	[HTTP1_NAME_FORWARDED] = true,
	[HTTP1_NAME_X_FORWARDED_FOR] = true,
	[HTTP1_NAME_X_FORWARDED_HOST] = true,
	[HTTP1_NAME_X_FORWARDED_PROTO] = true,
	[HTTP1_NAME_X_REAL_IP] = true,
	[HTTP1_NAME_VIA] = true,
	[HTTP1_NAME_ALT_SVC] = true,
	[HTTP1_NAME_ACCEPT_ENCODING] = true,
	[HTTP1_NAME_PUBLIC_KEY_PINS] = true,
	[HTTP1_NAME_PROXY] = true, /* which a CGI program would take for its own setting */
	/* The door's own word, and nobody else's. */
	[HTTP1_NAME_BRIG_REASON] = true,
	/* Another method or path than the rules were asked about. */
	[HTTP1_NAME_X_HTTP_METHOD_OVERRIDE] = true,
	[HTTP1_NAME_X_HTTP_METHOD] = true,
	[HTTP1_NAME_X_METHOD_OVERRIDE] = true,
	[HTTP1_NAME_X_ORIGINAL_URL] = true,
	[HTTP1_NAME_X_REWRITE_URL] = true,
};

static bool exchange_head_begins(struct http1_text t, const char *word)
{
	size_t n = strlen(word);

	/* Bit 5 is all that case can change. */
	return t.n >= n && !((t.p[0] ^ word[0]) & 0xdf) && strncasecmp(t.p, word, n) == 0;
}

bool exchange_passes(const struct http1_field *f)
{
	return !not_passed[f->is] && !exchange_head_begins(f->name, "Proxy-");
}

/* Names a Connection field lists are for this hop only; what the door needs cannot be listed off.
 */
bool exchange_listed_off(const struct http1_field *f, size_t n, const struct http1_field *one)
{
	static const bool needed[HTTP1_NAMES] = {
		[HTTP1_NAME_AUTHORIZATION] = true,    [HTTP1_NAME_COOKIE] = true,
		[HTTP1_NAME_CONTENT_ENCODING] = true, [HTTP1_NAME_CONTENT_TYPE] = true,
		[HTTP1_NAME_SET_COOKIE] = true,
	};
	char word[64];

	if (needed[one->is] || one->name.n >= sizeof(word))
		return false;
	memcpy(word, one->name.p, one->name.n);
	word[one->name.n] = '\0';
	return http1_lists(f, n, "Connection", word);
}

/* brig's own client has no TLS, and no need of it: its socket leads here alone. */
bool exchange_adds_tls(const struct arrival *from, const struct http1_request *q)
{
	return from->own && !from->tunnelled && q->form == HTTP1_ABSOLUTE &&
	       http1_text_is(q->scheme, "https");
}

/* Which name and port a request is for; false: the layers contradict one another. */
bool exchange_name(const struct arrival *from, const struct http1_request *q,
		   struct egress_request *ret, struct host *name, const char **why)
{
	struct http1_text authority = q->form == HTTP1_ABSOLUTE ? q->authority : q->host;
	bool adds = exchange_adds_tls(from, q), secure = from->secure || adds;
	uint16_t usual = adds                              ? 443
			 : from->proxy && !from->tunnelled ? 80
							   : from->port,
		 port = usual, again = usual;
	enum host_fault fault;
	struct host host;

	*why = "the Host field names another host or port than the target";
	if (from->proxy && !from->tunnelled && q->form != HTTP1_ABSOLUTE)
		return *why = "this is a proxy: the target must be a whole URL", false;
	if (q->form == HTTP1_ABSOLUTE && !http1_text_is(q->scheme, secure ? "https" : "http"))
		return *why = "the scheme does not fit the connection", false;
	if (q->form == HTTP1_ASTERISK || http1_text_is(q->method, "TRACE"))
		return *why = "this method is not passed on", false;
	*ret = (struct egress_request){ .via = secure ? EGRESS_VIA_TLS : EGRESS_VIA_HTTP,
					.host = exchange_text(authority),
					.method = exchange_text(q->method),
					.target = exchange_text(q->path),
					.websocket = websocket_asked(q) };
	fault = host_parse_authority(exchange_text(authority), usual, name, &port);
	if (fault == HOST_ADDRESS) { /* which no rule allows: the refusal names it */
		ret->host.n = host_address_part(ret->host, usual, &port);
		ret->port = port;
		return true;
	}
	if (fault == HOST_OK)
		ret->host = egress_text(name->name, name->len);
	else if (ret->host.n && ret->host.p[0] != '[' && memchr(ret->host.p, ':', ret->host.n))
		ret->host.n =
			(size_t)((const char *)memchr(ret->host.p, ':', ret->host.n) - ret->host.p);
	if (q->form == HTTP1_ABSOLUTE && fault != HOST_OK)
		return *why = "the target must be a name, with a port or without", false;
	if (q->form == HTTP1_ABSOLUTE &&
	    (host_parse_authority(exchange_text(q->host), usual, &host, &again) != HOST_OK ||
	     !host_eq(&host, name) || again != port))
		return false;
	if ((!from->proxy || from->tunnelled) && port != from->port)
		return false;
	ret->port = port;
	if (from->tunnel.len)
		ret->tunnel = egress_text(from->tunnel.name, from->tunnel.len);
	if (secure)
		ret->sni = adds ? ret->host : egress_text(from->sni.name, from->sni.len);
	return true;
}

/* Only codings the door can read, and only those the guest can. None of a host that knows a value,
 * by this request or an earlier one, and may repeat it beside a text of the guest's choice: how
 * well the two are packed together would show, in what comes when, whether one is part of the
 * other. */
static const char *codings_for(const struct exchange *x, const struct http1_request *q)
{
	bool gzip = http1_lists(q->fields, q->n_fields, "Accept-Encoding", "gzip");
	bool deflate = http1_lists(q->fields, q->n_fields, "Accept-Encoding", "deflate");

	if (x->bound || x->call)
		return "identity";
	if (gzip)
		return deflate ? "gzip, deflate" : "gzip";
	return deflate ? "deflate" : "identity";
}

static void add_field(struct egress_head *h, struct http1_text name, struct http1_text value)
{
	if (h->n_fields < HEAD_FIELDS_MAX)
		h->fields[h->n_fields++] =
			(struct egress_field){ exchange_text(name), exchange_text(value) };
}

/* A part of an answer: a value could be fetched in halves that no scrubber knows, from the host it
 * was sent to or from any other name of the same service. */
static bool asks_for_part(const struct http1_field *f)
{
	return f->is == HTTP1_NAME_RANGE || f->is == HTTP1_NAME_IF_RANGE ||
	       http1_text_is(f->name, "x-ms-range");
}

static bool exchange_head_holds(struct http1_text t, const char *word)
{
	for (; t.n >= strlen(word); t.p++, t.n--)
		if (exchange_head_begins(t, word))
			return true;
	return false;
}

/* Says a method, path or host to servers in place of what the rules were asked about. Many read '_'
 * as '-', so that a name with one is another name. */
static bool says_otherwise(struct http1_text name)
{
	static const char *const words[] = { "X-Forwarded-",    "X-Original-",   "X-Rewrite-",
					     "Method-Override", "X-HTTP-Method", "X-Host",
					     "Path-Override",   "URL-Override",  "URI-Override",
					     "Original-Path",   "Original-URL",  "Original-URI" };
	bool found = memchr(name.p, '_', name.n);

	for (size_t i = 0; !found && i < ARRAY_LEN(words); i++)
		found = exchange_head_holds(name, words[i]);
	return found;
}

/* Names a second path, which the request is about as much as its own: WebDAV's COPY and MOVE,
 * object stores that copy from another object. */
static bool names_another_path(struct http1_text name)
{
	return exchange_head_holds(name, "Destination") ||
	       exchange_head_holds(name, "Copy-Source") || exchange_head_holds(name, "Copy-From");
}

/* The same with every '_' read as '-'. */
static bool names_second_path(const struct http1_request *q)
{
	char word[64];

	for (size_t i = 0; i < q->n_fields; i++) {
		struct http1_text name = q->fields[i].name;

		if (name.n > sizeof(word))
			continue;
		for (size_t k = 0; k < name.n; k++)
			word[k] = name.p[k] == '_' ? '-' : name.p[k];
		if (names_another_path((struct http1_text){ word, name.n }))
			return true;
	}
	return false;
}

/* What a request keeps of its fields. */
struct head_filter {
	const struct creds *creds;
	const struct cred_target *to;
	bool whole;  /* no part of an answer may be asked for */
	bool narrow; /* rules of this host are about methods or paths */
	const struct egress_rules *rules;
};

static bool exchange_head_is_kept(const struct head_filter *f, const struct http1_request *q,
				  const struct http1_field *one)
{
	struct http1_text name = one->name;

	/* What an extension does to frames nobody here could read. */
	if (http1_text_is(name, "Sec-WebSocket-Extensions") || !exchange_passes(one) ||
	    exchange_listed_off(q->fields, q->n_fields, one) || (f->whole && asks_for_part(one)))
		return false;
	/* Some servers read an underscore as a hyphen: what the door says of a field holds for
	 * both. */
	return !((f->narrow && says_otherwise(name)) ||
		 (f->whole && memchr(name.p, '_', name.n))) ||
	       (f->creds && creds_header(f->creds, f->to, exchange_text(name)));
}

/* What a server takes for the path of an object, its host or a method, only the server knows, so
 * names decide and no value is looked at. */
static bool may_say_otherwise(const struct head_filter *f, struct http1_text name)
{
	return f->narrow && !egress_field_passes(f->rules, f->to->host, exchange_text(name)) &&
	       !(f->creds && creds_header(f->creds, f->to, exchange_text(name)));
}

static bool refuse_field(struct egress_verdict *v, struct http1_text name)
{
	int shown = (int)(name.n < 80 ? name.n : 80);
	char hint[sizeof(v->hint)];

	(void)snprintf(hint, sizeof(hint),
		       "if it names no path, host or method there: --set 'egress.fields=%s %.*s'",
		       v->host.name, shown, name.p);
	return verdict_deny(v, EGRESS_DENIED, hint,
			    "the field '%.*s' may name another path or method to the server, and "
			    "rules of %s are about methods or paths",
			    shown, name.p, v->host.name);
}

static bool filter_request(const struct http1_request *q, const struct head_filter *f,
			   struct egress_head *h, struct egress_verdict *v)
{
	h->method = exchange_text(q->method);
	h->target = exchange_text(q->path);
	for (size_t i = 0; i < q->n_fields; i++) {
		if (!exchange_head_is_kept(f, q, &q->fields[i]))
			continue;
		if (may_say_otherwise(f, q->fields[i].name))
			return refuse_field(v, q->fields[i].name);
		add_field(h, q->fields[i].name, q->fields[i].value);
	}
	return true;
}

static void write_request(struct exchange *x, const struct http1_request *q,
			  const struct egress_head *h, struct buf *out)
{
	const struct egress_verdict *v = &x->t.v;
	bool usual = v->port == (x->secure ? 443 : 80);

	buf_add(out, h->method.p, h->method.n);
	buf_putc(out, ' ');
	buf_add(out, h->target.p, h->target.n);
	buf_puts(out, " HTTP/1.1\r\nHost: ");
	buf_add(out, v->host.name, v->host.len);
	if (!usual) {
		buf_putc(out, ':');
		buf_putu(out, v->port, 0);
	}
	buf_puts(out, "\r\n");
	websocket_head(x, out);
	for (size_t i = 0; i < h->n_fields; i++) {
		buf_add(out, h->fields[i].name.p, h->fields[i].name.n);
		buf_puts(out, ": ");
		buf_add(out, h->fields[i].value.p, h->fields[i].value.n);
		if (x->sign.waits &&
		    x->sign.place == h->fields[i].value.p + h->fields[i].value.n - SIGV4_DIGITS)
			x->sign_at = out->len - SIGV4_DIGITS;
		buf_puts(out, "\r\n");
	}
	if (x->bound || x->call || http1_count(q->fields, q->n_fields, "Accept-Encoding")) {
		buf_puts(out, "Accept-Encoding: ");
		buf_puts(out, codings_for(x, q));
		buf_puts(out, "\r\n");
	}
	if (x->endpoint && x->has_body) {
		; /* its length is put in when it is known */
	} else if (q->framing == HTTP1_CHUNKED) {
		buf_puts(out, "Transfer-Encoding: chunked\r\n");
	} else if (q->framing == HTTP1_LENGTH ||
		   http1_count(q->fields, q->n_fields, "Content-Length")) {
		buf_puts(out, "Content-Length: ");
		buf_putu(out, q->length, 0);
		buf_puts(out, "\r\n");
	}
	if (x->d->shares && http1_lists(q->fields, q->n_fields, "TE", "trailers"))
		buf_puts(out, "TE: trailers\r\n");
	if (q->expects && !x->waits_body)
		buf_puts(out, "Expect: 100-continue\r\n");
	buf_puts(out, "\r\n");
}

bool exchange_report_used(struct exchange *x, uint64_t used)
{
	const struct credentiallist *l = &x->k->plan->credentials;

	for (size_t i = 0; i < l->n && i < 64; i++) {
		if (!(used >> i & 1))
			continue;
		if (!report_credential(x->k, EGRESS_EVENT_INJECT, &x->t.v, l->v[i].name))
			return false;
		if (!x->t.credential[0])
			(void)snprintf(x->t.credential, sizeof(x->t.credential), "%s",
				       l->v[i].name);
	}
	return true;
}

/* What goes to a token endpoint is written anew, and so is what comes from it. */
static bool take_endpoint(struct exchange *x, const struct http1_request *q,
			  const struct cred_target *to, const struct egress_head *h)
{
	int end = oauth_endpoint(x->k->oauth, to, h->target);

	x->waits_body = x->sign.waits;
	if (end == OAUTH_ODD)
		return verdict_deny(&x->t.v, EGRESS_DENIED, "write the address as token_url has it",
				    "the server may take this path for a token endpoint");
	x->endpoint = (unsigned)(end + 1);
	if (x->endpoint &&
	    (websocket_asked(q) || (x->has_body && !egress_text_is(h->method, "POST"))))
		return verdict_deny(&x->t.v, EGRESS_BAD_REQUEST, "ask it with POST",
				    "a token endpoint is asked in another way");
	if (!x->endpoint || !x->has_body)
		return true;
	if (http1_count(q->fields, q->n_fields, "Content-Encoding"))
		return verdict_deny(&x->t.v, EGRESS_BAD_REQUEST, "send the body uncoded",
				    "a coded body to a token endpoint");
	x->waits_body = true;
	x->up_chunked = false;
	return true;
}

/* Allowlist, rate, leaks, credentials; the head as it will be sent is in x->head. */
bool exchange_judge(struct exchange *x, const struct arrival *from, const struct http1_request *q,
		    const struct egress_request *e)
{
	CLEANUP(arena) struct arena *arena = arena_new(HEAD_ROOM);
	struct worker *k = x->k;
	struct egress_head h = { .arena = arena };
	struct cred_target to = { .verified = x->secure,
				  .has_body = x->has_body,
				  .now = (int64_t)time(NULL),
				  .signing = &x->sign };
	uint64_t used = 0;
	bool narrow;

	if (!asked_decide(k, from, e, &x->t.v))
		return false;
	if (!arena)
		return verdict_deny(&x->t.v, EGRESS_INTERNAL, NULL, "no memory");
	if (!rate_name(k->rate, &x->t.v.host, &x->t.v) ||
	    !rate_request(k->rate, &x->t.v.host, loop_now(k->loop) / 1000, &x->t.v) ||
	    !name_may_leave(k, &x->t.v) || !exchange_budget(x, q))
		return false;
	x->not_before = x->t.v.wait_ms ? loop_now(k->loop) + (uint64_t)x->t.v.wait_ms * 1000 : 0;
	to.host = &x->t.v.host;
	to.port = x->t.v.port;
	narrow = x->narrow = x->t.v.narrow || (k->creds && creds_narrow(k->creds, &to));
	if (narrow && names_second_path(q))
		return verdict_deny(&x->t.v, EGRESS_DENIED,
				    "a rule without methods and paths lets it pass",
				    "a field of the request (Destination, Copy-Source) names a "
				    "second path, and rules of %s are about methods or paths",
				    x->t.v.host.name);
	x->bound = k->creds && creds_bound(k->creds, &to);
	if (!filter_request(q,
			    &(struct head_filter){ .creds = k->creds,
						   .to = &to,
						   .whole = k->scrubber != NULL,
						   .narrow = narrow,
						   .rules = k->rules },
			    &h, &x->t.v))
		return false;
	x->t.learned = learn_request(k, &x->t.v.host, &h, e->websocket, names_second_path(q));
	if (k->creds)
		creds_mark_hashes(k->creds, &to, &h);
	if (k->scanner && !scan_head(k->scanner, SCAN_OUT, &h, &x->t.v))
		return false;
	if (k->creds && !cred_apply(k->creds, &to, &h, &used, &x->t.v))
		return false;
	if (!take_endpoint(x, q, &to, &h))
		return false;
	if (!exchange_report_used(x, used))
		return verdict_deny(&x->t.v, EGRESS_INTERNAL, NULL,
				    "the use of a credential cannot be recorded");
	x->head = (struct buf)BUF_INIT(HEAD_ROOM);
	write_request(x, q, &h, &x->head);
	if (x->head.failed)
		return verdict_deny(&x->t.v, EGRESS_BAD_REQUEST, NULL, "the head is too long");
	return rate_sent(k->rate, x->head.len, &x->t.v);
}

/* A field that vouches for the body: it cannot be changed unnoticed. */
static bool vouches(const struct http1_field *f)
{
	return exchange_head_holds(f->name, "digest") ||
	       exchange_head_holds(f->name, "signature") ||
	       exchange_head_holds(f->name, "checksum") ||
	       exchange_head_holds(f->name, "content-md5") ||
	       exchange_head_holds(f->name, "content-sha") ||
	       exchange_head_holds(f->name, "-hash") ||
	       (f->is == HTTP1_NAME_AUTHORIZATION && (exchange_head_begins(f->value, "AWS4-") ||
						      exchange_head_begins(f->value, "Signature") ||
						      exchange_head_begins(f->value, "Hawk") ||
						      exchange_head_begins(f->value, "SharedKey")));
}

static bool is_covered(const struct http1_request *q)
{
	for (size_t i = 0; i < q->n_fields; i++)
		if (vouches(&q->fields[i]))
			return true;
	return false;
}

static bool is_json(const struct http1_request *q)
{
	for (size_t i = 0; i < q->n_fields; i++)
		if (q->fields[i].is == HTTP1_NAME_CONTENT_TYPE &&
		    exchange_head_holds(q->fields[i].value, "json"))
			return true;
	return false;
}

/* S3's own coding comes first: chunks, with a checksum behind the last. */
static struct http1_text without_chunks(struct exchange *x, struct http1_text value)
{
	static const char word[] = "aws-chunked";
	size_t n = sizeof(word) - 1, at = n;

	if (!exchange_head_begins(value, word))
		return value;
	while (at < value.n && (value.p[at] == ' ' || value.p[at] == '\t'))
		at++;
	if (at < value.n && value.p[at] != ',')
		return value;
	at += at < value.n;
	x->unwraps = true;
	http1_body_start(&x->wrapped, HTTP1_CHUNKED, 0);
	return (struct http1_text){ value.p + at, value.n - at };
}

/* A coded body is scanned as what it says, and stopped where something would have to be taken out
 * of it; one that the door cannot read passes only where nobody wants to be strict. */
bool exchange_scan(struct exchange *x, const struct http1_request *q)
{
	struct scanner *scanner = x->k->scanner;
	size_t n = http1_count(q->fields, q->n_fields, "Content-Encoding");
	struct codings c = { 0 };
	struct err e = { 0 };
	struct http1_text value;
	bool kept, coded, unknown;

	if (!scanner || !x->has_body)
		return true;
	kept = is_covered(q) || x->endpoint;
	x->msg_up.on = grpc_is(q->fields, q->n_fields) && !kept && !n;
	value = n == 1 ? without_chunks(x, http1_only(q->fields, q->n_fields, "Content-Encoding"))
		       : (struct http1_text){ 0 };
	unknown = n > 1 || coding_parse(exchange_text(value), &c) < 0;
	if (unknown && x->k->plan->leaks.strict)
		return verdict_deny(&x->t.v, EGRESS_LEAK, "send the body as gzip or uncoded",
				    "a request body in this content coding cannot be scanned");
	if (unknown && !packed_unread(x, UNREADABLE_METHOD, &x->t.v))
		return false;
	if (unknown)
		c = (struct codings){ 0 };
	kept |= unknown;
	if (c.n > 1)
		return verdict_deny(&x->t.v, EGRESS_LEAK, "send the body as gzip or uncoded",
				    "a request body that is coded twice is not scanned");
	coded = c.n || x->unwraps;
	if ((is_json(q) ? json_scan_open(scanner, !kept && !coded, &x->json_up, &e)
			: scan_open(scanner, SCAN_OUT, &x->scan_up, &e)) < 0 ||
	    (coded && (decoder_new(x->k->unpack, &c, &x->decoder, &e) < 0 ||
		       scan_open(scanner, SCAN_OUT, &x->scan_coded, &e) < 0)))
		return verdict_deny(&x->t.v, EGRESS_INTERNAL, NULL, "%s", e.what);
	if (x->scan_up && (kept || coded))
		scan_keep(x->scan_up);
	if (x->scan_coded)
		scan_keep(x->scan_coded);
	x->coded = (struct buf)BUF_INIT(CODED_MAX);
	if (!packed_open(x, SCAN_OUT, &x->nest_up, &x->t.v))
		return false;
	if (x->json_up)
		json_scan_packed(x->json_up, nest_run, x->nest_up);
	else
		scan_packed(x->scan_up, nest_run, x->nest_up);
	return true;
}
