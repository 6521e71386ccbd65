/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/process/init.c - process 1 of the sandbox, under the same filter as the command.
 *
 * It starts the command, reaps whatever becomes an orphan, passes signals on, and leaves when the
 * command ends or the monitor is gone. In a sandbox that is opened without a command it starts
 * those that it is told of (commands.h), and leaves with the monitor. When it leaves, the kernel
 * ends everything else in here. */
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "backend/kit/limits/watch.h"
#include "backend/kit/process/inside.h"
#include "backend/kit/seccomp/seccomp.h"
#include "backend/kit/process/selfwrite.h"
#include "base/sys/clock.h"
#include "base/text/str.h"
#include "proc/commands.h"
#include "proc/exec.h"
#include "proc/lend.h"
#include "proc/spawn.h"

#define SIGNALS 64
#define OBJECT_BYTES 1024
#define SEMAPHORE_BYTES 128
#define MESSAGE_BYTES 128

_Noreturn void init_fail(int control, const struct err *e)
{
	struct supervisor_msg m = { .said = SUPERVISOR_FAILED, .err = *e };

	(void)fd_send(control, &m, sizeof(m), NULL, 0);
	_exit(125);
}

static int place_streams(const struct inside *c, int terminal)
{
	int r = c->tty ? proc_place_streams(terminal, terminal, terminal)
		       : proc_place_streams(c->in, c->out, c->err);

	return r == 0 && c->tty && ioctl(0, TIOCSCTTY, 0) < 0 ? -errno : r;
}

/* Runs in the memory of init until it execs: what it leaves in *failed is seen there. */
static pid_t init_start(const struct inside *c, int terminal, volatile int *failed)
{
	pid_t pid = vfork(); /* allow vfork: init has one thread and the child only execs */

	if (pid != 0)
		return pid;
	proc_unblock_signals(); /* all are at their default: init's own handler ends with the exec
				 */
	(void)setsid();
	*failed = -place_streams(c, terminal);
	if (!*failed)
		*failed = -inside_files(c);
	if (!*failed)
		*failed = proc_exec(c->argv, c->envp, c->path);
	_exit(127);
}

static int open_slave(int master)
{
	char path[32];
	unsigned n;

	if (ioctl(master, TIOCGPTN, &n) < 0)
		return -1;
	(void)snprintf(path, sizeof(path), "/dev/pts/%u", n);
	return open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
}

/* Before the command can act: if this cannot be said nothing is started. */
static void say_begins(const struct inside *c, int landlock, int *fds)
{
	struct supervisor_msg m = { .said = SUPERVISOR_BEGINS,
				    .landlock = landlock,
				    .unlocked = c->unlocked };
	int list[INIT_FD_COUNT], r;
	struct err e = { 0 };
	size_t n = 0;

	for (int i = 0; i < INIT_FD_COUNT; i++)
		if (fds[i] >= 0) {
			list[n++] = fds[i];
			m.fds |= 1U << i;
		}
	r = fd_send(c->control, &m, sizeof(m), list, n);
	if (r < 0) {
		errno = -r;
		(void)err_sys(&e, "cannot hand descriptors over");
		init_fail(c->control, &e);
	}
	for (int i = 0; i < INIT_FD_COUNT; i++)
		(void)fd_close(fds[i]);
}

static void on_child(int sig)
{
	(void)sig; /* only there to interrupt ppoll */
}

/* What all reaped children have written to disk: the kernel adds it up in the last parent. What
 * cannot be read is too much. */
static uint64_t init_written(int io)
{
	char text[512];
	ssize_t n = io < 0 ? 0 : pread(io, text, sizeof(text) - 1, 0);
	const char *at;

	if (io < 0)
		return 0; /* nobody wants to know */
	text[n > 0 ? n : 0] = '\0';
	at = strstr(text, "\nwrite_bytes: ");
	return at ? strtoull(at + strlen("\nwrite_bytes: "), NULL, 10) : UINT64_MAX;
}

/* What the kernel keeps for objects of System V, about: pages, and what it takes to keep them. They
 * need not be mapped by anybody, and only a process in their namespace can ask. */
static uint64_t system_v(void)
{
	struct shm_info shm = { 0 };
	struct seminfo sem = { 0 };
	struct msginfo msg = { 0 };
	union {
		struct seminfo *info;
	} arg = { &sem };
	uint64_t sum = 0;

	if (shmctl(0, SHM_INFO, (struct shmid_ds *)(void *)&shm) >= 0)
		sum += shm.shm_rss * (uint64_t)sysconf(_SC_PAGESIZE) +
		       (uint64_t)shm.used_ids * OBJECT_BYTES;
	if (semctl(0, 0, SEM_INFO, arg) >= 0)
		sum += ((uint64_t)sem.semaem + (uint64_t)sem.semusz * 4) * SEMAPHORE_BYTES;
	if (msgctl(0, MSG_INFO, (struct msqid_ds *)(void *)&msg) >= 0)
		sum += (uint64_t)msg.msgtql + (uint64_t)msg.msgmap * MESSAGE_BYTES +
		       (uint64_t)msg.msgpool * OBJECT_BYTES;
	return sum;
}

/* Whoever has lost its parent is a child of ours: with none left there is nobody. */
static bool alone(void)
{
	siginfo_t info;

	return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) < 0 && errno == ECHILD;
}

/* A command that could not fork any more often ends before the next look of the watch. */
static uint64_t tasks(const struct inside *c)
{
	CLEANUP(fd) int proc = -1;
	struct watch_usage left = { 0 };

	if (c->nproc && alone())
		return 1;
	proc = c->nproc ? open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	if (proc < 0)
		return 0;
	(void)watch_look(&(struct watch){ .procfd = proc }, &left);
	return left.tasks + 1;
}

/* Reaps what there is; when the command itself is among it, tells the monitor and leaves. */
static void init_reap(const struct inside *c, pid_t command, int io)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		struct supervisor_msg m = { .said = SUPERVISOR_EXITED,
					    .status = status,
					    .at = clock_us() };

		if (pid != command)
			continue;
		m.usage.written = init_written(io);
		m.usage.tasks = tasks(c);
		(void)fd_send(c->control, &m, sizeof(m), NULL, 0);
		_exit(0);
	}
}

static struct selfwrite selfwrite_of(const struct inside *c, const int *fds)
{
	return (struct selfwrite){ .listener = fds[INIT_FD_LISTENER],
				   .procs = fds[INIT_FD_PROCS],
				   .memory = c->profile != SECCOMP_STRICT };
}

/* As ppoll of the control socket alone, but that whoever waits for its file is answered first. A
 * listener that has no process left to ask hangs up; nobody is there to notice. */
static int init_hear(int control, const struct selfwrite *s, const struct timespec *wait)
{
	struct pollfd p[] = { { .fd = control, .events = POLLIN },
			      { .fd = s->listener, .events = POLLIN } };
	sigset_t none;
	int n;

	(void)sigemptyset(&none);
	n = ppoll(p, ARRAY_LEN(p), wait, &none); /* allow ppoll: SIGCHLD ends it */
	if (n > 0 && p[1].revents & POLLIN)
		selfwrite_answer(s);
	return n <= 0 ? n : p[0].revents != 0;
}

static _Noreturn void init_serve(const struct inside *c, pid_t command, const int *fds)
{
	const struct selfwrite s = selfwrite_of(c, fds);
	const int io = fds[INIT_FD_IO];

	for (;;) {
		struct supervisor_request r;
		int n;

		init_reap(c, command, io);
		n = init_hear(c->control, &s, NULL);
		init_reap(c, command, io);
		if (n < 0 && errno != EINTR)
			_exit(125);
		if (n <= 0)
			continue;
		if (recv(c->control, &r, sizeof(r), MSG_DONTWAIT) != sizeof(r))
			_exit(125); /* the monitor is gone */
		if (r.asks == ASK_SIGNAL && r.signal > 0 && r.signal <= SIGNALS)
			(void)kill(-command, r.signal);
		if (r.asks == ASK_SOCKETS)
			lend_sockets(c->control);
		if (r.asks == ASK_USAGE) {
			struct supervisor_msg m = { .said = SUPERVISOR_USAGE,
						    .usage = { .written = init_written(io),
							       .held = system_v() } };

			(void)fd_send(c->control, &m, sizeof(m), NULL, 0);
		}
	}
}

static int limit_files(const void *inside)
{
	return inside_files(inside);
}

static void init_answer(const struct command_terms *c, struct commands *t, int io)
{
	struct supervisor_packet p;
	struct command_ask a;
	const struct supervisor_request *r = &a.r;

	if (commands_hear(c->control, &p, &a) < 0)
		_exit(125); /* the monitor is gone */
	if (r->asks == ASK_EXEC) {
		commands_exec(t, c, &a);
	} else if (r->asks == ASK_SIGNAL && r->signal > 0 && r->signal <= SIGNALS) {
		commands_signal(t, c, r->command, r->signal);
	} else if (r->asks == ASK_SOCKETS) {
		lend_sockets(c->control);
	} else if (r->asks == ASK_PROCESS && r->command == 0) {
		commands_continue(t);
	} else if (r->asks == ASK_PROCESS && r->command > 1 && r->signal == SIGCONT) {
		(void)kill((pid_t)r->command, SIGCONT);
	} else if (r->asks == ASK_USAGE) {
		struct supervisor_msg m = {
			.said = SUPERVISOR_USAGE,
			.usage = { .written = init_written(io), .held = system_v() },
		};

		if (m.usage.written < UINT64_MAX)
			m.usage.written += commands_written(t);
		(void)fd_send(c->control, &m, sizeof(m), NULL, 0);
	}
}

static _Noreturn void serve_commands(const struct inside *inside, struct commands *t,
				     const int *fds)
{
	const struct command_terms terms = { .control = inside->control,
					     .inside = true,
					     .nproc = inside->nproc,
					     .limit = limit_files,
					     .arg = inside };
	const struct command_terms *c = &terms;
	const struct selfwrite s = selfwrite_of(inside, fds);

	for (;;) {
		int ms = commands_turn(t, c), n;
		const struct timespec wait = { .tv_nsec = (long)ms * 1000 * 1000 };

		if (ms == -ETIME)
			_exit(125); /* and the kernel ends the rest */
		n = init_hear(c->control, &s, ms < 0 ? NULL : &wait);
		if (n < 0 && errno != EINTR)
			_exit(125);
		if (n > 0)
			init_answer(c, t, fds[INIT_FD_IO]);
	}
}

static _Noreturn void stay_open(const struct inside *c, int landlock, int *fds)
{
	struct supervisor_msg started = { .said = SUPERVISOR_STARTED, .at = clock_us() };
	struct commands *t;
	struct err e = { 0 };

	if (commands_new(&t, &e) < 0)
		init_fail(c->control, &e);
	say_begins(c, landlock, fds);
	if (fd_send(c->control, &started, sizeof(started), NULL, 0) < 0)
		_exit(125); /* the monitor is gone */
	serve_commands(c, t, fds);
}

/* A listener wakes it up early, and nobody is the worse for that. */
static void wait_a_moment(const struct inside *c, const int *fds)
{
	const struct timespec moment = { .tv_nsec = 1000 * 1000 };
	const struct selfwrite s = selfwrite_of(c, fds);

	(void)init_hear(-1, &s, &moment);
}

_Noreturn void init_main(const struct inside *c, int landlock, int *fds)
{
	struct sigaction sa = { .sa_handler = on_child, .sa_flags = SA_NOCLDSTOP };
	int terminal = c->tty ? open_slave(fds[INIT_FD_PTY]) : -1, r;
	struct supervisor_msg started = { .said = SUPERVISOR_STARTED, .landlock = landlock };
	volatile int failed = 0;
	struct err e = { 0 };
	sigset_t child;
	pid_t command;

	proc_default_signals();
	(void)sigemptyset(&child);
	(void)sigaddset(&child, SIGCHLD);
	(void)sigprocmask(SIG_SETMASK, &child, NULL);
	(void)sigaction(SIGCHLD, &sa, NULL);
	r = proc_leave_streams();
	if (r < 0) {
		(void)err_errno(&e, r, "cannot let go of the caller's streams");
		init_fail(c->control, &e);
	}
	if (c->open)
		stay_open(c, landlock, fds);
	say_begins(c, landlock, fds);
	command = init_start(c, terminal, &failed);
	started.at = clock_us();
	if (command < 0)
		(void)err_sys(&e, "cannot start a process inside");
	else if (failed)
		proc_exec_failed(c->argv[0], failed, true, &e);
	if (e.code)
		init_fail(c->control, &e);
	(void)fd_close(c->in);
	(void)fd_close(c->out);
	(void)fd_close(c->err);
	(void)fd_close(terminal);
	/* A command that is done at once is reported with its start: the monitor wakes up only
	 * once. */
	if (!c->tty)
		wait_a_moment(c, fds);
	if (fd_send(c->control, &started, sizeof(started), NULL, 0) < 0)
		_exit(125); /* the monitor is gone */
	init_serve(c, command, fds);
}
