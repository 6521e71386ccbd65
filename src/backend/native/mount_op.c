/* SPDX-License-Identifier: Apache-2.0 */
/* backend/native/mount_op.c - each kind of operation of a plan, carried out in the new root. */
#include <assert.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

#include "backend/kit/survey/placeholder.h"
#include "backend/kit/process/layer_mount.h"
#include "backend/native/image_mount.h"
#include "backend/native/mount_builder.h"
#include "backend/native/mount_classic.h"
#include "backend/native/overlay.h"
#include "base/files/fd.h"

/* A device that is mounted read-only can be written to all the same; its node is the host's. */
#define DEVICE_ATTRS (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC)
#define MASK_ATTRS DEVICE_ATTRS
#define CODE_NAME ".code"
#define HELD_ATTRS (MOUNT_ATTR_RDONLY | COMMON_ATTRS | MOUNT_ATTR_NOEXEC)

static const char *const held_names[] = { "/.held", "/.held.json" };
static_assert(ARRAY_LEN(held_names) == HELD_NAMES, "a place for each");

static int do_dir(struct builder *b, const struct op *o, struct err *e)
{
	const char *name;
	int parent = builder_place_of(b, o, &name);

	if (parent < 0)
		return err_errno(e, parent, "cannot open the folder above");
	if (mkdirat(parent, name, o->mode) < 0 && errno != EEXIST)
		return err_sys(e, "cannot make the folder");
	return 0;
}

static int do_file(struct builder *b, const struct op *o, struct err *e)
{
	const char *name;
	int parent = builder_place_of(b, o, &name);
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
	int parent = builder_place_of(b, o, &name);

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
		target = builder_target(b, o->dst, true, o->mode);
		if (target < 0)
			return err_errno(e, target, "cannot make the folder");
		return builder_bind(b, target, target, builder_attrs_of(o), e);
	}
	if (mkdirat(b->root, at, o->mode) < 0)
		return err_sys(e, "cannot make the folder");
	if (mount(at, at, NULL, MS_BIND, NULL) < 0)
		return err_sys(e, "cannot mount it on itself");
	/* The root around it has the common ones. */
	return builder_attrs_of(o) == COMMON_ATTRS
		       ? 0
		       : builder_attrs_at(b, at, builder_attrs_of(o), e);
}

static int do_bind(struct builder *b, const struct op *o, struct err *e)
{
	return builder_bind_source(b, o, S_ISDIR(o->ident.type), 0755, builder_attrs_of(o), e);
}

static int do_bind_prepared(struct builder *b, const struct op *o, struct err *e)
{
	CLEANUP(fd) int tree = TAKE_FD(b->prepared[o->fd_slot]);

	if (builder_attrs(tree, builder_attrs_of(o), e) < 0)
		return -e->code;
	return builder_attach_new(b, tree, o->dst, S_ISDIR(o->ident.type), 0755, e);
}

static int do_device(struct builder *b, const struct op *o, struct err *e)
{
	return builder_bind_source(b, o, false, 0666, DEVICE_ATTRS, e);
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
		*from = builder_inside(b, folder ? "/run" : "/dev/null");
	if (*from < 0)
		return err_errno(e, *from, "nothing to cover it with");
	tree = open_tree(*from, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (tree < 0)
		return err_sys(e, "cannot copy a mount");
	if (builder_attrs(tree, MASK_ATTRS, e) < 0)
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
		return folder ? builder_attrs_at(b, at, MASK_ATTRS, e)
			      : 0; /* the device has them */
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
	target = builder_inside(b, o->dst);
	/* As in mask_proc: what is closed to this process is closed to the command. */
	if (target == -ENOENT || target == -EACCES)
		return 0;
	if (target < 0 || fstat(target, &st) < 0)
		return err_errno(e, target < 0 ? -target : errno, "cannot look at it");
	if (o->kind == OP_MASK && closed_anyway(&st))
		return 0;
	if (b->classic) {
		from = builder_inside(b, S_ISDIR(st.st_mode) ? "/run" : "/dev/null");
		return from < 0 ? err_errno(e, from, "nothing to cover it with")
				: builder_bind(b, from, target, 0, e);
	}
	tree = mask_tree(b, S_ISDIR(st.st_mode), e);
	return tree < 0 ? -e->code : builder_attach(tree, target, e);
}

static int do_show(struct builder *b, const struct op *o, struct err *e)
{
	CLEANUP(fd) int from = builder_inside(b, o->src), target = builder_inside(b, o->dst);

	if (from < 0 || target < 0)
		return err_errno(e, from < 0 ? -from : -target, "cannot open it");
	return builder_bind(b, from, target, builder_attrs_of(o), e);
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
	b->held[json] = builder_inside(b, held_names[json]);
	return b->held[json] < 0 ? err_errno(e, b->held[json], "cannot open what covers it")
				 : b->held[json];
}

int mount_drop_held(const struct builder *b, struct err *e)
{
	for (size_t i = 0; i < ARRAY_LEN(held_names); i++)
		if (b->held[i] >= 0 && unlinkat(b->root, &held_names[i][1], 0) < 0)
			return err_sys(e, "cannot remove a name");
	return 0;
}

/* A name that is missing is held by the node of a socket, which nobody can open. */
static int do_again(struct builder *b, const struct op *o, struct err *e)
{
	CLEANUP(fd) int at = builder_inside(b, o->dst);
	int from;

	/* As in do_mask: another user's private folder is closed to the command, too. */
	if (at == -EACCES)
		return 0;
	if (at < 0)
		return err_errno(e, at, "cannot open it");
	if (o->writable || !placeholder_reads(at))
		return builder_bind(b, at, at, builder_attrs_of(o), e);
	from = held_file(b, *placeholder_text(o->dst), e);
	return from < 0 ? from : builder_bind(b, from, at, HELD_ATTRS, e);
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
	b->layer = builder_inside(b, PLAN_LAYER);
	return b->layer < 0 ? err_errno(e, b->layer, "cannot open the layer") : 0;
}

static int do_overlay(struct builder *b, const struct op *o, struct err *e)
{
	CLEANUP(fd) int target = builder_inside(b, o->dst);
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

/* The overlay has a hold of its own on the two: neither has a path in the end. */
static int do_layer(struct builder *b, const struct op *o, struct err *e)
{
	CLEANUP(fd) int target = builder_inside(b, o->dst);
	CLEANUP(fd) int layer = builder_inside(b, PLAN_UPPER);
	char path[FD_PATH_LEN];

	if (target < 0 || layer < 0)
		return err_errno(e, target < 0 ? target : layer, "cannot open the layer");
	if (layer_mount(target, layer, e) < 0)
		return -e->code;
	fd_path(layer, path);
	if (umount2(path, MNT_DETACH) < 0 || unlinkat(b->root, &PLAN_UPPER[1], AT_REMOVEDIR) < 0)
		return err_sys(e, "cannot take the layer away");
	builder_forget(b, PLAN_UPPER);
	return 0;
}

/* The mounts made of it hold it; nobody else needs a way in. */
void mount_close_layer(struct builder *b)
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
	from = builder_inside(b, "/" CODE_NAME);
	target = builder_target(b, o->dst, false, 0444);
	if (from < 0 || target < 0)
		return err_errno(e, from < 0 ? -from : -target, "cannot make its place");
	if (builder_bind(b, from, target, builder_attrs_of(o), e) < 0)
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
	/* It is there already, in the layer above the image's. */
	if (o->imaged && (o->kind == OP_DIR || o->kind == OP_FILE || o->kind == OP_SYMLINK))
		return 0;
	if (o->imaged && o->kind == OP_PRIVATE)
		return builder_set_plain(b, e) < 0 ? -e->code : image_private(b, o, e);
	if (is_special(o) && builder_set_plain(b, e) < 0)
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
	case OP_LAYER:
		return do_layer(b, o, e);
	case OP_IMAGE:
		return image_mount(b, o, e);
	case OP_SHOW:
		return do_show(b, o, e);
	case OP_CODE:
		return do_code(b, o, e);
	case OP_KINDS:
		break;
	}
	return err_set(e, ERR_INTERNAL, EINVAL, "unknown operation");
}

int mount_op(struct builder *b, const struct op *o, struct err *e)
{
	struct op moved;

	if (!o->at)
		return do_it(b, o, e);
	moved = *o;
	moved.dst = o->at;
	return do_it(b, &moved, e);
}
