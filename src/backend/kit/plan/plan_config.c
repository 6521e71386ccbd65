/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/plan/plan_config.c - the places that git's configuration names: the folder of its
 * hooks, and the files that it includes.
 *
 * Whoever wrote the configuration, it was no run: it is covered in each. So git may be asked before
 * the command starts what it says, and is, once for each configuration that has the words for it
 * (git_reader.h). Where git does not answer, nobody knows what to protect, and the run is refused.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "backend/kit/plan/plan_internal.h"
#include "backend/kit/survey/gitdirs.h"
#include "base/text/str.h"
#include "git/git_reader.h"
#include "git/gitsay.h"
#include "model/settings/paths.h"

#define CONFIGS_MAX 4096

/* A file of git's configuration; the strings are the arena's. */
static int plan_config_add(struct box_plan *p, const struct git_config *c, struct err *e)
{
	struct git_config *slot;

	for (size_t i = 0; i < p->config_count; i++) {
		const struct git_config *old = &p->configs[i];

		if (str_eq(old->file, c->file) && str_eq(old->git, c->git) &&
		    (!c->root || (old->root && str_eq(old->root, c->root))))
			return 0;
	}
	if (p->config_count == CONFIGS_MAX)
		return err_set(e, ERR_UNAVAILABLE, E2BIG, "more than %d configurations of git",
			       CONFIGS_MAX);
	slot = ARENA_PUSH(p->arena, p->configs, p->config_count);
	if (!slot)
		return err_nomem(e);
	*slot = *c;
	return 0;
}

int plan_config_of(struct box_plan *p, const char *config, const char *git, const char *root,
		   bool nested, struct err *e)
{
	const char *shared = arena_printf(p->arena, "%s/config", config);
	const char *own = arena_printf(p->arena, "%s/config.worktree", git);
	const struct git_config one = {
		.file = shared, .git = git, .root = root, .nested = nested
	};
	const struct git_config other = { .file = own, .git = git, .root = root, .nested = nested };

	if (!shared || !own)
		return err_nomem(e);
	return plan_config_add(p, &one, e) < 0 ? -e->code : plan_config_add(p, &other, e);
}

/* Copies what is known of the same file by another turn of it; false: nobody asked yet. */
static bool known_here(struct box_plan *p, struct git_config *c)
{
	for (size_t i = 0; i < p->config_count; i++)
		if (p->configs[i].asked && str_eq(p->configs[i].file, c->file)) {
			c->facts = p->configs[i].facts;
			c->unsaid = p->configs[i].unsaid;
			c->asked = true;
		}
	return c->asked;
}

/* One of many, in which the user may keep anything, must not refuse the run. */
static int note_unsaid(struct box_plan *p, struct git_config *c, struct err *e)
{
	const char *text = arena_printf(
		p->arena,
		"git does not say which hooks and files '%s' names: they are not protected",
		c->file);

	if (!text)
		return err_nomem(e);
	plan_note(p, text);
	c->asked = c->unsaid = true;
	return 0;
}

static int plan_config_ask(struct box_plan *p, struct git_config *c, enum reader_about about,
			   struct reader_asker *who, struct err *e)
{
	CLEANUP(buf) struct buf facts = BUF_INIT(READER_ANSWER_MAX);
	enum reader_said said = reader_facts(c->file, about, who, &facts);
	char *text;

	if (said != READER_PLAIN && c->nested)
		return note_unsaid(p, c, e);
	switch (said) {
	case READER_PLAIN:
		break;
	case READER_HOSTILE:
		return err_refuse(
			e, ERR_POLICY, EINVAL,
			"look at it with git config --list --file; if there are many, start "
			"again: what git has said is kept",
			"git does not say in time which files '%s' names", c->file);
	case READER_NOBODY:
		return err_refuse(
			e, ERR_UNAVAILABLE, ENOENT,
			"brig doctor says what git in a sandbox needs here; or use --policy "
			"readonly",
			"'%s' names hooks or other files, and git cannot be asked which", c->file);
	}
	text = arena_alloc(p->arena, facts.len + 1);
	if (!text)
		return err_nomem(e);
	if (facts.len)
		memcpy(text, facts.data, facts.len);
	text[facts.len] = '\0';
	c->facts = (struct buf){ .data = text, .len = facts.len };
	c->asked = true;
	return 0;
}

/* The value of the next fact that begins so, after *at, which is NULL at first; NULL: no more. */
static const char *next_value(const struct git_config *c, const char **at, const char *begins)
{
	while ((*at = gitsay_next(&c->facts, *at)))
		if (str_starts(*at, begins))
			return *at + strlen(begins);
	return NULL;
}

/* 1 and the path for one that can be told; 0 for none. What brig cannot follow git might. */
static int plan_config_place_of(struct box_plan *p, const char *folder, const char *value,
				const char **ret, struct err *e)
{
	struct place at = { .cwd = folder, .home = getenv("HOME") };

	if (!*value || !folder)
		return 0;
	if (path_resolve(p->arena, &at, value, ret, e) < 0)
		return err_wrap(e, "git's configuration names a place that brig cannot follow");
	return 1;
}

/* The same place without the links on its way, as far as it is there; NULL: it is what it is. Links
 * that lie in the tree are followed one by one where it is protected. */
static const char *real_place(struct box_plan *p, const char *path)
{
	char *part = arena_strdup(p->arena, path), real[PATH_MAX];
	const char *found;
	char *slash;

	while (part && !realpath(part, real)) {
		slash = strrchr(part, '/');
		if (!slash || slash == part)
			return NULL;
		*slash = '\0';
	}
	found = part ? arena_printf(p->arena, "%s%s", real, path + strlen(part)) : NULL;
	return found && !str_eq(found, path) ? found : NULL;
}

static int protect_one(struct box_plan *p, const struct guarded_tree *t, const char *path,
		       struct err *e)
{
	return in_tree(t, path) ? plan_protect_goal(p, t, in_tree(t, path), e) : 0;
}

/* By the name that the configuration has for it, and by where that leads from outside. */
static int protect_place(struct box_plan *p, const struct guarded_tree *t, const char *path,
			 struct err *e)
{
	const char *real = real_place(p, path);

	if (real && protect_one(p, t, real, e) < 0)
		return -e->code;
	return protect_one(p, t, path, e);
}

/* Work trees and the git folder of one repository, whose configuration names hooks. */
struct hook_bases {
	const char **path;
	size_t count;
};

static int add_base(struct box_plan *p, struct hook_bases *b, const char *path, struct err *e)
{
	const char **slot;

	for (size_t i = 0; i < b->count; i++)
		if (str_eq(b->path[i], path))
			return 0;
	slot = ARENA_PUSH(p->arena, b->path, b->count);
	if (!slot)
		return err_nomem(e);
	*slot = path;
	return 0;
}

/* The folder that hooks run in is the working tree, or the git folder for what a push runs. Any
 * file of the repository's configuration may say where the working tree is. */
static int find_bases(struct box_plan *p, const char *git, struct reader_asker *who,
		      struct hook_bases *b, struct err *e)
{
	if (add_base(p, b, git, e) < 0)
		return -e->code;
	for (size_t i = 0; i < p->config_count; i++) {
		struct git_config *c = &p->configs[i];
		const char *at = NULL, *value, *path;

		if (!str_eq(c->git, git))
			continue;
		if (c->root && add_base(p, b, c->root, e) < 0)
			return -e->code;
		if (!c->facts.len && !c->trees && plan_config_ask(p, c, READER_TREES, who, e) < 0)
			return -e->code;
		c->trees = true;
		while ((value = next_value(c, &at, "worktree="))) {
			int r = plan_config_place_of(p, git, value, &path, e);

			if (r < 0 || (r && add_base(p, b, path, e) < 0))
				return -e->code;
		}
	}
	return 0;
}

static bool holds_work(const struct hook_bases *b, const char *folder)
{
	for (size_t i = 0; i < b->count; i++)
		if (path_under(b->path[i], folder))
			return true;
	return false;
}

/* A folder. The tree itself cannot be covered, and one with the user's work in it must not be, but
 * each hook in it can. */
static int protect_hooks(struct box_plan *p, const struct guarded_tree *t, const char *folder,
			 const struct hook_bases *b, struct err *e)
{
	const char *real = real_place(p, folder);

	if (!str_eq(folder, t->host) && !(real && str_eq(real, t->host)) &&
	    !holds_work(b, folder) && !(real && holds_work(b, real)))
		return protect_place(p, t, folder, e);
	for (size_t i = 0; i < GIT_HOOKS; i++) {
		const char *hook = arena_printf(p->arena, "%s/%s", folder, git_hooks[i]);

		if (!hook)
			return err_nomem(e);
		if (protect_place(p, t, hook, e) < 0)
			return -e->code;
	}
	return 0;
}

static int take_hooks(struct box_plan *p, const struct guarded_tree *t, const struct hook_bases *b,
		      const char *value, struct err *e)
{
	const char *path;
	int r;

	for (size_t i = 0; i < b->count; i++) {
		r = plan_config_place_of(p, b->path[i], value, &path, e);
		if (r < 0 || (r && protect_hooks(p, t, path, b, e) < 0))
			return -e->code;
	}
	return 0;
}

/* It is protected first and asked about then: what changes in between is seen by its stamp. */
static int take_include(struct box_plan *p, const struct guarded_tree *t,
			const struct git_config *c, const char *value, struct err *e)
{
	const char *slash = strrchr(c->file, '/'), *path = NULL;
	const char *folder = arena_printf(p->arena, "%.*s", (int)(slash - c->file), c->file);
	struct git_config next = {
		.git = c->git, .root = c->root, .depth = c->depth + 1, .nested = c->nested
	};
	int r = folder ? plan_config_place_of(p, folder, value, &path, e) : err_nomem(e);

	if (r <= 0)
		return r;
	if (protect_place(p, t, path, e) < 0)
		return -e->code;
	next.file = path;
	return next.depth > GIT_INCLUDES_MAX ? 0 : plan_config_add(p, &next, e);
}

static int take_includes(struct box_plan *p, const struct guarded_tree *t,
			 const struct git_config *c, struct err *e)
{
	const char *at = NULL, *value;

	while ((value = next_value(c, &at, "include=")))
		if (take_include(p, t, c, value, e) < 0)
			return -e->code;
	return 0;
}

static int take_all_hooks(struct box_plan *p, const struct guarded_tree *t,
			  const struct git_config *c, struct reader_asker *who, struct err *e)
{
	const char *at = NULL, *value;
	struct hook_bases b = { 0 };

	while ((value = next_value(c, &at, "hooks="))) {
		if (!b.count && find_bases(p, c->git, who, &b, e) < 0)
			return -e->code;
		if (take_hooks(p, t, &b, value, e) < 0)
			return -e->code;
	}
	return 0;
}

int plan_configured(struct box_plan *p, const struct guarded_tree *t, struct err *e)
{
	struct reader_asker who = { .avoid = p->workspace };
	struct git_config c;

	for (size_t i = 0; i < p->config_count; i++) {
		if (!p->configs[i].asked && !known_here(p, &p->configs[i]) &&
		    plan_config_ask(p, &p->configs[i], READER_PLACES, &who, e) < 0)
			return -e->code;
		c = p->configs[i]; /* the list may move */
		if (take_includes(p, t, &c, e) < 0)
			return -e->code;
	}
	for (size_t i = 0; i < p->config_count; i++) {
		c = p->configs[i];
		if (take_all_hooks(p, t, &c, &who, e) < 0)
			return -e->code;
	}
	return 0;
}
