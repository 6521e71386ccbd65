/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/monitor/monitor_command.c - `command`: what a long-lived sandbox itself is there for.
 *
 *     (companions ready) → begun → the sandbox is ready → ended → begun again, later each time
 *
 * It has no time limit, and what it does keeps no sandbox from being idle: idle_ttl counts commands
 * that somebody asks for. What it wrote last is on the log once it has ended. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/sys/clock.h"
#include "base/text/str.h"
#include "daemon/monitor/monitor_companions.h"
#include "daemon/shared/restart.h"
#include "sandbox/manager.h"

#define LOOP_GRACE_MS 5000
#define BEGINS_US ((uint64_t)2 * 1000)
#define PAUSED_US ((uint64_t)1000 * 1000)

struct main_command {
	struct loop_watch w; /* first */
	struct loop_timer again;
	struct monitor *m;
	brig_request *request;
	brig_run *run; /* NULL: it waits for its next try */
	struct restart restart;
	uint64_t since; /* it runs, in microseconds */
	struct companion_words said;
	size_t n;
	char *argv[]; /* NULL-terminated */
};

static struct main_command *of_again(struct loop_timer *t)
{
	return CONTAINER_OF(t, struct main_command, again);
}

int command_take(struct monitor *m, const struct spec *s, struct err *e)
{
	const struct strlist *l = &s->main_command;
	struct main_command *c;

	if (!l->n)
		return 0;
	c = calloc(1, sizeof(*c) + (l->n + 1) * sizeof(c->argv[0]));
	if (!c)
		return err_nomem(e);
	m->command = c;
	c->m = m;
	c->w.fd = -1;
	for (; c->n < l->n; c->n++)
		if (!(c->argv[c->n] = strdup(l->v[c->n])))
			return err_nomem(e);
	return 0;
}

size_t command_living(const struct monitor *m)
{
	return m->command && m->command->run;
}

static void monitor_command_on_output(void *arg, int stream UNUSED, const char *data, size_t n)
{
	struct main_command *c = arg;

	companion_hear(&c->said, data, n);
}

/* How it ended; *why is filled where it never ran. */
static void monitor_command_finish(struct main_command *c, char outcome[MONITOR_REASON],
				   struct err *why)
{
	struct brig_error unused;
	brig_result *r = NULL;

	if (c->w.fd >= 0)
		(void)loop_want(c->m->loop, &c->w, 0);
	c->w.fd = -1;
	if (c->run)
		(void)brig_run_finish(c->run, &r, &unused);
	(void)snprintf(outcome, MONITOR_REASON, "%s", r ? brig_result_outcome(r) : "failed");
	*why = r ? result_outcome(r)->error : (struct err){ 0 };
	brig_result_free(r);
	brig_request_free(c->request);
	c->run = NULL;
	c->request = NULL;
}

/* The sandbox waits for it: what cannot be begun is no sandbox. */
static void monitor_command_refuse(struct main_command *c, const struct err *why)
{
	struct monitor_say s = { .says = MONITOR_REFUSED, .err = *why };

	(void)err_wrap(&s.err, "command");
	(void)snprintf(s.reason, sizeof(s.reason), "%s", err_kind_name(why->kind));
	monitor_give_up(c->m, &s);
}

static void monitor_command_on_again(struct loop_timer *t, uint64_t now);

static void try_later(struct main_command *c, const char *outcome)
{
	uint64_t now = clock_us(), wait = restart_after(&c->restart, c->since, now);
	char line[128];

	(void)snprintf(line, sizeof(line), "command: it has ended (%s)", outcome);
	monitor_note(c->m, line);
	companion_note_words(c->m, "command: its last words", &c->said);
	c->said.n = 0;
	if (wait == UINT64_MAX)
		monitor_stop(c->m, "crash-loop", LOOP_GRACE_MS);
	c->again.due = monitor_command_on_again;
	if (wait != UINT64_MAX)
		loop_at(c->m->loop, &c->again, now + wait);
}

static void ended(struct main_command *c)
{
	char outcome[MONITOR_REASON];
	struct err why;

	monitor_command_finish(c, outcome, &why);
	if (c->m->stage == MONITOR_IS_STOPPING)
		return;
	if (c->m->stage == MONITOR_IS_OPENING && why.code) {
		monitor_command_refuse(c, &why);
		return;
	}
	try_later(c, outcome);
	if (c->m->stage == MONITOR_IS_OPENING)
		monitor_opened(c->m);
}

static void on_turn(struct loop_watch *w, uint32_t events UNUSED)
{
	struct main_command *c = (struct main_command *)w;

	if (!brig_run_dispatch(c->run))
		ended(c);
}

/* That it is executed wakes nobody. */
static void monitor_command_on_look(struct loop_timer *t, uint64_t now)
{
	struct main_command *c = of_again(t);

	if (!c->run || c->m->stage != MONITOR_IS_OPENING)
		return;
	if (run_handle_began(c->run))
		monitor_opened(c->m);
	else
		loop_at(c->m->loop, t, now + BEGINS_US);
}

static int monitor_command_begin(struct main_command *c, struct err *e)
{
	struct brig_error be = { .what = "no memory" };

	c->request = brig_sandbox_command(c->m->sandbox);
	if (!c->request)
		return err_nomem(e);
	brig_request_on_output(c->request, monitor_command_on_output, c);
	request_tell(c->request);
	if (brig_request_argv(c->request, (const char *const *)c->argv, &be) < 0 ||
	    brig_request_set(c->request, "limits.timeout", "none", &be) < 0 ||
	    brig_sandbox_exec(c->m->sandbox, c->request, &c->run, &be) < 0) {
		error_import(&be, e);
		return -e->code;
	}
	c->since = clock_us();
	c->w = (struct loop_watch){ .fd = brig_run_fd(c->run), .ready = on_turn };
	if (c->w.fd < 0 || loop_want(c->m->loop, &c->w, EPOLLIN) < 0)
		return err_set(e, ERR_INTERNAL, EIO, "it cannot be followed");
	return 0;
}

static void monitor_command_on_again(struct loop_timer *t, uint64_t now)
{
	struct main_command *c = of_again(t);
	char outcome[MONITOR_REASON];
	struct err why = { 0 }, unused;

	if (c->m->stage == MONITOR_IS_PAUSED)
		loop_at(c->m->loop, t, now + PAUSED_US);
	if (c->m->stage != MONITOR_IS_OPEN)
		return;
	if (monitor_command_begin(c, &why) == 0) {
		on_turn(&c->w, 0);
		return;
	}
	monitor_command_finish(c, outcome, &unused);
	try_later(c, why.what);
}

void command_begin(struct monitor *m)
{
	struct main_command *c = m->command;
	char outcome[MONITOR_REASON];
	struct err why = { 0 }, unused;

	if (!c) {
		monitor_opened(m);
		return;
	}
	if (c->again.due) /* a companion was begun again meanwhile */
		return;
	c->again.due = monitor_command_on_look;
	if (monitor_command_begin(c, &why) == 0) {
		loop_at(m->loop, &c->again, clock_us());
		on_turn(&c->w, 0);
		return;
	}
	monitor_command_finish(c, outcome, &unused);
	monitor_command_refuse(c, &why);
}

void command_close(struct monitor *m)
{
	struct main_command *c = m->command;
	char outcome[MONITOR_REASON];
	struct err unused;

	if (!c)
		return;
	loop_at(m->loop, &c->again, 0);
	monitor_command_finish(c, outcome, &unused);
	for (size_t i = 0; i < c->n; i++)
		free(c->argv[i]);
	free(c);
	m->command = NULL;
}
