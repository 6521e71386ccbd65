/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/health.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/sys/wait.h"
#include "proc/forked.h"

struct health_look {
	const struct backend *backend;
	const struct spec *spec;
};

static int probe_in_child(void *arg, int line)
{
	const struct health_look *l = arg;
	struct isolation got = { 0 };
	struct err e = { 0 };

	int r = l->backend->probe(l->spec, &got, &e);

	if (r < 0 && !e.code)
		e.code = -r;
	return forked_tell(line, &e) < 0;
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
	struct health_look look = { .backend = b, .spec = s };
	const struct forked_want w = { .what = "a look at the backend",
				       .line = FORKED_BYTES,
				       .run = probe_in_child,
				       .arg = &look };
	CLEANUP(fd) int line = -1;
	struct err e = { 0 }, said = { 0 };
	pid_t pid;
	int r;

	if (b->maker && b->maker->health)
		return b->maker->health(ms, detail, n);
	pid = forked_start(&w, &line, &e);
	if (pid < 0)
		return health_failed(detail, n, -(int)pid, "no look at backend", b->name);
	r = wait_fd(line, POLLIN, until);
	if (r == 0 && forked_hear(line, &said) < 0)
		r = -EIO;
	(void)kill(pid, SIGKILL);
	(void)forked_wait(pid);
	if (r == -ETIMEDOUT)
		return health_failed(detail, n, ETIMEDOUT, "no answer in time from backend",
				     b->name);
	if (r < 0)
		return health_failed(detail, n, EIO, "no answer from backend", b->name);
	if (!said.code)
		(void)snprintf(detail, n, "backend '%s' is ready", b->name);
	else
		(void)snprintf(detail, n, "%s", said.what);
	return -said.code;
}
