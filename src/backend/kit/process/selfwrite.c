/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/process/selfwrite.h"

#include <fcntl.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "base/text/str.h"

/* Without it init would be held by its own filter, with nobody left to answer. */
#define OURS (O_NOCTTY | O_NOFOLLOW | O_CLOEXEC)
#define PATH_ROOM 48 /* "/proc/4194304/task/4194304/comm" is 31 */
#define STATUS_ROOM 1024

struct selfwrite_file {
	pid_t process, thread;
	bool memory;
};

struct status {
	pid_t process, tracer;
};

static bool skip(const char **at, const char *word)
{
	size_t n = strlen(word);

	if (strncmp(*at, word, n) != 0)
		return false;
	*at += n;
	return true;
}

static bool selfwrite_number(const char **at, pid_t *ret)
{
	const char *from = *at;
	pid_t n = 0;

	for (; **at >= '0' && **at <= '9' && *at - from < 8; ++*at)
		n = n * 10 + (**at - '0');
	*ret = n;
	return n > 0;
}

/* Only as it is written by those who mean it: no other way to the same file is looked for. */
static bool selfwrite_parse(const char *path, pid_t process, pid_t thread,
			    struct selfwrite_file *ret)
{
	*ret = (struct selfwrite_file){ .process = process, .thread = process };
	if (!skip(&path, "/proc/"))
		return false;
	if (skip(&path, "thread-self")) {
		ret->thread = thread;
	} else if (!skip(&path, "self")) {
		if (!selfwrite_number(&path, &ret->process))
			return false;
		ret->thread = ret->process;
	}
	if (skip(&path, "/task/") && !selfwrite_number(&path, &ret->thread))
		return false;
	ret->memory = str_eq(path, "/mem");
	return ret->memory || str_eq(path, "/comm");
}

/* Line breaks in a process's name are escaped there: no name looks like another line. */
static pid_t field(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	return at ? (pid_t)strtol(at + strlen(name), NULL, 10) : 0;
}

static bool read_status(int folder, const char *path, struct status *ret)
{
	CLEANUP(fd) int fd = openat(folder, path, O_RDONLY | OURS);
	char text[STATUS_ROOM];
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (n <= 0)
		return false;
	text[n] = '\0';
	ret->process = field(text, "\nTgid:\t");
	ret->tracer = field(text, "\nTracerPid:\t");
	return ret->process > 0;
}

static bool status_of(const struct selfwrite *s, pid_t pid, struct status *ret)
{
	char path[32];

	(void)snprintf(path, sizeof(path), "%d/status", pid);
	return read_status(s->procs, path, ret);
}

/* The path that the thread has given. Who cannot be traced by init cannot be read. */
static bool read_path(const struct selfwrite *s, pid_t thread, uint64_t at, char *path)
{
	CLEANUP(fd) int fd = -1;
	char name[32];
	ssize_t n;

	(void)snprintf(name, sizeof(name), "%d/mem", thread);
	fd = openat(s->procs, name, O_RDONLY | OURS);
	n = fd < 0 || at > INT64_MAX ? -1 : pread(fd, path, PATH_ROOM, (off_t)at);
	return n > 0 && memchr(path, '\0', (size_t)n);
}

/* Is it a thread of the one that asks, or, for its memory, one that it traces? The folder stays
 * that thread's, whoever is given its number later. */
static int selfwrite_open_file(const struct selfwrite *s, pid_t by, const struct selfwrite_file *a,
			       int mode)
{
	CLEANUP(fd) int folder = -1;
	struct status there, tracer;
	char path[48];

	(void)snprintf(path, sizeof(path), "%d/task/%d", a->process, a->thread);
	folder = openat(s->procs, path, O_PATH | O_DIRECTORY | OURS);
	if (folder < 0 || !read_status(folder, "status", &there) || there.process <= 1)
		return -1;
	if (there.process != by && (!a->memory || there.tracer <= 1 ||
				    !status_of(s, there.tracer, &tracer) || tracer.process != by))
		return -1;
	return openat(folder, a->memory ? "mem" : "comm", mode | OURS);
}

static int open_for(const struct selfwrite *s, const struct seccomp_notif *n)
{
	const bool at = n->data.nr == SYS_openat;
	const int flags = (int)n->data.args[at ? 2 : 1];
	char path[PATH_ROOM];
	struct status by;
	struct selfwrite_file a;

	/* Its number is its own as long as its question stands. */
	if (n->pid <= 1 || !read_path(s, (pid_t)n->pid, n->data.args[at ? 1 : 0], path) ||
	    strncmp(path, "/proc/", strlen("/proc/")) != 0 || !status_of(s, (pid_t)n->pid, &by) ||
	    by.process <= 1 || ioctl(s->listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &n->id) < 0)
		return -1;
	if (!selfwrite_parse(path, by.process, (pid_t)n->pid, &a) || (a.memory && !s->memory))
		return -1;
	return selfwrite_open_file(s, by.process, &a, flags & O_ACCMODE);
}

void selfwrite_answer(const struct selfwrite *s)
{
	/* A later kernel's may be larger. */
	union {
		struct seccomp_notif ask;
		char room[256];
	} in;
	struct seccomp_notif_resp go_on = { .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE };
	CLEANUP(fd) int fd = -1;

	memset(&in, 0, sizeof(in));
	if (ioctl(s->listener, SECCOMP_IOCTL_NOTIF_RECV, &in) < 0)
		return;
	fd = open_for(s, &in.ask);
	if (fd >= 0) {
		struct seccomp_notif_addfd give = {
			.id = in.ask.id,
			.flags = SECCOMP_ADDFD_FLAG_SEND,
			.srcfd = (uint32_t)fd,
			.newfd_flags =
				(uint32_t)in.ask.data.args[in.ask.data.nr == SYS_openat ? 2 : 1] &
				O_CLOEXEC,
		};

		if (ioctl(s->listener, SECCOMP_IOCTL_NOTIF_ADDFD, &give) >= 0)
			return;
	}
	go_on.id = in.ask.id;
	(void)ioctl(s->listener, SECCOMP_IOCTL_NOTIF_SEND, &go_on);
}
