/* SPDX-License-Identifier: Apache-2.0 */
/* Three system calls and a stat for each process, nothing allocated. Neither statm nor the link
 * count of the task directory holds a byte the guest chooses. The name in status is the guest's,
 * but the kernel escapes line ends in it: no line begins with it. */
#include "backend/kit/limits/watch.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "base/text/cleanup.h"

#define INODE_BYTES 1024 /* about what a file of a tmpfs takes of the kernel */
#define ENTRY_BYTES 8    /* of a page table */
#define TABLES_SMALL ((uint64_t)256 << 10)
#define STATUS_MAX 4096
#define ENTRIES_MAX 100000 /* one look never lists more, whatever the sandbox does */

struct watch_look {
	const struct watch *w;
	struct watch_usage sum;
	uint64_t page;
	uint64_t mapped; /* of the exact sum: shared memory */
	bool exact;      /* proportional sizes instead of resident ones */
};

static uint64_t watch_add(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t times(uint64_t a, uint64_t b)
{
	uint64_t r;

	return __builtin_mul_overflow(a, b, &r) ? UINT64_MAX : r;
}

/* The decimal number at s after blanks; saturates. */
static uint64_t watch_number(const char *s)
{
	uint64_t v = 0;

	for (s += strspn(s, " \t"); *s >= '0' && *s <= '9'; s++)
		v = watch_add(times(v, 10), (uint64_t)(*s - '0'));
	return v;
}

/* Reads PID/file; false for a process that is gone or closed to us. */
static bool read_of(const struct watch_look *k, const char *pid, const char *file, char *out,
		    size_t n)
{
	char path[40];

	(void)snprintf(path, sizeof(path), "%.11s/%s", pid, file);
	return fd_read_file(k->w->procfd, path, out, n) > 0;
}

/* statm: "size resident shared ...", in pages. False: it has no memory. */
static bool sizes(const struct watch_look *k, const char *pid, uint64_t *size, uint64_t *resident)
{
	char text[128], *second;

	*size = *resident = 0;
	if (!read_of(k, pid, "statm", text, sizeof(text)))
		return false;
	second = strchr(text, ' ');
	*size = times(watch_number(text), k->page);
	*resident = second ? times(watch_number(second), k->page) : 0;
	return *size > 0;
}

/* The number behind that word, in KiB; false if there is none. */
static bool kib(const char *text, const char *word, uint64_t *ret)
{
	const char *line = strstr(text, word);

	if (line)
		*ret = times(watch_number(line + strlen(word)), 1024);
	return line;
}

/* Page tables stay when what they led to is gone, and lead to a page of zeros that nobody pays for:
 * 4 KiB for each 2 MiB that was ever touched. Only for those that could matter is the kernel asked
 * in the cheap pass. */
static uint64_t tables(const struct watch_look *k, const char *pid, uint64_t size)
{
	uint64_t most = watch_add(size / (k->page / ENTRY_BYTES), k->page), n;
	char text[STATUS_MAX];

	if (!k->exact && most <= TABLES_SMALL)
		return most;
	return read_of(k, pid, "status", text, sizeof(text)) && kib(text, "\nVmPTE:", &n) ? n
											  : most;
}

/* What cannot be read counts with its resident size: too much rather than too little. */
static uint64_t proportional(struct watch_look *k, const char *pid, uint64_t resident)
{
	char text[1024];
	uint64_t pss, shared = 0;

	if (!read_of(k, pid, "smaps_rollup", text, sizeof(text)) || !kib(text, "\nPss:", &pss))
		return resident;
	if (kib(text, "\nPss_Shmem:", &shared))
		k->mapped = watch_add(k->mapped, shared);
	return pss;
}

/* The kernel adds the number of threads to the two links a directory has. */
static uint64_t threads(const struct watch_look *k, const char *pid)
{
	char path[24];
	struct stat st;

	(void)snprintf(path, sizeof(path), "%.11s/task", pid);
	if (fstatat(k->w->procfd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	return st.st_nlink > 2 ? (uint64_t)st.st_nlink - 2 : 1;
}

/* A process whose first thread has ended has its memory still, but only the others tell. The kernel
 * finds any thread by its number. False: nobody is left, or can be asked. */
static bool another_thread(const struct watch_look *k, const char *pid, char *ret, size_t n,
			   uint64_t *size, uint64_t *resident)
{
	_Alignas(8) char data[2048];
	char path[24];
	CLEANUP(fd) int task = -1;
	long got;

	(void)snprintf(path, sizeof(path), "%.11s/task", pid);
	task = openat(k->w->procfd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	while (task >= 0 && (got = syscall(SYS_getdents64, task, data, sizeof(data))) > 0)
		for (long at = 0; at < got;) {
			const struct fd_entry *d = (const void *)(data + at);

			if (d->name[0] != '.' && sizes(k, d->name, size, resident)) {
				(void)snprintf(ret, n, "%.11s", d->name);
				return true;
			}
			at += d->reclen;
		}
	return false;
}

static void take_memory(struct watch_look *k, const char *pid, uint64_t tasks)
{
	uint64_t size, resident;
	char other[16];

	if (!sizes(k, pid, &size, &resident)) {
		if (tasks < 2 || !another_thread(k, pid, other, sizeof(other), &size, &resident))
			return;
		pid = other;
	}
	k->sum.memory = watch_add(k->sum.memory, tables(k, pid, size));
	k->sum.memory =
		watch_add(k->sum.memory, k->exact ? proportional(k, pid, resident) : resident);
}

static void watch_take(struct watch_look *k, const char *pid)
{
	uint64_t tasks;

	if (strspn(pid, "0123456789") != strlen(pid) || strcmp(pid, "1") == 0)
		return;
	tasks = threads(k, pid);
	take_memory(k, pid, tasks);
	if (!k->exact)
		k->sum.tasks = watch_add(k->sum.tasks, tasks);
}

/* Enough is known: a fork bomb need not be counted to its end. */
static bool decided(const struct watch_look *k)
{
	const struct watch *w = k->w;

	return k->exact ? k->sum.memory > w->memory_max
			: w->tasks_max && k->sum.tasks > w->tasks_max;
}

static void watch_list(struct watch_look *k)
{
	_Alignas(8) char data[8192];
	int seen = 0;
	long n;

	if (lseek(k->w->procfd, 0, SEEK_SET) < 0)
		return;
	while ((n = syscall(SYS_getdents64, k->w->procfd, data, sizeof(data))) > 0)
		for (long at = 0; at < n;) {
			const struct fd_entry *d = (const void *)(data + at);

			watch_take(k, d->name);
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
			sum = watch_add(sum, times(f.f_blocks - f.f_bfree, (uint64_t)f.f_bsize));
		/* An empty file is memory as well. */
		if (f.f_files > f.f_ffree)
			sum = watch_add(sum, times(f.f_files - f.f_ffree, INODE_BYTES));
	}
	return sum;
}

enum watch_verdict watch_look(const struct watch *w, struct watch_usage *ret)
{
	struct watch_look k = { .w = w, .page = (uint64_t)sysconf(_SC_PAGESIZE) };
	uint64_t files = watch_add(in_tmpfs(w), w->kernel);

	k.sum.memory = watch_add(files, w->held);
	watch_list(&k);
	if (w->memory_max && k.sum.memory > w->memory_max && !decided(&k)) {
		k.exact = true;
		k.sum.memory = files;
		watch_list(&k);
		/* What is mapped of it has been counted. */
		if (w->held > k.mapped)
			k.sum.memory = watch_add(k.sum.memory, w->held - k.mapped);
	}
	*ret = k.sum;
	if (w->tasks_max && k.sum.tasks > w->tasks_max)
		return WATCH_TASKS;
	return w->memory_max && k.sum.memory > w->memory_max ? WATCH_MEMORY : WATCH_OK;
}
