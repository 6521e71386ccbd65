/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_none.c - the backend that is not a sandbox, driven by its table of functions: what it
 * runs, and that nothing of it is left. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "backend/none/none.h"
#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/text/str.h"

#define SECOND_US ((uint64_t)1000000)
/* For a machine that has much else to do; nothing here takes a second by itself. */
#define PATIENCE_US (20 * SECOND_US)
#define SCRATCH_UID 4242
#define SCRATCH_TASKS 400
#define SKIPPED 77

struct run {
	struct spec *spec;
	struct backend_plan *plan;
	struct backend_job *job;
	struct job_io io;
	struct outcome *outcome;
	struct err e;
	char out[16384];
};

/* Not asserted but aborted on: also used in processes that cmocka knows nothing of. */
static void must(bool holds, const char *what)
{
	if (holds)
		return;
	(void)fprintf(stderr, "test_none: %s\n", what);
	abort();
}

static void set_argv(struct run *r, const char *const *argv)
{
	int n = 0;

	while (argv[n])
		n++;
	must(spec_set_argv(r->spec, n, (char *const *)(uintptr_t)argv, &r->e) == 0, "argv");
}

/* A run of `workdir` whose settings may still be changed. */
static void run_init(struct run *r, const char *workdir)
{
	memset(r, 0, sizeof(*r));
	r->io = (struct job_io){ .in = -1, .out = -1, .err = -1 };
	r->spec = spec_new(&r->e);
	r->outcome = outcome_new();
	must(r->spec && r->outcome, "memory");
	must(spec_set(r->spec, FIELD_WORKDIR, workdir, ORIGIN_FLAG, &r->e) == 0 &&
		     spec_set(r->spec, FIELD_BACKEND, "none", ORIGIN_FLAG, &r->e) == 0,
	     "settings");
	must(spec_check(r->spec, &(struct place){ .cwd = "/tmp" }, &r->e) == 0, "spec_check");
}

static int run_start(struct run *r, const struct job_want *w)
{
	int code = backend_none.plan(r->spec, &r->plan, NULL, &r->e);
	struct job_want own = *w;

	own.command = &r->spec->command;
	return code < 0 ? code : backend_none.start(r->plan, &own, &r->io, &r->job, &r->e);
}

static void run_script(struct run *r, const char *script)
{
	static const struct job_want plain = { .id = "test" };
	const char *argv[] = { "sh", "-c", script, NULL };

	run_init(r, "/tmp");
	set_argv(r, argv);
	must(run_start(r, &plain) == 0, r->e.what);
}

/* One line the command writes, as a number. */
static pid_t read_pid(const struct run *r)
{
	char line[32] = "";
	size_t n = 0;

	while (n + 1 < sizeof(line) && read(r->io.out, line + n, 1) == 1 && line[n] != '\n')
		n++;
	must(n > 0, "the command wrote no number");
	return (pid_t)atoi(line);
}

/* All output, up to its end: which is when no process holds the stream any more. */
static void read_out(struct run *r)
{
	size_t have = strlen(r->out);
	ssize_t n;

	r->io.in = fd_close(r->io.in);
	while ((n = read(r->io.out, r->out + have, sizeof(r->out) - 1 - have)) > 0)
		have += (size_t)n;
	r->out[have] = '\0';
}

static bool ends_within(const struct run *r, uint64_t us)
{
	struct pollfd p = { .fd = r->io.events, .events = POLLIN };

	return poll(&p, 1, (int)(us / 1000)) == 1 &&
	       backend_none.event(r->job, false, r->outcome) == JOB_ENDED;
}

static void finish(struct run *r)
{
	backend_none.finish(r->job, r->outcome);
	r->job = NULL;
}

static void run_done(struct run *r)
{
	if (r->job)
		finish(r);
	(void)fd_close(r->io.in);
	(void)fd_close(r->io.out);
	(void)fd_close(r->io.err);
	(void)backend_none.plan_free(r->plan);
	(void)spec_free(r->spec);
	(void)outcome_free(r->outcome);
}

static bool gone_within(pid_t pid, uint64_t us)
{
	uint64_t deadline = clock_us() + us;

	while (kill(pid, 0) == 0) {
		if (clock_us() > deadline)
			return false;
		(void)usleep(2000);
	}
	return errno == ESRCH;
}

/* ---- how it ends ---- */

static void the_exit_code_and_the_output_come_back(void **state)
{
	struct run r;

	(void)state;
	run_script(&r, "read x; echo got $x; exit 7");
	assert_int_equal(write(r.io.in, "this\n", 5), 5);
	read_out(&r);
	assert_true(ends_within(&r, PATIENCE_US));
	finish(&r);
	assert_string_equal(r.out, "got this\n");
	assert_int_equal(r.outcome->kind, OUTCOME_EXITED);
	assert_int_equal(r.outcome->exit_code, 7);
	assert_int_equal(r.outcome->denial_count, 0);
	run_done(&r);
}

static void without_input_the_command_reads_end_of_file(void **state)
{
	static const struct job_want w = { .id = "test", .no_input = true };
	static const char *const argv[] = { "cat", NULL };
	struct run r;

	(void)state;
	run_init(&r, "/tmp");
	set_argv(&r, argv);
	assert_int_equal(run_start(&r, &w), 0);
	assert_int_equal(r.io.in, -1);
	assert_true(ends_within(&r, PATIENCE_US));
	finish(&r);
	assert_int_equal(r.outcome->kind, OUTCOME_EXITED);
	run_done(&r);
}

static void death_by_signal_is_told_as_such(void **state)
{
	struct run r;

	(void)state;
	run_script(&r, "kill -SEGV $$");
	assert_true(ends_within(&r, PATIENCE_US));
	finish(&r);
	assert_int_equal(r.outcome->kind, OUTCOME_SIGNALLED);
	assert_int_equal(r.outcome->signal, SIGSEGV);
	run_done(&r);
}

static void start_says_why_a_command_cannot_run(void **state)
{
	static const struct {
		const char *name;
		enum err_kind kind;
	} cases[] = {
		{ "brig-no-such-command", ERR_NOT_FOUND }, { "/nowhere/at/all", ERR_NOT_FOUND },
		{ "/etc/passwd/x", ERR_NOT_FOUND },        { "", ERR_NOT_FOUND },
		{ "/etc/passwd", ERR_NOT_EXECUTABLE },     { "/tmp", ERR_NOT_EXECUTABLE },
	};
	static const struct job_want w = { .id = "test" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const char *argv[] = { cases[i].name, NULL };
		struct run r;

		run_init(&r, "/tmp");
		set_argv(&r, argv);
		assert_true(run_start(&r, &w) < 0);
		assert_int_equal(r.e.kind, cases[i].kind);
		assert_null(r.job);
		assert_int_equal(r.io.out, -1);
		run_done(&r);
	}
}

static void a_script_without_its_interpreter_is_not_executable(void **state)
{
	static const struct job_want w = { .id = "test" };
	char dir[] = "/tmp/brig-none-XXXXXX", path[64];
	const char *argv[] = { path, NULL };
	struct run r;
	int fd;

	(void)state;
	assert_non_null(mkdtemp(dir));
	(void)snprintf(path, sizeof(path), "%s/x", dir);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
	assert_int_equal(fd_write_all(fd, "#!/nowhere/sh\n", 14), 0);
	(void)fd_close(fd);
	run_init(&r, dir);
	set_argv(&r, argv);
	assert_true(run_start(&r, &w) < 0);
	assert_int_equal(r.e.kind, ERR_NOT_EXECUTABLE);
	assert_non_null(strstr(r.e.what, "interpreter"));
	run_done(&r);
	(void)unlink(path);
	(void)rmdir(dir);
}

/* ---- nothing is left ---- */

#define DETACHED "(setsid sh -c 'trap \"\" HUP INT TERM; echo $$; exec sleep 60' &);"

static void what_detached_itself_dies_with_the_command(void **state)
{
	struct run r;
	pid_t detached;

	(void)state;
	run_script(&r, DETACHED "read x; exit 3");
	detached = read_pid(&r);
	assert_int_equal(kill(detached, 0), 0);
	r.io.in = fd_close(r.io.in);
	read_out(&r); /* returns: nobody holds the stream */
	assert_true(ends_within(&r, PATIENCE_US));
	assert_true(gone_within(detached, 0));
	finish(&r);
	assert_int_equal(r.outcome->exit_code, 3);
	run_done(&r);
}

static void signals_reach_the_group_and_sigkill_everything(void **state)
{
	struct run r;
	pid_t detached;

	(void)state;
	run_script(&r, "trap 'echo heard' USR1; trap '' TERM;" DETACHED
		       "while :; do sleep 60 & wait; done");
	detached = read_pid(&r);
	backend_none.signal(r.job, COMMAND_FIRST, SIGTERM);
	backend_none.signal(r.job, COMMAND_FIRST, SIGUSR1);
	assert_int_equal(read(r.io.out, r.out, 6), 6);
	assert_memory_equal(r.out, "heard\n", 6);
	assert_int_equal(backend_none.event(r.job, false, r.outcome), JOB_NOTHING);
	backend_none.signal(r.job, COMMAND_FIRST, SIGKILL);
	assert_true(ends_within(&r, PATIENCE_US));
	assert_true(gone_within(detached, 0));
	finish(&r);
	assert_int_equal(r.outcome->kind, OUTCOME_SIGNALLED);
	assert_int_equal(r.outcome->signal, SIGKILL);
	run_done(&r);
}

static void giving_up_ends_everything_and_keeps_the_verdict(void **state)
{
	struct run r;
	pid_t detached;

	(void)state;
	run_script(&r, DETACHED "sleep 60");
	detached = read_pid(&r);
	r.outcome->kind = OUTCOME_TIMEOUT;
	finish(&r);
	assert_true(gone_within(detached, 0));
	assert_int_equal(r.outcome->kind, OUTCOME_TIMEOUT);
	run_done(&r);
}

enum death {
	DEATH_PLAIN,
	DEATH_HELD,    /* another process keeps all its descriptors open */
	DEATH_STOPPED, /* the command has stopped its guard */
	DEATH_KINDS
};

/* Starts a run, passes the numbers of its processes on, and dies without a word. */
static _Noreturn void die_in_mid_run(int tell, enum death how)
{
	struct run r;
	pid_t pids[3] = { 0 };

	run_script(&r, how == DEATH_STOPPED ? DETACHED "kill -STOP $PPID; echo $$; sleep 60"
					    : DETACHED "echo $$; sleep 60");
	pids[0] = read_pid(&r);
	pids[1] = read_pid(&r);
	pids[2] = how == DEATH_HELD ? fork() : -1;
	if (pids[2] == 0) {
		(void)sleep(10);
		_exit(0);
	}
	must(write(tell, pids, sizeof(pids)) == sizeof(pids), "pipe");
	_exit(9);
}

static void everything_dies_with_brig(void **state)
{
	(void)state;
	for (int how = 0; how < DEATH_KINDS; how++) {
		int tell[2], status;
		pid_t pids[3], brig;

		assert_int_equal(pipe2(tell, O_CLOEXEC), 0);
		brig = fork();
		if (brig == 0)
			die_in_mid_run(tell[1], (enum death)how);
		assert_int_equal(read(tell[0], pids, sizeof(pids)), sizeof(pids));
		assert_int_equal(waitpid(brig, &status, 0), brig);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 9);
		assert_true(gone_within(pids[0], PATIENCE_US));
		assert_true(gone_within(pids[1], PATIENCE_US));
		if (pids[2] > 0)
			(void)kill(pids[2], SIGKILL);
		(void)fd_close(tell[0]);
		(void)fd_close(tell[1]);
	}
}

#define ABOVE "above=$(cut -d' ' -f4 /proc/$PPID/stat); "

static void a_killed_guard_is_told_and_takes_everything_along(void **state)
{
	static const char *const victims[] = { "$PPID", "$above" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(victims); i++) {
		char script[256];
		pid_t detached, command;
		struct run r;

		(void)snprintf(script, sizeof(script),
			       DETACHED ABOVE "echo $$; read x; kill -KILL %s; exec sleep 60",
			       victims[i]);
		run_script(&r, script);
		detached = read_pid(&r);
		command = read_pid(&r);
		r.io.in = fd_close(r.io.in);
		assert_true(ends_within(&r, PATIENCE_US));
		finish(&r);
		assert_int_equal(r.outcome->kind, OUTCOME_FAILED);
		assert_int_equal(r.outcome->error.kind, ERR_INTERNAL);
		assert_true(gone_within(command, PATIENCE_US));
		assert_true(gone_within(detached, PATIENCE_US));
		if (i == 0) /* of the other one nobody told */
			assert_int_equal(r.outcome->denial_count, 0);
		run_done(&r);
	}
}

static void what_killed_both_guards_is_told(void **state)
{
	pid_t detached, command;
	struct run r;

	(void)state;
	/* Stopped, the one above learns nothing of the other's death before its own; the command
	 * dies with the lower one, hence a child of it that does the killing. */
	run_script(&r, DETACHED ABOVE
		   "echo $$; read x; (kill -STOP $above; kill -KILL $PPID $above) & exec sleep 60");
	detached = read_pid(&r);
	command = read_pid(&r);
	r.io.in = fd_close(r.io.in);
	assert_true(ends_within(&r, PATIENCE_US));
	finish(&r);
	assert_int_equal(r.outcome->kind, OUTCOME_FAILED);
	assert_int_equal(r.outcome->denial_count, 1);
	assert_true(r.outcome->left);
	(void)kill(command, SIGKILL);
	(void)kill(detached, SIGKILL);
	run_done(&r);
}

static void a_stopped_guard_still_obeys(void **state)
{
	struct run r;
	pid_t command;

	(void)state;
	run_script(&r, "kill -STOP $PPID; echo $$; exec sleep 60");
	command = read_pid(&r);
	backend_none.signal(r.job, COMMAND_FIRST, SIGKILL);
	assert_true(ends_within(&r, PATIENCE_US));
	assert_true(gone_within(command, 0));
	run_done(&r);
}

/* ---- a fork loop, in a pid namespace of its own ---- */

static int processes_here(void)
{
	char path[32];
	int n = 0;

	for (int pid = 1; pid < 65536; pid++) {
		(void)snprintf(path, sizeof(path), "/proc/%d", pid);
		n += access(path, F_OK) == 0;
	}
	return n;
}

/* As init of the namespace. Chains whose every link has left its parent before it forks the next,
 * and a tree deeper than one walk goes. The limit is never reached: a shell that cannot fork
 * exits. */
static _Noreturn void end_a_fork_loop(void)
{
	const struct rlimit few = { SCRATCH_TASKS, SCRATCH_TASKS };
	struct run r;

	must(mount("proc", "/proc", "proc", 0, NULL) == 0, "cannot mount /proc");
	must(setrlimit(RLIMIT_NPROC, &few) == 0, "setrlimit");
	run_script(&r, "chain() { (chain &); };"
		       "deep() { [ $1 = 0 ] && exec sleep 60; deep $(($1 - 1)) & wait; };"
		       "for i in 1 2 3 4; do chain & done; deep 40 & echo $$; read x");
	(void)read_pid(&r);
	for (int i = 0; i < 100 && processes_here() <= 40; i++)
		(void)usleep(100000);
	must(processes_here() > 40, "the loop does not run");
	backend_none.signal(r.job, COMMAND_FIRST, SIGKILL);
	must(ends_within(&r, PATIENCE_US), "the loop outlived its time");
	finish(&r);
	must(r.outcome->denial_count == 0, "the guard gave up");
	must(processes_here() == 1, "something is left");
	run_done(&r);
	_exit(0);
}

/* RLIMIT_NPROC does not hold root: the loop is always an ordinary user's. */
static _Noreturn void enter_scratch(void)
{
	uid_t uid;
	gid_t gid;
	char map[32];
	pid_t init;
	int status;

	if (geteuid() == 0)
		must(setresgid(SCRATCH_UID, SCRATCH_UID, SCRATCH_UID) == 0 &&
			     setresuid(SCRATCH_UID, SCRATCH_UID, SCRATCH_UID) == 0,
		     "cannot become an ordinary user");
	(void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); /* or the maps would belong to root */
	uid = getuid();
	gid = getgid();
	if (unshare(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS) < 0)
		_exit(SKIPPED);
	(void)fd_write_file(AT_FDCWD, "/proc/self/setgroups", "deny");
	(void)snprintf(map, sizeof(map), "%u %u 1\n", uid, uid);
	must(fd_write_file(AT_FDCWD, "/proc/self/uid_map", map) == 0, "uid_map");
	(void)snprintf(map, sizeof(map), "%u %u 1\n", gid, gid);
	must(fd_write_file(AT_FDCWD, "/proc/self/gid_map", map) == 0, "gid_map");
	init = fork();
	if (init == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
		(void)alarm(60);
		end_a_fork_loop();
	}
	must(waitpid(init, &status, 0) == init, "waitpid");
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

static void a_fork_loop_is_ended(void **state)
{
	pid_t pid = fork();
	int status;

	(void)state;
	if (pid == 0)
		enter_scratch();
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED)
		skip();
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* ---- what the command gets ---- */

static bool has_line(const char *text, const char *line)
{
	size_t n = strlen(line);

	for (const char *at = text; (at = strstr(at, line)); at++)
		if ((at == text || at[-1] == '\n') && (at[n] == '\n' || !at[n]))
			return true;
	return false;
}

static void secrets_of_the_caller_stay_out_of_the_environment(void **state)
{
	static const struct job_want w = { .id = "test" };
	static const char *const argv[] = { "sh", "-c", "env; tr '\\0' '\\n' </proc/$PPID/environ",
					    NULL };
	struct run r;

	(void)state;
	(void)setenv("OPENAI_API_KEY", "hunter2", 1);
	(void)setenv("NOT_A_KEYHOLE", "passed", 1);
	(void)setenv("BRIG_TEST_HARMLESS", "hunter2", 1);
	(void)setenv("ORDINARY", "kept", 1);
	(void)setenv("CHANGED", "before", 1);
	(void)setenv("HOME", "/tmp", 1);
	run_init(&r, "/tmp");
	assert_int_equal(spec_set(r.spec, FIELD_ENV_PASS, "NOT_A_KEYHOLE", ORIGIN_FLAG, &r.e), 0);
	assert_int_equal(spec_set(r.spec, FIELD_ENV, "CHANGED=after", ORIGIN_FLAG, &r.e), 0);
	set_argv(&r, argv);
	assert_int_equal(run_start(&r, &w), 0);
	read_out(&r);
	assert_null(strstr(r.out, "hunter2"));
	assert_null(strstr(r.out, "before"));
	assert_true(has_line(r.out, "NOT_A_KEYHOLE=passed"));
	assert_true(has_line(r.out, "ORDINARY=kept"));
	assert_true(has_line(r.out, "CHANGED=after"));
	assert_true(has_line(r.out, "HOME=/tmp"));
	assert_non_null(strstr(r.out, "PATH="));
	run_done(&r);
}

static void the_command_is_found_along_the_path_it_is_given(void **state)
{
	static const struct job_want w = { .id = "test" };
	static const char *const argv[] = { "true", NULL };
	struct run r;

	(void)state;
	run_init(&r, "/tmp");
	assert_int_equal(spec_set(r.spec, FIELD_ENV, "PATH=/nowhere", ORIGIN_FLAG, &r.e), 0);
	set_argv(&r, argv);
	assert_true(run_start(&r, &w) < 0);
	assert_int_equal(r.e.kind, ERR_NOT_FOUND);
	run_done(&r);
}

static void paths_inside_are_rewritten_by_component(void **state)
{
	static const char *const argv[] = { "/workspace/run",    "/workspace",  "/workspace2",
					    "/workspace2/x",     "/workspac",   "x/workspace/y",
					    "--f=/workspace/no", "/workspace/", NULL };
	static const char *const want[] = { "/tmp/run",          "/tmp",      "/workspace2",
					    "/workspace2/x",     "/workspac", "x/workspace/y",
					    "--f=/workspace/no", "/tmp/" };
	struct run r;

	(void)state;
	run_init(&r, "/tmp");
	r.spec->inside = "/workspace";
	set_argv(&r, argv);
	assert_int_equal(backend_none.plan(r.spec, &r.plan, NULL, &r.e), 0);
	for (size_t i = 0; i < ARRAY_LEN(want); i++)
		assert_string_equal(r.plan->argv[i], want[i]);
	assert_null(r.plan->argv[ARRAY_LEN(want)]);
	run_done(&r);
}

static void the_command_runs_in_the_workdir(void **state)
{
	static const struct job_want w = { .id = "test" };
	static const char *const argv[] = { "pwd", NULL };
	struct run r;

	(void)state;
	run_init(&r, "/usr");
	set_argv(&r, argv);
	assert_int_equal(run_start(&r, &w), 0);
	read_out(&r);
	assert_string_equal(r.out, "/usr\n");
	run_done(&r);
}

static void instead_of_a_private_workspace_it_is_the_current_folder(void **state)
{
	static const char *const argv[] = { "/workspace/x", NULL };
	const char *const *notes;
	char *here = getcwd(NULL, 0);
	struct run r;

	(void)state;
	run_init(&r, "/usr");
	r.spec->private_workspace = true;
	set_argv(&r, argv);
	assert_int_equal(backend_none.plan(r.spec, &r.plan, &notes, &r.e), 0);
	assert_string_equal(r.plan->cwd, here);
	assert_non_null(strstr(notes[0], "this is not a sandbox"));
	assert_non_null(strstr(notes[1], "no private workspace"));
	assert_null(notes[2]);
	run_done(&r);
	free(here);
}

static void a_missing_workdir_is_an_error_of_start(void **state)
{
	static const struct job_want w = { .id = "test" };
	static const char *const argv[] = { "true", NULL };
	struct run r;

	(void)state;
	run_init(&r, "/nowhere/at/all");
	set_argv(&r, argv);
	assert_true(run_start(&r, &w) < 0);
	assert_non_null(strstr(r.e.what, "/nowhere/at/all"));
	run_done(&r);
}

static void descriptors_and_signal_state_are_clean(void **state)
{
	int leak = fcntl(0, F_DUPFD, 40);
	sigset_t usr2, old;
	struct run r;

	(void)state;
	(void)sigemptyset(&usr2);
	(void)sigaddset(&usr2, SIGUSR2);
	(void)sigprocmask(SIG_BLOCK, &usr2, &old);
	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGCHLD, SIG_IGN);
	run_script(&r, "echo $(ls /proc/self/fd | wc -l); grep -E 'Sig(Blk|Ign)' /proc/self/status;"
		       "ulimit -n; exit 4");
	read_out(&r);
	assert_true(str_starts(r.out, "4\n")); /* 0, 1, 2 and the folder ls reads */
	assert_non_null(strstr(r.out, "SigBlk:\t0000000000000000"));
	/* The two that were ignored above; what a shell around the test ignores is its own affair.
	 */
	assert_non_null(strstr(r.out, "SigIgn:\t"));
	assert_int_equal(strtoull(strstr(r.out, "SigIgn:\t") + 8, NULL, 16) &
				 (1ULL << (SIGPIPE - 1) | 1ULL << (SIGCHLD - 1)),
			 0);
	assert_true(ends_within(&r, PATIENCE_US));
	finish(&r);
	assert_int_equal(r.outcome->exit_code, 4);
	run_done(&r);
	(void)signal(SIGCHLD, SIG_DFL);
	(void)signal(SIGPIPE, SIG_DFL);
	(void)sigprocmask(SIG_SETMASK, &old, NULL);
	(void)fd_close(leak);
}

static void the_number_of_files_is_limited(void **state)
{
	static const struct job_want w = { .id = "test" };
	static const char *const argv[] = { "sh", "-c", "ulimit -n; ulimit -Hn", NULL };
	struct run r;

	(void)state;
	run_init(&r, "/tmp");
	assert_int_equal(spec_set(r.spec, FIELD_FILES, "64", ORIGIN_FLAG, &r.e), 0);
	set_argv(&r, argv);
	assert_int_equal(run_start(&r, &w), 0);
	read_out(&r);
	assert_string_equal(r.out, "64\n64\n");
	run_done(&r);
}

static void a_terminal_is_a_terminal(void **state)
{
	static const struct job_want w = { .id = "test", .rows = 33, .cols = 99 };
	static const char *const argv[] = { "sh", "-c",
					    "test -t 0 && test -t 1 && test -t 2 && stty size;"
					    "echo here >/dev/tty; exit 6",
					    NULL };
	struct run r;
	ssize_t n;
	size_t have = 0;

	(void)state;
	run_init(&r, "/tmp");
	set_argv(&r, argv);
	r.spec->command.tty = true;
	assert_int_equal(run_start(&r, &w), 0);
	assert_true(r.io.in >= 0 && r.io.out >= 0 && r.io.in != r.io.out && r.io.err < 0);
	while ((n = read(r.io.out, r.out + have, sizeof(r.out) - 1 - have)) > 0)
		have += (size_t)n;
	assert_string_equal(r.out, "33 99\r\nhere\r\n");
	assert_true(ends_within(&r, PATIENCE_US));
	finish(&r);
	assert_int_equal(r.outcome->exit_code, 6);
	run_done(&r);
}

/* ---- what it promises ---- */

static void a_written_setting_it_cannot_keep_is_refused(void **state)
{
	static const struct {
		enum field_id id;
		const char *text, *named;
	} cases[] = {
		{ FIELD_MEMORY, "256m", "--memory" },
		{ FIELD_CPUS, "1.5", "--cpus" },
		{ FIELD_CPU_SHARES, "512", "--cpu-shares" },
		{ FIELD_PIDS, "10", "--pids" },
		{ FIELD_POLICY, "readonly", "--policy readonly" },
	};
	static const char *const argv[] = { "true", NULL };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct run r;

		run_init(&r, "/tmp");
		set_argv(&r, argv);
		assert_int_equal(spec_set(r.spec, cases[i].id, cases[i].text, ORIGIN_FLAG, &r.e),
				 0);
		assert_true(backend_none.plan(r.spec, &r.plan, NULL, &r.e) < 0);
		assert_int_equal(r.e.kind, ERR_UNAVAILABLE);
		assert_non_null(strstr(r.e.what, cases[i].named));
		assert_non_null(strstr(r.e.hint, "native"));
		run_done(&r);
	}
}

static void it_claims_no_isolation(void **state)
{
	const struct isolation nothing = { .cgroup = "none",
					   .network = "host",
					   .uid_inside = geteuid(),
					   .gid_inside = getegid(),
					   .limits = { [LIMIT_FILES] = ENFORCER_RLIMIT } };
	struct isolation said;
	struct err e;

	(void)state;
	memset(&said, 0xff, sizeof(said));
	assert_int_equal(backend_none.probe(NULL, &said, &e), 0);
	assert_string_equal(said.cgroup, nothing.cgroup);
	assert_string_equal(said.network, nothing.network);
	assert_null(said.seccomp);
	assert_false(said.user_ns || said.pid_ns || said.mount_ns || said.net_ns || said.ipc_ns ||
		     said.uts_ns || said.cgroup_ns || said.no_new_privs ||
		     said.capabilities_dropped || said.read_only_root || said.landlock_abi);
	assert_int_equal(said.uid_inside, nothing.uid_inside);
	assert_memory_equal(said.limits, nothing.limits, sizeof(said.limits));
}

static void the_plan_can_be_printed(void **state)
{
	static const char *const argv[] = { "cat", "/workspace/x", NULL };
	CLEANUP(buf) struct buf b = BUF_INIT((size_t)1 << 20);
	struct json j;
	struct run r;

	(void)state;
	run_init(&r, "/tmp");
	r.spec->inside = "/workspace";
	set_argv(&r, argv);
	assert_int_equal(backend_none.plan(r.spec, &r.plan, NULL, &r.e), 0);
	json_init(&j, &b, false);
	backend_none.plan_json(r.plan, &j);
	assert_false(b.failed);
	assert_non_null(strstr(buf_str(&b), "\"backend\":\"none\""));
	assert_non_null(strstr(buf_str(&b), "/tmp/x"));
	run_done(&r);
}

/* ---- inside another program ---- */

static void wait_calls_of_the_program_never_see_it(void **state)
{
	struct run r;

	(void)state;
	run_script(&r, "read x");
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
	read_out(&r);
	assert_true(ends_within(&r, PATIENCE_US));
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
	run_done(&r);
}

static void *start_and_leave(void *arg)
{
	run_script(arg, "read x; exit 5");
	return NULL;
}

static void the_thread_that_started_it_may_end(void **state)
{
	pthread_t thread;
	struct run r;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, start_and_leave, &r), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_false(ends_within(&r, SECOND_US / 10));
	read_out(&r);
	assert_true(ends_within(&r, PATIENCE_US));
	finish(&r);
	assert_int_equal(r.outcome->exit_code, 5);
	run_done(&r);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_exit_code_and_the_output_come_back),
		cmocka_unit_test(without_input_the_command_reads_end_of_file),
		cmocka_unit_test(death_by_signal_is_told_as_such),
		cmocka_unit_test(start_says_why_a_command_cannot_run),
		cmocka_unit_test(a_script_without_its_interpreter_is_not_executable),
		cmocka_unit_test(what_detached_itself_dies_with_the_command),
		cmocka_unit_test(signals_reach_the_group_and_sigkill_everything),
		cmocka_unit_test(giving_up_ends_everything_and_keeps_the_verdict),
		cmocka_unit_test(everything_dies_with_brig),
		cmocka_unit_test(a_killed_guard_is_told_and_takes_everything_along),
		cmocka_unit_test(what_killed_both_guards_is_told),
		cmocka_unit_test(a_stopped_guard_still_obeys),
		cmocka_unit_test(a_fork_loop_is_ended),
		cmocka_unit_test(secrets_of_the_caller_stay_out_of_the_environment),
		cmocka_unit_test(the_command_is_found_along_the_path_it_is_given),
		cmocka_unit_test(paths_inside_are_rewritten_by_component),
		cmocka_unit_test(the_command_runs_in_the_workdir),
		cmocka_unit_test(instead_of_a_private_workspace_it_is_the_current_folder),
		cmocka_unit_test(a_missing_workdir_is_an_error_of_start),
		cmocka_unit_test(descriptors_and_signal_state_are_clean),
		cmocka_unit_test(the_number_of_files_is_limited),
		cmocka_unit_test(a_terminal_is_a_terminal),
		cmocka_unit_test(a_written_setting_it_cannot_keep_is_refused),
		cmocka_unit_test(it_claims_no_isolation),
		cmocka_unit_test(the_plan_can_be_printed),
		cmocka_unit_test(wait_calls_of_the_program_never_see_it),
		cmocka_unit_test(the_thread_that_started_it_may_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
