/* SPDX-License-Identifier: Apache-2.0 */
/* apps/mcp/mcp_exchange.c - one POST and its answer: JSON, or events where there is something to
 * say before it, or where it takes long. */
#include <stdlib.h>
#include <string.h>

#include "apps/mcp/mcp_http_internal.h"
#include "base/sys/clock.h"

/* By then the head of the answer is sent, so that whoever is in between sees that we are there. */
#define LATE_US ((uint64_t)10 * 1000000)
#define STREAM_FIELDS "X-Accel-Buffering: no\r\n"

void exchange_refuse(struct http_call *c, int status, const char *id, int code, const char *text,
		     const char *data)
{
	CLEANUP(buf) struct buf b = BUF_INIT(1 << 16);

	rpc_error(&b, id, code, text, data);
	http_answer(c, status, NULL, "application/json", buf_str(&b), b.len);
}

void exchange_free(struct mcp_exchange *x)
{
	loop_at(x->of->loop, &x->late, 0);
	if (x->call)
		x->call->gone = x->call->room = NULL;
	*x->at = x->next;
	if (x->next)
		x->next->at = x->at;
	if (x->session)
		x->session->exchanges--;
	(void)mcp_peer_free(x->peer);
	free(x);
}

/* Nothing more is said. What frees it is the loop: its peer may be in the middle of something. */
static void mcp_exchange_end(struct mcp_exchange *x)
{
	if (x->call)
		x->call->gone = x->call->room = NULL;
	x->call = NULL;
	x->over = true;
	loop_at(x->of->loop, &x->late, 1);
}

static void begin_stream(struct mcp_exchange *x)
{
	if (x->streaming)
		return;
	x->streaming = true;
	if (!http_stream(x->call, STREAM_FIELDS))
		mcp_exchange_end(x);
}

static void mcp_exchange_on_late(struct loop_timer *t, uint64_t now UNUSED)
{
	struct mcp_exchange *x = (struct mcp_exchange *)t;

	if (x->over)
		exchange_free(x);
	else if (x->takes_events)
		begin_stream(x);
}

static void mcp_exchange_on_gone(void *arg)
{
	struct mcp_exchange *x = arg;

	x->call = NULL;
	mcp_exchange_end(x);
	x->peer = mcp_peer_free(x->peer);
}

/* In the older era an error is an answer as good as any. */
static int status_of(const struct mcp_exchange *x, int code)
{
	if (!code || x->session)
		return 200;
	return code == RPC_METHOD ? 404 : code == RPC_INTERNAL ? 500 : 400;
}

static void mcp_exchange_say(void *arg, const struct mcp_said *s)
{
	struct mcp_exchange *x = arg;

	if (!x->call || x->over)
		return;
	if (!s->answer) {
		if (!x->takes_events || (s->weak && x->streaming && !http_room(x->call)))
			return;
		begin_stream(x);
		if (!x->over)
			http_event(x->call, "message", 0, s->p, s->n);
		return;
	}
	if (x->streaming) {
		http_event(x->call, "message", 0, s->p, s->n);
		http_stream_end(x->call);
	} else {
		http_answer(x->call, status_of(x, s->code), x->fields[0] ? x->fields : NULL,
			    "application/json", s->p, s->n);
	}
	mcp_exchange_end(x);
}

void exchange_drop(struct mcp_exchange *x)
{
	if (!x->call || x->over || (x->peer && mcp_under_way(x->peer)))
		return;
	if (x->takes_events) {
		begin_stream(x);
		if (x->call)
			http_stream_end(x->call);
	} else {
		http_answer(x->call, 202, NULL, NULL, "", 0);
	}
	mcp_exchange_end(x);
}

struct mcp_exchange *exchange_new(struct mcp_http *h, struct http_call *c, struct mcp_tenant *t,
				  struct mcp_session *s)
{
	struct mcp_exchange *x = calloc(1, sizeof(*x));

	if (x)
		x->peer = mcp_peer_new(t->server, mcp_exchange_say, x);
	if (!x || !x->peer) {
		free(x);
		exchange_refuse(c, 500, "", RPC_INTERNAL, "out of memory", NULL);
		return NULL;
	}
	x->late.due = mcp_exchange_on_late;
	x->of = h;
	x->call = c;
	x->tenant = t;
	x->session = s;
	x->next = h->exchanges;
	x->at = &h->exchanges;
	if (h->exchanges)
		h->exchanges->at = &x->next;
	h->exchanges = x;
	if (s) {
		s->exchanges++;
		mcp_peer_greeted(x->peer);
	}
	x->takes_events =
		http1_lists(c->head->fields, c->head->n_fields, "Accept", "text/event-stream") ||
		http1_lists(c->head->fields, c->head->n_fields, "Accept", "*/*");
	c->gone = mcp_exchange_on_gone;
	c->arg = x;
	loop_at(h->loop, &x->late, clock_us() + LATE_US);
	return x;
}
