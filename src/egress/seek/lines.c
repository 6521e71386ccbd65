/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/seek/lines.h"

#include <string.h>

#include "egress/seek/unescape.h"

#define ROOM 8192 /* joined and searched at once */
#define END_MOST 2
#define EARLY 512 /* what the first bytes are decides how the rest is searched */

/* From `at` on the joined text is that from `from` on. */
struct joint {
	size_t at;
	ptrdiff_t from;
};

struct base64_lines {
	struct seek *seek;
	size_t reach;
	char *p;
	size_t n, searched;
	struct joint *joints;
	size_t n_joints, most_joints;
	ptrdiff_t done; /* what ends up to here was named, but for what crosses the end of a line */

	/* of the call at hand */
	const struct seek_text *t;
	view_fn *fn;
	void *context;
};

int lines_new(struct arena *a, struct seek *s, size_t reach, struct base64_lines **ret,
	      struct err *e)
{
	struct base64_lines *l = arena_alloc(a, sizeof(*l));

	if (!l)
		return err_nomem(e);
	l->seek = s;
	l->reach = reach;
	l->most_joints = (reach + ROOM) / UNESCAPE_BACK + 2;
	l->p = arena_alloc(a, reach + ROOM);
	l->joints = arena_alloc(a, l->most_joints * sizeof(*l->joints));
	if (!l->p || !l->joints)
		return err_nomem(e);
	*ret = l;
	return 0;
}

void lines_wipe(struct base64_lines *l)
{
	explicit_bzero(l->p, l->reach + ROOM);
}

/* The joint that the byte lies behind. */
static const struct joint *joint_of(const struct base64_lines *l, size_t at)
{
	size_t i = l->n_joints;

	while (i > 1 && l->joints[i - 1].at > at)
		i--;
	return &l->joints[i - 1];
}

/* In the data, as it is. */
static bool raw_on_end(void *context, const struct needle *n, ptrdiff_t end)
{
	const struct base64_lines *l = context;

	return l->fn(l->context, n, end - (ptrdiff_t)n->v.n, end);
}

/* Names what ends up to `to` and was not named yet. */
static bool lines_raw(struct base64_lines *l, ptrdiff_t to)
{
	ptrdiff_t from = l->done;

	if (to <= from)
		return true;
	l->done = to;
	return seek_part(l->seek, l->t, from, to, raw_on_end, l);
}

/* What lies in one line, and ended before the first joint or before this call, was named. */
static bool lines_on_end(void *context, const struct needle *n, ptrdiff_t end)
{
	const struct base64_lines *l = context;
	size_t to = l->searched + (size_t)end, from = to - n->v.n;
	const struct joint *first = joint_of(l, from), *last = joint_of(l, to - 1);
	ptrdiff_t ends = last->from + (ptrdiff_t)(to - last->at);

	return (first == last && ends <= l->done) || ends <= 0 ||
	       l->fn(l->context, n, first->from + (ptrdiff_t)(from - first->at), ends);
}

/* Searches what is new; the end of it stays, for what goes on. */
static bool lines_search(struct base64_lines *l)
{
	struct seek_text t = { .before = egress_text(l->p, l->searched),
			       .data = l->p + l->searched,
			       .n = l->n - l->searched,
			       .caseless = l->t->caseless };
	size_t gone, k = 0;

	if (!seek_feed(l->seek, &t, lines_on_end, l))
		return false;
	gone = l->n > l->reach ? l->n - l->reach : 0;
	memmove(l->p, l->p + gone, l->n - gone);
	while (k + 1 < l->n_joints && l->joints[k + 1].at <= gone)
		k++;
	memmove(l->joints, l->joints + k, (l->n_joints - k) * sizeof(*l->joints));
	l->n_joints -= k;
	for (size_t i = 0; i < l->n_joints; i++) {
		size_t less = l->joints[i].at < gone ? l->joints[i].at : gone;

		l->joints[i].from += (ptrdiff_t)(gone - less) * (i == 0);
		l->joints[i].at -= less;
	}
	l->n -= gone;
	l->searched = l->n;
	return true;
}

static void copy(const struct seek_text *t, ptrdiff_t from, size_t n, char *p)
{
	size_t old = from < 0 ? (size_t)-from : 0;

	old = old < n ? old : n;
	if (old)
		memcpy(p, t->before.p + ((ptrdiff_t)t->before.n + from), old);
	if (n > old)
		memcpy(p + old, t->data + (from + (ptrdiff_t)old), n - old);
}

/* Adds the text from..to behind what there is. */
static bool lines_add(struct base64_lines *l, ptrdiff_t from, ptrdiff_t to)
{
	while (from < to) {
		size_t room = l->reach + ROOM - l->n, n = (size_t)(to - from);

		n = n < room ? n : room;
		copy(l->t, from, n, l->p + l->n);
		l->n += n;
		from += (ptrdiff_t)n;
		if (l->n == l->reach + ROOM && !lines_search(l))
			return false;
	}
	return true;
}

/* Is the end of a line at `at`, and do both sides of it go together? How many bytes it has. */
static size_t goes_together(const struct seek_text *t, ptrdiff_t at)
{
	char around[UNESCAPE_BACK + END_MOST + 1];
	ptrdiff_t from = at - UNESCAPE_BACK, to = at + END_MOST + 1, n = (ptrdiff_t)t->n;
	struct unescaped u;
	enum unescape_found f;

	if (from < -(ptrdiff_t)t->before.n)
		return 0;
	if (from >= 0)
		return unescape_one(UNESCAPE_LINES, t->data, (size_t)at, t->n, false, &u) ==
				       UNESCAPE_ONE
			       ? u.took
			       : 0;
	to = to < n ? to : n;
	copy(t, from, (size_t)(to - from), around);
	f = unescape_one(UNESCAPE_LINES, around, UNESCAPE_BACK, (size_t)(to - from), false, &u);
	return f == UNESCAPE_ONE ? u.took : 0;
}

static char lines_byte(const struct seek_text *t, ptrdiff_t at)
{
	return at < 0 ? t->before.p[(ptrdiff_t)t->before.n + at] : t->data[at];
}

/* The next '\n' in at..stop, or stop. */
static ptrdiff_t next_end(const struct seek_text *t, ptrdiff_t at, ptrdiff_t stop)
{
	const char *p;

	if (at < 0) {
		p = memchr(t->before.p + ((ptrdiff_t)t->before.n + at), '\n', (size_t)-at);
		if (p)
			return p - t->before.p - (ptrdiff_t)t->before.n;
		at = 0;
	}
	p = at < stop ? memchr(t->data + at, '\n', (size_t)(stop - at)) : NULL;
	return p ? p - t->data : stop;
}

struct joining {
	bool open;
	ptrdiff_t at, last; /* so far is copied; behind the last end of a line */
};

/* The text around the last end of a line, as far as a form goes. */
static bool lines_close(struct base64_lines *l, struct joining *j)
{
	ptrdiff_t to = j->last + (ptrdiff_t)l->reach, n = (ptrdiff_t)l->t->n;

	if (!j->open)
		return true;
	j->open = false;
	to = to < n ? to : n;
	if (!lines_add(l, j->at, to) || !lines_search(l))
		return false;
	l->done = to > l->done ? to : l->done;
	return true;
}

static bool lines_join(struct base64_lines *l, struct joining *j, ptrdiff_t end, size_t took)
{
	if (j->open && end - j->last > 2 * (ptrdiff_t)l->reach && !lines_close(l, j))
		return false;
	if (!j->open) {
		j->at = end - (ptrdiff_t)l->reach;
		if (j->at < -(ptrdiff_t)l->t->before.n)
			j->at = -(ptrdiff_t)l->t->before.n;
		l->n = l->searched = 0;
		l->joints[0] = (struct joint){ 0, j->at };
		l->n_joints = 1;
		j->open = true;
		if (!lines_raw(l, end))
			return false;
	}
	if (!lines_add(l, j->at, end))
		return false;
	j->at = j->last = end + (ptrdiff_t)took;
	l->joints[l->n_joints++] = (struct joint){ l->n, j->at };
	return true;
}

/* Joins what ends in a line before `stop`. */
static bool lines_go(struct base64_lines *l, struct joining *j, ptrdiff_t *from, ptrdiff_t stop)
{
	const struct seek_text *t = l->t;
	ptrdiff_t at;

	while ((at = next_end(t, *from, stop)) < stop) {
		ptrdiff_t end = at;
		size_t took;
		char before = at > -(ptrdiff_t)t->before.n ? lines_byte(t, at - 1) : ' ';

		*from = at + 1;
		if (before == '\r')
			end--;
		else if (before < '+' || before > 'z' || before == ',')
			continue; /* so do most lines end that are no base64 */
		took = goes_together(t, end);
		if (took && !lines_join(l, j, end, took))
			return false;
	}
	*from = stop;
	return true;
}

/* What is base64 in lines all along is searched joined alone; anything else as it is, and where it
 * was joined once more. */
bool lines_feed(struct base64_lines *l, const struct seek_text *t, view_fn *fn, void *context)
{
	ptrdiff_t n = (ptrdiff_t)t->n, at = -(ptrdiff_t)(l->reach + l->reach / 8 + END_MOST);
	struct joining j = { 0 };

	l->t = t;
	l->fn = fn;
	l->context = context;
	l->done = 0;
	if (at < -(ptrdiff_t)t->before.n)
		at = -(ptrdiff_t)t->before.n;
	if (!lines_go(l, &j, &at, n < EARLY ? n : EARLY) || !(j.open || lines_raw(l, n)))
		return false;
	/* A field of a head ends here. */
	if (n <= EARLY && !j.open)
		return true;
	return lines_go(l, &j, &at, n) && lines_close(l, &j) && lines_raw(l, n);
}
