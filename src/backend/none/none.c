/* SPDX-License-Identifier: Apache-2.0 */
/* backend/none/none.c - the backend that is not a sandbox, seen from brig: starts the guard, talks
 * to it, judges the end. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "backend/kit/process/ends.h"
#include "backend/kit/remote/supervised.h"
#include "backend/none/none.h"
#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/sys/wait.h"
#include "proc/spawn.h"

#define WAKE_MS 200

struct backend_job {
	struct supervised guard;
	struct backend_plan *plan; /* borrowed */
	pid_t pid;                 /* of the guard; -1 once reaped */
	int pidfd;
	int events; /* epoll over it and its socket; -1: the sandbox is not open */
	bool left;  /* as it told */
	bool lost;  /* ... or the one above it: it was killed, and what was there is ended */
};

static struct backend_job *none_job_free(struct backend_job *j);
DEFINE_CLEANUP(job, struct backend_job *, none_job_free)

static int streams_open(struct ends *p, const struct job_want *w, struct err *e)
{
	if (ends_open(p, w, e) < 0 || (job_has_tty(w) && ends_terminal(p, w, e) < 0))
		return -e->code;
	if (job_has_tty(w))
		p->err[1] = fcntl(p->in[0], F_DUPFD_CLOEXEC, 3);
	return job_has_tty(w) && p->err[1] < 0 ? err_sys(e, "cannot open the terminal") : 0;
}

static int none_spawn(struct backend_job *j, const struct none_guard_start *s, struct err *e)
{
	j->pid = proc_fork(&j->pidfd);
	if (j->pid == 0)
		none_guard_main(s);
	return j->pid > 0 ? 0 : err_sys(e, "cannot start a process");
}

static void none_wake(const struct backend_job *j)
{
	(void)syscall(SYS_pidfd_send_signal, j->pidfd, SIGCONT, NULL, 0);
}

static void none_heard(struct supervised *s, const struct supervisor_msg *m, int *fds UNUSED,
		       size_t n UNUSED)
{
	struct backend_job *j = CONTAINER_OF(s, struct backend_job, guard);

	if (m->command != COMMAND_FIRST)
		return;
	j->lost |= m->said == SUPERVISOR_LOST;
	if (m->said == SUPERVISOR_ENDED || m->said == SUPERVISOR_LOST)
		j->left = m->left;
}

static const struct supervised_kind warded = { .heard = none_heard };

/* A command may stop its guard before that has said a word, hence the waking. One that loses its
 * guard at once has run, and is judged as a run. */
static int started(struct backend_job *j, bool begun, struct err *e)
{
	struct supervisor_msg m;
	bool spoke;
	int r;

	while ((r = wait_fd(j->guard.control, POLLIN, clock_after(WAKE_MS))) < 0) {
		if (r != -ETIMEDOUT)
			return err_sys(e, "cannot wait for the command to start");
		none_wake(j);
	}
	spoke = supervised_hear(&j->guard, &m) > 0;
	if (spoke && m.said == SUPERVISOR_BEGINS)
		return started(j, true, e);
	if (!begun && (!spoke || m.said == SUPERVISOR_LOST))
		return err_set(e, ERR_INTERNAL, ECHILD, "the command's guard died at once");
	if (!spoke || m.said != SUPERVISOR_FAILED)
		return 0;
	*e = m.err;
	return -e->code;
}

static struct backend_job *none_job_new(struct backend_plan *p)
{
	struct backend_job *j = calloc(1, sizeof(*j));

	if (!j)
		return NULL;
	j->plan = p;
	j->guard = (struct supervised){ .kind = &warded, .control = -1 };
	j->pid = j->pidfd = j->events = -1;
	return j;
}

/* The code as a file without a name that nobody, its owner included, can change any more. */
static int sealed_code(const struct backend_plan *p, int *ret, struct err *e)
{
	CLEANUP(fd) int fd = memfd_create("brig-code", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int r = fd < 0 ? -errno : fd_write_all(fd, p->code, p->code_size);

	if (r == 0 &&
	    fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
		r = -errno;
	if (r < 0)
		return err_errno(e, r, "cannot keep the code");
	*ret = TAKE_FD(fd);
	return 0;
}

static int listen_events(struct backend_job *j, struct err *e)
{
	struct epoll_event ev = { .events = EPOLLIN };

	j->events = epoll_create1(EPOLL_CLOEXEC);
	if (j->events < 0 || epoll_ctl(j->events, EPOLL_CTL_ADD, j->pidfd, &ev) < 0 ||
	    epoll_ctl(j->events, EPOLL_CTL_ADD, j->guard.control, &ev) < 0)
		return err_sys(e, "cannot listen to the command's guard");
	j->guard.commands = command_table_new();
	return j->guard.commands ? 0 : err_nomem(e);
}

static void none_describe(struct isolation *i)
{
	*i = (struct isolation){ .cgroup = "none",
				 .network = fields[FIELD_NETWORK].words[NETWORK_HOST],
				 .uid_inside = geteuid(),
				 .gid_inside = getegid(),
				 .limits = { [LIMIT_FILES] = ENFORCER_RLIMIT } };
}

static int none_start(struct backend_plan *p, const struct job_want *w, struct job_io *io,
		      struct backend_job **ret, struct err *e)
{
	CLEANUP(job) struct backend_job *j = none_job_new(p);
	struct ends ends = ENDS_NONE;
	struct none_guard_start s = {
		.plan = p, .brig = getpid(), .code = -1, .tty = job_has_tty(w), .open = !w->command
	};
	int r;

	if (!j)
		return err_nomem(e);
	if (!p->argv && w->command)
		return err_set(e, ERR_USAGE, EINVAL, "no command given");
	r = streams_open(&ends, w, e);
	if (r == 0 && p->code)
		r = sealed_code(p, &s.code, e);
	j->guard.control = TAKE_FD(ends.control[0]);
	s.control = ends.control[1];
	s.in = ends.in[0];
	s.out = ends.out[1];
	s.err = ends.err[1];
	if (r == 0)
		r = none_spawn(j, &s, e);
	/* Only now can the end of the guard be seen on the socket. */
	ends.control[1] = fd_close(ends.control[1]);
	(void)fd_close(s.code);
	if (r == 0)
		r = started(j, false, e);
	if (r == 0 && !w->command)
		r = listen_events(j, e);
	if (r == 0)
		*io = (struct job_io){ .in = TAKE_FD(ends.in[1]),
				       .out = TAKE_FD(ends.out[0]),
				       .err = TAKE_FD(ends.err[0]),
				       .in_peer = job_has_tty(w) ? -1 : TAKE_FD(ends.in[0]),
				       .events = w->command ? j->pidfd : j->events,
				       .alarm = -1,
				       .names = -1,
				       .agent = -1 };
	ends_done(&ends);
	if (r < 0)
		return r;
	if (w->isolation)
		none_describe(w->isolation);
	*ret = TAKE_PTR(j);
	return 0;
}

/* The one above has left. Was it killed, the one below ends what there is, and tells; both have the
 * socket open, so that nobody is left when it closes. */
static void hear_lower(struct backend_job *j)
{
	uint64_t deadline = clock_us() + (uint64_t)2 * NONE_GUARD_PATIENCE_MS * 1000;
	struct pollfd p = { .fd = j->guard.control, .events = POLLIN };

	while (!(p.revents & POLLHUP) && clock_us() < deadline)
		if (wait_any(&p, 1, clock_after(WAKE_MS)) > 0)
			(void)supervised_hear_all(&j->guard);
}

static void ask_to_end(const struct backend_job *j)
{
	supervised_ask(&j->guard, COMMAND_FIRST, SIGKILL);
	none_wake(j);
}

/* Ends everything and waits for it. A guard that does not answer is killed itself, and the command
 * with it; what that one had detached is then out of reach. */
static void job_reap(struct backend_job *j)
{
	siginfo_t info;

	if (j->pid <= 0)
		return;
	ask_to_end(j);
	if (wait_fd(j->pidfd, POLLIN, clock_after(2 * NONE_GUARD_PATIENCE_MS)) < 0)
		(void)syscall(SYS_pidfd_send_signal, j->pidfd, SIGKILL, NULL, 0);
	while (waitid(P_PID, (id_t)j->pid, &info, WEXITED | __WALL) < 0 && errno == EINTR)
		;
	j->pid = -1;
}

static struct backend_job *none_job_free(struct backend_job *j)
{
	if (!j)
		return NULL;
	job_reap(j);
	supervised_done(&j->guard);
	(void)fd_close(j->events);
	(void)fd_close(j->pidfd);
	free(j);
	return NULL;
}

/* The guard leaves last: its end is the end of all. */
static enum job_event none_event(struct backend_job *j, bool alarm UNUSED, struct outcome *o UNUSED)
{
	if (j->guard.commands)
		(void)supervised_hear_all(&j->guard);
	return wait_look(j->pidfd, POLLIN) ? JOB_ENDED : JOB_NOTHING;
}

static void none_signal(struct backend_job *j, uint32_t command, int sig)
{
	if (sig == SIGKILL && command == COMMAND_FIRST)
		ask_to_end(j);
	else
		supervised_ask(&j->guard, command, sig);
}

/* Only what the conductor has not judged already: its own timeout and cancel stand. */
static void none_judge(const struct backend_job *j, struct outcome *o)
{
	if (j->guard.ended && !j->lost)
		outcome_ended(o, j->guard.end.status);
	else if (o->kind == OUTCOME_FAILED)
		(void)err_set(&o->error, ERR_INTERNAL, ECHILD,
			      "the command's guard was ended from outside");
}

/* Its end is seen by the pidfd. */
static bool none_hear(void *job)
{
	struct backend_job *j = job;

	(void)supervised_hear_all(&j->guard);
	return true;
}

static int none_exec(struct backend_job *j, const struct job_want *w, struct job_io *io,
		     uint32_t *ret, struct err *e)
{
	const struct command_host host = { .table = j->guard.commands,
					   .control = j->guard.control,
					   .pidfd = j->pidfd,
					   .envp = (const char *const *)j->plan->envp,
					   .path = j->plan->path_value,
					   .cwd = j->plan->cwd,
					   .hear = none_hear,
					   .job = j };

	return command_start(&host, w, io, ret, e);
}

static bool none_ended(struct backend_job *j, uint32_t command, struct outcome *o)
{
	struct command_end x;

	if (!command_ended(j->guard.commands, command, &x))
		return false;
	if (x.refused)
		command_refused(&x, o);
	else
		outcome_ended(o, x.status);
	return true;
}

static int none_probe(const struct spec *s UNUSED, struct isolation *ret, struct err *e UNUSED)
{
	none_describe(ret);
	return 0;
}

static void none_finish(struct backend_job *j, struct outcome *o)
{
	job_reap(j);
	hear_lower(j);
	none_judge(j, o);
	o->left = j->left || !(j->guard.ended || j->lost);
	if (o->left)
		outcome_deny(o, "process", j->plan->argv ? j->plan->argv[0] : "",
			     "something it started could not be ended and may still run");
	(void)none_job_free(j);
}

const struct backend backend_none = {
	.name = "none",
	.kind = BACKEND_NONE,
	.bit = ON_NONE,
	.can = BACKEND_SHOWS_CODE | BACKEND_BARE,
	.probe = none_probe,
	.plan = none_plan,
	.plan_json = none_plan_json,
	.plan_free = none_plan_free,
	.start = none_start,
	.event = none_event,
	.signal = none_signal,
	.finish = none_finish,
	.exec = none_exec,
	.ended = none_ended,
};
