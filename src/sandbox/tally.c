/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/tally.h"

#include <stdlib.h>
#include <string.h>

#include "base/text/str.h"

#define SLOTS 8192 /* at most half full */
#define FIRST_US ((uint64_t)1000 * 1000)
#define LONGEST_US ((uint64_t)3600 * 1000 * 1000)

struct tally_kind {
	enum event type;
	struct egress_event like; /* bytes are those of the sum */
	uint64_t count, first, last;
	uint64_t window, due;
};

/* The kinds of one rule or one reason. */
struct tally_group {
	uint64_t hash;
	size_t n;
};

struct tally {
	struct tally_kind *slots[SLOTS];
	size_t n;
	struct tally_group groups[TALLY_MOST];
	size_t n_groups;
	size_t at;              /* where the search for what is due goes on */
	uint64_t soonest, next; /* nothing is due before that; of the search at hand, so far */
};

struct tally *tally_new(void)
{
	return calloc(1, sizeof(struct tally));
}

struct tally *tally_free(struct tally *t)
{
	for (size_t i = 0; t && i < SLOTS; i++)
		free(t->slots[i]);
	free(t);
	return NULL;
}

/* --- kinds --- */

/* With its end: of two texts neither goes on in the next. */
static uint64_t mix_text(uint64_t h, const char *s)
{
	return mem_hash(h, s, strlen(s) + 1);
}

static uint64_t hash_group(enum event type, const struct egress_event *ev)
{
	uint64_t h = mem_hash(0, &type, sizeof(type));

	return mix_text(mem_hash(h, &ev->reason, sizeof(ev->reason)), ev->rule);
}

/* What a secret was is worth telling apart; why else something was refused, its reason says. */
static const char *about(const struct tally_kind *k)
{
	return k->type == EVENT_LEAK_BLOCK || k->type == EVENT_CREDENTIAL_MISUSE ? k->like.what
										 : "";
}

static uint64_t hash_kind(const struct tally_kind *k)
{
	const struct egress_event *e = &k->like;
	uint64_t h = hash_group(k->type, e);

	h = mix_text(mix_text(mix_text(mix_text(h, e->host), e->method), e->credential), about(k));
	return mem_hash(mem_hash(h, &e->port, sizeof(e->port)), &e->status, sizeof(e->status));
}

static bool tally_same(const struct tally_kind *a, const struct tally_kind *b)
{
	return a->type == b->type && a->like.reason == b->like.reason &&
	       a->like.port == b->like.port && a->like.status == b->like.status &&
	       str_eq(a->like.rule, b->like.rule) && str_eq(a->like.host, b->like.host) &&
	       str_eq(a->like.method, b->like.method) &&
	       str_eq(a->like.credential, b->like.credential) && str_eq(about(a), about(b));
}

/* Methods that mean something to servers; any other is somebody's invention. */
static bool known_method(const char *m)
{
	static const char *const names[] = { "GET",       "HEAD",    "POST", "PUT",     "DELETE",
					     "PATCH",     "OPTIONS", "TLS",  "CONNECT", "PROPFIND",
					     "PROPPATCH", "COPY",    "MOVE", "LOCK",    "UNLOCK",
					     "MKCOL",     "REPORT" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (str_eq(m, names[i]))
			return true;
	return false;
}

/* Everything of one rule or reason that found no place, by method. */
static void widen(struct tally_kind *k)
{
	struct egress_event wide = { .kind = k->like.kind, .reason = k->like.reason };

	memcpy(wide.rule, k->like.rule, sizeof(wide.rule));
	memcpy(wide.credential, k->like.credential, sizeof(wide.credential));
	if (known_method(k->like.method))
		memcpy(wide.method, k->like.method, sizeof(wide.method));
	k->like = wide;
}

/* --- places --- */

static struct tally_kind **slot_of(struct tally *t, const struct tally_kind *k)
{
	size_t at = (size_t)(hash_kind(k) % SLOTS);

	while (t->slots[at] && !tally_same(t->slots[at], k))
		at = (at + 1) % SLOTS;
	return &t->slots[at];
}

/* Takes one of the group's places; false: there is none left. */
static bool take_place(struct tally *t, const struct tally_kind *k)
{
	uint64_t h = hash_group(k->type, &k->like);
	size_t i = 0;

	if (t->n >= TALLY_MOST / 2)
		return false;
	while (i < t->n_groups && t->groups[i].hash != h)
		i++;
	if (i == t->n_groups)
		t->groups[t->n_groups++] = (struct tally_group){ .hash = h };
	return t->groups[i].n < TALLY_PLACES && ++t->groups[i].n;
}

static bool tally_enter(struct tally *t, struct tally_kind **slot, const struct tally_kind *k,
			uint64_t now)
{
	*slot = malloc(sizeof(**slot));
	if (!*slot)
		return false;
	**slot = *k;
	(*slot)->window = FIRST_US;
	(*slot)->due = now + FIRST_US;
	t->n++;
	return true;
}

/* What is summed, and tells no kinds apart. */
static void tally_clear(struct egress_event *to)
{
	to->bytes_out = to->bytes_in = 0;
	to->tokens_in = to->tokens_cached = to->tokens_out = to->cost = 0;
}

static void tally_add(struct tally *t, struct tally_kind *k, const struct egress_event *ev,
		      uint64_t now)
{
	if (!k->count) {
		k->first = now;
		t->soonest = k->due < t->soonest ? k->due : t->soonest;
		t->next = k->due < t->next ? k->due : t->next;
	}
	k->count += ev->count ? ev->count : 1;
	k->last = now;
	k->like.bytes_out += ev->bytes_out;
	k->like.bytes_in += ev->bytes_in;
	k->like.tokens_in += ev->tokens_in;
	k->like.tokens_cached += ev->tokens_cached;
	k->like.tokens_out += ev->tokens_out;
	k->like.cost += ev->cost;
	if (!str_eq(k->like.address, ev->address))
		k->like.address[0] = '\0';
}

bool tally_take(struct tally *t, enum event type, const struct egress_event *ev, uint64_t now)
{
	struct tally_kind k = { .type = type, .like = *ev };
	struct tally_kind **slot;

	tally_clear(&k.like);
	slot = slot_of(t, &k);
	if (!*slot && take_place(t, &k))
		return tally_enter(t, slot, &k, now), true;
	if (!*slot) {
		widen(&k);
		slot = slot_of(t, &k);
	}
	if (!*slot && t->n >= TALLY_MOST - EVENT_COUNT) {
		k.like = (struct egress_event){ .kind = ev->kind };
		slot = slot_of(t, &k);
	}
	if (!*slot)
		return tally_enter(t, slot, &k, now), true;
	tally_add(t, *slot, ev, now);
	return false;
}

/* --- sums --- */

static void tally_give(struct tally_kind *k, uint64_t now, struct tally_sum *ret)
{
	*ret = (struct tally_sum){ k->type, k->like, k->count, k->first, k->last };
	k->count = 0;
	tally_clear(&k->like);
	k->window = k->window * 2 < LONGEST_US ? k->window * 2 : LONGEST_US;
	k->due = now + k->window;
}

bool tally_next(struct tally *t, uint64_t now, bool end, struct tally_sum *ret)
{
	if (!end && !t->at && now < t->soonest)
		return false;
	if (!t->at)
		t->next = UINT64_MAX;
	for (; t->at < SLOTS; t->at++) {
		struct tally_kind *k = t->slots[t->at];

		if (!k || !k->count)
			continue;
		if (end || now >= k->due) {
			tally_give(k, now, ret);
			return true;
		}
		t->next = k->due < t->next ? k->due : t->next;
	}
	t->soonest = t->next;
	t->at = 0;
	return false;
}
