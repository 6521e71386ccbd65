/* SPDX-License-Identifier: Apache-2.0 */
/* workspace/apply_place.c - where an apply is written down, and where its stage is. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>

#include "base/bytes/parcel.h"
#include "base/files/claim.h"
#include "base/files/draft.h"
#include "base/files/folder.h"
#include "base/files/state.h"
#include "base/files/tree.h"
#include "workspace/apply_internal.h"

#define UNDONE_MARK "brig-undone-1"
#define FOLDER_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define LOCK_MS 2000

static void name_of(const struct stat *st, char out[48])
{
	(void)snprintf(out, 48, "%llx-%llx", (unsigned long long)st->st_dev,
		       (unsigned long long)st->st_ino);
}

static int place_enter(int applied, const char *name, bool make, struct apply_place *p)
{
	size_t n = strlen(p->path);

	if (make && mkdirat(applied, name, 0700) < 0 && errno != EEXIST)
		return -errno;
	p->folder = openat(applied, name, FOLDER_FLAGS);
	if (p->folder < 0)
		return -errno;
	if (n + strlen(name) + 2 > sizeof(p->path))
		return -ENAMETOOLONG;
	(void)snprintf(p->path + n, sizeof(p->path) - n, "/%s", name);
	p->lock = openat(p->folder, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	return p->lock < 0 ? -errno : claim_lock(p->lock, LOCK_MS) ? 0 : -EBUSY;
}

int apply_place_open(int workspace, bool make, struct apply_place *ret, struct err *e)
{
	struct apply_place p = APPLY_PLACE_NONE;
	CLEANUP(fd)
	int applied = make ? cache_open(APPLIED, p.path, sizeof(p.path), e)
			   : cache_find(APPLIED, p.path, sizeof(p.path));
	struct stat st;
	char name[48];
	int r;

	if (applied < 0)
		return make ? applied : -ENOENT;
	if (fstat(workspace, &st) < 0)
		return err_sys(e, "cannot look at the workspace");
	name_of(&st, name);
	r = place_enter(applied, name, make, &p);
	if (r < 0)
		apply_place_done(&p);
	if (r == -EBUSY)
		return err_refuse(e, ERR_UNAVAILABLE, EBUSY, "wait until it is done",
				  "another brig applies or undoes in this workspace");
	if (r < 0)
		return r == -ENOENT ? r : err_errno(e, r, "cannot prepare brig's cache");
	*ret = p;
	return 0;
}

void apply_place_done(struct apply_place *p)
{
	p->lock = fd_close(p->lock);
	p->folder = fd_close(p->folder);
}

int apply_place_write(const struct apply_place *p, const char *name, const struct apply_list *l,
		      struct err *e)
{
	struct buf b = BUF_INIT(CHANGES_BYTES);
	int r;

	apply_list_write(l, &b);
	r = b.failed ? -ENOMEM : draft_write(p->folder, name, &b, 0600, true);
	buf_done(&b);
	if (r == 0 && fsync(p->folder) < 0)
		r = -errno;
	return r < 0 ? err_errno(e, r, "cannot write down what is applied") : 0;
}

static int place_bytes(int folder, const char *name, struct buf *b)
{
	CLEANUP(fd) int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	return fd < 0 ? -errno : buf_read_file(b, fd);
}

int apply_place_read(const struct apply_place *p, const char *name, struct apply_list *ret,
		     struct err *e)
{
	struct buf b = BUF_INIT(CHANGES_BYTES);
	int r = place_bytes(p->folder, name, &b);

	if (r == 0)
		r = apply_list_read(buf_str(&b), b.len, ret);
	buf_done(&b);
	return r == 0 || r == -ENOENT
		       ? r
		       : err_errno(e, r, "cannot read what was applied in '%.200s'", p->path);
}

/* ---- the stage ---- */

static int items_at(int dir, const char *name, const char *above, char path[PATH_MAX])
{
	int r, fd;

	if (snprintf(path, PATH_MAX, "%s/%s", above, name) >= PATH_MAX)
		return -ENAMETOOLONG;
	r = tree_remove(dir, name);
	if (r < 0 && r != -ENOENT)
		return r;
	if (mkdirat(dir, name, 0700) < 0)
		return -errno;
	fd = openat(dir, name, FOLDER_FLAGS);
	return fd < 0 ? -errno : fd;
}

/* Beside the workspace; and in it, where it is a file system of its own. */
static int items_near(int workspace, const char *workspace_path, const char *name,
		      char path[PATH_MAX])
{
	char above[PATH_MAX];
	const char *slash = strrchr(workspace_path, '/');
	CLEANUP(fd) int fd = -1;
	struct stat st, up;
	int r;

	(void)snprintf(above, sizeof(above), "%.*s", slash ? (int)(slash - workspace_path) : 0,
		       workspace_path);
	fd = fd_open_nolinks(AT_FDCWD, above[0] ? above : "/", O_RDONLY | O_DIRECTORY, 0);
	if (fd >= 0 && fstat(fd, &up) == 0 && fstat(workspace, &st) == 0 &&
	    up.st_dev == st.st_dev) {
		r = items_at(fd, name, above, path);
		if (r >= 0)
			return r;
	}
	return items_at(workspace, name, workspace_path, path);
}

int apply_items_make(const struct apply_place *p, int workspace, const char *workspace_path,
		     char path[PATH_MAX], struct err *e)
{
	char name[80], of[48];
	struct stat st, ours;
	int r;

	if (fstat(workspace, &st) < 0 || fstat(p->folder, &ours) < 0)
		return err_sys(e, "cannot look at the workspace");
	name_of(&st, of);
	(void)snprintf(name, sizeof(name), ".brig-applied-%s", of);
	r = ours.st_dev == st.st_dev ? items_at(p->folder, "items", p->path, path)
				     : items_near(workspace, workspace_path, name, path);
	return r < 0 ? err_errno(e, r, "cannot make a folder to stage the changes in") : r;
}

int apply_items_open(const struct apply_list *l)
{
	CLEANUP(fd) int fd = fd_open_nolinks(AT_FDCWD, l->items, O_RDONLY | O_DIRECTORY, 0);
	struct stat st;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0 || st.st_ino != l->items_ino || st.st_uid != geteuid())
		return -ESTALE;
	return TAKE_FD(fd);
}

void apply_items_drop(const struct apply_list *l)
{
	CLEANUP(fd) int fd = apply_items_open(l);
	const char *name = NULL;
	CLEANUP(fd) int above = fd < 0 ? -1 : apply_parent(-1, l->items, &name);

	if (above >= 0)
		(void)tree_remove(above, name);
}

bool apply_items_end(const struct apply_list *l)
{
	const char *name = NULL;
	CLEANUP(fd) int above = apply_parent(-1, l->items, &name);

	return above < 0 || unlinkat(above, name, AT_REMOVEDIR) == 0 || errno == ENOENT;
}

/* ---- what was put back ---- */

static void undone_fields(struct parcel *p, struct look_known *k)
{
	uint64_t s = (uint64_t)k->ctime.tv_sec, ns = (uint64_t)k->ctime.tv_nsec;

	parcel_number(p, &k->dev);
	parcel_number(p, &k->ino);
	parcel_number(p, &s);
	parcel_number(p, &ns);
	k->ctime = (struct timespec){ .tv_sec = (time_t)s, .tv_nsec = (long)(ns % 1000000000) };
}

int apply_stamps_read(int folder, const char *name, struct look_known **ret, size_t *n)
{
	struct buf b = BUF_INIT(CHANGES_BYTES);
	CLEANUP(arena) struct arena *a = arena_new((size_t)64 << 20);
	struct look_known *v, *copy = NULL;
	struct parcel in;
	size_t count = 0;
	int r = a ? place_bytes(folder, name, &b) : -ENOMEM;

	*ret = NULL;
	*n = 0;
	if (r == 0) {
		in = parcel_from(buf_str(&b), b.len, UNDONE_MARK);
		in.arena = a;
		v = parcel_list(&in, NULL, &count, sizeof(*v));
		for (size_t i = 0; i < count && !in.failed; i++)
			undone_fields(&in, &v[i]);
		if (parcel_whole(&in) && count && (copy = calloc(count, sizeof(*copy)))) {
			memcpy(copy, v, count * sizeof(*copy));
			*ret = copy;
			*n = count;
		}
	}
	buf_done(&b);
	return r == -ENOENT ? 0 : r;
}

static int stamps_write(int folder, const char *name, const struct look_known *v, size_t n,
			struct err *e)
{
	struct buf b = BUF_INIT(CHANGES_BYTES);
	struct parcel out = parcel_to(&b, UNDONE_MARK);
	int r;

	(void)parcel_list(&out, (void *)(uintptr_t)v, &n, sizeof(*v));
	for (size_t i = 0; i < n; i++) {
		struct look_known k = v[i];

		undone_fields(&out, &k);
	}
	r = b.failed ? -ENOMEM : draft_write(folder, name, &b, 0600, false);
	buf_done(&b);
	return r < 0 ? err_errno(e, r, "cannot write down what was changed") : 0;
}

int apply_stamps_add(int folder, const char *name, const struct look_known *v, size_t n,
		     struct err *e)
{
	struct look_known *known = NULL, *all;
	size_t had = 0;
	int r;

	if (!n)
		return 0;
	(void)apply_stamps_read(folder, name, &known, &had);
	had = had + n > UNDONE_MAX ? 0 : had;
	all = realloc(known, (had + n) * sizeof(*all));
	if (!all) {
		free(known);
		return err_nomem(e);
	}
	memcpy(all + had, v, n * sizeof(*all));
	r = stamps_write(folder, name, all, had + n, e);
	free(all);
	return r;
}

/* ---- old ones ---- */

static void prune_one(int applied, const char *name, time_t before)
{
	struct apply_place p = APPLY_PLACE_NONE;
	CLEANUP(apply_list) struct apply_list l = { 0 };
	struct err unused;
	struct stat st;

	if (place_enter(applied, name, false, &p) == 0 &&
	    fstatat(p.folder, APPLIED_DONE, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    st.st_ctim.tv_sec < before) {
		if (apply_place_read(&p, APPLIED_DONE, &l, &unused) == 0)
			apply_items_drop(&l);
		(void)tree_remove(applied, name);
	}
	apply_place_done(&p);
}

void apply_place_prune(time_t before)
{
	char path[PATH_MAX];
	CLEANUP(fd) int applied = cache_find(APPLIED, path, sizeof(path));
	const struct fd_entry *d;
	struct folder f;

	folder_begin(&f, applied);
	while (applied >= 0 && (d = folder_next(&f))) {
		struct stat st;

		/* Without opening what is young. */
		if (fstatat(applied, d->name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    S_ISDIR(st.st_mode) && st.st_mtim.tv_sec < before)
			prune_one(applied, d->name, before);
	}
}
