/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/settings/volume_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/clean.h"
#include "base/text/str.h"

#define ID_SHOWN 12
#define REMOVE_MAX 4096 /* at one go */

void volume_put_size(struct buf *b, uint64_t bytes, bool more)
{
	static const char units[] = "KMGT";
	uint64_t tenths = bytes * 10 / 1024;
	size_t u = 0;
	char text[40];

	for (; tenths >= 10240 && units[u + 1]; u++)
		tenths /= 1024;
	(void)snprintf(text, sizeof(text), "%s%llu.%llu%c", more ? ">" : "",
		       (unsigned long long)tenths / 10, (unsigned long long)tenths % 10, units[u]);
	buf_printf(b, "%9s", text);
}

void volume_when(time_t t, char out[32])
{
	struct tm tm;

	if (!t || !gmtime_r(&t, &tm) || !strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &tm))
		(void)snprintf(out, 32, "-");
}

/* --- listing --- */

struct volume_table {
	struct buf *b;
	const char *head;
	bool any;
};

static void put_project(struct buf *b, const struct volume_row *r)
{
	if (r->project) {
		buf_puts(b, "  only ");
		clean_put(b, r->project, strlen(r->project));
	}
	if (r->leftover)
		buf_puts(b, r->used ? "  (being removed)" : "  (removed, and this is left)");
	else if (r->used)
		buf_puts(b, "  (in use)");
}

static int put_line(void *arg, const struct volume_row *r)
{
	struct volume_table *t = arg;
	char last[32];

	if (!t->any)
		buf_printf(
			t->b,
			"%-12s      SIZE  LAST USE              BACKEND  POLICY           NAME\n",
			t->head);
	t->any = true;
	volume_when(r->last, last);
	buf_printf(t->b, "%.*s ", ID_SHOWN, r->id);
	volume_put_size(t->b, r->bytes, r->more);
	buf_printf(t->b, "  %-20s  %-7.16s  %-15.16s  %.64s", last, r->backend ? r->backend : "?",
		   r->policy ? r->policy : "?", r->name ? r->name : "?");
	put_project(t->b, r);
	buf_putc(t->b, '\n');
	return 0;
}

int volume_rows_text(enum volume_kind kind, struct buf *b, struct err *e)
{
	struct volume_table t = { b, kind == VOLUME_CACHES ? "CACHE" : "VOLUME", false };

	return volumes_each(kind, put_line, &t, e);
}

static int put_object(void *arg, const struct volume_row *r)
{
	struct json *j = arg;
	char last[32];

	volume_when(r->last, last);
	json_object(j);
	json_kstr(j, "id", r->id);
	json_kstr(j, "name", r->name);
	json_kstr(j, "backend", r->backend);
	json_kstr(j, "policy", r->policy);
	json_kstr(j, "image", r->image && *r->image ? r->image : NULL);
	json_kstr(j, "project", r->project);
	json_kbool(j, "trusted", r->trusted);
	json_ku64(j, "bytes", r->bytes);
	json_kbool(j, "more", r->more);
	json_kstr(j, "last_use", r->last ? last : NULL);
	json_kbool(j, "in_use", r->used);
	json_kbool(j, "leftover", r->leftover);
	json_object_end(j);
	return 0;
}

int volume_rows_json(enum volume_kind kind, const char *name, struct json *j, struct err *e)
{
	int r;

	json_karray(j, name);
	r = volumes_each(kind, put_object, j, e);
	json_array_end(j);
	return r;
}

/* --- removing --- */

struct picked {
	const struct volume_pick *pick;
	char (*ids)[SHA256_HEX];
	size_t n;
};

static bool is_picked(const struct volume_pick *p, const struct volume_row *r)
{
	bool id = p->name && strlen(p->name) >= ID_SHOWN && str_starts(r->id, p->name);

	if (r->leftover || (p->before && r->last >= p->before))
		return false;
	return !p->name || id || (r->name && str_eq(r->name, p->name));
}

static int pick_row(void *arg, const struct volume_row *r)
{
	struct picked *p = arg;

	if (p->n == REMOVE_MAX)
		return 1;
	if (is_picked(p->pick, r) && !(p->pick->before && r->used))
		memcpy(p->ids[p->n++], r->id, SHA256_HEX);
	return 0;
}

int volume_remove(enum volume_kind kind, const struct volume_pick *pick, struct volume_removed *ret,
		  struct err *e)
{
	struct picked p = { .pick = pick, .ids = calloc(REMOVE_MAX, SHA256_HEX) };
	size_t before = 0;
	int result;

	if (!p.ids)
		return err_nomem(e);
	result = volumes_tidy(kind, &before, e);
	ret->left += before;
	if (volumes_each(kind, pick_row, &p, e) < 0)
		result = -e->code;
	for (size_t i = 0; i < p.n; i++) {
		struct err one = { 0 };

		if (volumes_clear(kind, p.ids[i], &one) == 0) {
			ret->cleared++;
			continue;
		}
		ret->left++;
		if (result == 0)
			*e = one;
		result = -one.code;
	}
	free(p.ids);
	return result;
}
