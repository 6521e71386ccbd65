/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/plan/plan_links.c - where a link leads, as the kernel follows it.
 *
 * Folder by folder and link by link, each opened: what a path looks like says nothing, since links
 * and mounts outside of a tree may lead back into it. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "backend/kit/plan/plan_internal.h"
#include "base/text/str.h"
#include "model/settings/paths.h"

/* Where the walk stands: a folder, and what is left of the way. */
struct link_walk {
	struct box_plan *p;
	const struct guarded_tree *t;
	int at;
	char rest[PATH_MAX];
	struct link_way *way;
};

static bool same_mount(int a, int b)
{
	struct statx x, y;

	return statx(a, "", AT_EMPTY_PATH, STATX_MNT_ID, &x) == 0 &&
	       statx(b, "", AT_EMPTY_PATH, STATX_MNT_ID, &y) == 0 &&
	       (x.stx_mask & y.stx_mask & STATX_MNT_ID) && x.stx_mnt_id == y.stx_mnt_id;
}

/* By its place on the file system, for what is on another mount. */
static const char *by_mounts(const struct link_walk *w)
{
	struct where tree, here;
	struct mounts m;
	struct err e;
	size_t n;

	if (mounts_read(w->p->arena, &m, &e) < 0 ||
	    mounts_where(&m, w->p->arena, w->t->fd, &tree) < 0 ||
	    mounts_where(&m, w->p->arena, w->at, &here) < 0 || tree.dev != here.dev ||
	    !path_under(here.path, tree.path))
		return NULL;
	n = str_eq(tree.path, "/") ? 0 : strlen(tree.path);
	return here.path[n] == '/' ? here.path + n + 1 : "";
}

/* The path of the folder in the tree, "" for the tree itself; NULL: it is not in there. */
static const char *tree_path(const struct link_walk *w)
{
	size_t top = strlen(w->t->host);
	char real[PATH_MAX];

	if (fd_real_path(w->at, real) < 0)
		return NULL;
	if (same_mount(w->at, w->t->fd))
		return !path_under(real, w->t->host) ? NULL
		       : real[top]                   ? arena_strdup(w->p->arena, real + top + 1)
						     : "";
	return by_mounts(w);
}

static const char *plan_links_join(struct link_walk *w, const char *folder, const char *name,
				   const char *more)
{
	return arena_printf(w->p->arena, "%s%s%s%s%s", folder, *folder ? "/" : "", name,
			    *more ? "/" : "", more);
}

/* Goes on with the text of a link instead of its name. false: that is too long, or there is none.
 */
static bool take_link(struct link_walk *w, const char *name, const char *more)
{
	char to[PATH_MAX], next[PATH_MAX];
	ssize_t n = readlinkat(w->at, name, to, sizeof(to) - 1);
	int root;

	if (n <= 0 || w->way->links++ == LINKS_MAX)
		return false;
	to[n] = '\0';
	if (snprintf(next, sizeof(next), "%s%s%s", to, *more ? "/" : "", more) >= (int)sizeof(next))
		return false;
	memcpy(w->rest, next, sizeof(next));
	if (to[0] != '/')
		return true;
	root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	(void)fd_close(w->at);
	w->at = root;
	return root >= 0;
}

static bool plan_links_enter(struct link_walk *w, const char *name)
{
	int next = openat(w->at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	(void)fd_close(w->at);
	w->at = next;
	return next >= 0;
}

static void end_at(struct link_walk *w, const char *name, const char *more)
{
	const char *folder = tree_path(w);

	w->way->goal = folder ? plan_links_join(w, folder, name, more) : NULL;
}

/* A link: in the tree it is a name of its own if it is the last, and compared if not. */
static bool at_link(struct link_walk *w, const char *name, const char *more)
{
	const char *folder = tree_path(w);

	if (folder && !*more) {
		end_at(w, name, more);
		return false;
	}
	if (folder)
		w->way->passed[w->way->passed_count++] = plan_links_join(w, folder, name, "");
	w->way->lost = !take_link(w, name, more);
	return !w->way->lost;
}

/* One name of the way; false: it is at its end. */
static bool step(struct link_walk *w)
{
	const char *from = w->rest + strspn(w->rest, "/"), *more, *folder;
	size_t n = strcspn(from, "/");
	char name[NAME_MAX + 1];
	struct stat st = { 0 };

	w->way->lost = n > NAME_MAX;
	if (w->way->lost)
		return false;
	(void)snprintf(name, sizeof(name), "%.*s", n ? (int)n : 1, n ? from : ".");
	more = from + n + strspn(from + n, "/");
	if (fstatat(w->at, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode))
		return at_link(w, name, more);
	if (!S_ISDIR(st.st_mode) || (!*more && !str_eq(name, ".") && !str_eq(name, ".."))) {
		end_at(w, name, more);
		return false;
	}
	w->way->lost = !plan_links_enter(w, name);
	if (!w->way->lost && !*more) { /* up, or here: the folder itself is meant */
		folder = tree_path(w);
		w->way->goal = folder && *folder ? folder : NULL;
	}
	memmove(w->rest, more, strlen(more) + 1);
	return !w->way->lost && w->rest[0];
}

void plan_follow(struct box_plan *p, const struct guarded_tree *t, const char *path,
		 struct link_way *ret)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	struct link_walk w = { .p = p, .t = t, .way = ret };
	char folder[PATH_MAX];

	*ret = (struct link_way){ .goal = NULL };
	(void)snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - path) : 1,
		       slash ? path : ".");
	w.at = fd_open_nolinks(t->fd, folder, O_PATH | O_DIRECTORY, FD_BENEATH);
	if (w.at < 0)
		return;
	ret->lost = !take_link(&w, name, "");
	while (!ret->lost && step(&w))
		;
	(void)fd_close(w.at);
}
