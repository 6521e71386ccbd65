/* SPDX-License-Identifier: Apache-2.0 */
/* backend/docker/gate/gate_main.c - brig-gate: the first process of a sandbox's container, and its
 * init.
 *
 *     hello ─▶ hear what was asked for ─▶ compare ─▶ answer ─▶ wait for the word ─▶ the command
 *
 * Runs as the command would: no capability, the user inside, and from its answer on in the user and
 * mount namespace and under the filter that the command has: the exact one, which it loads itself
 * (seccomp_json.h says why).
 * Nothing of the image is executed before it, and it needs nothing of the image: it is linked
 * statically and mounted under a name that nobody could foresee. Afterwards it passes signals on,
 * collects orphans, and ends as the command did, a signal's death as 128 and its number. In a
 * sandbox that stays open it starts the commands that it is told of (gate_line.c), and ends with
 * the guard. */
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <termios.h>

#include "backend/docker/gate/gate.h"
#include "backend/kit/process/locked.h"
#include "backend/kit/seccomp/seccomp.h"
#include "base/files/fd.h"
#include "base/sys/wait.h"
#include "proc/exec.h"
#include "proc/spawn.h"

#define EXIT_MISSING 127
#define EXIT_PLAIN 126
#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

struct gate {
	struct gate_want want;
	struct gate_mount mounts[GATE_MOUNTS_MAX];
	struct termios terminal; /* as it was */
	bool has_terminal;
	struct gate_line line;
};

/* ---- talking to the guard ---- */

static bool gate_main_read_all(void *p, size_t n)
{
	return fd_read_all(STDIN_FILENO, p, n) == 0;
}

/* Bytes are to pass as they are, and nobody is to see them. */
static void make_raw(struct gate *g)
{
	struct termios raw;

	g->has_terminal = tcgetattr(STDIN_FILENO, &g->terminal) == 0;
	if (!g->has_terminal)
		return;
	raw = g->terminal;
	cfmakeraw(&raw);
	(void)tcsetattr(STDIN_FILENO, TCSANOW, &raw);
}

static bool say_hello(void)
{
	struct gate_hello h = { .magic = GATE_MAGIC };

	if (fd_read_file(AT_FDCWD, "/proc/sys/kernel/random/boot_id", h.boot, sizeof(h.boot)) < 0)
		h.boot[0] = '\0';
	return fd_write_all(STDOUT_FILENO, &h, sizeof(h)) == 0;
}

static bool hear_mounts(struct gate *g)
{
	for (uint32_t i = 0; i < g->want.mounts; i++) {
		struct gate_mount *m = &g->mounts[i];

		if (!gate_main_read_all(m, offsetof(struct gate_mount, path)) || !m->length ||
		    m->length > sizeof(m->path) || !gate_main_read_all(m->path, m->length) ||
		    m->path[m->length - 1] || m->path[0] != '/')
			return false;
	}
	return true;
}

/* Who starts a command here starts it under this: there is no way around it. Another kernel is no
 * reason to go without: one in a virtual machine has as much to lose. */
static int take_filter(const struct gate_want *w, struct gate_answer *a)
{
	int r = seccomp_install((enum seccomp_profile)w->profile, false);
	struct err *e = &a->err;

	a->no_filter = !w->same_kernel && (r == -EINVAL || r == -ENOSYS);
	if (r == 0 || a->no_filter)
		return 0;
	(void)err_errno(e, r, "cannot load brig's system-call filter inside");
	return err_hint(e, "nothing was run; see whether the engine's own rules forbid seccomp, "
			   "or use --backend native");
}

/* What an engine mounts comes apart with its namespace, and a descriptor that another run was
 * handed would lead to the workspace without its covers. No other kernel hands one over. Some
 * machines let no container make namespaces, and root may not take its id along unless it was lent
 * the capability for that, which goes this way alone. The guard tells what was not locked; who
 * asked for the strict profile did not mean it. */
static int gate_main_lock(const struct gate_want *w, struct gate_answer *a)
{
	CLEANUP(fd) int proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct err *e = &a->err;
	bool entered = false;

	a->unlocked = true;
	if (!w->same_kernel && !w->lent)
		return 0;
	if (proc < 0)
		return err_sys(e, "cannot open /proc inside");
	if (getuid() == 0 && !w->lent)
		(void)err_set(e, ERR_UNAVAILABLE, EPERM,
			      "the mounts of a container that is root's cannot be locked");
	else if (locked_enter(proc, &entered, e) == 0)
		a->unlocked = false;
	if (!a->unlocked)
		return locked_drop(e);
	if (entered || w->lent)
		return -e->code;
	if (w->profile == SECCOMP_STRICT)
		return err_hint(e, "the strict profile needs it: name another user, or use "
				   "another backend");
	err_clear(e);
	return 0;
}

static bool gate_main_pass(struct gate *g, const char *own)
{
	struct gate_answer a = { .magic = GATE_MAGIC };
	char word = 0;
	bool fine;

	if (!gate_has_proc() || !say_hello() || !gate_main_read_all(&g->want, sizeof(g->want)) ||
	    g->want.mounts > GATE_MOUNTS_MAX || !hear_mounts(g))
		return false;
	fine = gate_check(&g->want, g->mounts, own, &a.err) == 0 &&
	       gate_main_lock(&g->want, &a) == 0 &&
	       (!g->want.line || gate_reach(&g->want, own, &g->line, &a.err) == 0) &&
	       take_filter(&g->want, &a) == 0;
	return fd_write_all(STDOUT_FILENO, &a, sizeof(a)) == 0 && fine &&
	       gate_main_read_all(&word, 1) && word == GATE_GO;
}

/* ---- the command ---- */

/* Found by its secret, which is gone from here once something else is executed. */
static _Noreturn void not_executed(const struct gate *g, const char *name, int error)
{
	char line[GATE_FAILED + 1];
	struct stat st;

	/* It is there, and what it needs is not. */
	if (error == ENOENT && strchr(name, '/') && stat(name, &st) == 0)
		error = ENOEXEC;
	(void)snprintf(line, sizeof(line), "%.*s%08x", GATE_SECRET, g->want.secret,
		       (unsigned)error);
	(void)fd_write_all(g->has_terminal ? STDOUT_FILENO : STDERR_FILENO, line, GATE_FAILED);
	_exit(error == ENOENT ? EXIT_MISSING : EXIT_PLAIN);
}

static void no_input(void)
{
	CLEANUP(fd) int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (null < 0 || dup2(null, STDIN_FILENO) < 0)
		(void)close(STDIN_FILENO);
}

static _Noreturn void become(const struct gate *g, int go, char **argv)
{
	const char *path = getenv("PATH");
	sigset_t output;
	char byte;

	while (read(go, &byte, 1) < 0 && errno == EINTR)
		;
	(void)setpgid(0, 0);
	if (g->has_terminal) { /* a background process may do it while that one is blocked */
		(void)sigemptyset(&output);
		(void)sigaddset(&output, SIGTTOU);
		(void)sigprocmask(SIG_BLOCK, &output, NULL);
		(void)tcsetpgrp(STDIN_FILENO, getpgrp());
	}
	proc_default_signals(); /* what the engine's starter ignored reaches us */
	proc_unblock_signals();
	not_executed(g, argv[0],
		     proc_exec((const char *const *)argv, (const char *const *)environ,
			       path ? path : DEFAULT_PATH));
}

/* The secret is nowhere else by the time the command could look for it. */
static pid_t gate_main_start(struct gate *g, char **argv)
{
	int go[2];
	pid_t pid;

	if (g->want.no_input && !g->has_terminal)
		no_input();
	if (pipe2(go, O_CLOEXEC) < 0)
		return -1;
	pid = fork(); /* allow fork: the filter may have no socket pair */
	if (pid == 0) {
		(void)close(go[1]);
		become(g, go[0], argv);
	}
	explicit_bzero(g->want.secret, sizeof(g->want.secret));
	(void)close(go[0]);
	(void)close(go[1]);
	return pid;
}

/* ---- init ---- */

/* What the kernel raises for a fault of our own is not passed on. */
static void signals_of(sigset_t *all)
{
	static const int own[] = { SIGFPE,  SIGILL, SIGSEGV, SIGBUS, SIGABRT,
				   SIGTRAP, SIGSYS, SIGTTIN, SIGTTOU };

	(void)sigfillset(all);
	for (size_t i = 0; i < ARRAY_LEN(own); i++)
		(void)sigdelset(all, own[i]);
}

/* Collects all that ended; the status once the command is among them, else -1. */
static int gate_main_reap(pid_t command)
{
	int status, found = -1;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		if (pid == command)
			found = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
	return found;
}

/* The next signal; 0: none. What is asked on the line meanwhile is answered. */
static int next_signal(const sigset_t *all, int signals, int *line)
{
	struct pollfd p[] = { { .fd = signals, .events = POLLIN },
			      { .fd = *line, .events = POLLIN } };
	struct signalfd_siginfo info;

	if (*line < 0 || signals < 0)
		return sigwaitinfo(all, NULL);
	if (wait_any(p, ARRAY_LEN(p), 0) <= 0)
		return 0;
	if (p[1].revents && !gate_answer(*line))
		*line = fd_close(*line);
	if (!p[0].revents || read(signals, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return 0;
	return (int)info.ssi_signo;
}

static int gate_main_serve(pid_t command, int line)
{
	CLEANUP(fd) int signals = -1;
	sigset_t all;
	int status = -1;

	signals_of(&all);
	if (line >= 0)
		signals = signalfd(-1, &all, SFD_CLOEXEC);
	while (status < 0) {
		int sig = next_signal(&all, signals, &line);

		if (sig == SIGCHLD)
			status = gate_main_reap(command);
		else if (sig > 0)
			(void)kill(-command, sig); /* all of its group, as on native */
	}
	return status;
}

int main(int argc, char **argv)
{
	static struct gate g; /* large, and there is one */
	sigset_t all;
	pid_t command;

	signals_of(&all);
	(void)sigprocmask(SIG_BLOCK, &all, NULL);
	make_raw(&g);
	if (argc < 1 || !gate_main_pass(&g, argv[0]) || (argc < 2 && !g.want.open))
		return GATE_REFUSED;
	if (g.want.open)
		gate_serve_line(&g.line);
	if (g.has_terminal)
		(void)tcsetattr(STDIN_FILENO, TCSANOW, &g.terminal);
	command = gate_main_start(&g, argv + 1);
	return command < 0 ? GATE_REFUSED : gate_main_serve(command, g.want.line ? g.line.fd : -1);
}
