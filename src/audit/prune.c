/* SPDX-License-Identifier: Apache-2.0 */
/* audit/prune.c - retention.
 *
 * Under the lock: the last record to go is found -> log.prune on the record -> `base` replaced ->
 * segments removed, and the one in which the cut lies written anew without its beginning. Ended in
 * between, `base` may call records removed that are still there: verify accepts that, and the next
 * prune removes them. The segment that takes appends is never rewritten: if the cut lies in it, a
 * new one is begun first. */
#include "audit/prune.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "audit/dir.h"
#include "base/files/fd.h"
#include "base/sys/clock.h"

struct prune_cut {
	struct head last; /* the last record to go; seq 0: none goes */
	uint64_t offset;  /* behind it, in its segment */
	uint64_t first;   /* number of the oldest record there is */
	uint64_t size;    /* of the segment it lies in */
	bool by_count;
	size_t index; /* of that segment in the list */
};

struct file {
	int fd;
	char *text;
	size_t n;
};

static void file_done(struct file *f)
{
	(void)fd_close(f->fd);
	free(f->text);
}

static int file_read(int dir, uint32_t number, uint64_t limit, struct file *f, struct err *e)
{
	struct stat st;

	f->fd = audit_segment_open(dir, number, O_RDONLY);
	if (f->fd < 0 || fstat(f->fd, &st) < 0)
		return err_errno(e, f->fd < 0 ? f->fd : errno,
				 "cannot read segment %06u of the record", number);
	f->n = (uint64_t)st.st_size > limit ? (size_t)limit : (size_t)st.st_size;
	f->text = malloc(f->n + 1);
	if (!f->text)
		return err_nomem(e);
	if (pread(f->fd, f->text, f->n, 0) != (ssize_t)f->n)
		return err_sys(e, "cannot read segment %06u of the record", number);
	return 0;
}

/* First record of a segment, without reading all of it: 1, 0 (none), -errno. */
static int first_of(int dir, uint32_t number, struct line *ret)
{
	CLEANUP(fd) int fd = audit_segment_open(dir, number, O_RDONLY);
	CLEANUP(mem) char *text = malloc(RECORD_LINE_MAX);
	ssize_t n = fd >= 0 && text ? pread(fd, text, RECORD_LINE_MAX, 0) : -1;
	const char *end;

	if (!text)
		return -ENOMEM;
	if (n < 0)
		return fd < 0 ? fd : -EIO;
	end = memchr(text, '\n', (size_t)n);
	return end && line_parse(text, (size_t)(end - text), ret) == 0;
}

struct bound {
	uint64_t keep_from_seq, keep_from_us; /* what is older goes; 0: nothing */
};

static bool goes(const struct bound *b, const struct line *l)
{
	return l->at.seq < b->keep_from_seq || l->at.time_us < b->keep_from_us;
}

/* The last record of this segment that goes. */
static int cut_within(int dir, uint32_t number, uint64_t limit, const struct bound *b,
		      struct prune_cut *c, struct err *e)
{
	struct file f = { .fd = -1 };
	const char *end;
	struct line l;

	if (file_read(dir, number, limit, &f, e) < 0) {
		file_done(&f);
		return -e->code;
	}
	c->size = f.n;
	for (const char *p = f.text; (end = memchr(p, '\n', (size_t)(f.text + f.n - p)));
	     p = end + 1) {
		if (line_parse(p, (size_t)(end - p), &l) < 0 || !goes(b, &l))
			break;
		c->last = (struct head){ .seq = l.at.seq,
					 .segment = number,
					 .time_us = l.at.time_us };
		memcpy(c->last.mac, l.mac, sizeof(l.mac));
		c->offset = (uint64_t)(end + 1 - f.text);
		c->by_count = l.at.seq < b->keep_from_seq;
	}
	file_done(&f);
	return 0;
}

/* Where to cut. The cut lies in the last segment whose first record goes. */
static int find_cut(struct log *l, const struct bound *b, const uint32_t *numbers, size_t n,
		    struct prune_cut *c, struct err *e)
{
	struct head h = log_head_locked(l);
	bool any = false;
	struct line line;

	for (size_t i = 0; i < n && numbers[i] <= h.segment; i++) {
		int r = first_of(log_dirfd(l), numbers[i], &line);

		if (r < 0)
			return err_errno(e, r, "cannot read the record");
		if (r && !c->first)
			c->first = line.at.seq;
		if (r && !goes(b, &line))
			break;
		if (r) {
			c->index = i;
			any = true;
		}
	}
	if (!any)
		return 0;
	return cut_within(log_dirfd(l), numbers[c->index],
			  numbers[c->index] == h.segment ? h.offset : UINT64_MAX, b, c, e);
}

/* Writing a segment anew is worth it when most of it goes; otherwise the cut moves back to the end
 * of the segment before. */
static int move_back(int dir, const uint32_t *numbers, struct prune_cut *c, struct err *e)
{
	struct line first;
	int r;

	if (c->offset * 2 >= c->size)
		return 0;
	if (!c->index) {
		c->last.seq = 0;
		return 0;
	}
	r = first_of(dir, numbers[c->index], &first);
	if (r <= 0)
		return err_errno(e, r < 0 ? -r : EBADMSG, "cannot read the record");
	c->index--;
	c->last.seq = first.at.seq - 1;
	c->last.segment = numbers[c->index];
	memcpy(c->last.mac, first.at.prev, sizeof(first.at.prev));
	c->offset = c->size = 0;
	return 0;
}

static int prune_replace(int dir, const char *name, const void *p, size_t n, struct err *e)
{
	char fresh[64];
	CLEANUP(fd) int fd = -1;
	int r;

	(void)snprintf(fresh, sizeof(fresh), ".%s.new", name);
	(void)unlinkat(dir, fresh, 0);
	fd = openat(dir, fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	r = fd < 0 ? -errno : fd_write_all(fd, p, n);
	if (r == 0 && (fdatasync(fd) < 0 || renameat(dir, fresh, dir, name) < 0))
		r = -errno;
	if (r < 0)
		(void)unlinkat(dir, fresh, 0);
	return r < 0 ? err_errno(e, r, "cannot write '%s' of the record", name) : 0;
}

/* The segment with the cut in it, without its beginning. */
static int shorten(int dir, const struct prune_cut *c, struct err *e)
{
	char name[SEGMENT_NAME_SIZE];
	struct file f = { .fd = -1 };
	int r = file_read(dir, c->last.segment, UINT64_MAX, &f, e);

	audit_segment_name(c->last.segment, name);
	if (r == 0)
		r = prune_replace(dir, name, f.text + c->offset, f.n - (size_t)c->offset, e);
	file_done(&f);
	return r;
}

static int say_so(struct log *l, const struct prune_cut *c, const struct prune_options *o,
		  struct err *e)
{
	struct record r;

	record_init(&r, EVENT_LOG_PRUNE);
	record_number(&r, "last", (int64_t)c->last.seq);
	record_number(&r, "count", (int64_t)(c->last.seq - c->first + 1));
	record_text(&r, "reason", o->reason ? o->reason : c->by_count ? "count" : "age");
	return log_append_locked(l, &r, 1, e);
}

static int prune_carry_out(struct log *l, const struct prune_cut *c, const uint32_t *numbers,
			   const struct prune_options *o, struct prune_report *ret, struct err *e)
{
	bool whole = c->offset == c->size;
	int dir = log_dirfd(l);
	char slot[HEAD_SLOT], name[SEGMENT_NAME_SIZE];

	if (say_so(l, c, o, e) < 0)
		return -e->code;
	if (c->last.segment == log_head_locked(l).segment) {
		if (log_rotate_locked(l, e) < 0)
			return -e->code;
		whole = false; /* log.prune itself went there */
	}
	head_format(&c->last, log_key(l), slot);
	if (prune_replace(dir, "base", slot, sizeof(slot), e) < 0)
		return -e->code;
	for (size_t i = 0; i < c->index + whole; i++) {
		struct stat st;

		audit_segment_name(numbers[i], name);
		if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			ret->bytes += (uint64_t)st.st_size;
		if (unlinkat(dir, name, 0) < 0 && errno != ENOENT)
			return err_sys(e, "cannot remove '%s' of the record", name);
		ret->segments++;
	}
	if (!whole)
		ret->bytes += c->offset;
	return whole ? 0 : shorten(dir, c, e);
}

static struct bound bound_of(const struct prune_options *o, const struct head *h)
{
	struct bound b = { 0 };
	uint64_t now = o->now_us ? o->now_us : clock_wall_us();

	if (o->max_records && h->seq >= o->max_records)
		b.keep_from_seq = h->seq - o->max_records + 1;
	if (o->max_age_ms && now > o->max_age_ms * 1000)
		b.keep_from_us = now - o->max_age_ms * 1000;
	return b;
}

static int prune_locked(struct log *l, const struct prune_options *o, struct prune_report *ret,
			struct err *e)
{
	struct head h = log_head_locked(l);
	struct bound b = bound_of(o, &h);
	CLEANUP(mem) uint32_t *numbers = NULL;
	struct prune_cut c = { 0 };
	size_t n;

	if (audit_segments(log_dirfd(l), &numbers, &n, e) < 0 ||
	    find_cut(l, &b, numbers, n, &c, e) < 0)
		return -e->code;
	ret->left = c.first ? h.seq - c.first + 1 : 0;
	if (c.last.seq && o->lazy && move_back(log_dirfd(l), numbers, &c, e) < 0)
		return -e->code;
	if (!c.last.seq)
		return 0;
	ret->removed = c.last.seq - c.first + 1;
	ret->last = c.last.seq;
	ret->left -= ret->removed;
	return o->dry_run ? 0 : prune_carry_out(l, &c, numbers, o, ret, e);
}

int prune(struct log *l, const struct prune_options *o, struct prune_report *ret, struct err *e)
{
	int r;

	*ret = (struct prune_report){ 0 };
	if (log_lock(l, e) < 0)
		return -e->code;
	r = prune_locked(l, o, ret, e);
	log_unlock(l);
	return r;
}
