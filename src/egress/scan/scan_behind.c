/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/scan/scan_behind.h"

#include <stdlib.h>
#include <string.h>

#include "egress/scan/scan_internal.h"

#define SAID 1024
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
