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

#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "proc/commands.h"
#include "proc/exec.h"
#include "proc/files/files.h"
#include "proc/order.h"
#include "proc/spawn.h"

enum { OUTPUT = 1, ERRORS, INPUT }; /* behind the order */
enum { WITH_TERMINAL = 2 };         /* descriptors, if that is all there is */
enum { WORDS = 256 };               /* of an order, on the stack */
#define BLOCK 512                   /* what the kernel counts written blocks in */
#define ANNOUNCE_NS (2 * 1000 * 1000)
#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

static void set_state(struct command_place *p, enum place_state state)
{
	__atomic_store_n(&p->state, state, __ATOMIC_RELEASE);
}

static void reaper_tell(struct command_place *p, enum place_state state)
{
	set_state(p, state);
	(void)kill(getppid(), SIGCHLD);
}

static _Noreturn void reaper_fail(struct command_place *p, const struct err *e)
{
	p->err = *e;
	reaper_tell(p, PLACE_FAILED);
	_exit(0);
}

static int reaper_settle(const struct command_ask *a, uint64_t nproc, struct err *e)
{
	const struct rlimit most = { .rlim_cur = nproc, .rlim_max = nproc };
	sigset_t all;
	int r;

	(void)sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, NULL);
	(void)prctl(PR_SET_NAME, "brig-reaper", 0, 0, 0);
	/* The supervisor's socket and its list are its own. */
	r = fd_close_except(3, a->fds, a->n);
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

static const char *reaper_find(const char *const *env, const char *name)
{
	while (*env && !same_name(name, *env))
		env++;
	return *env;
}

/* The order's variables stand last among its words, with room behind them. */
static void reaper_add_variables(struct order *o, const char *const *more)
{
	const char **end = (const char **)(uintptr_t)o->envp;
	const char *path;

	while (*end)
		end++;
	for (; *more; more++)
		if (!reaper_find(o->envp, *more)) {
			*end++ = *more;
			*end = NULL;
		}
	path = reaper_find(o->envp, "PATH=");
	o->path = path ? path + strlen("PATH=") : DEFAULT_PATH;
}

/* The lists of most orders have room on the stack; NULL: there is none. */
static const char **room_for(size_t words, const char **few)
{
	void *many;

	if (words <= WORDS)
		return few;
	many = mmap(NULL, words * sizeof(*few), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		    -1, 0);
	return many == MAP_FAILED ? NULL : many;
}

static int read_order(const struct command_ask *a, const struct command_terms *c, const char **few,
		      struct order *o, struct err *e)
{
	const bool inside = c->inside;
	const char *data = a->order;
	const char **words = NULL;
	size_t n = a->size, more = 0, count = 0;

	while (c->envp && c->envp[more])
		more++;
	if (data || order_map(a->fds[0], &data, &n))
		count = order_words(data, n);
	if (count)
		words = room_for(count + more, few);
	if (!words || !order_read(data, n, words, o))
		return err_set(e, ERR_INTERNAL, EPROTO, "the command could not be read");
	if (c->envp)
		reaper_add_variables(o, c->envp);
	if (chdir(o->cwd) < 0)
		return err_refuse(e, ERR_USAGE, errno,
				  inside ? "name a folder as it is called inside" : "",
				  "cannot enter '%s'%s: %s", o->cwd, inside ? " inside" : "",
				  strerrordesc_np(errno));
	return 0;
}

static int place_streams(const struct command_ask *a)
{
	const int *fds = a->fds;
	int r;

	if (a->n != WITH_TERMINAL)
		return proc_place_streams(a->n > INPUT ? fds[INPUT] : -1, fds[OUTPUT], fds[ERRORS]);
	r = proc_place_streams(fds[1], fds[1], fds[1]);
	return r == 0 && ioctl(0, TIOCSCTTY, 0) < 0 ? -errno : r;
}

/* Runs in the memory of the reaper until it execs: what it leaves in *failed is seen there. */
static pid_t reaper_start(const struct order *o, const struct command_terms *c,
			  const struct command_ask *a, volatile int *failed)
{
	pid_t pid = vfork(); /* allow vfork: the reaper has one thread, the child only execs */

	if (pid != 0)
		return pid;
	proc_unblock_signals();
	(void)setsid();
	if (!c->inside)
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	*failed = -place_streams(a);
	if (!*failed && c->limit)
		*failed = -c->limit(c->arg);
	if (!*failed)
		*failed = proc_exec(o->argv, o->envp, o->path);
	_exit(127);
}

static bool has_ended(pid_t command)
{
	siginfo_t end = { 0 };

	return waitid(P_PID, (id_t)command, &end, WEXITED | WNOHANG | WNOWAIT) == 0 && end.si_pid;
}

/* That it runs is in the table at once, and said when it has not ended soon: for most commands this
 * word and that of their end are one. Its streams are its own now; of one that has ended already
 * they are kept until that is said, because their end would wake the monitor up before. */
static void announce(struct command_place *p, pid_t command)
{
	const struct timespec soon = { .tv_nsec = ANNOUNCE_NS };
	sigset_t ends;

	if (has_ended(command))
		return;
	(void)fd_close_range(3, INT32_MAX);
	set_state(p, PLACE_RUNS);
	(void)sigemptyset(&ends);
	(void)sigaddset(&ends, SIGCHLD);
	/* The signal alone says nothing: anybody inside may send one. */
	if (sigtimedwait(&ends, NULL, &soon) < 0 || !has_ended(command))
		reaper_tell(p, PLACE_RUNS);
}

/* A guest's child that was not waited for is counted by the kernel when it is reaped here. */
static void reaper_collect(struct command_place *p, pid_t command)
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
		reaper_tell(p, PLACE_EXITED);
		(void)sched_yield(); /* the news first, then our own end */
		(void)fd_close_range(3, INT32_MAX);
	}
}

/* It has nobody below it, and is done when it leaves. */
_Noreturn void reaper_files(struct command_place *p, const struct command_terms *c,
			    const struct command_ask *a, uint64_t nproc)
{
	int ends[FILE_ENDS] = { -1, -1, -1 };
	const char *words[WORDS];
	struct err e = { 0 };
	struct order o;

	for (size_t i = 1; i < a->n && i <= FILE_ENDS; i++)
		ends[i - 1] = a->fds[i];
	if (reaper_settle(a, nproc, &e) < 0 || read_order(a, c, words, &o, &e) < 0) {
		file_refuse(ends[FILE_END_ANSWERS], e.code);
		reaper_fail(p, &e);
	}
	(void)fd_close(a->fds[0]);
	files_main(o.argv, ends, &p->written);
}

_Noreturn void reaper_main(struct command_place *p, const struct command_terms *c,
			   const struct command_ask *a, uint64_t nproc)
{
	const char *words[WORDS];
	volatile int failed = 0;
	struct err e = { 0 };
	struct order o;
	pid_t command;

	if (reaper_settle(a, nproc, &e) < 0 || read_order(a, c, words, &o, &e) < 0)
		reaper_fail(p, &e);
	command = reaper_start(&o, c, a, &failed);
	if (command < 0)
		(void)commands_full(&e);
	else if (failed)
		proc_exec_failed(o.argv[0], failed, c->inside, &e);
	if (e.code)
		reaper_fail(p, &e);
	p->command = command;
	p->started = clock_us();
	announce(p, command);
	reaper_collect(p, command);
	_exit(0);
}
