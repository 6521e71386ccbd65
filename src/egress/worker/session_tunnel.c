/* SPDX-License-Identifier: Apache-2.0 */
/* egress/worker/session_tunnel.c - bytes as they are, both ways: names that are not opened, the
 * host's own service. */
#include <stdio.h>
#include <string.h>

#include "egress/worker/session.h"

#define TUNNEL_US (600 * SECOND) /* nothing moving */

void session_tunnel(struct session *s, const struct egress_verdict *v, const char *method)
{
	s->x.v = *v;
	(void)snprintf(s->x.method, sizeof(s->x.method), "%s", method);
	if (!report_allow(s->k, v, (struct http1_text){ method, strlen(method) })) {
		s->state = SESSION_DEAD;
		return;
	}
	s->x.open = true;
	s->state = SESSION_OPENING;
}

bool session_opening(struct session *s)
{
	if (!s->up && !session_told(s))
		return false;
	if (!s->up && !(s->up = upstream_get(s, &s->x.v, false, true))) {
		s->state = SESSION_DEAD;
		return false;
	}
	upstream_step(s->up);
	if (s->up->state == UP_FAILED) {
		report_deny(s->k, &s->up->failure, session_tls);
		session_alert(s);
		return true;
	}
	if (s->up->state != UP_OPEN)
		return false;
	s->state = SESSION_TUNNEL;
	session_patience(s, TUNNEL_US);
	return true;
}

/* One direction of a tunnel; true when something moved. */
static bool move(struct session *s, struct link *from, struct link *to, bool *closed, bool out)
{
	size_t n = from->in.len;
	struct egress_verdict v;

	if (n && !link_full(to)) {
		if (out ? !rate_sent(s->k->rate, n, &v) : !rate_received(s->k->rate, n, &v)) {
			report_deny(s->k, &v, session_tls);
			s->state = SESSION_DEAD;
			return true;
		}
		(void)link_add(to, link_data(from), n);
		link_take(from, n);
		*(out ? &s->x.bytes_out : &s->x.bytes_in) += n;
		(void)link_flush(to);
		return true;
	}
	if (from->eof && !from->in.len && !to->out.len && !*closed) {
		*closed = true;
		link_half_close(to);
		return true;
	}
	return false;
}

bool session_pipe(struct session *s)
{
	struct link *g = &s->guest, *u = s->up ? &s->up->link : NULL;
	bool moved = false;

	if (!u) {
		s->state = SESSION_DEAD;
		return false;
	}
	moved |= link_fill(g) > 0;
	moved |= link_fill(u) > 0;
	moved |= move(s, g, u, &s->up_half_closed, true);
	if (s->state == SESSION_TUNNEL)
		moved |= move(s, u, g, &s->half_closed, false);
	if (moved)
		session_patience(s, TUNNEL_US);
	if (g->broken || u->broken || (s->half_closed && s->up_half_closed))
		s->state = SESSION_DEAD;
	return moved;
}
