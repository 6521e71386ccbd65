/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/protect/before.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "backend/kit/protect/gitsay.h"
#include "backend/kit/protect/protected_names.h"
#include "base/folder.h"
#include "base/str.h"

#define DOTS_MAX ((size_t)16 << 10) /* some thousand names, each looked for in the other list */

struct before {
	struct buf dots; /* names at the top, NUL after each */
};

struct before *before_free(struct before *b)
{
	if (!b)
		return NULL;
	buf_done(&b->dots);
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
	return b;
}

void before_tell(struct protect *t, struct outcome *o)
{
	struct err e;
	int top = t->before && o ? protect_tree(t, t->plan->workspace, &e) : -1;

	if (top >= 0)
		tell_dots(t, o, top);
}
