/* SPDX-License-Identifier: Apache-2.0 */
/* image/store/layer_tar.c - see layer_tar.h.
 *
 *   (long name | pax | global)* -> entry -> ... -> zeros
 *
 * Between two entries nothing is open but the folder. */
#include "image/store/layer_tar.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "base/tar/tar.h"
#include "base/text/str.h"

#define META_MOST ((uint64_t)64 << 10)
#define WHITEOUT ".wh."
#define WHITEOUT_OPAQUE ".wh..wh..opq"
#define WHITEOUT_OTHER ".wh..wh."
#define OPAQUE "user.overlay.opaque"
#define FOLDER (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define MODE_AT 100
#define MODE_LEN 8

struct layer_tar {
	int folder;
	struct layer_tar_limits left;
	layer_get_fn *get;
	void *arg;
	struct unpack_tally tally;
	struct tar_entry t, said; /* said: by what stood in front of the entry */
	bool sized, capable;
	char meta[META_MOST];
	char data[65536];
};

/* Names in errors are of the archive; whoever prints them escapes. */
static int layer_bad(const struct layer_tar *u, const char *why, struct err *e)
{
	return err_set(e, ERR_POLICY, EBADMSG, "the layer is refused: '%.150s' %s", u->t.name, why);
}

static int layer_exactly(struct layer_tar *u, void *p, size_t n, struct err *e)
{
	ssize_t got = u->get(u->arg, p, n);

	if (got == -EFBIG)
		return err_set(e, ERR_POLICY, EFBIG,
			       "the layer is refused: it grows to more than what is allowed");
	if (got == -EBADMSG)
		return err_set(e, ERR_POLICY, EBADMSG,
			       "the layer is refused: its compressed data is damaged");
	if (got < 0)
		return err_errno(e, (int)got, "cannot read the layer");
	return (size_t)got == n ? 0
				: err_set(e, ERR_POLICY, EBADMSG,
					  "the layer is refused: its archive ends in the middle");
}

static int layer_pass(struct layer_tar *u, uint64_t n, struct err *e)
{
	while (n) {
		size_t some = n < sizeof(u->data) ? (size_t)n : sizeof(u->data);

		if (layer_exactly(u, u->data, some, e) < 0)
			return -e->code;
		n -= some;
	}
	return 0;
}

static uint64_t layer_pad(uint64_t size)
{
	return (TAR_BLOCK - size % TAR_BLOCK) % TAR_BLOCK;
}

/* ---- places ---- */

static int layer_sys(const struct layer_tar *u, int code, struct err *e)
{
	return err_errno(e, code, "cannot unpack '%.150s'", u->t.name);
}

/* A whiteout of this archive's own stands where something is to be: then that replaces what is
 * below. 1: there was one. */
static int take_whiteout_away(int above, const char *name)
{
	struct stat st;

	if (fstatat(above, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISCHR(st.st_mode))
		return 0;
	return unlinkat(above, name, 0) < 0 ? -errno : 1;
}

static int mark_opaque(int folder)
{
	return fsetxattr(folder, OPAQUE, "y", 1, 0) < 0 ? -errno : 0;
}

/* A folder there, made if it is not; open. */
static int layer_folder(int above, const char *name)
{
	int hidden = take_whiteout_away(above, name);
	CLEANUP(fd) int fd = -1;

	if (hidden < 0)
		return hidden;
	if (mkdirat(above, name, 0755) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(above, name, FOLDER);
	if (fd < 0)
		return errno == ENOTDIR ? -ELOOP : -errno;
	if (hidden) {
		int r = mark_opaque(fd);

		if (r < 0)
			return r;
	}
	return TAKE_FD(fd);
}

/* The folder above the last component, made if it is not there; *name is that component. */
static int layer_above(const struct layer_tar *u, char *path, const char **name)
{
	CLEANUP(fd) int at = fcntl(u->folder, F_DUPFD_CLOEXEC, 3);
	unsigned depth = 0;
	char *slash;

	if (at < 0)
		return -errno;
	for (; (slash = strchr(path, '/')); path = slash + 1) {
		int next;

		if (++depth > LAYER_TAR_DEPTH)
			return -ENAMETOOLONG;
		*slash = '\0';
		next = layer_folder(at, path);
		*slash = '/';
		if (next < 0)
			return next;
		(void)fd_close(at);
		at = next;
	}
	*name = path;
	return TAKE_FD(at);
}

/* Nothing has that name afterwards. */
static int layer_clear(int above, const char *name)
{
	if (unlinkat(above, name, 0) == 0 || errno == ENOENT)
		return 0;
	return errno == EISDIR || errno == EPERM ? -EISDIR : -errno;
}

/* ---- entries ---- */

static int layer_make_folder(const struct layer_tar *u, int above, const char *name)
{
	CLEANUP(fd) int fd = layer_folder(above, name);

	if (fd < 0)
		return fd;
	return fchmod(fd, (u->t.mode & 0777) | 0700) < 0 ? -errno : 0;
}

static int layer_make_file(struct layer_tar *u, int above, const char *name, struct err *e)
{
	const struct timespec times[] = { { .tv_nsec = UTIME_OMIT }, { .tv_sec = u->t.mtime } };
	int r = layer_clear(above, name);
	CLEANUP(fd) int fd = -1;

	if (r < 0)
		return layer_sys(u, r, e);
	fd = openat(above, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return layer_sys(u, -errno, e);
	for (uint64_t left = u->t.size; left;) {
		size_t some = left < sizeof(u->data) ? (size_t)left : sizeof(u->data);

		if (layer_exactly(u, u->data, some, e) < 0)
			return -e->code;
		r = fd_write_all(fd, u->data, some);
		if (r < 0)
			return layer_sys(u, r, e);
		left -= some;
	}
	if (fchmod(fd, (u->t.mode & 0777) | 0400) < 0 || futimens(fd, times) < 0)
		return layer_sys(u, -errno, e);
	return 0;
}

static int layer_make_link(const struct layer_tar *u, int above, const char *name)
{
	int r = layer_clear(above, name);

	if (r < 0)
		return r;
	return symlinkat(u->t.target, above, name) < 0 ? -errno : 0;
}

static int layer_make_hard(struct layer_tar *u, int above, const char *name, struct err *e)
{
	const char *goal = NULL;
	CLEANUP(fd) int from = -1;
	struct stat st;
	int r;

	if (!tar_clean_name(u->t.target) || !*u->t.target)
		return layer_bad(u, "is a hard link that leads out of it", e);
	from = layer_above(u, u->t.target, &goal);
	if (from < 0 || fstatat(from, goal, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !(S_ISREG(st.st_mode) || S_ISLNK(st.st_mode)))
		return layer_bad(u, "is a hard link to what is not a file of this layer", e);
	if (str_eq(u->t.name, u->t.target))
		return 0;
	r = layer_clear(above, name);
	if (r == 0)
		r = linkat(from, goal, above, name, 0) < 0 ? -errno : 0;
	return r < 0 ? layer_sys(u, r, e) : 0;
}

/* What is below has this name, and is not to be seen. What this layer itself has by that name
 * stays, and replaces it. */
static int layer_make_whiteout(struct layer_tar *u, int above, const char *name, struct err *e)
{
	const char *hides = name + strlen(WHITEOUT);
	CLEANUP(fd) int there = -1;
	int r;

	if (str_eq(name, WHITEOUT_OPAQUE)) {
		r = mark_opaque(above);
		return r < 0 ? layer_sys(u, r, e) : 0;
	}
	if (str_starts(name, WHITEOUT_OTHER)) /* of another kind of union: says nothing of files */
		return 0;
	if (!*hides || str_eq(hides, ".") || str_eq(hides, ".."))
		return layer_bad(u, "hides no name", e);
	if (mknodat(above, hides, S_IFCHR, 0) == 0)
		return 0;
	if (errno != EEXIST)
		return layer_sys(u, -errno, e);
	there = openat(above, hides, FOLDER);
	r = there < 0 ? 0 : mark_opaque(there);
	return r < 0 ? layer_sys(u, r, e) : 0;
}

static int layer_make(struct layer_tar *u, int above, const char *name, struct err *e)
{
	int r;

	if (str_starts(name, WHITEOUT))
		return layer_make_whiteout(u, above, name, e);
	switch (u->t.type) {
	case TAR_FILE:
		return layer_make_file(u, above, name, e);
	case TAR_HARDLINK:
		return layer_make_hard(u, above, name, e);
	case TAR_FOLDER:
		r = layer_make_folder(u, above, name);
		break;
	case TAR_LINK:
		r = layer_make_link(u, above, name);
		break;
	default:
		return layer_bad(u, "is a sparse file, or of a kind that nobody knows", e);
	}
	if (r == -ELOOP)
		return layer_bad(u, "is a folder where this layer has something else", e);
	return r < 0 ? layer_sys(u, r, e) : 0;
}

static int layer_place(struct layer_tar *u, struct err *e)
{
	const char *name = NULL;
	CLEANUP(fd) int above = -1;

	if (!tar_clean_name(u->t.name))
		return layer_bad(u, "leads out of it", e);
	if (!*u->t.name)
		return u->t.type == TAR_FOLDER ? 0 : layer_bad(u, "has no name", e);
	if (u->t.type == TAR_NODE) {
		u->tally.left_out++;
		return 0;
	}
	above = layer_above(u, u->t.name, &name);
	if (above == -ELOOP)
		return layer_bad(u, "lies below a link, or a file, of this layer", e);
	if (above == -ENAMETOOLONG)
		return layer_bad(u, "lies in too many folders", e);
	return above < 0 ? layer_sys(u, above, e) : layer_make(u, above, name, e);
}

/* ---- the archive ---- */

static bool layer_is_capable(const char *text, size_t n)
{
	static const char key[] = "xattr.security.capability=";

	return memmem(text, n, key, sizeof(key) - 1);
}

static int layer_meta(struct layer_tar *u, struct err *e)
{
	char *text = u->t.type == TAR_LONGLINK ? u->said.target : u->said.name;
	uint64_t n = u->t.size;

	if (n > sizeof(u->meta))
		return layer_bad(u, "has a preface that is too long", e);
	if (layer_exactly(u, u->meta, (size_t)n, e) < 0 || layer_pass(u, layer_pad(n), e) < 0)
		return -e->code;
	if (u->t.type == TAR_GLOBAL)
		return 0;
	if (u->t.type == TAR_PAX) {
		u->capable |= layer_is_capable(u->meta, (size_t)n);
		return tar_parse_pax(u->meta, (size_t)n, &u->said, &u->sized) < 0
			       ? layer_bad(u, "has a preface that makes no sense, or is sparse", e)
			       : 0;
	}
	n = strnlen(u->meta, (size_t)n);
	if (n >= TAR_NAME_MAX)
		return layer_bad(u, "has a name that is too long", e);
	memcpy(text, u->meta, (size_t)n);
	text[n] = '\0';
	return 0;
}

static int layer_entry(struct layer_tar *u, bool set_id, struct err *e)
{
	uint64_t behind;

	if (*u->said.name)
		memcpy(u->t.name, u->said.name, sizeof(u->t.name));
	if (*u->said.target)
		memcpy(u->t.target, u->said.target, sizeof(u->t.target));
	if (u->sized)
		u->t.size = u->said.size;
	u->said.name[0] = u->said.target[0] = '\0';
	u->tally.dropped += u->t.type == TAR_FILE && (set_id || u->capable);
	u->sized = u->capable = false;
	/* Links and folders have no data, whatever their size says. */
	if (u->t.type != TAR_FILE)
		u->t.size = 0;
	if (u->t.size > u->left.bytes)
		return err_set(e, ERR_POLICY, EFBIG,
			       "the layer is refused: its files are larger than what is allowed");
	u->left.bytes -= u->t.size;
	u->tally.bytes += u->t.size;
	u->tally.names++;
	behind = u->t.size + layer_pad(u->t.size);
	if (str_starts(strrchr(u->t.name, '/') ? strrchr(u->t.name, '/') + 1 : u->t.name, WHITEOUT))
		return layer_place(u, e) < 0 ? -e->code : layer_pass(u, behind, e);
	return layer_place(u, e) < 0 ? -e->code : layer_pass(u, layer_pad(u->t.size), e);
}

static bool layer_has_set_id(const char block[TAR_BLOCK])
{
	char digits[MODE_LEN + 1] = { 0 };

	memcpy(digits, block + MODE_AT, MODE_LEN);
	return strtoul(digits, NULL, 8) & 06000;
}

static int layer_unpack_all(struct layer_tar *u, struct err *e)
{
	char block[TAR_BLOCK];

	for (;;) {
		if (layer_exactly(u, block, sizeof(block), e) < 0)
			return -e->code;
		if (tar_parse(block, &u->t) < 0)
			return err_set(e, ERR_POLICY, EBADMSG,
				       "the layer is refused: an entry of its archive is damaged");
		if (u->t.type == TAR_END)
			return 0;
		if (!u->left.names)
			return err_set(e, ERR_POLICY, EFBIG,
				       "the layer is refused: it has too many names");
		u->left.names--;
		if (u->t.type == TAR_LONGNAME || u->t.type == TAR_LONGLINK ||
		    u->t.type == TAR_PAX || u->t.type == TAR_GLOBAL) {
			if (layer_meta(u, e) < 0)
				return -e->code;
		} else if (layer_entry(u, layer_has_set_id(block), e) < 0) {
			return -e->code;
		}
	}
}

int layer_tar_unpack(int folder, const struct layer_tar_limits *l, layer_get_fn *get, void *arg,
		     struct unpack_tally *ret, struct err *e)
{
	CLEANUP(mem) struct layer_tar *u = calloc(1, sizeof(*u));

	if (!u)
		return err_nomem(e);
	u->folder = folder;
	u->left = *l;
	u->get = get;
	u->arg = arg;
	if (layer_unpack_all(u, e) < 0)
		return -e->code;
	*ret = u->tally;
	return 0;
}
