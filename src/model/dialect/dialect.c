/* SPDX-License-Identifier: Apache-2.0 */
/* model/dialect/dialect.c - which dialect a document is in, and what all readers need. */
#include "model/dialect/dialect.h"

#include <stdio.h>
#include <string.h>

#include "base/text/str.h"
#include "model/settings/paths.h"
#include "model/settings/spec_lists.h"

static const char *const names[] = {
	[DIALECT_BRIG] = "brig",     [DIALECT_INITRUNNER] = "initrunner", [DIALECT_RLM] = "rlm",
	[DIALECT_AGENTS] = "agents", [DIALECT_IRONCLAW] = "ironclaw",     [DIALECT_COUNT] = NULL,
};

const char *dialect_name(enum dialect d)
{
	return d < DIALECT_COUNT ? names[d] : "unknown";
}

int dialect_by_name(const char *name, enum dialect *ret, struct err *e)
{
	const char *near;

	for (int d = 0; d < DIALECT_COUNT; d++)
		if (str_eq(names[d], name)) {
			*ret = (enum dialect)d;
			return 0;
		}
	near = str_nearest(name, names);
	(void)err_set(e, ERR_USAGE, EINVAL, "unknown dialect '%.60s'", name);
	return near ? err_hint(e, "did you mean '%s'?", near)
		    : err_hint(e, "brig, initrunner, rlm, agents or ironclaw");
}

static bool dialect_among(const char *s, const char *const *words)
{
	for (; *words; words++)
		if (str_eq(s, *words))
			return true;
	return false;
}

static bool looks_initrunner(const struct node *root)
{
	const struct node *version = node_get(root, "apiVersion");

	if (version && version->kind == NODE_SCALAR && str_starts(version->text, "initrunner/"))
		return true;
	return root->count == 1 && str_eq(root->first->key, "security");
}

static bool looks_rlm(const struct node *root)
{
	/* Keys of its `docker` block that are often written one level too high. */
	static const char *const misplaced[] = { "network_enabled", "extra_args", NULL };
	const struct node *sandbox = node_get(root, "sandbox");

	for (const struct node *n = sandbox && sandbox->kind == NODE_MAP ? sandbox->first : NULL; n;
	     n = n->next)
		if (dialect_among(n->key, rlm_keys) || dialect_among(n->key, misplaced))
			return true;
	return false;
}

static bool looks_agents(const struct node *root)
{
	if (!node_get(root, "image"))
		return false;
	for (const struct node *n = root->first; n; n = n->next)
		if (!dialect_among(n->key, agents_keys))
			return false;
	return true;
}

static int unrecognised(const struct source *src, const struct node *root, struct err *e)
{
	const struct node *v = node_get(root, "apiVersion");

	if (v && v->kind == NODE_SCALAR) {
		(void)node_error(src->name, v, e, "apiVersion '%.60s' is not one brig knows",
				 v->text);
		return err_hint(e, "a role says apiVersion: initrunner/v1");
	}
	(void)node_error(src->name, root, e, "not in a dialect that brig knows");
	return err_hint(e, "brig's own begins with 'brig: 1'; --dialect NAME names another: "
			   "initrunner, rlm, agents or ironclaw");
}

int dialect_of_tree(const struct source *src, const struct node *root, enum dialect *ret,
		    struct err *e)
{
	bool is[DIALECT_COUNT] = { 0 };
	int first = -1, second = -1;

	if (root->kind != NODE_MAP) {
		(void)node_error(src->name, root, e, "expected a map of settings, not %s",
				 node_kind_name(root->kind));
		return err_hint(e, "a brig.yaml begins with 'brig: 1'");
	}
	is[DIALECT_BRIG] = node_get(root, "brig") != NULL;
	is[DIALECT_INITRUNNER] = looks_initrunner(root);
	is[DIALECT_RLM] = looks_rlm(root);
	is[DIALECT_AGENTS] = looks_agents(root);
	for (int d = 0; d < DIALECT_COUNT; d++)
		if (is[d] && first < 0)
			first = d;
		else if (is[d] && second < 0)
			second = d;
	/* An image and a slip: read as what it must be, so that the error names the key. */
	if (first < 0 && node_get(root, "image") && !node_get(root, "apiVersion"))
		first = DIALECT_AGENTS;
	if (first < 0)
		return unrecognised(src, root, e);
	if (second >= 0) {
		(void)node_error(src->name, root, e, "could be '%s' or '%s'", names[first],
				 names[second]);
		return err_hint(e, "say which with --dialect %s or --dialect %s", names[first],
				names[second]);
	}
	*ret = (enum dialect)first;
	return 0;
}

/* The name in front of '=' of one line, without "export"; its length, 0 when there is none. */
static size_t line_name(const char **p, const char *end)
{
	const char *at = *p, *from;

	while (at < end && (*at == ' ' || *at == '\t'))
		at++;
	if (end - at > 7 && memcmp(at, "export ", 7) == 0)
		for (at += 7; at < end && *at == ' ';)
			at++;
	for (from = at; at < end && ((*at >= 'A' && *at <= 'Z') || (*at >= 'a' && *at <= 'z') ||
				     (*at >= '0' && *at <= '9') || *at == '_');)
		at++;
	*p = from;
	return at < end && *at == '=' ? (size_t)(at - from) : 0;
}

static bool says_nothing(const char *p, const char *eol)
{
	while (p < eol && (*p == ' ' || *p == '\t' || *p == '\r'))
		p++;
	return p == eol || *p == '#';
}

/* NAME=value as its first line is no map in YAML, so the two are never confused. */
bool dialect_is_env(const char *data, size_t n)
{
	const char *end = data + n;
	bool first = true;

	for (const char *p = data, *eol; p < end; p = eol + 1) {
		const char *at = p;
		size_t len;

		eol = memchr(p, '\n', (size_t)(end - p));
		if (!eol)
			eol = end;
		if (says_nothing(p, eol))
			continue;
		len = line_name(&at, eol);
		if (len > 8 && memcmp(at, "SANDBOX_", 8) == 0)
			return true;
		if (first && !len)
			return false;
		first = false;
	}
	return false;
}

/* --- helpers the readers share --- */

int read_failed(const struct source *src, const struct node *n, struct err *e)
{
	if (e->kind == ERR_USAGE)
		e->kind = ERR_CONFIG;
	if (n->key)
		return err_wrap(e, "%.128s:%d:%d: %.60s", src->name, n->line, n->column, n->key);
	return err_wrap(e, "%.128s:%d:%d", src->name, n->line, n->column);
}

int read_where(struct spec *s, const struct source *src, enum field_id id, const struct node *n,
	       struct err *e)
{
	const char *where;

	if (s->origin[id] != src->origin)
		return 0;
	where = arena_printf(s->arena, "%s:%d:%d", src->name, n->line, n->column);
	if (!where)
		return err_nomem(e);
	s->where[id] = where;
	return 0;
}

int read_text(const struct source *src, const struct node *n, const char **ret, struct err *e)
{
	*ret = NULL;
	if (n->kind == NODE_NULL)
		return 0;
	if (n->kind != NODE_SCALAR)
		return node_error(src->name, n, e, "%s%sexpected a value, not %s",
				  n->key ? n->key : "", n->key ? ": " : "",
				  node_kind_name(n->kind));
	*ret = n->text;
	return 0;
}

int read_path(struct spec *s, const struct source *src, const struct node *n, const char **ret,
	      struct err *e)
{
	struct place at = { .cwd = src->folder, .home = src->home };
	const char *text;

	if (read_text(src, n, &text, e) < 0)
		return -e->code;
	if (!text)
		return node_error(src->name, n, e, "%s%sa path is missing", n->key ? n->key : "",
				  n->key ? ": " : "");
	return path_resolve(s->arena, &at, text, ret, e) < 0 ? read_failed(src, n, e) : 0;
}

/* YAML 1.1 reads 0755 in base eight and 1_000 as a thousand; neither is taken for another number.
 */
static int check_number(const struct source *src, const struct field *f, const struct node *n,
			struct err *e)
{
	bool number = f->type == FIELD_T_COUNT || f->type == FIELD_T_SIZE ||
		      f->type == FIELD_T_DURATION || f->type == FIELD_T_MILLI;

	if (number && n->text[0] == '0' && n->text[1] >= '0' && n->text[1] <= '9')
		return node_error(src->name, n, e, "%s%s'%.40s' begins with a zero",
				  n->key ? n->key : "", n->key ? ": " : "", n->text);
	return 0;
}

/* What spec_set is to be given for this node. */
static int scalar_text(struct spec *s, const struct source *src, enum field_id id,
		       const struct node *n, const char **ret, struct err *e)
{
	const struct field *f = &fields[id];
	bool v;

	if (f->type == FIELD_T_BOOL) {
		if (node_bool(src->name, n, &v, e) < 0)
			return -e->code;
		*ret = v ? "true" : "false";
		return 0;
	}
	if (read_text(src, n, ret, e) < 0 || check_number(src, f, n, e) < 0)
		return -e->code;
	if (f->type == FIELD_T_PATH || f->type == FIELD_T_PATHS)
		return read_path(s, src, n, ret, e);
	return 0;
}

int read_scalar(struct spec *s, const struct source *src, enum field_id id, const struct node *n,
		struct err *e)
{
	const char *text = NULL;

	if (n->kind == NODE_NULL)
		return 0;
	if (scalar_text(s, src, id, n, &text, e) < 0)
		return -e->code;
	if (spec_set(s, id, text, src->origin, e) < 0)
		return read_failed(src, n, e);
	return read_where(s, src, id, n, e);
}

int read_mount(struct spec *s, const struct source *src, const struct node *at, const char *source,
	       const char *target, bool writable, struct err *e)
{
	struct place place = { .cwd = src->folder, .home = src->home };
	struct mount_spec m = { .writable = writable }, *slot;

	if (strchr(source, ':') || strchr(target, ':'))
		return node_error(src->name, at, e, "a path that contains ':' cannot be mounted");
	if (path_resolve(s->arena, &place, source, &m.source, e) < 0)
		return read_failed(src, at, e);
	m.target = arena_strdup(s->arena, target);
	if (!m.target)
		return err_nomem(e);
	if (str_has_control(target))
		return node_error(src->name, at, e, "a mount target with a control character");
	if (s->origin[FIELD_MOUNT] > src->origin)
		return 0;
	slot = ARENA_PUSH(s->arena, s->mounts.v, s->mounts.n);
	if (!slot)
		return err_nomem(e);
	*slot = m;
	return 0;
}

static int read_mount_text(struct spec *s, const struct source *src, const struct node *n,
			   struct err *e)
{
	struct mount_spec m;

	if (mount_parse(s->arena, n->text, &m, e) < 0)
		return read_failed(src, n, e);
	return read_mount(s, src, n, m.source, m.target, m.writable, e);
}

static int read_element(struct spec *s, const struct source *src, enum field_id id,
			const struct node *n, struct err *e)
{
	const char *text = NULL;

	if (n->kind != NODE_SCALAR)
		return node_error(src->name, n, e, "expected a value in the list, not %s",
				  node_kind_name(n->kind));
	if (fields[id].type == FIELD_T_MOUNTS)
		return read_mount_text(s, src, n, e);
	if (scalar_text(s, src, id, n, &text, e) < 0)
		return -e->code;
	return spec_set(s, id, text, src->origin, e) < 0 ? read_failed(src, n, e) : 0;
}

int read_list(struct spec *s, const struct source *src, enum field_id id, const struct node *n,
	      struct err *e)
{
	if (n->kind != NODE_LIST && n->kind != NODE_NULL)
		return node_error(src->name, n, e, "%s%sexpected a list, not %s",
				  n->key ? n->key : "", n->key ? ": " : "",
				  node_kind_name(n->kind));
	(void)spec_list_begin(s, id, src->origin);
	for (const struct node *c = n->first; c; c = c->next)
		if (read_element(s, src, id, c, e) < 0)
			return -e->code;
	return read_where(s, src, id, n, e);
}

int read_default(struct spec *s, enum field_id id, const char *text, struct err *e)
{
	return spec_set(s, id, text, ORIGIN_DIALECT, e);
}

int read_defaults(struct spec *s, const struct dialect_default *v, size_t n, struct err *e)
{
	for (size_t i = 0; i < n; i++)
		if (read_default(s, v[i].id, v[i].text, e) < 0)
			return -e->code;
	return 0;
}

int read_only_keys(const struct source *src, const struct node *map, const char *const *keys,
		   const char *in, struct err *e)
{
	if (map->kind == NODE_NULL)
		return 0;
	if (map->kind != NODE_MAP)
		return node_error(src->name, map, e, "%s%sexpected a map, not %s", in ? in : "",
				  in ? ": " : "", node_kind_name(map->kind));
	for (const struct node *n = map->first; n; n = n->next) {
		const char *near;

		if (dialect_among(n->key, keys))
			continue;
		near = str_nearest(n->key, keys);
		(void)node_key_error(src->name, n, e, "unknown key '%.60s'%s%s", n->key,
				     in ? " in " : "", in ? in : "");
		return near ? err_hint(e, "did you mean '%s'?", near) : -e->code;
	}
	return 0;
}
