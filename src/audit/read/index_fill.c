/* SPDX-License-Identifier: Apache-2.0 */
/* audit/read/index_fill.c - from the segments into the tables.
 *
 * Table `state` has one row: how far the segments are read. A reader that finds more in them reads
 * on in transactions of BATCH lines, under SQLite's write lock; any number of readers may do so at
 * once, each going on where the state says. The secondary indexes are made when the end is reached
 * for the first time, which is faster than keeping them up meanwhile.
 *
 * The state also has the mac of the last record. The chain makes it stand for all records before
 * it, so one comparison tells whether this is still the log the index was made from. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "audit/read/index_internal.h"

enum { BATCH = 200000, MAC_HEX = 64, RESERVE = 16 << 20 /* bytes left to the record */ };

struct state {
	uint64_t first_segment; /* the oldest there was; 0: nothing read yet */
	uint64_t segment, at;   /* where to read on */
	struct spot last;       /* the last record; its len is 0 while there is none */
	char mac[MAC_HEX + 1];
	bool ready; /* the secondary indexes are made */
};

static const char secondary[] =
	"CREATE INDEX IF NOT EXISTS by_time ON records(time);"
	"CREATE INDEX IF NOT EXISTS by_type ON records(type);"
	"CREATE INDEX IF NOT EXISTS by_run ON records(run) WHERE run IS NOT NULL;"
	"CREATE INDEX IF NOT EXISTS by_outcome ON records(outcome) WHERE outcome IS NOT NULL;"
	"CREATE INDEX IF NOT EXISTS by_host ON records(host) WHERE host IS NOT NULL;";

static const char forget[] =
	"DROP INDEX IF EXISTS by_time; DROP INDEX IF EXISTS by_type; DROP INDEX IF EXISTS by_run;"
	"DROP INDEX IF EXISTS by_outcome; DROP INDEX IF EXISTS by_host; DELETE FROM records;"
	"UPDATE state SET first_segment = 0, segment = 0, at = 0, last_seq = 0,"
	" last_segment = 0, last_at = 0, last_len = 0, mac = '', ready = 0;";

/* --- how far it is --- */

static int state_load(struct index *ix, struct state *ret, struct err *e)
{
	CLEANUP(stmt) sqlite3_stmt *q = NULL;
	const unsigned char *mac;
	int rc;

	if (index_prepare(
		    ix,
		    "SELECT first_segment, segment, at, last_seq, last_segment, last_at, last_len, "
		    "mac, ready FROM state",
		    &q, e) < 0)
		return -e->code;
	rc = sqlite3_step(q);
	if (rc != SQLITE_ROW)
		return index_fail(ix, rc == SQLITE_DONE ? SQLITE_CORRUPT : rc, e);
	*ret = (struct state){ .first_segment = (uint64_t)sqlite3_column_int64(q, 0),
			       .segment = (uint64_t)sqlite3_column_int64(q, 1),
			       .at = (uint64_t)sqlite3_column_int64(q, 2),
			       .last = { .seq = (uint64_t)sqlite3_column_int64(q, 3),
					 .segment = (uint64_t)sqlite3_column_int64(q, 4),
					 .at = (uint64_t)sqlite3_column_int64(q, 5),
					 .len = (size_t)sqlite3_column_int64(q, 6) } };
	ret->ready = sqlite3_column_int(q, 8) != 0;
	mac = sqlite3_column_text(q, 7);
	(void)snprintf(ret->mac, sizeof(ret->mac), "%s", mac ? (const char *)mac : "");
	return 0;
}

static int state_save(struct index *ix, const struct state *s, struct err *e)
{
	CLEANUP(stmt) sqlite3_stmt *q = NULL;
	int rc;

	if (index_prepare(ix,
			  "UPDATE state SET first_segment = ?, segment = ?, at = ?, "
			  "last_seq = ?, last_segment = ?, last_at = ?, last_len = ?, mac = ?, "
			  "ready = ?",
			  &q, e) < 0)
		return -e->code;
	(void)sqlite3_bind_int64(q, 1, (sqlite3_int64)s->first_segment);
	(void)sqlite3_bind_int64(q, 2, (sqlite3_int64)s->segment);
	(void)sqlite3_bind_int64(q, 3, (sqlite3_int64)s->at);
	(void)sqlite3_bind_int64(q, 4, (sqlite3_int64)s->last.seq);
	(void)sqlite3_bind_int64(q, 5, (sqlite3_int64)s->last.segment);
	(void)sqlite3_bind_int64(q, 6, (sqlite3_int64)s->last.at);
	(void)sqlite3_bind_int64(q, 7, (sqlite3_int64)s->last.len);
	(void)sqlite3_bind_text(q, 8, s->mac, -1, SQLITE_STATIC);
	(void)sqlite3_bind_int(q, 9, s->ready);
	rc = sqlite3_step(q);
	return rc == SQLITE_DONE ? 0 : index_fail(ix, rc, e);
}

/* Whether a record still stands where it was found. `mac`, unless NULL, must be its. */
static bool stands(struct index *ix, const struct spot *at, const char *mac)
{
	CLEANUP(fd) int fd = segment_open(ix->dirfd, at->segment);
	CLEANUP(mem) char *line = NULL;
	struct entry en;

	if (fd < 0 || at->len > ENTRY_LINE_MAX)
		return false;
	line = malloc(at->len + 1);
	if (!line || pread(fd, line, at->len + 1, (off_t)at->at) != (ssize_t)at->len + 1)
		return false;
	return line[at->len] == '\n' && entry_read(line, at->len, &en) == 0 && en.seq == at->seq &&
	       (!mac || slice_eq(en.mac, mac));
}

static int first_row(struct index *ix, struct spot *ret, struct err *e)
{
	CLEANUP(stmt) sqlite3_stmt *q = NULL;
	int rc;

	if (index_prepare(ix, "SELECT seq, segment, at, len FROM records ORDER BY seq LIMIT 1", &q,
			  e) < 0)
		return -e->code;
	rc = sqlite3_step(q);
	if (rc == SQLITE_DONE)
		return 0;
	if (rc != SQLITE_ROW)
		return index_fail(ix, rc, e);
	*ret = (struct spot){ .seq = (uint64_t)sqlite3_column_int64(q, 0),
			      .segment = (uint64_t)sqlite3_column_int64(q, 1),
			      .at = (uint64_t)sqlite3_column_int64(q, 2),
			      .len = (size_t)sqlite3_column_int64(q, 3) };
	return 1;
}

/* Whether this index was made from these segments: the first and the last record it knows are where
 * it says. */
static int belongs(struct index *ix, const struct segments *list, const struct state *s,
		   struct err *e)
{
	struct spot first = { 0 };
	int r;

	if (!s->first_segment)
		return 1;
	if (!list->count || list->numbers[0] != s->first_segment)
		return 0;
	r = first_row(ix, &first, e);
	if (r < 0)
		return r;
	if (!s->last.len || !r)
		return !s->last.len && !r && !s->at;
	return stands(ix, &first, NULL) && stands(ix, &s->last, s->mac);
}

/* Retention took the oldest segments away, and their rows go too. */
static int drop_pruned(struct index *ix, const struct segments *list, struct state *s,
		       struct err *e)
{
	CLEANUP(stmt) sqlite3_stmt *q = NULL;
	int rc;

	if (!s->first_segment || !list->count || list->numbers[0] <= s->first_segment)
		return 0;
	if (index_prepare(ix, "DELETE FROM records WHERE segment < ?", &q, e) < 0)
		return -e->code;
	(void)sqlite3_bind_int64(q, 1, (sqlite3_int64)list->numbers[0]);
	rc = sqlite3_step(q);
	if (rc != SQLITE_DONE)
		return index_fail(ix, rc, e);
	s->first_segment = list->numbers[0];
	return 0;
}

/* --- filling --- */

static void bind_slice(sqlite3_stmt *q, int i, struct slice s)
{
	if (s.p)
		(void)sqlite3_bind_text(q, i, s.p, (int)s.n, SQLITE_STATIC);
	else
		(void)sqlite3_bind_null(q, i);
}

/* Two lines with one number are a damaged log: the later one is found, verify tells the rest. */
static int insert(struct index *ix, const struct entry *en, const struct spot *at, struct err *e)
{
	sqlite3_stmt *q = ix->insert;
	int rc;

	(void)sqlite3_bind_int64(q, 1, (sqlite3_int64)en->seq);
	(void)sqlite3_bind_int64(q, 2, en->time);
	bind_slice(q, 3, en->type);
	bind_slice(q, 4, en->run);
	bind_slice(q, 5, en->outcome);
	bind_slice(q, 6, en->host);
	bind_slice(q, 7, en->principal);
	bind_slice(q, 8, en->agent);
	(void)sqlite3_bind_int64(q, 9, (sqlite3_int64)at->segment);
	(void)sqlite3_bind_int64(q, 10, (sqlite3_int64)at->at);
	(void)sqlite3_bind_int64(q, 11, (sqlite3_int64)at->len);
	rc = sqlite3_step(q);
	(void)sqlite3_reset(q);
	return rc == SQLITE_DONE ? 0 : index_fail(ix, rc, e);
}

/* Reads on in one segment; returns how many lines it took of `room`, 0 at its end for now. */
static int64_t fill_segment(struct index *ix, struct state *s, int64_t room, struct err *e)
{
	CLEANUP(fd) int fd = segment_open(ix->dirfd, s->segment);
	CLEANUP(lines) struct lines *l = lines_new(fd, s->at);
	const char *p;
	size_t n;
	int64_t taken = 0;
	int r = 0;

	if (fd < 0) {
		errno = -fd;
		return err_sys(e, "cannot open segment %06" PRIu64, s->segment);
	}
	if (!l)
		return err_nomem(e);
	while (taken < room && (r = lines_next(l, &p, &n)) > 0) {
		struct spot at = { .segment = s->segment, .at = s->at, .len = n };
		struct entry en;

		taken++;
		s->at = lines_at(l);
		if (!p || entry_read(p, n, &en) < 0)
			continue;
		if (insert(ix, &en, &at, e) < 0)
			return -e->code;
		at.seq = en.seq;
		s->last = at;
		(void)snprintf(s->mac, sizeof(s->mac), "%.*s", (int)en.mac.n,
			       en.mac.p ? en.mac.p : "");
	}
	if (r < 0) {
		errno = -r;
		return err_sys(e, "cannot read segment %06" PRIu64, s->segment);
	}
	return taken;
}

/* One transaction's worth. 1: there may be more. */
static int index_fill_in(struct index *ix, const struct segments *list, struct state *s,
			 struct err *e)
{
	int64_t room = BATCH;
	uint64_t next;

	if (!s->first_segment && list->count) {
		s->first_segment = list->numbers[0];
		s->segment = list->numbers[0];
	}
	while (list->count) {
		int64_t n = fill_segment(ix, s, room, e);

		if (n < 0)
			return (int)n;
		room -= n;
		if (room <= 0)
			return 1;
		if (!segments_next(list, s->segment, &next))
			return 0;
		s->segment = next;
		s->at = 0;
	}
	return 0;
}

/* --- bringing it up to date --- */

/* Whether anything is left to do, found out without the write lock. */
static int is_current(struct index *ix, struct err *e)
{
	CLEANUP(segments) struct segments list = { 0 };
	CLEANUP(fd) int fd = -1;
	struct state s = { 0 };
	struct stat st;
	uint64_t next;
	int r;

	if (segments_list(ix->dirfd, &list, e) < 0 || state_load(ix, &s, e) < 0)
		return -e->code;
	r = belongs(ix, &list, &s, e);
	if (r <= 0)
		return r;
	if (!list.count || !s.ready || segments_next(&list, s.segment, &next))
		return !list.count;
	fd = segment_open(ix->dirfd, s.segment);
	return fd >= 0 && fstat(fd, &st) == 0 && (uint64_t)st.st_size <= s.at;
}

static int advance(struct index *ix, struct err *e)
{
	CLEANUP(segments) struct segments list = { 0 };
	struct state s = { 0 };
	int r;

	/* Under the lock: another reader may have been faster, or retention been at work. */
	if (segments_list(ix->dirfd, &list, e) < 0 || state_load(ix, &s, e) < 0 ||
	    drop_pruned(ix, &list, &s, e) < 0)
		return -e->code;
	r = belongs(ix, &list, &s, e);
	if (r < 0)
		return r;
	if (r == 0) {
		if (index_sql(ix, forget, e) < 0)
			return -e->code;
		s = (struct state){ 0 };
	}
	r = index_fill_in(ix, &list, &s, e);
	if (r < 0)
		return r;
	if (r == 0 && !s.ready) {
		if (index_sql(ix, secondary, e) < 0)
			return -e->code;
		s.ready = true;
	}
	return state_save(ix, &s, e) < 0 ? -e->code : r;
}

/* Bytes of segments that are not in the index yet. */
static int unread(struct index *ix, uint64_t *ret, struct err *e)
{
	CLEANUP(segments) struct segments list = { 0 };
	struct state s = { 0 };
	struct stat st;

	if (segments_list(ix->dirfd, &list, e) < 0 || state_load(ix, &s, e) < 0)
		return -e->code;
	*ret = 0;
	for (size_t i = 0; i < list.count; i++) {
		CLEANUP(fd) int fd = segment_open(ix->dirfd, list.numbers[i]);
		uint64_t from = list.numbers[i] == s.segment ? s.at : 0;

		if (list.numbers[i] >= s.segment && fd >= 0 && fstat(fd, &st) == 0 &&
		    (uint64_t)st.st_size > from)
			*ret += (uint64_t)st.st_size - from;
	}
	return 0;
}

/* A run is refused when its record has no room; an index must not be what took it. With its journal
 * it takes about as much as the lines it is made from. */
static int leaves_room(struct index *ix, struct err *e)
{
	uint64_t wanted = 0, there;
	struct statvfs fs;

	if (unread(ix, &wanted, e) < 0)
		return -e->code;
	if (fstatvfs(ix->dirfd, &fs) < 0)
		return err_sys(e, "cannot look at the file system of '%s'", ix->dir);
	there = (uint64_t)fs.f_bavail * fs.f_frsize;
	return there > wanted + RESERVE
		       ? 0
		       : err_set(e, ERR_INTERNAL, ENOSPC,
				 "the disk is too full for an index in '%s'", ix->dir);
}

int index_catch_up(struct index *ix, struct err *e)
{
	int r = is_current(ix, e);

	if (r != 0)
		return r < 0 ? r : 0;
	if (leaves_room(ix, e) < 0)
		return -e->code;
	do {
		if (index_sql(ix, "BEGIN IMMEDIATE", e) < 0)
			return -e->code;
		r = advance(ix, e);
		if (r < 0) {
			(void)sqlite3_exec(ix->db, "ROLLBACK", NULL, NULL, NULL);
			return r;
		}
		if (index_sql(ix, "COMMIT", e) < 0)
			return -e->code;
	} while (r > 0);
	return 0;
}
