/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_tool_settings.c - settings of programs, of which only listed names may enter a HOME. */
#include "fuzz.h"

#include <string.h>

#include "base/bytes/jread.h"
#include "base/text/str.h"
#include "model/known/tool_settings.h"

/* A name of the list, or of a group of it. */
static bool is_listed(const struct settings_file *f, const char *name, size_t n)
{
	for (const char *const *l = f->names; *l; l++)
		if (strncmp(*l, name, n) == 0 && (!(*l)[n] || (*l)[n] == '.'))
			return true;
	return false;
}

static void check_json(const struct settings_file *f, const struct buf *out)
{
	CLEANUP(jread) struct jread *v = NULL;
	struct err e;

	require(jread_parse(out->data, out->len, &v, &e) == 0 && jread_kind(v) == JREAD_OBJECT);
	for (void *it = jread_first(v); it; it = jread_next(v, it)) {
		require(is_listed(f, jread_key(it), strlen(jread_key(it))));
		require(jread_kind(jread_value(it)) != JREAD_ARRAY);
	}
}

static void check_lines(const struct settings_file *f, const struct buf *out)
{
	const char *p = out->data, *end = out->data + out->len;

	while (p < end) {
		const char *line = memchr(p, '\n', (size_t)(end - p));

		require(line && is_listed(f, p, strcspn(p, " :")));
		require(!memchr(p, '$', (size_t)(line - p)) && !memchr(p, '[', (size_t)(line - p)));
		p = line + 1;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	for (const struct tool_settings *t = tool_settings; t->name; t++)
		for (size_t i = 0; i < 2 && t->files[i].path; i++) {
			CLEANUP(buf) struct buf out = BUF_INIT(TOOL_SETTINGS_MAX);

			if (tool_settings_take(&t->files[i], (const char *)data, size, &out) < 0 ||
			    !out.len)
				continue;
			(t->files[i].form == SETTINGS_JSON ? check_json : check_lines)(&t->files[i],
										       &out);
		}
	return 0;
}
