/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/api/api_body.c - is a body what its schema says? */
#include <stdio.h>
#include <string.h>

#include "base/text/str.h"
#include "daemon/api/api.h"

#define NAMES_MAX 24

const struct api_schema *api_schema(const char *name)
{
	for (const struct api_schema *s = api_schemas; s->name; s++)
		if (str_eq(s->name, name))
			return s;
	return NULL;
}

static bool all_strings(const struct jread *v)
{
	if (jread_kind(v) == JREAD_ARRAY) {
		for (size_t i = 0; i < jread_count(v); i++)
			if (!jread_text(jread_at(v, i)))
				return false;
		return true;
	}
	for (void *it = jread_first(v); it; it = jread_next(v, it))
		if (!jread_text(jread_value(it)))
			return false;
	return true;
}

static bool fits_type(const struct api_member *m, const struct jread *v)
{
	enum jread_kind k = jread_kind(v);

	switch (m->type) {
	case API_STRING:
		return k == JREAD_STRING;
	case API_INT:
		return k == JREAD_INT;
	case API_BOOL:
		return k == JREAD_BOOL;
	case API_TIME:
	case API_SIZE:
		return k == JREAD_STRING || k == JREAD_INT;
	case API_STRINGS:
		return k == JREAD_ARRAY && all_strings(v);
	case API_TEXTS:
		return k == JREAD_OBJECT && all_strings(v);
	case API_OBJECT:
		return k == JREAD_OBJECT;
	case API_LIST:
		return k == JREAD_ARRAY;
	}
	return false;
}

static const char *type_words(enum api_type t)
{
	static const char *const words[] = {
		[API_STRING] = "a string",
		[API_INT] = "a whole number",
		[API_BOOL] = "true or false",
		[API_TIME] = "a time such as \"10m\"",
		[API_SIZE] = "a size such as \"64k\"",
		[API_STRINGS] = "a list of strings",
		[API_TEXTS] = "an object of strings",
		[API_OBJECT] = "an object",
		[API_LIST] = "a list",
	};

	return words[t];
}

static enum problem api_body_unknown(const struct api_member *members, const char *what,
				     const char *key, struct err *e)
{
	const char *names[NAMES_MAX], *near;
	size_t n = 0;

	for (; members && members->name && n < NAMES_MAX - 1; members++)
		names[n++] = members->name;
	names[n] = NULL;
	near = str_nearest(key, names);
	(void)problem_say(PROBLEM_INVALID, e, "unknown %s '%.60s'", what, key);
	if (near)
		(void)err_hint(e, "did you mean '%s'?", near);
	return PROBLEM_INVALID;
}

enum problem api_check(const struct api_schema *s, const struct jread *body, struct err *e)
{
	if (jread_kind(body) != JREAD_OBJECT)
		return problem_say(PROBLEM_INVALID, e, "the body must be a JSON object");
	for (void *it = jread_first(body); it; it = jread_next(body, it)) {
		const struct api_member *m = s->members;

		while (m->name && !str_eq(m->name, jread_key(it)))
			m++;
		if (!m->name)
			return api_body_unknown(s->members, "member", jread_key(it), e);
		if (jread_kind(jread_value(it)) != JREAD_NULL && !fits_type(m, jread_value(it)))
			return problem_say(PROBLEM_INVALID, e, "'%s' must be %s", m->name,
					   type_words(m->type));
	}
	for (const struct api_member *m = s->members; m->name; m++)
		if (m->required && jread_kind(jread_get(body, m->name)) <= JREAD_NULL)
			return problem_say(PROBLEM_INVALID, e, "'%s' is missing", m->name);
	return PROBLEM_NONE;
}

enum problem api_check_query(const struct api_member *known, const char *query, struct err *e)
{
	for (const char *p = query; *p;) {
		size_t len = strcspn(p, "&"), n = strcspn(p, "=&");
		const struct api_member *m = known;
		char name[64];

		while (m && m->name && (strlen(m->name) != n || strncmp(m->name, p, n) != 0))
			m++;
		(void)snprintf(name, sizeof(name), "%.*s", (int)(n < 60 ? n : 60), p);
		if (len && (!m || !m->name))
			return api_body_unknown(known, "parameter", name, e);
		p += len + (p[len] == '&');
	}
	return PROBLEM_NONE;
}
