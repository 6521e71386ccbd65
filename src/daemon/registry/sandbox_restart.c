/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/registry/sandbox_restart.c - a sandbox with `restart: on-failure` that ended by itself.
 *
 * Meanwhile it is stopped, with the reason of its end; whoever stops or deletes it ends the
 * waiting. What it keeps on disk it finds again. */
#include <errno.h>
#include <stdio.h>

#include "base/sys/clock.h"
#include "daemon/registry/sandboxes_internal.h"

static void box_restart_on_again(struct loop_timer *t, uint64_t now UNUSED)
{
	struct sandbox_entry *b = CONTAINER_OF(t, struct sandbox_entry, again);
	struct err e = { 0 };

	if (b->state != STATE_STOPPED || b->link.fd >= 0)
		return;
	if (entry_resume(b, &e) == PROBLEM_NONE)
		b->restarting = true;
	else
		entry_crashed(b, 0);
}

static void box_restart_give_up(struct sandbox_entry *b)
{
	char last[MONITOR_REASON];

	(void)snprintf(last, sizeof(last), "%s", b->reason);
	(void)err_refuse(&b->error, ERR_UNAVAILABLE, ECHILD,
			 "brig sandbox logs may tell why; delete it, and create it anew",
			 "it has not run for %llu seconds in %llu minutes of trying; its last end "
			 "was '%s'",
			 (unsigned long long)(RESTART_WELL_US / 1000000),
			 (unsigned long long)(RESTART_BOUND_US / 60000000), last);
	entry_becomes(b, STATE_FAILED, "sandbox.failed", "crash-loop");
}

void entry_again(struct sandbox_entry *b, uint64_t wait_us)
{
	b->again.due = box_restart_on_again;
	loop_at(b->s->loop, &b->again, clock_us() + wait_us);
}

void entry_crashed(struct sandbox_entry *b, uint64_t started)
{
	uint64_t wait;
	struct err e = { 0 };

	if (!b->restart.on || !restart_is_failure(b->reason))
		return;
	wait = restart_after(&b->restart, started, clock_wall_us());
	if (wait == UINT64_MAX) {
		box_restart_give_up(b);
		return;
	}
	(void)entry_save(b, &e);
	entry_again(b, wait);
}

void entry_rest(struct sandbox_entry *b)
{
	bool waits = b->again.at;

	loop_at(b->s->loop, &b->again, 0);
	b->restarting = false;
	b->restart.down = b->restart.tries = 0;
	if (waits && b->state == STATE_STOPPED) /* or the next daemon would begin it again */
		entry_becomes(b, STATE_STOPPED, NULL, "stopped");
}
