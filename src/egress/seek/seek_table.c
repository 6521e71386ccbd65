/* SPDX-License-Identifier: Apache-2.0 */
/* egress/seek/seek_table.c - making the table.
 *
 * A form is entered with one group for each way in which it can lie to the stride, preferably one
 * that no other form has, so that one entry has to be tried at a place. Equal entries are shared.
 * Values that repeat themselves have the same group many times: they get a smaller stride, and in
 * the end several entries for one group, all of which are tried everywhere. */
#include "egress/seek/seek_table.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/text/cleanup.h"

#define ROWS_MIN 64
#define ROWS_TRIES 2 /* with twice as many rows, before anything else is tried */
#define AGAIN_MAX 2  /* entries of one group that are better than a smaller stride */

struct seek_making {
	size_t n_rows;
	uint8_t *used; /* slots of each row */
};

enum entered { ENTERED, TAKEN, NO_ROOM };

static size_t widest_stride(const struct seek_table *t)
{
	size_t shortest = SEEK_STRIDE + SEEK_GROUP - 1;

	for (size_t i = 0; i < t->n; i++)
		if (t->forms[i]->v.n < shortest)
			shortest = t->forms[i]->v.n;
	return shortest - SEEK_GROUP + 1;
}

static int make_keys(struct seek_table *t, struct err *e)
{
	if (getrandom(t->mix, sizeof(t->mix), 0) != sizeof(t->mix) ||
	    getrandom(t->key, sizeof(t->key), 0) != sizeof(t->key))
		return err_sys(e, "no random bytes for the search");
	t->mix[1] |= 1;
	return 0;
}

/* Nothing is read before the form. */
static uint64_t hash_of(const struct seek_table *t, const char *end)
{
	char room[8] = { 0 };

	memcpy(room + sizeof(room) - SEEK_GROUP, end - SEEK_GROUP, SEEK_GROUP);
	return seek_hash(t, room + sizeof(room));
}

/* TAKEN: another form has the group, and it was not asked for `again`. */
static enum entered seek_table_enter(struct seek_table *t, struct seek_making *m,
				     const struct variant *v, size_t behind, bool again)
{
	const char *end = v->p + v->n;
	uint64_t h = hash_of(t, end - behind);
	size_t length = v->n < SEEK_SPAN ? v->n : SEEK_SPAN, at = (size_t)(h >> t->shift), k;
	uint16_t meta = (uint16_t)(behind | length << 8);
	uint32_t sum = seek_sum(t->key, end - length, end);
	struct seek_row *r = &t->rows[at];
	unsigned same = 0;

	for (k = 0; k < m->used[at]; k++) {
		if (r->tag[k] != SEEK_TAG(h))
			continue;
		if (r->meta[k] == meta && r->sum[k] == sum)
			return ENTERED;
		same++;
	}
	if (same && !again)
		return TAKEN;
	if (k == SEEK_SLOTS)
		return again ? NO_ROOM : TAKEN;
	r->tag[k] = SEEK_TAG(h);
	r->meta[k] = meta;
	r->sum[k] = sum;
	m->used[at]++;
	t->most = same + 1 > t->most ? same + 1 : t->most;
	t->behind = behind > t->behind ? behind : t->behind;
	return ENTERED;
}

static bool enter_form(struct seek_table *t, struct seek_making *m, const struct variant *v)
{
	for (size_t way = 0; way < t->stride; way++) {
		enum entered how = TAKEN;

		for (size_t b = way; how == TAKEN && b <= SEEK_BEHIND && b + SEEK_GROUP <= v->n;
		     b += t->stride)
			how = seek_table_enter(t, m, v, b, false);
		if (how == TAKEN)
			how = seek_table_enter(t, m, v, way, true);
		if (how == NO_ROOM)
			return false;
	}
	return true;
}

/* What equals nothing, and reads where one of the forms would. */
static void fill_up(struct seek_table *t, const struct seek_making *m)
{
	uint64_t x = t->mix[0] | 1;

	for (size_t i = 0; i < m->n_rows; i++)
		for (size_t k = m->used[i]; k < SEEK_SLOTS; k++) {
			const struct variant *v;

			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			v = &t->forms[x % t->n]->v;
			t->rows[i].tag[k] = (uint16_t)(x >> 48);
			t->rows[i].sum[k] = (uint32_t)(x >> 16);
			t->rows[i].meta[k] = (uint16_t)((x >> 8) % (t->behind + 1) |
							(v->n < SEEK_SPAN ? v->n : SEEK_SPAN) << 8);
		}
}

/* ENTERED: and no group has more entries than it needs. */
static int attempt(struct arena *a, struct seek_table *t, struct seek_making *m, enum entered *ret,
		   struct err *e)
{
	CLEANUP(mem) uint8_t *used = calloc(m->n_rows, 1);
	char *room = arena_alloc(a, (m->n_rows + 1) * sizeof(*t->rows));

	if (!used || !room)
		return err_nomem(e);
	if (make_keys(t, e) < 0)
		return -e->code;
	m->used = used;
	t->rows = (struct seek_row *)(((uintptr_t)room + 63) & ~(uintptr_t)63);
	t->shift = 64 - (unsigned)__builtin_ctzll(m->n_rows);
	t->behind = 0;
	t->most = 1;
	for (size_t i = 0; i < t->n; i++)
		if (!enter_form(t, m, &t->forms[i]->v)) {
			*ret = NO_ROOM;
			return 0;
		}
	*ret = t->most <= AGAIN_MAX || t->stride == 1 ? ENTERED : TAKEN;
	if (*ret == ENTERED)
		fill_up(t, m);
	return 0;
}

static size_t usual_rows(const struct seek_table *t)
{
	size_t n = ROWS_MIN;

	while (n < t->n * t->stride / 3)
		n *= 2;
	return n;
}

int seek_table_fill(struct arena *a, struct seek_table *t, struct err *e)
{
	struct seek_making m = { 0 };
	unsigned tries = 0;

	t->stride = widest_stride(t);
	m.n_rows = usual_rows(t);
	for (;;) {
		enum entered how = NO_ROOM;

		if (attempt(a, t, &m, &how, e) < 0)
			return -e->code;
		if (how == ENTERED)
			return 0;
		if (how == NO_ROOM && tries++ < ROWS_TRIES) {
			m.n_rows *= 2;
			continue;
		}
		if (t->stride == 1)
			return err_set(
				e, ERR_CONFIG, EINVAL,
				"too many values of credentials repeat one sequence of signs");
		t->stride /= 2;
		m.n_rows = usual_rows(t);
		tries = 0;
	}
}
