/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/throttle.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"

#define WINDOW_US 1000000
#define KINDS_MAX 256
#define WRITTEN_MAX 1000 /* records a second, of one type */
#define TEXT_MAX 128

struct kind {
	bool used;
	enum event type;
	char what[TEXT_MAX], about[TEXT_MAX]; /* host or target; kind, reason or pattern */
	uint64_t begun, count, first, last;   /* count: those that were not written */
};

struct throttle {
	struct kind kinds[KINDS_MAX];
	struct kind rest[EVENT_COUNT]; /* what found no place above */
	uint64_t written[EVENT_COUNT], second[EVENT_COUNT];
	char from[RECORD_TIME_SIZE], to[RECORD_TIME_SIZE];
	struct kind out; /* what the last summary borrows from */
};

struct throttle *throttle_new(void)
{
	return calloc(1, sizeof(struct throttle));
}

struct throttle *throttle_free(struct throttle *t)
{
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

static size_t hash(const struct kind *k)
{
	uint64_t h = 1469598103934665603ULL ^ (uint64_t)k->type;

	for (const char *p = k->what; *p; p++)
		h = (h ^ (unsigned char)*p) * 1099511628211ULL;
	for (const char *p = k->about; *p; p++)
		h = (h ^ (unsigned char)*p) * 1099511628211ULL;
	return (size_t)(h % KINDS_MAX);
}

static void count(struct kind *k, uint64_t now)
{
	if (!k->count++)
		k->first = now;
	k->last = now;
}

/* Room for one more record of this type this second? */
static bool has_room(struct throttle *t, enum event type, uint64_t now)
{
	if (now / WINDOW_US != t->second[type]) {
		t->second[type] = now / WINDOW_US;
		t->written[type] = 0;
	}
	return t->written[type]++ < WRITTEN_MAX;
}

static bool same(const struct kind *a, const struct kind *b)
{
	return a->type == b->type && str_eq(a->what, b->what) && str_eq(a->about, b->about);
}

/* By its type alone: it found no place. */
static bool count_rest(struct throttle *t, enum event type, uint64_t now)
{
	struct kind *rest = &t->rest[type];

	*rest = (struct kind){ .used = true,
			       .type = type,
			       .begun = rest->count ? rest->begun : now,
			       .count = rest->count,
			       .first = rest->first,
			       .last = rest->last };
	return count(rest, now), false;
}

bool throttle_each(struct throttle *t, const struct record *r, uint64_t now)
{
	return has_room(t, r->type, now) || count_rest(t, r->type, now);
}

bool throttle_admit(struct throttle *t, const struct record *r, uint64_t now)
{
	struct kind key;
	size_t at;

	key_of(r, &key);
	at = hash(&key);
	for (size_t probe = 0; probe < 16; probe++) {
		struct kind *k = &t->kinds[(at + probe) % KINDS_MAX];

		if (k->used && same(k, &key) && now - k->begun < WINDOW_US)
			return count(k, now), false;
		if (k->used && (k->count || now - k->begun < WINDOW_US))
			continue;
		if (!has_room(t, r->type, now))
			break;
		*k = key;
		k->begun = now;
		return true;
	}
	return count_rest(t, r->type, now);
}

static struct kind *due_in(struct kind *v, size_t n, uint64_t now, bool end)
{
	for (size_t i = 0; i < n; i++)
		if (v[i].count && (end || now - v[i].begun >= WINDOW_US))
			return &v[i];
	return NULL;
}

bool throttle_summary(struct throttle *t, uint64_t now, bool end, struct record *ret)
{
	struct kind *k = due_in(t->kinds, KINDS_MAX, now, end);

	if (!k)
		k = due_in(t->rest, EVENT_COUNT, now, end);
	if (!k)
		return false;
	t->out = *k;
	*k = (struct kind){ 0 };
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
