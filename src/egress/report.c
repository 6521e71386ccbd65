/* SPDX-License-Identifier: Apache-2.0 */
/* egress/report.c - decisions on their way to the monitor. No path, no query, no body: names,
 * ports, sizes and reasons. */
#include <string.h>
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

static bool tell(int fd, const struct egress_event *ev)
{
	return send(fd, ev, sizeof(*ev), MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof(*ev);
}

bool report_allow(struct worker *k, const struct egress_verdict *v, struct http1_text method)
{
	struct egress_event ev;

	fill(&ev, EGRESS_EVENT_ALLOW, v, method);
	ev.what[0] = ev.hint[0] = '\0';
	return tell(k->monitor.fd, &ev);
}

void report_deny(struct worker *k, const struct egress_verdict *v, struct http1_text method)
{
	struct egress_event ev;

	fill(&ev, EGRESS_EVENT_DENY, v, method);
	(void)tell(k->monitor.fd, &ev);
}

void report_done(struct worker *k, const struct egress_verdict *v, struct http1_text method,
		 const struct addr *a, int status, uint64_t out, uint64_t in)
{
	struct egress_event ev;

	fill(&ev, EGRESS_EVENT_DONE, v, method);
	ev.what[0] = ev.hint[0] = '\0';
	ev.status = (uint16_t)status;
	ev.bytes_out = out;
	ev.bytes_in = in;
	if (a)
		addr_text(a, ev.address);
	(void)tell(k->monitor.fd, &ev);
}

bool report_credential(struct worker *k, enum egress_event_kind kind,
		       const struct egress_verdict *v, const char *name)
{
	struct egress_event ev;

	fill(&ev, kind, v, (struct http1_text){ "", 0 });
	ev.what[0] = ev.hint[0] = '\0';
	copy(ev.rule, sizeof(ev.rule), name);
	return tell(k->monitor.fd, &ev);
}

void report_leak(struct worker *k, const char *kind, bool redacted)
{
	struct egress_event ev = { .kind = EGRESS_EVENT_LEAK, .reason = EGRESS_LEAK };

	copy(ev.what, sizeof(ev.what), redacted ? "redacted" : "let pass");
	copy(ev.rule, sizeof(ev.rule), kind);
	(void)tell(k->monitor.fd, &ev);
}

void report_state(int monitor, enum egress_event_kind kind, const struct err *e)
{
	struct egress_event ev = { .kind = kind };

	if (e) {
		copy(ev.what, sizeof(ev.what), e->what);
		copy(ev.hint, sizeof(ev.hint), e->hint);
	}
	(void)tell(monitor, &ev);
}
