/* SPDX-License-Identifier: Apache-2.0 */
/* Three system calls and a stat for each process, nothing allocated. Neither statm nor the link
 * count of the task directory holds a byte the guest chooses, unlike stat or status with their
 * process name. */
#include "backend/kit/watch.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fd.h"

#define INODE_BYTES 1024   /* about what a file of a tmpfs takes of the kernel */
#define ENTRIES_MAX 100000 /* one look never lists more, whatever the sandbox does */

struct look {
	const struct watch *w;
	struct watch_usage sum;
	uint64_t page;
	bool exact; /* proportional sizes instead of resident ones */
};

static uint64_t add(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t times(uint64_t a, uint64_t b)
{
	uint64_t r;

	return __builtin_mul_overflow(a, b, &r) ? UINT64_MAX : r;
}

/* The decimal number at s after blanks; saturates. */
static uint64_t number(const char *s)
{
	uint64_t v = 0;

	for (s += strspn(s, " \t"); *s >= '0' && *s <= '9'; s++)
		v = add(times(v, 10), (uint64_t)(*s - '0'));
	return v;
}

/* Reads PID/file; false for a process that is gone or closed to us. */
static bool read_of(const struct look *k, const char *pid, const char *file, char *out, size_t n)
{
	char path[40];

	(void)snprintf(path, sizeof(path), "%.11s/%s", pid, file);
	return fd_read_file(k->w->procfd, path, out, n) > 0;
}

/* statm: "size resident shared ...", in pages. */
static uint64_t resident(const struct look *k, const char *pid)
{
	char text[128], *second;

	if (!read_of(k, pid, "statm", text, sizeof(text)))
		return 0;
	second = strchr(text, ' ');
	return second ? times(number(second), k->page) : 0;
}

/* What cannot be read counts with its resident size: too much rather than too little. */
static uint64_t proportional(const struct look *k, const char *pid)
{
	char text[512], *line;

	if (!read_of(k, pid, "smaps_rollup", text, sizeof(text)))
		return resident(k, pid);
	line = strstr(text, "\nPss:");
	return line ? times(number(line + strlen("\nPss:")), 1024) : resident(k, pid);
}

/* The kernel adds the number of threads to the two links a directory has. */
static uint64_t threads(const struct look *k, const char *pid)
{
	char path[24];
	struct stat st;

	(void)snprintf(path, sizeof(path), "%.11s/task", pid);
	if (fstatat(k->w->procfd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	return st.st_nlink > 2 ? (uint64_t)st.st_nlink - 2 : 1;
}

static void take(struct look *k, const char *pid)
{
	if (strspn(pid, "0123456789") != strlen(pid) || strcmp(pid, "1") == 0)
		return;
	k->sum.memory = add(k->sum.memory, k->exact ? proportional(k, pid) : resident(k, pid));
	if (!k->exact)
		k->sum.tasks = add(k->sum.tasks, threads(k, pid));
}

/* Enough is known: a fork bomb need not be counted to its end. */
static bool decided(const struct look *k)
{
	const struct watch *w = k->w;

	return k->exact ? k->sum.memory > w->memory_max
			: w->tasks_max && k->sum.tasks > w->tasks_max;
}

static void list(struct look *k)
{
	_Alignas(8) char data[8192];
	int seen = 0;
	long n;

	if (lseek(k->w->procfd, 0, SEEK_SET) < 0)
		return;
	while ((n = syscall(SYS_getdents64, k->w->procfd, data, sizeof(data))) > 0)
		for (long at = 0; at < n;) {
			const struct fd_entry *d = (const void *)(data + at);

			take(k, d->name);
			if (decided(k) || ++seen >= ENTRIES_MAX)
				return;
			at += d->reclen;
		}
}

static uint64_t in_tmpfs(const struct watch *w)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < w->tmpfs_count; i++) {
		struct statfs f;

		if (fstatfs(w->tmpfs[i], &f) < 0)
			continue;
		if (f.f_blocks > f.f_bfree)
			sum = add(sum, times(f.f_blocks - f.f_bfree, (uint64_t)f.f_bsize));
		/* An empty file is memory as well. */
		if (f.f_files > f.f_ffree)
			sum = add(sum, times(f.f_files - f.f_ffree, INODE_BYTES));
	}
	return sum;
}

enum watch_verdict watch_look(const struct watch *w, struct watch_usage *ret)
{
	struct look k = { .w = w, .page = (uint64_t)sysconf(_SC_PAGESIZE) };
	uint64_t files = in_tmpfs(w);

	k.sum.memory = files;
	list(&k);
	if (w->memory_max && k.sum.memory > w->memory_max && !decided(&k)) {
		k.exact = true;
		k.sum.memory = files;
		list(&k);
	}
	*ret = k.sum;
	if (w->tasks_max && k.sum.tasks > w->tasks_max)
		return WATCH_TASKS;
	return w->memory_max && k.sum.memory > w->memory_max ? WATCH_MEMORY : WATCH_OK;
}
