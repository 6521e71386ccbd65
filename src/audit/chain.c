/* SPDX-License-Identifier: Apache-2.0 */
/* audit/chain.c - under the lock: head read -> end found and mended -> records written -> [synced]
 * -> head written.
 *
 * The head is written last, and with `sync` after the records are on disk: it never speaks of
 * records that could still be lost. Nothing behind it was acknowledged: records there that continue
 * the chain are taken over, the rest is cut off. If there is less than the head says, the rest is
 * gone for good: writing goes on in a new segment behind the number the head knew, a log.lost
 * record says so, and verify will never be silent about the gap. */
#include "audit/chain.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "audit/dir.h"
#include "audit/log.h"
#include "base/sys/clock.h"

#define OUT_MAX ((size_t)256 << 20)
#define LOCK_SPIN_US 60
#define ADOPT_MAX ((size_t)64 << 20)

/* --- bodies --- */

int bodies_add(struct bodies *b, const struct record *r, const struct audit_key *k)
{
	if (b->n == b->room) {
		size_t room = b->room ? 2 * b->room : 8;
		size_t *more = realloc(b->ends, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		b->ends = more;
		b->room = room;
	}
	b->text.max = OUT_MAX / 2;
	record_body(r, k, &b->text);
	if (b->text.failed)
		return -ENOMEM;
	b->ends[b->n++] = b->text.len;
	return 0;
}

void bodies_clear(struct bodies *b)
{
	b->n = b->text.len = 0;
	b->text.failed = false;
}

void bodies_done(struct bodies *b)
{
	buf_done(&b->text);
	free(b->ends);
	*b = (struct bodies){ 0 };
}

/* --- errors --- */

static int hint_at(int code, struct err *e)
{
	if (code == ENOSPC || code == EDQUOT)
		return err_hint(e, "free some space there, or name another folder as audit.dir");
	return err_hint(e, "see to that folder, or name another one as audit.dir");
}

static int cannot(struct chain *c, int code, const char *what, struct err *e)
{
	(void)err_set(e, ERR_UNAVAILABLE, code, "cannot %s the record in '%.200s': %s", what,
		      c->path, strerror(code));
	return hint_at(code, e);
}

static int chain_broken(struct chain *c, const char *why, struct err *e)
{
	return err_refuse(e, ERR_UNAVAILABLE, EBADMSG,
			  "brig audit verify says more; move the folder away to begin a new record",
			  "the record in '%.200s' cannot be continued: %s", c->path, why);
}

/* --- the end of the record --- */

static int use_segment(struct chain *c, uint32_t number, int flags, struct err *e)
{
	int fd;

	if (c->segment_fd >= 0 && c->segment == number)
		return 0;
	fd = audit_segment_open(c->dir, number, O_RDWR | flags);
	if (fd < 0)
		return cannot(c, -fd, "open", e);
	(void)fd_close(c->segment_fd);
	c->segment_fd = fd;
	c->segment = number;
	return 0;
}

/* Moves h over every line from its offset on that is the next one of the chain. */
static void chain_walk(const struct chain *c, const char *p, size_t n, struct head *h)
{
	const char *end;
	struct line l;

	for (; (end = memchr(p, '\n', n)); n -= (size_t)(end + 1 - p), p = end + 1) {
		size_t len = (size_t)(end - p);

		if (line_parse(p, len, &l) < 0 || l.at.seq != h->seq + 1 ||
		    memcmp(l.at.prev, h->mac, sizeof(h->mac)) != 0 || !line_genuine(p, &l, &c->key))
			return;
		h->seq = l.at.seq;
		h->time_us = l.at.time_us;
		h->offset += len + 1;
		memcpy(h->mac, l.mac, sizeof(h->mac));
	}
}

/* The bytes behind the head of the open segment: whole records that chain are taken over, the rest
 * is cut off. None of it was acknowledged. */
static int mend_tail(struct chain *c, uint64_t size, struct err *e)
{
	struct head *h = &c->state.head;
	size_t n = size - h->offset > ADOPT_MAX ? ADOPT_MAX : (size_t)(size - h->offset);
	CLEANUP(mem) char *text = malloc(n);
	uint64_t was = h->seq;
	ssize_t got = text ? pread(c->segment_fd, text, n, (off_t)h->offset) : -1;

	if (got < 0)
		return text ? cannot(c, errno, "read", e) : err_nomem(e);
	chain_walk(c, text, (size_t)got, h);
	c->mending.adopted += h->seq - was;
	c->mending.cut += size - h->offset;
	if (size > h->offset && ftruncate(c->segment_fd, (off_t)h->offset) < 0)
		return cannot(c, errno, "mend", e);
	return 0;
}

/* Goes on in the next segment. If a writer died after making it, what it wrote there is behind the
 * head like any other tail. */
static int next_segment(struct chain *c, struct err *e)
{
	struct head *h = &c->state.head;
	struct stat st;

	if (h->segment == UINT32_MAX)
		return chain_broken(c, "there is no number left for another segment", e);
	if (use_segment(c, h->segment + 1, O_CREAT, e) < 0)
		return -e->code;
	if (c->sync && fsync(c->dir) < 0)
		return cannot(c, errno, "write", e);
	if (fstat(c->segment_fd, &st) < 0)
		return cannot(c, errno, "read", e);
	h->segment++;
	h->offset = 0;
	return st.st_size ? mend_tail(c, (uint64_t)st.st_size, e) : 0;
}

static int find_end(struct chain *c, struct err *e)
{
	struct head *h = &c->state.head;
	struct stat st = { 0 };
	int r = use_segment(c, h->segment, h->offset ? 0 : O_CREAT, e);

	if (r < 0 && r != -ENOENT)
		return r;
	if (r == 0 && fstat(c->segment_fd, &st) < 0)
		return cannot(c, errno, "read", e);
	if (r == -ENOENT || (uint64_t)st.st_size < h->offset) {
		err_clear(e);
		c->mending.lost = "the log is shorter than its head says";
		return next_segment(c, e);
	}
	if ((uint64_t)st.st_size > h->offset)
		return mend_tail(c, (uint64_t)st.st_size, e);
	return h->offset >= c->segment_bytes ? next_segment(c, e) : 0;
}

/* Segments, and no head: a process that removed it may have removed records, too. Goes on behind
 * the last record there is. */
static int without_head(struct chain *c, struct err *e)
{
	CLEANUP(mem) uint32_t *numbers = NULL;
	CLEANUP(fd) int fd = -1;
	CLEANUP(mem) char *text = NULL;
	struct head h = { 0 };
	const char *p, *end;
	struct stat st;
	size_t n;
	struct line l;

	if (audit_segments(c->dir, &numbers, &n, e) < 0)
		return -e->code;
	c->state.head = (struct head){ .segment = 1 };
	if (!n) {
		int r = head_write(c->head_fd, &c->key, &c->state, &(struct head){ .segment = 1 });

		return r < 0 ? cannot(c, -r, "begin", e) : 0;
	}
	fd = audit_segment_open(c->dir, numbers[n - 1], O_RDONLY);
	if (fd < 0 || fstat(fd, &st) < 0)
		return cannot(c, fd < 0 ? -fd : errno, "read", e);
	text = malloc((size_t)st.st_size + 1);
	if (!text)
		return err_nomem(e);
	if (pread(fd, text, (size_t)st.st_size, 0) != st.st_size)
		return cannot(c, EIO, "read", e);
	for (p = text; (end = memchr(p, '\n', (size_t)(text + st.st_size - p))); p = end + 1)
		if (line_parse(p, (size_t)(end - p), &l) == 0 && line_genuine(p, &l, &c->key)) {
			h.seq = l.at.seq;
			h.time_us = l.at.time_us;
			memcpy(h.mac, l.mac, sizeof(h.mac));
		}
	h.segment = numbers[n - 1];
	c->state.head = h;
	c->mending.lost = "the head was gone";
	return next_segment(c, e);
}

static int catch_up(struct chain *c, struct err *e)
{
	int r = head_follow(c->head_fd, &c->key, &c->state);

	c->mending = (struct mending){ .head_damaged = c->state.damaged != 0 };
	if (r == -ENOENT)
		return without_head(c, e) < 0 ? -e->code : find_end(c, e);
	if (r == -EINVAL && c->state.foreign)
		return chain_broken(c, "its head was signed with another key", e);
	if (r == -EINVAL)
		return chain_broken(c, "its head is damaged", e);
	return r < 0 ? cannot(c, -r, "read", e) : find_end(c, e);
}

/* --- open, lock --- */

int chain_open(struct chain *c, const char *dir, struct err *e)
{
	char path[PATH_MAX];

	c->dir = c->head_fd = c->segment_fd = -1;
	c->out.max = OUT_MAX;
	c->dir = audit_dir_open(dir, true, path, sizeof(path), e);
	if (c->dir < 0)
		return -e->code;
	c->path = strdup(path);
	if (!c->path)
		return err_nomem(e);
	if (key_make(c->dir, &c->key, e) < 0) {
		(void)err_wrap(e, "the record in '%.200s'", c->path);
		return e->hint[0] ? -e->code : hint_at(e->code, e);
	}
	c->head_fd = audit_file_open(c->dir, "head", O_RDWR | O_CREAT);
	return c->head_fd < 0 ? cannot(c, -c->head_fd, "open", e) : 0;
}

void chain_done(struct chain *c)
{
	c->segment_fd = fd_close(c->segment_fd);
	c->head_fd = fd_close(c->head_fd);
	c->dir = fd_close(c->dir);
	buf_done(&c->out);
	free(c->path);
	explicit_bzero(&c->key, sizeof(c->key));
}

/* An append takes some twenty microseconds. Who goes to sleep for one is woken into a queue behind
 * everybody else who is ready to run, milliseconds where many begin at once: so it tries again for
 * a while first. */
static int take_lock(int fd)
{
	struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	int how = F_OFD_SETLK;
	uint64_t until = 0;

	while (fcntl(fd, how, &whole) < 0) {
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN && errno != EACCES)
			return -errno;
		if (!until)
			until = clock_us() + LOCK_SPIN_US;
		else if (clock_us() >= until)
			how = F_OFD_SETLKW;
	}
	return 0;
}

int chain_lock(struct chain *c, struct err *e)
{
	int r = take_lock(c->head_fd);

	if (r < 0)
		return cannot(c, -r, "lock", e);
	if (catch_up(c, e) == 0)
		return 0;
	chain_unlock(c);
	return -e->code;
}

void chain_unlock(struct chain *c)
{
	struct flock whole = { .l_type = F_UNLCK, .l_whence = SEEK_SET };

	(void)fcntl(c->head_fd, F_OFD_SETLK, &whole);
}

/* --- append --- */

static void chain_put_line(struct chain *c, const char *body, size_t n, uint64_t now,
			   struct head *h)
{
	struct record_link at = { .seq = h->seq + 1,
				  .time_us = now > h->time_us ? now : h->time_us,
				  .clock_back = now < h->time_us };

	memcpy(at.prev, h->mac, sizeof(at.prev));
	record_line(&at, body, n, &c->key, &c->out, h->mac);
	h->seq = at.seq;
	h->time_us = at.time_us;
}

/* What was mended goes on the record before anything else does. */
static int put_mending(struct chain *c, uint64_t now, struct head *h)
{
	const struct mending *m = &c->mending;
	struct bodies b = { 0 };
	struct record r;
	size_t from = 0;
	int failed = 0;

	if (m->lost) {
		record_init(&r, EVENT_LOG_LOST);
		record_number(&r, "last", (int64_t)h->seq);
		record_text(&r, "reason", m->lost);
		failed |= bodies_add(&b, &r, &c->key);
	}
	if (m->adopted || m->cut || m->head_damaged) {
		record_init(&r, EVENT_LOG_REPAIR);
		record_number(&r, "adopted", (int64_t)m->adopted);
		record_number(&r, "cut_bytes", (int64_t)m->cut);
		record_text(&r, "reason",
			    m->head_damaged
				    ? "a slot of the head was damaged"
				    : "a writer ended before its records were acknowledged");
		failed |= bodies_add(&b, &r, &c->key);
	}
	for (size_t i = 0; i < b.n; from = b.ends[i++])
		chain_put_line(c, b.text.data + from, b.ends[i] - from, now, h);
	bodies_done(&b);
	return failed ? -ENOMEM : 0;
}

static int write_at(int fd, const char *p, size_t n, uint64_t offset)
{
	while (n) {
		ssize_t w = pwrite(fd, p, n, (off_t)offset);

		if (w < 0 && errno == EINTR)
			continue;
		if (w <= 0)
			return w < 0 ? -errno : -EIO;
		p += w;
		offset += (uint64_t)w;
		n -= (size_t)w;
	}
	return 0;
}

/* Records first, head last. On an error nothing stays: what a failed sync left in memory must not
 * be taken for durable later. */
static int commit(struct chain *c, struct head *h, struct err *e)
{
	uint64_t from = c->state.head.offset;
	int r = write_at(c->segment_fd, c->out.data, c->out.len, from);

	if (r == 0 && c->sync && fdatasync(c->segment_fd) < 0)
		r = -errno;
	h->offset = from + c->out.len;
	if (r == 0)
		r = head_write(c->head_fd, &c->key, &c->state, h);
	if (r == 0) {
		c->mending = (struct mending){ 0 };
		return 0;
	}
	(void)!ftruncate(c->segment_fd, (off_t)from);
	return cannot(c, -r, "write", e);
}

int chain_append(struct chain *c, const struct bodies *b, struct err *e)
{
	uint64_t now = clock_wall_us();
	struct head h;
	size_t from = 0;

	if (c->state.head.offset >= c->segment_bytes && next_segment(c, e) < 0)
		return -e->code;
	h = c->state.head;
	c->out.len = 0;
	c->out.failed = false;
	if (put_mending(c, now, &h) < 0)
		return err_nomem(e);
	for (size_t i = 0; i < b->n; from = b->ends[i++])
		chain_put_line(c, b->text.data + from, b->ends[i] - from, now, &h);
	if (c->out.failed)
		return err_nomem(e);
	return c->out.len ? commit(c, &h, e) : 0;
}

int chain_rotate(struct chain *c, struct err *e)
{
	struct bodies none = { 0 };
	struct head h;
	int r;

	if (chain_append(c, &none, e) < 0 || next_segment(c, e) < 0)
		return -e->code;
	h = c->state.head;
	r = head_write(c->head_fd, &c->key, &c->state, &h);
	return r < 0 ? cannot(c, -r, "write", e) : 0;
}
