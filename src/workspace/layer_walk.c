/* SPDX-License-Identifier: Apache-2.0 */
/* workspace/layer_walk.c - the walk over an upper layer, beside the workspace as it is.
 *
 * Marks of overlayfs: a device 0:0 is a name that was removed; user.overlay.opaque, that nothing of
 * the workspace's folder shows; user.overlay.origin, that what is here was copied from there. A
 * rename takes that mark of a file along, so a file that is marked and missing in the workspace was
 * removed there only if its folder has been changed since the run began. An opaque folder is told
 * as what is missing from it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "backend/kit/survey/gitdirs.h"
#include "base/files/folder.h"
#include "base/text/str.h"
#include "workspace/layer_look_internal.h"

enum {
	WALK_DEPTH = 200,
	WALK_NAMES = 4000000, /* of both trees */
};

#define FOLDER_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define FILE_FLAGS (O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)

struct walk_state {
	const struct look_want *w;
	const struct look_known *known, *own; /* of *w, in order */
	struct arena *arena;
	struct change *v;
	size_t n, names;
	char path[PATH_MAX];
	size_t len;
	struct err *e;
};

/* What holds for all that is in a folder. */
struct walk_in {
	int up, low; /* low -1: there is none */
	int depth;
	bool within, git_was;
	bool touched; /* the workspace's folder was changed since the run began */
	uint64_t git;
	enum change_conflict conflict;
};

bool look_wants(const struct look_want *w, const char *path)
{
	for (size_t i = 0; i < w->path_count; i++)
		if (change_path_below(path, w->paths[i]) || change_path_below(w->paths[i], path))
			return true;
	return !w->path_count;
}

/* In a namespace the kernel writes no handle into the mark: that it is there is all. */
static bool has_origin(int fd)
{
	return fgetxattr(fd, "user.overlay.origin", NULL, 0) >= 0;
}

/* ---- one change ---- */

static int walk_failed(struct walk_state *s, int code)
{
	return code == -ENOMEM ? err_nomem(s->e)
			       : err_errno(s->e, code, "cannot look through the layer at '%.200s'",
					   s->path);
}

static int known_order(const void *x, const void *y)
{
	const struct look_known *a = x, *b = y;

	if (a->dev != b->dev)
		return a->dev < b->dev ? -1 : 1;
	if (a->ino != b->ino)
		return a->ino < b->ino ? -1 : 1;
	if (a->ctime.tv_sec != b->ctime.tv_sec)
		return a->ctime.tv_sec < b->ctime.tv_sec ? -1 : 1;
	return a->ctime.tv_nsec < b->ctime.tv_nsec    ? -1
	       : a->ctime.tv_nsec == b->ctime.tv_nsec ? 0
						      : 1;
}

static const struct look_known *known_sorted(struct arena *a, const struct look_known *v, size_t n)
{
	struct look_known *copy = n ? arena_copy_array(a, v, n, sizeof(*v)) : NULL;

	if (copy)
		qsort(copy, n, sizeof(*copy), known_order);
	return copy;
}

static bool known_has(const struct look_known *v, size_t n, const struct stat *st)
{
	const struct look_known k = { st->st_dev, st->st_ino, st->st_ctim };

	return v && bsearch(&k, v, n, sizeof(k), known_order) != NULL;
}

static bool since_start(const struct walk_state *s, const struct stat *st)
{
	return !time_before(&st->st_ctim, &s->w->about->start) &&
	       !known_has(s->known, s->w->known_count, st);
}

static int walk_add(struct walk_state *s, const struct walk_in *in, struct change c)
{
	struct change *slot;

	if (!look_wants(s->w, s->path))
		return 0;
	if (s->n >= CHANGES_MAX)
		return walk_failed(s, -E2BIG);
	slot = ARENA_PUSH(s->arena, s->v, s->n);
	c.path = arena_strdup(s->arena, s->path);
	c.link = c.link ? arena_strdup(s->arena, c.link) : "";
	if (!slot || !c.path || !c.link)
		return walk_failed(s, -ENOMEM);
	if (in->conflict != CONFLICT_NONE)
		c.conflict = in->conflict;
	c.within = in->within;
	*slot = c;
	return 0;
}

/* Goes one name further down; false: no path is that long. */
static bool path_push(struct walk_state *s, const char *name, size_t *was)
{
	int n = snprintf(s->path + s->len, sizeof(s->path) - s->len, "%s%s", s->len ? "/" : "",
			 name);

	*was = s->len;
	if (n < 0 || s->len + (size_t)n >= sizeof(s->path) - 64) {
		s->path[s->len] = '\0';
		return false;
	}
	s->len += (size_t)n;
	return true;
}

static void path_pop(struct walk_state *s, size_t was)
{
	s->len = was;
	s->path[was] = '\0';
}

/* ---- what the layer hides of the workspace ---- */

/* *changed where the host has changed any of what is there since the run began. */
static int walk_hide(struct walk_state *s, int folder, const char *name, const struct stat *st,
		     int depth, bool *changed)
{
	CLEANUP(fd) int fd = -1;
	const struct fd_entry *d;
	struct folder f;
	int r = 0;

	*changed |= since_start(s, st);
	if (*changed || !S_ISDIR(st->st_mode))
		return 0;
	fd = openat(folder, name, FOLDER_FLAGS);
	if (fd < 0 || depth > WALK_DEPTH) {
		*changed = true; /* nobody can say */
		return 0;
	}
	folder_begin(&f, fd);
	while (r == 0 && !*changed && (d = folder_next(&f))) {
		struct stat below;

		if (++s->names > WALK_NAMES)
			return -E2BIG;
		if (fstatat(fd, d->name, &below, AT_SYMLINK_NOFOLLOW) == 0)
			r = walk_hide(s, fd, d->name, &below, depth + 1, changed);
	}
	return r;
}

static enum change_conflict hides(struct walk_state *s, const struct walk_in *in, const char *name,
				  const struct stat *low)
{
	bool changed = false;

	if (walk_hide(s, in->low, name, low, in->depth, &changed) < 0)
		return CONFLICT_BELOW;
	if (!changed)
		return CONFLICT_NONE;
	return S_ISDIR(low->st_mode) ? CONFLICT_BELOW : CONFLICT_CHANGED;
}

static int walk_deleted(struct walk_state *s, const struct walk_in *in, const char *name,
			const struct stat *low)
{
	struct change c = { .kind = CHANGE_DELETED,
			    .was = change_was_of(low),
			    .git = in->git,
			    .git_was = in->git_was };

	c.conflict = hides(s, in, name, low);
	if (S_ISDIR(low->st_mode)) {
		CLEANUP(fd) int fd = openat(in->low, name, FOLDER_FLAGS);

		if (gitdir_named(name) || (fd >= 0 && gitdir_enough(gitdir_look(fd)))) {
			c.git = s->len + 1;
			c.git_was = true;
		}
	}
	return walk_add(s, in, c);
}

/* ---- files and links ---- */

static bool same_bytes(int a, int b)
{
	char x[16384], y[16384];
	off_t at = 0;

	for (;;) {
		ssize_t n = pread(a, x, sizeof(x), at), m = pread(b, y, sizeof(y), at);

		if (n != m || n < 0 || memcmp(x, y, (size_t)n) != 0)
			return false;
		if (n == 0)
			return true;
		at += n;
	}
}

/* What is left of a mode when it is applied over another: no set-id bit that was not there. */
static mode_t mode_left(const struct stat *now, const struct stat *was)
{
	return (now->st_mode & 01777) | (was ? now->st_mode & was->st_mode & 06000 : 0);
}

/* CHANGE_KINDS: there is no difference. */
static enum change_kind compare_files(int up, int low, const char *name, const struct stat *now,
				      const struct stat *was)
{
	CLEANUP(fd) int a = -1;
	CLEANUP(fd) int b = -1;

	if (now->st_size != was->st_size)
		return CHANGE_CHANGED;
	if (now->st_size > 0) {
		a = openat(up, name, FILE_FLAGS);
		b = openat(low, name, FILE_FLAGS);
		if (a < 0 || b < 0 || !same_bytes(a, b))
			return CHANGE_CHANGED;
	}
	return mode_left(now, was) == (was->st_mode & 07777) ? CHANGE_KINDS : CHANGE_MODE;
}

static int walk_file(struct walk_state *s, const struct walk_in *in, const char *name,
		     const struct stat *now, const struct stat *was)
{
	struct change c = { .now = change_was_of(now),
			    .more_names = now->st_nlink > 1,
			    .git = in->git,
			    .git_was = in->git_was };
	char link[PATH_MAX] = "", before[PATH_MAX] = "";
	CLEANUP(fd) int fd = -1;

	if (was)
		c.was = change_was_of(was);
	if (S_ISLNK(now->st_mode)) {
		ssize_t n = readlinkat(in->up, name, link, sizeof(link) - 1);
		ssize_t m = was && S_ISLNK(was->st_mode)
				    ? readlinkat(in->low, name, before, sizeof(before) - 1)
				    : 0;

		if (n <= 0)
			return walk_failed(s, -EIO);
		c.link = link;
		c.kind = m == n && memcmp(link, before, (size_t)n) == 0 ? CHANGE_KINDS
									: CHANGE_CHANGED;
	} else {
		fd = openat(in->up, name, FILE_FLAGS);
		c.origin = fd >= 0 && has_origin(fd);
		c.kind = fd < 0 ? CHANGE_OTHER
			 : was && S_ISREG(was->st_mode)
				 ? compare_files(in->up, in->low, name, now, was)
				 : CHANGE_CHANGED;
	}
	if (c.kind == CHANGE_KINDS)
		return 0;
	if (was)
		c.conflict = hides(s, in, name, was);
	else if (c.origin && in->touched)
		c.conflict = CONFLICT_GONE;
	if (c.kind != CHANGE_OTHER && was && ((now->st_mode ^ was->st_mode) & S_IFMT))
		c.kind = CHANGE_TYPE;
	if (c.kind != CHANGE_OTHER && !was)
		c.kind = CHANGE_ADDED;
	return walk_add(s, in, c);
}

/* ---- folders ---- */

static int walk_names(struct walk_state *s, const struct walk_in *in);

/* What the folder does not show any more: of an opaque one all, else what was put there from the
 * layer. */
static int walk_missing(struct walk_state *s, const struct walk_in *in, bool all)
{
	const struct fd_entry *d;
	struct folder f;
	int r = 0;

	folder_begin(&f, in->low);
	while (r == 0 && (d = folder_next(&f))) {
		struct stat st, low;
		size_t was;

		if (++s->names > WALK_NAMES)
			return walk_failed(s, -E2BIG);
		if (fstatat(in->up, d->name, &st, AT_SYMLINK_NOFOLLOW) == 0 ||
		    fstatat(in->low, d->name, &low, AT_SYMLINK_NOFOLLOW) < 0 ||
		    (!all && !known_has(s->own, s->w->own_count, &low)))
			continue;
		if (!path_push(s, d->name, &was))
			return walk_failed(s, -ENAMETOOLONG);
		r = walk_deleted(s, in, d->name, &low);
		path_pop(s, was);
	}
	return r;
}

static void find_git(struct walk_state *s, const char *name, struct walk_in *in)
{
	unsigned low = in->low >= 0 ? gitdir_look(in->low) : 0;
	bool named = gitdir_named(name);

	if (!named && !gitdir_enough(low | gitdir_look(in->up)))
		return;
	in->git = s->len + 1;
	in->git_was = in->low >= 0 && (named || gitdir_enough(low));
}

/* A folder made since, in the place of the one that was copied from. */
static bool made_since(const struct walk_state *s, int low)
{
	struct statx x;
	struct timespec made;

	if (statx(low, "", AT_EMPTY_PATH, STATX_BTIME, &x) < 0 || !(x.stx_mask & STATX_BTIME))
		return false;
	made = (struct timespec){ .tv_sec = x.stx_btime.tv_sec, .tv_nsec = x.stx_btime.tv_nsec };
	return !time_before(&made, &s->w->about->start);
}

static int walk_folder(struct walk_state *s, const struct walk_in *in, const char *name,
		       const struct stat *now, const struct stat *was)
{
	CLEANUP(fd) int up = openat(in->up, name, FOLDER_FLAGS);
	CLEANUP(fd)
	int low = was && S_ISDIR(was->st_mode) ? openat(in->low, name, FOLDER_FLAGS) : -1;
	struct walk_in below = *in;
	struct change c = { .now = change_was_of(now), .kind = CHANGE_FOLDER };
	bool all;
	char opaque = 0;
	int r = 0;

	if (was)
		c.was = change_was_of(was);
	if (up < 0 || in->depth >= WALK_DEPTH || (low < 0 && was && S_ISDIR(was->st_mode))) {
		c.kind = CHANGE_OTHER;
		return walk_add(s, in, c);
	}
	below.up = up;
	below.low = low;
	below.depth++;
	find_git(s, name, &below);
	c.origin = has_origin(up);
	c.git = below.git;
	c.git_was = below.git_was;
	if (low < 0) {
		c.kind = was ? CHANGE_TYPE : CHANGE_FOLDER;
		/* A folder that was there cannot be renamed in an overlay: it is gone. */
		if (was)
			c.conflict = hides(s, in, name, was);
		else if (c.origin)
			c.conflict = below.conflict = CONFLICT_GONE;
		r = walk_add(s, in, c);
		below.within = true;
		below.touched = false;
	} else {
		below.touched = since_start(s, was);
		if (c.origin && made_since(s, low))
			below.conflict = CONFLICT_ANOTHER;
		c.kind = CHANGE_MODE;
		if (mode_left(now, was) != (was->st_mode & 07777))
			r = walk_add(s, &below, c);
	}
	if (r == 0)
		r = walk_names(s, &below);
	if (r != 0 || low < 0)
		return r;
	all = fgetxattr(up, "user.overlay.opaque", &opaque, 1) == 1 && opaque == 'y';
	return all || (s->own && !c.origin) ? walk_missing(s, &below, all) : 0;
}

static int walk_name(struct walk_state *s, const struct walk_in *in, const char *name)
{
	struct change c = { .kind = CHANGE_OTHER, .git = in->git, .git_was = in->git_was };
	struct stat now, low, *was = NULL;

	if (fstatat(in->up, name, &now, AT_SYMLINK_NOFOLLOW) < 0)
		return walk_failed(s, -errno);
	if (in->low >= 0 && fstatat(in->low, name, &low, AT_SYMLINK_NOFOLLOW) == 0)
		was = &low;
	if (!look_wants(s->w, s->path))
		return 0;
	if (S_ISCHR(now.st_mode) && now.st_rdev == 0)
		return was ? walk_deleted(s, in, name, was) : 0;
	if (S_ISDIR(now.st_mode))
		return walk_folder(s, in, name, &now, was);
	if (S_ISREG(now.st_mode) || S_ISLNK(now.st_mode))
		return walk_file(s, in, name, &now, was);
	c.now = change_was_of(&now);
	if (was)
		c.was = change_was_of(was);
	return walk_add(s, in, c);
}

static int walk_names(struct walk_state *s, const struct walk_in *in)
{
	const struct fd_entry *d;
	struct folder f;
	int r = 0;

	folder_begin(&f, in->up);
	while (r == 0 && (d = folder_next(&f))) {
		size_t was;

		if (++s->names > WALK_NAMES)
			return walk_failed(s, -E2BIG);
		if (!path_push(s, d->name, &was))
			return walk_failed(s, -ENAMETOOLONG);
		r = walk_name(s, in, d->name);
		path_pop(s, was);
	}
	return r ? r : f.error ? walk_failed(s, -f.error) : 0;
}

/* ---- all of it ---- */

/* Folders right before what they have. */
static int path_order(const void *x, const void *y)
{
	const char *a = ((const struct change *)x)->path, *b = ((const struct change *)y)->path;
	int p, q;

	while (*a && *a == *b) {
		a++;
		b++;
	}
	p = *a == '/' ? 1 : *a ? (unsigned char)*a + 1 : 0;
	q = *b == '/' ? 1 : *b ? (unsigned char)*b + 1 : 0;
	return p - q;
}

int look_walk(const struct look_want *w, struct change_list *ret, struct err *e)
{
	struct walk_state s = { .w = w,
				.known = known_sorted(ret->arena, w->known, w->known_count),
				.own = known_sorted(ret->arena, w->own, w->own_count),
				.arena = ret->arena,
				.e = e };
	/* A descriptor that was handed down stands where the last look ended. */
	CLEANUP(fd) int up = openat(w->upper, ".", FOLDER_FLAGS);
	CLEANUP(fd) int low = openat(w->workspace, ".", FOLDER_FLAGS);
	struct walk_in in = { .up = up, .low = low };
	struct stat st;
	int r;

	if (up < 0 || low < 0 || fstat(low, &st) < 0)
		return err_sys(e, "cannot look at the workspace and its layer");
	in.touched = since_start(&s, &st);
	find_git(&s, "", &in);
	r = walk_names(&s, &in);
	if (r == 0 && s.n)
		qsort(s.v, s.n, sizeof(*s.v), path_order);
	ret->v = s.v;
	ret->n = s.n;
	return r;
}
