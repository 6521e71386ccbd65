/* SPDX-License-Identifier: Apache-2.0 */
/* model/files/tighten.c - which way each setting may go in a file that came with somebody's
 * project.
 *
 * A row that says nothing needs trust: a setting added later is closed until somebody has thought
 * about it. Writing the value that holds anyway is never loosening. */
#include <string.h>

#include "base/text/str.h"
#include "model/files/trust.h"
#include "model/settings/envrules.h"

enum direction {
	NEEDS_TRUST,
	DOWN,      /* a number or a word earlier in its list; 0 of a limit means none and is up */
	UP,        /* a word later in its list */
	ONLY_NONE, /* the first word of its list */
	ONLY_TRUE,
	ONLY_FALSE,
	ONLY_EMPTY,  /* a list that permits: nothing but emptying it */
	STAYS_EMPTY, /* one that may narrow as well: read-only within what is writable, over what
			is not to be seen, for some paths of a host alone */
	BY_NAME,     /* variables that lead no program anywhere */
	FEWER,       /* a count of what is granted: 0 is none of it */
	FREE,        /* says nothing to anybody, or can only add a refusal */
};

static const enum direction directions[FIELD_COUNT] = {
	[FIELD_POLICY] = DOWN,
	[FIELD_NETWORK] = ONLY_NONE,
	[FIELD_TIMEOUT] = DOWN,
	[FIELD_KILL_AFTER] = FEWER,
	[FIELD_MEMORY] = DOWN,
	[FIELD_CPUS] = DOWN,
	[FIELD_CPU_SHARES] = DOWN,
	[FIELD_PIDS] = DOWN,
	[FIELD_DISK] = DOWN,
	[FIELD_TMP] = DOWN,
	[FIELD_FILES] = DOWN,
	[FIELD_OUTPUT] = DOWN,
	[FIELD_IDLE_TTL] = DOWN,
	[FIELD_PROFILE] = DOWN,
	[FIELD_WORKSPACE_MODE] = UP,
	[FIELD_WORKSPACE_APPLY] = UP,
	[FIELD_LAYERS_SIZE] = DOWN,
	[FIELD_GIT] = UP,
	[FIELD_SSH_AGENT] = DOWN,
	[FIELD_HOME] = ONLY_NONE,
	[FIELD_HOME_SIZE] = DOWN,
	[FIELD_HOME_SEED] = ONLY_EMPTY,
	[FIELD_CACHES] = ONLY_EMPTY,
	[FIELD_VOLUMES] = ONLY_EMPTY,
	[FIELD_VOLUME_SIZE] = DOWN,
	[FIELD_READ_ONLY_ROOT] = ONLY_TRUE,
	[FIELD_EGRESS_ASK] = ONLY_FALSE,
	[FIELD_EGRESS_HTTPS_ONLY] = ONLY_TRUE,
	[FIELD_EGRESS_INSPECT] = ONLY_TRUE,
	[FIELD_LEAKS_SCAN] = ONLY_TRUE,
	[FIELD_LEAKS_STRICT] = ONLY_TRUE,
	[FIELD_LEAKS_UNREADABLE] = UP,
	[FIELD_EGRESS_TOKENS] = DOWN,
	[FIELD_EGRESS_COST] = DOWN,
	[FIELD_EGRESS_LABELS] = UP,
	[FIELD_RATE_DOMAIN] = DOWN,
	[FIELD_RATE_TOTAL] = DOWN,
	[FIELD_RATE_CONNECTIONS] = DOWN,
	[FIELD_RATE_NAMES] = DOWN,
	[FIELD_RATE_BYTES_OUT] = DOWN,
	[FIELD_RATE_BYTES_IN] = DOWN,
	[FIELD_TMP_EXEC] = ONLY_FALSE,
	[FIELD_AUTO_PULL] = ONLY_FALSE,
	[FIELD_FULL_ACCESS_OK] = ONLY_FALSE,
	[FIELD_MOUNT] = STAYS_EMPTY,
	[FIELD_READ] = STAYS_EMPTY,
	[FIELD_WRITE] = ONLY_EMPTY,
	[FIELD_ENV_PASS] = ONLY_EMPTY,
	[FIELD_EGRESS_ALLOW] = ONLY_EMPTY,
	[FIELD_EGRESS_GROUPS] = ONLY_EMPTY,
	[FIELD_EGRESS_PASSTHROUGH] = ONLY_EMPTY,
	[FIELD_EGRESS_FIELDS] = ONLY_EMPTY,
	[FIELD_EGRESS_OTHER_KEYS] = ONLY_EMPTY,
	[FIELD_EGRESS_HOST_KEYS] = ONLY_EMPTY,
	[FIELD_CREDENTIALS] = STAYS_EMPTY,
	[FIELD_COPIES] = ONLY_EMPTY,
	[FIELD_COMPANIONS] = ONLY_EMPTY,
	[FIELD_BUILTIN_TOOLS] = ONLY_EMPTY,
	[FIELD_PORTS] = ONLY_EMPTY,
	[FIELD_GPUS] = FEWER,
	[FIELD_GPU] = ONLY_EMPTY,
	[FIELD_AUDIT_ENABLED] = ONLY_TRUE,
	[FIELD_AUDIT_SYNC] = UP,
	[FIELD_AUDIT_ON_ERROR] = UP,
	[FIELD_ENV] = BY_NAME,
	[FIELD_LABELS] = FREE,
	[FIELD_EGRESS_DENY] = FREE,
};

static const void *value(const struct spec *s, const struct field *f)
{
	return (const char *)s + f->offset;
}

static bool lower(const void *before, const void *after, const struct field *f)
{
	uint64_t was, is;

	if (!field_is_number(f))
		return *(const int *)after < *(const int *)before;
	was = *(const uint64_t *)before;
	is = *(const uint64_t *)after;
	return is && (!was || is < was);
}

static bool permitted(const struct spec *before, const struct spec *after, enum field_id id)
{
	const struct field *f = &fields[id];
	const void *was = value(before, f), *is = value(after, f);

	if (!field_repeats(f) && spec_same(before, after, id))
		return true;
	switch (directions[id]) {
	case DOWN:
		return lower(was, is, f);
	case UP:
		return *(const int *)is > *(const int *)was;
	case ONLY_NONE:
		return *(const int *)is == 0;
	case ONLY_TRUE:
		return *(const bool *)is;
	case ONLY_FALSE:
		return !*(const bool *)is;
	case ONLY_EMPTY:
		return ((const struct strlist *)is)->n == 0;
	case STAYS_EMPTY:
		return ((const struct strlist *)is)->n == 0 &&
		       ((const struct strlist *)was)->n == 0;
	case FEWER:
		return *(const uint64_t *)is < *(const uint64_t *)was;
	case FREE:
		return true;
	case BY_NAME: /* of maps, which are compared entry by entry */
	case NEEDS_TRUST:
		break;
	}
	return false;
}

static const struct envlist *map_of(const struct spec *s, const struct field *f)
{
	return f->type == FIELD_T_ENV || f->type == FIELD_T_LABELS || f->type == FIELD_T_PINS ||
			       f->type == FIELD_T_LEAKS
		       ? value(s, f)
		       : NULL;
}

static bool had(const struct envlist *l, const struct envvar *v)
{
	for (size_t i = 0; i < l->n; i++)
		if (str_eq(l->v[i].name, v->name))
			return str_eq(l->v[i].value, v->value);
	return false;
}

/* Layers are merged into one map: who wrote it last says nothing about an entry. */
static int each_entry(const struct envlist *was, const struct envlist *is, enum field_id id,
		      enum origin by, loosened_fn *fn, void *arg)
{
	int r = 0;

	for (size_t i = 0; i < is->n && r == 0; i++) {
		const struct envvar *v = &is->v[i];

		if (v->by != by || directions[id] == FREE || had(was, v) ||
		    (directions[id] == BY_NAME && env_anybody_may_set(v->name, v->value)))
			continue;
		r = fn(arg, id, v);
	}
	return r;
}

int tighten_each(const struct spec *before, const struct spec *after, enum origin by,
		 loosened_fn *fn, void *arg)
{
	int r = 0;

	for (int i = 0; i < FIELD_COUNT && r == 0; i++) {
		enum field_id id = (enum field_id)i;
		const struct envlist *is = map_of(after, &fields[id]);

		if (is)
			r = each_entry(map_of(before, &fields[id]), is, id, by, fn, arg);
		else if (after->origin[id] == by && !permitted(before, after, id))
			r = fn(arg, id, NULL);
	}
	return r;
}

struct refusal {
	const struct spec *after;
	enum origin by;
	const char *path;
	const struct err
		*why; /* of a file that is the user's to name; NULL: of the project's own */
	bool changed; /* since it was trusted */
	struct err *e;
};

static int tighten_refuse(void *arg, enum field_id id, const struct envvar *entry)
{
	const struct refusal *r = arg;
	const char *where = r->after->origin[id] == r->by ? r->after->where[id] : NULL;

	(void)err_set(r->e, ERR_POLICY, EPERM, "%.130s: %s%s%.40s: %s may only tighten%s%.150s",
		      where ? where : r->path, fields[id].key, entry ? "." : "",
		      entry ? entry->name : "",
		      r->changed ? "the file has changed since it was trusted, and an untrusted one"
		      : r->why   ? "the file is not trusted, and"
				 : "an untrusted project file",
		      r->why ? ": " : "", r->why ? r->why->what : "");
	return trust_hint(r->changed ? "what has changed" : "the file", r->path, r->e);
}

int tighten_check(const struct spec *before, const struct spec *after, enum origin by,
		  const char *path, const struct err *why, struct err *e)
{
	struct refusal r = { .after = after,
			     .by = by,
			     .path = path,
			     .why = why,
			     .changed = trust_had(path),
			     .e = e };

	return tighten_each(before, after, by, tighten_refuse, &r);
}

/* Rules that refuse are added to those that there are. */
static int take_rules(struct spec *s, const struct spec *with, enum origin by, struct err *e)
{
	size_t had = s->egress.deny.n;

	for (size_t i = had; i < with->egress.deny.n; i++)
		if (spec_set(s, FIELD_EGRESS_DENY, with->egress.deny.v[i], by, e) < 0)
			return -e->code;
	return with->egress.deny.n > had;
}

static void tighten_take_value(struct spec *s, const struct spec *with, const struct field *f)
{
	void *to = (char *)s + f->offset;

	if (field_repeats(f)) /* what is permitted is none */
		((struct strlist *)to)->n = 0;
	else
		memcpy(to, value(with, f),
		       field_is_number(f)        ? sizeof(uint64_t)
		       : f->type == FIELD_T_BOOL ? sizeof(bool)
						 : sizeof(int));
}

static bool is_tighter(const struct spec *s, const struct spec *with, enum field_id id,
		       enum origin by)
{
	const struct field *f = &fields[id];
	bool none = field_repeats(f) && !((const struct strlist *)value(s, f))->n;

	return with->origin[id] == by && !map_of(with, f) && directions[id] != NEEDS_TRUST &&
	       directions[id] != FREE && !none && !spec_same(s, with, id) && permitted(s, with, id);
}

int tighten_take(struct spec *s, const struct spec *with, enum origin by, struct err *e)
{
	int taken = take_rules(s, with, by, e);

	for (int i = 0; i < FIELD_COUNT && taken >= 0; i++) {
		enum field_id id = (enum field_id)i;

		if (!is_tighter(s, with, id, by))
			continue;
		tighten_take_value(s, with, &fields[id]);
		s->origin[id] = by;
		taken = with->where[id] && spec_set_where(s, id, with->where[id], e) < 0 ? -e->code
											 : 1;
	}
	return taken;
}
