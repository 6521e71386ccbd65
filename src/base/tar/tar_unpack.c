/* SPDX-License-Identifier: Apache-2.0 */
/* base/tar/tar_unpack.c - what an archive says becomes files, beneath one folder.
 *
 * Whoever wrote the archive, and whoever else writes to the folder meanwhile, is hostile: each
 * name is walked from the folder on, component by component, without following a link, and what
 * is made is made anew. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/files/draft.h"
#include "base/files/fd.h"
#include "base/tar/tar.h"

#define META_MAX ((uint64_t)64 << 10) /* names, and what pax says */

struct unpack {
	int folder;
	struct tar_limits *l;
	tar_get_fn *get;
	tar_save_fn *save;
	void *arg;
	struct tar_entry t, said; /* said: by what stood in front of the entry */
	bool sized;
	char meta[META_MAX];
};

static int skip(const struct unpack *u, uint64_t n)
{
	char dust[4096];

	while (n) {
		size_t some = n < sizeof(dust) ? (size_t)n : sizeof(dust);
		int r = u->get(u->arg, dust, some);

		if (r < 0)
			return r;
		n -= some;
	}
	return 0;
}

static uint64_t padding(uint64_t size)
{
	return (TAR_BLOCK - size % TAR_BLOCK) % TAR_BLOCK;
}

/* ---- beneath ---- */

/* The folder above the last component, made if it is not there; *name is that component. */
static int open_above(const struct unpack *u, char *path, const char **name)
{
	CLEANUP(fd) int at = fcntl(u->folder, F_DUPFD_CLOEXEC, 3);
	unsigned depth = 0;
	char *slash;

	if (at < 0)
		return -errno;
	for (; (slash = strchr(path, '/')); path = slash + 1) {
		int next;

		if (++depth > TAR_DEPTH_MAX)
			return -ENAMETOOLONG;
		*slash = '\0';
		if (mkdirat(at, path, 0755) < 0 && errno != EEXIST)
			return -errno;
		next = openat(at, path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (next < 0)
			return errno == ENOTDIR ? -ELOOP : -errno;
		(void)fd_close(at);
		at = next;
	}
	*name = path;
	return TAKE_FD(at);
}

static int save_plainly(const struct unpack *u, int file, uint64_t n)
{
	char data[32768];

	while (n) {
		size_t some = n < sizeof(data) ? (size_t)n : sizeof(data);
		int r = u->get(u->arg, data, some);

		if (r == 0)
			r = fd_write_all(file, data, some);
		if (r < 0)
			return r;
		n -= some;
	}
	return 0;
}

static int make_file(const struct unpack *u, int above, const char *name)
{
	struct draft d;
	int r = draft_open(above, &d);

	if (r < 0)
		return r;
	r = u->save ? u->save(u->arg, d.fd, u->t.size) : save_plainly(u, d.fd, u->t.size);
	if (r == 0)
		return draft_keep(&d, name, u->t.mode & ~u->l->mask);
	draft_drop(&d);
	return r;
}

static int tar_unpack_make_folder(const struct unpack *u UNUSED, int above, const char *name)
{
	struct stat st;

	if (mkdirat(above, name, 0755) == 0)
		return 0;
	if (errno != EEXIST)
		return -errno;
	if (fstatat(above, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
}

static int make_link(const struct unpack *u, int above, const char *name)
{
	if (symlinkat(u->t.target, above, name) == 0)
		return 0;
	if (errno != EEXIST || unlinkat(above, name, 0) < 0)
		return -errno;
	return symlinkat(u->t.target, above, name) < 0 ? -errno : 0;
}

static int tar_unpack_make(struct unpack *u)
{
	const char *name = NULL;
	CLEANUP(fd) int above = -1;
	int r;

	if (!tar_clean_name(u->t.name))
		return -EBADMSG;
	if (!*u->t.name)
		return u->t.type == TAR_FOLDER ? 0 : -EBADMSG;
	above = open_above(u, u->t.name, &name);
	if (above < 0)
		return above;
	if (u->t.type == TAR_FILE)
		r = make_file(u, above, name);
	else if (u->t.type == TAR_FOLDER)
		r = tar_unpack_make_folder(u, above, name);
	else
		r = make_link(u, above, name);
	return r;
}

/* ---- entries ---- */

static int take_meta(struct unpack *u)
{
	char *text = u->t.type == TAR_LONGLINK ? u->said.target : u->said.name;
	uint64_t n = u->t.size;
	int r;

	if (n > sizeof(u->meta))
		return -EBADMSG;
	r = u->get(u->arg, u->meta, (size_t)n);
	if (r == 0)
		r = skip(u, padding(n));
	if (r < 0 || u->t.type == TAR_GLOBAL)
		return r;
	if (u->t.type == TAR_PAX)
		return tar_parse_pax(u->meta, (size_t)n, &u->said, &u->sized);
	n = strnlen(u->meta, (size_t)n);
	if (n >= TAR_NAME_MAX)
		return -EBADMSG;
	memcpy(text, u->meta, (size_t)n);
	text[n] = '\0';
	return 0;
}

static int take_entry(struct unpack *u)
{
	int r;

	if (*u->said.name)
		memcpy(u->t.name, u->said.name, sizeof(u->t.name));
	if (*u->said.target)
		memcpy(u->t.target, u->said.target, sizeof(u->t.target));
	if (u->sized)
		u->t.size = u->said.size;
	u->said.name[0] = u->said.target[0] = '\0';
	u->sized = false;
	if (u->l->drops && (u->t.type == TAR_LINK || u->t.type == TAR_HARDLINK)) {
		u->l->left_out++;
		return 0;
	}
	if (u->t.type != TAR_FILE && u->t.type != TAR_FOLDER &&
	    !(u->t.type == TAR_LINK && u->l->links))
		return -EBADMSG;
	if (u->t.type == TAR_FILE && u->t.size > u->l->bytes)
		return -EFBIG;
	if (u->t.type == TAR_FILE)
		u->l->bytes -= u->t.size;
	r = tar_unpack_make(u);
	if (r < 0)
		return r;
	return skip(u, u->t.type == TAR_FILE ? padding(u->t.size) : u->t.size + padding(u->t.size));
}

int tar_unpack(int folder, struct tar_limits *l, tar_get_fn *get, tar_save_fn *save, void *arg)
{
	struct unpack u = { .folder = folder, .l = l, .get = get, .save = save, .arg = arg };
	char block[TAR_BLOCK];

	for (;;) {
		int r = get(arg, block, sizeof(block));

		if (r == 0)
			r = tar_parse(block, &u.t);
		if (r < 0)
			return r;
		if (u.t.type == TAR_END)
			return 0;
		if (!l->entries)
			return -EFBIG;
		l->entries--;
		if (u.t.type == TAR_LONGNAME || u.t.type == TAR_LONGLINK || u.t.type == TAR_PAX ||
		    u.t.type == TAR_GLOBAL)
			r = take_meta(&u);
		else
			r = take_entry(&u);
		if (r < 0)
			return r;
	}
}
