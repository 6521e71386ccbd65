/* SPDX-License-Identifier: Apache-2.0 */
/* model/migrate/migrate_rewrite.c - surgery on the text of a role, guided by the positions of its
 * tree.
 *
 * A block is cut into one run of lines for each of its keys, comments in front of a key included.
 * `enabled` becomes `backend`, the keys that only Docker knows move into a sub-block at the end,
 * the others stay. A block in flow style ({...}) is written out as lines. */
#include <string.h>

#include "base/edit/edit_yaml.h"
#include "base/text/str.h"
#include "model/migrate/migrate_internal.h"

static const char *const moving[] = { "image", "user", "runtime", "extra_args" };

bool migrate_moves(const struct node *n)
{
	for (size_t i = 0; i < ARRAY_LEN(moving); i++)
		if (str_eq(n->key, moving[i]))
			return true;
	return false;
}

static bool any_moves(const struct node *map)
{
	for (const struct node *n = map->first; n; n = n->next)
		if (migrate_moves(n))
			return true;
	return false;
}

const char *migrate_backend(const struct migrate_job *j)
{
	return j->enabled ? "docker" : "none";
}

int migrate_unable(const struct migrate_job *j, struct err *e)
{
	(void)node_key_error(j->name, j->docker, e,
			     "security.docker is laid out in a way that cannot be rewritten "
			     "without loss");
	return err_hint(e,
			"write security.sandbox by hand: backend: %s, the other keys as they are, "
			"image and extra_args below docker:",
			migrate_backend(j));
}

/* Copies a line with more indentation; blank ones stay blank, the last one gets its end. */
static void migrate_rewrite_put_line(const struct migrate_job *j, size_t line, size_t more)
{
	const struct edit_text *t = &j->text;
	size_t at = t->start[line], n = t->start[line + 1] - at;

	if (n && !strchr("\r\n", t->p[at]))
		edit_pad(j->out, more);
	buf_add(j->out, t->p + at, n);
	if (n && t->p[at + n - 1] != '\n')
		buf_puts(j->out, j->newline);
}

/* --- a block of lines --- */

/* One key of the block: lines from `first`, its own in `key`, up to `end`. */
struct rewrite_run {
	const struct node *node;
	size_t first, key, end;
};

/* Cuts the block into runs; the number of them, or 0 when its layout is another. */
static size_t cut_runs(const struct migrate_job *j, struct rewrite_run *runs, size_t *end)
{
	const struct edit_text *t = &j->text;
	size_t n = 0, len, top = (size_t)j->docker->key_line - 1, outer = edit_yaml_indent(t, top);

	for (const struct node *c = j->docker->first; c; c = c->next) {
		size_t key = (size_t)c->key_line - 1;

		if (!edit_yaml_key_leads(t, c, &len) || key <= top ||
		    c->key_column != j->docker->first->key_column ||
		    edit_yaml_indent(t, key) <= outer)
			return 0;
		runs[n].node = c;
		runs[n].key = key;
		runs[n].first = n ? edit_yaml_content_end(t, runs[n - 1].key, key) : top + 1;
		if (n)
			runs[n - 1].end = runs[n].first;
		n++;
	}
	*end = edit_yaml_block_end(t, runs[n - 1].key, outer);
	runs[n - 1].end = *end;
	return n;
}

static void put_backend(const struct migrate_job *j, const struct rewrite_run *r, size_t in)
{
	const struct edit_text *t = &j->text;
	const struct node *v = r->node;
	size_t rest = edit_yaml_at(t, v->line, v->column + (v->text ? (int)strlen(v->text) : 0));

	for (size_t i = r->first; i < r->key; i++)
		migrate_rewrite_put_line(j, i, 0);
	edit_pad(j->out, in);
	buf_puts(j->out, "backend: ");
	buf_puts(j->out, migrate_backend(j));
	if (v->kind == NODE_SCALAR && v->line == v->key_line && rest < t->start[r->key + 1])
		buf_add(j->out, t->p + rest, t->start[r->key + 1] - rest);
	if (!j->out->len || j->out->data[j->out->len - 1] != '\n')
		buf_puts(j->out, j->newline);
	for (size_t i = r->key + 1; i < r->end; i++)
		if (!edit_yaml_has_content(t, i))
			migrate_rewrite_put_line(j, i, 0);
}

static void put_runs(const struct migrate_job *j, const struct rewrite_run *runs, size_t n,
		     size_t in, size_t step)
{
	if (!node_get(j->docker, "enabled")) {
		edit_pad(j->out, in);
		buf_printf(j->out, "backend: none%s", j->newline);
	}
	for (size_t i = 0; i < n; i++) {
		if (str_eq(runs[i].node->key, "enabled"))
			put_backend(j, &runs[i], in);
		else if (!migrate_moves(runs[i].node))
			for (size_t k = runs[i].first; k < runs[i].end; k++)
				migrate_rewrite_put_line(j, k, 0);
	}
	if (!any_moves(j->docker))
		return;
	edit_pad(j->out, in);
	buf_printf(j->out, "docker:%s", j->newline);
	for (size_t i = 0; i < n; i++)
		for (size_t k = runs[i].first; migrate_moves(runs[i].node) && k < runs[i].end; k++)
			migrate_rewrite_put_line(j, k, step);
}

/* Everything up to the key, the new key, and the rest of its line. */
static void migrate_rewrite_put_head(const struct migrate_job *j, size_t keylen, size_t rest)
{
	const struct edit_text *t = &j->text;
	size_t line = (size_t)j->docker->key_line - 1,
	       at = t->start[line] + edit_yaml_indent(t, line);

	buf_add(j->out, t->p, at);
	buf_puts(j->out, "sandbox");
	if (rest)
		buf_puts(j->out, ":");
	else
		rest = at + keylen;
	buf_add(j->out, t->p + rest, t->start[line + 1] - rest);
	if (t->p[t->start[line + 1] - 1] != '\n')
		buf_puts(j->out, j->newline);
}

/* An empty block may be written as null, which the new one is not. */
static size_t null_end(const struct migrate_job *j)
{
	const struct edit_text *t = &j->text;
	size_t at = edit_yaml_at(t, j->docker->line, j->docker->column);

	while (at < t->n && strchr("nulNUL~", t->p[at]))
		at++;
	return at;
}

static int rewrite_block(const struct migrate_job *j, struct arena *a, size_t keylen, struct err *e)
{
	const struct edit_text *t = &j->text;
	size_t top = (size_t)j->docker->key_line - 1, outer = edit_yaml_indent(t, top),
	       end = top + 1, in, n = 0;
	struct rewrite_run *runs = arena_alloc(a, (j->docker->count + 1) * sizeof(*runs));

	if (!runs)
		return err_nomem(e);
	if (j->docker->count)
		n = cut_runs(j, runs, &end);
	if (j->docker->count && !n)
		return migrate_unable(j, e);
	in = n ? edit_yaml_indent(t, runs[0].key) : outer + 2;
	migrate_rewrite_put_head(j, keylen, n ? 0 : null_end(j));
	put_runs(j, runs, n, in, in - outer);
	buf_add(j->out, t->p + t->start[end], t->n - t->start[end]);
	return 0;
}

/* --- flow style --- */

/* "key: value" with the value as it stands in the text. */
static void put_member(const struct migrate_job *j, const struct node *n, size_t in)
{
	size_t at = edit_yaml_at(&j->text, n->line, n->column),
	       end = edit_yaml_flow_end(&j->text, at);

	edit_pad(j->out, in);
	buf_printf(j->out, "%s: ", n->key);
	if (n->kind == NODE_NULL)
		buf_puts(j->out, "null");
	else
		buf_add(j->out, j->text.p + at, end - at);
	buf_puts(j->out, j->newline);
}

static void put_sandbox(const struct migrate_job *j, size_t in)
{
	edit_pad(j->out, in);
	buf_printf(j->out, "backend: %s%s", migrate_backend(j), j->newline);
	for (const struct node *n = j->docker->first; n; n = n->next)
		if (!migrate_moves(n) && !str_eq(n->key, "enabled"))
			put_member(j, n, in);
	if (!any_moves(j->docker))
		return;
	edit_pad(j->out, in);
	buf_printf(j->out, "docker:%s", j->newline);
	for (const struct node *n = j->docker->first; n; n = n->next)
		if (migrate_moves(n))
			put_member(j, n, in + 2);
}

static void put_tail(const struct migrate_job *j, size_t from)
{
	buf_add(j->out, j->text.p + from, j->text.n - from);
}

/* `docker: {...}` on lines of its own */
static int rewrite_flow(const struct migrate_job *j, size_t keylen, struct err *e)
{
	const struct edit_text *t = &j->text;
	size_t end = edit_yaml_flow_end(t, edit_yaml_at(t, j->docker->line, j->docker->column));
	size_t line = (size_t)j->docker->key_line - 1, next = line + 1;

	while (next < t->lines && t->start[next] < end)
		next++;
	if (next != line + 1)
		return migrate_unable(j, e);
	migrate_rewrite_put_head(j, keylen, end);
	put_sandbox(j, edit_yaml_indent(t, line) + 2);
	put_tail(j, t->start[next]);
	return 0;
}

/* `security: {docker: {...}, ...}` */
static int rewrite_security(const struct migrate_job *j, struct err *e)
{
	const struct edit_text *t = &j->text;
	size_t line = (size_t)j->security->key_line - 1, keylen, end, in;

	if (!edit_yaml_key_leads(t, j->security, &keylen))
		return migrate_unable(j, e);
	end = edit_yaml_flow_end(t, edit_yaml_at(t, j->security->line, j->security->column));
	if (end > t->start[line + 1])
		return migrate_unable(j, e);
	in = edit_yaml_indent(t, line) + 2;
	buf_add(j->out, t->p, t->start[line] + in - 2 + keylen);
	buf_puts(j->out, ":");
	buf_add(j->out, t->p + end, t->start[line + 1] - end);
	if (t->p[t->start[line + 1] - 1] != '\n')
		buf_puts(j->out, j->newline);
	for (const struct node *n = j->security->first; n; n = n->next) {
		if (n != j->docker) {
			put_member(j, n, in);
			continue;
		}
		edit_pad(j->out, in);
		buf_printf(j->out, "sandbox:%s", j->newline);
		put_sandbox(j, in + 2);
	}
	put_tail(j, t->start[line + 1]);
	return 0;
}

int migrate_rewrite(const struct migrate_job *j, struct arena *a, struct err *e)
{
	const struct edit_text *t = &j->text;
	size_t keylen, at = edit_yaml_at(t, j->docker->line, j->docker->column);

	if (!edit_yaml_key_leads(t, j->docker, &keylen))
		return rewrite_security(j, e);
	if (j->docker->kind == NODE_MAP && at < t->n && t->p[at] == '{')
		return rewrite_flow(j, keylen, e);
	return rewrite_block(j, a, keylen, e);
}
