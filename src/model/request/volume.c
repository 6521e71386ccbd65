/* SPDX-License-Identifier: Apache-2.0 */
#include "model/request/volume.h"

#include <stdio.h>
#include <string.h>

#include "base/text/buf.h"
#include "base/text/str.h"

bool volume_is_name(const char *text)
{
	static const char ok[] = "abcdefghijklmnopqrstuvwxyz0123456789._-";
	size_t n = strlen(text);

	return n && n <= VOLUME_NAME_MAX && strspn(text, ok) == n && text[0] != '.' &&
	       text[0] != '-';
}

size_t volumes_of(const struct spec *s)
{
	return s->caches.n + s->volumes.n;
}

static int no_tool(const char *name, struct err *e)
{
	CLEANUP(buf) struct buf b = BUF_INIT(1024);

	for (const struct tool_cache *t = tool_caches; t->name; t++)
		buf_printf(&b, "%s%s", b.len ? ", " : "", t->name);
	(void)err_set(e, ERR_USAGE, EINVAL, "brig knows no cache '%.60s'", name);
	return err_hint(e, "one of %s; for anything else --volume NAME:PATH", buf_str(&b));
}

static int cache_of(const struct spec *s, const char *name, struct volume *v, struct err *e)
{
	v->tool = tool_cache_find(name);
	if (!v->tool)
		return no_tool(name, e);
	(void)snprintf(v->name, sizeof(v->name), "%s", v->tool->name);
	v->target = arena_printf(s->arena, TOOL_CACHES_PLACE "/%s", v->name);
	return v->target ? 0 : err_nomem(e);
}

int volume_of(const struct spec *s, size_t i, struct volume *ret, struct err *e)
{
	struct volume v = { .tool = NULL };
	const char *text, *colon;
	size_t n;

	if (i < s->caches.n) {
		if (cache_of(s, s->caches.v[i], &v, e) < 0)
			return -e->code;
		*ret = v;
		return 0;
	}
	text = s->volumes.v[i - s->caches.n];
	colon = strchr(text, ':');
	n = colon ? (size_t)(colon - text) : 0;
	if (n && n <= VOLUME_NAME_MAX)
		memcpy(v.name, text, n);
	if (!colon || !volume_is_name(v.name)) {
		(void)err_set(e, ERR_USAGE, EINVAL, "'%.100s' names no volume", text);
		return err_hint(e, text[0] == '/' || text[0] == '.' || text[0] == '~'
					   ? "a folder of the host is shown by --mount SRC:DST[:rw]"
					   : "NAME:PATH or NAME:PATH:ro; a name has small letters, "
					     "digits and . _ -, such as data:/data");
	}
	n = strlen(colon + 1);
	v.read_only = n > 3 && str_eq(colon + 1 + n - 3, ":ro");
	if (n > 3 && str_eq(colon + 1 + n - 3, ":rw"))
		n -= 3;
	v.target = arena_strndup(s->arena, colon + 1, n - (v.read_only ? 3 : 0));
	if (!v.target)
		return err_nomem(e);
	*ret = v;
	return 0;
}
