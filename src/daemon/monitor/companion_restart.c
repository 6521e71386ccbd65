/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/monitor/companion_restart.c - a companion that has ended is begun again.
 *
 *     failed → (wait, twice as long each time) → its sandbox anew, if that is gone → starting → ...
 *
 * The sandbox beside it goes on meanwhile. Hooks ran when that was created, and do not again. One
 * that has not run well for five minutes stays failed, reason `crash-loop`. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "base/files/fd.h"
#include "base/files/tree.h"
#include "base/sys/clock.h"
#include "daemon/monitor/monitor_companions.h"
#include "sandbox/manager.h"

#define LOOK_US ((uint64_t)20 * 1000)     /* while an engine makes its container */
#define PAUSED_US ((uint64_t)1000 * 1000) /* nothing is begun meanwhile */

static struct companion *of_again(struct loop_timer *t)
{
	return CONTAINER_OF(t, struct companion, again);
}

static void companion_note(const struct companion *c, const struct err *e)
{
	char line[sizeof(e->what) + 128];

	(void)snprintf(line, sizeof(line), "companion '%s' cannot be begun again: %s",
		       c->spec->name, e->what);
	monitor_note(c->m, line);
}

/* As at the start: ids are mapped through files of a process that can be looked into, and the
 * umask is inherited by what runs inside. Secrets are gone since. */
static void set_opening(bool on)
{
	(void)prctl(PR_SET_DUMPABLE, on, 0, 0, 0);
	(void)umask(on ? 022 : 077);
}

static void serve_companion(struct companion *c)
{
	struct err e = { 0 };

	c->said.n = c->answer.n = 0;
	c->failures = 0;
	c->healthy = false;
	companion_becomes(c, COMPANION_STARTING, NULL);
	if (companion_serve(c, &e) == 0) {
		companion_check(c);
		return;
	}
	companion_note(c, &e);
	companion_again(c);
}

static void on_open(struct loop_timer *t, uint64_t now)
{
	struct companion *c = of_again(t);

	if (c->opening && pthread_tryjoin_np(c->opens, NULL) != 0) {
		loop_at(c->m->loop, t, now + LOOK_US);
		return;
	}
	c->opening = false;
	set_opening(false);
	if (c->m->stage == MONITOR_IS_STOPPING)
		return;
	if (c->unopened.code) {
		companion_note(c, &c->unopened);
		companion_again(c);
		return;
	}
	monitor_write_first(c->m);
	serve_companion(c);
}

/* A sandbox counts what is written from its own beginning on, and what it left is there still. What
 * cannot be looked at is too much. */
static bool has_room(struct companion *c)
{
	char name[sizeof(MONITOR_DATA) + 80];
	uint64_t limit = c->spec->disk, bytes = 0;
	CLEANUP(fd) int fd = -1;

	(void)snprintf(name, sizeof(name), MONITOR_DATA "/%s", c->spec->name);
	fd = openat(c->m->folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || tree_size(fd, limit, &bytes) < 0 || bytes >= limit)
		return false;
	c->disk = limit - bytes;
	return true;
}

static void *measure_aside(void *arg)
{
	struct companion *c = arg;

	c->full = !has_room(c);
	return NULL;
}

static void begin_anew(struct companion *c)
{
	struct brig_error unused;

	(void)brig_sandbox_close(c->sandbox, NULL, &unused);
	c->sandbox = NULL;
	companion_check_end(c);
	memset(c->denied, 0, sizeof(c->denied));
	c->denied_most = 0;
	c->unopened = (struct err){ 0 };
	set_opening(true);
	if (companion_open(c, &c->unopened) < 0 && !c->unopened.code)
		(void)err_nomem(&c->unopened);
	c->again.due = on_open;
	loop_at(c->m->loop, &c->again, clock_us());
}

static void on_measured(struct loop_timer *t, uint64_t now)
{
	struct companion *c = of_again(t);
	bool paused = c->m->stage == MONITOR_IS_PAUSED;

	if (paused || pthread_tryjoin_np(c->opens, NULL) != 0) {
		loop_at(c->m->loop, t, now + (paused ? PAUSED_US : LOOK_US));
		return;
	}
	c->opening = false;
	if (c->m->stage == MONITOR_IS_STOPPING)
		return;
	if (c->full)
		companion_becomes(c, COMPANION_FAILED, "disk");
	else
		begin_anew(c);
}

/* Its sandbox has ended as well: another one takes its seat. How many names it has left is its own
 * choice, so that they are counted beside the loop. */
static void open_anew(struct companion *c)
{
	if (!c->spec->disk || !c->spec->data) {
		begin_anew(c);
		return;
	}
	if (pthread_create(&c->opens, NULL, measure_aside, c) != 0) {
		companion_again(c);
		return;
	}
	c->opening = true;
	c->again.due = on_measured;
	loop_at(c->m->loop, &c->again, clock_us() + LOOK_US / 10);
}

static void companion_on_again(struct loop_timer *t, uint64_t now)
{
	struct companion *c = of_again(t);

	if (c->m->stage == MONITOR_IS_PAUSED)
		loop_at(c->m->loop, t, now + PAUSED_US);
	if (c->m->stage == MONITOR_IS_PAUSED || c->m->stage == MONITOR_IS_STOPPING)
		return;
	if (c->turns.fd < 0)
		open_anew(c);
	else if (c->aside) /* a check still ends */
		loop_at(c->m->loop, t, now + LOOK_US);
	else
		serve_companion(c);
}

void companion_again(struct companion *c)
{
	uint64_t now = clock_us(), wait = restart_after(&c->restart, c->since, now);

	c->since = 0;
	c->again.due = companion_on_again;
	if (wait == UINT64_MAX)
		companion_becomes(c, COMPANION_FAILED, "crash-loop");
	else
		loop_at(c->m->loop, &c->again, now + wait);
}
