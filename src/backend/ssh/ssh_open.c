/* SPDX-License-Identifier: Apache-2.0 */
/* backend/ssh/ssh_open.c - a sandbox on another host that stays open.
 *
 * Each command is a session of its own, made as a run's is: with its own wrapper, watcher, keeper,
 * marks and id. A plain login has no process of brig's that could stand over commands: what they
 * share is the host, the folder, the variables and, if connections are shared, the connection, a
 * command ends with all it started, and the sandbox's own events are none until it is to end. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "backend/ssh/ssh_job.h"
#include "base/bytes/random.h"
#include "base/files/fd.h"
#include "proc/supervisor.h"

struct ssh_command {
	uint32_t number; /* 0: this place is free */
	struct backend_plan *plan;
	struct backend_job *job;
	bool over; /* its session has ended, while the sandbox is being closed */
};

struct ssh_open {
	struct ssh_command all[COMMANDS_MAX];
	uint32_t last; /* number that was given */
	bool closing;
	int wake; /* an eventfd: it is to end */
};

static void ssh_open_leave(struct ssh_command *k)
{
	(void)ssh_job_free(k->job);
	(void)ssh_plan_free(k->plan);
	*k = (struct ssh_command){ 0 };
}

struct ssh_open *ssh_open_free(struct ssh_open *s)
{
	for (size_t i = 0; s && i < COMMANDS_MAX; i++)
		ssh_open_leave(&s->all[i]);
	if (s)
		(void)fd_close(s->wake);
	free(s);
	return NULL;
}

static void ssh_open_wake(const struct ssh_open *s)
{
	const uint64_t one = 1;

	(void)!write(s->wake, &one, sizeof(one));
}

/* ---- opening ---- */

/* That one can log in and enter the folder is known before the sandbox counts as open. */
static int try_out(const struct backend_plan *p, struct err *e)
{
	const char *const argv[] = { "true", NULL };
	const struct command c = { .argv = argv };
	CLEANUP(ssh_plan) struct backend_plan *x = NULL;
	CLEANUP(ssh_job) struct backend_job *j = NULL;
	char id[ID_ROOM];
	const struct job_want w = { .command = &c, .no_input = true, .id = id, .wake = { -1, -1 } };
	struct job_io io = { -1, -1, -1, -1, -1, -1 };

	if (random_hex(id, sizeof(id), e) < 0 || ssh_plan_command(p, &w, &x, e) < 0 ||
	    ssh_job_start(x, &w, &io, &j, e) < 0)
		return -e->code;
	(void)fd_close(io.out);
	(void)fd_close(io.err);
	return 0;
}

int ssh_open_start(struct backend_plan *p, const struct job_want *w, struct job_io *io,
		   struct backend_job **ret, struct err *e)
{
	CLEANUP(ssh_job) struct backend_job *j = NULL;

	j = ssh_job_new(p, w->id);
	if (!j || !(j->open = calloc(1, sizeof(*j->open))))
		return err_nomem(e);
	j->open->wake = -1;
	if (try_out(p, e) < 0)
		return -e->code;
	j->open->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	j->events = epoll_create1(EPOLL_CLOEXEC);
	if (j->open->wake < 0 || j->events < 0 || ssh_job_listen(j, j->open->wake, EPOLLIN) < 0)
		return err_sys(e, "cannot listen to ssh");
	*io = (struct job_io){ .in = -1,
			       .out = -1,
			       .err = -1,
			       .in_peer = -1,
			       .events = j->events,
			       .alarm = -1,
			       .names = -1,
			       .agent = -1 };
	*ret = TAKE_PTR(j);
	return 0;
}

/* ---- commands ---- */

static struct ssh_command *ssh_open_find(struct ssh_open *s, uint32_t number)
{
	for (size_t i = 0; i < COMMANDS_MAX; i++)
		if (s->all[i].number == number)
			return &s->all[i];
	return NULL;
}

int ssh_open_exec(struct backend_job *j, const struct job_want *w, struct job_io *io, uint32_t *ret,
		  struct err *e)
{
	struct ssh_command *k = ssh_open_find(j->open, 0);

	if (job_has_tty(w))
		return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP, "leave the terminal out",
				  "a command of an open sandbox cannot have a terminal");
	if (!k || j->open->last == UINT32_MAX)
		return err_refuse(e, ERR_POLICY, EAGAIN, "end one first",
				  "a sandbox has at most %d commands at a time", COMMANDS_MAX);
	if (ssh_plan_command(j->plan, w, &k->plan, e) < 0 ||
	    ssh_job_start(k->plan, w, io, &k->job, e) < 0) {
		ssh_open_leave(k);
		return -e->code;
	}
	*ret = k->number = ++j->open->last;
	return 0;
}

bool ssh_open_ended(struct backend_job *j, uint32_t command, struct outcome *o)
{
	struct ssh_command *k = command ? ssh_open_find(j->open, command) : NULL;

	if (!k || j->open->closing || ssh_job_event(k->job) != JOB_ENDED)
		return false;
	ssh_job_finish(k->job, o);
	k->job = NULL;
	ssh_open_leave(k);
	return true;
}

/* ---- ending ---- */

/* From here on its commands' sessions are waited for as well. */
static void ssh_open_close_all(struct backend_job *j)
{
	struct ssh_open *s = j->open;

	s->closing = true;
	ssh_open_wake(s);
	for (size_t i = 0; i < COMMANDS_MAX; i++) {
		if (!s->all[i].number)
			continue;
		ssh_job_strike(s->all[i].job, SIGKILL);
		(void)ssh_job_listen(j, s->all[i].job->events, EPOLLIN);
	}
}

void ssh_open_signal(struct backend_job *j, uint32_t command, int sig)
{
	struct ssh_open *s = j->open;
	struct ssh_command *k = command ? ssh_open_find(s, command) : NULL;

	if (k)
		ssh_job_strike(k->job, sig);
	else if (!s->closing && command == COMMAND_FIRST && sig == SIGKILL)
		ssh_open_close_all(j);
}

enum job_event ssh_open_event(struct backend_job *j)
{
	struct ssh_open *s = j->open;
	bool all;
	uint64_t n;

	(void)!read(s->wake, &n, sizeof(n));
	all = s->closing;
	for (size_t i = 0; s->closing && i < COMMANDS_MAX; i++) {
		struct ssh_command *k = &s->all[i];

		if (!k->number || k->over)
			continue;
		/* What it still has to say is dropped. */
		k->over = ssh_job_event(k->job) == JOB_ENDED || client_ended(&k->job->client);
		if (k->over)
			(void)epoll_ctl(j->events, EPOLL_CTL_DEL, k->job->events, NULL);
		all &= k->over;
	}
	return all ? JOB_ENDED : JOB_NOTHING;
}

/* Whatever is found to live on over there is told with the sandbox's end. */
void ssh_open_finish(struct backend_job *j, struct outcome *o)
{
	for (size_t i = 0; i < COMMANDS_MAX; i++) {
		struct ssh_command *k = &j->open->all[i];

		if (!k->number)
			continue;
		ssh_job_finish(TAKE_PTR(k->job), o);
		ssh_open_leave(k);
	}
	(void)ssh_job_free(j);
}
