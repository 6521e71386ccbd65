/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/native/image_mount.h"

#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "base/files/folder.h"
#include "base/text/str.h"

#define FOLDER (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define PLACE "own" /* on the tmpfs, beside the root */
#define ROOT "root"
#define MERGED ".image" /* in the root, while it is taken apart */
#define STORE "store"
#define UPPER "up"
#define WORK "work"

enum { TOP_MOST = 1024, TEXT_MOST = 4096 };

struct image_stack {
	int fds[IMAGE_LAYERS_MAX + 1]; /* the highest first */
	size_t n;
	int upper, work; /* -1: it is read-only */
};

int image_own(struct builder *b, struct err *e)
{
	if (b->classic)
		return err_refuse(e, ERR_UNAVAILABLE, ENOSYS, "--backend docker runs it",
				  "an image on this backend needs Linux 5.12");
	if (mkdirat(b->root, ROOT, 0755) < 0 || mkdirat(b->root, PLACE, 0755) < 0)
		return err_sys(e, "cannot make the new root");
	b->own = openat(b->root, PLACE, FOLDER);
	if (b->own < 0 || fchdir(b->root) < 0 || mount(ROOT, "/", NULL, MS_BIND, NULL) < 0)
		return err_sys(e, "cannot mount the new root");
	if (mkdirat(b->root, STORE, 0755) < 0 ||
	    (!b->plan->read_only_root &&
	     (mkdirat(b->root, UPPER, 0755) < 0 || mkdirat(b->root, WORK, 0755) < 0)))
		return err_sys(e, "cannot make the new root");
	b->beside = b->root;
	b->root = open("/..", O_PATH | O_DIRECTORY | O_CLOEXEC); /* as make_root has it */
	return b->root < 0 ? err_sys(e, "cannot open the new root") : 0;
}

/* ---- what brig puts there ---- */

/* The folder above; -ENOENT: it is in a tree that is mounted later. */
static int image_above(const struct builder *b, const char *dst)
{
	char part[PATH_MAX];
	size_t n = (size_t)(last_part(dst) - dst);

	if (n >= sizeof(part))
		return -ENAMETOOLONG;
	memcpy(part, dst, n);
	part[n] = '\0';
	return fd_open_nolinks(b->own, part, O_PATH | O_DIRECTORY, FD_IN_ROOT);
}

static int image_file(struct builder *b, int above, const struct op *o)
{
	CLEANUP(fd)
	int fd = openat(above, last_part(o->dst), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, o->mode);
	int r = fd < 0 ? -errno : fd_write_all(fd, o->data, op_size(o));

	if (r == 0 && o->awaits && b->awaiting_count < TRUST_FILES)
		b->awaiting[b->awaiting_count++] = TAKE_FD(fd);
	return r;
}

static int image_place(struct builder *b, const struct op *o)
{
	CLEANUP(fd) int above = image_above(b, o->dst);
	const char *name = last_part(o->dst);
	bool folder = o->kind == OP_DIR || o->kind == OP_PRIVATE || S_ISDIR(o->ident.type);
	int r;

	if (above < 0)
		return above == -ENOENT || above == -ENOTDIR || above == -ELOOP ? 0 : above;
	if (o->kind == OP_FILE)
		return image_file(b, above, o);
	if (o->kind == OP_SYMLINK)
		r = symlinkat(o->data, above, name);
	else if (folder)
		r = mkdirat(above, name,
			    o->kind == OP_DIR || o->kind == OP_PRIVATE ? o->mode : 0755);
	else
		r = mknodat(above, name, S_IFREG | 0644, 0);
	return r < 0 && errno != EEXIST ? -errno : 0;
}

static int image_fill(struct builder *b, struct err *e)
{
	for (size_t i = 0; i < b->plan->op_count; i++) {
		const struct op *o = &b->plan->ops[i];
		int r = o->imaged && !o->skip ? image_place(b, o) : 0;

		if (r < 0)
			return err_errno(e, r, "cannot make '%s'", o->dst);
	}
	return 0;
}

/* ---- the overlay ---- */

static void stack_close(struct image_stack *s)
{
	while (s->n)
		(void)fd_close(s->fds[--s->n]);
	s->upper = fd_close(s->upper);
	s->work = fd_close(s->work);
}

/* The store of the plan, compared; as root a tree that the parent has idmapped. */
static int clone_store(struct builder *b, const struct op *o, struct err *e)
{
	CLEANUP(fd) int tree = -1;
	struct ident now;
	struct stat st;

	if (o->fd_slot >= 0)
		return TAKE_FD(b->prepared[o->fd_slot]);
	tree = open_tree(AT_FDCWD, o->src,
			 AT_SYMLINK_NOFOLLOW | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (tree < 0 || fstat(tree, &st) < 0)
		return err_sys(e, "cannot open the image's layers");
	now = ident_of(&st);
	return ident_same(&now, &o->ident) ? TAKE_FD(tree) : err_replaced(e, o->src);
}

/* An overlay takes layers of mounts of its own namespace alone, and tells where they are. */
static int open_store(struct builder *b, const struct op *o, struct err *e)
{
	CLEANUP(fd) int tree = clone_store(b, o, e);
	int fd;

	if (tree < 0)
		return tree;
	if (move_mount(tree, "", b->beside, STORE, MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return err_sys(e, "cannot attach the image's layers");
	fd = openat(b->beside, STORE, FOLDER);
	return fd < 0 ? err_sys(e, "cannot open the image's layers") : fd;
}

static int stack_open(struct builder *b, const struct op *o, struct image_stack *s, struct err *e)
{
	const struct image_root *i = b->plan->image;
	CLEANUP(fd) int store = open_store(b, o, e);

	if (store < 0)
		return store;
	s->fds[s->n] = fcntl(b->own, F_DUPFD_CLOEXEC, 3);
	if (s->fds[s->n++] < 0)
		return err_sys(e, "cannot open a layer");
	for (size_t k = i->layer_count; k-- > 0;) {
		char path[96];
		int fd;

		(void)snprintf(path, sizeof(path), "%.64s/tree", i->layers[k]);
		fd = fd_open_nolinks(store, path, O_RDONLY | O_DIRECTORY, FD_BENEATH);
		if (fd < 0)
			return err_errno(e, fd, "cannot open layer %.12s of the image",
					 i->layers[k]);
		s->fds[s->n++] = fd;
	}
	if (b->plan->read_only_root)
		return 0;
	s->upper = openat(b->beside, UPPER, FOLDER);
	s->work = openat(b->beside, WORK, FOLDER);
	return s->upper < 0 || s->work < 0 ? err_sys(e, "cannot open the writable layer") : 0;
}

static int stack_give(int fs, const struct image_stack *s)
{
	if (fsconfig(fs, FSCONFIG_SET_FLAG, "userxattr", NULL, 0) < 0)
		return -errno;
	for (size_t i = 0; i < s->n; i++)
		if (fsconfig(fs, FSCONFIG_SET_FD, "lowerdir+", NULL, s->fds[i]) < 0)
			return -errno;
	if (s->upper >= 0 && (fsconfig(fs, FSCONFIG_SET_FLAG, "volatile", NULL, 0) < 0 ||
			      fsconfig(fs, FSCONFIG_SET_FD, "upperdir", NULL, s->upper) < 0 ||
			      fsconfig(fs, FSCONFIG_SET_FD, "workdir", NULL, s->work) < 0))
		return -errno;
	return fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0 ? -errno : 0;
}

static int stack_by_descriptor(const struct builder *b, const struct image_stack *s)
{
	CLEANUP(fd) int fs = fsopen("overlay", FSOPEN_CLOEXEC);
	CLEANUP(fd) int tree = -1;

	if (fs < 0 || stack_give(fs, s) < 0)
		return -errno;
	tree = fsmount(fs, FSMOUNT_CLOEXEC, COMMON_ATTRS);
	if (tree < 0 || move_mount(tree, "", b->root, MERGED, MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return -errno;
	return 0;
}

/* On kernels that take no descriptors: by their names in /proc, never by a path. */
static int stack_by_name(const struct builder *b, const struct image_stack *s)
{
	char text[TEXT_MOST], at[FD_PATH_LEN + sizeof(MERGED)];
	size_t n = (size_t)snprintf(text, sizeof(text), "userxattr,%slowerdir",
				    s->upper >= 0 ? "volatile," : "");

	for (size_t i = 0; i < s->n && n < sizeof(text); i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%c/proc/self/fd/%d",
				      i ? ':' : '=', s->fds[i]);
	if (s->upper >= 0 && n < sizeof(text))
		n += (size_t)snprintf(text + n, sizeof(text) - n,
				      ",upperdir=/proc/self/fd/%d,workdir=/proc/self/fd/%d",
				      s->upper, s->work);
	if (n >= sizeof(text))
		return -E2BIG;
	(void)snprintf(at, sizeof(at), "/proc/self/fd/%d/" MERGED, b->root);
	return mount("overlay", at, "overlay", MS_NOSUID | MS_NODEV, text) < 0 ? -errno : 0;
}

/* ---- what is shown of it ---- */

/* brig's own as a whole, or only while the root is made. */
static bool image_is_own(const char *name)
{
	static const char *const own[] = { "dev", "proc", "sys", "tmp", "run", "code", "role" };

	for (size_t i = 0; i < ARRAY_LEN(own); i++)
		if (str_eq(name, own[i]))
			return true;
	return str_eq(name, MERGED) || str_eq(name, &PLAN_LAYER[1]) ||
	       str_eq(name, &PLAN_UPPER[1]) || str_starts(name, ".held") || str_eq(name, ".code");
}

static int show_link(const struct builder *b, int top, const char *name)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(top, name, target, sizeof(target) - 1);

	if (n < 0)
		return -errno;
	target[n] = '\0';
	return symlinkat(target, b->root, name) < 0 ? -errno : 0;
}

static int show_tree(const struct builder *b, int top, const char *name, bool folder)
{
	struct mount_attr a = { .attr_set = COMMON_ATTRS |
					    (b->plan->read_only_root ? MOUNT_ATTR_RDONLY : 0) };
	CLEANUP(fd)
	int tree = open_tree(top, name, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);

	if (tree < 0 || mount_setattr(tree, "", AT_EMPTY_PATH, &a, sizeof(a)) < 0 ||
	    (folder ? mkdirat(b->root, name, 0755) : mknodat(b->root, name, S_IFREG | 0644, 0)) < 0)
		return -errno;
	return move_mount(tree, "", b->root, name, MOVE_MOUNT_F_EMPTY_PATH) < 0 ? -errno : 0;
}

static int show_name(const struct builder *b, int top, const char *name)
{
	struct stat st;

	if (image_is_own(name))
		return 0;
	if (fstatat(top, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (S_ISLNK(st.st_mode))
		return show_link(b, top, name);
	if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
		return 0;
	return show_tree(b, top, name, S_ISDIR(st.st_mode));
}

static int show_top(const struct builder *b, struct err *e)
{
	CLEANUP(fd) int top = openat(b->root, MERGED, FOLDER);
	const struct fd_entry *en;
	struct folder d;
	size_t left = TOP_MOST;

	if (top < 0)
		return err_sys(e, "cannot open the image");
	folder_begin(&d, top);
	while ((en = folder_next(&d))) {
		int r = left-- ? show_name(b, top, en->name) : -E2BIG;

		if (r < 0)
			return err_errno(e, r, "cannot show '/%.100s' of the image", en->name);
	}
	return d.error ? err_errno(e, -d.error, "cannot look at the image") : 0;
}

static int image_stack_up(struct builder *b, const struct op *o, struct err *e)
{
	struct image_stack s = { .upper = -1, .work = -1 };
	int r = stack_open(b, o, &s, e);

	if (r == 0 && stack_by_descriptor(b, &s) < 0 && stack_by_name(b, &s) < 0) {
		(void)err_sys(e, "an overlay of the image's layers is not to be had here");
		e->kind = ERR_UNAVAILABLE;
		r = err_hint(e, "it needs overlayfs in user namespaces (Linux 5.11); "
				"--backend docker runs the image");
	}
	stack_close(&s);
	return r;
}

int image_mount(struct builder *b, const struct op *o, struct err *e)
{
	if (image_fill(b, e) < 0)
		return -e->code;
	if (mkdirat(b->root, MERGED, 0755) < 0)
		return err_sys(e, "cannot make a place for the image");
	if (image_stack_up(b, o, e) < 0 || show_top(b, e) < 0)
		return -e->code;
	if (umount2(MERGED, MNT_DETACH) < 0 || unlinkat(b->root, MERGED, AT_REMOVEDIR) < 0)
		return err_sys(e, "cannot take the image apart");
	return 0;
}

int image_private(struct builder *b, const struct op *o, struct err *e)
{
	CLEANUP(fd) int target = builder_inside(b, o->dst);
	CLEANUP(fd) int tree = -1;

	if (target < 0)
		return err_errno(e, target, "cannot open its place");
	tree = open_tree(b->own, o->dst + 1,
			 OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);
	if (tree < 0)
		return err_sys(e, "cannot copy a mount");
	return builder_attrs(tree, builder_attrs_of(o), e) < 0 ? -e->code
							       : builder_attach(tree, target, e);
}
