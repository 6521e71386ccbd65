/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/health.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/sys/wait.h"

struct health_verdict {
	int result;
	char detail[512];
};

static _Noreturn void probe_in_child(const struct backend *b, const struct spec *s, int out)
{
	struct isolation got = { 0 };
	struct health_verdict v = { 0 };
	struct err e = { 0 };

	v.result = b->probe(s, &got, &e);
	if (v.result == 0)
		(void)snprintf(v.detail, sizeof(v.detail), "backend '%s' is ready", b->name);
	else
		(void)snprintf(v.detail, sizeof(v.detail), "%s", e.what);
	_exit(fd_write_all(out, &v, sizeof(v)) < 0);
}

static int health_failed(char *detail, size_t n, int code, const char *what, const char *name)
{
	(void)snprintf(detail, n, "%s '%s'", what, name);
	return -code;
}

int backend_health(const struct backend *b, const struct spec *s, unsigned ms, char *detail,
		   size_t n)
{
	uint64_t until = clock_us() + (uint64_t)ms * 1000;
	struct health_verdict v;
	int ends[2], r;
	ssize_t got;
	pid_t pid;

	if (b->maker && b->maker->health)
		return b->maker->health(ms, detail, n);
	if (pipe2(ends, O_CLOEXEC) < 0)
		return health_failed(detail, n, errno, "no pipe for a look at backend", b->name);
	pid = fork();
	if (pid == 0)
		probe_in_child(b, s, ends[1]);
	(void)fd_close(ends[1]);
	r = pid < 0 ? -errno : wait_fd(ends[0], POLLIN, until);
	got = r < 0 ? -1 : read(ends[0], &v, sizeof(v));
	(void)fd_close(ends[0]);
	if (pid > 0) {
		(void)kill(pid, SIGKILL);
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	if (r == -ETIMEDOUT)
		return health_failed(detail, n, ETIMEDOUT, "no answer in time from backend",
				     b->name);
	if (got != (ssize_t)sizeof(v))
		return health_failed(detail, n, EIO, "no answer from backend", b->name);
	(void)snprintf(detail, n, "%s", v.detail);
	return v.result;
}
