/* SPDX-License-Identifier: Apache-2.0 */
#include "base/files/folder.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/text/str.h"

#define SHORT_ENTRY 64 /* bytes: a name of 44 */
#define LONGEST_ENTRY ((size_t)512)

void folder_begin(struct folder *f, int fd)
{
	f->fd = fd;
	f->error = 0;
	f->at = f->len = 0;
	f->room = sizeof(f->data);
}

static bool folder_fill(struct folder *f)
{
	long n = syscall(SYS_getdents64, f->fd, f->data, f->room);

	if (n < 0)
		f->error = errno;
	f->at = 0;
	f->len = n > 0 ? (size_t)n : 0;
	return n > 0;
}

const struct fd_entry *folder_next(struct folder *f)
{
	while (f->at < f->len || folder_fill(f)) {
		const struct fd_entry *e = (const void *)(f->data + f->at);

		f->at += e->reclen;
		if (!str_eq(e->name, ".") && !str_eq(e->name, ".."))
			return e;
	}
	return NULL;
}

/* The kernel looks at all that fit in what it is given; one name at least must. */
static size_t room_for(size_t few)
{
	size_t n = few * SHORT_ENTRY;

	return n < LONGEST_ENTRY ? LONGEST_ENTRY : n < FOLDER_BYTES ? n : FOLDER_BYTES;
}

/* From a place on; *place is then where to go on. true: it has come to the end. */
static bool look_from(int fd, size_t few, int64_t *place, folder_look *fn, void *arg)
{
	const struct fd_entry *e = NULL;
	struct folder f;

	if (lseek(fd, *place, SEEK_SET) < 0)
		return true;
	folder_begin(&f, fd);
	f.room = room_for(few);
	for (size_t looked = 0; looked < few && (e = folder_next(&f));) {
		*place = e->off;
		looked += fn(arg, fd, e->name);
	}
	return !e;
}

void folder_some(int fd, size_t few, int64_t *turn, folder_look *fn, void *arg)
{
	int64_t place = 0;

	if (look_from(fd, few, &place, fn, arg)) {
		*turn = 0;
		return;
	}
	if (!*turn)
		*turn = place;
	if (look_from(fd, few, turn, fn, arg))
		*turn = 0;
}
