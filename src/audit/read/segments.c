/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/read/segments.h"

#include <fcntl.h>
#include <string.h>

#include "audit/dir.h"
#include "audit/read/entry.h"

enum { WINDOW = 4 * ENTRY_LINE_MAX };

int segments_list(int dirfd, struct segments *ret, struct err *e)
{
	return audit_segments(dirfd, &ret->numbers, &ret->count, e);
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
	if (number > UINT32_MAX)
		return -ENOENT;
	return audit_segment_open(dirfd, (uint32_t)number, O_RDONLY | O_NONBLOCK);
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
static ssize_t segments_more(struct lines *l)
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
		n = segments_more(l);
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
		got = segments_more(l);
		if (got <= 0) {
			/* What is there may be cut off and written anew: it is read again. */
			l->fill = l->from;
			return (int)got;
		}
	}
}
