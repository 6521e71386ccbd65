/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/run/run_commands.c - an open sandbox and its commands: who is woken for whom, what is
 * asked of all of them. */
#include "sandbox/run/run.h"

#include <signal.h>

#include "base/sys/clock.h"

/* Wakes a command for what goes on in its sandbox as well. One at a time is enough, since it turns
 * them all: the one that was asked for its descriptor last is being waited for. If every command
 * had the sandbox's descriptors in its own, the tenth could not be put into the caller's epoll: the
 * kernel bounds the ways that lead from one file through several of them. */
void run_carry(struct sandbox *s, struct command_run *r)
{
	struct command_run *was = s->carrier;

	s->carrier = r;
	if (was && was != r)
		run_arrange(was);
	if (r && was != r)
		run_arrange(r);
}

void run_hand_on(struct sandbox *s)
{
	struct command_run *c = s->commands;

	while (c && (c->ended || !c->offered || c->io.apart))
		c = c->next;
	s->carrier = NULL;
	run_carry(s, c);
}

void run_forget(struct command_run *r)
{
	struct sandbox *s = r->of;
	struct command_run **at = s ? &s->commands : NULL;

	while (at && *at && *at != r)
		at = &(*at)->next;
	if (at && *at)
		*at = r->next;
	r->of = NULL;
	r->next = NULL;
	if (s && s->carrier == r)
		run_hand_on(s);
}

/* The sandbox has ended, and what ran in it with it: for the same reason, unless it was closed. */
void run_lose_commands(struct sandbox *s)
{
	while (s->commands) {
		struct command_run *r = s->commands;
		const struct outcome *why = s->o;

		run_names_count_own(r);
		run_forget(r);
		if (r->ended)
			continue;
		run_note_end(r->o, r->started);
		outcome_contain(r->o, &s->isolation);
		r->o->limits_hit |= why->limits_hit;
		if (r->o->kind == OUTCOME_FAILED) {
			bool closed = s->cancelled || why->kind == OUTCOME_EXITED;

			r->o->kind = closed ? OUTCOME_CANCELLED : why->kind;
			r->o->error = why->error;
		}
		run_has_ended(r);
		run_arrange(r);
	}
}

int run_stand_still(struct sandbox *s, bool on, struct err *e)
{
	uint64_t now = clock_us();

	if (!s->job || s->ended)
		return err_set(e, ERR_UNAVAILABLE, ECHILD, "the sandbox has ended");
	if (!s->backend->open || !s->backend->open->pause)
		return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP, "stop it instead",
				  "a sandbox of backend '%s' cannot be paused", s->backend->name);
	if (s->backend->open->pause(s->job, on, e) < 0)
		return -e->code;
	for (struct command_run *c = s->commands; c; c = c->next) {
		uint64_t at = c->deadline.t.at;

		if (on)
			c->left = !at ? 0 : at > now ? at - now : 1;
		loop_at(c->loop, &c->deadline.t, on || !c->left ? 0 : now + c->left);
	}
	return 0;
}

/* While it stands still others may look at its layer: it goes on when nobody does. */
int run_pause(struct sandbox *s, bool on, struct err *e)
{
	struct err unused;

	if (!on && layer_rest(&s->layer, false, e) < 0)
		return -e->code;
	if (run_stand_still(s, on, e) < 0) {
		if (!on)
			(void)layer_rest(&s->layer, true, &unused);
		return -e->code;
	}
	return on ? layer_rest(&s->layer, true, e) : 0;
}

int run_files(struct sandbox *s, const char *const *words, const int *ends, uint32_t *ret,
	      struct err *e)
{
	const struct command c = { .argv = words };
	const struct job_want w = { .command = &c, .files = ends, .wake = { -1, -1 } };
	struct job_io unused;

	if (!s->job || s->ended)
		return err_set(e, ERR_UNAVAILABLE, ECHILD, "the sandbox has ended");
	if (!(s->backend->can & BACKEND_FILES))
		return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP, "use a command inside instead",
				  "backend '%s' has no operations on files", s->backend->name);
	return s->backend->exec(s->job, &w, &unused, ret, e);
}

size_t run_living(const struct sandbox *s)
{
	size_t n = 0;

	if (s->job && s->backend->open && s->backend->open->living)
		return s->backend->open->living(s->job);
	for (const struct command_run *c = s->commands; c; c = c->next)
		n += !c->ended;
	return n;
}

bool run_began(const struct command_run *r)
{
	const struct sandbox *s = r->of;

	return !s || !s->job || !s->backend->began || s->backend->began(s->job, r->number);
}

uint32_t run_number(const struct command_run *r)
{
	return r->number;
}

const char *const *run_image_command(const struct sandbox *s, const char **folder)
{
	*folder = s->image_folder;
	return s->image_command;
}

void run_end_command(struct sandbox *s, uint32_t number)
{
	if (s->job && !s->ended && number != COMMAND_FIRST)
		s->backend->signal(s->job, number, SIGKILL);
}
