/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/packages/packages_rpm.c - the files of rpm's packages, asked of rpm itself.
 *
 * Its database has had three formats, and each record a binary header: we read none of them in the
 * process that plans. What rpm prints names files and sums, which are compared; a line that is
 * wrong shows nothing. */
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "backend/kit/packages/packages_make.h"
#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/sys/wait.h"
#include "base/text/buf.h"
#include "proc/host_find.h"
#include "proc/host_program.h"
#include "proc/spawn.h"

#define RPM "/usr/bin/rpm"
#define RPM_CLOCK_US ((uint64_t)20 * 1000 * 1000)
#define RPM_LINES ((size_t)256 << 10) /* read at once, and the longest line */

/* Everything that is installed, without looking for signatures: the database is root's. */
static const char *const question[] = {
	RPM,          "-qa",
	"--nodigest", "--nosignature",
	"--qf",       "[%{=NAME}\\t%{FILEDIGESTS}\\t%{FILENAMES}\\n]",
	NULL,
};

/* Neither macros nor settings of the caller's. */
static const char *const rpm_variables[] = { "PATH=/usr/bin:/bin", "HOME=/nonexistent", "LC_ALL=C",
					     NULL };

/* Whole lines are taken out of the buffer. */
static int take_lines(struct shipped *s, struct buf *lines)
{
	const char *last = lines->len ? memrchr(lines->data, '\n', lines->len) : NULL;
	size_t n = last ? (size_t)(last - lines->data) + 1 : 0;
	int r = n ? shipped_rpm(s, lines->data, n) : 0;

	if (n)
		memmove(lines->data, lines->data + n, lines->len - n);
	lines->len -= n;
	return r;
}

static int rpm_hear(struct shipped *s, int fd)
{
	CLEANUP(buf) struct buf lines = BUF_INIT(RPM_LINES);
	uint64_t until = clock_us() + RPM_CLOCK_US;
	char data[16384];
	int r = 0;

	while (r == 0) {
		ssize_t n = wait_read(fd, data, sizeof(data), until);

		if (n == 0)
			return lines.len ? -EIO : 0;
		if (n < 0)
			return -ETIMEDOUT;
		buf_add(&lines, data, (size_t)n);
		r = lines.failed ? -E2BIG : take_lines(s, &lines);
	}
	return r;
}

int packages_rpm(struct shipped *s)
{
	char program[PATH_MAX];
	struct host_program h = {
		.program = program, .argv = question, .envp = rpm_variables, .dies_with = SIGKILL
	};
	int pipe[2], r, status;
	struct err ignored;
	pid_t pid;

	r = host_find(RPM, NULL, NULL, program, &ignored);
	if (r < 0 || pipe2(pipe, O_CLOEXEC) < 0)
		return r < 0 ? r : -errno;
	h.streams = (const int[]){ -1, pipe[1], -1 };
	r = host_start(&h, &pid, NULL, &ignored);
	(void)fd_close(pipe[1]);
	if (r == 0) {
		r = rpm_hear(s, pipe[0]);
		if (r < 0)
			(void)kill(pid, SIGKILL);
		status = proc_wait(pid);
		r = r == 0 && status != 0 ? -EIO : r;
	}
	(void)fd_close(pipe[0]);
	return r;
}
