/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/reader.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "audit/dir.h"
#include "audit/record.h"

#define CHUNK ((size_t)1 << 20)

struct reader {
	int dir, head_fd, fd;
	uint32_t segment; /* that fd is; 0: none */
	const struct audit_key *key;
	struct head head, base;
	struct position next; /* of the line to be read; seq 0: whatever is there */
	uint64_t following;   /* number behind the last one read */
	char *text;           /* CHUNK + RECORD_LINE_MAX */
	uint64_t text_offset; /* of text in the segment */
	size_t text_n;
	char *one; /* for reader_line_at */
	char path[4096];
};

static int read_base(struct reader *r)
{
	CLEANUP(fd) int fd = openat(r->dir, "base", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	char slot[HEAD_SLOT];

	r->base = (struct head){ 0 };
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	if (pread(fd, slot, sizeof(slot), 0) != (ssize_t)sizeof(slot))
		return -EBADMSG;
	return head_parse(slot, r->key, &r->base) < 0 ? -EBADMSG : 0;
}

int reader_refresh(struct reader *r, struct err *e)
{
	uint64_t was = r->head.seq, removed = r->base.seq;
	struct head_state s;
	int got = head_read(r->head_fd, r->key, &s);

	if (got == -ENOENT)
		s.head = (struct head){ .segment = 1 };
	else if (got < 0)
		return err_refuse(e, ERR_UNAVAILABLE, -got, "brig audit verify says more",
				  "the head of the record in '%.200s' cannot be read", r->path);
	got = read_base(r);
	if (got < 0)
		return err_set(e, ERR_UNAVAILABLE, -got, "'%.200s/base' cannot be read", r->path);
	r->head = s.head;
	if (r->base.seq != removed) { /* the files may be others now */
		r->fd = fd_close(r->fd);
		if (r->next.segment && !r->next.seq)
			r->next.seq = r->following;
	}
	return r->head.seq > was;
}

int reader_open(const char *dir, const struct audit_key *k, struct reader **ret, struct err *e)
{
	CLEANUP(reader) struct reader *r = calloc(1, sizeof(*r));

	if (!r)
		return err_nomem(e);
	r->dir = r->head_fd = r->fd = -1;
	r->key = k;
	r->text = malloc(CHUNK + RECORD_LINE_MAX);
	r->one = malloc(RECORD_LINE_MAX);
	if (!r->text || !r->one)
		return err_nomem(e);
	r->dir = audit_dir_open(dir, false, r->path, sizeof(r->path), e);
	if (r->dir < 0)
		return -e->code;
	r->head_fd = openat(r->dir, "head", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY);
	if (r->head_fd < 0) {
		(void)err_sys(e, "there is no record in '%.200s'", r->path);
		return -e->code;
	}
	if (reader_refresh(r, e) < 0)
		return -e->code;
	*ret = TAKE_PTR(r);
	return 0;
}

struct reader *reader_free(struct reader *r)
{
	if (!r)
		return NULL;
	(void)fd_close(r->fd);
	(void)fd_close(r->head_fd);
	(void)fd_close(r->dir);
	free(r->text);
	free(r->one);
	free(r);
	return NULL;
}

int reader_dirfd(const struct reader *r)
{
	return r->dir;
}

const char *reader_dir(const struct reader *r)
{
	return r->path;
}

struct head reader_head(const struct reader *r)
{
	return r->head;
}

struct head reader_base(const struct reader *r)
{
	return r->base;
}

static int stale(struct reader *r, struct err *e)
{
	r->next = (struct position){ 0 };
	r->segment = 0;
	r->fd = fd_close(r->fd);
	return err_set(e, ERR_INTERNAL, ESTALE, "records of '%.200s' were removed meanwhile",
		       r->path);
}

/* Retention removes the oldest first: a segment that is gone while older ones are there was taken
 * by somebody else, and beginning anew would not help. */
static int missing(struct reader *r, uint32_t number, struct err *e)
{
	CLEANUP(mem) uint32_t *numbers = NULL;
	size_t n = 0;

	if (audit_segments(r->dir, &numbers, &n, e) < 0)
		return -e->code;
	if (!n || numbers[0] > number)
		return stale(r, e);
	return err_refuse(e, ERR_UNAVAILABLE, EBADMSG, "brig audit verify says more",
			  "segment %06u of '%.200s' is missing", number, r->path);
}

static int use_segment(struct reader *r, uint32_t number, struct err *e)
{
	int fd;

	if (r->segment == number && r->fd >= 0)
		return 0;
	fd = audit_segment_open(r->dir, number, O_RDONLY);
	if (fd == -ENOENT)
		return missing(r, number, e);
	if (fd < 0)
		return err_errno(e, fd, "cannot open segment %u of '%.200s'", number, r->path);
	(void)fd_close(r->fd);
	r->fd = fd;
	r->segment = number;
	r->text_n = 0;
	return 0;
}

/* The oldest segment there is, which retention may have moved. */
static int go_to_oldest(struct reader *r, struct err *e)
{
	CLEANUP(mem) uint32_t *numbers = NULL;
	size_t n;

	if (audit_segments(r->dir, &numbers, &n, e) < 0)
		return -e->code;
	r->next = (struct position){ .segment = n ? numbers[0] : r->head.segment };
	r->text_n = 0;
	return 0;
}

/* How far this segment may be read: to the head's offset in the head's own, to its end in others.
 */
static int segment_limit(struct reader *r, uint64_t *limit, struct err *e)
{
	struct stat st;

	if (r->next.segment == r->head.segment) {
		*limit = r->head.offset;
		return 0;
	}
	if (fstat(r->fd, &st) < 0)
		return err_sys(e, "cannot look at a segment of '%.200s'", r->path);
	*limit = (uint64_t)st.st_size;
	return 0;
}

/* A whole line at `offset` within the buffer, filling it as needed: 1, 0 (none before the limit).
 */
static int line_in_buffer(struct reader *r, uint64_t limit, const char **line, size_t *n,
			  struct err *e)
{
	uint64_t at = r->next.offset;

	for (;;) {
		uint64_t have = r->text_offset + r->text_n;
		const char *p, *end;
		size_t room;
		ssize_t got;

		if (at < r->text_offset || at > have || !r->text_n) {
			r->text_offset = have = at;
			r->text_n = 0;
		}
		p = r->text + (at - r->text_offset);
		end = memchr(p, '\n', (size_t)(have - at));
		if (end) {
			*line = p;
			*n = (size_t)(end - p);
			return 1;
		}
		if (have >= limit)
			return 0;
		if (have - at >= RECORD_LINE_MAX)
			return err_set(e, ERR_UNAVAILABLE, EBADMSG, "a line without an end");
		memmove(r->text, p, (size_t)(have - at));
		r->text_n = (size_t)(have - at);
		r->text_offset = at;
		room = CHUNK + RECORD_LINE_MAX - r->text_n;
		if (room > limit - have)
			room = (size_t)(limit - have);
		got = pread(r->fd, r->text + r->text_n, room, (off_t)have);
		if (got < 0)
			return err_sys(e, "cannot read '%.200s'", r->path);
		if (got == 0)
			return err_set(e, ERR_UNAVAILABLE, EBADMSG,
				       "'%.200s' is shorter than its head says", r->path);
		r->text_n += (size_t)got;
	}
}

int reader_seek(struct reader *r, const struct position *at, struct err *e)
{
	struct position found = { 0 };
	const char *line;
	size_t n;
	int got;

	if (!at->seq)
		return go_to_oldest(r, e);
	if (at->seq == r->head.seq + 1 && at->segment == r->head.segment &&
	    at->offset == r->head.offset) {
		r->next = *at;
		return 0;
	}
	r->next = *at;
	got = reader_next(r, &line, &n, &found, e);
	if (got < 0)
		return got;
	if (!got || found.seq != at->seq)
		return stale(r, e);
	r->next = *at;
	return 0;
}

int reader_next(struct reader *r, const char **line, size_t *n, struct position *at, struct err *e)
{
	struct line l;
	uint64_t limit = 0;
	int got;

	*line = NULL;
	*n = 0;
	if (!r->next.segment && go_to_oldest(r, e) < 0)
		return -e->code;
	for (;; r->next.segment++, r->next.offset = 0) {
		if (r->next.segment > r->head.segment)
			return 0;
		if (r->next.segment == r->head.segment && r->next.offset >= r->head.offset)
			return 0;
		if (use_segment(r, r->next.segment, e) < 0 || segment_limit(r, &limit, e) < 0)
			return -e->code;
		got = r->next.offset < limit ? line_in_buffer(r, limit, line, n, e) : 0;
		if (got)
			break;
	}
	if (got < 0)
		return got;
	if (line_parse(*line, *n, &l) < 0)
		return err_refuse(e, ERR_UNAVAILABLE, EBADMSG, "brig audit verify says more",
				  "segment %u of '%.200s' has something else than a record at %llu",
				  r->next.segment, r->path, (unsigned long long)r->next.offset);
	if (r->next.seq && l.at.seq != r->next.seq)
		return stale(r, e);
	if (at)
		*at = (struct position){ l.at.seq, r->next.offset, r->next.segment };
	r->next.offset += *n + 1;
	r->next.seq = 0;
	r->following = l.at.seq + 1;
	return 1;
}

int reader_line_at(struct reader *r, const struct position *at, const char **line, size_t *n,
		   struct err *e)
{
	CLEANUP(fd) int fd = audit_segment_open(r->dir, at->segment, O_RDONLY);
	ssize_t got = fd < 0 ? -1 : pread(fd, r->one, RECORD_LINE_MAX, (off_t)at->offset);
	const char *end = got > 0 ? memchr(r->one, '\n', (size_t)got) : NULL;
	struct line l;

	if (!end || line_parse(r->one, (size_t)(end - r->one), &l) < 0 || l.at.seq != at->seq)
		return err_set(e, ERR_INTERNAL, ESTALE, "record %llu is not where it was",
			       (unsigned long long)at->seq);
	*line = r->one;
	*n = (size_t)(end - r->one);
	return 0;
}
