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
void run_carry(struct run *sandbox, struct run *r)
{
	struct run *was = sandbox->carrier;

	sandbox->carrier = r;
	if (was && was != r)
		run_arrange(was);
	if (r && was != r)
		run_arrange(r);
}

void run_hand_on(struct run *sandbox)
{
	struct run *c = sandbox->commands;

	while (c && (c->ended || !c->offered || c->io.apart))
		c = c->next;
	sandbox->carrier = NULL;
	run_carry(sandbox, c);
}

void run_forget(struct run *r)
{
	struct run *sandbox = r->of;
	struct run **at = sandbox ? &sandbox->commands : NULL;

	while (at && *at && *at != r)
		at = &(*at)->next;
	if (at && *at)
		*at = r->next;
	r->of = r->next = NULL;
	if (sandbox && sandbox->carrier == r)
		run_hand_on(sandbox);
}

/* The sandbox has ended, and what ran in it with it: for the same reason, unless it was closed. */
void run_lose_commands(struct run *sandbox)
{
	while (sandbox->commands) {
		struct run *r = sandbox->commands;
		const struct outcome *why = sandbox->o;

		run_names_count_own(r);
		run_forget(r);
		if (r->ended)
			continue;
		run_note_end(r);
		outcome_contain(r->o, &sandbox->isolation);
		r->o->limits_hit |= why->limits_hit;
		if (r->o->kind == OUTCOME_FAILED) {
			bool closed = sandbox->cancelled || why->kind == OUTCOME_EXITED;

			r->o->kind = closed ? OUTCOME_CANCELLED : why->kind;
			r->o->error = why->error;
		}
		run_has_ended(r);
		run_arrange(r);
	}
}

int run_pause(struct run *r, bool on, struct err *e)
{
	uint64_t now = clock_us();

	if (!r->job || r->ended)
		return err_set(e, ERR_UNAVAILABLE, ECHILD, "the sandbox has ended");
	if (!r->backend->open || !r->backend->open->pause)
		return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP, "stop it instead",
				  "a sandbox of backend '%s' cannot be paused", r->backend->name);
	if (r->backend->open->pause(r->job, on, e) < 0)
		return -e->code;
	for (struct run *c = r->commands; c; c = c->next) {
		uint64_t at = c->deadline.t.at;

		if (on)
			c->left = !at ? 0 : at > now ? at - now : 1;
		loop_at(c->loop, &c->deadline.t, on || !c->left ? 0 : now + c->left);
	}
	return 0;
}

int run_files(struct run *r, const char *const *words, const int *ends, uint32_t *ret,
	      struct err *e)
{
	const struct command c = { .argv = words };
	const struct job_want w = { .command = &c, .files = ends, .wake = { -1, -1 } };
	struct job_io unused;

	if (!r->job || r->ended)
		return err_set(e, ERR_UNAVAILABLE, ECHILD, "the sandbox has ended");
	if (!(r->backend->can & BACKEND_FILES))
		return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP, "use a command inside instead",
				  "backend '%s' has no operations on files", r->backend->name);
	return r->backend->exec(r->job, &w, &unused, ret, e);
}

size_t run_living(const struct run *r)
{
	size_t n = 0;

	if (r->job && r->backend->open && r->backend->open->living)
		return r->backend->open->living(r->job);
	for (const struct run *c = r->commands; c; c = c->next)
		n += !c->ended;
	return n;
}

bool run_began(const struct run *r)
{
	return !r->backend->began || r->backend->began(r->job, r->number);
}

uint32_t run_number(const struct run *r)
{
	return r->number;
}

const char *const *run_image_command(const struct run *r, const char **folder)
{
	*folder = r->image_folder;
	return r->image_command;
}

void run_end_command(struct run *sandbox, uint32_t number)
{
	if (sandbox->job && !sandbox->ended && number != COMMAND_FIRST)
		sandbox->backend->signal(sandbox->job, number, SIGKILL);
}
