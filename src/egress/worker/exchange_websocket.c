/* SPDX-License-Identifier: Apache-2.0 */
/* egress/worker/exchange_websocket.c - an exchange that goes on as a WebSocket.
 *
 * The opening is an exchange like any other: rules, leak scan, credentials, evidence. After the
 * host's 101 both sides send frames. They are read here, unmasked, and written anew: nothing of a
 * frame is passed on but its type and its payload. A message is searched as a body is, over all of
 * its fragments, and its end is the end: nothing waits for the next one. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes/random.h"
#include "base/text/cleanup.h"
#include "egress/worker/exchange_internal.h"
#include "wire/websocket.h"

#define MESSAGE_MAX ((uint64_t)64 << 20) /* after so much, the next part is judged on its own */
#define VIOLATES 1008

struct ws_side {
	struct ws_reader reader;
	enum ws_code next; /* the type of the next frame of data: WS_MORE behind the first */
	uint64_t size;     /* of the message so far, or of its last part */
	bool closed;       /* it has said so: nothing counts any more */
	struct scan *scan;
	struct scrub *scrub;
	struct nest *nest; /* what the message holds packed */
	struct buf later;  /* of it, not passed on yet */
};

struct websocket {
	char accept[WS_ACCEPT_SIZE];
	bool open;
	struct ws_side up, down;
};

struct websocket *websocket_free(struct websocket *w)
{
	if (!w)
		return NULL;
	(void)scan_close(w->up.scan);
	(void)scrub_close(w->down.scrub);
	(void)nest_free(w->up.nest);
	(void)nest_free(w->down.nest);
	buf_done(&w->up.later);
	buf_done(&w->down.later);
	free(w);
	return NULL;
}

bool websocket_is_open(const struct websocket *w)
{
	return w && w->open;
}

bool exchange_is_websocket(const struct exchange *x)
{
	return websocket_is_open(x->ws);
}

/* --- the opening --- */

bool websocket_asked(const struct http1_request *q)
{
	return http1_lists(q->fields, q->n_fields, "Upgrade", "websocket") &&
	       http1_lists(q->fields, q->n_fields, "Connection", "upgrade");
}

bool websocket_begin(struct exchange *x, const struct http1_request *q)
{
	struct http1_text key = http1_only(q->fields, q->n_fields, "Sec-WebSocket-Key"),
			  version = http1_only(q->fields, q->n_fields, "Sec-WebSocket-Version");
	char text[WS_KEY_SIZE];

	if (!q->minor || !http1_text_is(q->method, "GET") || q->framing != HTTP1_NO_BODY ||
	    x->expects || key.n != WS_KEY_SIZE - 1 || !http1_text_is(version, "13"))
		return verdict_deny(&x->t.v, EGRESS_BAD_REQUEST, NULL,
				    "not the opening of a WebSocket as RFC 6455 has it: GET, "
				    "version 13, a key, no body");
	x->ws = calloc(1, sizeof(*x->ws));
	if (!x->ws)
		return verdict_deny(&x->t.v, EGRESS_INTERNAL, NULL, "no memory");
	memcpy(text, key.p, key.n);
	text[key.n] = '\0';
	ws_accept(text, x->ws->accept);
	x->ws->up.reader.masked = true;
	x->asked = HTTP1_ASKED_WEBSOCKET;
	return true;
}

void websocket_head(const struct exchange *x, struct buf *out)
{
	if (x->ws)
		buf_puts(out, "Connection: Upgrade\r\nUpgrade: websocket\r\n");
}

void websocket_open(struct exchange *x, const struct http1_answer *a)
{
	struct http1_text accept = http1_only(a->fields, a->n_fields, "Sec-WebSocket-Accept");
	struct http1_answer bare = *a;
	struct egress_verdict v = { 0 };
	struct err e;

	if (!x->ws) {
		exchange_fail(x, 502,
			      "the host goes on with another protocol, which nobody asked for");
		return;
	}
	if (accept.n != WS_ACCEPT_SIZE - 1 || memcmp(accept.p, x->ws->accept, accept.n) != 0 ||
	    !http1_lists(a->fields, a->n_fields, "Upgrade", "websocket") ||
	    http1_count(a->fields, a->n_fields, "Sec-WebSocket-Extensions")) {
		exchange_fail(x, 502, "the host does not open the WebSocket that was asked for");
		return;
	}
	if (!rate_received(x->k->rate, 1, &v)) {
		exchange_stop(x, &v);
		return;
	}
	if (x->k->scanner && scan_open(x->k->scanner, SCAN_IN, &x->scan_down, &e) < 0) {
		exchange_fail(x, 502, e.what);
		return;
	}
	if (x->scan_down && x->k->scrubber)
		scan_shapes(x->scan_down);
	x->t.status = 101;
	bare.framing = HTTP1_NO_BODY;
	exchange_send_head(x, &bare);
	x->ws->open = x->state == EXCHANGE_ANSWERS;
	/* The head that was shown is used, and what follows it are frames. */
	link_take(&x->up->link, x->up->shown);
	x->up->shown = 0;
	x->up->keeps_alive = false;
}

/* --- frames, written anew --- */

static bool write_frame(struct exchange *x, bool up, enum ws_code code, bool last, const char *p,
			size_t n)
{
	CLEANUP(buf) struct buf b = BUF_INIT(n + 32);
	unsigned char mask[4];
	struct err e;

	if (up && random_fill(mask, sizeof(mask), &e) < 0)
		return false;
	ws_put_frame(&b, code, last, p, n, up ? mask : NULL);
	if (b.failed)
		return false;
	if (up)
		x->way->ops->body(x->way, b.data, b.len);
	else if (!x->d->ops->data(x->d, b.data, b.len))
		return false;
	return true;
}

/* What may go of a message: nothing of it, where it is not its end, is no frame. */
static bool write_data(struct exchange *x, struct ws_side *s, bool up, const char *p, size_t n,
		       bool last)
{
	enum ws_code code = s->next;

	if (!n && !last)
		return true;
	s->next = WS_MORE;
	return write_frame(x, up, code, last, p, n);
}

/* Tells the guest why, as frames can, and ends both connections. */
static bool websocket_stop(struct exchange *x, const struct egress_verdict *v)
{
	char text[WS_CONTROL_MAX] = { VIOLATES >> 8, (char)(VIOLATES & 255) };
	size_t n = strlen(v->what);

	n = n < sizeof(text) - 2 ? n : sizeof(text) - 2;
	memcpy(text + 2, v->what, n);
	if (!x->ws->down.closed)
		(void)write_frame(x, false, WS_CLOSE, true, text, n + 2);
	exchange_stop(x, v);
	return false;
}

static bool websocket_broken(struct exchange *x, bool up)
{
	struct egress_verdict v = { 0 };

	if (!up) {
		exchange_fail(x, 502, "the host's frames are malformed");
		return false;
	}
	(void)verdict_deny(&v, EGRESS_BAD_REQUEST, NULL, "the frames are malformed");
	return websocket_stop(x, &v);
}

/* --- what a message holds packed --- */

static bool packed_begin(struct exchange *x, struct ws_side *s, enum scan_direction d,
			 struct egress_verdict *v)
{
	s->later = (struct buf)BUF_INIT(CODED_MAX * 4);
	return packed_open(x, d, &s->nest, v);
}

/* Where something packed was found the last of the message waits for its end. */
static bool packed_write(struct exchange *x, struct ws_side *s, bool up, const char *p, size_t n,
			 bool last, bool end)
{
	size_t ready = 0;

	if (!s->nest || (!nest_packed(s->nest) && !s->later.len))
		return write_data(x, s, up, p, n, end);
	if (!packed_ready(s->nest, &s->later, p, n, last, &ready) ||
	    !write_data(x, s, up, buf_str(&s->later), ready, end))
		return false;
	packed_gone(&s->later, ready);
	return true;
}

static void packed_end(struct ws_side *s)
{
	s->nest = nest_free(s->nest);
	buf_done(&s->later);
}

/* --- up: scanned --- */

static bool scan_begin(struct exchange *x, struct ws_side *s, struct egress_verdict *v)
{
	struct err e;

	if (!x->k->scanner || s->scan)
		return true;
	if (scan_open(x->k->scanner, SCAN_OUT, &s->scan, &e) < 0)
		return verdict_deny(v, EGRESS_INTERNAL, NULL, "%s", e.what);
	if (!packed_begin(x, s, SCAN_OUT, v))
		return false;
	scan_packed(s->scan, nest_run, s->nest);
	return true;
}

static bool scan_message(struct exchange *x, struct ws_side *s, char *p, size_t n, bool last,
			 struct scan_release *r, struct egress_verdict *v)
{
	return !s->scan ||
	       (packed_feed(x, s->nest, p, n, last, v) && scan_feed(s->scan, p, n, last, r, v) &&
		nest_settle(s->nest, v) && packed_unread(x, nest_unreadable(s->nest), v));
}

/* One part of a message; false: it was stopped. */
static bool scan_part(struct exchange *x, char *p, size_t n, bool last, bool end)
{
	struct ws_side *s = &x->ws->up;
	struct scan_release r = { .data = egress_text(p, n) };
	struct egress_verdict v = { 0 };

	if (!scan_begin(x, s, &v) || !scan_message(x, s, p, n, last, &r, &v))
		return websocket_stop(x, &v);
	if (last)
		s->size = 0;
	if ((r.held.n &&
	     !packed_write(x, s, true, r.held.p, r.held.n, last && !r.data.n, end && !r.data.n)) ||
	    ((r.data.n || !r.held.n) && !packed_write(x, s, true, r.data.p, r.data.n, last, end)))
		return websocket_broken(x, true);
	if (last) {
		s->scan = scan_close(s->scan);
		packed_end(s);
	}
	return true;
}

static bool data_up(struct exchange *x, const struct ws_piece *piece)
{
	struct ws_side *s = &x->ws->up;
	bool whole;

	if (piece->begins)
		s->next = piece->type;
	s->size += piece->n;
	whole = piece->ends || s->size >= MESSAGE_MAX;
	return scan_part(x, (char *)(uintptr_t)piece->p, piece->n, whole, piece->ends);
}

/* Of a control frame: all of it at once. */
static bool control_up(struct exchange *x, enum ws_code code, char *p, size_t n, size_t text)
{
	CLEANUP(scan) struct scan *scan = NULL;
	struct scan_release r;
	struct egress_verdict v = { 0 };
	char copy[WS_CONTROL_MAX];
	struct err e;

	memcpy(copy, p, n);
	if (x->k->scanner) {
		if (scan_open(x->k->scanner, SCAN_OUT, &scan, &e) < 0)
			return websocket_broken(x, true);
		scan_keep(scan);
		if (!scan_feed(scan, copy + text, n - text, true, &r, &v))
			return websocket_stop(x, &v);
	}
	return write_frame(x, true, code, true, p, n) || websocket_broken(x, true);
}

static bool piece_up(struct exchange *x, const struct ws_piece *piece)
{
	struct ws_side *s = &x->ws->up;
	char close[WS_CONTROL_MAX] = { (char)(piece->code >> 8), (char)piece->code };

	switch (piece->kind) {
	case WS_NOTHING:
		return true;
	case WS_DATA:
		return data_up(x, piece);
	case WS_ASKED:
	case WS_ANSWERED:
		return control_up(x, piece->kind == WS_ASKED ? WS_PING : WS_PONG,
				  (char *)(uintptr_t)piece->p, piece->n, 0);
	case WS_ENDED:
		break;
	}
	s->closed = true;
	if (piece->code == WS_NO_CODE)
		return control_up(x, WS_CLOSE, close, 0, 0);
	memcpy(close + 2, piece->p, piece->n);
	return control_up(x, WS_CLOSE, close, piece->n + 2, 2);
}

bool websocket_takes(const struct exchange *x)
{
	return x->state == EXCHANGE_ANSWERS && !x->way->ops->full(x->way);
}

size_t exchange_frames(struct exchange *x, char *p, size_t n)
{
	struct ws_side *s = &x->ws->up;
	struct egress_verdict v = { 0 };
	size_t at = 0;

	x->fed = true;
	if (!rate_sent(x->k->rate, n, &v)) {
		(void)websocket_stop(x, &v);
		return n;
	}
	x->t.bytes_out += n;
	while (at < n && !s->closed) {
		struct ws_piece piece;
		ssize_t took = ws_read(&s->reader, p + at, n - at, &piece);

		if (took <= 0) {
			(void)websocket_broken(x, true);
			return n;
		}
		if (!piece_up(x, &piece))
			return n;
		at += (size_t)took;
	}
	if (exchange_told(x))
		(void)link_push(x->way->ops->link(x->way));
	return n;
}

/* --- down: scrubbed --- */

/* What was scrubbed, on its way; what is packed nobody can scrub. */
static bool send_message(struct exchange *x, struct ws_side *s, struct http1_text t, bool last,
			 bool end)
{
	struct egress_verdict v = { 0 };

	look_at(x, t.p, t.n, false);
	if (x->bound && x->k->scanner && !s->nest && !packed_begin(x, s, SCAN_IN, &v))
		return websocket_stop(x, &v);
	if (s->nest && !packed_feed(x, s->nest, t.p, t.n, last, &v))
		return websocket_stop(x, &v);
	if (!packed_write(x, s, false, t.p, t.n, last, end))
		return false;
	if (last)
		packed_end(s);
	return true;
}

static bool data_down(struct exchange *x, const struct ws_piece *piece)
{
	struct ws_side *s = &x->ws->down;
	struct http1_text out = { piece->p, piece->n };
	struct scrubber *scrubber = x->k->scrubber;
	bool whole;
	struct err e;

	if (piece->begins)
		s->next = piece->type;
	s->size += piece->n;
	whole = piece->ends || s->size >= MESSAGE_MAX;
	if (scrubber && scrub_needed(scrubber)) {
		struct buf *clean = exchange_piece(x);

		if (!s->scrub && scrub_open(scrubber, NULL, NULL, &s->scrub, &e) < 0)
			return false;
		if (scrub_feed(s->scrub, piece->p, piece->n, whole, clean, &e) < 0 || clean->failed)
			return false;
		out = (struct http1_text){ buf_str(clean), clean->len };
	}
	if (whole) {
		x->scrubbed += s->scrub ? scrub_hits(s->scrub) : 0;
		s->scrub = scrub_close(s->scrub);
		s->size = 0;
	}
	return send_message(x, s, out, whole, piece->ends);
}

/* A placeholder may be longer than what it stands for: what has no room then is left out. */
static bool control_down(struct exchange *x, enum ws_code code, unsigned number, const char *p,
			 size_t n)
{
	CLEANUP(buf) struct buf b = BUF_INIT(4096);
	unsigned before = x->scrubbed;
	size_t head = number ? 2 : 0;
	struct err e;

	if (number) {
		buf_putc(&b, (char)(number >> 8));
		buf_putc(&b, (char)number);
	}
	if (!x->k->scrubber)
		buf_add(&b, p, n);
	else if (n && scrub_text(x->k->scrubber, p, n, &b, &x->scrubbed, &e) < 0)
		return false;
	if (b.len > WS_CONTROL_MAX && x->scrubbed != before)
		b.len = head;
	return !b.failed && write_frame(x, false, code, true, buf_str(&b), b.len);
}

static bool piece_down(struct exchange *x, const struct ws_piece *piece)
{
	struct ws_side *s = &x->ws->down;

	switch (piece->kind) {
	case WS_NOTHING:
		return true;
	case WS_DATA:
		return data_down(x, piece);
	case WS_ASKED:
	case WS_ANSWERED:
		return control_down(x, piece->kind == WS_ASKED ? WS_PING : WS_PONG, 0, piece->p,
				    piece->n);
	case WS_ENDED:
		break;
	}
	s->closed = true;
	return control_down(x, WS_CLOSE, piece->code == WS_NO_CODE ? 0 : piece->code, piece->p,
			    piece->n);
}

/* What has come from the host; false: the exchange is over. */
static bool read_down(struct exchange *x, size_t n)
{
	struct link *u = &x->up->link;
	struct ws_side *s = &x->ws->down;
	struct egress_verdict v = { 0 };
	size_t at = 0;

	if (!rate_received(x->k->rate, n, &v))
		return websocket_stop(x, &v);
	x->t.bytes_in += n;
	while (at < n && !s->closed) {
		struct ws_piece piece;
		ssize_t took =
			ws_read(&s->reader, (char *)(uintptr_t)link_data(u) + at, n - at, &piece);

		if (took <= 0)
			return websocket_broken(x, false);
		if (!piece_down(x, &piece)) {
			if (x->state == EXCHANGE_ANSWERS)
				exchange_cut(x);
			return false;
		}
		at += (size_t)took;
	}
	link_take(u, n);
	x->d->turn += n;
	return true;
}

bool websocket_down(struct exchange *x)
{
	struct link *u = &x->up->link;
	bool moved = false;

	while (x->state == EXCHANGE_ANSWERS && !x->d->ops->full(x->d) && !downstream_tired(x->d)) {
		if (x->ws->down.closed) {
			x->state = EXCHANGE_DONE;
			return true;
		}
		if (!u->in.len && !link_fill(u)) {
			if (!u->eof && !u->broken)
				break;
			exchange_cut(x);
			return true;
		}
		if (!read_down(x, u->in.len < PIECE ? u->in.len : PIECE))
			return true;
		moved = true;
	}
	return moved;
}
