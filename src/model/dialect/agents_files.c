/* SPDX-License-Identifier: Apache-2.0 */
/* model/dialect/agents_files.c - what of the host may enter an agents-sandbox: mounts, copies,
 * tools.
 *
 * Sources are absolute or below "~" and written without "..": what a path means must not depend on
 * where the file lies. Links and special files are refused when the sandbox is built. */
#include <string.h>

#include "base/text/buf.h"
#include "base/text/str.h"
#include "model/dialect/agents.h"
#include "model/dialect/foreign.h"
#include "model/settings/paths.h"
#include "model/settings/spec_lists.h"

#define WORKSPACE "/workspace"
#define ENTRIES_MAX 256

static const char *const tools[] = {
	"claude", "codex", "git", "uv", "npm", "apt", "opencode", NULL
};

struct files {
	struct spec *s;
	const struct source *src;
	struct strlist targets;       /* of mounts and copies together */
	const struct node *read_only; /* a mount at WORKSPACE that is not writable */
	const struct node *writable;  /* any other mount that is */
};

/* A member that must be there and hold text; NULL and *e otherwise. */
static const struct node *need_text(const struct files *f, const struct node *map, const char *key,
				    struct err *e)
{
	const struct node *n = node_get(map, key);

	if (n && n->kind == NODE_SCALAR && *n->text)
		return n;
	(void)node_error(f->src->name, n ? n : map, e,
			 n ? "%s: expected a path" : "'%s' is missing", key);
	return NULL;
}

static bool climbs(const char *path)
{
	for (const char *p = path; (p = strstr(p, "..")); p += 2)
		if ((p == path || p[-1] == '/') && (p[2] == '/' || !p[2]))
			return true;
	return false;
}

static int read_source(const struct files *f, const struct node *n, bool writable, const char **ret,
		       struct err *e)
{
	struct place at = { .cwd = "/", .home = f->src->home };

	if (n->text[0] != '/' && n->text[0] != '~') {
		(void)node_error(f->src->name, n, e, "source '%.100s' is not absolute", n->text);
		return err_hint(e, "write the whole path, or begin with ~/");
	}
	if (climbs(n->text))
		return node_error(f->src->name, n, e, "source '%.100s' climbs by '..'", n->text);
	if (strchr(n->text, ':'))
		return node_error(f->src->name, n, e, "source '%.100s' contains ':'", n->text);
	if (path_resolve(f->s->arena, &at, n->text, ret, e) < 0)
		return read_failed(f->src, n, e);
	return foreign_source(f->src, n, *ret, writable, e);
}

static int add_target(struct files *f, const struct node *n, struct err *e)
{
	if (strchr(n->text, ':'))
		return node_error(f->src->name, n, e, "target '%.100s' contains ':'", n->text);
	if (!str_eq(n->text, WORKSPACE) && target_check(n->text, "", e) < 0)
		return read_failed(f->src, n, e);
	for (size_t i = 0; i < f->targets.n; i++)
		if (str_eq(f->targets.v[i], n->text)) {
			(void)node_error(f->src->name, n, e, "target '%.100s' appears twice",
					 n->text);
			return err_hint(e, "mounts and copies share one list of targets");
		}
	if (f->targets.n == ENTRIES_MAX)
		return node_error(f->src->name, n, e, "more than %d mounts and copies",
				  ENTRIES_MAX);
	return list_add_string(f->s->arena, &f->targets, n->text, e);
}

static int want_entry(const struct files *f, const struct node *n, const char *const *keys,
		      const char *in, struct err *e)
{
	if (n->kind != NODE_MAP)
		return node_error(f->src->name, n, e, "%s: expected a map, not %s", in,
				  node_kind_name(n->kind));
	return read_only_keys(f->src, n, keys, in, e);
}

static int read_mount_entry(struct files *f, const struct node *n, struct err *e)
{
	static const char *const keys[] = { "source", "target", "writable", NULL };
	const struct node *source, *target, *w = node_get(n, "writable");
	bool writable = false;
	const char *path = NULL;

	if (want_entry(f, n, keys, "mounts", e) < 0)
		return -e->code;
	source = need_text(f, n, "source", e);
	target = source ? need_text(f, n, "target", e) : NULL;
	if (!target)
		return -e->code;
	if (w && w->kind != NODE_NULL && node_bool(f->src->name, w, &writable, e) < 0)
		return -e->code;
	if (read_source(f, source, writable, &path, e) < 0 || add_target(f, target, e) < 0)
		return -e->code;
	if (str_eq(target->text, WORKSPACE)) {
		f->read_only = writable ? NULL : n;
		return foreign_set(f->s, f->src, FIELD_WORKDIR, source, path, e);
	}
	f->writable = writable ? n : f->writable;
	return read_mount(f->s, f->src, n, path, target->text, writable, e);
}

static int read_copy_entry(struct files *f, const struct node *n, bool ours, struct err *e)
{
	static const char *const keys[] = { "source", "target", "exclude_patterns", NULL };
	const struct node *source = NULL, *target = NULL,
			  *exclude = node_get(n, "exclude_patterns");
	struct copy_spec c = { 0 }, *slot;

	if (want_entry(f, n, keys, "copies", e) < 0)
		return -e->code;
	source = need_text(f, n, "source", e);
	target = source ? need_text(f, n, "target", e) : NULL;
	if (!target)
		return -e->code;
	if (read_source(f, source, false, &c.source, e) < 0 || add_target(f, target, e) < 0)
		return -e->code;
	if (exclude && foreign_strings(f->s, f->src, exclude, &c.exclude, e) < 0)
		return -e->code;
	c.target = arena_strdup(f->s->arena, target->text);
	if (!c.target)
		return err_nomem(e);
	if (!ours)
		return 0;
	slot = ARENA_PUSH(f->s->arena, f->s->copies.v, f->s->copies.n);
	if (!slot)
		return err_nomem(e);
	*slot = c;
	return 0;
}

/* The member of that name if it is a list; an error for anything else but null. */
static int list_of(const struct files *f, const struct node *root, const char *key,
		   const struct node **ret, struct err *e)
{
	const struct node *n = node_get(root, key);

	*ret = NULL;
	if (!n || n->kind == NODE_NULL)
		return 0;
	if (n->kind != NODE_LIST)
		return node_error(f->src->name, n, e, "%s: expected a list, not %s", key,
				  node_kind_name(n->kind));
	*ret = n;
	return 0;
}

static int read_mounts(struct files *f, const struct node *root, struct err *e)
{
	const struct node *list;

	if (list_of(f, root, "mounts", &list, e) < 0)
		return -e->code;
	if (!list)
		return 0;
	(void)spec_list_begin(f->s, FIELD_MOUNT, f->src->origin);
	for (const struct node *n = list->first; n; n = n->next)
		if (read_mount_entry(f, n, e) < 0)
			return -e->code;
	return read_where(f->s, f->src, FIELD_MOUNT, list, e);
}

static int read_copies(struct files *f, const struct node *root, struct err *e)
{
	const struct node *list;
	bool ours;

	if (list_of(f, root, "copies", &list, e) < 0)
		return -e->code;
	if (!list)
		return 0;
	ours = spec_list_begin(f->s, FIELD_COPIES, f->src->origin);
	for (const struct node *n = list->first; n; n = n->next)
		if (read_copy_entry(f, n, ours, e) < 0)
			return -e->code;
	return read_where(f->s, f->src, FIELD_COPIES, list, e);
}

/* One tool: its name, or {NAME: placeholder} for a stand-in of its files. */
static int read_tool(struct files *f, const struct node *n, const char **name, bool *real,
		     struct err *e)
{
	struct node bare = *n;
	const char *word, *text;

	*real = n->kind != NODE_MAP;
	if (n->kind == NODE_MAP && n->count == 1) {
		bare = (struct node){ .kind = NODE_SCALAR,
				      .text = n->first->key,
				      .line = n->line,
				      .column = n->column };
		if (n->first->kind != NODE_SCALAR || !str_eq(n->first->text, "placeholder"))
			return node_error(f->src->name, n->first, e,
					  "builtin_tools: only 'placeholder' is allowed there");
	}
	if (foreign_word(f->src, &bare, tools, &word, e) < 0)
		return err_wrap(e, "builtin_tools");
	text = *real ? word : arena_printf(f->s->arena, "%s:placeholder", word);
	if (!text)
		return err_nomem(e);
	*name = word;
	return foreign_set(f->s, f->src, FIELD_BUILTIN_TOOLS, n, text, e);
}

/* A cache that sandboxes share would let one of them plant packages for the next. */
static bool has_login(const char *name)
{
	return !str_eq(name, "uv") && !str_eq(name, "apt");
}

static int read_tools(struct files *f, const struct node *root, struct err *e)
{
	CLEANUP(buf) struct buf real = BUF_INIT(256);
	CLEANUP(buf) struct buf bare = BUF_INIT(256);
	const struct node *list;
	struct strlist seen = { 0 };

	if (list_of(f, root, "builtin_tools", &list, e) < 0)
		return -e->code;
	if (!list)
		return 0;
	(void)spec_list_begin(f->s, FIELD_BUILTIN_TOOLS, f->src->origin);
	for (const struct node *n = list->first; n; n = n->next) {
		const char *name = NULL;
		bool is_real;

		if (read_tool(f, n, &name, &is_real, e) < 0)
			return -e->code;
		for (size_t i = 0; i < seen.n; i++)
			if (str_eq(seen.v[i], name))
				return node_error(f->src->name, n, e,
						  "builtin_tools: '%s' appears twice", name);
		if (list_add_string(f->s->arena, &seen, name, e) < 0)
			return -e->code;
		if (is_real) {
			struct buf *to = has_login(name) ? &real : &bare;

			buf_printf(to, "%s%s", to->len ? ", " : "", name);
		}
	}
	if (real.failed || bare.failed)
		return err_nomem(e);
	if (bare.len && foreign_note(f->s, e,
				     "%s: builtin_tools: of %s nothing of the host's enters; its "
				     "cache is the sandbox's own, in HOME",
				     f->src->name, buf_str(&bare)) < 0)
		return -e->code;
	if (!real.len)
		return 0;
	return foreign_note(f->s, e,
			    "%s: builtin_tools: the real logins of %s enter; {NAME: placeholder} "
			    "keeps them out (claude, codex, opencode)",
			    f->src->name, buf_str(&real));
}

/* One switch decides about the workspace and every other folder alike. */
static int settle_workspace(struct files *f, struct err *e)
{
	f->s->no_workspace = !spec_wrote(f->s, FIELD_WORKDIR);
	if (!f->read_only)
		return 0;
	if (f->writable) {
		(void)node_error(f->src->name, f->read_only, e,
				 "a read-only mount at " WORKSPACE
				 " beside a writable one is not in this version of brig");
		return err_hint(e, "make it writable, or mount it at another target");
	}
	return foreign_set(f->s, f->src, FIELD_POLICY, f->read_only, "readonly", e);
}

int agents_files(struct spec *s, const struct source *src, const struct node *root, struct err *e)
{
	struct files f = { .s = s, .src = src };

	if (read_mounts(&f, root, e) < 0 || read_copies(&f, root, e) < 0 ||
	    read_tools(&f, root, e) < 0)
		return -e->code;
	return settle_workspace(&f, e);
}
