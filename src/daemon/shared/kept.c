/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/shared/kept.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "base/files/fd.h"

#define MAGIC "brig-ex2"

struct kept_head {
	char magic[8];
	uint8_t told;   /* by the daemon, the only thing it writes */
	uint8_t end[7]; /* where the last frame is, the lowest byte first; 0: there is none yet */
};

struct frame_head {
	uint32_t kind, size;
};

int kept_create(int folder, const char *id, struct kept_writer *ret)
{
	struct kept_head h = { .magic = MAGIC };
	CLEANUP(fd)
	int fd = openat(folder, id, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	int r = fd < 0 ? -errno : fd_write_all(fd, &h, sizeof(h));

	if (r < 0)
		return r;
	*ret = (struct kept_writer){ .fd = TAKE_FD(fd), .size = sizeof(h) };
	return 0;
}

/* Whoever asks how it ended need not go through all that it wrote: frames may be a byte each. */
static int note_end(const struct kept_writer *k)
{
	struct kept_head h;

	for (size_t i = 0; i < sizeof(h.end); i++)
		h.end[i] = (uint8_t)(k->size >> (8 * i));
	return pwrite(k->fd, h.end, sizeof(h.end), offsetof(struct kept_head, end)) ==
			       (ssize_t)sizeof(h.end)
		       ? 0
		       : -EIO;
}

int kept_add(struct kept_writer *k, enum kept_kind kind, const void *p, size_t n)
{
	struct frame_head h = { .kind = kind, .size = (uint32_t)n };
	struct iovec v[] = { { .iov_base = &h, .iov_len = sizeof(h) },
			     { .iov_base = (void *)(uintptr_t)p, .iov_len = n } };
	ssize_t w;

	if (n > KEPT_FRAME_MAX)
		return -E2BIG;
	do
		w = pwritev(k->fd, v, 2, (off_t)k->size);
	while (w < 0 && errno == EINTR);
	if (w < 0)
		return -errno;
	if ((size_t)w != sizeof(h) + n) {
		/* On a full disk: half a frame is none, and the next one takes its place. */
		(void)!ftruncate(k->fd, (off_t)k->size);
		return -ENOSPC;
	}
	if (kind == KEPT_END && note_end(k) < 0)
		return -EIO;
	k->size += sizeof(h) + n;
	return 0;
}

void kept_close(struct kept_writer *k)
{
	k->fd = fd_close(k->fd);
}

int kept_open(int folder, const char *id, int *ret)
{
	int fd = openat(folder, id, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);

	*ret = fd;
	return fd < 0 ? -errno : 0;
}

void kept_begin(struct kept_at *at)
{
	*at = (struct kept_at){ .pos = sizeof(struct kept_head) };
}

int kept_look(int fd, const struct kept_at *at, struct kept_frame *ret)
{
	struct frame_head h;
	struct stat st;
	ssize_t n = pread(fd, &h, sizeof(h), (off_t)at->pos);

	if (n < 0)
		return -errno;
	if (n < (ssize_t)sizeof(h))
		return 0;
	if (h.kind < KEPT_OUTPUT || h.kind > KEPT_SHOWN || h.size > KEPT_FRAME_MAX ||
	    at->into > h.size)
		return -EBADMSG;
	if (fstat(fd, &st) < 0)
		return -errno;
	if ((uint64_t)st.st_size < at->pos + sizeof(h) + h.size)
		return 0;
	*ret = (struct kept_frame){ .kind = (enum kept_kind)h.kind, .size = h.size - at->into };
	return 1;
}

ssize_t kept_read(int fd, const struct kept_at *at, const struct kept_frame *f, void *p, size_t n)
{
	off_t from = (off_t)(at->pos + sizeof(struct frame_head) + at->into);
	ssize_t r = pread(fd, p, n < f->size ? n : (size_t)f->size, from);

	return r < 0 ? -errno : r;
}

void kept_step(struct kept_at *at, const struct kept_frame *f, uint64_t n)
{
	if (f->kind <= KEPT_ERRORS)
		at->seq += n;
	at->into += n;
	if (n < f->size)
		return;
	at->pos += sizeof(struct frame_head) + at->into;
	at->into = 0;
}

/* Where the frame of a kind is; false: there is none. An earlier version did not note the last. */
static bool kept_find(int fd, enum kept_kind kind, struct kept_at *at, struct kept_frame *f)
{
	struct kept_head h;
	bool noted;

	kept_begin(at);
	if (pread(fd, &h, sizeof(h), 0) != (ssize_t)sizeof(h))
		return false;
	noted = memcmp(h.magic, MAGIC, sizeof(h.magic)) == 0;
	if (kind == KEPT_END && noted) {
		at->pos = 0;
		for (size_t i = 0; i < sizeof(h.end); i++)
			at->pos |= (uint64_t)h.end[i] << (8 * i);
	}
	while (at->pos && kept_look(fd, at, f) == 1) {
		if (f->kind == kind || noted || kind == KEPT_BEGIN)
			return f->kind == kind;
		kept_step(at, f, f->size);
	}
	return false;
}

char *kept_text(int fd, enum kept_kind kind, size_t *n)
{
	struct kept_frame f;
	struct kept_at at;
	char *text;

	if (!kept_find(fd, kind, &at, &f))
		return NULL;
	text = malloc((size_t)f.size + 1);
	if (!text)
		return NULL;
	*n = (size_t)f.size;
	if (kept_read(fd, &at, &f, text, *n) != (ssize_t)*n) {
		free(text);
		return NULL;
	}
	text[*n] = '\0';
	return text;
}

bool kept_told(int fd)
{
	uint8_t told = 0;

	return pread(fd, &told, 1, offsetof(struct kept_head, told)) == 1 && told;
}

void kept_tell(int folder, const char *id)
{
	CLEANUP(fd) int fd = openat(folder, id, O_WRONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	uint8_t told = 1;

	if (fd >= 0)
		(void)!pwrite(fd, &told, 1, offsetof(struct kept_head, told));
}
