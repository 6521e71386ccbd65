/* SPDX-License-Identifier: Apache-2.0 */
/* egress/report.c - decisions on their way to the monitor. No path, no query, no body: names,
 * ports, sizes and reasons. */
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "egress/worker.h"

static void copy(char *to, size_t room, const char *from)
{
	size_t n = from ? strlen(from) : 0;

	if (n >= room)
		n = room - 1;
	if (n)
		memcpy(to, from, n);
	to[n] = '\0';
}

static void fill(struct egress_event *ev, enum egress_event_kind kind,
		 const struct egress_verdict *v, struct http1_text method)
{
	memset(ev, 0, sizeof(*ev));
	ev->kind = kind;
	ev->reason = v->reason;
	ev->port = v->port;
	copy(ev->host, sizeof(ev->host), v->host.name);
	copy(ev->rule, sizeof(ev->rule), v->rule);
	copy(ev->what, sizeof(ev->what), v->what);
	copy(ev->hint, sizeof(ev->hint), v->hint);
	if (method.n < sizeof(ev->method))
		memcpy(ev->method, method.p, method.n);
}

bool report_flush(struct worker *k)
{
	size_t sent = 0;

	while (sent < k->n_events) {
		size_t n = k->n_events - sent;

		n = n < EGRESS_BATCH ? n : EGRESS_BATCH;
		if (send(k->monitor.fd, &k->events[sent], n * sizeof(*k->events),
			 MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
			break;
		sent += n;
	}
	k->n_events -= sent;
	if (sent && k->n_events)
		memmove(k->events, &k->events[sent], k->n_events * sizeof(*k->events));
	if (!sent && !k->stalled && !k->n_events)
		return true;
	k->stalled = k->n_events > 0;
	(void)loop_want(k->loop, &k->monitor, k->stalled ? EPOLLIN | EPOLLOUT : EPOLLIN);
	return !k->stalled;
}

/* Room for one more event, or NULL. */
static struct egress_event *room(struct worker *k)
{
	if (k->n_events == EVENTS_MAX)
		(void)report_flush(k);
	return k->n_events < EVENTS_MAX ? &k->events[k->n_events++] : NULL;
}

bool report_allow(struct worker *k, const struct egress_verdict *v, struct http1_text method)
{
	struct egress_event *ev = room(k);

	if (!ev)
		return false;
	fill(ev, EGRESS_EVENT_ALLOW, v, method);
	ev->what[0] = ev->hint[0] = '\0';
	return true;
}

void report_deny(struct worker *k, const struct egress_verdict *v, struct http1_text method)
{
	struct egress_event *ev = room(k);

	if (ev)
		fill(ev, EGRESS_EVENT_DENY, v, method);
	(void)report_flush(k); /* the guest may be gone the moment it hears of it */
}

void report_done(struct worker *k, const struct egress_verdict *v, struct http1_text method,
		 const struct addr *a, int status, uint64_t out, uint64_t in)
{
	struct egress_event *ev = room(k);

	if (!ev)
		return;
	fill(ev, EGRESS_EVENT_DONE, v, method);
	ev->what[0] = ev->hint[0] = '\0';
	ev->status = (uint16_t)status;
	ev->bytes_out = out;
	ev->bytes_in = in;
	if (a)
		addr_text(a, ev->address);
}

bool report_credential(struct worker *k, enum egress_event_kind kind,
		       const struct egress_verdict *v, const char *name)
{
	struct egress_event *ev = room(k);

	if (!ev)
		return false;
	fill(ev, kind, v, (struct http1_text){ "", 0 });
	ev->what[0] = ev->hint[0] = '\0';
	copy(ev->rule, sizeof(ev->rule), name);
	return true;
}

void report_leak(struct worker *k, const char *kind, bool redacted)
{
	struct egress_event *ev = room(k);

	if (!ev)
		return;
	*ev = (struct egress_event){ .kind = EGRESS_EVENT_LEAK, .reason = EGRESS_LEAK };
	copy(ev->what, sizeof(ev->what), redacted ? "redacted" : "let pass");
	copy(ev->rule, sizeof(ev->rule), kind);
}

void report_state(int monitor, enum egress_event_kind kind, const struct err *e)
{
	struct egress_event ev = { .kind = kind };

	if (e) {
		copy(ev.what, sizeof(ev.what), e->what);
		copy(ev.hint, sizeof(ev.hint), e->hint);
	}
	(void)!send(monitor, &ev, sizeof(ev), MSG_DONTWAIT | MSG_NOSIGNAL);
}
