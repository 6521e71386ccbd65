/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_proc.c - processes of brig's own inside of a program that has signals and children too.
 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "proc/closer.h"
#include "proc/exec.h"
#include "proc/spawn.h"

static void its_child_is_not_seen_by_other_waits(void **state UNUSED)
{
	int pidfd = -1;
	pid_t pid = proc_fork(&pidfd);

	if (pid == 0)
		_exit(7);
	assert_true(pid > 0 && pidfd >= 0);
	assert_int_equal(poll(&(struct pollfd){ .fd = pidfd, .events = POLLIN }, 1, 10000), 1);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
	assert_int_equal(WEXITSTATUS(proc_wait(pid)), 7);
	(void)close(pidfd);
}

static volatile sig_atomic_t handled;

static void on_signal(int sig UNUSED)
{
	handled = 1;
}

static void no_handler_of_the_caller_runs_in_the_child(void **state UNUSED)
{
	const struct sigaction mine = { .sa_handler = on_signal },
			       ignored = { .sa_handler = SIG_IGN };
	struct sigaction now;
	pid_t pid;

	(void)sigaction(SIGUSR1, &mine, NULL);
	(void)sigaction(SIGPIPE, &ignored, NULL);
	pid = proc_fork(NULL);
	if (pid == 0) {
		(void)raise(SIGUSR1);
		if (handled)
			_exit(1);
		proc_default_signals();
		if (sigaction(SIGPIPE, NULL, &now) < 0 || now.sa_handler != SIG_DFL)
			_exit(2);
		proc_unblock_signals(); /* the one that waited ends it now */
		_exit(3);
	}
	assert_int_equal(WTERMSIG(proc_wait(pid)), SIGUSR1);
	(void)raise(SIGUSR1); /* and in here nothing has changed */
	assert_true(handled);
}

static void one_sent_away_has_no_parent_to_wait(void **state UNUSED)
{
	for (int allocates = 0; allocates < 2; allocates++) {
		int ends[2], r;
		char word = 0;

		assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
		r = proc_fork_away(allocates);
		if (r == 0) {
			word = getppid() != getpid() ? 'y' : 'n';
			_exit(write(ends[1], &word, 1) != 1);
		}
		assert_int_equal(r, 1);
		(void)close(ends[1]);
		assert_int_equal(read(ends[0], &word, 1), 1);
		assert_int_equal(word, 'y');
		(void)close(ends[0]);
		assert_int_equal(waitpid(-1, NULL, WNOHANG | __WALL), -1);
		assert_int_equal(errno, ECHILD);
	}
}

/* Which of the three are open after an exec, and are no longer the caller's. */
static void streams_are_there_even_if_the_caller_closed_them(void **state UNUSED)
{
	for (int closed = 0; closed < 8; closed++) {
		pid_t pid = proc_fork(NULL);

		if (pid == 0) {
			for (int i = 0; i < 3; i++)
				if (closed & 1 << i)
					(void)close(i);
			if (proc_leave_streams() < 0)
				_exit(1);
			for (int i = 0; i < 3; i++)
				if (fcntl(i, F_GETFD) != 0)
					_exit(2 + i);
			_exit(0);
		}
		assert_int_equal(proc_wait(pid), 0);
	}
}

static void make(const char *dir, const char *name, const char *text, mode_t mode)
{
	char path[128];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, mode);
	assert_true(fd >= 0);
	assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
	(void)close(fd);
}

/* proc_exec in a child: its errno, or the exit status of what was executed. */
static int outcome_of(const char *name, const char *path, const char *cwd)
{
	const char *const argv[] = { name, NULL }, *const envp[] = { NULL };
	pid_t pid = proc_fork(NULL);
	int status;

	if (pid == 0) {
		if (cwd && chdir(cwd) < 0)
			_exit(199);
		_exit(proc_exec(argv, envp, path));
	}
	status = proc_wait(pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void a_command_is_found_along_its_path(void **state UNUSED)
{
	char dir[] = "/tmp/brig-proc-XXXXXX", a[64], b[64], path[256];

	assert_non_null(mkdtemp(dir));
	(void)snprintf(a, sizeof(a), "%s/a", dir);
	(void)snprintf(b, sizeof(b), "%s/b", dir);
	assert_int_equal(mkdir(a, 0755) | mkdir(b, 0755), 0);
	make(b, "good", "#!/bin/sh\nexit 201\n", 0755);
	make(a, "plain", "text", 0644);
	make(b, "plain", "#!/bin/sh\nexit 202\n", 0755);
	make(a, "bare", "text", 0644);
	make(a, "orphan", "#!/not/there\n", 0755);
	(void)snprintf(path, sizeof(path), "%s:/not/there:%s/plain:%s", a, a, b);
	assert_int_equal(outcome_of("good", path, NULL), 201);
	assert_int_equal(outcome_of("plain", path, NULL), 202); /* the first cannot be executed */
	assert_int_equal(outcome_of("bare", path, NULL), EACCES);
	assert_int_equal(outcome_of("orphan", path, NULL), ENOENT);
	assert_int_equal(outcome_of("missing", path, NULL), ENOENT);
	assert_int_equal(outcome_of("", path, NULL), ENOENT);
	assert_int_equal(outcome_of("good", "", b), 201); /* an empty entry is the current folder */
	assert_int_equal(outcome_of("good", "/not/there:", b), 201);
	assert_int_equal(outcome_of("good", "/not/there", b), ENOENT);
	assert_int_equal(outcome_of("./good", "", b), 201);
	(void)snprintf(path, sizeof(path), "rm -r %s", dir);
	assert_int_equal(system(path), 0);
}

static void a_failure_is_said_with_a_way_out(void **state UNUSED)
{
	struct err e = { 0 };

	proc_exec_failed("gcc-99", ENOENT, true, &e);
	assert_int_equal(e.kind, ERR_NOT_FOUND);
	assert_string_equal(e.what, "'gcc-99': command not found");
	assert_non_null(strstr(e.hint, "--read"));
	proc_exec_failed("/bin/sh", ENOENT, false, &e);
	assert_int_equal(e.kind, ERR_NOT_EXECUTABLE);
	assert_null(strstr(e.hint, "--read"));
	proc_exec_failed("x", EACCES, true, &e);
	assert_int_equal(e.kind, ERR_NOT_EXECUTABLE);
	assert_string_equal(e.what, "'x': Permission denied");
}

static void a_closer_takes_all_and_is_waited_for(void **state UNUSED)
{
	int fds[2 * CLOSER_MAX], numbers[2 * CLOSER_MAX], ends[2];
	const size_t gap = 3;
	struct closer *c;

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		fds[i] = i == gap ? -1 : dup(ends[1]);
		numbers[i] = fds[i];
	}
	(void)close(ends[1]);
	c = closer_start(fds, ARRAY_LEN(fds), false);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		assert_int_equal(fds[i], -1);
	assert_null(closer_end(c));
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		assert_true(i == gap || fcntl(numbers[i], F_GETFD) < 0);
	/* The last writer is gone, and so is the process. */
	assert_int_equal(read(ends[0], fds, 1), 0);
	assert_int_equal(waitpid(-1, NULL, WNOHANG | __WALL), -1);
	(void)close(ends[0]);
	assert_null(closer_end(closer_start(fds, ARRAY_LEN(fds), false)));

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_null(closer_start(&ends[1], 1, true));
	assert_int_equal(ends[1], -1);
	assert_int_equal(read(ends[0], fds, 1), 0);
	(void)close(ends[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(its_child_is_not_seen_by_other_waits),
		cmocka_unit_test(no_handler_of_the_caller_runs_in_the_child),
		cmocka_unit_test(one_sent_away_has_no_parent_to_wait),
		cmocka_unit_test(streams_are_there_even_if_the_caller_closed_them),
		cmocka_unit_test(a_command_is_found_along_its_path),
		cmocka_unit_test(a_failure_is_said_with_a_way_out),
		cmocka_unit_test(a_closer_takes_all_and_is_waited_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
