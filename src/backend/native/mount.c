/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/native/mount.h"

#include <fcntl.h>
#include <sys/syscall.h>

#include "backend/kit/process/late.h"
#include "backend/native/image_mount.h"
#include "backend/native/mount_builder.h"
#include "backend/native/mount_classic.h"

#define ROOT_OWN ((uint64_t)1 << 20) /* what brig itself puts there */

/* A bad descriptor is what a kernel that knows the call complains about. */
static bool lacks_new_calls(void)
{
	return mount_setattr(-1, "", AT_EMPTY_PATH, NULL, 0) < 0 &&
	       (errno == ENOSYS || errno == EPERM);
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
	if (b->plan->image && image_own(b, e) < 0)
		return -e->code;
	if (b->plan->links_etc && mkdirat(b->root, ".etc", 0755) < 0)
		return err_sys(e, "cannot make '/.etc'");
	return fchdir(b->root) < 0 ? err_sys(e, "cannot enter the new root") : 0;
}

static int enter_root(const struct builder *b, struct err *e)
{
	if (syscall(SYS_pivot_root, ".", ".") < 0)
		return err_sys(e, "cannot make it the root");
	/* With an image the tmpfs beside the root is on top of the old one. */
	if (umount2(".", MNT_DETACH) < 0 || (b->beside >= 0 && umount2(".", MNT_DETACH) < 0))
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

	return box_text(c, t, &told.data, e) < 0 ? -e->code : mount_op(b, &told, e);
}

/* A plain tree behind a writable layer has made it read-only with all the others. */
static int open_layers(struct builder *b, struct err *e)
{
	struct mount_attr clear = { .attr_clr = MOUNT_ATTR_RDONLY };

	for (size_t i = 0; !b->classic && i < b->plan->op_count; i++) {
		CLEANUP(fd) int at = -1;

		if (b->plan->ops[i].kind != OP_OVERLAY)
			continue;
		at = builder_inside(b, b->plan->ops[i].dst);
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
					     : !o->skip && mount_op(b, o, e) < 0)
			return err_wrap(e, "mount '%s'", o->dst);
		if (o->kind != OP_DIR && o->kind != OP_FILE)
			builder_forget(b, o->at ? o->at : o->dst);
	}
	return builder_set_plain(b, e) < 0 ? -e->code : open_layers(b, e);
}

static int do_added(struct builder *b, const struct box_start *c, struct err *e)
{
	struct op_added room;
	struct op o;
	int r;

	room.number = 0;
	while ((r = box_added(c, &room, &o, e)) > 0) {
		if (mount_op(b, &o, e) < 0)
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
			     .beside = -1,
			     .own = -1,
			     .layer = -1 };
	mode_t mask = umask(0);
	int r;

	memcpy(b.prepared, c->prepared, sizeof(b.prepared));
	b.classic = lacks_new_calls();
	if (make_root(&b, e) < 0)
		return -e->code;
	r = do_all(&b, c, e);
	mount_close_layer(&b);
	/* What is added is waited for last: names are held and looked for meanwhile. */
	if (r == 0 && (enter_root(&b, e) < 0 || (b.classic && mount_attributes(p, e) < 0) ||
		       do_added(&b, c, e) < 0 || end_files(&b, c, e) < 0 ||
		       mount_drop_held(&b, e) < 0 || seal_root(&b, e) < 0))
		r = -e->code;
	for (size_t i = 0; i < PREPARED_MAX; i++)
		(void)fd_close(b.prepared[i]);
	(void)fd_close(b.parent);
	(void)fd_close(b.null);
	(void)fd_close(b.empty);
	(void)fd_close(b.held[0]);
	(void)fd_close(b.held[1]);
	(void)fd_close(b.own);
	(void)fd_close(b.beside);
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
