/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/native/mount_builder.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

#include "base/files/fd.h"

/* The folder an object of the new root is made in; borrowed from the builder. */
int builder_parent(struct builder *b, const char *dst)
{
	char part[PATH_MAX];
	size_t n = (size_t)(last_part(dst) - dst);

	if (n == b->parent_len && memcmp(dst, b->parent_path, n) == 0)
		return b->parent;
	if (n >= sizeof(part))
		return -ENAMETOOLONG;
	memcpy(part, dst, n);
	part[n] = '\0';
	b->parent_len = 0;
	b->parent = fd_close(b->parent);
	b->parent = fd_open_nolinks(b->root, part, O_PATH | O_DIRECTORY, FD_IN_ROOT);
	if (b->parent < 0)
		return b->parent;
	b->parent_path = dst;
	b->parent_len = n;
	return b->parent;
}

/* Something was mounted at dst: a folder remembered at or below it may be hidden now. */
void builder_forget(struct builder *b, const char *dst)
{
	size_t n = strlen(dst);

	if (b->parent_len >= n && memcmp(b->parent_path, dst, n) == 0)
		b->parent_len = 0;
}

int builder_inside(struct builder *b, const char *dst)
{
	return fd_open_nolinks(b->root, dst, O_PATH, FD_IN_ROOT);
}

/* Makes dst, a folder or an empty file, unless something is there already: then *made is false.
 * Returns the folder above, which is the builder's, or -errno. */
static int make_point(struct builder *b, const char *dst, bool folder, mode_t mode, bool *made)
{
	int parent = builder_parent(b, dst);

	if (parent < 0)
		return parent;
	*made = (folder ? mkdirat(parent, last_part(dst), mode)
			: mknodat(parent, last_part(dst), S_IFREG | mode, 0)) == 0;
	return *made || errno == EEXIST || errno == EROFS ? parent : -errno;
}

/* The same; returns a descriptor on dst, or -errno. */
int builder_target(struct builder *b, const char *dst, bool folder, mode_t mode)
{
	bool made;
	int parent = make_point(b, dst, folder, mode, &made);

	return parent < 0 ? parent : fd_open_nolinks(parent, last_part(dst), O_PATH, FD_BENEATH);
}

int builder_attrs(int tree, uint64_t attrs, struct err *e)
{
	struct mount_attr a = { .attr_set = attrs };

	if (mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &a, sizeof(a)) < 0)
		return err_sys(e, "cannot set mount attributes");
	return 0;
}

int builder_attach(int tree, int target, struct err *e)
{
	if (move_mount(tree, "", target, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
		return err_sys(e, "cannot attach a mount");
	return 0;
}

/* Attaches a tree at dst, which is made for it. What was made a moment ago is no link and needs no
 * second look. */
int builder_attach_new(struct builder *b, int tree, const char *dst, bool folder, mode_t mode,
		       struct err *e)
{
	CLEANUP(fd) int target = -1;
	bool made;
	int parent = make_point(b, dst, folder, mode, &made);

	if (parent < 0)
		return err_errno(e, parent, "cannot make the mount point");
	if (made) {
		if (move_mount(tree, "", parent, last_part(dst), MOVE_MOUNT_F_EMPTY_PATH) < 0)
			return err_sys(e, "cannot attach a mount");
		return 0;
	}
	target = fd_open_nolinks(parent, last_part(dst), O_PATH, FD_BENEATH);
	if (target < 0)
		return err_errno(e, target, "cannot open the mount point");
	return builder_attach(tree, target, e);
}

/* The tree at `from` once more at `to`, with more attributes. In classic mode the attributes follow
 * in the second pass. */
int builder_bind(struct builder *b, int from, int to, uint64_t attrs, struct err *e)
{
	CLEANUP(fd) int tree = -1;
	char src[FD_PATH_LEN], dst[FD_PATH_LEN];

	if (b->classic) {
		fd_path(from, src);
		fd_path(to, dst);
		if (mount(src, dst, NULL, MS_BIND | MS_REC, NULL) < 0)
			return err_sys(e, "cannot bind");
		return 0;
	}
	tree = open_tree(from, "",
			 AT_EMPTY_PATH | AT_RECURSIVE | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (tree < 0)
		return err_sys(e, "cannot copy a mount");
	if (builder_attrs(tree, attrs, e) < 0)
		return -e->code;
	return builder_attach(tree, to, e);
}

uint64_t builder_attrs_of(const struct op *o)
{
	return COMMON_ATTRS | (o->writable ? 0 : MOUNT_ATTR_RDONLY) |
	       (o->noexec ? MOUNT_ATTR_NOEXEC : 0);
}

/* The folder that dst is made in, and its name there. */
int builder_place_of(struct builder *b, const struct op *o, const char **name)
{
	*name = o->fixed ? o->dst + 1 : last_part(o->dst);
	return o->fixed ? b->root : builder_parent(b, o->dst);
}

/* Of something mounted at a fixed place. Nobody is there yet to see it without them. */
int builder_attrs_at(const struct builder *b, const char *at, uint64_t attrs, struct err *e)
{
	struct mount_attr a = { .attr_set = attrs };

	if (!b->classic &&
	    mount_setattr(b->root, at, AT_RECURSIVE | AT_SYMLINK_NOFOLLOW, &a, sizeof(a)) < 0)
		return err_sys(e, "cannot set mount attributes");
	return 0;
}

/* Is it what the parent saw? It may have been swapped since. */
static int mount_compare(int fd, const char *name, const struct op *o, struct err *e)
{
	struct ident now;
	struct stat st;

	if (fstatat(fd, name, &st, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0)
		return err_sys(e, "cannot look at '%s'", o->src);
	now = ident_of(&st);
	if (o->kind == OP_DEVICE && (!S_ISCHR(st.st_mode) || st.st_rdev != o->rdev))
		return err_set(e, ERR_POLICY, EPERM, "'%s' is not the device it should be", o->src);
	if (o->kind == OP_BIND && !ident_same(&now, &o->ident))
		return err_replaced(e, o->src);
	return 0;
}

/* The plan has seen it; here the user inside looks, who passes no folder that is closed to others.
 */
static int source_error(const struct op *o, struct err *e)
{
	if (errno != EACCES)
		return err_sys(e, "cannot copy the mount of '%s'", o->src);
	return err_refuse(e, ERR_PERMISSION, EACCES,
			  "give others x on the folders above it, or mount another path",
			  "Permission denied: the user inside cannot reach '%s'", o->src);
}

static int classic_bind(struct builder *b, const struct op *o, bool folder, mode_t mode,
			struct err *e)
{
	CLEANUP(fd) int from = fd_open_nolinks(AT_FDCWD, o->src, O_PATH, 0);
	CLEANUP(fd) int target = -1;

	if (from < 0) {
		errno = -from;
		return source_error(o, e);
	}
	if (mount_compare(from, "", o, e) < 0)
		return -e->code;
	target = builder_target(b, o->dst, folder, mode);
	if (target < 0)
		return err_errno(e, target, "cannot make the mount point");
	return builder_bind(b, from, target, 0, e);
}

/* Many trees get the same ones, in one call for all that is mounted so far; the root, whose mount
 * is the first of them, stays writable while it is built. */
int builder_set_plain(struct builder *b, struct err *e)
{
	struct mount_attr a = { .attr_set = COMMON_ATTRS | MOUNT_ATTR_RDONLY };
	struct mount_attr root = { .attr_clr = MOUNT_ATTR_RDONLY };

	if (!b->plain)
		return 0;
	b->plain = false;
	if (mount_setattr(b->root, "", AT_EMPTY_PATH | AT_RECURSIVE, &a, sizeof(a)) < 0 ||
	    mount_setattr(b->root, "", AT_EMPTY_PATH, &root, sizeof(root)) < 0)
		return err_sys(e, "cannot set mount attributes");
	return 0;
}

/* At a fixed place mount(2) does in one call what takes four with descriptors. */
static int bind_fixed(struct builder *b, const struct op *o, bool folder, mode_t mode,
		      uint64_t attrs, struct err *e)
{
	bool plain = !b->classic && attrs == (COMMON_ATTRS | MOUNT_ATTR_RDONLY);
	const char *at = o->dst + 1;

	if (!plain && builder_set_plain(b, e) < 0)
		return -e->code;
	if ((folder ? mkdirat(b->root, at, mode) : mknodat(b->root, at, S_IFREG | mode, 0)) < 0)
		return err_sys(e, "cannot make the mount point");
	if (mount(o->src, at, NULL, MS_BIND | MS_REC, NULL) < 0)
		return source_error(o, e);
	if (mount_compare(b->root, at, o, e) < 0)
		return -e->code;
	b->plain |= plain;
	return plain ? 0 : builder_attrs_at(b, at, attrs, e);
}

/* It is the copy that is compared: by whatever way the name led there, nothing else gets in. */
int builder_bind_source(struct builder *b, const struct op *o, bool folder, mode_t mode,
			uint64_t attrs, struct err *e)
{
	CLEANUP(fd) int tree = -1;

	if (o->fixed)
		return bind_fixed(b, o, folder, mode, attrs, e);
	if (b->classic)
		return classic_bind(b, o, folder, mode, e);
	tree = open_tree(AT_FDCWD, o->src,
			 AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_RECURSIVE | OPEN_TREE_CLONE |
				 OPEN_TREE_CLOEXEC);
	if (tree < 0)
		return source_error(o, e);
	if (mount_compare(tree, "", o, e) < 0 || builder_attrs(tree, attrs, e) < 0)
		return -e->code;
	return builder_attach_new(b, tree, o->dst, folder, mode, e);
}
