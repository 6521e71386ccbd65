/* SPDX-License-Identifier: Apache-2.0 */
#include "model/files/allow_edit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes/yaml.h"
#include "base/text/arena.h"
#include "base/text/str.h"
#include "model/settings/rule.h"

#define ARENA_MAX ((size_t)32 << 20)
#define CONTEXT 3

static const struct node *allow_of(const struct node *root)
{
	return node_get(node_get(root, "egress"), "allow");
}

/* ---- lines ---- */

/* Where line `number` begins, from 1; the end where there are fewer. */
static size_t line_at(const char *text, size_t n, size_t number)
{
	size_t at = 0;

	for (size_t i = 1; i < number && at < n; i++) {
		const char *nl = memchr(text + at, '\n', n - at);

		at = nl ? (size_t)(nl - text) + 1 : n;
	}
	return at;
}

static size_t line_count(const char *text, size_t n)
{
	size_t lines = 0;

	for (size_t i = 0; i < n; i++)
		lines += text[i] == '\n';
	return lines + (n && text[n - 1] != '\n');
}

static int by_hand(const char *name, const char *rule, struct err *e)
{
	(void)err_set(e, ERR_CONFIG, EINVAL,
		      "'%.200s' is written in a form that brig does not change", name);
	return err_hint(e, "add it by hand: egress: allow: - \"%.80s\"", rule);
}

/* What stands in front of an item of a list: blanks, a hyphen, blanks. Its length, or 0. */
static size_t item_head(const char *text, size_t n, const struct node *item)
{
	size_t at = line_at(text, n, (size_t)item->line), len = (size_t)item->column - 1;
	size_t hyphens = 0;

	if (item->kind != NODE_SCALAR || item->line < 1 || at + len > n)
		return 0;
	for (size_t i = 0; i < len; i++) {
		if (text[at + i] != ' ' && text[at + i] != '-')
			return 0;
		hyphens += text[at + i] == '-';
	}
	return hyphens == 1 ? len : 0;
}

/* The new lines, and before which one they go. */
static int compose(const char *name, const char *text, size_t n, const struct node *root,
		   const char *rule, struct buf *lines, struct allow_edit *x, struct err *e)
{
	const struct node *egress = node_get(root, "egress"), *allow = allow_of(root), *last;
	size_t head, indent;

	x->at = line_count(text, n) + 1;
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
	head = item_head(text, n, last);
	if (!head)
		return by_hand(name, rule, e);
	x->at = (size_t)last->line + 1;
	buf_add(lines, text + line_at(text, n, (size_t)last->line), head);
	buf_printf(lines, "\"%s\"\n", rule);
	return 0;
}

/* ---- meaning ---- */

static bool allow_edit_same(const struct node *a, const struct node *b);

static bool same_children(const struct node *a, const struct node *b)
{
	const struct node *x = a->first, *y = b->first;

	for (; x && y; x = x->next, y = y->next)
		if (!allow_edit_same(x, y))
			return false;
	return !x && !y;
}

/* Depth is bounded by the reader. */
static bool allow_edit_same(const struct node *a, const struct node *b)
{
	if (a->kind != b->kind || a->quoted != b->quoted || !a->key != !b->key ||
	    (a->key && !str_eq(a->key, b->key)))
		return false;
	if (a->kind == NODE_SCALAR)
		return str_eq(a->text, b->text);
	return same_children(a, b);
}

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
	return allow_edit_same(before, after);
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

static int edit(struct arena *a, const char *name, const char *text, size_t n, const char *rule,
		struct buf *out, struct allow_edit *x, struct err *e)
{
	CLEANUP(buf) struct buf lines = BUF_INIT(4096);
	struct node *before, *after;
	struct err unread = { 0 };
	size_t at;

	if (check_rule(a, rule, e) < 0 || yaml_parse(a, name, text, n, &before, e) < 0)
		return -e->code;
	x->listed = allow_of(before) != NULL;
	x->there = allow_edit_has(allow_of(before), rule);
	if (x->there) {
		buf_add(out, text, n);
		return 0;
	}
	if (compose(name, text, n, before, rule, &lines, x, e) < 0)
		return -e->code;
	at = line_at(text, n, x->at);
	buf_add(out, text, at);
	if (at && text[at - 1] != '\n')
		buf_putc(out, '\n');
	buf_add(out, lines.data, lines.len);
	buf_add(out, text + at, n - at);
	x->lines = line_count(lines.data, lines.len);
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

	if (!a)
		return err_nomem(e);
	if (edit(a, name, text, n, rule, out, &x, e) < 0)
		return -e->code;
	*ret = x;
	return 0;
}

/* ---- shown ---- */

static void put_lines(const char *text, size_t n, size_t from, size_t to, char mark,
		      struct buf *out)
{
	for (size_t i = from; i < to; i++) {
		size_t at = line_at(text, n, i), end = line_at(text, n, i + 1);
		size_t len = end - at - (end > at && text[end - 1] == '\n');

		buf_putc(out, mark);
		buf_add(out, text + at, len);
		buf_putc(out, '\n');
	}
}

void allow_edit_diff(const char *name, const char *after, size_t n, const struct allow_edit *x,
		     struct buf *out)
{
	size_t all = line_count(after, n);
	size_t from = x->at > CONTEXT ? x->at - CONTEXT : 1;
	size_t end = x->at + x->lines + CONTEXT;

	if (x->there)
		return;
	if (end > all + 1)
		end = all + 1;
	buf_printf(out, "--- %s\n+++ %s\n@@ -%zu,%zu +%zu,%zu @@\n", name, name, from,
		   end - from - x->lines, from, end - from);
	put_lines(after, n, from, x->at, ' ', out);
	put_lines(after, n, x->at, x->at + x->lines, '+', out);
	put_lines(after, n, x->at + x->lines, end, ' ', out);
}
