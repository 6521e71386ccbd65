/* SPDX-License-Identifier: Apache-2.0 */
/* audit/verify.c - reads the whole record and says where it was touched.
 *
 * The lines themselves are checked in pieces (audit/pieces.h). What holds those together (the first
 * `prev` and number of one against the last of the one before) is compared here, in order, and then
 * base, head and anchors. */
#include "audit/verify.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "audit/anchor.h"
#include "audit/dir.h"
#include "audit/pieces.h"
#include "audit/record.h"
#include "base/text/cleanup.h"
#include "base/text/str.h"

/* --- the report --- */

/* All are counted, the first few described. */
__attribute__((format(printf, 5, 6))) static void fault(struct verify_report *r, const char *file,
							uint64_t line, uint64_t seq,
							const char *fmt, ...)
{
	struct verify_fault *f;
	va_list ap;

	r->ok = false;
	if (r->faults++ >= VERIFY_FAULTS_MAX)
		return;
	f = &r->fault[r->faults - 1];
	(void)snprintf(f->file, sizeof(f->file), "%.63s", file);
	f->line = line;
	f->seq = seq;
	va_start(ap, fmt);
	(void)vsnprintf(f->what, sizeof(f->what), fmt, ap);
	va_end(ap);
}

static void report_gap(struct verify_report *r, const char *file, uint64_t line, uint64_t seq,
		       uint64_t expected)
{
	unsigned long long first = expected, last = seq - 1;

	if (seq > expected && first == last)
		fault(r, file, line, seq, "record %llu is missing before this one", first);
	else if (seq > expected)
		fault(r, file, line, seq, "records %llu to %llu are missing before this one", first,
		      last);
	else if (seq < expected)
		fault(r, file, line, seq, "record %llu is where %llu was expected",
		      (unsigned long long)seq, first);
	else
		fault(r, file, line, seq, "the record does not follow the one before it");
}

static void report_piece(struct verify_report *r, const struct piece *p, uint64_t line0)
{
	char file[SEGMENT_NAME_SIZE];

	audit_segment_name(p->segment, file);
	for (unsigned i = 0; i < p->faults && i < PIECE_FAULTS; i++) {
		const struct piece_fault *f = &p->fault[i];
		uint64_t line = line0 + f->line + 1;

		switch (f->kind) {
		case FAULT_FORM:
			fault(r, file, line, 0, "the line is not a record");
			break;
		case FAULT_MAC:
			fault(r, file, line, f->seq, "the record was changed");
			break;
		case FAULT_CHAIN:
			report_gap(r, file, line, f->seq, f->expected);
			break;
		case FAULT_LOST:
			fault(r, file, line, f->seq,
			      "records were found to be gone when this one was written");
			break;
		case FAULT_UNFINISHED:
			fault(r, file, line, 0, "the segment ends within a record");
			break;
		}
	}
	r->faults += p->faults > PIECE_FAULTS ? p->faults - PIECE_FAULTS : 0;
}

struct seam {
	uint64_t seq;
	unsigned char mac[32];
	bool known; /* the record before is known: the chain must go on from it */
};

/* Puts the pieces together in order. */
static void stitch(struct verify_report *r, const struct piece_check *c, struct seam *s)
{
	uint64_t line = 0;

	for (size_t i = 0; i < c->count; i++) {
		const struct piece *p = &c->pieces[i];
		char file[SEGMENT_NAME_SIZE];

		audit_segment_name(p->segment, file);
		if (i && p->segment != c->pieces[i - 1].segment)
			line = 0;
		if (p->error)
			fault(r, file, 0, 0, "cannot be read: %s", strerror(-p->error));
		if (p->first_seq && s->known &&
		    (p->first_seq != s->seq + 1 ||
		     memcmp(p->first_prev, s->mac, sizeof(s->mac)) != 0))
			report_gap(r, file, line + 1, p->first_seq, s->seq + 1);
		report_piece(r, p, line);
		if (p->first_seq && !r->first)
			r->first = p->first_seq;
		if (p->first_seq) {
			s->seq = p->last_seq ? p->last_seq : s->seq;
			s->known = p->last_seq != 0;
			memcpy(s->mac, p->last_mac, sizeof(s->mac));
		}
		r->records += p->lines;
		line += p->lines;
	}
	r->last = s->seq;
}

/* --- what there is to check --- */

/* Counts what lies behind the head; nothing of it was acknowledged. */
static void count_tail(struct piece_check *c, struct verify_report *r, uint32_t segment,
		       uint64_t from, uint64_t size)
{
	CLEANUP(fd) int fd = audit_segment_open(c->dir, segment, O_RDONLY);
	char text[4096];
	ssize_t got;

	r->tail_bytes += size - from;
	while (fd >= 0 && from < size && (got = pread(fd, text, sizeof(text), (off_t)from)) > 0) {
		for (ssize_t i = 0; i < got; i++)
			r->tail_records += text[i] == '\n';
		from += (uint64_t)got;
	}
}

static int one_segment(struct piece_check *c, struct verify_report *r, const struct head *h,
		       uint32_t number, bool following, struct err *e)
{
	char name[SEGMENT_NAME_SIZE];
	struct stat st;
	uint64_t size;

	audit_segment_name(number, name);
	if (fstatat(c->dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(e, "cannot look at '%s'", name);
	size = (uint64_t)st.st_size;
	r->segments++;
	if (number > h->segment) { /* made by a writer that died, or put there */
		if (!following)
			fault(r, name, 0, 0, "the head knows nothing of this segment");
		count_tail(c, r, number, 0, size);
		return 0;
	}
	if (number == h->segment && size < h->offset)
		fault(r, name, 0, h->seq, "the segment was cut: %llu bytes of %llu are left",
		      (unsigned long long)size, (unsigned long long)h->offset);
	if (number == h->segment && size > h->offset) {
		count_tail(c, r, number, h->offset, size);
		size = h->offset;
	}
	return check_add(c, number, size) < 0 ? err_nomem(e) : 0;
}

static int verify_collect(struct piece_check *c, struct verify_report *r, const struct head *h,
			  struct err *e)
{
	CLEANUP(mem) uint32_t *numbers = NULL;
	size_t n = 0;

	if (audit_segments(c->dir, &numbers, &n, e) < 0)
		return -e->code;
	for (size_t i = 0; i < n; i++) {
		if (i && numbers[i] != numbers[i - 1] + 1 && numbers[i] <= h->segment)
			fault(r, "", 0, 0, "segments %06u to %06u are missing", numbers[i - 1] + 1,
			      numbers[i] - 1);
		if (one_segment(c, r, h, numbers[i], numbers[i] == h->segment + 1, e) < 0)
			return -e->code;
	}
	if (h->offset && (!n || numbers[n - 1] < h->segment))
		fault(r, "", 0, h->seq, "segment %06u, which the head speaks of, is missing",
		      h->segment);
	return 0;
}

static void check_base(int dir, const struct audit_key *k, struct verify_report *r, struct seam *s)
{
	CLEANUP(fd) int fd = openat(dir, "base", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	char slot[HEAD_SLOT + 1];
	struct head base;

	s->known = true; /* without a base the first record is number 1 and follows nothing */
	if (fd < 0 && errno == ENOENT)
		return;
	if (fd < 0 || pread(fd, slot, sizeof(slot), 0) != HEAD_SLOT ||
	    head_parse(slot, k, &base) < 0) {
		fault(r, "base", 0, 0,
		      "what retention removed cannot be told: the file is damaged");
		s->known = false;
		return;
	}
	r->pruned = base.seq;
	s->seq = base.seq;
	memcpy(s->mac, base.mac, sizeof(s->mac));
}

/* A prune that was ended between its two steps has left records that base calls removed. */
static void start_at_first(const struct piece_check *c, struct seam *s)
{
	for (size_t i = 0; i < c->count; i++)
		if (c->pieces[i].first_seq) {
			if (c->pieces[i].first_seq <= s->seq)
				s->known = false;
			return;
		}
}

static void check_end(struct verify_report *r, const struct head *h, const struct seam *s)
{
	if (h->seq > s->seq)
		fault(r, "head", 0, h->seq,
		      "the record ends at %llu, but its head says %llu: the end is missing",
		      (unsigned long long)s->seq, (unsigned long long)h->seq);
	else if (h->seq < s->seq)
		fault(r, "head", 0, h->seq, "the head says %llu, but the record goes to %llu",
		      (unsigned long long)h->seq, (unsigned long long)s->seq);
	else if (s->known && h->seq && memcmp(h->mac, s->mac, sizeof(s->mac)) != 0)
		fault(r, "head", 0, h->seq, "the head belongs to another record of that number");
}

static void check_anchors(struct verify_report *r, const struct piece_check *c)
{
	for (size_t i = 0; i < c->anchored_n; i++) {
		const struct anchor_line *a = &c->anchored[i];

		if (c->met[i] == 1 || (!c->met[i] && a->head.seq <= r->pruned))
			continue;
		if (!a->head.seq)
			continue;
		if (c->met[i])
			fault(r, r->anchor[a->source].name, a->line, a->head.seq,
			      "record %llu is not the one that was anchored",
			      (unsigned long long)a->head.seq);
		else
			fault(r, r->anchor[a->source].name, a->line, a->head.seq,
			      "record %llu was anchored and is missing: the record was set back",
			      (unsigned long long)a->head.seq);
	}
}

static int read_head(int dir, const struct audit_key *k, struct verify_report *r, struct head *ret,
		     struct err *e)
{
	CLEANUP(fd) int fd = openat(dir, "head", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY);
	struct head_state s = { .slot = -1 };
	int got = fd < 0 ? -errno : head_read(fd, k, &s);

	if (got < 0 && got != -ENOENT && got != -EINVAL)
		return err_errno(e, got, "cannot read the head of '%.100s'", r->dir);
	if (got == -EINVAL && s.foreign)
		fault(r, "head", 0, 0, "the head was signed with another key than %s", k->id);
	else if (got == -EINVAL)
		fault(r, "head", 0, 0, "the head is damaged");
	else if (got == 0 && (s.damaged || s.foreign || (s.empty && s.head.seq)))
		fault(r, "head", 0, 0, "one of the two slots of the head is damaged");
	*ret = got == 0 ? s.head : (struct head){ .segment = UINT32_MAX };
	return got;
}

static int no_key(const struct verify_options *o, int dir, struct verify_report *r, struct err *e)
{
	CLEANUP(mem) uint32_t *numbers = NULL;
	size_t n = 0;

	if (e->code != ENOENT)
		return -e->code;
	err_clear(e);
	if (audit_segments(dir, &numbers, &n, e) < 0)
		return -e->code;
	r->ok = r->empty =
		!n && faccessat(dir, "head", F_OK, 0) < 0 && !(o->anchors && o->anchors[0]);
	return r->empty ? 0
			: err_refuse(e, ERR_UNAVAILABLE, ENOENT,
				     "put it back, or give it in BRIG_AUDIT_KEY",
				     "the key of the record in '%.200s' is gone", r->dir);
}

static int check_all(const struct verify_options *o, struct piece_check *c, struct verify_report *r,
		     struct err *e)
{
	struct seam s = { 0 };
	struct head h = { 0 };
	int got = read_head(c->dir, c->key, r, &h, e);

	if (got < 0 && got != -ENOENT && got != -EINVAL)
		return -e->code;
	check_base(c->dir, c->key, r, &s);
	if (verify_collect(c, r, &h, e) < 0)
		return -e->code;
	r->empty = got == -ENOENT && !r->segments && !r->pruned && !c->anchored_n;
	if (got == -ENOENT && !r->empty)
		fault(r, "head", 0, 0, "the head is missing");
	check_run(c, o->threads);
	for (size_t i = 0; i < c->count; i++)
		if (c->pieces[i].error && c->pieces[i].error != -ENOENT)
			return err_errno(e, c->pieces[i].error,
					 "cannot read segment %06u of '%.100s'",
					 c->pieces[i].segment, r->dir);
	start_at_first(c, &s);
	stitch(r, c, &s);
	if (got == 0)
		check_end(r, &h, &s);
	check_anchors(r, c);
	return 0;
}

static int with_anchors(const struct verify_options *o, struct piece_check *c,
			struct verify_report *r, struct err *e)
{
	CLEANUP(mem) struct anchor_line *lines = NULL;
	int got;

	if (anchor_read(o->anchors, c->key, r->anchor, &r->anchors, &lines, &c->anchored_n, e) < 0)
		return -e->code;
	c->anchored = lines;
	c->met = calloc(c->anchored_n + 1, sizeof(*c->met));
	got = c->met ? check_all(o, c, r, e) : err_nomem(e);
	free(c->met);
	free(c->pieces);
	return got;
}

/* What retention has removed so far; a change while verifying explains what was not found. */
static uint64_t removed(int dir)
{
	CLEANUP(fd) int fd = openat(dir, "base", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	char slot[HEAD_SLOT];
	struct head h;

	if (fd < 0 || pread(fd, slot, sizeof(slot), 0) != (ssize_t)sizeof(slot) ||
	    head_parse(slot, NULL, &h) < 0)
		return 0;
	return h.seq;
}

static int verify_once(const struct verify_options *o, int dir, const struct audit_key *k,
		       const char *path, struct verify_report *ret, struct err *e)
{
	struct piece_check c = { .key = k, .dir = dir };

	*ret = (struct verify_report){ .ok = true };
	(void)snprintf(ret->dir, sizeof(ret->dir), "%.255s", path);
	memcpy(ret->key_id, k->id, sizeof(k->id));
	return with_anchors(o, &c, ret, e);
}

int verify(const struct verify_options *o, struct verify_report *ret, struct err *e)
{
	CLEANUP(fd) int dir = -1;
	struct audit_key k;
	char path[4096] = "";
	uint64_t before;
	int r;

	*ret = (struct verify_report){ .ok = true };
	dir = audit_dir_open(o->dir, false, path, sizeof(path), e);
	(void)snprintf(ret->dir, sizeof(ret->dir), "%.255s", path);
	if (dir == -ENOENT && !(o->anchors && o->anchors[0])) {
		err_clear(e);
		ret->empty = true;
		return 0;
	}
	if (dir < 0)
		return -e->code;
	if (key_load(dir, &k, e) < 0)
		return no_key(o, dir, ret, e);
	for (int tries = 0; tries < 3; tries++) {
		before = removed(dir);
		r = verify_once(o, dir, &k, path, ret, e);
		if ((r == 0 && ret->ok) || removed(dir) == before)
			break;
	}
	return r;
}
