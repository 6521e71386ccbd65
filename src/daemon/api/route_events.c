/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/api/route_events.c - GET /v1/events: what happened since, and what happens. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/sys/clock.h"
#include "base/text/num.h"
#include "base/text/str.h"
#include "daemon/api/api.h"

#define PACE_US 20     /* for each who listens, between two times that all are told */
#define PACE_MAX 10000 /* and never longer */
#define PIECE ((size_t)32 << 10)
#define TEXT_MAX ((size_t)4 << 20)

struct subscriber {
	struct subscriber *next, **link;
	struct api *api;
	struct http_call *call;
	struct events_cursor at;
	bool follow, one; /* one: of that sandbox alone */
	char sandbox[SANDBOX_ID_SIZE];
};

/* ---- when they are told ----
 *
 * Telling somebody is a system call, and wakes somebody up. Told of each event by itself, hundreds
 * of listeners keep the daemon from taking the calls that make the next events. So what happens
 * within some milliseconds is told together; one listener alone is told at once. */

static void tell_all(struct event_fan *f, uint64_t now)
{
	f->told = now;
	for (struct subscriber *s = f->first; s; s = s->next)
		http_wake(s->call);
}

static void on_later(struct loop_timer *t, uint64_t now)
{
	tell_all(CONTAINER_OF(t, struct event_fan, later), now);
}

static void news(struct events_listener *l)
{
	struct event_fan *f = CONTAINER_OF(l, struct event_fan, listener);
	uint64_t pace = f->count * PACE_US, now = clock_us();

	if (pace > PACE_MAX)
		pace = PACE_MAX;
	if (now >= f->told + pace)
		tell_all(f, now);
	else if (!f->later.at)
		loop_at(f->first->api->loop, &f->later, f->told + pace);
}

static void listen_to(struct api *a, struct subscriber *s)
{
	struct event_fan *f = &a->fan;

	s->next = f->first;
	s->link = &f->first;
	if (s->next)
		s->next->link = &s->next;
	f->first = s;
	f->text.max = TEXT_MAX;
	f->later.due = on_later;
	f->listener.news = news;
	if (!f->count++)
		events_listen(a->events, &f->listener);
}

static void route_events_forget(void *arg)
{
	struct subscriber *s = arg;
	struct event_fan *f = &s->api->fan;

	*s->link = s->next;
	if (s->next)
		s->next->link = s->link;
	if (!--f->count) {
		events_unlisten(&f->listener);
		loop_at(s->api->loop, &f->later, 0);
		buf_done(&f->text);
	}
	free(s);
}

static void route_events_finish(struct subscriber *s)
{
	s->call->room = s->call->gone = NULL;
	http_stream_end(s->call);
	route_events_forget(s);
}

/* Too far behind: what it would hear next is gone. It is told so, and begins anew. */
static void cut_off(struct subscriber *s)
{
	char text[96];
	int n = snprintf(
		text, sizeof(text), "{\"code\":\"events-expired\",\"oldest\":%llu}",
		(unsigned long long)events_oldest(s->api->events, s->call->caller->tenant));

	http_event(s->call, "error", 0, text, (size_t)n);
	route_events_finish(s);
}

/* Most listeners want the same: it is read and put into words once. */
static bool is_wanted(const struct event_fan *f, const struct subscriber *s)
{
	return f->text.len && f->from.seq == s->at.seq && f->one == s->one &&
	       str_eq(f->tenant, s->call->caller->tenant) && str_eq(f->sandbox, s->sandbox);
}

/* Text for this one, as long as a piece may be. 0: there is none, and what the others want stays;
 * or -errno of events_next. */
static int route_events_put_text(struct event_fan *f, struct subscriber *s)
{
	const char *tenant = s->call->caller->tenant, *sandbox = s->one ? s->sandbox : NULL;
	struct events_cursor from = s->at;
	struct event_text ev;
	int r = events_next(s->api->events, &s->at, tenant, sandbox, &ev);

	if (r <= 0)
		return r;
	f->text.len = 0;
	f->from = from;
	f->one = s->one;
	(void)snprintf(f->tenant, sizeof(f->tenant), "%s", tenant);
	memcpy(f->sandbox, s->sandbox, sizeof(f->sandbox));
	do {
		f->to = s->at;
		http_event_text(&f->text, ev.type, ev.seq, ev.json, ev.n);
	} while (f->text.len < PIECE && !f->text.failed &&
		 events_next(s->api->events, &s->at, tenant, sandbox, &ev) > 0);
	if (!f->text.failed)
		return 1;
	buf_done(&f->text);
	return -ENOMEM;
}

static void pump(void *arg)
{
	struct subscriber *s = arg;
	struct event_fan *f = &s->api->fan;

	while (http_room(s->call)) {
		int r = is_wanted(f, s) ? 1 : route_events_put_text(f, s);

		if (r < 0) {
			cut_off(s);
			return;
		}
		if (r == 0) {
			if (!s->follow)
				route_events_finish(s);
			return;
		}
		http_events(s->call, f->text.data, f->text.len);
		s->at = f->to;
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

void serve_events(struct api *a, struct http_call *c, const struct jread *body UNUSED)
{
	struct subscriber *s = calloc(1, sizeof(*s));
	struct err e = { 0 };
	enum problem p;

	if (!s) {
		(void)err_nomem(&e);
		http_problem(c, PROBLEM_INTERNAL, &e);
		return;
	}
	*s = (struct subscriber){ .api = a, .call = c };
	p = read_query(a, s, &e);
	/* A number that was not given yet is of a log that is gone: it would be waited for. */
	if (p != PROBLEM_NONE || s->at.seq + 1 < events_oldest(a->events, c->caller->tenant) ||
	    s->at.seq > events_last(a->events)) {
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
	listen_to(a, s);
	c->room = pump;
	c->gone = route_events_forget;
	c->arg = s;
}
