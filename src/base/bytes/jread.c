/* SPDX-License-Identifier: Apache-2.0 */
/* base/bytes/jread.c - jansson behind names of our own: its header and base/bytes/json.h exclude
 * each other. */
#include "base/bytes/jread.h"

#include <errno.h>
#include <jansson.h>
#include <sys/random.h>

static const json_t *in(const struct jread *v)
{
	return (const json_t *)v;
}

static const struct jread *out(const json_t *v)
{
	return (const struct jread *)v;
}

bool jread_within(const char *p, size_t n, unsigned depth, unsigned values)
{
	unsigned level = 0, seen = 0;
	bool quoted = false;

	for (size_t i = 0; i < n; i++) {
		if (quoted && p[i] == '\\')
			i++;
		else if (p[i] == '"')
			quoted = !quoted;
		else if (!quoted && (p[i] == '{' || p[i] == '['))
			level++;
		else if (!quoted && (p[i] == '}' || p[i] == ']') && level)
			level--;
		if (!quoted && (p[i] == '{' || p[i] == '[' || p[i] == ','))
			seen++;
		if (level > depth || seen > values)
			return false;
	}
	return true;
}

int jread_parse(const char *p, size_t n, struct jread **ret, struct err *e)
{
	json_error_t why;
	json_t *v;
	size_t seed = 0;

	/* Taken once. By itself it reads a file, which a confined process cannot, and then takes
	 * the time, which a stranger knows. */
	(void)!getrandom(&seed, sizeof(seed), GRND_NONBLOCK);
	json_object_seed(seed);
	v = json_loadb(p ? p : "", n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &why);

	if (!v)
		return err_set(e, ERR_INTERNAL, EBADMSG, "not JSON: %s", why.text);
	*ret = (struct jread *)v;
	return 0;
}

struct jread *jread_free(struct jread *root)
{
	json_decref((json_t *)root);
	return NULL;
}

enum jread_kind jread_kind(const struct jread *v)
{
	if (!v)
		return JREAD_NONE;
	switch (json_typeof(in(v))) {
	case JSON_OBJECT:
		return JREAD_OBJECT;
	case JSON_ARRAY:
		return JREAD_ARRAY;
	case JSON_STRING:
		return JREAD_STRING;
	case JSON_INTEGER:
		return JREAD_INT;
	case JSON_REAL:
		return JREAD_REAL;
	case JSON_TRUE:
	case JSON_FALSE:
		return JREAD_BOOL;
	case JSON_NULL:
		break;
	}
	return JREAD_NULL;
}

static int jread_add(const char *p, size_t n, void *arg)
{
	buf_add(arg, p, n);
	return 0;
}

void jread_write(const struct jread *v, struct buf *b)
{
	if (json_dump_callback(in(v), jread_add, b,
			       JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15)) < 0)
		b->failed = true;
}

const struct jread *jread_get(const struct jread *v, const char *key)
{
	return out(json_object_get(in(v), key));
}

const char *jread_str(const struct jread *v, const char *key)
{
	return json_string_value(json_object_get(in(v), key));
}

int64_t jread_int(const struct jread *v, const char *key, int64_t otherwise)
{
	const json_t *n = json_object_get(in(v), key);

	return json_is_integer(n) ? json_integer_value(n) : otherwise;
}

bool jread_bool(const struct jread *v, const char *key)
{
	return json_is_true(json_object_get(in(v), key));
}

size_t jread_count(const struct jread *v)
{
	return json_array_size(in(v));
}

const struct jread *jread_at(const struct jread *v, size_t i)
{
	return out(json_array_get(in(v), i));
}

const char *jread_text(const struct jread *v)
{
	return json_string_value(in(v));
}

void *jread_first(const struct jread *v)
{
	return json_object_iter((json_t *)(uintptr_t)v);
}

void *jread_next(const struct jread *v, void *it)
{
	return json_object_iter_next((json_t *)(uintptr_t)v, it);
}

const char *jread_key(void *it)
{
	return json_object_iter_key(it);
}

const struct jread *jread_value(void *it)
{
	return out(json_object_iter_value(it));
}

char *jread_dump(const struct jread *v)
{
	return json_dumps(in(v), JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
}

void jread_drop(const struct jread *v, const char *key)
{
	(void)json_object_del((json_t *)(uintptr_t)v, key);
}
