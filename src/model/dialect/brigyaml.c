/* SPDX-License-Identifier: Apache-2.0 */
/* model/dialect/brigyaml.c - brig's own dialect, read by the field table.
 *
 * A key of the table "group.name" stands as `name` in the map `group`. Only the forms that a line
 * of text cannot hold are known here: maps of variables and mounts; copies and rules are in
 * brigyaml_lists.c, companions in companions.c, credentials in credentials.c. */
#include <stdio.h>
#include <string.h>

#include "base/text/str.h"
#include "model/dialect/brigyaml.h"
#include "model/dialect/companions.h"
#include "model/dialect/credentials.h"

#define VERSION "1"
#define KEY_MAX 64

/* --- maps of names and values --- */

static int read_pairs(struct spec *s, const struct source *src, enum field_id id,
		      const struct node *map, struct err *e)
{
	if (map->kind == NODE_NULL)
		return 0;
	if (brigyaml_want(src, map, NODE_MAP, e) < 0)
		return -e->code;
	(void)spec_list_begin(s, id, src->origin);
	for (const struct node *n = map->first; n; n = n->next) {
		const char *text;

		if (brigyaml_want(src, n, NODE_SCALAR, e) < 0)
			return -e->code;
		if (strchr(n->key, '='))
			return node_key_error(src->name, n, e, "'%.60s' is not a name", n->key);
		text = arena_printf(s->arena, "%s=%s", n->key, n->text);
		if (!text)
			return err_nomem(e);
		if (spec_set(s, id, text, src->origin, e) < 0)
			return read_failed(src, n, e);
	}
	return read_where(s, src, id, map, e);
}

/* --- mounts: SRC:DST[:rw], or {source, target, read_only} --- */

static int read_mount_map(struct spec *s, const struct source *src, const struct node *n,
			  struct err *e)
{
	static const char *const keys[] = { "source", "target", "read_only", NULL };
	const struct node *mode = brigyaml_member(n, "read_only");
	const char *source, *target;
	bool read_only = true;

	if (read_only_keys(src, n, keys, "a mount", e) < 0 ||
	    brigyaml_text(src, n, "source", &source, e) < 0 ||
	    brigyaml_text(src, n, "target", &target, e) < 0)
		return -e->code;
	if (mode && node_bool(src->name, mode, &read_only, e) < 0)
		return -e->code;
	return read_mount(s, src, n, source, target, !read_only, e);
}

static int read_mounts(struct spec *s, const struct source *src, const struct node *list,
		       struct err *e)
{
	struct node one;

	if (list->kind != NODE_LIST)
		return read_list(s, src, FIELD_MOUNT, list, e);
	(void)spec_list_begin(s, FIELD_MOUNT, src->origin);
	for (const struct node *n = list->first; n; n = n->next) {
		if (n->kind == NODE_MAP) {
			if (read_mount_map(s, src, n, e) < 0)
				return -e->code;
			continue;
		}
		/* The list was begun above; a list of one more element only adds to it. */
		one = *n;
		one.next = NULL;
		if (read_list(s, src, FIELD_MOUNT,
			      &(struct node){ .kind = NODE_LIST, .line = n->line, .first = &one },
			      e) < 0)
			return -e->code;
	}
	return read_where(s, src, FIELD_MOUNT, list, e);
}

/* --- the table --- */

static int read_field(struct spec *s, const struct source *src, enum field_id id,
		      const struct node *n, struct err *e)
{
	switch (fields[id].type) {
	case FIELD_T_ENV:
	case FIELD_T_LABELS:
	case FIELD_T_PINS:
	case FIELD_T_LEAKS:
		return read_pairs(s, src, id, n, e);
	case FIELD_T_MOUNTS:
		return read_mounts(s, src, n, e);
	case FIELD_T_COPIES:
		return brigyaml_copies(s, src, n, e);
	case FIELD_T_COMPANIONS:
		return companions_read(s, src, n, e);
	case FIELD_T_RULES:
		return brigyaml_rules(s, src, id, n, e);
	case FIELD_T_CREDENTIALS:
		return credentials_read(s, src, n, e);
	default:
		return field_repeats(&fields[id]) ? read_list(s, src, id, n, e)
						  : read_scalar(s, src, id, n, e);
	}
}

/* The next key of the table below `group` ("" for the top), each name once; NULL at the end. */
static const char *next_key(const char *group, int *at, char out[KEY_MAX])
{
	size_t n = strlen(group);

	for (int i = *at; i < FIELD_COUNT; i++) {
		const char *key = fields[i].key, *rest;

		if (!key || strncmp(key, group, n) != 0 || (n && key[n] != '.'))
			continue;
		rest = key + (n ? n + 1 : 0);
		(void)snprintf(out, KEY_MAX, "%.*s", (int)strcspn(rest, "."), rest);
		*at = i + 1;
		return out;
	}
	return NULL;
}

static int unknown_key(const struct source *src, const char *group, const struct node *n,
		       struct err *e)
{
	char names[FIELD_COUNT][KEY_MAX];
	const char *list[FIELD_COUNT + 3], *near;
	const struct field *f;
	enum field_id id;
	size_t count = 0;
	int at = 0;

	while (next_key(group, &at, names[count])) {
		list[count] = names[count];
		count++;
	}
	if (!*group) {
		list[count++] = "brig";
		list[count++] = "daemon";
	}
	list[count] = NULL;
	near = str_nearest(n->key, list);
	(void)node_key_error(src->name, n, e, "unknown key '%.60s'%s%s", n->key,
			     *group ? " in " : "", group);
	/* An option by its name: in a file it may stand elsewhere. */
	f = field_by_flag(n->key, &id);
	if (f && f->key)
		return err_hint(e, "in a file it is written '%s'", f->key);
	/* Nobody is led out of the sandbox by a slip of the pen. */
	if (near && !str_eq(near, fields[FIELD_FULL_ACCESS_OK].key))
		return err_hint(e, "did you mean '%s'?", near);
	if (!*group && field_by_key(n->key, &(enum field_id){ 0 }))
		return err_hint(e, "write '%s' in the map '%.*s'", strchr(n->key, '.') + 1,
				(int)strcspn(n->key, "."), n->key);
	return -e->code;
}

static bool is_group(const char *key)
{
	char name[KEY_MAX];
	int at = 0;

	return next_key(key, &at, name);
}

/* `group` is the name of the map as keys of the table begin: "limits", "egress.rate". */
static int read_group(struct spec *s, const struct source *src, const char *group,
		      const struct node *map, struct err *e)
{
	char key[KEY_MAX];
	enum field_id id;

	if (map->kind == NODE_NULL)
		return 0;
	if (brigyaml_want(src, map, NODE_MAP, e) < 0)
		return -e->code;
	for (const struct node *n = map->first; n; n = n->next) {
		int len = snprintf(key, sizeof(key), "%s.%s", group, n->key), r;

		if (strchr(n->key, '.') || len < 0 || (size_t)len >= sizeof(key))
			return unknown_key(src, group, n, e);
		if (is_group(key))
			r = read_group(s, src, key, n, e);
		else if (field_by_key(key, &id))
			r = read_field(s, src, id, n, e);
		else
			return unknown_key(src, group, n, e);
		if (r < 0)
			return r;
	}
	return 0;
}

static int read_version(const struct source *src, const struct node *n, struct err *e)
{
	if (n->kind == NODE_SCALAR && str_eq(n->text, VERSION))
		return 0;
	(void)node_error(src->name, n, e, "brig: version '%.40s' is not one this brig knows",
			 n->kind == NODE_SCALAR ? n->text : node_kind_name(n->kind));
	return err_hint(e, "write 'brig: " VERSION "'");
}

/* --- what is the daemon's, and no setting of a run --- */

/* What tenants may ask for is the word of who owns the daemon, in a file that is nobody else's. */
static int daemon_allowed(const struct source *src, const struct node *n, struct err *e)
{
	if (src->origin == ORIGIN_SYSTEM || src->origin == ORIGIN_USER ||
	    (src->origin == ORIGIN_FILE && src->trusted))
		return 0;
	(void)node_key_error(src->name, n, e, "'%s' does not belong in this file", n->key);
	e->kind = ERR_POLICY;
	return err_hint(e, "write it in ~/.config/brig/config.yaml or /etc/brig/config.yaml");
}

/* A brig.yaml in a brig.yaml. Whoever checks the file alone wants to know that it can be read. */
static int read_ceiling(const struct source *src, const struct node *n, struct err *e)
{
	CLEANUP(spec) struct spec *unused = NULL;
	struct source inner = *src;

	if (!src->ceiling && src->origin != ORIGIN_FILE)
		return 0;
	unused = src->ceiling ? NULL : spec_new(e);
	if (!src->ceiling && !unused)
		return -e->code;
	inner.ceiling = NULL;
	inner.trusted = false; /* no ceiling in a ceiling */
	inner.origin = ORIGIN_FILE;
	return brig_read(src->ceiling ? src->ceiling : unused, &inner, n, e);
}

static int read_daemon(const struct source *src, const struct node *map, struct err *e)
{
	static const char *const keys[] = { "ceiling", NULL };
	const struct node *n;

	if (daemon_allowed(src, map, e) < 0)
		return -e->code;
	if (map->kind == NODE_NULL)
		return 0;
	if (brigyaml_want(src, map, NODE_MAP, e) < 0 ||
	    read_only_keys(src, map, keys, "daemon", e) < 0)
		return -e->code;
	n = brigyaml_member(map, "ceiling");
	return n ? read_ceiling(src, n, e) : 0;
}

static int read_top(struct spec *s, const struct source *src, const struct node *n, struct err *e)
{
	enum field_id id;

	if (str_eq(n->key, "brig"))
		return read_version(src, n, e);
	if (str_eq(n->key, "daemon"))
		return read_daemon(src, n, e);
	if (!strchr(n->key, '.') && is_group(n->key))
		return read_group(s, src, n->key, n, e);
	if (strchr(n->key, '.') || !field_by_key(n->key, &id))
		return unknown_key(src, "", n, e);
	return read_field(s, src, id, n, e);
}

int brig_read(struct spec *s, const struct source *src, const struct node *root, struct err *e)
{
	if (root->kind == NODE_NULL)
		return 0;
	if (brigyaml_want(src, root, NODE_MAP, e) < 0)
		return -e->code;
	for (const struct node *n = root->first; n; n = n->next)
		if (read_top(s, src, n, e) < 0)
			return -e->code;
	return 0;
}
