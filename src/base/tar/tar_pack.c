/* SPDX-License-Identifier: Apache-2.0 */
/* base/tar/tar_pack.c - a folder as an archive. The tree may change while it is read. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "base/files/folder.h"
#include "base/tar/tar.h"

struct pack {
	struct tar_limits *l;
	tar_put_fn *put;
	tar_copy_fn *copy;
	void *arg;
	struct tar_entry t; /* its name is the path so far */
};

static int put_zeros(const struct pack *p, uint64_t n)
{
	static const char zeros[4096];

	while (n) {
		size_t some = n < sizeof(zeros) ? (size_t)n : sizeof(zeros);
		int r = p->put(p->arg, zeros, some);

		if (r < 0)
			return r;
		n -= some;
	}
	return 0;
}

/* How much it was. */
static int64_t copy_plainly(const struct pack *p, int file, uint64_t n)
{
	char data[32768];
	uint64_t done = 0;

	while (done < n) {
		size_t want = n - done < sizeof(data) ? (size_t)(n - done) : sizeof(data);
		ssize_t got = read(file, data, want);
		int r;

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		r = p->put(p->arg, data, (size_t)got);
		if (r < 0)
			return r;
		done += (uint64_t)got;
	}
	return (int64_t)done;
}

/* As long as its header says: what is missing by now is zeros. */
static int tar_pack_put_file(struct pack *p, int file, const struct stat *st)
{
	uint64_t size = (uint64_t)st->st_size;
	int64_t done;
	int r;

	if (size > p->l->bytes)
		return -EFBIG;
	p->l->bytes -= size;
	p->t.type = TAR_FILE;
	p->t.mode = st->st_mode & 0777;
	p->t.mtime = st->st_mtime;
	p->t.size = size;
	r = tar_put_entry(p->put, p->arg, &p->t);
	if (r < 0)
		return r;
	done = p->copy ? p->copy(p->arg, file, size) : copy_plainly(p, file, size);
	if (done < 0)
		return (int)done;
	return put_zeros(p, (size - (uint64_t)done) + (TAR_BLOCK - size % TAR_BLOCK) % TAR_BLOCK);
}

static void leave_out(const struct pack *p)
{
	p->l->left_out++;
	if (p->l->left)
		p->l->left(p->arg, p->t.name);
}

static int put_link(struct pack *p, int folder, const char *name)
{
	ssize_t n = readlinkat(folder, name, p->t.target, sizeof(p->t.target) - 1);

	if (!p->l->links || n <= 0) {
		leave_out(p);
		return 0;
	}
	p->t.target[n] = '\0';
	p->t.type = TAR_LINK;
	p->t.mode = 0777;
	p->t.size = 0;
	return tar_put_entry(p->put, p->arg, &p->t);
}

static int tar_pack_walk(struct pack *p, int folder, unsigned depth);

static int put_folder(struct pack *p, int fd, const struct stat *st, unsigned depth)
{
	size_t n = strlen(p->t.name);
	int r;

	if (depth == TAR_DEPTH_MAX || n + 1 >= sizeof(p->t.name))
		return -ENAMETOOLONG;
	p->t.name[n] = '/';
	p->t.name[n + 1] = '\0';
	p->t.type = TAR_FOLDER;
	p->t.mode = st->st_mode & 0777;
	p->t.mtime = st->st_mtime;
	p->t.size = 0;
	r = tar_put_entry(p->put, p->arg, &p->t);
	return r < 0 ? r : tar_pack_walk(p, fd, depth + 1);
}

/* A file without a name is what is shown where a missing one is held, or was removed meanwhile. */
static bool is_packed(const struct stat *st)
{
	return S_ISDIR(st->st_mode) || (S_ISREG(st->st_mode) && st->st_nlink);
}

/* Whatever it has become since its name was read. */
static int put_one(struct pack *p, int folder, const char *name, unsigned depth)
{
	CLEANUP(fd)
	int fd = openat(folder, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (!p->l->entries)
		return -EFBIG;
	p->l->entries--;
	if (fd < 0 && errno == ELOOP)
		return put_link(p, folder, name);
	if (fd < 0 || fstat(fd, &st) < 0 || !is_packed(&st)) {
		if (fd >= 0 || errno != ENOENT)
			leave_out(p);
		return 0;
	}
	return S_ISDIR(st.st_mode) ? put_folder(p, fd, &st, depth) : tar_pack_put_file(p, fd, &st);
}

static int tar_pack_walk(struct pack *p, int folder, unsigned depth)
{
	size_t n = strlen(p->t.name);
	const struct fd_entry *d;
	struct folder f;
	int r = 0;

	folder_begin(&f, folder);
	while (r == 0 && (d = folder_next(&f))) {
		size_t len = strlen(d->name);

		if (n + len + 2 >= sizeof(p->t.name))
			return -ENAMETOOLONG;
		memcpy(p->t.name + n, d->name, len + 1);
		if (p->l->look)
			r = p->l->look(p->arg, folder, d->name, p->t.name);
		if (r > 0) {
			r = 0;
			p->t.name[n] = '\0';
			continue;
		}
		if (r < 0)
			break;
		/* A device is looked at before it is opened, as far as that tells. */
		if (d->type == 2 || d->type == 6) /* DT_CHR, DT_BLK */
			leave_out(p);
		else
			r = put_one(p, folder, d->name, depth);
		p->t.name[n] = '\0';
	}
	return r < 0 ? r : -f.error;
}

int tar_pack(int folder, struct tar_limits *l, tar_put_fn *put, tar_copy_fn *copy, void *arg)
{
	struct pack p = { .l = l, .put = put, .copy = copy, .arg = arg };

	return tar_pack_walk(&p, folder, 0);
}

int tar_pack_file(int file, const char *name, struct tar_limits *l, tar_put_fn *put,
		  tar_copy_fn *copy, void *arg)
{
	struct pack p = { .l = l, .put = put, .copy = copy, .arg = arg };
	struct stat st;

	if (fstat(file, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if (snprintf(p.t.name, sizeof(p.t.name), "%s", name) >= (int)sizeof(p.t.name))
		return -ENAMETOOLONG;
	return tar_pack_put_file(&p, file, &st);
}
