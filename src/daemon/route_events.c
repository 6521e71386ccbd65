/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/route_events.c - GET /v1/events: what happened since, and what happens. */
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "base/str.h"
#include "daemon/api.h"

struct subscriber {
	struct events_listener listener; /* first */
	struct api *api;
	struct http_call *call;
	struct events_cursor at;
	bool follow, one; /* one: of that sandbox alone */
	char sandbox[SANDBOX_ID_SIZE];
};

static void forget(void *arg)
{
	struct subscriber *s = arg;

	events_unlisten(&s->listener);
	free(s);
}

static void news(struct events_listener *l)
{
	http_wake(((struct subscriber *)l)->call);
}

static void finish(struct subscriber *s)
{
	s->call->room = s->call->gone = NULL;
	http_stream_end(s->call);
	forget(s);
}

/* Too far behind: what it would hear next is gone. It is told so, and begins anew. */
static void cut_off(struct subscriber *s)
{
	char text[96];
	int n = snprintf(
		text, sizeof(text), "{\"code\":\"events-expired\",\"oldest\":%llu}",
		(unsigned long long)events_oldest(s->api->events, s->call->caller->tenant));

	http_event(s->call, "error", 0, text, (size_t)n);
	finish(s);
}

static void pump(void *arg)
{
	struct subscriber *s = arg;
	const char *tenant = s->call->caller->tenant;

	while (http_room(s->call)) {
		struct event_text ev;
		int r = events_next(s->api->events, &s->at, tenant, s->one ? s->sandbox : NULL,
				    &ev);

		if (r < 0) {
			cut_off(s);
			return;
		}
		if (r == 0) {
			if (!s->follow)
				finish(s);
			return;
		}
		http_event(s->call, ev.type, ev.seq, ev.json, ev.n);
	}
}

/* A number from the query or, when a client comes again, from Last-Event-ID; else *at stays. */
static enum problem since(const struct http_call *c, struct events_cursor *at, struct err *e)
{
	struct http1_text t = http_field(c, "Last-Event-ID");
	char text[24];
	uint64_t seq;
	int r = http_param(c, "since", text, sizeof(text));

	if (t.p && t.n < sizeof(text)) {
		(void)snprintf(text, sizeof(text), "%.*s", (int)t.n, t.p);
		r = (int)t.n;
	}
	if (r == -ENOENT && !t.p)
		return PROBLEM_NONE;
	if (r < 0 || num_count(text, &seq) < 0)
		return problem_say(PROBLEM_INVALID, e, "that is not the number of an event");
	if (seq != at->seq) /* else it has all of them: no need to look for its place */
		*at = (struct events_cursor){ .seq = seq };
	return PROBLEM_NONE;
}

static enum problem read_query(struct api *a, struct subscriber *s, struct err *e)
{
	struct http_call *c = s->call;
	char follow[8];
	int r = http_param(c, "sandbox", s->sandbox, sizeof(s->sandbox));

	if (r < 0 && r != -ENOENT)
		return problem_say(PROBLEM_INVALID, e, "'sandbox' is malformed");
	s->one = r >= 0;
	r = http_param(c, "follow", follow, sizeof(follow));
	s->follow = r < 0 || !str_eq(follow, "false");
	events_end(a->events, c->caller->tenant, &s->at);
	return since(c, &s->at, e);
}

void serve_events(struct api *a, struct http_call *c, const struct jread *body)
{
	struct subscriber *s = calloc(1, sizeof(*s));
	struct err e = { 0 };
	enum problem p;

	(void)body;
	if (!s) {
		(void)err_nomem(&e);
		http_problem(c, PROBLEM_INTERNAL, &e);
		return;
	}
	*s = (struct subscriber){ .api = a, .call = c, .listener = { .news = news } };
	p = read_query(a, s, &e);
	if (p != PROBLEM_NONE || s->at.seq + 1 < events_oldest(a->events, c->caller->tenant)) {
		if (p != PROBLEM_NONE)
			http_problem(c, p, &e);
		else
			http_expired(c, events_oldest(a->events, c->caller->tenant));
		free(s);
		return;
	}
	if (!http_stream(c, NULL)) {
		free(s);
		return;
	}
	events_listen(a->events, &s->listener);
	c->room = pump;
	c->gone = forget;
	c->arg = s;
}
