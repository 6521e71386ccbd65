/* SPDX-License-Identifier: Apache-2.0 */
/* egress/scan/scan_behind.c - what base64, hex and escapes say, as a text of its own; and what
 * stands around escapes: how far that is follows from their places, not from how the stream is cut.
 */
#include <stdlib.h>
#include <string.h>

#include "egress/scan/scan_internal.h"
#include "egress/seek/wake.h"

#define SAID 4096
#define MARKS 256 /* the places of as many changes are known */

struct behind_mark {
	int64_t said, raw;
	unsigned short num, den;
};

struct behind {
	struct scan *scan; /* NULL: nothing was said yet */
	int64_t fed;       /* bytes that it has */
	size_t n;
	char p[SAID];
	size_t n_marks; /* all there were */
	struct behind_mark marks[MARKS];
};

void behind_restart(struct behind *s)
{
	if (!s)
		return;
	s->fed = 0;
	s->n = s->n_marks = 0;
	if (s->scan)
		scan_restart(s->scan);
}

void behind_wipe(struct behind *s)
{
	if (!s)
		return;
	explicit_bzero(s->p, sizeof(s->p));
	s->scan = scan_close(s->scan);
	behind_restart(s);
}

struct behind *behind_free(struct behind *s)
{
	behind_wipe(s);
	free(s);
	return NULL;
}

static bool behind_no_memory(struct scan *b)
{
	b->blocked = true;
	return verdict_deny(b->verdict, EGRESS_INTERNAL, NULL, "no memory for the leak scan");
}

static bool behind_open(struct scan *b, struct behind *s)
{
	struct err e;

	if (s->scan)
		return true;
	if (scan_open_inner(b, &s->scan, &e) < 0)
		return behind_no_memory(b);
	s->scan->mapped = s;
	return true;
}

bool behind_mark(struct scan *b, struct behind **s, int64_t raw, unsigned num, unsigned den)
{
	struct behind_mark *m;

	if (!*s && !(*s = calloc(1, sizeof(**s))))
		return behind_no_memory(b);
	m = &(*s)->marks[(*s)->n_marks++ % MARKS];
	*m = (struct behind_mark){ (*s)->fed + (int64_t)(*s)->n, raw, (unsigned short)num,
				   (unsigned short)den };
	return true;
}

bool behind_flush(struct scan *b, struct behind *s, bool last)
{
	struct scan_release ignored;

	if (!s || (!s->n && !(last && s->scan && s->fed)))
		return true;
	if (!behind_open(b, s))
		return false;
	s->scan->part = b->part;
	s->scan->credential_field = b->credential_field;
	s->scan->no_redact = b->no_redact;
	s->scan->soften = b->soften;
	if (!scan_feed(s->scan, s->p, s->n, last, &ignored, b->verdict)) {
		b->blocked = true;
		return false;
	}
	s->fed += (int64_t)s->n;
	s->n = 0;
	return true;
}

bool behind_say(struct scan *b, struct behind *s, const char *p, size_t n)
{
	while (n) {
		size_t k = SAID - s->n < n ? SAID - s->n : n;

		memcpy(s->p + s->n, p, k);
		s->n += k;
		p += k;
		n -= k;
		if (s->n == SAID && !behind_flush(b, s, false))
			return false;
	}
	return true;
}

bool behind_break(struct scan *b, struct behind *s)
{
	static const char none = '\0';

	return behind_say(b, s, &none, 1);
}

static const struct behind_mark *behind_find(const struct behind *s, int64_t said)
{
	for (size_t i = s->n_marks; i-- > 0 && s->n_marks - i <= MARKS;)
		if (s->marks[i % MARKS].said <= said)
			return &s->marks[i % MARKS];
	return NULL;
}

bool behind_place(const struct scan *inner, int64_t *from, int64_t *to)
{
	const struct behind *s = inner->mapped;
	const struct behind_mark *a = behind_find(s, *from), *z = behind_find(s, *to - 1);

	if (!a || !z)
		return false;
	*from = a->raw + (*from - a->said) * a->num / a->den;
	*to = z->raw + ((*to - z->said) * z->num + z->den - 1) / z->den;
	return true;
}

/* ---- escapes ---- */

#define ESCAPES_BACK 24 /* what is read around an escape to know it for one */
#define ESCAPES_AHEAD 32
#define SHOWN_BEFORE 192
#define SHOWN_BEHIND 256

struct escapes {
	struct behind *said;
	bool awake;
	int64_t done; /* what was read */
	size_t far;   /* since the last escape */
};

void escapes_restart(struct escapes *x)
{
	if (!x)
		return;
	x->awake = false;
	x->done = 0;
	behind_restart(x->said);
}

void escapes_wipe(struct escapes *x)
{
	if (!x)
		return;
	behind_wipe(x->said);
	escapes_restart(x);
}

struct escapes *escapes_free(struct escapes *x)
{
	if (x)
		x->said = behind_free(x->said);
	free(x);
	return NULL;
}

/* Bytes at hand, and where the first of them stands; none from `stop` on is to be read now. */
struct escapes_text {
	const char *p;
	size_t n, stop;
	int64_t at;
	bool last;
};

static bool escapes_as_it_is(struct scan *b, struct escapes *x, const char *p, size_t n, int64_t at)
{
	return !n || (behind_mark(b, &x->said, at, 1, 1) && behind_say(b, x->said, p, n));
}

static bool escapes_wake(struct scan *b, struct escapes *x, const struct escapes_text *t, size_t i)
{
	size_t before;
	int64_t first = scan_first(b) < 0 ? 0 : scan_first(b), from = t->at + (int64_t)i;

	x->awake = true;
	x->far = 0;
	if (x->said && !behind_break(b, x->said))
		return false;
	from = from - SHOWN_BEFORE < first ? first : from - SHOWN_BEFORE;
	before = (size_t)(t->at + (int64_t)i - from);
	while (from < b->base && before) {
		const char *win = b->win[b->which] + b->win_n;
		size_t k = (size_t)(b->base - from) < before ? (size_t)(b->base - from) : before;

		if (!escapes_as_it_is(b, x, win - (b->base - from), k, from))
			return false;
		from += (int64_t)k;
		before -= k;
	}
	return escapes_as_it_is(b, x, b->data + (from - b->base), before, from);
}

/* From *i on, up to the next escape or to where nothing more is to be shown. */
static bool escapes_undo(struct scan *b, struct escapes *x, const struct escapes_text *t, size_t *i)
{
	size_t most = SHOWN_BEHIND - x->far, to = t->stop - *i < most ? t->stop : *i + most;
	size_t sign = wake_sign(UNESCAPE_SIGNS, t->p, *i, to);
	struct unescaped u;

	if (!escapes_as_it_is(b, x, t->p + *i, sign - *i, t->at + (int64_t)*i))
		return false;
	x->far += sign - *i;
	*i = sign;
	if (x->far == SHOWN_BEHIND)
		x->awake = false;
	if (sign == to)
		return true;
	if (unescape_one(UNESCAPE_SIGNS, t->p, sign, t->n, t->last, &u) != UNESCAPE_ONE) {
		x->far++;
		x->awake = x->far < SHOWN_BEHIND;
		*i = sign + 1;
		return escapes_as_it_is(b, x, t->p + sign, 1, t->at + (int64_t)sign);
	}
	x->far = 0;
	*i = sign + u.took;
	return !u.n ||
	       (behind_mark(b, &x->said, t->at + (int64_t)sign, (unsigned)u.took, (unsigned)u.n) &&
		behind_say(b, x->said, u.p, u.n));
}

static bool escapes_read(struct scan *b, struct escapes *x, const struct escapes_text *t)
{
	size_t i = (size_t)(x->done - t->at), lag;

	while (i < t->stop) {
		if (x->awake) {
			if (!escapes_undo(b, x, t, &i))
				return false;
			continue;
		}
		lag = 0;
		i = wake_far(&(struct wake_text){ t->p, t->n, t->last }, i, &lag);
		if (i >= t->stop) {
			i = t->stop;
			break;
		}
		if (t->p[i] == '=') { /* of quoted lines, which are read for values alone */
			i++;
			continue;
		}
		if (!escapes_wake(b, x, t, i))
			return false;
	}
	x->done = t->at + (int64_t)i;
	return true;
}

/* Where the last bytes and these meet they are read in a copy. */
static bool escapes_edge(struct scan *b, struct escapes *x, int64_t limit)
{
	char copy[2 * (ESCAPES_BACK + ESCAPES_AHEAD) + ESCAPES_AHEAD];
	int64_t first = scan_first(b) < 0 ? 0 : scan_first(b), end = b->base + (int64_t)b->n;
	int64_t from = x->done - ESCAPES_BACK < first ? first : x->done - ESCAPES_BACK;
	int64_t to = b->base + ESCAPES_BACK + ESCAPES_AHEAD, stop = b->base + ESCAPES_BACK;
	const char *win = b->win[b->which] + b->win_n;
	struct escapes_text t = { .p = copy, .at = from };

	to = to < end ? to : end;
	stop = stop < limit ? stop : limit;
	if (stop <= x->done)
		return true;
	memcpy(copy, win - (b->base - from), (size_t)(b->base - from));
	memcpy(copy + (b->base - from), b->data, (size_t)(to - b->base));
	t.n = (size_t)(to - from);
	t.stop = (size_t)(stop - from);
	t.last = b->last && to == end;
	return escapes_read(b, x, &t);
}

bool escapes_look(struct scan *b)
{
	int64_t limit = b->base + (int64_t)b->n - (b->last ? 0 : ESCAPES_AHEAD);
	struct escapes *x = b->escapes;
	bool ok = true;

	if (b->direction != SCAN_OUT || b->depth >= BEHIND_DEPTH)
		return true;
	if (!x && !(x = b->escapes = calloc(1, sizeof(*x)))) {
		b->blocked = true;
		return verdict_deny(b->verdict, EGRESS_INTERNAL, NULL, "no memory");
	}
	if (!x->awake && x->done >= b->base - ESCAPES_AHEAD && !b->shapes_only &&
	    view_slept(b->view))
		x->done = x->done < limit ? limit : x->done;
	if (x->done < b->base + ESCAPES_BACK && b->base > 0)
		ok = escapes_edge(b, x, limit);
	if (ok && x->done < limit) {
		struct escapes_text t = { b->data, b->n, (size_t)(limit - b->base), b->base,
					  b->last };

		ok = escapes_read(b, x, &t);
	}
	if (ok && b->last && x->said)
		ok = behind_break(b, x->said);
	if (ok)
		ok = behind_flush(b, x->said, b->last);
	b->blocked |= !ok;
	return ok;
}

/* ---- 64 hexadecimal digits that stand alone ----
 *
 * No literal finds them. A run of 64 has a digit at every 64th place, so only those are looked at;
 * a digit there is followed to both ends of its run. */

#define RUN 32 /* the shortest of interest */
#define LONG 64

static const unsigned char hex_digit[256] = {
	['0' ... '9'] = 1,
	['a' ... 'f'] = 1,
	['A' ... 'F'] = 1,
};

static inline unsigned is_hex(char c)
{
	return hex_digit[(unsigned char)c];
}

static bool scan_hex_is_word(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       c == '_';
}

static char byte_at(const struct scan *b, int64_t at)
{
	return at >= b->base ? b->data[at - b->base]
			     : b->win[b->which][b->win_n - (size_t)(b->base - at)];
}

/* Where the run around `at` begins, as far as it matters. */
static int64_t run_start(const struct scan *b, int64_t at)
{
	int64_t first = scan_first(b) < 0 ? 0 : scan_first(b), from = at;

	while (from > first && at - from <= LONG && is_hex(byte_at(b, from - 1)))
		from--;
	return from;
}

/* A word ends, or begins, at this place. */
static bool is_edge(const struct scan *b, int64_t before, int64_t behind)
{
	int64_t first = scan_first(b) < 0 ? 0 : scan_first(b), end = b->base + (int64_t)b->n;

	return before < first || behind >= end || !scan_hex_is_word(byte_at(b, before)) ||
	       !scan_hex_is_word(byte_at(b, behind));
}

static bool is_twilio(const struct scan *b, int64_t from)
{
	int64_t first = scan_first(b) < 0 ? 0 : scan_first(b);
	bool seen[256] = { false };
	unsigned different = 0;

	if (from - 2 < first || byte_at(b, from - 2) != 'S' || byte_at(b, from - 1) != 'K' ||
	    !is_edge(b, from - 3, from - 2))
		return false;
	for (int i = 0; i < RUN; i++) {
		unsigned char c = (unsigned char)byte_at(b, from + i);

		different += !seen[c];
		seen[c] = true;
	}
	return different >= 8;
}

/* The run that ends before `to` has been seen whole: tells it when it is one of the two. */
static bool check_run(struct scan *b, int64_t to)
{
	static const struct shape hex = { .kind = LEAK_HEX64 }; /* a mask goes no further */
	int64_t from = run_start(b, to - 1);

	if (!is_edge(b, to - 1, to))
		return true;
	if (to - from == LONG && is_edge(b, from - 1, from))
		return b->hashed || scan_found(b, LEAK_HEX64, &hex, false, from, to);
	if (to - from == RUN && is_twilio(b, from))
		return scan_found(b, LEAK_TWILIO, &hex, false, from - 2, to);
	return true;
}

/* The next place to look at from i on, n when there is none. A run of 32 holds two places that are
 * 16 apart, and what lies between them. No branch for each: in ordinary text they are toss-ups. */
static size_t next_place(const struct scan *b, size_t i)
{
	const char *p = b->data;
	unsigned before;

	if (i >= b->n) /* beyond the end there may be nothing to read */
		return b->n;
	before = i >= RUN / 2 ? is_hex(p[i - RUN / 2]) : 1;
	for (; i < b->n; i += RUN / 2) {
		unsigned here = is_hex(p[i]);

		if (before & here & (i >= RUN / 4 ? is_hex(p[i - RUN / 4]) : 1))
			return i;
		before = here;
	}
	return b->n;
}

bool scan_hex(struct scan *b)
{
	int64_t end = b->base + (int64_t)b->n;
	size_t i;

	if (b->needles_only || (b->scanner->actions[LEAK_HEX64] == LEAK_OFF &&
				b->scanner->actions[LEAK_TWILIO] == LEAK_OFF))
		return true;
	/* A run that the last piece ended with, and whose end could not be seen then. */
	if (b->base > 0 && b->n && b->win_n && !is_hex(b->data[0]) &&
	    is_hex(byte_at(b, b->base - 1)) && !check_run(b, b->base))
		return false;
	i = b->n && is_hex(b->data[0]) ? 0 : RUN / 2;
	while ((i = next_place(b, i)) < b->n) {
		while (i < b->n && is_hex(b->data[i]))
			i++;
		if (i < b->n && !check_run(b, b->base + (int64_t)i))
			return false;
		i += RUN / 2;
	}
	/* Without a next piece the end of the stream is the end of the run. */
	if (b->last && end > 0 && (b->n || b->win_n) && end > scan_first(b) &&
	    is_hex(byte_at(b, end - 1)) && !check_run(b, end))
		return false;
	return true;
}
