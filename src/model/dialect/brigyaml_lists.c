/* SPDX-License-Identifier: Apache-2.0 */
/* model/dialect/brigyaml_lists.c - copies and rules, which have fields of their own. */
#include <string.h>

#include "base/text/buf.h"
#include "base/text/num.h"
#include "model/dialect/brigyaml.h"
#include "model/settings/envrules.h"
#include "model/settings/spec_lists.h"

int brigyaml_want(const struct source *src, const struct node *n, enum node_kind kind,
		  struct err *e)
{
	if (n->kind == kind)
		return 0;
	return node_error(src->name, n, e, "%s%sexpected %s, not %s", n->key ? n->key : "",
			  n->key ? ": " : "", node_kind_name(kind), node_kind_name(n->kind));
}

/* A member of a map: absent and null are the same. */
const struct node *brigyaml_member(const struct node *map, const char *key)
{
	const struct node *n = node_get(map, key);

	return n && n->kind != NODE_NULL ? n : NULL;
}

int brigyaml_text(const struct source *src, const struct node *map, const char *key,
		  const char **ret, struct err *e)
{
	const struct node *n = brigyaml_member(map, key);

	if (!n)
		return node_error(src->name, map, e, "'%s' is missing", key);
	return read_text(src, n, ret, e);
}

/* --- copies --- */

#define A_COPY "- {source: PATH, target: /PATH, exclude: [GLOB]}"

int brigyaml_strings(struct arena *a, const struct source *src, const struct node *map,
		     const char *key, struct strlist *ret, struct err *e)
{
	const struct node *list = brigyaml_member(map, key);

	if (!list)
		return 0;
	if (brigyaml_want(src, list, NODE_LIST, e) < 0)
		return -e->code;
	for (const struct node *n = list->first; n; n = n->next)
		if (brigyaml_want(src, n, NODE_SCALAR, e) < 0 ||
		    list_add_string(a, ret, n->text, e) < 0)
			return -e->code;
	return 0;
}

static int read_copy(struct spec *s, const struct source *src, const struct node *n, struct err *e)
{
	static const char *const keys[] = { "source", "target", "exclude", NULL };
	struct copy_spec c = { 0 }, *slot;
	const struct node *source;

	if (brigyaml_want(src, n, NODE_MAP, e) < 0 || read_only_keys(src, n, keys, "a copy", e) < 0)
		return e->hint[0] ? -e->code : err_hint(e, A_COPY);
	if (brigyaml_text(src, n, "source", &c.source, e) < 0 ||
	    brigyaml_text(src, n, "target", &c.target, e) < 0)
		return -e->code;
	source = brigyaml_member(n, "source");
	if (read_path(s, src, source, &c.source, e) < 0 ||
	    brigyaml_strings(s->arena, src, n, "exclude", &c.exclude, e) < 0)
		return -e->code;
	if (c.target[0] != '/')
		return node_error(src->name, n, e, "copy target '%.100s' is not absolute",
				  c.target);
	c.target = arena_strdup(s->arena, c.target);
	slot = c.target ? ARENA_PUSH(s->arena, s->copies.v, s->copies.n) : NULL;
	if (!slot)
		return err_nomem(e);
	*slot = c;
	return 0;
}

int brigyaml_copies(struct spec *s, const struct source *src, const struct node *list,
		    struct err *e)
{
	struct copylist kept = s->copies;
	bool counts;

	if (list->kind != NODE_NULL && brigyaml_want(src, list, NODE_LIST, e) < 0)
		return err_hint(e, A_COPY);
	counts = spec_list_begin(s, FIELD_COPIES, src->origin);
	for (const struct node *n = list->first; n; n = n->next)
		if (read_copy(s, src, n, e) < 0)
			return -e->code;
	if (!counts)
		s->copies = kept;
	return read_where(s, src, FIELD_COPIES, list, e);
}

/* --- rules: one line of text, or {host, ports, methods, paths} --- */

static int append_words(const struct source *src, const struct node *list, const char *between,
			struct buf *out, struct err *e)
{
	const struct node *n = list;

	if (list->kind == NODE_LIST)
		n = list->first;
	for (const char *sep = ""; n; n = n->next, sep = between) {
		if (brigyaml_want(src, n, NODE_SCALAR, e) < 0)
			return -e->code;
		buf_puts(out, sep);
		buf_puts(out, n->text);
		if (list->kind != NODE_LIST)
			break;
	}
	return 0;
}

/* Everything of a rule in front of its path, in the form of model/settings/rule.h. */
static int rule_text(const struct source *src, const struct node *n, struct buf *out, struct err *e)
{
	const struct node *methods = brigyaml_member(n, "methods"),
			  *ports = brigyaml_member(n, "ports");
	const char *host = "";

	if (brigyaml_text(src, n, "host", &host, e) < 0)
		return -e->code;
	if (methods && append_words(src, methods, ",", out, e) < 0)
		return -e->code;
	buf_printf(out, "%s%s%s", methods ? " " : "", host, ports ? ":" : "");
	return ports ? append_words(src, ports, ",", out, e) : 0;
}

static int add_rule(struct spec *s, const struct source *src, enum field_id id,
		    const struct node *at, const struct buf *rule, const char *path, struct err *e)
{
	const char *text = arena_printf(s->arena, "%s%s", buf_str(rule), path);

	if (!text || rule->failed)
		return err_nomem(e);
	return spec_set(s, id, text, src->origin, e) < 0 ? read_failed(src, at, e) : 0;
}

static int read_rule(struct spec *s, const struct source *src, enum field_id id,
		     const struct node *n, struct err *e)
{
	static const char *const keys[] = { "host", "ports", "methods", "paths", NULL };
	CLEANUP(buf) struct buf rule = BUF_INIT(4096);
	const struct node *paths = n->kind == NODE_MAP ? brigyaml_member(n, "paths") : NULL;

	if (n->kind == NODE_SCALAR)
		return spec_set(s, id, n->text, src->origin, e) < 0 ? read_failed(src, n, e) : 0;
	if (brigyaml_want(src, n, NODE_MAP, e) < 0 ||
	    read_only_keys(src, n, keys, "a rule", e) < 0 || rule_text(src, n, &rule, e) < 0)
		return -e->code;
	if (!paths)
		return add_rule(s, src, id, n, &rule, "", e);
	if (brigyaml_want(src, paths, NODE_LIST, e) < 0)
		return -e->code;
	if (!paths->first)
		return node_error(src->name, paths, e, "paths: a list of nothing allows nothing");
	for (const struct node *p = paths->first; p; p = p->next) {
		if (brigyaml_want(src, p, NODE_SCALAR, e) < 0)
			return -e->code;
		if (*p->text != '/')
			return node_error(src->name, p, e, "'%.60s' does not begin with '/'",
					  p->text);
		if (add_rule(s, src, id, p, &rule, p->text, e) < 0)
			return -e->code;
	}
	return 0;
}

int brigyaml_rules(struct spec *s, const struct source *src, enum field_id id,
		   const struct node *list, struct err *e)
{
	if (list->kind != NODE_NULL && brigyaml_want(src, list, NODE_LIST, e) < 0)
		return -e->code;
	(void)spec_list_begin(s, id, src->origin);
	for (const struct node *n = list->first; n; n = n->next)
		if (read_rule(s, src, id, n, e) < 0)
			return -e->code;
	return read_where(s, src, id, list, e);
}
