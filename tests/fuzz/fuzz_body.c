/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_body.c - the JSON body of a call: read, compared with the schema of every route, and
 * written down as the daemon keeps it, it is what it was. */
#include "fuzz.h"

#include "base/bytes/jread.h"
#include "daemon/api/api.h"

/* What a handler relies on once its body has passed. */
static void relied_on(const struct api_schema *s, const struct jread *v)
{
	for (const struct api_member *m = s->members; m->name; m++) {
		const struct jread *one = jread_get(v, m->name);

		if (m->required)
			require(jread_kind(one) > JREAD_NULL);
		if (jread_kind(one) <= JREAD_NULL)
			continue;
		if (m->type == API_STRING)
			require(jread_str(v, m->name) != NULL);
		for (size_t i = 0; m->type == API_STRINGS && i < jread_count(one); i++)
			require(jread_text(jread_at(one, i)) != NULL);
		for (void *it = m->type == API_TEXTS ? jread_first(one) : NULL; it;
		     it = jread_next(one, it))
			require(jread_key(it) && jread_text(jread_value(it)));
	}
}

static void again(const struct jread *v)
{
	CLEANUP(buf) struct buf once = BUF_INIT((size_t)8 << 20);
	CLEANUP(buf) struct buf twice = BUF_INIT((size_t)8 << 20);
	CLEANUP(jread) struct jread *same = NULL;
	struct err e = { 0 };

	jread_write(v, &once);
	if (once.failed)
		return;
	require(!memchr(once.data, '\n', once.len));
	require(jread_parse(once.data, once.len, &same, &e) == 0);
	jread_write(same, &twice);
	require(once.len == twice.len && memcmp(once.data, twice.data, once.len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(jread) struct jread *v = NULL;
	struct err e = { 0 };

	if (jread_parse((const char *)data, size, &v, &e) < 0) {
		require(*e.what);
		return 0;
	}
	for (const struct api_schema *s = api_schemas; s->name; s++) {
		struct err why = { 0 };

		if (api_check(s, v, &why) == PROBLEM_NONE)
			relied_on(s, v);
		else
			require(*why.what);
	}
	again(v);
	return 0;
}
