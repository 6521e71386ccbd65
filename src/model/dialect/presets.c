/* SPDX-License-Identifier: Apache-2.0 */
#include "model/dialect/presets.h"

#include "base/text/str.h"

static const struct preset none = { .requests_per_minute = 60, .burst = 10, .prompt_max = 50000 };

static const struct preset presets[] = {
	{ "public", 30, 5, 10000, true, true, true, true, false },
	{ "internal", 120, 20, 50000, false, false, false, false, false },
	{ "development", 9999, 9999, 500000, false, false, false, false, false },
	{ "sandbox", 30, 5, 10000, true, true, true, true, true }, /* public and more */
};

const struct preset *preset_none(void)
{
	return &none;
}

/* NULL: there is none of that name. */
static const struct preset *preset_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(presets); i++)
		if (str_eq(presets[i].name, name))
			return &presets[i];
	return NULL;
}

static int apply(struct spec *s, const struct source *src, const struct node *n, struct err *e)
{
	static const struct {
		enum field_id id;
		const char *text;
	} settings[] = {
		{ FIELD_BACKEND, "auto" },
		{ FIELD_NETWORK, "none" },
		{ FIELD_READ_ONLY_ROOT, "true" },
		{ FIELD_MEMORY, "256m" },
		{ FIELD_CPUS, "1" },
	};

	for (size_t i = 0; i < ARRAY_LEN(settings); i++) {
		if (spec_set(s, settings[i].id, settings[i].text, src->origin, e) < 0)
			return read_failed(src, n, e);
		if (read_where(s, src, settings[i].id, n, e) < 0)
			return -e->code;
	}
	return 0;
}

int preset_read(struct spec *s, const struct source *src, const struct node *n,
		const struct preset **ret, struct err *e)
{
	const char *names[ARRAY_LEN(presets) + 1] = { 0 }, *text, *near;
	const struct preset *p;

	if (read_text(src, n, &text, e) < 0)
		return -e->code;
	p = text ? preset_find(text) : &none;
	if (!p) {
		for (size_t i = 0; i < ARRAY_LEN(presets); i++)
			names[i] = presets[i].name;
		near = str_nearest(text, names);
		(void)node_error(src->name, n, e, "unknown preset '%.60s'", text);
		return near ? err_hint(e, "did you mean '%s'?", near)
			    : err_hint(e, "public, internal, development or sandbox");
	}
	if (p->sandbox && apply(s, src, n, e) < 0)
		return -e->code;
	*ret = p;
	return 0;
}
