/* SPDX-License-Identifier: Apache-2.0 */
/* backend/none/none_guard.c - the process between brig and a command that runs on the host.
 *
 *   setting up -> serving -> ending -> gone
 *
 * Serving ends when the command does, when brig asks for SIGKILL, when brig's end of the socket
 * closes or brig dies, or when somebody sends the guard a signal that means "leave". Ending kills
 * every descendant, tells how the command ended and leaves. It has a time limit: a process in the
 * middle of a dead network file system, or of another user, does not die.
 *
 * Above it stands a second one, which is brig's child. It does nothing but pass signals on until
 * the first has left; if that was killed, the command's descendants are the second one's children
 * now, and are ended here. If the second is killed, that is a parent's death to the first. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "backend/none/none.h"
#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/sys/wait.h"
#include "proc/commands.h"
#include "proc/exec.h"
#include "proc/spawn.h"

#define SIGNALS 64
/* Wakes even a guard that the command has stopped. */
#define PARENT_DIED SIGCONT
#define PASS_MS 5

struct none_guard {
	int control, signals;
	pid_t brig, command;
	bool ended; /* the command itself; status holds how */
	bool asked; /* by brig, to end it all */
	int status;
};

static _Noreturn void none_guard_fail(const struct none_guard_start *s, const struct err *e)
{
	struct supervisor_msg m = { .said = SUPERVISOR_FAILED, .err = *e };

	(void)fd_send(s->control, &m, sizeof(m), NULL, 0);
	_exit(125);
}

/* ---- the command, until it is exec'ed ---- */

static int place_streams(const struct none_guard_start *s)
{
	int r = proc_place_streams(s->in, s->out, s->err);

	if (r < 0)
		return r;
	if (s->code == CODE_FD && fcntl(CODE_FD, F_SETFD, 0) < 0)
		return -errno;
	if (s->code >= 0 && s->code != CODE_FD && dup2(s->code, CODE_FD) < 0)
		return -errno;
	return s->tty && ioctl(0, TIOCSCTTY, 0) < 0 ? -errno : 0;
}

static int limit_files(const void *count)
{
	uint64_t files = *(const uint64_t *)count;
	struct rlimit r;

	if (!files)
		return 0;
	if (getrlimit(RLIMIT_NOFILE, &r) < 0)
		return -errno;
	if (files < r.rlim_max)
		r.rlim_max = files;
	r.rlim_cur = r.rlim_max;
	return setrlimit(RLIMIT_NOFILE, &r) < 0 ? -errno : 0;
}

/* Runs in the guard's memory until it execs: what it leaves in *failed is seen there. */
static pid_t none_guard_command(const struct none_guard_start *s, volatile int *failed)
{
	pid_t pid = vfork(); /* allow vfork: the guard has one thread, the child only execs */

	if (pid != 0)
		return pid;
	proc_unblock_signals();
	(void)setsid();
	/* The guard itself may be killed by anyone with the caller's rights. */
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	*failed = -place_streams(s);
	if (!*failed)
		*failed = -limit_files(&s->plan->files);
	if (!*failed)
		*failed = proc_exec(s->plan->argv, s->plan->envp, s->plan->path_value);
	_exit(127);
}

/* ---- setting up ---- */

/* Whatever the embedding program had open is gone before anything else happens. */
static int close_foreign(const struct none_guard_start *s, struct err *e)
{
	const int keep[] = { s->control, s->in, s->out, s->err, s->code };
	int r = fd_close_except(3, keep, ARRAY_LEN(keep));

	return r < 0 ? err_errno(e, r, "cannot close inherited descriptors") : 0;
}

static int listen_signals(void)
{
	static const int heard[] = { SIGCHLD, PARENT_DIED, SIGTERM, SIGINT, SIGHUP, SIGQUIT };
	sigset_t set;

	(void)sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_LEN(heard); i++)
		(void)sigaddset(&set, heard[i]);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Every signal is blocked since before the clone and stays so: they are read, not delivered. */
static int set_up(const struct none_guard_start *s, struct none_guard *w, struct err *e)
{
	int r;

	(void)prctl(PR_SET_NAME, "brig-guard", 0, 0, 0);
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* its socket is not the command's to take */
	if (prctl(PR_SET_PDEATHSIG, PARENT_DIED, 0, 0, 0) < 0 ||
	    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
		return err_sys(e, "cannot take charge of the command's children");
	if (getppid() != w->brig)
		_exit(125);
	/* A SIGCHLD ignored by the embedding program would have the kernel reap behind our back. */
	proc_default_signals();
	(void)setsid(); /* the terminal's signals are for brig */
	if (close_foreign(s, e) < 0)
		return -e->code;
	r = proc_leave_streams();
	if (r < 0)
		return err_errno(e, r, "cannot let go of the caller's streams");
	proc_forget_environment();
	w->signals = listen_signals();
	if (w->signals < 0)
		return err_sys(e, "cannot listen to signals");
	return 0;
}

/* ---- serving and ending ---- */

/* Reaps what there is; false when no child is left. */
static bool none_guard_reap(struct none_guard *w)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG | __WALL)) > 0)
		if (pid == w->command) {
			w->ended = true;
			w->status = status;
		}
	return pid == 0;
}

/* true when one of them means to leave. PARENT_DIED also comes from brig, to wake us, and when only
 * the thread died that started the run. */
static bool signals_say_leave(const struct none_guard *w)
{
	struct signalfd_siginfo s;
	bool leave = false;

	while (read(w->signals, &s, sizeof(s)) == sizeof(s))
		if (s.ssi_signo == PARENT_DIED)
			leave |= getppid() != w->brig;
		else
			leave |= s.ssi_signo != SIGCHLD;
	return leave;
}

/* w->command is 0 in the one above. */
static bool end_all(struct none_guard *w)
{
	uint64_t deadline = clock_us() + (uint64_t)NONE_GUARD_PATIENCE_MS * 1000;

	for (;;) {
		if (!w->ended && w->command)
			(void)kill(-w->command, SIGKILL); /* all there is where /proc is blind */
		reap_kill_descendants();
		if (!none_guard_reap(w))
			return true;
		if (clock_us() > deadline)
			return false;
		(void)wait_fd(w->signals, POLLIN, clock_after(PASS_MS));
		(void)signals_say_leave(w);
	}
}

static _Noreturn void none_guard_end(struct none_guard *w)
{
	/* Killed below, it has not ended by itself: only brig may have that told as its end. */
	struct supervisor_msg m = { .said = w->ended || w->asked ? SUPERVISOR_ENDED
								 : SUPERVISOR_LOST };

	m.left = !end_all(w);
	m.status = w->ended ? w->status : SIGKILL; /* as a wait status: ended by that signal */
	(void)fd_send(w->control, &m, sizeof(m), NULL, 0);
	_exit(0);
}

static _Noreturn void none_guard_serve(struct none_guard *w)
{
	struct pollfd p[] = { { .fd = w->control, .events = POLLIN },
			      { .fd = w->signals, .events = POLLIN } };

	for (;;) {
		struct supervisor_request r;

		(void)wait_any(p, ARRAY_LEN(p), 0);
		(void)none_guard_reap(w);
		if (signals_say_leave(w) || w->ended)
			none_guard_end(w);
		if (!p[0].revents)
			continue;
		w->asked = recv(w->control, &r, sizeof(r), MSG_DONTWAIT) != sizeof(r) ||
			   (r.asks == ASK_SIGNAL && r.signal == SIGKILL);
		if (w->asked) /* or brig is gone */
			none_guard_end(w);
		if (r.asks == ASK_SIGNAL && r.signal > 0 && r.signal <= SIGNALS)
			(void)kill(-w->command, r.signal);
	}
}

/* ---- an open sandbox ---- */

/* false: brig is gone, or wants it all ended. */
static bool none_guard_answer(const struct command_terms *c, struct commands *t)
{
	struct supervisor_packet p;
	struct command_ask a;
	const struct supervisor_request *r = &a.r;

	if (commands_hear(c->control, &p, &a) < 0)
		return false;
	if (r->asks == ASK_EXEC)
		commands_exec(t, c, &a);
	else if (r->asks == ASK_SIGNAL && r->command == COMMAND_FIRST)
		return r->signal != SIGKILL;
	else if (r->asks == ASK_SIGNAL && r->signal > 0 && r->signal <= SIGNALS)
		commands_signal(t, c, r->command, r->signal);
	return true;
}

static _Noreturn void serve_commands(struct none_guard *w, const struct none_guard_start *s,
				     struct commands *t)
{
	const struct command_terms terms = { .control = w->control,
					     .limit = limit_files,
					     .arg = &s->plan->files };
	struct pollfd p[] = { { .fd = w->control, .events = POLLIN },
			      { .fd = w->signals, .events = POLLIN } };

	for (;;) {
		int ms = commands_turn(t, &terms);

		w->asked = ms == -ETIME;
		if (w->asked)
			none_guard_end(w);
		(void)wait_any(p, ARRAY_LEN(p), ms < 0 ? 0 : clock_after((uint64_t)ms));
		if (signals_say_leave(w))
			none_guard_end(w);
		w->asked = p[0].revents && !none_guard_answer(&terms, t);
		if (w->asked)
			none_guard_end(w);
	}
}

static _Noreturn void stay_open(struct none_guard *w, const struct none_guard_start *s)
{
	const struct supervisor_msg begins = { .said = SUPERVISOR_BEGINS },
				    started = { .said = SUPERVISOR_STARTED };
	struct commands *t;
	struct err e = { 0 };

	if (commands_new(&t, &e) < 0)
		none_guard_fail(s, &e);
	if (fd_send(w->control, &begins, sizeof(begins), NULL, 0) < 0 ||
	    fd_send(w->control, &started, sizeof(started), NULL, 0) < 0)
		_exit(125); /* brig is gone */
	serve_commands(w, s, t);
}

static void none_guard_let_go(const struct none_guard_start *s)
{
	(void)fd_close(s->in);
	(void)fd_close(s->out);
	(void)fd_close(s->err);
	(void)fd_close(s->code);
}

static _Noreturn void lower(const struct none_guard_start *s, pid_t above)
{
	struct none_guard w = { .control = s->control, .brig = above };
	const struct supervisor_msg begins = { .said = SUPERVISOR_BEGINS },
				    started = { .said = SUPERVISOR_STARTED };
	volatile int failed = 0;
	struct err e = { 0 };

	if (set_up(s, &w, &e) < 0)
		none_guard_fail(s, &e);
	if (chdir(s->plan->cwd) < 0) {
		(void)err_sys(&e, "cannot enter '%s'", s->plan->cwd);
		none_guard_fail(s, &e);
	}
	if (s->open)
		stay_open(&w, s);
	if (fd_send(w.control, &begins, sizeof(begins), NULL, 0) < 0)
		_exit(125); /* brig is gone */
	w.command = none_guard_command(s, &failed);
	if (w.command < 0)
		(void)err_sys(&e, "cannot start a process");
	else if (failed)
		proc_exec_failed(s->plan->argv[0], failed, false, &e);
	if (e.code)
		none_guard_fail(s, &e);
	none_guard_let_go(s);
	if (fd_send(w.control, &started, sizeof(started), NULL, 0) < 0)
		none_guard_end(&w);
	none_guard_serve(&w);
}

/* ---- the one above ---- */

/* Until the first has left; its wait status. It hears of brig's death, and of brig's wishes, by
 * itself, unless it was stopped. */
static int none_guard_pass_on(const struct none_guard *w, pid_t first)
{
	struct signalfd_siginfo s;
	int status;

	for (;;) {
		if (waitpid(first, &status, WNOHANG | __WALL) == first)
			return status;
		(void)wait_fd(w->signals, POLLIN, 0);
		while (read(w->signals, &s, sizeof(s)) == sizeof(s))
			if (s.ssi_signo != SIGCHLD)
				(void)kill(first, (int)s.ssi_signo);
		if (getppid() != w->brig)
			(void)kill(first, SIGTERM);
	}
}

_Noreturn void none_guard_main(const struct none_guard_start *s)
{
	struct none_guard w = { .control = s->control, .brig = s->brig };
	struct supervisor_msg m = { .said = SUPERVISOR_LOST };
	pid_t me = getpid(), first;
	struct err e = { 0 };
	int status;

	if (set_up(s, &w, &e) < 0)
		none_guard_fail(s, &e);
	first = (pid_t)syscall(SYS_clone, (unsigned long)SIGCHLD, NULL, NULL, NULL, NULL);
	if (first == 0)
		lower(s, me);
	if (first < 0) {
		(void)err_sys(&e, "cannot start a process");
		none_guard_fail(s, &e);
	}
	none_guard_let_go(s);
	status = none_guard_pass_on(&w, first);
	if (WIFEXITED(status))
		_exit(WEXITSTATUS(status));
	m.left = !end_all(&w);
	(void)fd_send(w.control, &m, sizeof(m), NULL, 0);
	_exit(0);
}
