/* SPDX-License-Identifier: Apache-2.0 */
/* egress/worker/upway_http1.c - HTTP/1 with a host: one exchange after another over a connection.
 */
#include <errno.h>

#include "egress/worker/exchange.h"
#include "egress/worker/worker.h"

static struct upstream *upway_http1_of(const struct upway *w)
{
	return CONTAINER_OF((struct upway *)(uintptr_t)w, struct upstream, way);
}

/* What was shown last has been used by now. */
static void drop_shown(struct upstream *u)
{
	if (u->shown)
		link_take(&u->link, u->shown);
	u->shown = 0;
}

/* ---- the request ---- */

static void upway_http1_head(struct upway *w, const struct up_head *h)
{
	struct upstream *u = upway_http1_of(w);

	u->chunks = h->chunked;
	u->asked = h->asked;
	(void)link_add(&u->link, h->text.p, h->text.n);
}

static void upway_http1_body(struct upway *w, const char *p, size_t n)
{
	struct upstream *u = upway_http1_of(w);

	(void)exchange_put(&u->link, u->chunks, p, n);
}

static void upway_http1_end(struct upway *w, struct http1_text trailers UNUSED)
{
	struct upstream *u = upway_http1_of(w);

	if (u->chunks)
		(void)link_add(&u->link, "0\r\n\r\n", 5);
}

static bool upway_http1_full(const struct upway *w)
{
	const struct link *l = &upway_http1_of(w)->link;

	return link_full(l) || l->broken;
}

/* ---- the answer ---- */

static enum up_read closed(const struct link *l, struct err *e)
{
	(void)err_set(e, ERR_INTERNAL, ECONNRESET,
		      "the host closed the connection without an answer");
	return l->in.len ? UP_READ_BAD : UP_READ_LOST;
}

static enum up_read upway_http1_answer(struct upway *w, struct up_answer *ret, struct err *e)
{
	struct upstream *u = upway_http1_of(w);
	struct http1_answer *a = &ret->head;
	struct link *l = &u->link;
	ssize_t n;

	drop_shown(u);
	n = l->in.len ? http1_read_answer(link_data(l), l->in.len, u->asked, a, e) : 0;
	if (n < 0)
		return UP_READ_BAD;
	if (n == 0 && link_fill(l))
		return UP_READ_MOVED;
	if (n == 0)
		return l->eof || l->broken ? closed(l, e) : UP_READ_NOTHING;
	u->shown = ret->n = (size_t)n;
	if (a->status < 200)
		return UP_READ_THERE;
	u->keeps_alive = a->keeps_alive;
	http1_body_init(&u->body, a);
	return UP_READ_THERE;
}

/* Nothing more comes: of a body without a length this is the end. */
static enum up_read upway_http1_ended(struct upstream *u, struct err *e)
{
	if (u->link.broken || http1_body_end(&u->body) < 0) {
		(void)err_set(e, ERR_INTERNAL, EBADMSG, "the answer was cut short");
		return UP_READ_BAD;
	}
	u->keeps_alive = false;
	return UP_READ_END;
}

static enum up_read upway_http1_piece(struct upway *w, size_t most, struct up_piece *ret,
				      struct err *e)
{
	struct upstream *u = upway_http1_of(w);
	struct link *l = &u->link;
	ssize_t n;

	drop_shown(u);
	if (http1_body_done(&u->body))
		return UP_READ_END;
	if (!l->in.len && !link_fill(l))
		return l->eof || l->broken ? upway_http1_ended(u, e) : UP_READ_NOTHING;
	n = http1_body_read(&u->body, link_data(l), l->in.len < most ? l->in.len : most,
			    &ret->data);
	if (n < 0) {
		(void)err_set(e, ERR_INTERNAL, EBADMSG, "the answer's chunks are malformed");
		return UP_READ_BAD;
	}
	u->shown = ret->n = (size_t)n;
	return UP_READ_THERE;
}

/* ---- */

static struct link *upway_http1_link(struct upway *w)
{
	return &upway_http1_of(w)->link;
}

static void upway_http1_done(struct upway *w, bool whole)
{
	struct upstream *u = upway_http1_of(w);

	drop_shown(u);
	if (whole && u->keeps_alive)
		upstream_release(u);
	else
		(void)upstream_free(u);
}

const struct upway_ops upway_http1 = {
	.head = upway_http1_head,
	.body = upway_http1_body,
	.end = upway_http1_end,
	.full = upway_http1_full,
	.answer = upway_http1_answer,
	.piece = upway_http1_piece,
	.link = upway_http1_link,
	.done = upway_http1_done,
};
