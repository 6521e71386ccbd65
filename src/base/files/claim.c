/* SPDX-License-Identifier: Apache-2.0 */
#include "base/files/claim.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>

#include "base/files/folder.h"

#define LOOK_MS 10

bool claim_is_id(const char *name)
{
	return strlen(name) == CLAIM_ID && strspn(name, "0123456789abcdef") == CLAIM_ID;
}

int claim_make(int folder, const char *id, const char *text, size_t n)
{
	CLEANUP(fd) int fd = openat(folder, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	char link[64];
	int r;

	if (fd < 0)
		return -errno;
	if (n >= CLAIM_TEXT)
		return -ENAMETOOLONG;
	(void)flock(fd, LOCK_EX | LOCK_NB);
	r = fd_write_all(fd, text, n);
	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	if (r == 0 && linkat(AT_FDCWD, link, folder, id, AT_SYMLINK_FOLLOW) < 0)
		r = -errno;
	return r < 0 ? r : TAKE_FD(fd);
}

bool claim_lock(int fd, unsigned ms)
{
	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK || ms < LOOK_MS)
			return false;
		(void)poll(NULL, 0, LOOK_MS); /* allow poll: base/sys is above this */
		ms -= LOOK_MS;
	}
	return true;
}

static int claim_open(int folder, const char *id)
{
	return openat(folder, id, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
}

bool claim_held(int folder, const char *id)
{
	CLEANUP(fd) int fd = claim_open(folder, id);

	return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0;
}

/* One that has lost its name meanwhile was removed by another process. */
void claim_show(int folder, const char *id, unsigned ms, claim_lost_fn *fn, void *arg)
{
	CLEANUP(fd) int fd = claim_open(folder, id);
	struct claim_lost c = { .folder = folder, .id = id };
	char text[CLAIM_TEXT];
	struct stat st;
	ssize_t n;

	if (fd < 0 || !claim_lock(fd, ms) || fstat(fd, &st) < 0 || !st.st_nlink)
		return;
	n = pread(fd, text, sizeof(text) - 1, 0);
	if (n < 0)
		return;
	text[n] = '\0';
	c.text = text;
	c.age = time(NULL) - st.st_mtime;
	if (fn(arg, &c))
		(void)unlinkat(folder, id, 0);
}

void claim_sweep(int folder, size_t most, claim_lost_fn *fn, void *arg)
{
	const struct fd_entry *d;
	struct folder f;

	if (lseek(folder, 0, SEEK_SET) < 0)
		return;
	folder_begin(&f, folder);
	while (most && (d = folder_next(&f)))
		if (claim_is_id(d->name)) {
			claim_show(folder, d->name, 0, fn, arg);
			most--;
		}
}
