/* SPDX-License-Identifier: Apache-2.0 */
/* egress/credential/cred_source.c - where values come from: a variable, a file, a command. Trusted
 * side only.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/sys/clock.h"
#include "base/sys/wait.h"
#include "egress/credential/cred.h"
#include "model/known/login_file.h"
#include "proc/host_program.h"
#include "proc/host_find.h"
#include "proc/spawn.h"

#define ENVIRONMENT_MAX ((size_t)4 << 20)
#define COMMAND_US ((uint64_t)10 * 1000 * 1000)

/* --- memory that is neither swapped nor dumped --- */

static size_t pages(size_t n)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (n / page + 1) * page;
}

static char *value_new(struct err *e)
{
	size_t n = pages(SECRET_MAX + 1);
	char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return (void)err_nomem(e), NULL;
	if (mlock(p, n) < 0) {
		(void)err_sys(e, "cannot lock memory for a credential");
		(void)err_hint(e, "raise the limit: ulimit -l");
		(void)munmap(p, n);
		return NULL;
	}
	(void)madvise(p, n, MADV_DONTDUMP);
	(void)madvise(p, n,
		      MADV_WIPEONFORK); /* the sandbox's first process is a copy of this one */
	return p;
}

void cred_value_free(char *value, size_t len)
{
	if (!value)
		return;
	explicit_bzero(value, len);
	(void)munmap(value, pages(SECRET_MAX + 1));
}

int cred_value_new(const char *p, size_t n, char **ret, struct err *e)
{
	char *copy;

	if (n > SECRET_MAX)
		return err_set(e, ERR_CONFIG, E2BIG, "the value is longer than %d bytes",
			       SECRET_MAX);
	copy = value_new(e);
	if (!copy)
		return -e->code;
	memcpy(copy, p, n);
	*ret = copy;
	return 0;
}

/* --- sources --- */

static const char *cred_source_variable(char *const *envp, const char *name)
{
	size_t n = strlen(name);

	for (; envp && *envp; envp++)
		if (strncmp(*envp, name, n) == 0 && (*envp)[n] == '=')
			return *envp + n + 1;
	return NULL;
}

static int from_environment(const struct credential_spec *c, char *const *envp, char *out,
			    size_t *len, struct err *e)
{
	const char *name = c->source.v[0], *value = cred_source_variable(envp, name);

	if (value && (*value || !c->login || !c->login->file)) {
		*len = strlen(value);
		if (*len > SECRET_MAX)
			return err_set(e, ERR_CONFIG, E2BIG, "the value is longer than %d bytes",
				       SECRET_MAX);
		memcpy(out, value, *len);
		return 0;
	}
	if (c->login && c->login->file) {
		int r = login_file_read(c->login, cred_source_variable(envp, "HOME"), out,
					SECRET_MAX + 1, len, e);

		if (r != -ENOENT)
			return r;
	}
	(void)err_set(e, ERR_CONFIG, ENOENT, "the variable '%.60s' is not set", name);
	return err_hint(e, "export %.60s, or name another source under credentials", name);
}

/* Reads to the end; one byte more than the maximum shows that it is too much. */
static int cred_source_read_all(int fd, uint64_t deadline, char *out, size_t *len, struct err *e)
{
	size_t n = 0;

	for (;;) {
		ssize_t r;

		if (deadline && wait_fd(fd, POLLIN, deadline) == -ETIMEDOUT)
			return err_set(e, ERR_CONFIG, ETIMEDOUT, "it took longer than 10 seconds");
		r = read(fd, out + n, SECRET_MAX + 1 - n);
		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return err_sys(e, "cannot be read");
		n += (size_t)r;
		if (n > SECRET_MAX)
			return err_set(e, ERR_CONFIG, E2BIG, "the value is longer than %d bytes",
				       SECRET_MAX);
		if (!r)
			break;
	}
	*len = n;
	return 0;
}

static int from_file(const char *path, char *out, size_t *len, struct err *e)
{
	CLEANUP(fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(e, "cannot open '%.200s'", path);
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_CONFIG, EINVAL, "'%.200s' is not a file", path);
	if (st.st_mode & (S_IWGRP | S_IWOTH)) {
		(void)err_set(e, ERR_POLICY, EPERM, "'%.200s' can be written by others", path);
		return err_hint(e, "chmod 600 %.200s", path);
	}
	return cred_source_read_all(fd, 0, out, len, e);
}

static int cred_source_spawn(const struct strlist *words, char *const *envp,
			     const char *const *places, int out, pid_t *ret, struct err *e)
{
	CLEANUP(arena) struct arena *a = arena_new(ENVIRONMENT_MAX);
	CLEANUP(mem) const char **argv = calloc(words->n + 1, sizeof(*argv));
	char program[PATH_MAX];
	struct host_program h = { .program = program,
				  .argv = argv,
				  .streams = (const int[]){ -1, out, 2 },
				  .dies_with = SIGKILL };

	if (!argv || !a)
		return err_nomem(e);
	for (size_t i = 0; i < words->n; i++)
		argv[i] = words->v[i];
	if (host_find(argv[0], cred_source_variable(envp, "PATH"), places, program, e) < 0 ||
	    host_check_words(argv, places, e) < 0 ||
	    host_environment(a, host_keyring_names, envp, places, &h.envp, e) < 0)
		return -e->code;
	return host_start(&h, ret, NULL, e);
}

/* Waits for the end, or brings it about. */
static int cred_source_reap(pid_t pid, bool wanted, uint64_t deadline)
{
	CLEANUP(fd) int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (!wanted || pidfd < 0 || wait_fd(pidfd, POLLIN, deadline) < 0)
		(void)kill(pid, SIGKILL);
	return proc_wait(pid);
}

static int from_command(const struct strlist *words, char *const *envp, const char *const *places,
			char *out, size_t *len, struct err *e)
{
	uint64_t deadline = clock_us() + COMMAND_US;
	int ends[2], r, status;
	pid_t pid = -1;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(e, "no pipe");
	r = cred_source_spawn(words, envp, places, ends[1], &pid, e);
	(void)close(ends[1]);
	if (r < 0 || pid <= 0)
		return (void)close(ends[0]), -e->code;
	r = cred_source_read_all(ends[0], deadline, out, len, e);
	(void)close(ends[0]);
	status = cred_source_reap(pid, r == 0, deadline);
	if (r < 0)
		return r;
	if (status < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return err_set(e, ERR_CONFIG, EIO, "'%.100s' failed", words->v[0]);
	return 0;
}

static int cred_source_fetch(const struct credential_spec *c, char *const *envp,
			     const char *const *places, char *out, size_t *len, struct err *e)
{
	switch (c->from) {
	case FROM_ENVIRONMENT:
		return from_environment(c, envp, out, len, e);
	case FROM_FILE:
		return from_file(c->source.v[0], out, len, e);
	case FROM_COMMAND:
		break;
	}
	return from_command(&c->source, envp, places, out, len, e);
}

int cred_fetch(const struct credential_spec *c, char *const *envp, const char *const *places,
	       char **value, size_t *len, struct err *e)
{
	size_t n = 0;
	char *p;

	if (!c->source.n)
		return err_set(e, ERR_INTERNAL, EINVAL, "credential '%.60s' has no source",
			       c->name);
	p = value_new(e);
	if (!p)
		return -e->code;
	if (cred_source_fetch(c, envp, places, p, &n, e) < 0) {
		cred_value_free(p, SECRET_MAX + 1);
		return err_wrap(e, "credential '%.60s'", c->name);
	}
	if (n && p[n - 1] == '\n')
		p[--n] = '\0';
	if (n && p[n - 1] == '\r')
		p[--n] = '\0';
	*value = p;
	*len = n;
	return 0;
}
