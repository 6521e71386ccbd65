/* SPDX-License-Identifier: Apache-2.0 */
#include "base/files/mounts.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/files/fd.h"
#include "base/files/kernelfs.h"
#include "base/text/buf.h"
#include "base/text/cleanup.h"
#include "base/text/num.h"
#include "base/text/str.h"

#define LIST "/proc/self/mountinfo"
#define LIST_MAX ((size_t)16 << 20)
/* The kernel lets nobody mount anything while it writes an answer, and a sandbox is mounting: a few
 * lines at a time. */
#define READ_AT_ONCE 512

enum { F_ID, F_PARENT, F_DEVICE, F_ROOT, F_POINT, F_OPTIONS, F_FIXED };

void mounts_unescape(char *s)
{
	char *to = s;

	while (*s) {
		if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' &&
		    s[3] >= '0' && s[3] <= '7') {
			*to++ = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0'));
			s += 4;
		} else {
			*to++ = *s++;
		}
	}
	*to = '\0';
}

static int device(char *text, dev_t *ret)
{
	char *colon = strchr(text, ':');
	uint64_t high, low;

	if (!colon)
		return -EINVAL;
	*colon = '\0';
	if (num_count(text, &high) < 0 || num_count(colon + 1, &low) < 0 || high > UINT_MAX ||
	    low > UINT_MAX)
		return -EINVAL;
	*ret = makedev((unsigned)high, (unsigned)low);
	return 0;
}

/* id, parent, device, root, mount point, options, any number of further words, "-", type, ... */
static int mounts_one_line(char *line, struct mount *ret)
{
	char *f[F_FIXED], *word, *at = line;
	uint64_t id;

	for (int i = 0; i < F_FIXED; i++) {
		f[i] = strsep(&at, " ");
		if (!at)
			return -EINVAL;
	}
	do
		word = strsep(&at, " ");
	while (word && !str_eq(word, "-"));
	ret->type = at ? strsep(&at, " ") : NULL;
	if (!ret->type || num_count(f[F_ID], &id) < 0 || id > UINT_MAX ||
	    device(f[F_DEVICE], &ret->dev) < 0 || f[F_POINT][0] != '/')
		return -EINVAL;
	ret->id = (unsigned)id;
	ret->kernel = kernelfs_is(ret->type);
	mounts_unescape(f[F_ROOT]);
	mounts_unescape(f[F_POINT]);
	ret->read_only = str_eq(strsep(&f[F_OPTIONS], ","), "ro");
	ret->root = f[F_ROOT];
	ret->point = f[F_POINT];
	return 0;
}

int mounts_parse(struct arena *a, char *text, struct mounts *ret)
{
	struct mounts m = { 0 };

	for (char *line; (line = strsep(&text, "\n"));) {
		struct mount *slot;

		if (!*line)
			continue;
		slot = ARENA_PUSH(a, m.v, m.n);
		if (!slot)
			return -ENOMEM;
		if (mounts_one_line(line, slot) < 0)
			return -EINVAL;
	}
	*ret = m;
	return 0;
}

int mounts_read(struct arena *a, struct mounts *ret, struct err *e)
{
	CLEANUP(buf) struct buf b = BUF_INIT(LIST_MAX);
	CLEANUP(fd) int fd = open(LIST, O_RDONLY | O_CLOEXEC);
	char part[READ_AT_ONCE], *text;
	ssize_t n = -1;
	int r;

	while (fd >= 0 && (n = read(fd, part, sizeof(part))) > 0)
		buf_add(&b, part, (size_t)n);
	if (n < 0)
		return err_sys(e, "cannot read the list of mounts '" LIST "'");
	text = b.failed ? NULL : arena_strndup(a, buf_str(&b), b.len);
	if (!text)
		return err_nomem(e);
	r = mounts_parse(a, text, ret);
	return r == -ENOMEM ? err_nomem(e)
	       : r < 0      ? err_set(e, ERR_INTERNAL, EIO, "'" LIST "' cannot be understood")
			    : 0;
}

/* What path has below point, with its '/'; NULL: it is not there. */
static const char *rest_of(const char *path, const char *point)
{
	size_t n = str_eq(point, "/") ? 0 : strlen(point);

	return strncmp(path, point, n) == 0 && (!path[n] || path[n] == '/') ? path + n : NULL;
}

/* By its number; on a kernel that does not tell it, the one that lies deepest, and last. */
static const struct mount *mount_of(const struct mounts *m, int fd, const char *real)
{
	const struct mount *best = NULL;
	struct statx x;
	bool told = fd >= 0 && statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &x) == 0 &&
		    (x.stx_mask & STATX_MNT_ID);

	for (size_t i = 0; i < m->n; i++) {
		const struct mount *one = &m->v[i];

		if (told ? one->id == x.stx_mnt_id
			 : rest_of(real, one->point) &&
				    (!best || strlen(one->point) >= strlen(best->point)))
			best = one;
	}
	return best;
}

static const char *mounts_join(struct arena *a, const char *base, const char *rest)
{
	if (str_eq(base, "/"))
		return *rest ? arena_strdup(a, rest) : base;
	return arena_printf(a, "%s%s", base, rest);
}

static int mounts_place(const struct mounts *m, struct arena *a, int fd, const char *real,
			struct where *ret)
{
	const struct mount *on = mount_of(m, fd, real);
	struct where w = { .real = arena_strdup(a, real) };
	struct stat st;

	if (on && rest_of(real, on->point)) {
		w.dev = on->dev;
		w.path = mounts_join(a, on->root, rest_of(real, on->point));
	} else if (fd >= 0 && fstat(fd, &st) == 0) {
		w.dev = st.st_dev; /* the mount of a changed root is in no list */
		w.path = w.real;
	} else {
		return -ENOENT;
	}
	if (!w.path || !w.real)
		return -ENOMEM;
	*ret = w;
	return 0;
}

int mounts_where(const struct mounts *m, struct arena *a, int fd, struct where *ret)
{
	char real[PATH_MAX];
	int r = fd_real_path(fd, real);

	if (r < 0)
		return r;
	return real[0] == '/' ? mounts_place(m, a, fd, real, ret) : -ENOENT;
}

int mounts_where_text(const struct mounts *m, struct arena *a, const char *path, struct where *ret)
{
	return mounts_place(m, a, -1, path, ret);
}

int mounts_find(const struct mounts *m, struct arena *a, const char *path, struct where *ret)
{
	char *head = arena_strdup(a, path);
	size_t n = strlen(path);
	CLEANUP(fd) int fd = -1;
	int r;

	if (!head || path[0] != '/')
		return head ? -EINVAL : -ENOMEM;
	/* As much of it as there is. */
	while ((fd = open(n ? head : "/", O_PATH | O_CLOEXEC)) < 0) {
		if ((errno != ENOENT && errno != ENOTDIR) || !n)
			return -errno;
		while (head[--n] != '/')
			;
		head[n] = '\0';
	}
	r = mounts_where(m, a, fd, ret);
	if (r < 0 || !path[n] || str_eq(path + n, "/"))
		return r;
	ret->missing = true;
	ret->path = mounts_join(a, ret->path, path + n);
	ret->real = mounts_join(a, ret->real, path + n);
	return ret->path && ret->real ? 0 : -ENOMEM;
}
