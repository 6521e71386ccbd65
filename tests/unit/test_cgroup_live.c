/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_cgroup_live.c - the cgroup module on this kernel, whichever version it has.
 *
 * Needs root and a writable hierarchy; without them the tests are skipped, with MUST_RUN=1 they
 * fail. Every greedy process is bounded by itself as well, sits in a leaf and in a pid namespace
 * whose init ends with it. */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "backend/kit/limits/cgroup.h"
#include "backend/kit/limits/cgroup_internal.h"
#include "base/files/fd.h"

#define MIB (1024L * 1024)
#define LIMITS                                                                                     \
	{                                                                                          \
		.memory = 64 * MIB, .pids = 5, .cpus = 200, .cpu_shares = 512                      \
	}

enum { NOBODY = 65534, LIMIT_SECONDS = 20 };

static const struct cgroup_limits limits = LIMITS;

static void unable(const char *why)
{
	if (getenv("MUST_RUN"))
		fail_msg("%s", why);
	print_message("skipped: %s\n", why);
	skip();
}

static const char *new_id(void)
{
	static char id[40];
	static unsigned n;

	(void)snprintf(id, sizeof(id), "test-%d-%u", (int)getpid(), n++);
	return id;
}

static struct cgroup *make(const struct cgroup_host *host, const char *id,
			   const struct cgroup_limits *l)
{
	struct cgroup *c = NULL;
	struct err e = { 0 };

	if (geteuid() != 0)
		unable("not root");
	if (cgroup_new(host, id, l, &c, &e) < 0)
		fail_msg("cgroup_new: %s", e.what);
	if (!c)
		unable("no writable cgroup hierarchy");
	return c;
}

/* How many leaves of that id exist in the places where one would be made. */
static int leaves(const char *id)
{
	struct cg_map map;
	char path[PATH_MAX + 100];
	int n = 0;

	assert_int_equal(cg_map_read(NULL, &map), 0);
	for (int k = 0; k < CG_KINDS; k++)
		while (map.place[k].dir[0]) {
			(void)snprintf(path, sizeof(path), "%s/" CG_PREFIX "%s", map.place[k].dir,
				       id);
			n += access(path, F_OK) == 0;
			if (k != CG_UNIFIED || !cg_place_up(&map.place[k]))
				break;
		}
	return n;
}

/* Where we are: a monitor that stepped aside must have come back. */
static void self_cgroup(char *out, size_t n)
{
	assert_true(fd_read_file(AT_FDCWD, "/proc/self/cgroup", out, n) > 0);
}

typedef int guest_fn(void *arg);

/* A child cloned into the leaf, first of new user and pid namespaces, which joins the rest by
 * itself: what counts there is who opened the files. */
static pid_t spawn(const struct cgroup *c, guest_fn *fn, void *arg)
{
	struct clone_args args = { .flags = CLONE_NEWUSER | CLONE_NEWPID, .exit_signal = SIGCHLD };
	pid_t pid;

	if (cgroup_dirfd(c) >= 0) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)cgroup_dirfd(c);
	}
	pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	assert_true(pid >= 0);
	if (pid > 0)
		return pid;
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)alarm(LIMIT_SECONDS);
	if (cgroup_join(c) < 0)
		_exit(111);
	_exit(fn(arg));
}

static int status_of(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static int sleep_on(void *arg)
{
	(void)arg;
	while (pause() < 0)
		continue;
	return 0;
}

static int touch_160_mib(void *arg)
{
	(void)arg;
	for (int i = 0; i < 160; i++) {
		char *p =
			mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (p == MAP_FAILED)
			return 1;
		memset(p, 1, MIB);
	}
	return 0;
}

static void a_memory_hog_is_killed_counted_and_announced(void **state)
{
	const char *id = new_id();
	struct cgroup *c = make(NULL, id, &limits);
	struct pollfd p = { .fd = cgroup_oom_fd(c), .events = POLLIN };
	struct cgroup_events ev;
	int status;

	(void)state;
	if (!(cgroup_enforces(c) & CGROUP_HAS_MEMORY)) {
		(void)cgroup_free(c);
		unable("no memory controller");
	}
	assert_true(p.fd >= 0);
	assert_int_equal(poll(&p, 1, 0), 0);
	status = status_of(spawn(c, touch_160_mib, NULL));
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	assert_int_equal(poll(&p, 1, 5000), 1);
	cgroup_events(c, &ev);
	assert_true(ev.oom >= 1);
	assert_true(ev.memory_peak == 0 || ev.memory_peak > 48 * MIB);
	assert_int_equal(poll(&p, 1, 0), 0); /* reading the events arms it anew */
	(void)cgroup_free(c);
	assert_int_equal(leaves(id), 0);
}

static int fork_fifty(void *arg)
{
	int made = 0;

	(void)arg;
	for (int i = 0; i < 50; i++) {
		pid_t pid = fork();

		if (pid == 0)
			(void)sleep_on(NULL);
		made += pid > 0;
	}
	return made; /* the namespace dies with its init */
}

static void the_guest_gets_its_pids_and_one_for_init_and_refusals_are_counted(void **state)
{
	const char *id = new_id();
	struct cgroup *c = make(NULL, id, &limits);
	struct cgroup_events ev;
	int status;

	(void)state;
	if (!(cgroup_enforces(c) & CGROUP_HAS_PIDS)) {
		(void)cgroup_free(c);
		unable("no pids controller");
	}
	status = status_of(spawn(c, fork_fifty, NULL));
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 5);
	cgroup_events(c, &ev);
	assert_true(ev.pids_max >= 1);
	(void)cgroup_free(c);
	assert_int_equal(leaves(id), 0);
}

static int spin(void *arg)
{
	(void)arg;
	if (fork() < 0)
		return 1;
	for (volatile unsigned long n = 0;; n++)
		;
}

static double seconds(clockid_t clock)
{
	struct timespec t;

	(void)clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double cpu_of(const struct rusage *u)
{
	return (double)(u->ru_utime.tv_sec + u->ru_stime.tv_sec) +
	       (double)(u->ru_utime.tv_usec + u->ru_stime.tv_usec) / 1e6;
}

static void two_spinning_processes_get_no_more_than_the_quota(void **state)
{
	const struct timespec half = { .tv_nsec = 500000000 };
	const char *id = new_id();
	struct cgroup *c = make(NULL, id, &limits);
	double began = seconds(CLOCK_MONOTONIC), took;
	struct rusage u;
	pid_t pid;

	(void)state;
	if (!(cgroup_enforces(c) & CGROUP_HAS_CPUS)) {
		(void)cgroup_free(c);
		unable("no cpu controller");
	}
	pid = spawn(c, spin, NULL);
	(void)nanosleep(&half, NULL);
	assert_int_equal(cgroup_kill(c), 0);
	assert_int_equal(wait4(pid, NULL, 0, &u), pid);
	took = seconds(CLOCK_MONOTONIC) - began;
	/* A fifth of a CPU; two periods of slack for the first slice and the end. */
	assert_true(cpu_of(&u) < took * 0.2 + 0.04);
	(void)cgroup_free(c);
	assert_int_equal(leaves(id), 0);
}

static int with_children(void *arg)
{
	for (int i = 0; i < 4; i++)
		if (fork() == 0)
			(void)sleep_on(NULL);
	(void)!write(*(int *)arg, "x", 1);
	return sleep_on(NULL);
}

static void kill_ends(struct cgroup *c)
{
	int ready[2], status;
	char x;
	pid_t pid;

	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	pid = spawn(c, with_children, &ready[1]);
	assert_int_equal(read(ready[0], &x, 1), 1);
	assert_int_equal(cgroup_kill(c), 0);
	status = status_of(pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	(void)close(ready[0]);
	(void)close(ready[1]);
}

static void kill_ends_a_whole_tree(void **state)
{
	const char *id = new_id();
	struct cgroup *c = make(NULL, id, &limits);

	(void)state;
	kill_ends(c);
	(void)cgroup_free(c);
	assert_int_equal(leaves(id), 0);
}

/* Our mountinfo without the lines that hold a word, as a host that lacks those mounts has it. */
static void mountinfo_without(const char *word, char *path)
{
	static char text[1 << 16];
	ssize_t n = fd_read_file(AT_FDCWD, "/proc/self/mountinfo", text, sizeof(text));
	int fd = mkstemp(path);
	char *line, *rest = text;

	assert_true(n > 0 && fd >= 0);
	while ((line = strsep(&rest, "\n")))
		if (!strstr(line, word))
			assert_true(dprintf(fd, "%s\n", line) > 0);
	(void)close(fd);
}

static void without_a_kill_file_the_freezer_does_it(void **state)
{
	char path[] = "/tmp/brig-mountinfo-XXXXXX";
	struct cgroup_host host = { .mountinfo = path };
	const char *id = new_id();
	struct cgroup *c = NULL;
	struct err e;

	(void)state;
	mountinfo_without(" - cgroup2 ", path);
	if (geteuid() == 0)
		assert_int_equal(cgroup_new(&host, id, &limits, &c, &e), 0);
	(void)unlink(path);
	if (geteuid() != 0 || !c)
		skip(); /* a v2 host has nothing left then; MUST_RUN cannot change that */
	assert_string_equal(cgroup_version(c), "v1");
	kill_ends(c);
	(void)cgroup_free(c);
	assert_int_equal(leaves(id), 0);
}

/* The same loop on v2, as on a kernel before 5.14. */
static void without_a_kill_file_the_v2_freezer_does_it(void **state)
{
	const char *id = new_id();
	struct cgroup *c = make(NULL, id, &limits);
	size_t v1_count = c->v1_count;

	(void)state;
	if (!c->v2.kinds) {
		(void)cgroup_free(c);
		skip();
	}
	c->kill = fd_close(c->kill);
	c->v1_count = 0; /* seen as v2 alone */
	kill_ends(c);
	c->v1_count = v1_count;
	(void)cgroup_free(c);
	assert_int_equal(leaves(id), 0);
}

/* Counts in what is shared with us. */
static int count_up(void *arg)
{
	volatile unsigned *n = arg;

	for (;;)
		++*n;
	return 0;
}

static void freeze_holds(struct cgroup *c)
{
	volatile unsigned *n =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	const struct timespec moment = { .tv_nsec = 20000000 };
	pid_t pid = spawn(c, count_up, (void *)(uintptr_t)n);
	unsigned held;

	while (!*n)
		(void)nanosleep(&moment, NULL);
	assert_true(cgroup_can_freeze(c));
	assert_int_equal(cgroup_freeze(c, true), 0);
	held = *n;
	(void)nanosleep(&moment, NULL);
	assert_int_equal(*n, held);
	assert_int_equal(cgroup_freeze(c, false), 0);
	while (*n == held)
		(void)nanosleep(&moment, NULL);
	assert_int_equal(cgroup_freeze(c, true), 0);
	assert_int_equal(cgroup_kill(c), 0);
	assert_int_equal(cgroup_freeze(c, false), 0);
	assert_true(WIFSIGNALED(status_of(pid)));
	(void)munmap((void *)(uintptr_t)n, 4096);
}

static void a_group_stands_still_and_goes_on(void **state)
{
	struct cgroup *c = make(NULL, new_id(), &limits);

	(void)state;
	freeze_holds(c);
	(void)cgroup_free(c);
}

static void a_group_of_v1_stands_still_and_goes_on(void **state)
{
	char path[] = "/tmp/brig-mountinfo-XXXXXX";
	struct cgroup_host host = { .mountinfo = path };
	struct cgroup *c = NULL;
	struct err e;

	(void)state;
	mountinfo_without(" - cgroup2 ", path);
	if (geteuid() == 0)
		assert_int_equal(cgroup_new(&host, new_id(), &limits, &c, &e), 0);
	(void)unlink(path);
	if (geteuid() != 0 || !c)
		skip(); /* as above */
	freeze_holds(c);
	(void)cgroup_free(c);
}

static void attach_moves_another_process_everywhere(void **state)
{
	const char *id = new_id();
	struct cgroup *c = make(NULL, id, &limits);
	char path[40], text[8192], *at = text;
	struct err e = { 0 };
	size_t found = 0;
	pid_t pid = fork();

	(void)state;
	assert_true(pid >= 0);
	if (pid == 0)
		(void)sleep_on(NULL);
	assert_int_equal(cgroup_attach(c, pid, &e), 0);
	(void)snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
	assert_true(fd_read_file(AT_FDCWD, path, text, sizeof(text)) > 0);
	for (; (at = strstr(at, id)); at++)
		found++;
	assert_int_equal(found, c->v1_count + (c->v2.kinds != 0));
	assert_int_equal(kill(pid, SIGKILL), 0);
	(void)status_of(pid);
	assert_true(cgroup_attach(c, pid, &e) < 0); /* gone: said, not ignored */
	(void)cgroup_free(c);
	assert_int_equal(leaves(id), 0);
}

static void the_leaf_of_a_killed_monitor_is_swept_a_living_ones_is_not(void **state)
{
	const char *id = new_id();
	struct cgroup *c = make(NULL, id, &limits);
	int ready[2], made;
	pid_t pid;
	char x;

	(void)state;
	made = (int)c->v1_count + (c->v2.kinds != 0);
	(void)cgroup_free(c);
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct err e;

		if (cgroup_new(NULL, id, &limits, &c, &e) < 0 || !c)
			_exit(1);
		(void)!write(ready[1], "x", 1);
		(void)sleep_on(NULL);
	}
	(void)close(ready[1]);
	assert_int_equal(read(ready[0], &x, 1), 1);
	(void)close(ready[0]);
	(void)cgroup_sweep(NULL, NULL, -1, NULL, &(bool){ false });
	assert_int_equal(leaves(id), made);
	assert_int_equal(kill(pid, SIGKILL), 0);
	(void)status_of(pid);
	assert_int_equal(leaves(id), made);
	/* Another sweeper may be quicker, or just have it in hand. */
	for (int tries = 0; tries < 500 && leaves(id); tries++) {
		assert_true(cgroup_sweep(NULL, NULL, -1, NULL, &(bool){ false }) >= 0);
		(void)usleep(10000);
	}
	assert_int_equal(leaves(id), 0);
}

static void leaves_survive_a_sweep_that_runs_while_they_are_made(void **state)
{
	struct cgroup *c = make(NULL, new_id(), &limits);
	unsigned enforced = cgroup_enforces(c);
	pid_t pid;

	(void)state;
	(void)cgroup_free(c);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			(void)cgroup_sweep(NULL, NULL, -1, NULL, &(bool){ false });
	}
	for (int i = 0; i < 200; i++) {
		const char *id = new_id();

		c = make(NULL, id, &limits);
		assert_int_equal(cgroup_enforces(c), enforced);
		assert_true(leaves(id) > 0);
		(void)cgroup_free(c);
		assert_int_equal(leaves(id), 0);
	}
	assert_int_equal(kill(pid, SIGKILL), 0);
	(void)status_of(pid);
}

static void running_out_of_descriptors_leaves_nothing_behind(void **state)
{
	char before[4096], after[4096];
	struct rlimit was, low;
	int failed = 0;

	(void)state;
	if (geteuid() != 0)
		unable("not root");
	self_cgroup(before, sizeof(before));
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	for (rlim_t n = 3; n < 40; n++) {
		const char *id = new_id();
		struct cgroup *c = NULL;
		struct err e;

		low = (struct rlimit){ .rlim_cur = n, .rlim_max = was.rlim_max };
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
		failed += cgroup_new(NULL, id, &limits, &c, &e) < 0;
		(void)cgroup_free(c);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
		assert_int_equal(leaves(id), 0);
		self_cgroup(after, sizeof(after));
		assert_string_equal(after, before);
	}
	assert_true(failed > 0);
}

static void an_ordinary_user_without_delegation_gets_none_and_no_error(void **state)
{
	struct cgroup *c = (void *)(uintptr_t)1;
	struct err e = { 0 };
	int status;
	pid_t pid;

	(void)state;
	if (geteuid() != 0)
		unable("not root: whether this user has a delegated cgroup is not known");
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (setresuid(NOBODY, NOBODY, NOBODY) < 0)
			_exit(1);
		if (cgroup_new(NULL, "test-user", &limits, &c, &e) < 0)
			_exit(2);
		(void)cgroup_sweep(NULL, NULL, -1, NULL, &(bool){ false });
		_exit(c ? 3 : 0);
	}
	status = status_of(pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_memory_hog_is_killed_counted_and_announced),
		cmocka_unit_test(the_guest_gets_its_pids_and_one_for_init_and_refusals_are_counted),
		cmocka_unit_test(two_spinning_processes_get_no_more_than_the_quota),
		cmocka_unit_test(kill_ends_a_whole_tree),
		cmocka_unit_test(without_a_kill_file_the_freezer_does_it),
		cmocka_unit_test(without_a_kill_file_the_v2_freezer_does_it),
		cmocka_unit_test(a_group_stands_still_and_goes_on),
		cmocka_unit_test(a_group_of_v1_stands_still_and_goes_on),
		cmocka_unit_test(attach_moves_another_process_everywhere),
		cmocka_unit_test(the_leaf_of_a_killed_monitor_is_swept_a_living_ones_is_not),
		cmocka_unit_test(leaves_survive_a_sweep_that_runs_while_they_are_made),
		cmocka_unit_test(running_out_of_descriptors_leaves_nothing_behind),
		cmocka_unit_test(an_ordinary_user_without_delegation_gets_none_and_no_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
