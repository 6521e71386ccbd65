/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/throttle.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"

#define WINDOW_US ((uint64_t)1000000)
#define WINDOW_MAX_US (3600 * WINDOW_US)
#define KINDS_MAX 256              /* of one type */
#define ALIKE_MAX 16               /* kinds that differ only in what they say about one target */
#define WRITTEN_MAX 1000           /* records of one type at once ... */
#define REFILL_US (10 * WINDOW_US) /* ... and then one in this time */
#define TEXT_MAX 128

struct kind {
	bool used;
	enum event type;
	char what[TEXT_MAX], about[TEXT_MAX]; /* host or target; kind, reason or pattern */
	uint64_t hash;
	uint64_t begun, count, first, last; /* count: those that were not written */
	uint64_t window;                    /* how long they are counted: longer each time */
};

/* One type cannot take the place of another. */
struct table {
	struct kind *kinds; /* KINDS_MAX of them once there is a first */
	size_t n;
	struct kind rest; /* what found no place there */
	uint64_t written, refilled;
	uint64_t each, second; /* of those of which no two are alike */
};

struct throttle {
	struct table tables[EVENT_COUNT];
	uint64_t counted; /* that no summary has told of */
	char from[RECORD_TIME_SIZE], to[RECORD_TIME_SIZE];
	struct kind out; /* what the last summary borrows from */
};

struct throttle *throttle_new(void)
{
	return calloc(1, sizeof(struct throttle));
}

struct throttle *throttle_free(struct throttle *t)
{
	for (int i = 0; t && i < EVENT_COUNT; i++)
		free(t->tables[i].kinds);
	free(t);
	return NULL;
}

/* The text of the first of these fields that the record has. */
static const char *text_of(const struct record *r, const char *const *names)
{
	const struct event_field *f = event_types[r->type].fields;

	for (; *names; names++)
		for (size_t i = 0; f[i].name; i++)
			if (str_eq(f[i].name, *names) && r->values[i].given && r->values[i].text)
				return r->values[i].text;
	return "";
}

static void key_of(const struct record *r, struct kind *k)
{
	static const char *const what[] = { "target", "host", "name", "limit", NULL };
	static const char *const about[] = { "kind", "pattern", "reason", NULL };
	const char *texts[] = { text_of(r, what), text_of(r, about) };

	*k = (struct kind){ .used = true, .type = r->type };
	(void)snprintf(k->what, sizeof(k->what), "%.*s", TEXT_MAX - 1, texts[0]);
	(void)snprintf(k->about, sizeof(k->about), "%.*s", TEXT_MAX - 1, texts[1]);
}

static uint64_t hash(const struct kind *k)
{
	uint64_t h = 1469598103934665603ULL;

	for (const char *p = k->what; *p; p++)
		h = (h ^ (unsigned char)*p) * 1099511628211ULL;
	for (const char *p = k->about; *p; p++)
		h = (h ^ (unsigned char)*p) * 1099511628211ULL;
	return h;
}

static bool count(struct throttle *t, struct kind *k, uint64_t now)
{
	if (!k->count++)
		k->first = now;
	k->last = now;
	t->counted++;
	return false;
}

/* A window begins; the next one will be longer, so that what goes on for hours is told of ever more
 * seldom. */
static void begin(struct kind *k, uint64_t now)
{
	k->begun = now;
	k->window = !k->window                      ? WINDOW_US
		    : k->window * 2 > WINDOW_MAX_US ? WINDOW_MAX_US
						    : k->window * 2;
}

/* Room for one more record of this type? */
static bool has_room(struct table *b, uint64_t now)
{
	uint64_t more = b->refilled ? (now - b->refilled) / REFILL_US : 0;

	if (more || !b->refilled)
		b->refilled = now;
	b->written -= more < b->written ? more : b->written;
	if (b->written >= WRITTEN_MAX)
		return false;
	b->written++;
	return true;
}

/* By its type alone: it found no place. */
static bool count_rest(struct throttle *t, enum event type, uint64_t now)
{
	struct kind *rest = &t->tables[type].rest;

	rest->used = true;
	rest->type = type;
	if (!rest->count)
		begin(rest, now);
	return count(t, rest, now);
}

bool throttle_each(struct throttle *t, const struct record *r, uint64_t now)
{
	struct table *b = &t->tables[r->type];

	if (now / WINDOW_US != b->second) {
		b->second = now / WINDOW_US;
		b->each = 0;
	}
	return b->each++ < WRITTEN_MAX || count_rest(t, r->type, now);
}

static bool same(const struct kind *a, const struct kind *b)
{
	return a->hash == b->hash && str_eq(a->what, b->what) && str_eq(a->about, b->about);
}

static bool is_open(const struct kind *k, uint64_t now)
{
	return k->used && (k->count || now - k->begun < k->window);
}

/* Its place, or one that is free for it; NULL: there is none. */
static struct kind *place(struct table *b, const struct kind *key, uint64_t now)
{
	struct kind *spare = NULL;
	size_t alike = 0;

	for (size_t i = 0; i < b->n; i++) {
		struct kind *k = &b->kinds[i];

		if (same(k, key))
			return k;
		if (!is_open(k, now))
			spare = spare ? spare : k;
		else
			alike += str_eq(k->what, key->what);
	}
	if (alike >= ALIKE_MAX)
		return NULL;
	if (b->n < KINDS_MAX && !b->kinds)
		b->kinds = calloc(KINDS_MAX, sizeof(*b->kinds));
	if (b->n < KINDS_MAX && b->kinds)
		return &b->kinds[b->n++];
	return spare;
}

bool throttle_admit(struct throttle *t, const struct record *r, uint64_t now)
{
	struct table *b = &t->tables[r->type];
	struct kind key, *k;

	key_of(r, &key);
	key.hash = hash(&key);
	k = place(b, &key, now);
	if (k && k->used && same(k, &key) && is_open(k, now))
		return count(t, k, now);
	if (!k || !has_room(b, now))
		return count_rest(t, r->type, now);
	if (!k->used || !same(k, &key))
		*k = key;
	begin(k, now);
	return true;
}

static bool is_due(const struct kind *k, uint64_t now, bool end)
{
	return k->count && (end || now - k->begun >= k->window);
}

static struct kind *due(struct throttle *t, uint64_t now, bool end)
{
	for (int i = 0; t->counted && i < EVENT_COUNT; i++) {
		struct table *b = &t->tables[i];

		for (size_t at = 0; at < b->n; at++)
			if (is_due(&b->kinds[at], now, end))
				return &b->kinds[at];
		if (is_due(&b->rest, now, end))
			return &b->rest;
	}
	return NULL;
}

bool throttle_summary(struct throttle *t, uint64_t now, bool end, struct record *ret)
{
	struct kind *k = due(t, now, end);

	if (!k)
		return false;
	t->out = *k;
	t->counted -= k->count;
	k->count = 0;
	record_init(ret, EVENT_LOG_SUMMARY);
	record_time(t->out.first, t->from);
	record_time(t->out.last, t->to);
	record_text(ret, "of", event_types[t->out.type].name);
	record_number(ret, "count", (int64_t)t->out.count);
	record_text(ret, "target", t->out.what[0] ? t->out.what : NULL);
	record_text(ret, "kind", t->out.about[0] ? t->out.about : NULL);
	record_text(ret, "first", t->from);
	record_text(ret, "last", t->to);
	return true;
}
