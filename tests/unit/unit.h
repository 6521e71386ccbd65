/* SPDX-License-Identifier: Apache-2.0 */
/* unit/unit.h - what every unit test needs: cmocka, a folder of its own, processes that may die. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/text/cleanup.h"

/* For processes that cmocka knows nothing of: says what broke and dies. */
#define must(holds) must_at((holds), #holds, __FILE__, __LINE__)
static inline void must_at(bool holds, const char *what, const char *file, int line)
{
	if (holds)
		return;
	(void)fprintf(stderr, "%s:%d: does not hold: %s (errno %d)\n", file, line, what, errno);
	_exit(1);
}

/* A folder that its own user cannot read is opened first; root reads all. */
static inline int remove_entry(const char *path, const struct stat *st UNUSED, int type,
			       struct FTW *f UNUSED)
{
	if (type == FTW_DNR && chmod(path, 0700) == 0)
		return nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	return remove(path);
}

static inline void remove_tree(const char *path)
{
	(void)nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* Makes a fresh folder, whose path has no symbolic link in it, and goes there. */
static inline void enter_scratch(char path[PATH_MAX])
{
	const char *base = getenv("TMPDIR");
	char made[PATH_MAX - 1];

	(void)snprintf(made, sizeof(made), "%s/brig-test-XXXXXX", base && *base ? base : "/tmp");
	must(mkdtemp(made) != NULL);
	must(realpath(made, path) != NULL);
	must(chdir(path) == 0);
}

static inline void leave_scratch(const char *path)
{
	must(chdir("/") == 0);
	remove_tree(path);
}

/* A variable that names a folder below that one, which is not made. */
static inline void set_below(const char *variable, const char *path, const char *name)
{
	char below[PATH_MAX + 64];

	(void)snprintf(below, sizeof(below), "%s/%s", path, name);
	must(setenv(variable, below, 1) == 0);
}

static inline void write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	must(fd >= 0);
	must(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	(void)close(fd);
}

/* Reads a file of less than n bytes as a string; returns its length. */
static inline size_t read_text_file(const char *path, char *out, size_t n)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got;

	if (fd < 0)
		fail_msg("%s: %s", path, strerror(errno));
	got = read(fd, out, n - 1);
	(void)close(fd);
	assert_true(got >= 0);
	out[got] = '\0';
	return (size_t)got;
}

/* Runs fn in a process of its own; true when it came to its end within `seconds`. */
static inline bool in_child(void (*fn)(void *), void *arg, unsigned seconds)
{
	int status;
	pid_t pid;

	(void)fflush(NULL);
	pid = fork();
	must(pid >= 0);
	if (pid == 0) {
		(void)alarm(seconds);
		fn(arg);
		_exit(0);
	}
	must(waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
