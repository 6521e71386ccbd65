/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/process/box_exec.c - further commands of a sandbox that is open, seen from its
 * monitor. init.c and commands.c are the other end. */
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>

#include "backend/kit/process/ends.h"
#include "backend/kit/process/order.h"
#include "backend/kit/process/start_internal.h"

#define BEGIN_MS 60000

static struct job_command *find(const struct backend_job *j, uint32_t number)
{
	for (size_t i = 0; j->commands && number && i < COMMANDS_MAX; i++)
		if (j->commands[i].number == number)
			return &j->commands[i];
	return NULL;
}

size_t job_commands(const struct backend_job *j)
{
	size_t n = 0;

	for (size_t i = 0; j->commands && i < COMMANDS_MAX; i++)
		n += j->commands[i].number && j->commands[i].there;
	return n;
}

/* A place is free again when neither side has a use for it. */
static void leave(struct job_command *k)
{
	if (k->wanted || k->there)
		return;
	(void)fd_close(k->news);
	*k = (struct job_command){ 0 };
}

struct job_command *job_commands_free(struct job_command *all)
{
	for (size_t i = 0; all && i < COMMANDS_MAX; i++)
		if (all[i].number)
			(void)fd_close(all[i].news);
	free(all);
	return NULL;
}

void job_command_said(struct backend_job *j, const struct supervisor_msg *m)
{
	struct job_command *k = find(j, m->command);
	struct err unused;
	uint64_t one = 1;

	if (!k)
		return;
	if (m->said == SUPERVISOR_ENDED) {
		k->there = false;
		leave(k);
		(void)enforce_room(j, job_commands(j), &unused);
		return;
	}
	k->said = m->said;
	k->status = m->status;
	if (m->said == SUPERVISOR_FAILED) {
		j->failed = m->err;
		j->full |= j->pids_held && m->err.code == EAGAIN;
	}
	if (m->said == SUPERVISOR_EXITED)
		(void)!write(k->news, &one, sizeof(one));
}

static struct job_command *new_place(struct backend_job *j, struct err *e)
{
	struct job_command *k = NULL;

	for (size_t i = 0; i < COMMANDS_MAX && !k; i++)
		if (!j->commands[i].number)
			k = &j->commands[i];
	if (!k || j->last == UINT32_MAX) {
		(void)err_refuse(e, ERR_POLICY, EAGAIN,
				 "end one, or what it has left running, first",
				 "a sandbox has at most %d commands at a time", COMMANDS_MAX);
		return NULL;
	}
	k->news = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (k->news < 0) {
		(void)err_sys(e, "cannot listen to the command");
		return NULL;
	}
	k->number = ++j->last;
	k->wanted = true;
	k->said = SUPERVISOR_BEGINS;
	return k;
}

/* ---- what init is told ---- */

static bool same_name(const char *a, const char *b)
{
	size_t n = strcspn(a, "=");

	return strncmp(a, b, n) == 0 && b[n] == '=';
}

/* The sandbox's variables, with the command's own in their place or behind them. */
static const char **variables(const struct box_plan *p, const struct command *c)
{
	size_t n = 0, m = 0;
	const char **all;

	while (p->envp[n])
		n++;
	while (c->env && c->env[m])
		m++;
	all = calloc(n + m + 1, sizeof(*all));
	if (!all)
		return NULL;
	memcpy(all, p->envp, n * sizeof(*all));
	for (size_t i = 0; i < m; i++) {
		size_t at = 0;

		while (at < n && !same_name(c->env[i], all[at]))
			at++;
		all[at] = c->env[i];
		n += at == n;
	}
	return all;
}

static const char *path_of(const char *const *env, const char *otherwise)
{
	for (; env && *env; env++)
		if (same_name("PATH=", *env))
			return *env + strlen("PATH=");
	return otherwise;
}

static int make_order(const struct box_plan *p, const struct command *c, int *ret, struct err *e)
{
	const char **env = variables(p, c);
	struct order o = { .argv = c->argv,
			   .envp = env,
			   .path = path_of(c->env, p->path_value),
			   .cwd = c->cwd ? c->cwd : p->cwd };
	int r = env ? order_make(&o, ret, e) : err_nomem(e);

	free(env);
	return r;
}

static int ask(struct backend_job *j, struct job_command *k, int order, const struct ends *pipes,
	       struct err *e)
{
	const struct supervisor_request r = { .asks = ASK_EXEC, .command = k->number };
	const int fds[] = { order, pipes->out[1], pipes->err[1], pipes->in[0] };
	int sent;

	k->there = true;
	if (enforce_room(j, job_commands(j), e) < 0) {
		k->there = false;
		return -e->code;
	}
	sent = fd_send(j->control, &r, sizeof(r), fds, ARRAY_LEN(fds) - (pipes->in[0] < 0));
	k->there = sent == 0;
	return sent < 0 ? err_errno(e, sent, "cannot reach the sandbox") : 0;
}

/* ---- until it runs ---- */

static int wait_for_news(struct backend_job *j, const struct job_want *w, struct err *e)
{
	struct pollfd p[] = { { .fd = j->control, .events = POLLIN },
			      { .fd = j->pidfd, .events = POLLIN },
			      { .fd = w->asked_to_stop ? w->wake[0] : -1, .events = POLLIN },
			      { .fd = w->asked_to_stop ? w->wake[1] : -1, .events = POLLIN } };
	int n = poll(p, ARRAY_LEN(p), BEGIN_MS);

	if (n < 0 && errno != EINTR)
		return err_sys(e, "cannot wait for the sandbox");
	if (n == 0)
		return err_set(e, ERR_UNAVAILABLE, ETIMEDOUT,
			       "the command was not started within %d s", BEGIN_MS / 1000);
	(void)job_hear(j);
	if (n > 0 && p[1].revents)
		return err_set(e, ERR_UNAVAILABLE, ECHILD, "the sandbox has ended");
	if (n > 0 && (p[2].revents || p[3].revents) && w->asked_to_stop(w->arg))
		return err_set(e, ERR_INTERNAL, ECANCELED, "the run was given up");
	return 0;
}

static int begun(struct backend_job *j, const struct job_command *k, const struct command *c,
		 const struct job_want *w, struct err *e)
{
	while (k->said == SUPERVISOR_BEGINS)
		if (wait_for_news(j, w, e) < 0 && k->said == SUPERVISOR_BEGINS)
			return -e->code;
	if (k->said != SUPERVISOR_FAILED)
		return 0;
	*e = j->failed;
	e->what[sizeof(e->what) - 1] = e->hint[sizeof(e->hint) - 1] = '\0';
	if (!e->code)
		e->code = EIO;
	if (e->kind == ERR_NOT_FOUND)
		start_hint(c->argv, e);
	return -e->code;
}

int box_exec(struct backend_job *j, const struct command *c, const struct job_want *w,
	     struct job_io *io, uint32_t *ret, struct err *e)
{
	CLEANUP(fd) int order = -1;
	struct ends pipes = ENDS_NONE;
	struct job_command *k = NULL;
	int r;

	if (w->tty)
		return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP, "leave the terminal out",
				  "a command of an open sandbox cannot have a terminal");
	r = make_order(j->plan, c, &order, e);
	if (r == 0)
		r = ends_pipes(&pipes, w, e);
	if (r == 0 && !(k = new_place(j, e)))
		r = -e->code;
	if (r == 0)
		r = ask(j, k, order, &pipes, e);
	pipes.out[1] = fd_close(pipes.out[1]);
	pipes.err[1] = fd_close(pipes.err[1]);
	if (r == 0)
		r = begun(j, k, c, w, e);
	if (r == 0) {
		*ret = k->number;
		*io = (struct job_io){ .in = TAKE_FD(pipes.in[1]),
				       .out = TAKE_FD(pipes.out[0]),
				       .err = TAKE_FD(pipes.err[0]),
				       .in_peer = TAKE_FD(pipes.in[0]),
				       .events = k->news,
				       .alarm = -1 };
	} else if (k) {
		if (k->there)
			box_signal(j, k->number, SIGKILL);
		k->wanted = false;
		leave(k);
	}
	ends_done(&pipes);
	return r;
}

/* Only what the conductor has not judged already. A process that the kernel kills for the memory of
 * all may be this one's, and is the end of all. */
static void judge(struct backend_job *j, int status, struct outcome *o)
{
	struct cgroup_events seen;

	if (o->kind != OUTCOME_FAILED)
		return;
	if (WIFEXITED(status)) {
		o->kind = OUTCOME_EXITED;
		o->exit_code = WEXITSTATUS(status);
		return;
	}
	cgroup_events(j->cgroup, &seen);
	if (WTERMSIG(status) == SIGKILL && seen.oom) {
		j->killed_memory = true; /* this look was the news that box_event waits for */
		box_signal(j, COMMAND_FIRST, SIGKILL);
		o->kind = OUTCOME_OOM;
		outcome_hit(o, LIMIT_MEMORY);
		return;
	}
	o->kind = OUTCOME_SIGNALLED;
	o->signal = WTERMSIG(status);
}

bool box_ended(struct backend_job *j, uint32_t command, struct outcome *o)
{
	struct job_command *k = find(j, command);

	if (!k || k->said != SUPERVISOR_EXITED)
		return false;
	o->isolation = j->isolation;
	judge(j, k->status, o);
	k->wanted = false;
	leave(k);
	return true;
}
