/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_spec.c - lines of KEY=VALUE make a spec, as a file or an API would.
 *
 * Whatever is accepted is within the bounds of the field table; a check says the same about a clone
 * as about the original; what passed the check has only plain absolute paths. */
#include <errno.h>

#include "fuzz.h"

#include "model/settings/paths.h"
#include "model/settings/spec.h"

static void require_bounds(const struct spec *s)
{
	for (int id = 0; id < FIELD_COUNT; id++) {
		const struct field *f = &fields[id];
		const void *at = (const char *)s + f->offset;
		uint64_t v;

		if (f->type < FIELD_T_COUNT || f->type > FIELD_T_MILLI ||
		    !spec_wrote(s, (enum field_id)id))
			continue;
		memcpy(&v, at, sizeof(v));
		require(v >= f->min && v <= f->max);
	}
	require(!s->user.given || (s->user.uid && s->user.gid));
	for (size_t i = 0; i < s->read.n; i++)
		require(s->read.v[i] != NULL);
	for (size_t i = 0; i < s->env.n; i++)
		require(s->env.v[i].name[0] && s->env.v[i].value);
}

static void require_checked(const struct spec *s)
{
	require(s->workdir[0] == '/');
	for (size_t i = 0; i < s->mounts.n; i++)
		require(s->mounts.v[i].source[0] == '/' && s->mounts.v[i].target[0] == '/');
	for (size_t i = 0; i < s->read.n; i++)
		require(s->read.v[i][0] == '/' && !path_under(s->read.v[i], "/proc"));
	for (size_t i = 0; i < s->write.n; i++)
		require(s->write.v[i][0] == '/' && s->policy != POLICY_READONLY);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct place at = { .cwd = "/src/project", .home = "/home/me" };
	char *text = text_of(data, size), *rest = text, *line;
	struct spec *s, *copy;
	struct err e = { 0 };
	int r;

	s = spec_new(&e);
	require(s != NULL);
	while (size < 4096 && (line = strsep(&rest, "\n"))) {
		char *value = strchr(line, '=');

		if (value)
			*value++ = '\0';
		r = spec_set_key(s, line, value ? value : "", ORIGIN_FLAG, &e);
		require(r <= 0 && (r == 0 || (e.code == -r && e.what[0])));
	}
	require_bounds(s);
	copy = spec_clone(s, &e);
	require(copy != NULL);
	r = spec_check(s, &at, &e);
	require(spec_check(copy, &at, &e) == r);
	if (r == 0) {
		require_checked(s);
		require_checked(copy);
	}
	(void)spec_free(s);
	(void)spec_free(copy);
	free(text);
	return 0;
}
