/* SPDX-License-Identifier: Apache-2.0 */
/* egress/scan/scan_json.c - the body is cut into units, each a byte or an escape. The scan sees
 * what they mean and gives back, later and in order, what they are to mean: a unit that comes back
 * changed is written anew in as many bytes as it had. */
#include "egress/scan/scan_json.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes/hex.h"
#include "egress/scan/scan_internal.h"

#define SLICE 4096
#define MEANS_MAX (SLICE + 16)
#define ESCAPE_MAX 6
#define RAW_MAX ((size_t)512 << 10)

enum unit_kind {
	UNIT_INSIDE,    /* of a string */
	UNIT_STRUCTURE, /* around strings */
	UNIT_MORE,      /* a further byte of what the unit before means; has no bytes of its own */
};

struct unit {
	char means;
	unsigned char n; /* bytes */
	unsigned char kind;
};

struct json_scan {
	struct scan *view, *raw; /* the text as it is meant, and as it is for known values */
	struct unit *units;      /* not released yet */
	size_t n, room;
	struct buf bytes; /* theirs, and those of an escape that has not ended */
	size_t at;        /* of the first unit */
	int64_t gone;     /* units released before */
	int64_t raw_gone; /* and their bytes */
	char escape[ESCAPE_MAX];
	size_t in_escape;
	bool inside;   /* a string */
	bool not_json; /* something stands outside of strings that cannot */

	/* of the call at hand */
	char means[MEANS_MAX];
	size_t n_means;
	bool failed;
};

/* Inside one string, or where there are none. */
static bool can_mask(const void *owner, int64_t from, int64_t to)
{
	const struct json_scan *j = owner;

	for (int64_t i = from - j->gone; i < to - j->gone; i++)
		if (i < 0 || (size_t)i >= j->n || j->units[i].kind == UNIT_MORE ||
		    (j->units[i].kind == UNIT_STRUCTURE && !j->not_json))
			return false;
	return true;
}

/* The units that the bytes from..to of the body are in, as offsets of the view. */
static bool units_of(const struct json_scan *j, int64_t *from, int64_t *to)
{
	int64_t at = j->raw_gone, first = -1;

	for (size_t i = 0; i < j->n && *from >= j->raw_gone; i++) {
		if (first < 0 && at + j->units[i].n > *from)
			first = (int64_t)i;
		at += j->units[i].n;
		if (first >= 0 && at >= *to) {
			*from = j->gone + first;
			*to = j->gone + (int64_t)i + 1;
			return true;
		}
	}
	return false;
}

/* Whether it is JSON at all may turn out later: outside of strings nothing is taken out. */
static bool is_inside(const struct json_scan *j, int64_t from, int64_t to)
{
	for (int64_t i = from - j->gone; i < to - j->gone; i++)
		if (i < 0 || (size_t)i >= j->n || j->units[i].kind != UNIT_INSIDE)
			return false;
	return true;
}

static bool take_out(void *taker, int64_t from, int64_t to, bool *again)
{
	struct json_scan *j = taker;

	if (!units_of(j, &from, &to) || !is_inside(j, from, to))
		return false;
	for (size_t i = 0; i < j->view->n_masks; i++)
		*again |= j->view->masks[i].from < to && from < j->view->masks[i].to;
	return scan_mask(j->view, NULL, from, to);
}

int json_scan_open(struct scanner *s, bool redact, struct json_scan **ret, struct err *e)
{
	CLEANUP(json_scan) struct json_scan *j = calloc(1, sizeof(*j));

	if (!j)
		return err_nomem(e);
	j->bytes = (struct buf)BUF_INIT(RAW_MAX);
	if (scan_open(s, SCAN_OUT, &j->view, e) < 0 || scan_open(s, SCAN_OUT, &j->raw, e) < 0)
		return -e->code;
	j->view->no_redact = !redact;
	j->view->can_mask = can_mask;
	j->view->owner = j;
	j->raw->needles_only = true;
	scan_shapes(j->view); /* the escapes of JSON are not the only ones */
	if (redact && s->redact_json) {
		j->view->soften = true;
		j->raw->take_out = take_out;
		j->raw->taker = j;
	}
	*ret = TAKE_PTR(j);
	return 0;
}

void json_scan_packed(struct json_scan *j, scan_run_fn *fn, void *context)
{
	scan_packed(j->view, fn, context);
}

struct json_scan *json_scan_close(struct json_scan *j)
{
	if (!j)
		return NULL;
	(void)scan_close(j->view);
	(void)scan_close(j->raw);
	if (j->bytes.data)
		explicit_bzero(j->bytes.data, j->bytes.cap);
	buf_done(&j->bytes);
	if (j->units)
		explicit_bzero(j->units, j->room * sizeof(*j->units));
	free(j->units);
	explicit_bzero(j, sizeof(*j));
	free(j);
	return NULL;
}

/* --- units --- */

static bool scan_json_grow(struct json_scan *j)
{
	size_t room = j->room ? j->room * 2 : 2 * SLICE;
	struct unit *more = room * sizeof(*more) <= RAW_MAX ? malloc(room * sizeof(*more)) : NULL;

	if (!more)
		return false;
	if (j->units) {
		memcpy(more, j->units, j->n * sizeof(*more));
		explicit_bzero(j->units, j->room * sizeof(*more));
	}
	free(j->units);
	j->units = more;
	j->room = room;
	return true;
}

static void add_unit(struct json_scan *j, char means, size_t n, enum unit_kind kind)
{
	if (j->n_means == MEANS_MAX || (j->n == j->room && !scan_json_grow(j))) {
		j->failed = true;
		return;
	}
	j->units[j->n++] = (struct unit){ means, (unsigned char)n, (unsigned char)kind };
	j->means[j->n_means++] = means;
}

static void add_plain(struct json_scan *j, char c)
{
	bool quote = c == '"';

	add_unit(j, c, 1, j->inside && !quote ? UNIT_INSIDE : UNIT_STRUCTURE);
	if (quote)
		j->inside = !j->inside;
	else if (!j->inside && !(c && strchr(" \t\r\n{}[]:,+-.0123456789truefalsnE", c)))
		j->not_json = true;
}

/* As UTF-8; the halves of a pair stay halves. */
static void add_number(struct json_scan *j, unsigned v, enum unit_kind kind)
{
	if (v < 0x80) {
		add_unit(j, (char)v, ESCAPE_MAX, kind);
		return;
	}
	if (v < 0x800) {
		add_unit(j, (char)(0xc0 | v >> 6), ESCAPE_MAX, kind);
	} else {
		add_unit(j, (char)(0xe0 | v >> 12), ESCAPE_MAX, kind);
		add_unit(j, (char)(0x80 | (v >> 6 & 63)), 0, UNIT_MORE);
	}
	add_unit(j, (char)(0x80 | (v & 63)), 0, UNIT_MORE);
}

/* What began like an escape was none: its bytes stand for themselves. */
static void add_broken(struct json_scan *j)
{
	for (size_t i = 0; i < j->in_escape; i++)
		add_plain(j, j->escape[i]);
	j->in_escape = 0;
}

static void end_escape(struct json_scan *j, char means)
{
	enum unit_kind kind = j->inside ? UNIT_INSIDE : UNIT_STRUCTURE;
	unsigned v = 0;

	if (j->in_escape < ESCAPE_MAX) {
		add_unit(j, means, j->in_escape, kind);
	} else {
		for (size_t i = 2; i < ESCAPE_MAX; i++)
			v = v << 4 | (unsigned)hex_nibble(j->escape[i]);
		add_number(j, v, kind);
	}
	j->not_json |= !j->inside;
	j->in_escape = 0;
}

/* A byte behind a backslash. */
static void go_on_escape(struct json_scan *j, char c)
{
	static const char short_ones[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
	const char *found = j->in_escape == 1 && c ? strchr(short_ones, c) : NULL;

	if (found) {
		j->escape[j->in_escape++] = c;
		end_escape(j, means[found - short_ones]);
	} else if (j->in_escape == 1 ? c == 'u' : hex_nibble(c) >= 0) {
		j->escape[j->in_escape++] = c;
		if (j->in_escape == ESCAPE_MAX)
			end_escape(j, 0);
	} else {
		add_broken(j);
		if (c == '\\')
			j->escape[j->in_escape++] = c;
		else
			add_plain(j, c);
	}
}

static void read_units(struct json_scan *j, const char *p, size_t n)
{
	j->n_means = 0;
	for (size_t i = 0; i < n; i++)
		if (j->in_escape)
			go_on_escape(j, p[i]);
		else if (p[i] == '\\')
			j->escape[j->in_escape++] = '\\';
		else
			add_plain(j, p[i]);
}

/* --- release --- */

/* The unit at i is to mean c from now on. */
static bool rewrite(struct json_scan *j, const struct unit *u, char c)
{
	if (u->kind == UNIT_MORE || (u->kind == UNIT_STRUCTURE && !j->not_json))
		return false;
	memset(j->bytes.data + j->at, '*', u->n);
	j->bytes.data[j->at] = c;
	return true;
}

static bool scan_json_release(struct json_scan *j, struct egress_text now, size_t first,
			      struct buf *out)
{
	for (size_t i = 0; i < now.n; i++) {
		const struct unit *u = &j->units[first + i];

		if (now.p[i] != u->means && !rewrite(j, u, now.p[i]))
			return false;
		buf_add(out, j->bytes.data + j->at, u->n);
		j->at += u->n;
	}
	return true;
}

/* What was released goes; the rest moves to the front. */
static void move_up(struct json_scan *j, size_t n)
{
	j->n -= n;
	j->gone += (int64_t)n;
	j->raw_gone += (int64_t)j->at;
	memmove(j->units, j->units + n, j->n * sizeof(*j->units));
	j->bytes.len -= j->at;
	if (j->bytes.len)
		memmove(j->bytes.data, j->bytes.data + j->at, j->bytes.len);
	j->at = 0;
}

static bool slice(struct json_scan *j, const char *p, size_t n, bool last, struct buf *out,
		  struct egress_verdict *v)
{
	struct scan_release r;

	buf_add(&j->bytes, p, n);
	read_units(j, p, n);
	if (last)
		add_broken(j);
	if (j->failed || j->bytes.failed)
		return verdict_deny(v, EGRESS_INTERNAL, NULL, "no memory for the leak scan");
	/* Known values in the bytes as they are; what is taken out for them is so in the view. */
	j->view->verdict = v;
	if (!scan_feed(j->raw, (char *)(uintptr_t)p, n, last, &r, v))
		return false;
	if (!scan_feed(j->view, j->means, j->n_means, last, &r, v))
		return false;
	if (!scan_json_release(j, r.held, 0, out) || !scan_json_release(j, r.data, r.held.n, out))
		return verdict_deny(v, EGRESS_LEAK, NULL,
				    "the request's body carries a secret that cannot be taken out "
				    "of its JSON");
	if (r.held.n + r.data.n)
		move_up(j, r.held.n + r.data.n);
	return !out->failed || verdict_deny(v, EGRESS_INTERNAL, NULL, "no memory");
}

bool json_scan_feed(struct json_scan *j, const char *p, size_t n, bool last, struct buf *out,
		    struct egress_verdict *v)
{
	do {
		size_t take = n < SLICE ? n : SLICE;

		if (!slice(j, p, take, last && take == n, out, v))
			return false;
		p += take;
		n -= take;
	} while (n);
	return true;
}
