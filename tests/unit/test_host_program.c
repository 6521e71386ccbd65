/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_host_program.c - programs of the host's: which one is found, and what it is given. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/files/exposed.h"
#include "base/files/fd.h"
#include "base/text/arena.h"
#include "proc/host_find.h"
#include "proc/host_program.h"
#include "proc/spawn.h"

static char top[PATH_MAX], place[PATH_MAX + 16], full[PATH_MAX];
static const char *const also[] = { place, NULL };
static struct err e;

/* A path with TOP for the folder of this test. */
static const char *at(const char *text)
{
	static char out[4][2 * PATH_MAX];
	static int n;
	const char *mark = strstr(text, "TOP");

	n = (n + 1) % 4;
	if (mark)
		(void)snprintf(out[n], sizeof(out[n]), "%.*s%s%s", (int)(mark - text), text, top,
			       mark + 3);
	else
		(void)snprintf(out[n], sizeof(out[n]), "%s", text);
	return out[n];
}

static void put(const char *path, const char *text)
{
	CLEANUP(fd) int fd = open(at(path), O_WRONLY | O_CREAT | O_CLOEXEC, 0755);

	assert_true(fd >= 0 && fd_write_all(fd, text, strlen(text)) == 0 && fchmod(fd, 0755) == 0);
}

static int set_up(void **state UNUSED)
{
	static const char *const folders[] = { "TOP/clean", "TOP/work",    "TOP/work/bin",
					       "TOP/links", "TOP/scripts", "TOP/clean/folder" };
	char name[] = "/tmp/brig-host-XXXXXX";
	const char *made = mkdtemp(name);

	if (!made || !realpath(made, top) || setenv("XDG_STATE_HOME", at("TOP/state"), 1) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(folders); i++)
		if (mkdir(at(folders[i]), 0755) < 0)
			return -1;
	(void)snprintf(place, sizeof(place), "%s/work", top);
	put("TOP/clean/tool", "#!/bin/sh\n");
	put("TOP/work/bin/tool", "#!/bin/sh\n");
	put("TOP/scripts/tool", at("#! TOP/work/bin/tool -x\n"));
	put("TOP/scripts/twice", at("#!TOP/scripts/tool\n"));
	put("TOP/scripts/relative", "#!sh\n");
	return symlink(at("TOP/work/bin/tool"), at("TOP/links/tool"));
}

static int gone(const char *path, const struct stat *st UNUSED, int kind UNUSED,
		struct FTW *f UNUSED)
{
	return remove(path);
}

static int tear_down(void **state UNUSED)
{
	return nftw(top, gone, 16, FTW_DEPTH | FTW_PHYS);
}

static void what_a_guest_could_write_is_passed_over(void **state UNUSED)
{
	static const struct {
		const char *name, *path, *found;
		int r;
	} rows[] = {
		{ "tool", "TOP/clean", "TOP/clean/tool", 0 },
		{ "tool", "/nonexistent:TOP/clean", "TOP/clean/tool", 0 },
		{ "tool", "TOP/work/bin", NULL, -EPERM },
		{ "tool", "TOP/links", NULL, -EPERM },
		{ "tool", "TOP/scripts", NULL, -EPERM },
		{ "twice", "TOP/scripts", NULL, -EPERM },
		{ "relative", "TOP/scripts", NULL, -EPERM },
		{ "tool", "clean:.::", NULL, -ENOENT },
		{ "tool", "", NULL, -ENOENT },
		{ "folder", "TOP/clean", NULL, -ENOENT },
		{ "TOP/clean/tool", "/bin", "TOP/clean/tool", 0 },
		{ "TOP/work/bin/tool", "TOP/clean", NULL, -EPERM },
		{ "TOP/links/tool", "TOP/clean", NULL, -EPERM },
		{ "TOP/clean/none", "/bin", NULL, -ENOENT },
		{ "clean/tool", "/bin", NULL, -EINVAL },
	};

	char both[3 * PATH_MAX];

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char name[PATH_MAX], path[PATH_MAX];

		(void)snprintf(name, sizeof(name), "%s", at(rows[i].name));
		(void)snprintf(path, sizeof(path), "%s", at(rows[i].path));
		e = (struct err){ 0 };
		assert_int_equal(chdir(top), 0);
		if (host_find(name, path, also, full, &e) != rows[i].r)
			fail_msg("row %zu: %s", i, e.what);
		if (rows[i].found)
			assert_string_equal(full, at(rows[i].found));
		else
			assert_true(e.what[0] && (e.hint[0] || e.code == ENOENT));
	}
	(void)snprintf(both, sizeof(both), "%s/work/bin:%s/clean", top, top);
	assert_int_equal(host_find("tool", both, also, full, &e), 0);
	assert_string_equal(full, at("TOP/clean/tool"));
	assert_int_equal(host_find("tool", at("TOP/work/bin"), NULL, full, &e), 0);
}

static void a_word_that_leads_into_a_place_is_refused(void **state UNUSED)
{
	static const struct {
		const char *word;
		bool refused;
	} rows[] = { { "TOP/work/bin/tool", true },
		     { "TOP/links/tool", true },
		     { "--file=TOP/work/bin/tool", true },
		     { "@TOP/work/bin/tool", true },
		     { "-fTOP/work/bin/tool", true },
		     { "cd TOP/work && ./bin/tool", true },
		     { "exec('TOP/work/bin/tool')", true },
		     { ". ~/work/bin/tool", true },
		     { "\"$HOME/work/bin/tool\"", true },
		     { "${HOME}/work/bin/tool", true },
		     { "~/clean/tool", false },
		     { "x/work/bin/tool", false },
		     { "TOP/clean/tool", false },
		     { "TOP/work/none", true }, /* a command makes it when nobody looks */
		     { "https://vault.example/TOP", false },
		     { "--raw", false },
		     { "", false } };

	assert_int_equal(setenv("HOME", top, 1), 0);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const char *const argv[] = { "sh", "-c", at(rows[i].word), NULL };
		int r = host_check_words(argv, also, &e);

		if (r != (rows[i].refused ? -EPERM : 0))
			fail_msg("'%s': %d", argv[2], r);
	}
}

static void variables_are_those_on_the_list(void **state UNUSED)
{
	static const char *const names[] = { "HOME", "PATH", "LC_*", NULL };
	CLEANUP(arena) struct arena *a = arena_new(1 << 16);
	char path[3 * PATH_MAX];
	char *envp[] = { path,
			 (char[]){ "HOMER=1" },
			 (char[]){ "LC_ALL=C" },
			 (char[]){ "LD_PRELOAD=x" },
			 (char[]){ "HOME=/" },
			 NULL };
	const char *const *v;

	(void)snprintf(path, sizeof(path), "PATH=%s/work/bin:.:%s/clean::/usr/bin", top, top);
	assert_int_equal(host_environment(a, names, envp, also, &v, &e), 0);
	assert_string_equal(v[0], at("PATH=TOP/clean:/usr/bin"));
	assert_string_equal(v[1], "LC_ALL=C");
	assert_string_equal(v[2], "HOME=/");
	assert_null(v[3]);
	envp[4] = (char *)(uintptr_t)at("HOME=TOP/work");
	assert_int_equal(host_environment(a, names, envp, also, &v, &e), -EPERM);
	assert_non_null(strstr(e.what, "HOME leads to"));
}

static size_t heard(int fd, char *out, size_t n)
{
	size_t have = 0;
	ssize_t got;

	while ((got = read(fd, out + have, n - 1 - have)) > 0)
		have += (size_t)got;
	out[have] = '\0';
	return have;
}

static void it_begins_in_the_root_with_what_it_was_given(void **state UNUSED)
{
	static const char *const argv[] = {
		"sh", "-c",
		"pwd; echo $A-$HOME; ls /proc/self/fd | tr '\\n' ' '; cat <&3; ulimit -c; "
		"grep -E 'Sig(Blk|Ign)' /proc/self/status | tr -d '0\\n\\t'",
		NULL
	};
	static const char *const envp[] = { "A=1", "PATH=/usr/bin:/bin", NULL };
	static const unsigned long ignored[8] = { 1 /* SIG_IGN, as the kernel has it */ };
	int out[2], in[2], pidfd = -1, status;
	struct host_program h = { .program = "/bin/sh",
				  .argv = argv,
				  .envp = envp,
				  .fd_count = 1,
				  .dies_with = SIGKILL };
	char text[512];
	sigset_t usr;
	pid_t pid;

	(void)sigemptyset(&usr);
	(void)sigaddset(&usr, SIGUSR1);
	(void)sigprocmask(SIG_BLOCK, &usr, NULL);
	(void)sigaction(SIGPIPE, &(struct sigaction){ .sa_handler = SIG_IGN }, NULL);
	/* One of libc's own, as some programs that start others leave it. */
	assert_int_equal(syscall(SYS_rt_sigaction, 32, ignored, NULL, 8), 0);
	assert_true(pipe2(out, O_CLOEXEC) == 0 && pipe2(in, O_CLOEXEC) == 0);
	assert_int_equal(fd_write_all(in[1], "given\n", 6), 0);
	(void)close(in[1]);
	h.streams = (const int[]){ -1, out[1], -1 };
	h.fds = &in[0];
	assert_int_equal(host_start(&h, &pid, &pidfd, &e), 0);
	(void)close(out[1]);
	(void)heard(out[0], text, sizeof(text));
	status = proc_wait(pid);
	assert_int_equal(status, 0);
	assert_string_equal(text, "/\n1-\n0 1 2 3 4 given\n0\nSigBlk:SigIgn:");
	(void)close(out[0]);
	(void)close(in[0]);
	(void)close(pidfd);
}

/* With the places it keeps: nothing of ours is in the child, nothing of the child's stays here. */
static void one_with_many_descriptors_gives_away_those_alone(void **state UNUSED)
{
	static const char *const argv[] = { "sh", "-c", "echo $(ls /proc/self/fd) >&4; cat <&3 >&4",
					    NULL };
	static const char *const envp[] = { "PATH=/usr/bin:/bin", NULL };
	int low = host_reserve(), out[2], in[2], many[400];
	struct host_program h = {
		.program = "/bin/sh", .argv = argv, .envp = envp, .fd_count = 2, .low = low
	};
	char text[512];
	pid_t pid;

	assert_true(low > 2);
	for (size_t i = 0; i < ARRAY_LEN(many); i++)
		assert_true((many[i] = open("/dev/null", O_RDONLY)) >= 0);
	assert_true(pipe2(out, O_CLOEXEC) == 0 && pipe2(in, O_CLOEXEC) == 0);
	assert_int_equal(fd_write_all(in[1], "given\n", 6), 0);
	(void)close(in[1]);
	h.fds = (const int[]){ in[0], out[1] };
	assert_int_equal(host_start(&h, &pid, NULL, &e), 0);
	(void)close(out[1]); /* what is read has an end: no place of ours has the pipe */
	(void)heard(out[0], text, sizeof(text));
	assert_string_equal(text, "0 1 2 3 4 5\ngiven\n");
	assert_int_equal(proc_wait(pid), 0);
	for (size_t i = 0; i < ARRAY_LEN(many); i++)
		assert_int_equal(close(many[i]), 0);
	(void)close(out[0]);
	(void)close(in[0]);
	h.streams = (const int[]){ 0, 1, 2 };
	assert_int_equal(host_start(&h, &pid, NULL, &e), -EINVAL);
	h.streams = NULL;
	h.fds = (const int[]){ -1 };
	h.fd_count = 1;
	assert_int_equal(host_start(&h, &pid, NULL, &e), -EBADF);
	host_release(low);
	assert_int_equal(fcntl(low, F_GETFD), -1);
}

static void what_cannot_be_executed_is_an_error_at_once(void **state UNUSED)
{
	static const char *const argv[] = { "none", NULL };
	struct host_program h = { .program = at("TOP/clean/none"), .argv = argv };
	pid_t pid = 0;

	assert_int_equal(host_start(&h, &pid, NULL, &e), -ENOENT);
	h.program = top;
	assert_int_equal(host_start(&h, &pid, NULL, &e), -EACCES);
	h.fds = (const int[]){ -1 };
	h.fd_count = 1;
	assert_int_equal(host_start(&h, &pid, NULL, &e), -EBADF);
	assert_int_equal(waitpid(-1, NULL, __WALL | WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_a_guest_could_write_is_passed_over),
		cmocka_unit_test(a_word_that_leads_into_a_place_is_refused),
		cmocka_unit_test(variables_are_those_on_the_list),
		cmocka_unit_test(it_begins_in_the_root_with_what_it_was_given),
		cmocka_unit_test(one_with_many_descriptors_gives_away_those_alone),
		cmocka_unit_test(what_cannot_be_executed_is_an_error_at_once),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
