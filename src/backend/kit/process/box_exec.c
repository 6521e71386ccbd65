/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/process/box_exec.c - further commands of a sandbox that has brig's own init inside.
 */
#include <signal.h>

#include "backend/kit/process/start_internal.h"
#include "base/sys/clock.h"
#include "base/sys/wait.h"

#define LAST_MS 2 /* from a command's end to that of the last process which it started */

static int box_exec_room(void *job, size_t commands, struct err *e)
{
	return enforce_room(job, commands, e);
}

/* Its end is seen by the pidfd. */
static bool box_exec_hear(void *job)
{
	(void)job_hear(job);
	return true;
}

int box_exec(struct backend_job *j, const struct job_want *w, struct job_io *io, uint32_t *ret,
	     struct err *e)
{
	const struct command_host host = { .table = j->commands,
					   .control = j->control,
					   .pidfd = j->pidfd,
					   .envp = (const char *const *)j->plan->envp,
					   .path = j->plan->path_value,
					   .cwd = j->plan->cwd,
					   .room = box_exec_room,
					   .hear = box_exec_hear,
					   .terminals = true,
					   .takes_short = true,
					   .job = j };
	bool rested = !commands_there(j->commands);
	/* Nobody looks while nothing runs. */
	int r = rested && !(job_news(j, NULL) && job_wake(j))
			? protect_lost(j->protect, "sandbox", e)
			: command_start(&host, w, io, ret, e);

	j->left &= r < 0; /* its own end has all judged, and tells of it */
	if (r == 0 && rested)
		(void)job_tick(j, false);
	else if (rested && j->protect)
		protect_rest(j->protect);
	return r;
}

void job_command_said(struct backend_job *j, const struct supervisor_msg *m)
{
	struct err unused;

	command_said(j->commands, m);
	j->full |= j->pids_held && m->said == SUPERVISOR_FAILED && m->err.code == EAGAIN;
	if (m->said != SUPERVISOR_ENDED)
		return;
	(void)enforce_room(j, commands_there(j->commands), &unused);
	if (commands_there(j->commands))
		return;
	(void)job_tick(j, false);
	if (j->protect)
		protect_rest(j->protect);
}

/* Only what the conductor has not judged already. A process that the kernel killed for the memory
 * of all is the end of all, whoever's it was; the kernel may have told of it before it was counted.
 */
static void box_exec_judge(struct backend_job *j, int status, struct outcome *o)
{
	if (o->kind == OUTCOME_FAILED && cgroup_killed(j->cgroup)) {
		j->killed_memory = true;
		box_signal(j, COMMAND_FIRST, SIGKILL);
		o->kind = OUTCOME_OOM;
		outcome_hit(o, LIMIT_MEMORY);
	} else {
		outcome_ended(o, status);
	}
}

/* What the command has left is judged before its end is told, unless others run: theirs may be half
 * done, and the last of them has it judged. Processes that it left do not put it off. */
static void box_exec_settle(struct backend_job *j, struct outcome *o)
{
	size_t before = o->trust_count;

	if (!j->protect || j->tampered || j->cover_lost)
		return;
	o->unsettled = commands_running(j->commands) > 0;
	if (o->unsettled)
		return;
	if (commands_there(j->commands) && wait_fd(j->control, POLLIN, clock_after(LAST_MS)) == 0)
		(void)job_hear(j);
	j->left = commands_there(j->commands) > 0;
	if (!job_news(j, o))
		return;
	protect_settle(j->protect, o);
	told_filter(&j->told, j->plan->workspace, o, before);
}

bool box_began(const struct backend_job *j, uint32_t command)
{
	return command_began(j->commands, command);
}

bool box_ended(struct backend_job *j, uint32_t command, struct outcome *o)
{
	struct command_end x;

	if (!command_ended(j->commands, command, &x))
		return false;
	if (x.refused && x.why.kind == ERR_NOT_FOUND && !j->plan->image)
		start_hint(x.command->argv, j->plan->set_path, &x.why);
	if (x.refused)
		command_refused(&x, o);
	else
		box_exec_judge(j, x.status, o);
	box_exec_settle(j, o);
	o->phases.started = x.started;
	return true;
}
