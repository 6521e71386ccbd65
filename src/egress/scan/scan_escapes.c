/* SPDX-License-Identifier: Apache-2.0 */
/* egress/scan/scan_escapes.c - shapes behind escapes: what stands around one is said with all of
 * them undone. How far that is follows from the places of the escapes, not from how the stream is
 * cut. */
#include <stdlib.h>
#include <string.h>

#include "egress/scan/scan_behind.h"
#include "egress/scan/scan_internal.h"
#include "egress/scan/wake.h"

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
	size_t before = i < SHOWN_BEFORE ? i : SHOWN_BEFORE;
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
