/* SPDX-License-Identifier: Apache-2.0 */
/* proc/reaper.c - brig-reaper: between a supervisor and one command of an open sandbox.
 *
 * Under the same filter as the command, as its user, and as little to be looked into as the
 * supervisor. It holds nothing but the command's streams until that is started, and leaves when
 * nothing is left below it. All signals are blocked: only SIGKILL and SIGSTOP reach it, and the
 * supervisor needs it for neither. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/fd.h"
#include "proc/commands.h"
#include "proc/exec.h"
#include "proc/files.h"
#include "proc/order.h"
#include "proc/spawn.h"

enum { OUTPUT = 1, ERRORS, INPUT }; /* behind the order */
enum { WITH_TERMINAL = 2 };         /* descriptors, if that is all there is */
#define BLOCK 512                   /* what the kernel counts written blocks in */
#define ANNOUNCE_NS (2 * 1000 * 1000)
#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

static void set_state(struct command_place *p, enum place_state state)
{
	__atomic_store_n(&p->state, state, __ATOMIC_RELEASE);
}

static void tell(struct command_place *p, enum place_state state)
{
	set_state(p, state);
	(void)kill(getppid(), SIGCHLD);
}

static _Noreturn void fail(struct command_place *p, const struct err *e)
{
	p->err = *e;
	tell(p, PLACE_FAILED);
	_exit(0);
}

static int settle(const int *fds, size_t n, uint64_t nproc, struct err *e)
{
	const struct rlimit most = { .rlim_cur = nproc, .rlim_max = nproc };
	sigset_t all;
	int r;

	(void)sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, NULL);
	(void)prctl(PR_SET_NAME, "brig-reaper", 0, 0, 0);
	/* The supervisor's socket and its list are its own. */
	r = fd_close_except(3, fds, n);
	if (r < 0)
		return err_errno(e, r, "cannot close inherited descriptors");
	if (prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) != 0)
		return err_set(e, ERR_INTERNAL, EPERM, "the command's reaper can be looked into");
	if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
		return err_sys(e, "cannot take charge of the command's children");
	/* The command's first process counts as well. */
	if (nproc && setrlimit(RLIMIT_NPROC, &most) < 0)
		return err_sys(e, "cannot set resource limit %d", RLIMIT_NPROC);
	return 0;
}

static bool same_name(const char *a, const char *b)
{
	size_t n = strcspn(a, "=");

	return strncmp(a, b, n) == 0 && b[n] == '=';
}

static const char *find(const char *const *env, const char *name)
{
	while (*env && !same_name(name, *env))
		env++;
	return *env;
}

/* The order's variables stand last among its words, with room behind them. */
static void add_variables(struct order *o, const char *const *more)
{
	const char **end = (const char **)(uintptr_t)o->envp;
	const char *path;

	while (*end)
		end++;
	for (; *more; more++)
		if (!find(o->envp, *more)) {
			*end++ = *more;
			*end = NULL;
		}
	path = find(o->envp, "PATH=");
	o->path = path ? path + strlen("PATH=") : DEFAULT_PATH;
}

static int read_order(int fd, const struct command_terms *c, struct order *o, struct err *e)
{
	const bool inside = c->inside;
	const char *data = NULL;
	void *words = MAP_FAILED;
	size_t n = 0, more = 0;

	while (c->envp && c->envp[more])
		more++;
	if (order_map(fd, &data, &n) && order_words(data, n))
		words = mmap(NULL, (order_words(data, n) + more) * sizeof(char *),
			     PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (words == MAP_FAILED || !order_read(data, n, words, o))
		return err_set(e, ERR_INTERNAL, EPROTO, "the command could not be read");
	if (c->envp)
		add_variables(o, c->envp);
	if (chdir(o->cwd) < 0)
		return err_refuse(e, ERR_USAGE, errno,
				  inside ? "name a folder as it is called inside" : "",
				  "cannot enter '%s'%s: %s", o->cwd, inside ? " inside" : "",
				  strerrordesc_np(errno));
	return 0;
}

static int place_streams(const int *fds, size_t n)
{
	int r;

	if (n != WITH_TERMINAL)
		return proc_place_streams(n > INPUT ? fds[INPUT] : -1, fds[OUTPUT], fds[ERRORS]);
	r = proc_place_streams(fds[1], fds[1], fds[1]);
	return r == 0 && ioctl(0, TIOCSCTTY, 0) < 0 ? -errno : r;
}

/* Runs in the memory of the reaper until it execs: what it leaves in *failed is seen there. */
static pid_t start(const struct order *o, const struct command_terms *c, const int *fds, size_t n,
		   volatile int *failed)
{
	pid_t pid = vfork(); /* allow vfork: the reaper has one thread, the child only execs */

	if (pid != 0)
		return pid;
	proc_unblock_signals();
	(void)setsid();
	if (!c->inside)
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	*failed = -place_streams(fds, n);
	if (!*failed && c->limit)
		*failed = -c->limit(c->arg);
	if (!*failed)
		*failed = proc_exec(o->argv, o->envp, o->path);
	_exit(127);
}

/* That it runs is in the table at once, and said when it has not ended soon: for most commands this
 * word and that of their end are one. */
static void announce(struct command_place *p, pid_t command)
{
	const struct timespec soon = { .tv_nsec = ANNOUNCE_NS };
	siginfo_t end = { 0 };
	sigset_t ends;

	set_state(p, PLACE_RUNS);
	(void)sigemptyset(&ends);
	(void)sigaddset(&ends, SIGCHLD);
	/* The signal alone says nothing: anybody inside may send one. */
	if (sigtimedwait(&ends, NULL, &soon) < 0 ||
	    waitid(P_PID, (id_t)command, &end, WEXITED | WNOHANG | WNOWAIT) < 0 || !end.si_pid)
		tell(p, PLACE_RUNS);
}

/* A guest's child that was not waited for is counted by the kernel when it is reaped here. */
static void collect(struct command_place *p, pid_t command)
{
	struct rusage used;
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, 0)) > 0 || errno == EINTR) {
		if (pid > 0 && getrusage(RUSAGE_CHILDREN, &used) == 0)
			__atomic_store_n(&p->written, (uint64_t)used.ru_oublock * BLOCK,
					 __ATOMIC_RELAXED);
		if (pid != command)
			continue;
		p->status = status;
		tell(p, PLACE_EXITED);
		(void)sched_yield(); /* the news first, then our own end */
	}
}

/* It has nobody below it, and is done when it leaves. */
_Noreturn void reaper_files(struct command_place *p, const struct command_terms *c, const int *fds,
			    size_t n, uint64_t nproc)
{
	int ends[FILE_ENDS] = { -1, -1, -1 };
	struct err e = { 0 };
	struct order o;

	for (size_t i = 1; i < n && i <= FILE_ENDS; i++)
		ends[i - 1] = fds[i];
	if (settle(fds, n, nproc, &e) < 0 || read_order(fds[0], c, &o, &e) < 0) {
		file_refuse(ends[FILE_END_ANSWERS], e.code);
		fail(p, &e);
	}
	(void)fd_close(fds[0]);
	files_main(o.argv, ends, &p->written);
}

_Noreturn void reaper_main(struct command_place *p, const struct command_terms *c, const int *fds,
			   size_t n, uint64_t nproc)
{
	volatile int failed = 0;
	struct err e = { 0 };
	struct order o;
	pid_t command;

	if (settle(fds, n, nproc, &e) < 0 || read_order(fds[0], c, &o, &e) < 0)
		fail(p, &e);
	command = start(&o, c, fds, n, &failed);
	if (command < 0)
		(void)commands_full(&e);
	else if (failed)
		proc_exec_failed(o.argv[0], failed, c->inside, &e);
	if (e.code)
		fail(p, &e);
	(void)fd_close_range(3, INT32_MAX);
	p->command = command;
	p->started = clock_us();
	announce(p, command);
	collect(p, command);
	_exit(0);
}
