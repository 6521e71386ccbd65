/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/monitor/monitor_end.c - how a sandbox of the daemon's ends: asked to stop, given up,
 * closed; what is told of it, and what it has left. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/sys/clock.h"
#include "base/text/str.h"
#include "daemon/monitor/monitor_companions.h"
#include "daemon/monitor/monitor_internal.h"
#include "sandbox/manager.h"

#define LEFT_SAID 50

void monitor_left(const struct monitor *m, const struct outcome *o)
{
	size_t n = 0;
	char text[1100];

	for (size_t i = 0; o && i < o->denial_count; i++) {
		const struct denial *d = &o->denials[i];

		if (!str_eq(d->kind, "protected-path") || n++ >= LEFT_SAID)
			continue;
		(void)snprintf(text, sizeof(text), MONITOR_LEFT "'%.400s': %.500s", d->target,
			       d->reason);
		monitor_note(m, text);
	}
	if (n <= LEFT_SAID)
		return;
	(void)snprintf(text, sizeof(text), MONITOR_LEFT "%zu more; brig audit show", n - LEFT_SAID);
	monitor_note(m, text);
}

/* Nobody may have waited for a command of its. */
static void tell_why(struct monitor *m, const struct err *why)
{
	char text[sizeof(why->what) + sizeof(why->hint) + 32];

	m->why = *why;
	if (!why->code)
		return;
	(void)snprintf(text, sizeof(text), "it has ended: %s%s%s", why->what,
		       *why->hint ? "; hint: " : "", why->hint);
	monitor_note(m, text);
}

static void end_all(struct monitor *m, brig_result **ret)
{
	struct brig_error unused;
	brig_result *own = NULL;

	m->over = true;
	m->stage = MONITOR_IS_STOPPING;
	(void)loop_want(m->loop, &m->turns, 0);
	contexts_end(m);
	(void)brig_sandbox_close(m->sandbox, &own, &unused);
	m->sandbox = NULL;
	if (own) {
		tell_why(m, &result_outcome(own)->error);
		monitor_left(m, result_outcome(own));
	}
	if (ret)
		*ret = TAKE_PTR(own);
	brig_result_free(own);
	command_close(m);
	tools_return(m);
	companions_close(m);
}

brig_result *monitor_end(struct monitor *m, const char *reason)
{
	brig_result *r = NULL;

	if (m->over)
		return NULL;
	if (m->stage != MONITOR_IS_STOPPING)
		(void)snprintf(m->reason, sizeof(m->reason), "%s", reason);
	end_all(m, &r);
	return r;
}

void monitor_give_up(struct monitor *m, const struct monitor_say *s)
{
	if (m->over)
		return;
	end_all(m, NULL);
	monitor_note(m, s->err.what);
	clients_hide(m);
	clients_say(m, s);
	loop_stop(m->loop);
}

void monitor_close(struct monitor *m)
{
	struct monitor_say gone = { .says = MONITOR_CLOSED };

	if (m->closed)
		return;
	m->closed = true;
	if (!m->over)
		end_all(m, NULL);
	for (struct monitor_task *t = m->tasks; t; t = t->next)
		if (t->run)
			task_finish(t);
	if (m->why.code)
		(void)monitor_write(m, MONITOR_WHY, (const char *)&m->why, sizeof(m->why));
	(void)monitor_write(m, MONITOR_ENDED, m->reason, strlen(m->reason));
	clients_hide(m);
	clients_flush(m);
	memcpy(gone.reason, m->reason, sizeof(gone.reason));
	gone.err = m->why;
	clients_say(m, &gone);
	loop_stop(m->loop);
}

void monitor_on_grace(struct loop_timer *t, uint64_t now UNUSED)
{
	monitor_close(CONTAINER_OF(t, struct monitor, grace));
}

void monitor_stop(struct monitor *m, const char *reason, uint64_t grace_ms)
{
	uint64_t at = clock_us() + grace_ms * 1000;
	struct err unused;

	if (m->stage == MONITOR_IS_PAUSED) {
		(void)sandbox_pause(m->sandbox, false, &unused);
		(void)companions_pause(m, false, &unused);
		contexts_rest(m, false);
	}
	if (m->stage != MONITOR_IS_STOPPING) {
		m->stage = MONITOR_IS_STOPPING;
		(void)snprintf(m->reason, sizeof(m->reason), "%s", reason);
		if (grace_ms) {
			sandbox_signal(m->sandbox, SIGTERM);
			sandbox_signal(m->sandbox, SIGCONT); /* what stands still hears nothing */
			companions_signal(m, SIGTERM);
			companions_signal(m, SIGCONT);
		}
	}
	if (!m->grace.at || at < m->grace.at)
		loop_at(m->loop, &m->grace, at);
}
