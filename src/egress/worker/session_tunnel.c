/* SPDX-License-Identifier: Apache-2.0 */
/* egress/worker/session_tunnel.c - bytes as they are, both ways: names that are not opened, the
 * host's own service. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "egress/worker/session.h"

#define TUNNEL_US (600 * SECOND) /* nothing moving */

struct tunnel *tunnel_free(struct tunnel *t, struct worker *k)
{
	if (!t)
		return NULL;
	if (t->t.open)
		report_done(k, &t->t, t->up);
	(void)upstream_free(t->up);
	free(t);
	return NULL;
}

void session_tunnel(struct session *s, const struct egress_verdict *v, const char *method)
{
	struct tunnel *t = calloc(1, sizeof(*t));

	if (!t || !report_allow(s->k, v, (struct http1_text){ method, strlen(method) })) {
		free(t);
		s->state = SESSION_DEAD;
		return;
	}
	t->t.v = *v;
	t->t.open = true;
	t->ssh_due = v->ssh;
	(void)snprintf(t->t.method, sizeof(t->t.method), "%s", method);
	s->tunnel = t;
	s->state = SESSION_TUNNEL;
}

static void on_upstream(void *arg)
{
	session_run(arg);
}

static struct http1_text tunnel_method(const struct tunnel *t)
{
	return t->t.v.ssh ? session_ssh : session_tls;
}

static bool opening(struct session *s, struct tunnel *t)
{
	if (!t->up && !session_told(s))
		return false;
	if (!t->up && !(t->up = upstream_get(s->k, &t->t.v, UPSTREAM_PLAIN, true))) {
		s->state = SESSION_DEAD;
		return false;
	}
	upstream_own(t->up, on_upstream, s);
	upstream_step(t->up);
	if (t->up->state == UP_FAILED) {
		report_deny(s->k, &t->up->failure, tunnel_method(t));
		if (t->t.v.ssh)
			session_linger(s); /* it knows no alerts */
		else
			session_alert(s);
		return true;
	}
	if (t->up->state != UP_OPEN)
		return false;
	session_patience(s, TUNNEL_US);
	return true;
}

/* Nobody looks into it but at its first bytes: it is no way for another protocol. true: it may go
 * on. */
static bool begins_as_ssh(struct session *s)
{
	const struct link *g = &s->guest;
	size_t n = g->in.len < SSH_BEGINS_LEN ? g->in.len : SSH_BEGINS_LEN;
	struct egress_verdict v = s->tunnel->t.v;

	if (!s->tunnel->ssh_due)
		return true;
	if (!n || (memcmp(link_data(g), SSH_BEGINS, n) == 0 && n < SSH_BEGINS_LEN && !g->eof))
		return false; /* more of it is to come, or nothing */
	if (n == SSH_BEGINS_LEN && memcmp(link_data(g), SSH_BEGINS, n) == 0) {
		s->tunnel->ssh_due = false;
		return true;
	}
	(void)verdict_deny(&v, EGRESS_BAD_REQUEST, NULL, "bytes to %s that are not SSH",
			   v.host.name);
	report_deny(s->k, &v, session_ssh);
	s->state = SESSION_DEAD;
	return false;
}

/* One direction; true when something moved. */
static bool session_tunnel_move(struct session *s, struct link *from, struct link *to, bool *closed,
				bool out)
{
	struct transfer *t = &s->tunnel->t;
	size_t n = from->in.len;
	struct egress_verdict v;

	if (n && !link_full(to)) {
		if (out ? !rate_sent(s->k->rate, n, &v) : !rate_received(s->k->rate, n, &v)) {
			report_deny(s->k, &v, tunnel_method(s->tunnel));
			s->state = SESSION_DEAD;
			return true;
		}
		(void)link_add(to, link_data(from), n);
		link_take(from, n);
		*(out ? &t->bytes_out : &t->bytes_in) += n;
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
	struct tunnel *t = s->tunnel;
	struct link *g = &s->guest, *u;
	bool moved = false;

	if (!t->up || t->up->state != UP_OPEN)
		return opening(s, t);
	u = &t->up->link;
	moved |= link_fill(g) > 0;
	moved |= link_fill(u) > 0;
	if (begins_as_ssh(s) || (t->ssh_due && g->eof && !g->in.len))
		moved |= session_tunnel_move(s, g, u, &t->up_closed, true);
	if (s->state == SESSION_TUNNEL)
		moved |= session_tunnel_move(s, u, g, &t->guest_closed, false);
	if (moved)
		session_patience(s, TUNNEL_US);
	if (g->broken || u->broken || (t->guest_closed && t->up_closed))
		s->state = SESSION_DEAD;
	return moved;
}

void session_alert(struct session *s)
{
	static const unsigned char denied[] = { 21, 3, 3, 0, 2, 2, 49 };

	(void)link_add(&s->guest, denied, sizeof(denied));
	session_linger(s);
}
