/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/protect_git.c - repositories that the command made or changed: their objects are
 * welcome, what they would run on the host is not.
 *
 * git status at the top looks into every repository that the index names as a submodule, with that
 * one's own configuration and hooks, and from there on into the next. So an index that changed is
 * read, and what it leads to is treated like a repository made at the top. */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "backend/kit/gitconfig.h"
#include "backend/kit/gitindex.h"
#include "backend/kit/protect_internal.h"
#include "base/str.h"

#define NESTED_DEPTH 8
#define NESTED_MAX 1024

/* What makes git take a folder for a bare repository. */
static const char *const bare_parts[] = { "HEAD", "objects", "refs", REDIRECT };

/* HEAD, and the rest of it here or elsewhere. */
bool bare_enough(unsigned parts)
{
	return (parts & 1) && ((parts & 6) == 6 || (parts & 8));
}

unsigned bare_look(int tree)
{
	unsigned seen = 0;
	struct stat st;

	for (size_t i = 0; i < ARRAY_LEN(bare_parts); i++)
		if (fstatat(tree, bare_parts[i], &st, AT_SYMLINK_NOFOLLOW) == 0)
			seen |= 1U << i;
	return seen;
}

static void new_hooks(struct protect *t, struct outcome *o, int tree, const char *git)
{
	char path[PATH_MAX + 300];
	DIR *d;
	int fd;

	(void)snprintf(path, sizeof(path), "%s/hooks", git);
	fd = protect_open(tree, path);
	d = fd < 0 ? NULL : fdopendir(fd);
	if (fd == -ELOOP)
		quarantine(t, o, tree, path, "a link made during the run");
	for (struct dirent *e; d && (e = readdir(d));) {
		if (str_eq(e->d_name, ".") || str_eq(e->d_name, "..") ||
		    str_ends_nocase(e->d_name, ".sample"))
			continue;
		(void)snprintf(path, sizeof(path), "%s/hooks/%s", git, e->d_name);
		quarantine(t, o, tree, path, "a hook made during the run");
	}
	if (d)
		(void)closedir(d);
}

/* git takes a folder that looks like a bare repository for one, unless its `.git` is good, which
 * the command may have seen to: whatever made it so goes. */
static void new_bare(struct protect *t, struct outcome *o, int tree)
{
	unsigned now = bare_look(tree);

	if (!bare_enough(now))
		return;
	for (size_t i = 0; i < ARRAY_LEN(bare_parts); i++)
		if (now & ~t->bare & (1U << i))
			quarantine(t, o, tree, bare_parts[i],
				   "it made the folder look like a bare repository");
}

static void tame(struct protect *t, struct outcome *o, int tree, const char *git)
{
	static const char *const files[] = { REDIRECT, "config.worktree" };
	char path[PATH_MAX + 32];
	struct stat st;

	new_hooks(t, o, tree, git);
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", git, files[i]);
		if (fstatat(tree, path, &st, AT_SYMLINK_NOFOLLOW) == 0)
			quarantine(t, o, tree, path, "made during the run");
	}
	(void)snprintf(path, sizeof(path), "%s/config", git);
	if (!gitconfig_harmless(tree, path))
		quarantine(t, o, tree, path, "made during the run with more than plain settings");
}

static void new_repository(struct protect *t, struct outcome *o, int tree)
{
	struct stat st;

	if (!t->plan->git_absent || fstatat(tree, ".git", &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	if (S_ISDIR(st.st_mode))
		tame(t, o, tree, ".git");
	else
		quarantine(t, o, tree, ".git", "not a folder, made during the run");
}

/* ---- what the index leads to ---- */

struct nested {
	struct protect *t;
	struct outcome *o;
	int tree;
	const char *above; /* the repository's folder with a slash; "": the top */
	int depth;
	int *left;
};

/* The plan has covered it, or a part of it. */
static bool is_covered(const struct protect *t, const char *git)
{
	size_t n = strlen(git);

	for (size_t i = 0; i < t->plan->protected_count; i++) {
		const struct protected_name *p = &t->plan->protected[i];

		if (p->covered && str_eq(p->tree, t->plan->workspace) &&
		    strncmp(p->path, git, n) == 0 && (!p->path[n] || p->path[n] == '/'))
			return true;
	}
	return false;
}

static void look_into(struct nested *n, int tree, const char *git);

static int on_link(void *arg, const char *path)
{
	struct nested *n = arg;
	char git[PATH_MAX];
	struct nested below = *n;
	char above[PATH_MAX];
	struct stat st;

	if (--*n->left < 0)
		return -E2BIG;
	if (snprintf(git, sizeof(git), "%s%s/.git", n->above, path) >= (int)sizeof(git))
		return -ENAMETOOLONG;
	if (fstatat(n->tree, git, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	if (!S_ISDIR(st.st_mode)) {
		if (!is_covered(n->t, git))
			quarantine(n->t, n->o, n->tree, git, "it leads git to another folder");
		return 0;
	}
	if (!is_covered(n->t, git))
		tame(n->t, n->o, n->tree, git);
	(void)snprintf(above, sizeof(above), "%s%s/", n->above, path);
	below.above = above;
	below.depth++;
	look_into(&below, n->tree, git);
	return 0;
}

/* An index that cannot be read to its end may lead anywhere. */
static void look_into(struct nested *n, int tree, const char *git)
{
	char path[PATH_MAX + 32];
	int r = n->depth > NESTED_DEPTH ? -E2BIG : gitindex_links(tree, git, on_link, n);

	(void)snprintf(path, sizeof(path), "%s/index", git);
	if (r < 0)
		quarantine(n->t, n->o, tree, path, "an index of git's that cannot be read");
}

static bool index_changed(struct protect *t)
{
	struct timespec ctime;
	struct ident now;

	if (!protect_index(t, &now, &ctime))
		return false;
	return !ident_same(&now, &t->index) || ctime.tv_sec != t->index_ctime.tv_sec ||
	       ctime.tv_nsec != t->index_ctime.tv_nsec;
}

void protect_repositories(struct protect *t, struct outcome *o, int tree)
{
	int left = NESTED_MAX;
	struct nested top = { .t = t, .o = o, .tree = tree, .above = "", .left = &left };

	struct err e;
	int git = protect_tree(t, t->plan->git_tree, &e);

	if (t->plan->spec->policy != POLICY_WORKSPACE_WRITE)
		return; /* whatever is new is the host's */
	new_repository(t, o, tree);
	new_bare(t, o, tree);
	if (git >= 0 && index_changed(t))
		look_into(&top, git, t->plan->git);
}
