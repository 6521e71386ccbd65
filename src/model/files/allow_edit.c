/* SPDX-License-Identifier: Apache-2.0 */
#include "model/files/allow_edit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/edit/edit_yaml.h"
#include "base/text/str.h"
#include "model/settings/rule.h"

#define ARENA_MAX ((size_t)32 << 20)

static const struct node *allow_of(const struct node *root)
{
	return node_get(node_get(root, "egress"), "allow");
}

static int by_hand(const char *name, const char *rule, struct err *e)
{
	(void)err_set(e, ERR_CONFIG, EINVAL,
		      "'%.200s' is written in a form that brig does not change", name);
	return err_hint(e, "add it by hand: egress: allow: - \"%.80s\"", rule);
}

/* The new lines, and before which one they go. */
static int compose(const char *name, const struct edit_text *t, const struct node *root,
		   const char *rule, struct buf *lines, struct allow_edit *x, struct err *e)
{
	const struct node *egress = node_get(root, "egress"), *allow = allow_of(root), *last;
	size_t head, indent;

	x->at = t->lines + 1;
	if (root->kind == NODE_NULL || (root->kind == NODE_MAP && !egress)) {
		buf_printf(lines, "egress:\n  allow:\n    - \"%s\"\n", rule);
		return 0;
	}
	if (root->kind != NODE_MAP || egress->kind != NODE_MAP || !egress->count)
		return by_hand(name, rule, e);
	if (!allow) {
		x->at = (size_t)egress->first->key_line;
		indent = (size_t)egress->first->key_column - 1;
		buf_printf(lines, "%*sallow:\n%*s  - \"%s\"\n", (int)indent, "", (int)indent, "",
			   rule);
		return 0;
	}
	if (allow->kind != NODE_LIST || !allow->count)
		return by_hand(name, rule, e);
	for (last = allow->first; last->next; last = last->next)
		continue;
	head = edit_yaml_item_head(t, last);
	if (!head)
		return by_hand(name, rule, e);
	x->at = (size_t)last->line + 1;
	buf_add(lines, t->p + edit_line(t, (size_t)last->line), head);
	buf_printf(lines, "\"%s\"\n", rule);
	return 0;
}

/* ---- meaning ---- */

/* Takes a node out of its parent's children. */
static void unlink_node(struct node *parent, const struct node *gone)
{
	struct node **p = &parent->first;

	while (*p && *p != gone)
		p = &(*p)->next;
	if (*p) {
		*p = gone->next;
		parent->count--;
	}
}

static struct node *member(struct node *map, const char *key)
{
	return (struct node *)(uintptr_t)node_get(map, key);
}

/* The new tree without its last rule is the old one. */
static bool only_added(struct node *before, struct node *after, const char *rule)
{
	struct node *egress = member(after, "egress"),
		    *allow = egress ? member(egress, "allow") : NULL;
	struct node *last = allow && allow->kind == NODE_LIST ? allow->first : NULL;

	while (last && last->next)
		last = last->next;
	if (!last || last->kind != NODE_SCALAR || !str_eq(last->text, rule))
		return false;
	unlink_node(allow, last);
	if (!allow_of(before))
		unlink_node(egress, allow);
	if (!node_get(before, "egress"))
		unlink_node(after, egress);
	if (before->kind == NODE_NULL)
		return after->kind == NODE_MAP && !after->first;
	return node_same(before, after, NULL, NULL, NULL);
}

static bool allow_edit_has(const struct node *allow, const char *rule)
{
	for (const struct node *n = allow ? allow->first : NULL; n; n = n->next)
		if (n->kind == NODE_SCALAR && str_eq(n->text, rule))
			return true;
	return false;
}

static int check_rule(struct arena *a, const char *rule, struct err *e)
{
	struct rule r;

	if (rule_parse(a, rule, &r, e) < 0 || rule_check_allow(&r, e) < 0)
		return -e->code;
	for (const char *p = rule; *p; p++)
		if ((unsigned char)*p < ' ' || *p == '"' || *p == '\\' || (unsigned char)*p > '~')
			return err_set(e, ERR_USAGE, EINVAL, "'%.100s' is not a rule", rule);
	return 0;
}

static int edit(struct arena *a, const char *name, const struct edit_text *t, const char *rule,
		struct buf *out, struct allow_edit *x, struct err *e)
{
	CLEANUP(buf) struct buf lines = BUF_INIT(4096);
	struct node *before, *after;
	struct err unread = { 0 };
	size_t at;

	if (check_rule(a, rule, e) < 0 || yaml_parse(a, name, t->p, t->n, &before, e) < 0)
		return -e->code;
	x->listed = allow_of(before) != NULL;
	x->there = allow_edit_has(allow_of(before), rule);
	if (x->there) {
		buf_add(out, t->p, t->n);
		return 0;
	}
	if (compose(name, t, before, rule, &lines, x, e) < 0)
		return -e->code;
	at = edit_line(t, x->at);
	buf_add(out, t->p, at);
	if (at && t->p[at - 1] != '\n')
		buf_putc(out, '\n');
	buf_add(out, lines.data, lines.len);
	buf_add(out, t->p + at, t->n - at);
	for (size_t i = 0; i < lines.len; i++)
		x->lines += lines.data[i] == '\n';
	if (out->failed || lines.failed)
		return err_nomem(e);
	if (yaml_parse(a, name, out->data, out->len, &after, &unread) < 0 ||
	    !only_added(before, after, rule))
		return by_hand(name, rule, e);
	return 0;
}

int allow_edit(const char *name, const char *text, size_t n, const char *rule, struct buf *out,
	       struct allow_edit *ret, struct err *e)
{
	CLEANUP(arena) struct arena *a = arena_new(ARENA_MAX);
	struct allow_edit x = { 0 };
	struct edit_text t;

	if (!a)
		return err_nomem(e);
	if (edit_lines(a, text, n, &t, e) < 0 || edit(a, name, &t, rule, out, &x, e) < 0)
		return -e->code;
	*ret = x;
	return 0;
}

int allow_edit_diff(const char *name, const char *after, size_t n, const struct allow_edit *x,
		    struct buf *out, struct err *e)
{
	CLEANUP(arena) struct arena *a = arena_new(ARENA_MAX);
	struct edit_text t;

	if (!a)
		return err_nomem(e);
	if (x->there)
		return 0;
	if (edit_lines(a, after, n, &t, e) < 0)
		return -e->code;
	edit_diff(name, &t, x->at, x->lines, out);
	return out->failed ? err_nomem(e) : 0;
}
