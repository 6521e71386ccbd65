/* SPDX-License-Identifier: Apache-2.0 */
/* egress/scan/scan_head.c - names, URLs and fields through the leak scan.
 *
 * A head is copied into one text, piece by piece, and each is scanned with the same stream, which
 * is only reset: opening one for each field would cost more than the scan. Behind the pieces that
 * are sent come those that only the scan reads: the target with its escapes undone, and values
 * without what separates them, for a secret that was cut in two. */
#include <string.h>

#include "base/bytes/hex.h"
#include "egress/scan/scan_internal.h"

#define PIECES_MAX (2 * HEAD_FIELDS_MAX + 8)
#define DECODE_DEPTH 3

struct head_piece {
	struct egress_text *text; /* what a redaction replaces; NULL: only looked at */
	size_t at, n;             /* in the text */
	enum scan_part part;
	bool needles_only, credential_field, hashed;
};

struct layout {
	struct scanner *s;
	struct head_piece v[PIECES_MAX];
	size_t n;
	bool full;
};

static struct head_piece *scan_head_add(struct layout *l, const char *p, size_t n,
					enum scan_part part)
{
	struct head_piece *x = &l->v[l->n];

	if (l->n == PIECES_MAX) {
		l->full = true;
		return &l->v[PIECES_MAX - 1];
	}
	*x = (struct head_piece){ .at = l->s->text.len, .n = n, .part = part };
	buf_add(&l->s->text, p, n);
	l->n++;
	return x;
}

/* Fields in which programs carry their own tokens. */
static bool for_credentials(struct egress_text name)
{
	static const char *const names[] = { "authorization",  "cookie",
					     "x-api-key",      "api-key",
					     "x-auth-token",   "private-token",
					     "x-access-token", NULL };

	for (size_t i = 0; names[i]; i++)
		if (egress_text_is(name, names[i]))
			return true;
	return false;
}

/* Undoes one layer of escapes in place; the new length. */
static size_t unescape(char *p, size_t n)
{
	size_t out = 0;

	for (size_t i = 0; i < n; i++) {
		int high = i + 2 < n && p[i] == '%' ? hex_nibble(p[i + 1]) : -1,
		    low = high >= 0 ? hex_nibble(p[i + 2]) : -1;

		p[out++] = low < 0 ? p[i] : (char)(high * 16 + low);
		i += low < 0 ? 0 : 2;
	}
	return out;
}

static void add_decoded(struct layout *l, struct egress_text target)
{
	CLEANUP(mem) char *copy = target.n ? malloc(target.n) : NULL;
	size_t n = target.n;

	if (!copy) {
		l->full |= target.n > 0;
		return;
	}
	memcpy(copy, target.p, n);
	for (int depth = 0; depth < DECODE_DEPTH && memchr(copy, '%', n); depth++) {
		size_t shorter = unescape(copy, n);

		if (shorter == n)
			break;
		n = shorter;
		(void)scan_head_add(l, copy, n, SCAN_URL);
	}
	explicit_bzero(copy, target.n);
}

/* Takes the next value of a query off *p; false at its end. */
static bool next_value(const char **p, const char *end, struct egress_text *value)
{
	const char *amp, *stop, *eq, *from;

	if (*p >= end)
		return false;
	amp = memchr(*p, '&', (size_t)(end - *p));
	stop = amp ? amp : end;
	eq = memchr(*p, '=', (size_t)(stop - *p));
	from = eq ? eq + 1 : *p;
	*value = egress_text(from, (size_t)(stop - from));
	*p = stop + 1;
	return true;
}

/* Behind the '?', or the end. */
static const char *query_of(struct egress_text target)
{
	const char *q = target.n ? memchr(target.p, '?', target.n) : NULL;

	return q ? q + 1 : target.p + target.n;
}

/* The values of the query behind one another, and behind those of the requests before. */
static void add_query(struct layout *l, struct egress_text target)
{
	const char *p = query_of(target), *end = target.p + target.n;
	struct egress_text value;
	struct head_piece *x;

	if (!l->s->needles.n || p >= end)
		return;
	x = scan_head_add(l, l->s->query.p, l->s->query.n, SCAN_URL);
	x->needles_only = true;
	while (next_value(&p, end, &value)) {
		buf_add(&l->s->text, value.p, value.n);
		x->n += value.n;
	}
}

/* What was let out is remembered, and what was stopped is not: it would stop all that follows. */
static void remember_query(struct scanner *s, struct egress_text target)
{
	const char *p = query_of(target), *end = target.p + target.n;
	struct egress_text value;

	while (s->needles.n && next_value(&p, end, &value))
		window_add(&s->query, value.p, value.n);
}

static void add_fields(struct layout *l, struct egress_head *h)
{
	for (size_t i = 0; i < h->n_fields; i++) {
		struct egress_field *f = &h->fields[i];
		struct head_piece *x;

		x = scan_head_add(l, f->name.p, f->name.n, SCAN_FIELD);
		x->text = &f->name;
		x = scan_head_add(l, f->value.p, f->value.n, SCAN_FIELD);
		x->text = &f->value;
		x->credential_field = for_credentials(f->name);
		x->hashed = f->hashed;
	}
	if (!l->s->needles.n)
		return;
	(void)scan_head_add(l, "", 0, SCAN_FIELD);
	l->v[l->n - 1].needles_only = true;
	for (size_t i = 0; i < h->n_fields; i++) {
		buf_add(&l->s->text, h->fields[i].value.p, h->fields[i].value.n);
		l->v[l->n - 1].n += h->fields[i].value.n;
	}
}

/* A redaction goes into a copy: the head borrows its texts. */
static bool scan_head_replace(struct egress_head *h, const struct head_piece *x, const char *now)
{
	char *copy;

	if (!x->text || memcmp(x->text->p, now, x->n) == 0)
		return true;
	copy = arena_strndup(h->arena, now, x->n);
	if (!copy)
		return false;
	x->text->p = copy;
	return true;
}

static bool scan_piece(struct scanner *s, enum scan_direction d, const struct head_piece *x,
		       struct egress_verdict *v)
{
	struct scan *b = s->head;
	struct scan_release r;

	scan_restart(b);
	b->direction = d;
	b->part = x->part;
	b->needles_only = x->needles_only;
	b->credential_field = x->credential_field;
	b->hashed = x->hashed;
	b->no_redact = !x->text;
	return scan_feed(b, s->text.data + x->at, x->n, true, &r, v);
}

static bool too_much(struct egress_verdict *v)
{
	return verdict_deny(v, EGRESS_LEAK, NULL, "the head is larger than the leak scan reads");
}

bool scan_head(struct scanner *s, enum scan_direction d, struct egress_head *h,
	       struct egress_verdict *v)
{
	struct layout l;
	struct egress_text target = h->target;

	l.s = s; /* pieces are set as they come */
	l.n = 0;
	l.full = false;
	s->text.len = 0;
	if (h->target.p) {
		scan_head_add(&l, h->target.p, h->target.n, SCAN_URL)->text = &h->target;
		add_decoded(&l, h->target);
		if (d == SCAN_OUT)
			add_query(&l, h->target);
	}
	add_fields(&l, h);
	if (l.full || s->text.failed)
		return too_much(v);
	for (size_t i = 0; i < l.n; i++) {
		if (!l.v[i].n)
			continue;
		if (!scan_piece(s, d, &l.v[i], v))
			return false;
		if (!scan_head_replace(h, &l.v[i], s->text.data + l.v[i].at))
			return verdict_deny(v, EGRESS_INTERNAL, NULL, "no memory");
	}
	if (d == SCAN_OUT && target.p)
		remember_query(s, target);
	return true;
}

/* --- host names --- */

static bool keep_first(void *context, const struct needle *n, ptrdiff_t end UNUSED)
{
	const struct needle **found = context;

	*found = n;
	return false;
}

/* Names have no case, so neither has the comparison. Only what ends behind `judged` bytes counts:
 * what lies before them was looked at when it came. */
static bool has_secret(struct scanner *s, const char *p, size_t judged, size_t n,
		       struct egress_verdict *v)
{
	const struct seek_text t = { .at = (int64_t)judged,
				     .before = egress_text(p, judged),
				     .data = p + judged,
				     .n = n - judged,
				     .caseless = true };
	struct scan_hit hit = { .kind = "secret", .part = SCAN_HOST, .action = LEAK_BLOCK };
	const struct needle *found = NULL;

	if (seek_feed(views_seek(s->views), &t, keep_first, &found))
		return false;
	hit.name = s->secrets[found->secret].name;
	if (s->report)
		s->report(s->context, &hit);
	return !verdict_deny(v, EGRESS_LEAK, NULL,
			     "the host name carries the value of the credential '%s'", hit.name);
}

/* The labels without their dots, behind the first labels of the names before: a value that is sent
 * out name by name. */
static bool labels_leak(struct scanner *s, const struct host *h, struct egress_verdict *v)
{
	char joined[WINDOW_MAX + HOST_NAME_MAX_LEN];
	size_t judged = s->labels.n, n = judged;

	memcpy(joined, s->labels.p, n);
	for (const char *p = h->name; *p; p++)
		if (*p != '.')
			joined[n++] = *p;
	/* The last piece of a secret is not remembered: asked for again, it is the last piece
	 * again. */
	if (has_secret(s, joined, judged, n, v))
		return true;
	window_add(&s->labels, h->name, strcspn(h->name, "."));
	return false;
}

bool scan_host(struct scanner *s, const struct host *h, struct egress_verdict *v)
{
	struct head_piece x = { .n = h->len, .part = SCAN_HOST };

	s->text.len = 0;
	buf_add(&s->text, h->name, h->len);
	if (s->text.failed)
		return too_much(v);
	if (scan_piece(s, SCAN_OUT, &x, v) && (!s->needles.n || !labels_leak(s, h, v)))
		return true;
	v->host = (struct host){ 0 }; /* the record is no place for it */
	return false;
}
