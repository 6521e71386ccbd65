/* SPDX-License-Identifier: Apache-2.0 */
/* workspace/stage.c - makes what is to be put into the workspace, beside it.
 *
 * A file of the layer's is taken by a rename where nobody can still have it open: no other run
 * lives, and it has no other name. Else it is copied, sharing blocks where the file system can. No
 * set-id bit comes along that was not there, no mark of the overlay's. */
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/xattr.h>

#include "backend/kit/survey/reach.h"
#include "base/text/str.h"
#include "workspace/apply_internal.h"

#define MARKS "user.overlay."
#define ORIGIN "user.overlay.origin"
#define FILE_FLAGS (O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
#define FOLDER_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

enum { XATTRS_MAX = 65536 };

/* Of the stage and the layer: the last one is used again while paths are neighbours. */
struct stage_dirs {
	int stage, upper;
	char stage_path[PATH_MAX], upper_path[PATH_MAX];
};

int apply_parent(int top, const char *path, const char **name)
{
	const char *slash = strrchr(path, '/');
	char above[PATH_MAX];

	*name = slash ? slash + 1 : path;
	if (!slash) {
		int fd = fcntl(top, F_DUPFD_CLOEXEC, 3);

		return fd < 0 ? -errno : fd;
	}
	(void)snprintf(above, sizeof(above), "%.*s", (int)(slash - path), path);
	return top < 0 ? fd_open_nolinks(AT_FDCWD, above[0] ? above : "/", O_RDONLY | O_DIRECTORY,
					 0)
		       : fd_open_nolinks(top, above, O_PATH | O_DIRECTORY, FD_BENEATH);
}

static int dir_of(int top, const char *path, int *fd, char last[PATH_MAX], const char **name)
{
	const char *slash = strrchr(path, '/');
	size_t n = slash ? (size_t)(slash - path) : 0;

	*name = slash ? slash + 1 : path;
	if (*fd >= 0 && strlen(last) == n && memcmp(last, path, n) == 0)
		return *fd;
	*fd = fd_close(*fd);
	memcpy(last, path, n);
	last[n] = '\0';
	*fd = n ? fd_open_nolinks(top, last, O_PATH | O_DIRECTORY, FD_BENEATH)
		: openat(top, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (*fd < 0 && !n)
		return -errno;
	if (*fd == -EACCES) /* the command has closed a folder of its layer to its owner */
		*fd = reach_open(top, last);
	return *fd;
}

/* ---- what a file keeps ---- */

static int strip_marks(int fd)
{
	char names[XATTRS_MAX];
	ssize_t n = flistxattr(fd, names, sizeof(names));

	for (ssize_t at = 0; at < n; at += (ssize_t)strlen(names + at) + 1)
		if (str_starts(names + at, MARKS) && fremovexattr(fd, names + at) < 0)
			return -errno;
	return n < 0 && errno != ENOTSUP ? -errno : 0;
}

static int copy_attributes(int from, int to)
{
	char names[XATTRS_MAX], value[XATTRS_MAX];
	ssize_t n = flistxattr(from, names, sizeof(names));

	for (ssize_t at = 0; at < n; at += (ssize_t)strlen(names + at) + 1) {
		ssize_t len;

		if (!str_starts(names + at, "user.") || str_starts(names + at, MARKS))
			continue;
		len = fgetxattr(from, names + at, value, sizeof(value));
		if (len >= 0 && fsetxattr(to, names + at, value, (size_t)len, 0) < 0 &&
		    errno != ENOTSUP)
			return -errno;
	}
	return 0;
}

/* A set-id bit stays where it was and the bytes are the same. */
static mode_t mode_of(const struct apply_op *o)
{
	return (mode_t)(o->made.mode & 01777) |
	       (o->same_bytes ? (mode_t)(o->made.mode & o->was.mode & 06000) : 0);
}

/* As root: the workspace's. */
static int give_owner(int dir, const char *name, const struct layer_about *about)
{
	if (geteuid() != 0)
		return 0;
	return fchownat(dir, name, about->disk_uid, about->disk_gid, AT_SYMLINK_NOFOLLOW) < 0
		       ? -errno
		       : 0;
}

/* ---- copies ---- */

static int copy_range(int from, int to, off_t at, off_t end)
{
	char block[65536];

	while (at < end) {
		size_t want =
			(uint64_t)(end - at) < sizeof(block) ? (size_t)(end - at) : sizeof(block);
		ssize_t n = pread(from, block, want, at);

		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		if (pwrite(to, block, (size_t)n, at) != n)
			return errno ? -errno : -EIO;
		at += n;
	}
	return 0;
}

/* Holes stay holes. */
static int copy_bytes(int from, int to, off_t size)
{
	int r = ioctl(to, FICLONE, from) == 0 ? 0 : ftruncate(to, size) < 0 ? -errno : 1;

	for (off_t at = 0, end; r == 1 && at < size; at = end) {
		at = lseek(from, at, SEEK_DATA);
		if (at < 0)
			return errno == ENXIO ? 0 : -errno;
		end = lseek(from, at, SEEK_HOLE);
		if (end < 0)
			return -errno;
		if (copy_range(from, to, at, end < size ? end : size) < 0)
			return errno ? -errno : -EIO;
	}
	return r < 0 ? r : 0;
}

/* One that the command has closed to its owner is opened again: whoever made the list knows its
 * mode. */
static int open_layer_file(int dir, const char *name)
{
	int fd = openat(dir, name, FILE_FLAGS);

	if (fd < 0 && errno == EACCES && fchmodat(dir, name, 0600, 0) == 0)
		fd = openat(dir, name, FILE_FLAGS);
	return fd;
}

static int copy_file(int src, const char *from, int dst, const char *to)
{
	CLEANUP(fd) int in = open_layer_file(src, from);
	CLEANUP(fd) int out = -1;
	struct timespec times[2];
	struct stat st;
	int r;

	if (in < 0 || fstat(in, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -ESTALE;
	out = openat(dst, to, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (out < 0)
		return -errno;
	errno = 0;
	r = copy_bytes(in, out, st.st_size);
	if (r == 0)
		r = copy_attributes(in, out);
	times[0] = (struct timespec){ .tv_nsec = UTIME_OMIT };
	times[1] = st.st_mtim;
	return r < 0 ? r : futimens(out, times) < 0 ? -errno : 0;
}

static int copy_link(int src, const char *from, int dst, const char *to)
{
	char text[PATH_MAX];
	ssize_t n = readlinkat(src, from, text, sizeof(text) - 1);

	if (n <= 0)
		return n < 0 ? -errno : -ESTALE;
	text[n] = '\0';
	return symlinkat(text, dst, to) < 0 ? -errno : 0;
}

/* ---- one of them ---- */

/* A file that was taken as it is: without what must not come along. */
static int clean_taken(int dir, const char *name, const struct apply_op *o)
{
	CLEANUP(fd) int fd = -1;
	struct stat st;

	if (S_ISLNK(o->made.mode))
		return 0;
	fd = open_layer_file(dir, name);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	return st.st_ino != o->made.ino || !S_ISREG(st.st_mode) ? -ESTALE : strip_marks(fd);
}

static int stage_copy(struct apply_op *o, int src, const char *from, int dst, const char *to)
{
	return (S_ISLNK(o->made.mode) ? copy_link : copy_file)(src, from, dst, to);
}

static int stage_taken(struct apply_op *o, int src, const char *from, int dst, const char *to)
{
	if (renameat2(src, from, dst, to, RENAME_NOREPLACE) == 0)
		return clean_taken(dst, to, o);
	if (errno != EACCES && errno != EXDEV)
		return -errno;
	o->moved = false; /* a folder that nobody may write to; or another mount */
	return stage_copy(o, src, from, dst, to);
}

static int stage_one(struct apply_ends *x, struct stage_dirs *d, size_t i,
		     const struct layer_about *about)
{
	struct apply_op *o = &x->list->ops[i];
	char staged[PATH_MAX];
	const char *from, *to;
	int src, dst, r = apply_staged_name(x->list, i, staged);

	if (r < 0)
		return r;
	src = dir_of(x->upper, o->path, &d->upper, d->upper_path, &from);
	dst = dir_of(x->items, staged, &d->stage, d->stage_path, &to);
	if (src < 0 || dst < 0)
		return src < 0 ? src : dst;
	if (S_ISDIR(o->made.mode))
		r = mkdirat(dst, to, 0700) < 0 ? -errno : 0;
	else if (o->moved)
		r = stage_taken(o, src, from, dst, to);
	else
		r = stage_copy(o, src, from, dst, to);
	return r < 0 ? r : give_owner(dst, to, about);
}

/* Once all that a folder has is in it: its mode and time, and what everything is now. */
static int stage_finish(struct apply_ends *x, struct stage_dirs *d, size_t i)
{
	struct apply_op *o = &x->list->ops[i];
	const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, o->made.mtime };
	char staged[PATH_MAX];
	struct stat st;
	const char *name;
	int dir, r = apply_staged_name(x->list, i, staged);

	dir = r < 0 ? r : dir_of(x->items, staged, &d->stage, d->stage_path, &name);
	if (dir < 0)
		return dir;
	if (!S_ISLNK(o->made.mode) && fchmodat(dir, name, mode_of(o), 0) < 0)
		return -errno;
	if (!o->moved && utimensat(dir, name, times, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	o->made = change_was_of(&st);
	return 0;
}

static bool is_staged(const struct apply_op *o)
{
	return o->what == APPLY_ADD || o->what == APPLY_SWAP || o->what == APPLY_INNER;
}

int apply_stage(struct apply_ends *x, const struct layer_about *about, struct err *e)
{
	struct stage_dirs d = { .stage = -1, .upper = -1 };
	struct apply_list *l = x->list;
	int r = 0;

	for (size_t i = 0; r == 0 && i < l->n; i++) {
		if (x->step)
			x->step(x->arg);
		r = is_staged(&l->ops[i]) ? stage_one(x, &d, i, about) : 0;
		if (r < 0)
			(void)err_errno(e, r, "cannot prepare '%.200s'", l->ops[i].path);
	}
	d.stage = fd_close(d.stage);
	for (size_t i = l->n; r == 0 && i-- > 0;) {
		r = is_staged(&l->ops[i]) ? stage_finish(x, &d, i) : 0;
		if (r < 0)
			(void)err_errno(e, r, "cannot prepare '%.200s'", l->ops[i].path);
	}
	(void)fd_close(d.stage);
	(void)fd_close(d.upper);
	if (r == 0 && syncfs(x->items) < 0)
		r = err_sys(e, "the changes could not be written to disk");
	return r;
}

/* ---- back to the layer ---- */

/* A file of ours goes to the layer, or away; what somebody has written to meanwhile stays. */
static void unstage_file(struct apply_ends *x, const struct apply_op *o, int src, const char *from)
{
	CLEANUP(fd) int dst = -1;
	CLEANUP(fd) int file = -1;
	struct change_was now;
	struct stat st;
	const char *to;

	if (fstatat(src, from, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_ino != o->made.ino)
		return;
	now = change_was_of(&st);
	dst = o->moved && x->upper >= 0 ? apply_parent(x->upper, o->path, &to) : -1;
	if (dst < 0 && (change_was_same(&now, &o->made) || o->moved))
		(void)unlinkat(src, from, 0);
	if (dst < 0 || renameat2(src, from, dst, to, RENAME_NOREPLACE) < 0)
		return;
	file = o->origin && S_ISREG(st.st_mode) ? openat(dst, to, FILE_FLAGS) : -1;
	if (file >= 0)
		(void)fsetxattr(file, ORIGIN, "", 0, 0);
}

static void unstage_one(struct apply_ends *x, size_t i, bool folders)
{
	const struct apply_op *o = &x->list->ops[i];
	CLEANUP(fd) int src = -1;
	char staged[PATH_MAX];
	const char *from;

	if (!is_staged(o) || apply_staged_name(x->list, i, staged) < 0)
		return;
	/* A folder is opened, so that what it has can leave it. */
	if (S_ISDIR(o->made.mode) && !folders && fchmodat(x->items, staged, 0700, 0) < 0)
		return;
	if (S_ISDIR(o->made.mode) != folders)
		return;
	src = apply_parent(x->items, staged, &from);
	if (src >= 0 && folders)
		(void)unlinkat(src, from, AT_REMOVEDIR);
	else if (src >= 0)
		unstage_file(x, o, src, from);
}

void apply_unstage(struct apply_ends *x)
{
	for (size_t i = 0; x->items >= 0 && i < x->list->n; i++)
		unstage_one(x, i, false);
	for (size_t i = x->list->n; x->items >= 0 && i-- > 0;)
		unstage_one(x, i, true);
}
