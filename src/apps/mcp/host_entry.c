/* SPDX-License-Identifier: Apache-2.0 */
#include "apps/mcp/host_entry.h"

#include <string.h>

#include "base/edit/edit_json.h"
#include "base/edit/edit_toml.h"

static int json_put(const struct edit_text *t, const char *section, const char *name,
		    const char *value, struct buf *out, struct err *e)
{
	CLEANUP(buf) struct buf whole = BUF_INIT(1 << 16);
	struct edit_member top, in;
	size_t begin = edit_json_blank(t, 0);

	if (begin >= t->n) {
		buf_printf(out, "{\n  \"%s\": {\n    \"%s\": %s\n  }\n}\n", section, name, value);
		return 0;
	}
	if (edit_json_find(t, begin, section, &top, e) < 0)
		return -e->code;
	if (edit_json_blank(t, top.object.to) < t->n)
		return edit_json_malformed(e);
	if (!top.value.to) {
		buf_printf(&whole, "{\"%s\": %s}", name, value);
		edit_json_add(t, &top, section, buf_str(&whole), out);
		return 0;
	}
	if (edit_json_find(t, top.value.from, name, &in, e) < 0)
		return -e->code;
	if (in.value.to)
		edit_replace(t, in.value, value, strlen(value), out);
	else
		edit_json_add(t, &in, name, value, out);
	return 0;
}

static int json_cut(const struct edit_text *t, const char *section, const char *name,
		    struct buf *out, struct err *e)
{
	struct edit_member top, in;
	size_t begin = edit_json_blank(t, 0);

	if (begin >= t->n)
		return -ENOENT;
	if (edit_json_find(t, begin, section, &top, e) < 0)
		return -e->code;
	if (!top.value.to)
		return -ENOENT;
	if (edit_json_find(t, top.value.from, name, &in, e) < 0)
		return -e->code;
	if (!in.value.to)
		return -ENOENT;
	edit_json_cut(t, &in, out);
	return 0;
}

int entry_put(enum entry_form form, const char *text, size_t n, const char *section,
	      const char *name, const char *value, struct buf *out, struct err *e)
{
	const struct edit_text t = { .p = text, .n = n };

	return form == ENTRY_TOML ? edit_toml_table(&t, section, name, value, out, e)
				  : json_put(&t, section, name, value, out, e);
}

int entry_cut(enum entry_form form, const char *text, size_t n, const char *section,
	      const char *name, struct buf *out, struct err *e)
{
	const struct edit_text t = { .p = text, .n = n };

	return form == ENTRY_TOML ? edit_toml_table(&t, section, name, NULL, out, e)
				  : json_cut(&t, section, name, out, e);
}

enum entry_section entry_section(const char *text, size_t n, const char *section)
{
	const struct edit_text t = { .p = text, .n = n };
	struct err none = { 0 };
	struct edit_member top, in;

	if (edit_json_find(&t, edit_json_blank(&t, 0), section, &top, &none) < 0 || !top.value.to)
		return SECTION_ABSENT;
	return edit_json_find(&t, top.value.from, "", &in, &none) == 0 && edit_json_empty(&t, &in)
		       ? SECTION_EMPTY
		       : SECTION_FULL;
}

int entry_cut_section(const char *text, size_t n, const char *section, struct buf *out)
{
	const struct edit_text t = { .p = text, .n = n };
	struct err none = { 0 };
	struct edit_member top;

	if (entry_section(text, n, section) != SECTION_EMPTY ||
	    edit_json_find(&t, edit_json_blank(&t, 0), section, &top, &none) < 0)
		return -ENOENT;
	edit_json_cut(&t, &top, out);
	return 0;
}
