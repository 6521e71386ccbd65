/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/protect/unshare.c - a protected file with a second name could be written by that one:
 * the name that is protected gets a file of its own, with the same bytes, mode, owner and times. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>

#include "backend/kit/protect/protect_internal.h"
#include "base/text/str.h"

#define COPY_MAX ((off_t)64 << 20)

int protect_copy(int from, int to, const struct stat *st)
{
	const struct timespec times[] = { st->st_atim, st->st_mtim };

	for (off_t at = 0; at < st->st_size;) {
		ssize_t n = sendfile(to, from, &at, (size_t)(st->st_size - at));

		if (n <= 0)
			return n < 0 ? -errno : -EAGAIN; /* it shrank: somebody writes to it */
	}
	if ((geteuid() == 0 && fchown(to, st->st_uid, st->st_gid) < 0) ||
	    fchmod(to, st->st_mode & 07777) < 0 || futimens(to, times) < 0 || fsync(to) < 0)
		return -errno;
	return 0;
}

/* Beside it, by a name of its own. */
static int unshare_copy(int dir, const char *name, const struct ident *ident, const char *beside)
{
	struct stat st;
	CLEANUP(fd) int from = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	CLEANUP(fd) int to = -1;
	struct ident now;

	if (from < 0 || fstat(from, &st) < 0)
		return -errno;
	now = ident_of(&st);
	if (!ident_same(&now, ident))
		return -EAGAIN;
	if (st.st_uid != geteuid() && geteuid() != 0) /* the copy would be ours */
		return -EPERM;
	if (st.st_size > COPY_MAX)
		return -EFBIG;
	to = openat(dir, beside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (to < 0)
		return -errno;
	return protect_copy(from, to, &st);
}

static bool is_still(int dir, const char *name, const struct ident *ident)
{
	struct ident now;
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	now = ident_of(&st);
	return ident_same(&now, ident);
}

int protect_own_file(int dir, const char *name, const struct ident *ident, const char *id,
		     int (*lock)(int dir, bool take))
{
	char beside[64];
	bool locked = false;
	int r;

	(void)snprintf(beside, sizeof(beside), ".brig-copy-%s", id);
	r = unshare_copy(dir, name, ident, beside);
	if (r == -EEXIST)
		return r;
	if (r == 0 && lock)
		locked = lock(dir, true) == 0;
	if (r == 0 && locked && !is_still(dir, name, ident))
		r = -EAGAIN;
	if (r == 0 && renameat(dir, beside, dir, name) < 0)
		r = -errno;
	if (locked)
		(void)lock(dir, false);
	if (r < 0)
		(void)unlinkat(dir, beside, 0);
	return r;
}

/* A name, or a link that leads there. */
static void refresh(struct box_plan *p, int tree, const struct shared_file *f)
{
	struct stat st;

	for (size_t i = 0; i < p->protected_count; i++) {
		struct protected_name *n = &p->protected[i];

		if (str_eq(n->tree, f->tree) && str_eq(n->path, f->path) &&
		    fstatat(tree, n->path, &st, AT_SYMLINK_NOFOLLOW) == 0)
			n->was = stamp_of(&st);
		if (ident_same(&n->goal.ident, &f->ident) &&
		    fstatat(tree, f->path, &st, AT_SYMLINK_NOFOLLOW) == 0)
			n->goal = stamp_of(&st);
	}
}

int protect_unshare(struct protect *t, struct err *e)
{
	for (size_t i = 0; i < t->plan->shared_count; i++) {
		const struct shared_file *f = &t->plan->shared[i];
		const struct tree *tree = protect_tree(t, f->tree, e);
		CLEANUP(name_parent)
		struct name_parent at = protect_parent(tree ? tree->fd : -1, f->path);
		int r;

		if (!tree)
			return -e->code;
		r = at.dir < 0 ? at.dir : protect_own_file(at.dir, at.name, &f->ident, t->id, NULL);
		if (r < 0) {
			(void)err_errno(e, r,
					"'%s' in '%s' has other names, by which the command could "
					"change it",
					f->path, f->tree);
			return err_hint(e, "give it a file of its own: cp -p it aside and mv the "
					   "copy back");
		}
		refresh(t->plan, tree->fd, f);
	}
	return 0;
}
