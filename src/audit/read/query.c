/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/read/query.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "audit/read/index.h"
#include "audit/read/segments.h"
#include "base/text/str.h"

enum { SPOTS_MAX = 10000000 };

struct query {
	int dirfd;
	struct index *index; /* NULL: every query reads everything */
	char why[sizeof(((struct err *)0)->what)];
	int fd; /* the segment read last */
	uint64_t segment;
	char *line; /* room for one */
};

typedef int each_fn(void *data, const struct entry *en);

int query_open(int dirfd, const char *dir, bool indexed, struct query **ret, struct err *e)
{
	CLEANUP(query) struct query *q = calloc(1, sizeof(*q));
	struct err why = { 0 };

	if (!q)
		return err_nomem(e);
	q->dirfd = dirfd;
	q->fd = -1;
	q->line = malloc(ENTRY_LINE_MAX + 1);
	if (!q->line)
		return err_nomem(e);
	if (!indexed)
		(void)snprintf(q->why, sizeof(q->why), "the index was not asked for");
	else if (index_open(dirfd, dir, &q->index, &why) < 0)
		(void)snprintf(q->why, sizeof(q->why), "%s", why.what);
	*ret = TAKE_PTR(q);
	return 0;
}

struct query *query_free(struct query *q)
{
	if (q) {
		q->index = index_free(q->index);
		(void)fd_close(q->fd);
		free(q->line);
		free(q);
	}
	return NULL;
}

const char *query_unindexed(const struct query *q)
{
	return q->index ? NULL : q->why;
}

/* --- the lines at places of the index --- */

/* 1: the record that must be there is; 0: it is not (the line was changed, or pruned just now). */
static int read_spot(struct query *q, const struct spot *at, struct entry *ret)
{
	if (q->fd < 0 || q->segment != at->segment) {
		q->fd = fd_close(q->fd);
		q->fd = segment_open(q->dirfd, at->segment);
		q->segment = at->segment;
	}
	if (q->fd < 0 || at->len > ENTRY_LINE_MAX ||
	    pread(q->fd, q->line, at->len, (off_t)at->at) != (ssize_t)at->len)
		return 0;
	return entry_read(q->line, at->len, ret) == 0 && ret->seq == at->seq;
}

struct forward {
	struct query *q;
	const struct filter *filter;
	each_fn *each;
	void *data;
};

static int forward(void *data, const struct spot *at)
{
	struct forward *w = data;
	struct entry en;

	if (!read_spot(w->q, at, &en) || !filter_match(w->filter, &en))
		return 0;
	return w->each(w->data, &en);
}

/* The newest so many: their places first, newest first, then the lines in order. */
struct newest {
	struct query *q;
	const struct filter *filter;
	struct spot *spots;
	size_t count, room;
};

static int query_collect(void *data, const struct spot *at)
{
	struct newest *w = data;
	struct entry en;

	if (!read_spot(w->q, at, &en) || !filter_match(w->filter, &en))
		return 0;
	if (w->count == w->room) {
		size_t room = w->room ? w->room * 2 : 64;
		struct spot *more = realloc(w->spots, room * sizeof(*more));

		if (!more || room > SPOTS_MAX * 2)
			return -ENOMEM;
		w->spots = more;
		w->room = room;
	}
	w->spots[w->count++] = *at;
	return w->count == w->filter->limit;
}

static int run_newest(struct query *q, const struct filter *f, each_fn *each, void *data,
		      struct err *e)
{
	struct newest w = { .q = q, .filter = f };
	struct entry en;
	int r = index_find(q->index, f, true, query_collect, &w, e);

	if (r == -ENOMEM && !e->code)
		(void)err_nomem(e);
	for (size_t i = w.count; r >= 0 && i-- > 0;) {
		r = read_spot(q, &w.spots[i], &en) ? each(data, &en) : 0;
		if (r)
			break;
	}
	free(w.spots);
	return r == 1 && !w.count ? 0 : r;
}

/* --- without the index --- */

static int scan_segment(struct query *q, uint64_t number, const struct filter *f, each_fn *each,
			void *data, struct err *e)
{
	CLEANUP(fd) int fd = segment_open(q->dirfd, number);
	CLEANUP(lines) struct lines *l = fd < 0 ? NULL : lines_new(fd, 0);
	const char *p;
	size_t n;
	struct entry en;
	int r;

	if (fd == -ENOENT)
		return 0; /* pruned just now */
	if (fd < 0)
		return err_errno(e, fd, "cannot open segment %06" PRIu64, number);
	if (!l)
		return err_nomem(e);
	while ((r = lines_next(l, &p, &n)) > 0)
		if (p && entry_read(p, n, &en) == 0 && filter_match(f, &en) &&
		    (r = each(data, &en)) != 0)
			return r;
	return r < 0 ? err_errno(e, r, "cannot read segment %06" PRIu64, number) : 0;
}

static int scan(struct query *q, const struct filter *f, each_fn *each, void *data, struct err *e)
{
	CLEANUP(segments) struct segments list = { 0 };
	int r = segments_list(q->dirfd, &list, e);

	for (size_t i = 0; r == 0 && i < list.count; i++)
		r = scan_segment(q, list.numbers[i], f, each, data, e);
	return r;
}

/* The newest f->limit of all: counted first, then those before them are passed over. */
struct passing {
	uint64_t seen, skip;
	each_fn *each;
	void *data;
};

static int query_count(void *data, const struct entry *en UNUSED)
{
	((struct passing *)data)->seen++;
	return 0;
}

static int query_pass(void *data, const struct entry *en)
{
	struct passing *p = data;

	return p->seen++ < p->skip ? 0 : p->each(p->data, en);
}

static int scan_newest(struct query *q, const struct filter *f, each_fn *each, void *data,
		       struct err *e)
{
	struct passing p = { .each = each, .data = data };
	int r = scan(q, f, query_count, &p, e);

	if (r < 0)
		return r;
	p.skip = p.seen > f->limit ? p.seen - f->limit : 0;
	p.seen = 0;
	return scan(q, f, query_pass, &p, e);
}

/* --- both --- */

/* An index may turn out to be damaged on the way: what was handed out is not handed out again. */
struct onward {
	uint64_t last, done; /* the last one handed out; in a turn before this one */
	each_fn *each;
	void *data;
};

static int onward(void *data, const struct entry *en)
{
	struct onward *w = data;

	if (en->seq <= w->done)
		return 0;
	w->last = en->seq;
	return w->each(w->data, en);
}

static int run_indexed(struct query *q, const struct filter *f, each_fn *each, void *data,
		       struct err *e)
{
	struct forward w = { .q = q, .filter = f, .each = each, .data = data };

	return f->limit ? run_newest(q, f, each, data, e)
			: index_find(q->index, f, false, forward, &w, e);
}

int query_run(struct query *q, const struct filter *f, each_fn *each, void *data, struct err *e)
{
	struct onward w = { .each = each, .data = data };
	int r = -EBADMSG;

	for (int turn = 0; turn < 2 && q->index && r == -EBADMSG; turn++) {
		r = run_indexed(q, f, onward, &w, e);
		w.done = w.last;
		if (r == -EBADMSG && index_renew(q->index, e) < 0)
			break;
	}
	if (r != -EBADMSG)
		return r;
	if (q->index)
		(void)snprintf(q->why, sizeof(q->why), "%s", e->what);
	q->index = index_free(q->index);
	err_clear(e);
	return f->limit ? scan_newest(q, f, onward, &w, e) : scan(q, f, onward, &w, e);
}

struct found_run {
	char id[33];
	bool several;
};

static int note_run(void *data, const struct entry *en)
{
	struct found_run *w = data;

	if (en->run.n != 32)
		return 0;
	if (w->id[0] && memcmp(w->id, en->run.p, 32) != 0) {
		w->several = true;
		return 1;
	}
	memcpy(w->id, en->run.p, 32);
	w->id[32] = '\0';
	return 0;
}

int query_resolve_run(struct query *q, const char *text, char out[33], struct err *e)
{
	struct filter f = { 0 };
	struct found_run w = { 0 };
	bool last = str_eq(text, "last");

	if (!last && filter_set_run(&f, text, e) < 0)
		return -e->code;
	if (last) {
		f.types[f.type_count++] = "sandbox.*";
		f.limit = 1;
	}
	if (query_run(q, &f, note_run, &w, e) < 0)
		return -e->code;
	if (w.several) {
		(void)err_set(e, ERR_USAGE, EEXIST, "several runs begin with '%s'", text);
		return err_hint(e, "add digits; brig audit list --run %s shows them", text);
	}
	if (!w.id[0])
		return err_refuse(e, ERR_USAGE, ENOENT, "brig audit list shows the runs there are",
				  last ? "there is no run on the record%s"
				       : "no run '%s' is on the record",
				  last ? "" : text);
	(void)snprintf(out, 33, "%s", w.id);
	return 0;
}
