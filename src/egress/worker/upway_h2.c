/* SPDX-License-Identifier: Apache-2.0 */
/* egress/worker/upway_h2.c - see upway_h2.h.
 *
 * What comes is read whenever it comes: the windows of the streams bound it. Whose stream has news
 * is run by its session, later in the same turn of the loop, so nothing is freed on the way. */
#include "egress/worker/upway_h2.h"

#include <errno.h>
#include <stdlib.h>

#include "base/text/cleanup.h"
#include "wire/h2/h2.h"

#define IDLE_US ((uint64_t)30 * 1000 * 1000)
#define READS 64 /* at once */

struct upway_h2 {
	struct upway way; /* first */
	struct share *c;
	struct h2_stream *s; /* NULL: its request could not be sent */
	upstream_fn *stirs;
	void *owner;
	struct upway_h2 *next, **at;
	enum http1_asked asked;
	size_t shown; /* of a head */
	bool lost;
};

struct share {
	struct shares *of;
	struct share *next, **at;
	struct upstream *up; /* owned; NULL: somebody took it */
	struct host host;
	uint16_t port;
	struct h2 *h2;
	struct upway_h2 *users;
	bool plain;        /* the host speaks HTTP/1 */
	bool asked;        /* for something, by anybody */
	bool dead;         /* nothing more comes or goes */
	uint64_t deadline; /* without users */
};

struct shares {
	struct worker *k;
	struct share *v;
};

static const struct upway_ops upway_h2_ops;

static void share_tell(struct share *c)
{
	for (struct upway_h2 *w = c->users; w; w = w->next)
		w->stirs(w->owner);
}

static void share_free(struct share *c)
{
	*c->at = c->next;
	if (c->next)
		c->next->at = c->at;
	(void)h2_free(c->h2);
	(void)upstream_free(c->up);
	free(c);
}

/* ---- bytes ---- */

static void share_pump(struct share *c)
{
	struct link *l = &c->up->link;
	const char *p;
	size_t n;

	while (c->h2 && !link_full(l) && (n = h2_next(c->h2, &p)))
		(void)link_add(l, p, n);
}

/* true: something came. */
static bool share_read(struct share *c)
{
	struct link *l = &c->up->link;
	bool moved = false;

	for (int i = 0; i < READS && !c->dead && !link_full(l); i++) {
		if (!l->in.len && !link_fill(l))
			break;
		moved = true;
		if (!h2_feed(c->h2, link_data(l), l->in.len, loop_now(c->of->k->loop)))
			c->dead = true;
		link_take(l, l->in.len);
		share_pump(c);
	}
	if (l->eof || l->broken || h2_over(c->h2)) {
		moved |= !c->dead;
		c->dead = true;
	}
	return moved;
}

/* Nothing of a request leaves before the monitor knows of it. */
static void share_settle(struct share *c)
{
	struct worker *k = c->of->k;
	struct link *l = &c->up->link;

	share_pump(c);
	if (!k->n_events)
		(void)link_flush(l);
	else
		share_tell(c);
	(void)link_wait(k->loop, l, !c->dead && !link_full(l));
}

static void on_connection(void *arg)
{
	struct share *c = arg;

	if (!c->h2) {
		share_tell(c);
		return;
	}
	(void)share_read(c);
	share_settle(c);
	if (c->dead)
		share_tell(c);
	if (c->dead && !c->users)
		share_free(c);
}

static void never_opened(void *arg UNUSED, struct h2_stream *s UNUSED)
{
}

static void on_stirs(void *arg UNUSED, struct h2_stream *s)
{
	struct upway_h2 *w = s->owner;

	w->stirs(w->owner);
}

static const struct h2_events share_events = { .opened = never_opened, .stirs = on_stirs };

/* ---- users ---- */

static struct share *share_find(struct shares *s, const struct egress_verdict *v)
{
	for (struct share *c = s->v; c; c = c->next)
		if (!c->dead && c->port == v->port && host_eq(&c->host, &v->host) &&
		    (c->plain ||
		     (c->up && c->up->state != UP_FAILED && (!c->h2 || h2_accepts(c->h2)))))
			return c;
	return NULL;
}

static struct share *share_new(struct shares *s, const struct egress_verdict *v, bool fresh)
{
	struct share *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->up = upstream_get(s->k, v, UPSTREAM_H2, fresh);
	if (!c->up) {
		free(c);
		return NULL;
	}
	upstream_own(c->up, on_connection, c);
	c->of = s;
	c->host = v->host;
	c->port = v->port;
	c->next = s->v;
	if (c->next)
		c->next->at = &c->next;
	c->at = &s->v;
	s->v = c;
	return c;
}

struct upway_h2 *upway_h2_join(struct shares *s, const struct egress_verdict *v, bool fresh,
			       upstream_fn *stirs, void *owner)
{
	struct share *c = fresh ? NULL : share_find(s, v);
	struct upway_h2 *w;

	if (c && c->plain)
		return NULL;
	w = calloc(1, sizeof(*w));
	if (w && !c)
		c = share_new(s, v, fresh);
	if (!w || !c) {
		free(w);
		return NULL;
	}
	w->way.ops = &upway_h2_ops;
	w->c = c;
	w->stirs = stirs;
	w->owner = owner;
	w->next = c->users;
	if (w->next)
		w->next->at = &w->next;
	w->at = &c->users;
	c->users = w;
	return w;
}

struct upstream *upway_h2_upstream(const struct upway_h2 *w)
{
	return w->c->up;
}

void upway_h2_step(struct upway_h2 *w)
{
	struct share *c = w->c;
	enum upstream_state was;

	if (!c->up || c->h2)
		return;
	was = c->up->state;
	upstream_step(c->up);
	if (c->up->state == UP_OPEN) {
		c->plain = !c->up->link.tls || !tls_speaks(c->up->link.tls, "h2");
		c->h2 = c->plain ? NULL : h2_new(H2_CLIENT, &share_events, c);
		c->dead = !c->plain && !c->h2;
	}
	c->dead |= c->up->state == UP_FAILED;
	if (c->up->state != was && c->up->state >= UP_OPEN)
		share_tell(c);
}

struct upway *upway_h2_way(struct upway_h2 *w)
{
	return w->c->plain ? NULL : &w->way;
}

void upway_h2_leave(struct upway_h2 *w)
{
	struct share *c;

	if (!w)
		return;
	c = w->c;
	h2_leave(w->s);
	*w->at = w->next;
	if (w->next)
		w->next->at = w->at;
	free(w);
	if (c->users)
		return;
	c->deadline = loop_now(c->of->k->loop) + IDLE_US;
	if (c->plain)
		c->up = upstream_free(c->up);
	else if (c->dead || !c->h2)
		share_free(c);
	else
		share_settle(c);
}

struct upstream *upway_h2_take(struct upway_h2 *w)
{
	struct upstream *u = TAKE_PTR(w->c->up);

	upway_h2_leave(w);
	return u;
}

/* ---- the way ---- */

static struct upway_h2 *way_of(const struct upway *w)
{
	return (struct upway_h2 *)(uintptr_t)w;
}

static void upway_h2_head(struct upway *way, const struct up_head *h)
{
	struct upway_h2 *w = way_of(way);

	w->asked = h->asked;
	w->s = w->c->dead ? NULL : h2_ask(w->c->h2, h->text, h->body, w);
	w->lost = !w->s;
	w->c->up->reused = w->c->asked; /* it may have been closed meanwhile */
	w->c->asked = true;
}

static void upway_h2_body(struct upway *way, const char *p, size_t n)
{
	struct upway_h2 *w = way_of(way);

	if (w->s && !h2_add(w->s, p, n))
		w->lost = true;
}

static void upway_h2_end(struct upway *way, struct http1_text trailers)
{
	struct upway_h2 *w = way_of(way);

	if (w->s)
		h2_end(w->s, trailers);
}

static bool upway_h2_full(const struct upway *way)
{
	const struct upway_h2 *w = way_of(way);

	return !w->s || w->s->closed || h2_full(w->s);
}

static enum up_read gone(const struct upway_h2 *w, const char *what, struct err *e)
{
	(void)err_set(e, ERR_INTERNAL, ECONNRESET, "%s", what);
	return w->s && w->s->refused ? UP_READ_LOST : w->s ? UP_READ_BAD : UP_READ_LOST;
}

static enum up_read upway_h2_answer(struct upway *way, struct up_answer *ret, struct err *e)
{
	struct upway_h2 *w = way_of(way);
	struct http1_text t;
	ssize_t n;

	if (w->shown)
		h2_drop_head(w->s, w->shown);
	w->shown = 0;
	if (w->lost)
		return gone(w, "the request cannot be sent over HTTP/2", e);
	t = h2_heads(w->s);
	n = t.n ? http1_read_answer(t.p, t.n, w->asked, &ret->head, e) : 0;
	if (n < 0)
		return UP_READ_BAD;
	if (n == 0 && (w->s->closed || w->c->dead))
		return gone(w, "the host closed the connection without an answer", e);
	if (n == 0)
		return share_read(w->c) ? UP_READ_MOVED : UP_READ_NOTHING;
	w->shown = ret->n = (size_t)n;
	if (ret->head.status >= 200 && w->s->bare)
		ret->head.framing = HTTP1_NO_BODY;
	return UP_READ_THERE;
}

static enum up_read upway_h2_piece(struct upway *way, size_t most, struct up_piece *ret,
				   struct err *e)
{
	struct upway_h2 *w = way_of(way);
	char *p;

	if (w->shown)
		h2_drop_head(w->s, w->shown);
	w->shown = 0;
	ret->n = h2_piece(w->s, most, &p);
	ret->data = (struct http1_text){ p, ret->n };
	if (ret->n)
		return UP_READ_THERE;
	if (w->s->ended) {
		ret->trailers = h2_trailers(w->s);
		return UP_READ_END;
	}
	if (w->s->closed || w->c->dead || w->lost) {
		(void)err_set(e, ERR_INTERNAL, EBADMSG, "the answer was cut short");
		return UP_READ_BAD;
	}
	return share_read(w->c) ? UP_READ_MOVED : UP_READ_NOTHING;
}

static struct link *upway_h2_link(struct upway *way)
{
	struct share *c = way_of(way)->c;

	share_pump(c);
	return &c->up->link;
}

static void upway_h2_done(struct upway *way, bool whole UNUSED)
{
	upway_h2_leave(way_of(way));
}

static const struct upway_ops upway_h2_ops = {
	.head = upway_h2_head,
	.body = upway_h2_body,
	.end = upway_h2_end,
	.full = upway_h2_full,
	.answer = upway_h2_answer,
	.piece = upway_h2_piece,
	.link = upway_h2_link,
	.done = upway_h2_done,
};

/* ---- a session's ---- */

struct shares *shares_new(struct worker *k)
{
	struct shares *s = calloc(1, sizeof(*s));

	if (s)
		s->k = k;
	return s;
}

struct shares *shares_free(struct shares *s)
{
	if (!s)
		return NULL;
	while (s->v)
		share_free(s->v);
	free(s);
	return NULL;
}

void shares_tick(struct shares *s, uint64_t now)
{
	for (struct share *c = s->v, *next; c; c = next) {
		next = c->next;
		if (!c->users && now >= c->deadline)
			share_free(c);
	}
}
