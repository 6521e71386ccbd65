/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/native/mount.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "backend/kit/process/late.h"
#include "backend/kit/survey/placeholder.h"
#include "backend/native/mount_classic.h"
#include "backend/native/overlay.h"
#include "model/settings/paths.h"

#define COMMON_ATTRS (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)
/* A device that is mounted read-only can be written to all the same; its node is the host's. */
#define DEVICE_ATTRS (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC)
#define MASK_ATTRS DEVICE_ATTRS
#define ROOT_OWN ((uint64_t)1 << 20) /* what brig itself puts there */
#define FD_PATH_LEN 32
#define CODE_NAME ".code"
#define HELD_ATTRS (MOUNT_ATTR_RDONLY | COMMON_ATTRS | MOUNT_ATTR_NOEXEC)

static const char *const held_names[] = { "/.held", "/.held.json" };

struct builder {
	const struct box_plan *plan;
	int prepared[PREPARED_MAX];
	int root;     /* the new root, O_PATH; also the current folder while it is built */
	bool classic; /* the kernel, or a filter around us, has no mount_setattr */

	/* The folder looked up last: neighbours in the plan share it. */
	int parent;
	const char *parent_path; /* of some operation; parent_len bytes of it */
	size_t parent_len;
	int null, empty; /* what masks are copies of: the null device, an empty folder */
	int held[ARRAY_LEN(
		held_names)];      /* what is seen of a name that is held, by placeholder_text */
	int awaiting[TRUST_FILES]; /* files whose text ends with what comes last */
	size_t awaiting_count;
	bool plain; /* trees of the fixed part are mounted that have no attributes yet */
	int layer;  /* where writable layers keep what is written; gone from the tree in the end */
};

static void fd_path(int fd, char out[FD_PATH_LEN])
{
	(void)snprintf(out, FD_PATH_LEN, "/proc/self/fd/%d", fd);
}

/* A bad descriptor is what a kernel that knows the call complains about. */
static bool lacks_new_calls(void)
{
	return mount_setattr(-1, "", AT_EMPTY_PATH, NULL, 0) < 0 &&
	       (errno == ENOSYS || errno == EPERM);
}

static const char *last_part(const char *path)
{
	return strrchr(path, '/') + 1;
}

/* The folder an object of the new root is made in; borrowed from the builder. */
static int open_parent(struct builder *b, const char *dst)
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
static void forget_parent(struct builder *b, const char *dst)
{
	size_t n = strlen(dst);

	if (b->parent_len >= n && memcmp(b->parent_path, dst, n) == 0)
		b->parent_len = 0;
}

static int open_inside(struct builder *b, const char *dst)
{
	return fd_open_nolinks(b->root, dst, O_PATH, FD_IN_ROOT);
}

/* Makes dst, a folder or an empty file, unless something is there already: then *made is false.
 * Returns the folder above, which is the builder's, or -errno. */
static int make_point(struct builder *b, const char *dst, bool folder, mode_t mode, bool *made)
{
	int parent = open_parent(b, dst);

	if (parent < 0)
		return parent;
	*made = (folder ? mkdirat(parent, last_part(dst), mode)
			: mknodat(parent, last_part(dst), S_IFREG | mode, 0)) == 0;
	return *made || errno == EEXIST || errno == EROFS ? parent : -errno;
}

/* The same; returns a descriptor on dst, or -errno. */
static int make_target(struct builder *b, const char *dst, bool folder, mode_t mode)
{
	bool made;
	int parent = make_point(b, dst, folder, mode, &made);

	return parent < 0 ? parent : fd_open_nolinks(parent, last_part(dst), O_PATH, FD_BENEATH);
}

static int set_attrs(int tree, uint64_t attrs, struct err *e)
{
	struct mount_attr a = { .attr_set = attrs };

	if (mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &a, sizeof(a)) < 0)
		return err_sys(e, "cannot set mount attributes");
	return 0;
}

static int mount_attach(int tree, int target, struct err *e)
{
	if (move_mount(tree, "", target, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
		return err_sys(e, "cannot attach a mount");
	return 0;
}

/* Attaches a tree at dst, which is made for it. What was made a moment ago is no link and needs no
 * second look. */
static int attach_new(struct builder *b, int tree, const char *dst, bool folder, mode_t mode,
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
	return mount_attach(tree, target, e);
}

/* The tree at `from` once more at `to`, with more attributes. In classic mode the attributes follow
 * in the second pass. */
static int bind_fd(struct builder *b, int from, int to, uint64_t attrs, struct err *e)
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
	if (set_attrs(tree, attrs, e) < 0)
		return -e->code;
	return mount_attach(tree, to, e);
}

static uint64_t bind_attrs(const struct op *o)
{
	return COMMON_ATTRS | (o->writable ? 0 : MOUNT_ATTR_RDONLY) |
	       (o->noexec ? MOUNT_ATTR_NOEXEC : 0);
}

/* The folder that dst is made in, and its name there. */
static int mount_place_of(struct builder *b, const struct op *o, const char **name)
{
	*name = o->fixed ? o->dst + 1 : last_part(o->dst);
	return o->fixed ? b->root : open_parent(b, o->dst);
}

/* Of something mounted at a fixed place. Nobody is there yet to see it without them. */
static int set_attrs_at(const struct builder *b, const char *at, uint64_t attrs, struct err *e)
{
	struct mount_attr a = { .attr_set = attrs };

	if (!b->classic &&
	    mount_setattr(b->root, at, AT_RECURSIVE | AT_SYMLINK_NOFOLLOW, &a, sizeof(a)) < 0)
		return err_sys(e, "cannot set mount attributes");
	return 0;
}

static int do_dir(struct builder *b, const struct op *o, struct err *e)
{
	const char *name;
	int parent = mount_place_of(b, o, &name);

	if (parent < 0)
		return err_errno(e, parent, "cannot open the folder above");
	if (mkdirat(parent, name, o->mode) < 0 && errno != EEXIST)
		return err_sys(e, "cannot make the folder");
	return 0;
}

static int do_file(struct builder *b, const struct op *o, struct err *e)
{
	const char *name;
	int parent = mount_place_of(b, o, &name);
	CLEANUP(fd) int fd = -1;
	int r;

	if (parent < 0)
		return err_errno(e, parent, "cannot open the folder above");
	fd = openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, o->mode);
	if (fd < 0)
		return err_sys(e, "cannot make the file");
	r = fd_write_all(fd, o->data, op_size(o));
	if (o->awaits && b->awaiting_count < TRUST_FILES)
		b->awaiting[b->awaiting_count++] = TAKE_FD(fd);
	return r < 0 ? err_errno(e, r, "cannot write the file") : 0;
}

static int do_symlink(struct builder *b, const struct op *o, struct err *e)
{
	const char *name;
	int parent = mount_place_of(b, o, &name);

	if (parent < 0)
		return err_errno(e, parent, "cannot open the folder above");
	if (symlinkat(o->data, parent, name) < 0)
		return err_sys(e, "cannot make the link");
	return 0;
}

/* Mounted on itself, so that it stays writable when the root around it is sealed. */
static int do_private(struct builder *b, const struct op *o, struct err *e)
{
	CLEANUP(fd) int target = -1;
	const char *at = o->dst + 1;

	if (!o->fixed) {
		target = make_target(b, o->dst, true, o->mode);
		if (target < 0)
			return err_errno(e, target, "cannot make the folder");
		return bind_fd(b, target, target, bind_attrs(o), e);
	}
	if (mkdirat(b->root, at, o->mode) < 0)
		return err_sys(e, "cannot make the folder");
	if (mount(at, at, NULL, MS_BIND, NULL) < 0)
		return err_sys(e, "cannot mount it on itself");
	/* The root around it has the common ones. */
	return bind_attrs(o) == COMMON_ATTRS ? 0 : set_attrs_at(b, at, bind_attrs(o), e);
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
	target = make_target(b, o->dst, folder, mode);
	if (target < 0)
		return err_errno(e, target, "cannot make the mount point");
	return bind_fd(b, from, target, 0, e);
}

/* Many trees get the same ones, in one call for all that is mounted so far; the root, whose mount
 * is the first of them, stays writable while it is built. */
static int set_plain(struct builder *b, struct err *e)
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

	if (!plain && set_plain(b, e) < 0)
		return -e->code;
	if ((folder ? mkdirat(b->root, at, mode) : mknodat(b->root, at, S_IFREG | mode, 0)) < 0)
		return err_sys(e, "cannot make the mount point");
	if (mount(o->src, at, NULL, MS_BIND | MS_REC, NULL) < 0)
		return source_error(o, e);
	if (mount_compare(b->root, at, o, e) < 0)
		return -e->code;
	b->plain |= plain;
	return plain ? 0 : set_attrs_at(b, at, attrs, e);
}

/* It is the copy that is compared: by whatever way the name led there, nothing else gets in. */
static int bind_source(struct builder *b, const struct op *o, bool folder, mode_t mode,
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
	if (mount_compare(tree, "", o, e) < 0 || set_attrs(tree, attrs, e) < 0)
		return -e->code;
	return attach_new(b, tree, o->dst, folder, mode, e);
}

static int do_bind(struct builder *b, const struct op *o, struct err *e)
{
	return bind_source(b, o, S_ISDIR(o->ident.type), 0755, bind_attrs(o), e);
}

static int do_bind_prepared(struct builder *b, const struct op *o, struct err *e)
{
	CLEANUP(fd) int tree = TAKE_FD(b->prepared[o->fd_slot]);

	if (set_attrs(tree, bind_attrs(o), e) < 0)
		return -e->code;
	return attach_new(b, tree, o->dst, S_ISDIR(o->ident.type), 0755, e);
}

static int do_device(struct builder *b, const struct op *o, struct err *e)
{
	return bind_source(b, o, false, 0666, DEVICE_ATTRS, e);
}

/* A convenience: a server inside may listen on port 80. Where it cannot be written it is not there.
 * In the new procfs, because in the machine's own every sandbox that lives has an entry of the same
 * name, and a look-up passes by all of them. */
static void open_ports(const struct builder *b)
{
	if (b->plan->network != NETWORK_HOST)
		(void)fd_write_file(b->root, "proc/sys/net/ipv4/ip_unprivileged_port_start", "0");
}

/* Writable until mount_lock has mapped its ids there. */
static int do_proc(struct builder *b, const struct op *o, struct err *e)
{
	const char *at = o->dst + 1;

	if (mount("proc", at, "proc", PROC_FLAGS, "hidepid=2") == 0) {
		open_ports(b);
		return 0;
	}
	(void)err_sys(e, "cannot mount proc");
	if (e->code != EPERM && e->code != EBUSY)
		return -e->code;
	e->kind = ERR_UNAVAILABLE;
	return err_hint(e,
			"inside a container: start it with --security-opt systempaths=unconfined");
}

static int do_devpts(const struct op *o, struct err *e)
{
	if (mount("devpts", o->dst + 1, "devpts", MS_NOSUID | MS_NOEXEC,
		  "ptmxmode=0666,mode=0620,max=256") < 0)
		return err_sys(e, "cannot mount devpts");
	return 0;
}

/* What covers a masked file or folder: a copy, read-only, of the sandbox's own null device or of
 * its empty /run. */
static int mask_tree(struct builder *b, bool folder, struct err *e)
{
	int *from = folder ? &b->empty : &b->null;
	CLEANUP(fd) int tree = -1;

	if (*from < 0)
		*from = open_inside(b, folder ? "/run" : "/dev/null");
	if (*from < 0)
		return err_errno(e, *from, "nothing to cover it with");
	tree = open_tree(*from, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (tree < 0)
		return err_sys(e, "cannot copy a mount");
	if (set_attrs(tree, MASK_ATTRS, e) < 0)
		return -e->code;
	return TAKE_FD(tree);
}

/* Over an entry of the new procfs: the parent has seen what it is, and no name there is anybody's
 * to change. */
static int mask_proc(const struct builder *b, const struct op *o, struct err *e)
{
	bool folder = S_ISDIR(o->ident.type);
	const char *cover = folder ? "run" : "dev/null", *at = o->dst + 1;

	if (mount(cover, at, NULL, MS_BIND, NULL) == 0)
		return folder ? set_attrs_at(b, at, MASK_ATTRS, e) : 0; /* the device has them */
	/* What is closed to this process, which has all capabilities here, is closed to the
	 * command. */
	if ((errno == ENOENT || errno == EACCES) && faccessat(b->root, cover, F_OK, 0) == 0)
		return 0;
	return err_sys(e, "cannot cover it");
}

/* A file of the machine's root that its mode keeps from everybody else: nobody inside is that root,
 * and no capability inside counts for a file whose owner is not mapped. */
static bool closed_anyway(const struct stat *st)
{
	return S_ISREG(st->st_mode) && !(st->st_mode & 0077) && st->st_uid != geteuid();
}

/* The null device over a file, an empty folder of the new root over a folder. Absent: nothing to
 * do. */
static int do_mask(struct builder *b, const struct op *o, struct err *e)
{
	CLEANUP(fd) int target = -1;
	CLEANUP(fd) int from = -1;
	CLEANUP(fd) int tree = -1;
	struct stat st;

	if (o->fixed)
		return mask_proc(b, o, e);
	target = open_inside(b, o->dst);
	/* As in mask_proc: what is closed to this process is closed to the command. */
	if (target == -ENOENT || target == -EACCES)
		return 0;
	if (target < 0 || fstat(target, &st) < 0)
		return err_errno(e, target < 0 ? -target : errno, "cannot look at it");
	if (o->kind == OP_MASK && closed_anyway(&st))
		return 0;
	if (b->classic) {
		from = open_inside(b, S_ISDIR(st.st_mode) ? "/run" : "/dev/null");
		return from < 0 ? err_errno(e, from, "nothing to cover it with")
				: bind_fd(b, from, target, 0, e);
	}
	tree = mask_tree(b, S_ISDIR(st.st_mode), e);
	return tree < 0 ? -e->code : mount_attach(tree, target, e);
}

static int do_show(struct builder *b, const struct op *o, struct err *e)
{
	CLEANUP(fd) int from = open_inside(b, o->src), target = open_inside(b, o->dst);

	if (from < 0 || target < 0)
		return err_errno(e, from < 0 ? -from : -target, "cannot open it");
	return bind_fd(b, from, target, bind_attrs(o), e);
}

/* A file of the new root, made once for all names; its own goes in the end. */
static int held_file(struct builder *b, bool json, struct err *e)
{
	const char *text = placeholder_text(held_names[json]);
	CLEANUP(fd) int fd = -1;
	int r;

	if (b->held[json] >= 0)
		return b->held[json];
	fd = openat(b->root, &held_names[json][1], O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
	r = fd < 0 ? -errno : fd_write_all(fd, text, strlen(text));
	if (r < 0)
		return err_errno(e, r, "cannot make what covers it");
	b->held[json] = open_inside(b, held_names[json]);
	return b->held[json] < 0 ? err_errno(e, b->held[json], "cannot open what covers it")
				 : b->held[json];
}

static int drop_held(const struct builder *b, struct err *e)
{
	for (size_t i = 0; i < ARRAY_LEN(held_names); i++)
		if (b->held[i] >= 0 && unlinkat(b->root, &held_names[i][1], 0) < 0)
			return err_sys(e, "cannot remove a name");
	return 0;
}

/* A name that is missing is held by the node of a socket, which nobody can open. */
static int do_again(struct builder *b, const struct op *o, struct err *e)
{
	CLEANUP(fd) int at = open_inside(b, o->dst);
	int from;

	/* As in do_mask: another user's private folder is closed to the command, too. */
	if (at == -EACCES)
		return 0;
	if (at < 0)
		return err_errno(e, at, "cannot open it");
	if (o->writable || !placeholder_reads(at))
		return bind_fd(b, at, at, bind_attrs(o), e);
	from = held_file(b, *placeholder_text(o->dst), e);
	return from < 0 ? from : bind_fd(b, from, at, HELD_ATTRS, e);
}

static int make_layer(const struct builder *b, struct err *e)
{
	char text[64];

	(void)snprintf(text, sizeof(text), "size=%llu,mode=755",
		       (unsigned long long)b->plan->limits.tmp);
	if (mkdirat(b->root, &PLAN_LAYER[1], 0700) < 0)
		return err_sys(e, "cannot make a folder for the writable layer");
	if (mount("tmpfs", &PLAN_LAYER[1], "tmpfs", MS_NOSUID | MS_NODEV, text) < 0)
		return err_sys(e, "cannot mount the writable layer");
	return 0;
}

static int open_layer(struct builder *b, struct err *e)
{
	if (!b->plan->stored_layer && make_layer(b, e) < 0)
		return -e->code;
	b->layer = open_inside(b, PLAN_LAYER);
	return b->layer < 0 ? err_errno(e, b->layer, "cannot open the layer") : 0;
}

static int do_overlay(struct builder *b, const struct op *o, struct err *e)
{
	CLEANUP(fd) int target = open_inside(b, o->dst);
	struct mount_attr clear = { .attr_clr = MOUNT_ATTR_RDONLY };

	if (target < 0)
		return err_errno(e, target, "cannot open it");
	if (b->layer < 0 && open_layer(b, e) < 0)
		return -e->code;
	/* One that is bound may have been taken for a plain tree meanwhile. */
	if (b->plan->stored_layer && !b->classic &&
	    mount_setattr(b->layer, "", AT_EMPTY_PATH, &clear, sizeof(clear)) < 0)
		return err_sys(e, "cannot set mount attributes");
	return overlay_mount(target, b->layer, last_part(o->dst), e);
}

/* The mounts made of it hold it; nobody else needs a way in. */
static void close_layer(struct builder *b)
{
	char path[FD_PATH_LEN];

	if (b->layer < 0)
		return;
	fd_path(b->layer, path);
	(void)umount2(path, MNT_DETACH);
	b->layer = fd_close(b->layer);
	(void)unlinkat(b->root, &PLAN_LAYER[1], AT_REMOVEDIR);
}

/* A file of the new root, shown at its place alone: its own name goes. */
static int do_code(struct builder *b, const struct op *o, struct err *e)
{
	CLEANUP(fd)
	int out = openat(b->root, CODE_NAME, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
			 0444);
	CLEANUP(fd) int from = -1;
	CLEANUP(fd) int target = -1;
	int r;

	if (out < 0)
		return err_sys(e, "cannot make the file");
	r = fd_write_all(out, o->data, o->size);
	if (r < 0)
		return err_errno(e, r, "cannot write the code");
	from = open_inside(b, "/" CODE_NAME);
	target = make_target(b, o->dst, false, 0444);
	if (from < 0 || target < 0)
		return err_errno(e, from < 0 ? -from : -target, "cannot make its place");
	if (bind_fd(b, from, target, bind_attrs(o), e) < 0)
		return -e->code;
	return unlinkat(b->root, CODE_NAME, 0) < 0 ? err_sys(e, "cannot remove its name") : 0;
}

/* Does it add a mount that is not to have the attributes of plain trees? */
static bool is_special(const struct op *o)
{
	return o->kind != OP_DIR && o->kind != OP_FILE && o->kind != OP_SYMLINK &&
	       !(o->kind == OP_BIND && o->fixed);
}

static int do_it(struct builder *b, const struct op *o, struct err *e)
{
	if (is_special(o) && set_plain(b, e) < 0)
		return -e->code;
	switch (o->kind) {
	case OP_DIR:
		return do_dir(b, o, e);
	case OP_FILE:
		return do_file(b, o, e);
	case OP_SYMLINK:
		return do_symlink(b, o, e);
	case OP_PRIVATE:
		return do_private(b, o, e);
	case OP_BIND:
		return do_bind(b, o, e);
	case OP_BIND_FD:
		return do_bind_prepared(b, o, e);
	case OP_DEVICE:
		return do_device(b, o, e);
	case OP_PROC:
		return do_proc(b, o, e);
	case OP_DEVPTS:
		return do_devpts(o, e);
	case OP_MASK:
	case OP_HIDE:
		return do_mask(b, o, e);
	case OP_COVER:
		return do_again(b, o, e);
	case OP_OVERLAY:
		return do_overlay(b, o, e);
	case OP_SHOW:
		return do_show(b, o, e);
	case OP_CODE:
		return do_code(b, o, e);
	case OP_KINDS:
		break;
	}
	return err_set(e, ERR_INTERNAL, EINVAL, "unknown operation");
}

static int do_op(struct builder *b, const struct op *o, struct err *e)
{
	struct op moved;

	if (!o->at)
		return do_it(b, o, e);
	moved = *o;
	moved.dst = o->at;
	return do_it(b, &moved, e);
}

/* An empty tmpfs on top of "/": this process keeps looking names up below it until it pivots. */
static int make_root(struct builder *b, struct err *e)
{
	unsigned long long tmp = b->plan->limits.tmp, code = b->plan->code_size;
	char text[96];

	/* Empty files cost memory too: one for every page of the size, and some. */
	(void)snprintf(text, sizeof(text), "size=%llu,nr_inodes=%llu,mode=755",
		       tmp + ROOT_OWN + code, tmp / 4096 + 4096);
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return err_sys(e, "cannot make the mounts private");
	if (mount("tmpfs", "/", "tmpfs", MS_NOSUID | MS_NODEV, text) < 0)
		return err_sys(e, "cannot mount the new root");
	/* ".." of the root crosses into what is mounted on top of it. */
	b->root = open("/..", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (b->root < 0)
		return err_sys(e, "cannot open the new root");
	if (b->plan->links_etc && mkdirat(b->root, ".etc", 0755) < 0)
		return err_sys(e, "cannot make '/.etc'");
	return fchdir(b->root) < 0 ? err_sys(e, "cannot enter the new root") : 0;
}

static int enter_root(struct err *e)
{
	if (syscall(SYS_pivot_root, ".", ".") < 0)
		return err_sys(e, "cannot make it the root");
	if (umount2(".", MNT_DETACH) < 0)
		return err_sys(e, "cannot let go of the old root");
	return chdir("/") < 0 ? err_sys(e, "cannot enter '/'") : 0;
}

static int seal_root(struct builder *b, struct err *e)
{
	struct mount_attr a = { .attr_set = MOUNT_ATTR_RDONLY };

	if (!b->plan->read_only_root)
		return 0;
	if (b->classic) {
		if (mount(NULL, "/", NULL, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV,
			  NULL) < 0)
			return err_sys(e, "cannot make the root read-only");
		return 0;
	}
	if (mount_setattr(AT_FDCWD, "/", 0, &a, sizeof(a)) < 0)
		return err_sys(e, "cannot make the root read-only");
	return 0;
}

/* A file whose text the monitor has looked at meanwhile. */
static int do_told_file(struct builder *b, const struct box_start *c, const struct op *o,
			struct told_texts *t, struct err *e)
{
	struct op told = *o;

	if (o->at)
		told.dst = o->at;
	return box_text(c, t, &told.data, e) < 0 ? -e->code : do_file(b, &told, e);
}

/* A plain tree behind a writable layer has made it read-only with all the others. */
static int open_layers(struct builder *b, struct err *e)
{
	struct mount_attr clear = { .attr_clr = MOUNT_ATTR_RDONLY };

	for (size_t i = 0; !b->classic && i < b->plan->op_count; i++) {
		CLEANUP(fd) int at = -1;

		if (b->plan->ops[i].kind != OP_OVERLAY)
			continue;
		at = open_inside(b, b->plan->ops[i].dst);
		if (at < 0 || mount_setattr(at, "", AT_EMPTY_PATH, &clear, sizeof(clear)) < 0)
			return err_sys(e, "cannot set mount attributes");
	}
	return 0;
}

static int do_all(struct builder *b, const struct box_start *c, struct err *e)
{
	const struct box_plan *p = c->plan;
	struct told_texts texts;

	texts.at = texts.n = 0;
	for (size_t i = 0; i < p->op_count; i++) {
		const struct op *o = &p->ops[i];

		if ((i == c->looked_from && box_held(c, LATE_LOOKED, e) < 0) ||
		    (i == c->trees_from && box_trees(c, b->prepared, e) < 0) ||
		    (i == c->held_from && box_held(c, LATE_HELD, e) < 0))
			return -e->code;
		if (box_waits_for_text(c, i) ? do_told_file(b, c, o, &texts, e) < 0
					     : !o->skip && do_op(b, o, e) < 0)
			return err_wrap(e, "mount '%s'", o->dst);
		if (o->kind != OP_DIR && o->kind != OP_FILE)
			forget_parent(b, o->at ? o->at : o->dst);
	}
	return set_plain(b, e) < 0 ? -e->code : open_layers(b, e);
}

static int do_added(struct builder *b, const struct box_start *c, struct err *e)
{
	struct op_added room;
	struct op o;
	int r;

	room.number = 0;
	while ((r = box_added(c, &room, &o, e)) > 0) {
		if (do_op(b, &o, e) < 0)
			return err_wrap(e, "mount '%s'", o.dst);
		b->parent_len = 0; /* its path is gone with the next one */
	}
	return r;
}

/* Closed in any case: with one open for writing the root cannot be made read-only. */
static int end_files(struct builder *b, const struct box_start *c, struct err *e)
{
	int r = box_trust(c, b->awaiting, b->awaiting_count, e);

	while (b->awaiting_count)
		(void)fd_close(b->awaiting[--b->awaiting_count]);
	return r;
}

bool mount_can_wait(void)
{
	return !lacks_new_calls();
}

int mount_plan(const struct box_start *c, struct err *e)
{
	const struct box_plan *p = c->plan;
	struct builder b = { .plan = p,
			     .root = -1,
			     .parent = -1,
			     .null = -1,
			     .empty = -1,
			     .held = { -1, -1 },
			     .layer = -1 };
	mode_t mask = umask(0);
	int r;

	memcpy(b.prepared, c->prepared, sizeof(b.prepared));
	b.classic = lacks_new_calls();
	if (make_root(&b, e) < 0)
		return -e->code;
	r = do_all(&b, c, e);
	close_layer(&b);
	/* What is added is waited for last: names are held and looked for meanwhile. */
	if (r == 0 && (enter_root(e) < 0 || (b.classic && mount_attributes(p, e) < 0) ||
		       do_added(&b, c, e) < 0 || end_files(&b, c, e) < 0 || drop_held(&b, e) < 0 ||
		       seal_root(&b, e) < 0))
		r = -e->code;
	for (size_t i = 0; i < PREPARED_MAX; i++)
		(void)fd_close(b.prepared[i]);
	(void)fd_close(b.parent);
	(void)fd_close(b.null);
	(void)fd_close(b.empty);
	(void)fd_close(b.held[0]);
	(void)fd_close(b.held[1]);
	(void)fd_close(b.root);
	(void)umask(mask);
	return r;
}

/* Read-only as a whole, for no file in it is the command's to change: its place among the first to
 * be killed when memory runs out is not, nor a namespace's limits. The one of the first namespace,
 * in which nobody is by then, stays as it is. */
int mount_lock(int *procs, struct err *e)
{
	bool entered;

	*procs = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (*procs < 0)
		return err_sys(e, "cannot open '/proc'");
	if (inside_lock(*procs, &entered, e) < 0)
		return -e->code;
	if (mount(NULL, "/proc", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | PROC_FLAGS, NULL) < 0)
		return err_sys(e, "cannot make proc read-only");
	return 0;
}
