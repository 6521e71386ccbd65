/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/protect/before.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "backend/kit/protect/commits.h"
#include "backend/kit/protect/gitsay.h"
#include "backend/kit/protect/protected_names.h"
#include "base/folder.h"
#include "base/str.h"

#define DOTS_MAX ((size_t)16 << 10) /* some thousand names, each looked for in the other list */

struct before {
	struct buf dots;   /* names at the top, NUL after each */
	struct refs *refs; /* of each git folder that the plan knows */
	size_t count;
};

struct before *before_free(struct before *b)
{
	if (!b)
		return NULL;
	buf_done(&b->dots);
	for (size_t i = 0; i < b->count; i++)
		refs_done(&b->refs[i]);
	free(b->refs);
	free(b);
	return NULL;
}

/* ---- names that begin with a dot ---- */

/* What everyday work makes, and what nothing obeys: lists of what to leave out, caches, reports,
 * build results, what editors keep while a file is open. Whatever is not here is told. */
static bool is_everyday(const char *name)
{
	static const char *const ends[] = { "ignore", "cache", ".swp", ".swo", ".swx", "~" };
	static const char *const begins[] = { ".coverage", ".nfs", ".#", ".brig-", ".fuse_hidden" };
	static const char *const whole[] = { ".git",
					     ".gitkeep",
					     ".venv",
					     ".tox",
					     ".nox",
					     ".eggs",
					     ".nyc_output",
					     ".next",
					     ".nuxt",
					     ".DS_Store",
					     ".ipynb_checkpoints" };

	for (size_t i = 0; i < ARRAY_LEN(ends); i++)
		if (str_ends_nocase(name, ends[i]))
			return true;
	for (size_t i = 0; i < ARRAY_LEN(begins); i++)
		if (str_starts(name, begins[i]))
			return true;
	for (size_t i = 0; i < ARRAY_LEN(whole); i++)
		if (str_eq(name, whole[i]))
			return true;
	return false;
}

/* false: the folder could not be read to its end. */
static bool list_dots(int top, struct buf *ret)
{
	CLEANUP(fd) int fd = openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct fd_entry *e;
	struct folder d;

	if (fd < 0)
		return false;
	folder_begin(&d, fd);
	while ((e = folder_next(&d)))
		if (e->name[0] == '.')
			buf_add(ret, e->name, strlen(e->name) + 1);
	return !d.error && !ret->failed;
}

static void tell_dots(struct protect *t, struct outcome *o, int top)
{
	struct before *b = t->before;
	struct buf now = BUF_INIT(DOTS_MAX);

	if (!list_dots(top, &now))
		outcome_deny(o, "protected-path", ".",
			     "more names begin with a dot than brig looks at");
	for (const char *name = NULL; (name = gitsay_next(&now, name));)
		if (!gitsay_has(&b->dots, name) && !is_everyday(name) && !name_forbidden(name) &&
		    !name_reported(name))
			outcome_trust(
				o, name,
				"made during the run: begins with a dot, as what programs obey "
				"does");
	buf_done(&b->dots);
	b->dots = now;
}

/* ---- refs ---- */

/* The first of the files of one git folder stands for it; NULL: another did. */
static const char *git_of(const struct protect *t, size_t i)
{
	const struct git_config *c = t->plan->configs;

	for (size_t k = 0; k < i; k++)
		if (str_eq(c[k].git, c[i].git))
			return NULL;
	return c[i].git;
}

static bool read_refs(const char *git, struct refs *ret)
{
	CLEANUP(fd) int fd = fd_open_nolinks(AT_FDCWD, git, O_PATH | O_DIRECTORY, 0);

	return fd < 0 || refs_read(fd, ret);
}

static void take_refs(struct protect *t, struct before *b)
{
	b->refs = calloc(t->plan->config_count ? t->plan->config_count : 1, sizeof(*b->refs));
	for (size_t i = 0; b->refs && i < t->plan->config_count; i++, b->count++) {
		b->refs[i] = (struct refs)REFS_NONE;
		if (git_of(t, i))
			(void)read_refs(git_of(t, i), &b->refs[i]); /* told afterwards */
	}
}

static void tell_refs(struct protect *t, struct outcome *o)
{
	for (size_t i = 0; i < t->before->count; i++) {
		const char *git = git_of(t, i), *name = git;
		struct refs now = REFS_NONE;

		if (!git)
			continue;
		(void)protect_tree_of(t, &name);
		if (!read_refs(git, &now))
			outcome_deny(o, "protected-path", name, "more refs than brig looks at");
		else if (now.text.len && !refs_same(&t->before->refs[i], &now))
			commits_tell(git, name, &t->before->refs[i], &now, &t->asker, o);
		refs_done(&t->before->refs[i]);
		t->before->refs[i] = now;
	}
}

/* ---- all of it ---- */

struct before *before_take(struct protect *t)
{
	struct err e;
	int top = t->writable ? protect_tree(t, t->plan->workspace, &e) : -1;
	struct before *b = top < 0 ? NULL : calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->dots = (struct buf)BUF_INIT(DOTS_MAX);
	(void)list_dots(top, &b->dots); /* what is missing is told as new */
	take_refs(t, b);
	return b;
}

void before_tell(struct protect *t, struct outcome *o)
{
	struct err e;
	int top = t->before && o ? protect_tree(t, t->plan->workspace, &e) : -1;

	if (top < 0)
		return;
	tell_dots(t, o, top);
	tell_refs(t, o);
}
