/* SPDX-License-Identifier: Apache-2.0 */
/* egress/worker/exchange_sign.c - a request whose signature covers a body that nobody has hashed.
 *
 * Clients of S3 say the hash in the head, and the body streams. Those of other services may leave
 * it out: then the body is held, the head is signed once all of it came, and both go up. */
#include <string.h>

#include "base/text/cleanup.h"
#include "egress/oauth/oauth.h"
#include "egress/worker/exchange_internal.h"

#define HOLD_MAX ((size_t)8 << 20)

bool exchange_holds(const struct exchange *x)
{
	return x->state == EXCHANGE_WAITS && x->waits_body && !x->held_whole;
}

void exchange_ask_body(struct exchange *x)
{
	if (!x->expects || !exchange_told(x))
		return;
	x->expects = false;
	(void)x->d->ops->head(x->d, &(struct down_head){ .status = 100 });
}

static void sign_held(struct exchange *x)
{
	char hash[SHA256_HEX], digits[SIGV4_DIGITS + 1];

	sha256_of(buf_str(&x->held), x->held.len, hash);
	sigv4_finish(&x->sign, hash, digits);
	memcpy(x->head.data + x->sign_at, digits, SIGV4_DIGITS);
	x->sign.waits = x->waits_body = false;
	x->held_whole = true;
}

void exchange_hold(struct exchange *x, const char *p, size_t n, bool last)
{
	struct egress_verdict v = { 0 };

	if (!x->held.max)
		x->held = (struct buf)BUF_INIT(x->endpoint ? OAUTH_BODY_MAX : HOLD_MAX);
	buf_add(&x->held, p, n);
	if (x->endpoint) {
		if (x->held.failed)
			(void)verdict_deny(&v, EGRESS_BAD_REQUEST, NULL,
					   "a body of more than %zu KiB to a token endpoint",
					   OAUTH_BODY_MAX >> 10);
		if (x->held.failed || (last && !exchange_oauth_up(x, &v)))
			exchange_stop(x, &v);
		return;
	}
	if (x->held.failed) {
		(void)verdict_deny(&v, EGRESS_BAD_REQUEST,
				   "let the client send x-amz-content-sha256",
				   "a body of more than %zu MiB whose hash is not in the head, and "
				   "must be signed",
				   HOLD_MAX >> 20);
		exchange_stop(x, &v);
		return;
	}
	if (last)
		sign_held(x);
}

bool exchange_pump(struct exchange *x)
{
	bool moved = false;

	if (!x->held_whole || x->up_done ||
	    (x->state != EXCHANGE_ASKS && x->state != EXCHANGE_ANSWERS))
		return false;
	while (!x->up_done && !x->way->ops->full(x->way)) {
		size_t left = x->held.len - x->held_sent, n = left < PIECE ? left : PIECE;
		char none[1] = "";
		bool last = !left;

		if (x->endpoint && !last)
			x->way->ops->body(x->way, x->held.data + x->held_sent, n);
		else if (!x->endpoint &&
			 !exchange_send_up(x, last ? none : x->held.data + x->held_sent, n, last))
			return true;
		x->t.bytes_out += x->endpoint ? n : 0;
		x->held_sent += n;
		x->up_done = last;
		if (last)
			x->way->ops->end(x->way, (struct http1_text){ "", 0 });
		moved = true;
	}
	if (x->up_done) {
		if (x->held.data)
			explicit_bzero(x->held.data, x->held.len);
		buf_done(&x->held);
	}
	return moved;
}
