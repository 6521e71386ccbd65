/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/segments.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "audit/entry.h"

enum { SEGMENTS_MAX = 1 << 20, WINDOW = 4 * ENTRY_LINE_MAX };

/* --- which there are --- */

/* "000001.jsonl": six digits or more. */
static bool segment_number(const char *name, uint64_t *ret)
{
	size_t n = strspn(name, "0123456789");
	uint64_t v = 0;

	if (n < 6 || n > 18 || strcmp(name + n, ".jsonl") != 0)
		return false;
	for (size_t i = 0; i < n; i++)
		v = v * 10 + (uint64_t)(name[i] - '0');
	*ret = v;
	return true;
}

static int ascending(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static int add(struct segments *s, uint64_t number)
{
	uint64_t *more;

	if (s->count >= SEGMENTS_MAX)
		return -EFBIG;
	if ((s->count & (s->count - 1)) == 0) {
		more = realloc(s->numbers, (s->count ? s->count * 2 : 1) * sizeof(*more));
		if (!more)
			return -ENOMEM;
		s->numbers = more;
	}
	s->numbers[s->count++] = number;
	return 0;
}

static int collect(DIR *d, struct segments *s)
{
	uint64_t number;
	int r = 0;

	errno = 0;
	for (struct dirent *entry; r == 0 && (entry = readdir(d)); errno = 0)
		if (segment_number(entry->d_name, &number))
			r = add(s, number);
	return r < 0 ? r : -errno;
}

static void cleanup_dir(DIR **d)
{
	if (*d)
		(void)closedir(*d);
}

int segments_list(int dirfd, struct segments *ret, struct err *e)
{
	CLEANUP(segments) struct segments s = { 0 };
	CLEANUP(dir) DIR *d = NULL;
	int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r;

	d = fd < 0 ? NULL : fdopendir(fd);
	if (!d) {
		(void)fd_close(fd);
		return err_sys(e, "cannot list the record's folder");
	}
	r = collect(d, &s);
	if (r < 0) {
		errno = -r;
		return err_sys(e, "cannot list the record's folder");
	}
	if (s.count)
		qsort(s.numbers, s.count, sizeof(*s.numbers), ascending);
	*ret = s;
	s.numbers = NULL;
	return 0;
}

void segments_done(struct segments *s)
{
	free(s->numbers);
	s->numbers = NULL;
	s->count = 0;
}

bool segments_next(const struct segments *s, uint64_t after, uint64_t *ret)
{
	for (size_t i = 0; i < s->count; i++)
		if (s->numbers[i] > after) {
			*ret = s->numbers[i];
			return true;
		}
	return false;
}

int segment_open(int dirfd, uint64_t number)
{
	char name[40];
	int fd;

	(void)snprintf(name, sizeof(name), "%06" PRIu64 ".jsonl", number);
	fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

/* --- what stands in one --- */

struct lines {
	int fd;
	uint64_t at;       /* file offset of window[from] */
	size_t from, fill; /* the part of the window that is read and not yet handed out */
	char window[WINDOW];
};

struct lines *lines_new(int fd, uint64_t at)
{
	struct lines *l = malloc(sizeof(*l));

	if (l) {
		l->fd = fd;
		l->at = at;
		l->from = l->fill = 0;
	}
	return l;
}

struct lines *lines_free(struct lines *l)
{
	free(l);
	return NULL;
}

uint64_t lines_at(const struct lines *l)
{
	return l->at;
}

/* Reads on behind what the window holds; 0 at the end of the file. */
static ssize_t more(struct lines *l)
{
	ssize_t n;

	memmove(l->window, l->window + l->from, l->fill - l->from);
	l->fill -= l->from;
	l->from = 0;
	do
		n = pread(l->fd, l->window + l->fill, sizeof(l->window) - l->fill,
			  (off_t)(l->at + l->fill));
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	l->fill += (size_t)n;
	return n;
}

/* A window without a newline is no record: passes over it, up to the newline or the file's end. */
static int pass_over(struct lines *l)
{
	ssize_t n;

	for (;;) {
		const char *end = memchr(l->window + l->from, '\n', l->fill - l->from);
		size_t len = end ? (size_t)(end - l->window) + 1 - l->from : l->fill - l->from;

		l->at += len;
		l->from += len;
		if (end)
			return 1;
		n = more(l);
		if (n <= 0)
			return (int)n;
	}
}

int lines_next(struct lines *l, const char **p, size_t *n)
{
	size_t seen = 0;

	for (;;) {
		const char *start = l->window + l->from;
		const char *end = memchr(start + seen, '\n', l->fill - l->from - seen);
		ssize_t got;

		if (end) {
			*p = start;
			*n = (size_t)(end - start);
			l->from += *n + 1;
			l->at += *n + 1;
			return 1;
		}
		seen = l->fill - l->from;
		*p = NULL;
		*n = 0;
		if (seen == sizeof(l->window))
			return pass_over(l);
		got = more(l);
		if (got <= 0) {
			/* What is there may be cut off and written anew: it is read again. */
			l->fill = l->from;
			return (int)got;
		}
	}
}
