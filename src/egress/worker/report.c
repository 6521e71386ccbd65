/* SPDX-License-Identifier: Apache-2.0 */
/* egress/worker/report.c - decisions on their way to the monitor. No query, no body, and but for
 * brig learn no path: names, ports, sizes and reasons. */
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/text/str.h"
#include "egress/worker/worker.h"

static void report_copy(char *to, size_t room, const char *from)
{
	size_t n = from ? strlen(from) : 0;

	if (n >= room)
		n = room - 1;
	if (from)
		memcpy(to, from, n);
	to[n] = '\0';
}

static void report_fill(struct egress_event *ev, enum egress_event_kind kind,
			const struct egress_verdict *v, struct http1_text method)
{
	memset(ev, 0, sizeof(*ev));
	ev->kind = kind;
	ev->reason = v->reason;
	ev->port = v->port;
	report_copy(ev->host, sizeof(ev->host), v->host.len ? v->host.name : v->address);
	report_copy(ev->rule, sizeof(ev->rule), v->rule);
	report_copy(ev->what, sizeof(ev->what), v->what);
	report_copy(ev->hint, sizeof(ev->hint), v->hint);
	if (method.n < sizeof(ev->method))
		memcpy(ev->method, method.p, method.n);
}

/* One packet of whole events, from `at` on; how much of them left, 0: nothing. */
static size_t send_packet(struct worker *k, size_t at, int flags)
{
	size_t n = event_packet(k->events + at, k->n_events - at);

	return send(k->monitor.fd, k->events + at, n, flags | MSG_NOSIGNAL) < 0 ? 0 : n;
}

static void drop_events(struct worker *k, size_t n)
{
	k->n_events -= n;
	if (n && k->n_events)
		memmove(k->events, k->events + n, k->n_events);
}

bool report_flush(struct worker *k)
{
	size_t sent = 0, n;

	while (sent < k->n_events && (n = send_packet(k, sent, MSG_DONTWAIT)))
		sent += n;
	drop_events(k, sent);
	if (!sent && !k->stalled && !k->n_events)
		return true;
	k->stalled = k->n_events > 0;
	(void)loop_want(k->loop, &k->monitor, k->stalled ? EPOLLIN | EPOLLOUT : EPOLLIN);
	return !k->stalled;
}

void report_last(struct worker *k)
{
	size_t at = 0, n;

	while (at < k->n_events && (n = send_packet(k, at, 0)))
		at += n;
	k->n_events = 0;
	(void)shutdown(k->monitor.fd, SHUT_RDWR);
}

/* Whoever makes decisions faster than the monitor reads them waits for it, with everybody else:
 * nothing could be sent before it knows. false: the monitor is gone. */
static bool report_add(struct worker *k, const struct egress_event *ev)
{
	if (k->n_events > EVENTS_MAX - EVENT_PACKED_MAX)
		(void)report_flush(k);
	if (k->n_events > EVENTS_MAX - EVENT_PACKED_MAX)
		drop_events(k, send_packet(k, 0, 0));
	if (k->n_events > EVENTS_MAX - EVENT_PACKED_MAX)
		return false;
	k->n_events += event_pack(ev, k->events + k->n_events);
	return true;
}

bool report_allow(struct worker *k, const struct egress_verdict *v, struct http1_text method)
{
	struct egress_event ev;

	report_fill(&ev, EGRESS_EVENT_ALLOW, v, method);
	ev.what[0] = ev.hint[0] = '\0';
	return report_add(k, &ev);
}

void report_deny(struct worker *k, const struct egress_verdict *v, struct http1_text method)
{
	struct egress_event ev;

	report_fill(&ev, EGRESS_EVENT_DENY, v, method);
	(void)report_add(k, &ev);
	(void)report_flush(k); /* the guest may be gone the moment it hears of it */
}

void report_question(struct worker *k, const struct egress_verdict *v, uint32_t id)
{
	struct egress_event ev;

	report_fill(&ev, EGRESS_EVENT_ASK, v, (struct http1_text){ "", 0 });
	ev.count = id;
	(void)report_add(k, &ev);
	(void)report_flush(k);
}

void report_done(struct worker *k, const struct transfer *t, const struct upstream *u)
{
	struct egress_event ev;

	report_fill(&ev, EGRESS_EVENT_DONE, &t->v,
		    (struct http1_text){ t->method, strlen(t->method) });
	ev.reason = EGRESS_OK;
	ev.what[0] = ev.hint[0] = '\0';
	ev.status = (uint16_t)t->status;
	ev.bytes_out = t->bytes_out;
	ev.bytes_in = t->bytes_in;
	report_copy(ev.credential, sizeof(ev.credential), t->credential);
	if (t->learned) {
		report_copy(ev.path, sizeof(ev.path), t->learned->path);
		report_copy(ev.fields, sizeof(ev.fields), t->learned->fields);
	}
	if (u && u->at_addr.family)
		addr_text(&u->at_addr, ev.address);
	(void)report_add(k, &ev);
}

void report_usage(struct worker *k, const struct egress_verdict *v, const struct budget_told *told)
{
	struct egress_event ev;

	report_fill(&ev, EGRESS_EVENT_USAGE, v, (struct http1_text){ "", 0 });
	ev.reason = EGRESS_OK;
	ev.what[0] = ev.hint[0] = '\0';
	report_copy(ev.rule, sizeof(ev.rule), told->model);
	ev.tokens_in = told->in;
	ev.tokens_cached = told->cached;
	ev.tokens_out = told->out;
	ev.cost = told->cost;
	ev.status = (uint16_t)((told->priced ? EGRESS_USAGE_PRICED : 0) |
			       (told->estimated ? EGRESS_USAGE_ESTIMATED : 0) |
			       (told->uncounted ? EGRESS_USAGE_UNCOUNTED : 0));
	(void)report_add(k, &ev);
}

void report_unreached(struct worker *k, const struct upstream *u)
{
	struct egress_event ev;

	report_fill(&ev, EGRESS_EVENT_UNREACHED, &u->failure, (struct http1_text){ "", 0 });
	report_copy(ev.host, sizeof(ev.host), u->host.name);
	ev.port = u->port;
	report_copy(ev.hint, sizeof(ev.hint),
		    *u->failure.hint ? u->failure.hint
		    : u->chained     ? "look at egress.upstream_proxy"
				     : "does it answer this machine itself? Behind a proxy: --set "
				       "egress.upstream_proxy=URL");
	(void)report_add(k, &ev);
}

bool report_credential(struct worker *k, enum egress_event_kind kind,
		       const struct egress_verdict *v, const char *name)
{
	struct egress_event ev;

	report_fill(&ev, kind, v, (struct http1_text){ "", 0 });
	ev.what[0] = ev.hint[0] = '\0';
	report_copy(ev.rule, sizeof(ev.rule), name);
	return report_add(k, &ev);
}

bool report_renewed(struct worker *k, const char *name, const struct secret *s)
{
	struct egress_event ev = { .kind = EGRESS_EVENT_RENEWED };
	const size_t room = sizeof(ev.what) - 1;
	bool told = true;

	report_copy(ev.rule, sizeof(ev.rule), name);
	for (size_t at = 0; at < s->len && told; at += room) {
		size_t n = s->len - at < room ? s->len - at : room;

		memcpy(ev.what, s->value + at, n);
		ev.what[n] = '\0';
		ev.count = (uint32_t)(at / room);
		ev.status = at + n == s->len;
		told = report_add(k, &ev);
	}
	explicit_bzero(&ev, sizeof(ev));
	return told;
}

static void tell_leak(struct worker *k, const struct leak_count *l, uint32_t count)
{
	struct egress_event ev = { .kind = l->redacted ? EGRESS_EVENT_REDACT : EGRESS_EVENT_LEAK,
				   .reason = EGRESS_LEAK,
				   .count = count };

	report_copy(ev.rule, sizeof(ev.rule), l->kind);
	(void)report_add(k, &ev);
}

void report_leak(struct worker *k, const char *kind, bool redacted)
{
	struct leak_count *l;
	size_t i = 0;

	while (i < k->n_leaks &&
	       (k->leaks[i].redacted != redacted || !str_eq(k->leaks[i].kind, kind)))
		i++;
	if (i < k->n_leaks || i == LEAKS_MAX) {
		l = &k->leaks[i < LEAKS_MAX ? i : LEAKS_MAX - 1];
		l->more += l->more < UINT32_MAX;
		return;
	}
	l = &k->leaks[k->n_leaks++];
	l->redacted = redacted;
	report_copy(l->kind, sizeof(l->kind), i < LEAKS_MAX - 1 ? kind : "others");
	tell_leak(k, l, 1);
}

void report_leaks(struct worker *k)
{
	for (size_t i = 0; i < k->n_leaks; i++)
		if (k->leaks[i].more) {
			tell_leak(k, &k->leaks[i], k->leaks[i].more);
			k->leaks[i].more = 0;
		}
}

void report_state(int monitor, enum egress_event_kind kind, const struct err *e)
{
	struct egress_event ev = { .kind = kind };
	char packed[EVENT_PACKED_MAX];

	if (e) {
		report_copy(ev.what, sizeof(ev.what), e->what);
		report_copy(ev.hint, sizeof(ev.hint), e->hint);
	}
	(void)!send(monitor, packed, event_pack(&ev, packed), MSG_DONTWAIT | MSG_NOSIGNAL);
}
