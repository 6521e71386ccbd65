/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/names/synth.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "model/settings/door_spec.h"

#define TABLE (2 * SYNTH_MAX) /* open addressing, at most half full; a power of two */

static const unsigned char prefix6[DOOR_PREFIX6_LEN] = DOOR_PREFIX6;

struct synth {
	struct host **names; /* by number */
	uint32_t *table;     /* number + 1; 0: free */
	uint32_t n;
};

struct synth *synth_new(void)
{
	struct synth *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->names = calloc(SYNTH_MAX, sizeof(struct host *));
	s->table = calloc(TABLE, sizeof(*s->table));
	return s->names && s->table ? s : synth_free(s);
}

struct synth *synth_free(struct synth *s)
{
	if (!s)
		return NULL;
	for (uint32_t i = 0; s->names && i < s->n; i++)
		free(s->names[i]);
	free(s->names);
	free(s->table);
	free(s);
	return NULL;
}

/* The number of the name, found or given; -1: no room. */
static int64_t synth_number(struct synth *s, const struct host *h)
{
	uint32_t at = host_hash(h) & (TABLE - 1);
	struct host *copy;

	for (; s->table[at]; at = (at + 1) & (TABLE - 1))
		if (host_eq(s->names[s->table[at] - 1], h))
			return s->table[at] - 1;
	copy = s->n < SYNTH_MAX ? malloc(sizeof(*copy)) : NULL;
	if (!copy)
		return -1;
	*copy = *h;
	s->names[s->n] = copy;
	s->table[at] = ++s->n;
	return s->n - 1;
}

bool synth_address(struct synth *s, const struct host *h, bool six, struct addr *ret)
{
	int64_t n = synth_number(s, h);
	uint32_t v4 = n < 0 ? 0 : htonl(DOOR_SYNTH_FIRST + (uint32_t)n);

	if (n < 0)
		return false;
	*ret = (struct addr){ .family = six ? 6 : 4 };
	if (six)
		memcpy(ret->b, prefix6, sizeof(prefix6));
	memcpy(ret->b + (six ? DOOR_PREFIX6_LEN : 0), &v4, sizeof(v4));
	return true;
}

const struct host *synth_name(const struct synth *s, const struct addr *a)
{
	uint32_t v4;

	if (a->family == 6 && memcmp(a->b, prefix6, sizeof(prefix6)) != 0)
		return NULL;
	memcpy(&v4, a->b + (a->family == 6 ? DOOR_PREFIX6_LEN : 0), sizeof(v4));
	v4 = ntohl(v4);
	if (v4 < DOOR_SYNTH_FIRST || v4 - DOOR_SYNTH_FIRST >= s->n)
		return NULL;
	return s->names[v4 - DOOR_SYNTH_FIRST];
}
