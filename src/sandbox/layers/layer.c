/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/layers/layer.h"

#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "base/files/state.h"
#include "base/files/tree.h"
#include "base/text/str.h"
#include "sandbox/layers/layer_internal.h"

#define CLOCK_LESS_S 2 /* where the file system gives no time of its own */
#define PROBE "user.brig.probe"
#define BOOT_ID "/proc/sys/kernel/random/boot_id"
#define REST_MS 1000 /* of who looks */
#define V9FS 0x01021997
#define CIFS 0xff534d42
#define SMB2 0xfe534d42

static bool is_far(long type)
{
	return type == NFS_SUPER_MAGIC || type == V9FS || type == CIFS || type == SMB2 ||
	       type == FUSE_SUPER_MAGIC;
}

static int no_layer(const char *place, const char *why, struct err *e)
{
	return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP,
			  "set XDG_CACHE_HOME to a folder on a local disk, or take "
			  "--workspace direct",
			  "the layer of an overlay workspace cannot be in '%.200s': %s", place,
			  why);
}

/* Without user xattrs no folder can be marked as replaced. */
static int can_hold(int upper, const char *place, struct err *e)
{
	struct statfs fs;

	if (fstatfs(upper, &fs) < 0)
		return err_sys(e, "cannot look at '%.200s'", place);
	if (is_far((long)fs.f_type))
		return no_layer(place, "it is on a network file system, or one of FUSE", e);
	if (fs.f_type == OVERLAYFS_SUPER_MAGIC)
		return no_layer(place, "it is on an overlay itself", e);
	if (fs.f_type == EXT4_SUPER_MAGIC || fs.f_type == XFS_SUPER_MAGIC ||
	    fs.f_type == BTRFS_SUPER_MAGIC)
		return 0; /* known to have them: each look is two turns of the disk's journal */
	if (fsetxattr(upper, PROBE, "y", 1, 0) < 0)
		return no_layer(place, "its file system has no user attributes", e);
	return fremovexattr(upper, PROBE) < 0 ? err_sys(e, "cannot prepare the layer") : 0;
}

/* The start, by the clock of the workspace's file system: of a file without a name, so that nothing
 * in the folder changes. */
static int note_start(int workspace, struct timespec *ret, struct err *e)
{
	CLEANUP(fd) int fd = openat(workspace, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
	struct statfs fs;
	struct stat st;

	if (fd >= 0 && fstat(fd, &st) == 0) {
		*ret = st.st_ctim;
		return 0;
	}
	if (fstatfs(workspace, &fs) < 0 || clock_gettime(CLOCK_REALTIME, ret) < 0)
		return err_sys(e, "cannot look at the workspace");
	if (is_far((long)fs.f_type))
		return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP,
				  "take --workspace direct, or work on a copy on a local disk",
				  "workspace.mode overlay: the workspace's file system does not "
				  "tell its time, so changes of the host's could not be seen");
	ret->tv_sec -= CLOCK_LESS_S;
	return 0;
}

static int describe(const char *path, int workspace, struct layer_about *a, struct err *e)
{
	struct timespec now;
	struct statx x;
	struct stat st;

	if (fstat(workspace, &st) < 0 ||
	    statx(workspace, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_BTIME, &x) < 0)
		return err_sys(e, "cannot look at the workspace '%.200s'", path);
	if (strlen(path) >= sizeof(a->workspace))
		return err_set(e, ERR_USAGE, ENAMETOOLONG, "the workspace's path is too long");
	memcpy(a->workspace, path, strlen(path) + 1);
	a->dev = st.st_dev;
	a->ino = st.st_ino;
	if (x.stx_mask & STATX_BTIME)
		a->made = (struct timespec){ .tv_sec = x.stx_btime.tv_sec,
					     .tv_nsec = x.stx_btime.tv_nsec };
	a->disk_uid = st.st_uid;
	a->disk_gid = st.st_gid;
	a->by_root = geteuid() == 0;
	if (clock_gettime(CLOCK_REALTIME, &now) < 0)
		return err_sys(e, "cannot read the clock");
	a->began = now.tv_sec;
	a->began_ns = now.tv_nsec;
	return note_start(workspace, &a->start, e);
}

static void copy_acl(int from, int to, const char *name)
{
	char text[4096];
	ssize_t n = fgetxattr(from, name, text, sizeof(text));

	if (n > 0)
		(void)fsetxattr(to, name, text, (size_t)n, 0);
}

/* The merged top has the owner, mode and ACL of this one. A group that is none of the caller's
 * stays away, and with it the bit that hands it on. */
static int dress(int upper, int workspace, struct err *e)
{
	struct stat st;
	mode_t mode;

	if (fstat(workspace, &st) < 0)
		return err_sys(e, "cannot look at the workspace");
	mode = st.st_mode & 01777;
	if (geteuid() != 0 && st.st_gid != getegid() && fchown(upper, (uid_t)-1, st.st_gid) == 0)
		mode |= st.st_mode & S_ISGID;
	copy_acl(workspace, upper, "system.posix_acl_access");
	copy_acl(workspace, upper, "system.posix_acl_default");
	/* What is not the caller's on the host could be closed to its owner here. */
	return fchmod(upper, st.st_uid == geteuid() || geteuid() == 0 ? mode : mode | 0700) < 0
		       ? err_sys(e, "cannot prepare the layer")
		       : 0;
}

static void note_boot(char boot[LAYER_BOOT])
{
	if (fd_read_file(AT_FDCWD, BOOT_ID, boot, LAYER_BOOT) < 0)
		boot[0] = '\0';
	boot[strcspn(boot, "\n")] = '\0';
}

/* By whatever links the cache folder is reached: a bind follows none. */
static int find_path(struct layer *l, struct err *e)
{
	return fd_real_path(l->folder, l->path) < 0 ? err_sys(e, "cannot tell where the layer is")
						    : 0;
}

/* Locked until the sandbox stands still. */
static int hold_live(struct layer *l, struct err *e)
{
	if (!l->about.sandbox[0])
		return 0;
	l->live = openat(l->folder, LAYER_LIVE, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (l->live < 0)
		return err_sys(e, "cannot prepare the layer");
	return layer_rest(l, false, e);
}

int layer_rest(const struct layer *l, bool on, struct err *e)
{
	if (l->live < 0)
		return 0;
	if (on)
		return flock(l->live, LOCK_UN) < 0 ? err_sys(e, "cannot let go of the layer") : 0;
	return claim_lock(l->live, REST_MS)
		       ? 0
		       : err_refuse(e, ERR_UNAVAILABLE, EBUSY, "try again when it is done",
				    "somebody looks at the sandbox's layer, or applies it");
}

static int make_in(int layers, const struct layer_want *w, int workspace, struct layer *l,
		   struct err *e)
{
	struct stat st;
	char name[33];

	if (w->sandbox) {
		(void)snprintf(l->about.sandbox, sizeof(l->about.sandbox), "%s", w->sandbox);
		note_boot(l->about.boot);
	}
	if (mkdirat(layers, w->id, 0700) < 0)
		return err_sys(e, "cannot make a layer");
	l->folder = openat(layers, w->id, LAYER_FOLDER);
	if (l->folder < 0 || flock(l->folder, LOCK_SH | LOCK_NB) < 0 ||
	    mkdirat(l->folder, LAYER_UPPER, 0700) < 0 || mkdirat(l->folder, LAYER_WORK, 0700) < 0)
		return err_sys(e, "cannot make a layer");
	l->upper = openat(l->folder, LAYER_UPPER, LAYER_FOLDER);
	if (l->upper < 0 || fstat(l->upper, &st) < 0)
		return err_sys(e, "cannot open the layer");
	(void)snprintf(l->about.id, sizeof(l->about.id), "%s", w->id);
	l->about.same_place = st.st_dev == l->about.dev;
	if (can_hold(l->upper, l->path, e) < 0 || dress(l->upper, workspace, e) < 0 ||
	    layer_about_draft(l->folder, &l->about, name, e) < 0 ||
	    layer_about_take(l->folder, name, e) < 0 || hold_live(l, e) < 0)
		return -e->code;
	return find_path(l, e);
}

int layer_make(const struct layer_want *w, struct layer *ret, struct err *e)
{
	CLEANUP(fd) int layers = -1, workspace = -1;
	struct layer l = LAYER_NONE;

	workspace = fd_open_nolinks(AT_FDCWD, w->workspace, O_RDONLY | O_DIRECTORY, 0);
	if (workspace < 0)
		return err_errno(e, workspace, "cannot open the workspace '%.200s'", w->workspace);
	if (describe(w->workspace, workspace, &l.about, e) < 0)
		return -e->code;
	layers = cache_open(LAYERS, l.path, sizeof(l.path), e);
	if (layers < 0)
		return err_wrap(e, "workspace.mode overlay");
	if (make_in(layers, w, workspace, &l, e) < 0) {
		struct err unused;

		layer_done(&l);
		(void)layer_remove(layers, w->id, &unused);
		return -e->code;
	}
	*ret = l;
	return 0;
}

/* ---- once more ---- */

/* What was written before the machine went down may be there in parts. */
static int check_whole(const struct layer_about *a, const char *boot, struct err *e)
{
	if (a->finished || (boot[0] && str_eq(a->boot, boot)))
		return 0;
	return err_refuse(e, ERR_POLICY, EIO,
			  "brig diff ID shows what is there; delete the sandbox, and create "
			  "another",
			  "the sandbox's layer is damaged: the machine went down while it ran");
}

static int same_workspace(const struct layer *l, const struct layer_want *w, struct err *e)
{
	CLEANUP(fd) int folder = -1;

	if (!str_eq(l->about.workspace, w->workspace) || !str_eq(l->about.sandbox, w->sandbox))
		return err_set(e, ERR_POLICY, ESTALE, "the layer '%.32s' is another sandbox's",
			       w->id);
	return layer_workspace(l, &folder, e);
}

/* The overlay's own folder is made anew: it has a mark of the last mount. What was applied while it
 * ran is no news any more: the next mount sees it below the layer. */
static int begin_again(struct layer *l, struct err *e)
{
	char name[33], boot[LAYER_BOOT];
	int r = tree_remove(l->folder, LAYER_WORK);

	note_boot(boot);
	if (check_whole(&l->about, boot, e) < 0)
		return -e->code;
	if ((r < 0 && r != -ENOENT) || mkdirat(l->folder, LAYER_WORK, 0700) < 0)
		return err_set(e, ERR_INTERNAL, EIO, "cannot prepare the layer");
	if (unlinkat(l->folder, LAYER_APPLIED, 0) < 0 && errno != ENOENT)
		return err_sys(e, "cannot prepare the layer");
	l->about.finished = false;
	memcpy(l->about.boot, boot, sizeof(boot));
	return layer_about_draft(l->folder, &l->about, name, e) < 0 ||
			       layer_about_take(l->folder, name, e) < 0
		       ? -e->code
		       : 0;
}

static int take_up(int layers, const struct layer_want *w, struct layer *l, struct err *e)
{
	l->folder = openat(layers, w->id, LAYER_FOLDER);
	if (l->folder < 0)
		return errno == ENOENT ? -ENOENT : err_sys(e, "cannot open the layer");
	if (!claim_lock(l->folder, REST_MS))
		return err_refuse(e, ERR_UNAVAILABLE, EBUSY, "try again when it is done",
				  "somebody looks at the sandbox's layer, or applies it");
	if (layer_about_read(l->folder, &l->about) < 0)
		return -ENOENT;
	l->upper = openat(l->folder, LAYER_UPPER, LAYER_FOLDER);
	if (l->upper < 0)
		return err_sys(e, "cannot open the layer");
	if (same_workspace(l, w, e) < 0 || begin_again(l, e) < 0 || hold_live(l, e) < 0)
		return -e->code;
	if (flock(l->folder, LOCK_SH | LOCK_NB) < 0)
		return err_sys(e, "cannot hold the layer");
	return find_path(l, e);
}

int layer_take_up(const struct layer_want *w, struct layer *ret, struct err *e)
{
	char store[PATH_MAX];
	CLEANUP(fd) int layers = layer_store_find(store);
	struct layer l = LAYER_NONE;
	int r = layers < 0 ? -ENOENT : take_up(layers, w, &l, e);

	if (r == 0) {
		*ret = l;
		return 0;
	}
	layer_done(&l);
	return r == -ENOENT ? layer_make(w, ret, e) : r;
}

/* What a volatile mount has written is on disk only after this, and so is what says so; for nothing
 * nobody waits. */
static int put_on_disk(const struct layer *l, const struct layer_about *a, struct err *e)
{
	if ((a->changed || a->more) && syncfs(l->upper) < 0)
		return err_sys(e, "the layer could not be written to disk");
	return 0;
}

int layer_finish(struct layer *l, struct err *e)
{
	struct layer_about a = l->about;
	int r = layer_count(l, LAYER_NAMES, &a.changed, &a.bytes, &a.more);
	char name[33];

	if (r < 0)
		return err_errno(e, r, "cannot look through the layer");
	a.finished = true;
	a.ended = time(NULL);
	if (layer_about_draft(l->folder, &a, name, e) < 0)
		return -e->code;
	r = put_on_disk(l, &a, e);
	if (r == 0 && tree_remove(l->folder, LAYER_WORK) < 0)
		r = err_set(e, ERR_INTERNAL, EIO, "cannot remove the layer's work folder");
	if (r < 0) {
		(void)unlinkat(l->folder, name, 0);
		return r;
	}
	if (layer_about_take(l->folder, name, e) < 0)
		return -e->code;
	l->about = a;
	return 0;
}

void layer_done(struct layer *l)
{
	l->upper = fd_close(l->upper);
	l->folder = fd_close(l->folder);
	l->live = fd_close(l->live);
}
