/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/limits/disk.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>

#include "base/files/fd.h"
#include "base/files/folder.h"
#include "base/sys/clock.h"
#include "base/text/cleanup.h"
#include "base/text/num.h"

#define FREE_FLOOR ((uint64_t)64 << 20)
#define SLACK ((uint64_t)1 << 20) /* what a file system takes for itself */
#define LEAVING_US 45000          /* what a process may take between its memory and its end */
#define MOUNTS_MAX ((size_t)256 << 10)

/* What one look finds. */
struct disk_look {
	int procfd;
	const struct disk_pass *before;
	struct disk_pass *now;
	uint64_t grown;    /* by those seen before, and by init */
	uint64_t appeared; /* with those that were not */
	uint64_t gone;     /* what the vanished had */
	uint64_t unkept;   /* of those for whom there is no room on the list */
	enum disk_seen seen;
};

static uint64_t write_bytes(char *text)
{
	char *at = strstr(text, "\nwrite_bytes: "), *end;
	uint64_t n = 0;

	if (!at)
		return 0;
	at += strlen("\nwrite_bytes: ");
	end = strchr(at, '\n');
	if (end)
		*end = '\0';
	return num_count(at, &n) < 0 ? 0 : n;
}

/* "PID (NAME) STATE ...", and the name may hold anything. */
static bool has_ended(int procfd, const char *task)
{
	char path[96], text[512];
	const char *behind;

	(void)snprintf(path, sizeof(path), "%.64s/stat", task);
	if (fd_read_file(procfd, path, text, sizeof(text)) <= 0)
		return true;
	behind = strrchr(text, ')');
	return !behind || behind[1] != ' ' || strchr("ZX", behind[2]);
}

/* One process or thread as it is now, given what it was; false when it is gone. */
static bool disk_look_at(int procfd, const char *task, const struct disk_process *was,
			 struct disk_process *now)
{
	char path[96], text[512];
	ssize_t r;

	(void)snprintf(path, sizeof(path), "%.64s/io", task);
	r = fd_read_file(procfd, path, text, sizeof(text));
	now->bytes = was ? was->bytes : 0;
	if (r > 0)
		now->bytes = write_bytes(text);
	else if (r == -EACCES || r == -EPERM)
		now->headless = has_ended(procfd, task);
	if (r <= 0 && !now->headless)
		now->hidden = was && was->hidden ? was->hidden : clock_us();
	return r > 0 || r == -EACCES || r == -EPERM;
}

/* The entry of that id in the look before; *at moves on with ascending ids. */
static const struct disk_process *earlier(const struct disk_list *l, size_t *at, int id)
{
	while (*at < l->n && l->v[*at].pid < id)
		(*at)++;
	return *at < l->n && l->v[*at].pid == id ? &l->v[*at] : NULL;
}

static const struct disk_process *earlier_thread(const struct disk_list *l, int id)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].pid == id)
			return &l->v[i];
	return NULL;
}

static bool disk_keep(struct disk_list *l, const struct disk_process *p)
{
	if (l->n == DISK_SEEN)
		return false;
	l->v[l->n++] = *p;
	return true;
}

static uint64_t disk_more(uint64_t now, uint64_t was)
{
	return now > was ? now - was : 0;
}

static bool disk_is_id(const char *name)
{
	return name[0] >= '1' && name[0] <= '9';
}

static void note_hidden(struct disk_look *k, const struct disk_process *is)
{
	if (is->hidden && k->seen != DISK_CLOSED)
		k->seen = clock_us() - is->hidden >= LEAVING_US ? DISK_CLOSED : DISK_HIDDEN;
}

/* What the threads of a process have written since the look before. The first has ended, and with
 * it the file that speaks for all. */
static uint64_t by_threads(struct disk_look *k, const char *pid, const struct disk_process *was)
{
	bool known = was && was->headless;
	uint64_t grown = 0, all = 0;
	CLEANUP(fd) int fd = -1;
	struct folder f;
	char path[96];

	(void)snprintf(path, sizeof(path), "%.32s/task", pid);
	fd = openat(k->procfd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	folder_begin(&f, fd);
	for (const struct fd_entry *e; (e = folder_next(&f));) {
		struct disk_process is = { .pid = (int)strtol(e->name, NULL, 10) };
		const struct disk_process *old = earlier_thread(&k->before->threads, is.pid);

		(void)snprintf(path, sizeof(path), "%.32s/task/%.32s", pid, e->name);
		if (!disk_is_id(e->name) || strcmp(e->name, pid) == 0 ||
		    !disk_look_at(k->procfd, path, old, &is))
			continue;
		note_hidden(k, &is);
		all += is.bytes;
		grown += disk_more(is.bytes, old ? old->bytes : 0);
		if (!disk_keep(&k->now->threads, &is))
			k->seen = DISK_CLOSED;
	}
	/* Until then they were counted with their process. */
	return known || !was ? grown : disk_more(all, was->bytes);
}

static void disk_count(struct disk_look *k, const char *pid, const struct disk_process *was,
		       struct disk_process *is)
{
	note_hidden(k, is);
	if (is->headless)
		is->bytes += by_threads(k, pid, was);
	if (!disk_keep(&k->now->processes, is)) {
		k->unkept += is->bytes;
		return;
	}
	if (was)
		k->grown += disk_more(is->bytes, was->bytes);
	else
		k->appeared += is->bytes;
}

/* Those that are not listed any more. Both lists ascend. */
static uint64_t vanished(const struct disk_list *before, const struct disk_list *now)
{
	uint64_t sum = 0;
	size_t at = 0;

	for (size_t i = 0; i < before->n; i++)
		if (!earlier(now, &at, before->v[i].pid))
			sum += before->v[i].bytes;
	return sum;
}

/* Adds what all have written since the look before. */
static enum disk_seen disk_written(struct disk *d, int procfd, uint64_t *unkept)
{
	struct disk_look k = { .procfd = procfd,
			       .before = &d->passes[d->turn % 2],
			       .now = &d->passes[(d->turn + 1) % 2] };
	CLEANUP(fd) int fd = openat(procfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct folder f;
	size_t at = 0;

	d->turn++;
	k.now->processes.n = k.now->threads.n = 0;
	folder_begin(&f, fd);
	for (const struct fd_entry *e; (e = folder_next(&f));) {
		struct disk_process is = { .pid = (int)strtol(e->name, NULL, 10) };
		const struct disk_process *was;

		if (!disk_is_id(e->name) || (!d->with_init && is.pid == 1))
			continue;
		was = earlier(&k.before->processes, &at, is.pid);
		if (disk_look_at(procfd, e->name, was, &is))
			disk_count(&k, e->name, was, &is);
	}
	k.grown += disk_more(d->reaped, d->known);
	d->known = d->reaped;
	k.gone = vanished(&k.before->processes, &k.now->processes);
	d->total += k.appeared + disk_more(k.grown, k.gone + d->owed);
	d->owed = disk_more(k.gone + d->owed, k.grown);
	*unkept = k.unkept;
	return k.seen;
}

static uint64_t disk_room(const struct disk *d)
{
	struct statvfs v;

	return fstatvfs(d->fd, &v) < 0 ? UINT64_MAX : (uint64_t)v.f_bavail * v.f_frsize;
}

/* Is there one mount of that file system, the whole of it, here? A line of the list begins "ID
 * PARENT MAJOR:MINOR ROOT PLACE"; blanks in it are escaped. */
static bool is_alone(int fd)
{
	char *list = malloc(MOUNTS_MAX), device[32], *at = list;
	bool whole = false;
	int places = 0;
	struct stat st;
	ssize_t n = list ? fd_read_file(AT_FDCWD, "/proc/self/mountinfo", list, MOUNTS_MAX) : -1;

	if (n > 0 && (size_t)n < MOUNTS_MAX - 1 && fstat(fd, &st) == 0) {
		(void)snprintf(device, sizeof(device), "%u:%u", major(st.st_dev), minor(st.st_dev));
		for (char *line; (line = strsep(&at, "\n")) && *line;) {
			const char *field[4];

			for (size_t i = 0; i < ARRAY_LEN(field); i++)
				field[i] = strsep(&line, " ");
			if (!field[3] || strcmp(field[2], device) != 0)
				continue;
			places++;
			whole = strcmp(field[3], "/") == 0;
		}
	}
	free(list);
	return places == 1 && whole;
}

/* Its own file system is one that begins with it. */
static bool is_top(int fd)
{
	struct stat st, above;

	return fstat(fd, &st) == 0 && fstatat(fd, "..", &above, 0) == 0 &&
	       st.st_dev != above.st_dev;
}

void disk_begin(struct disk *d)
{
	d->room = disk_room(d);
	d->alone = is_top(d->fd) && is_alone(d->fd);
	d->begun = true;
}

enum disk_seen disk_look(struct disk *d, int procfd, uint64_t limit)
{
	uint64_t left = disk_room(d), unkept = 0, lost;
	enum disk_seen seen;

	if (!d->begun)
		disk_begin(d);
	if (!d->passes)
		d->passes = calloc(2, sizeof(*d->passes));
	if (!d->passes || left < FREE_FLOOR)
		return DISK_OVER;
	seen = disk_written(d, procfd, &unkept);
	lost = disk_more(d->room, left);
	d->hurry = lost > d->total + SLACK;
	if (d->total > limit || unkept > limit - d->total)
		return DISK_OVER;
	return d->alone && lost > limit + SLACK ? DISK_OVER : seen;
}

void disk_done(struct disk *d)
{
	d->fd = fd_close(d->fd);
	free(d->passes);
	d->passes = NULL;
}
