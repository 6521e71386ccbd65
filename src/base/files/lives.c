/* SPDX-License-Identifier: Apache-2.0 */
#include "base/files/lives.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "base/text/cleanup.h"

#define FILES 16 /* of a byte each; all are asked by who wants to know whether anybody lives */
#define NAME_SIZE 16

static void lives_name(unsigned which, char out[NAME_SIZE])
{
	(void)snprintf(out, NAME_SIZE, ".lives-%x", which);
}

/* Ids that follow one another, in whatever steps, get different files. */
static unsigned lives_choose(void)
{
	return ((uint32_t)getpid() * UINT32_C(2654435769)) >> 28;
}

static int lives_lock(int fd, int how, short *type)
{
	struct flock all = { .l_type = *type, .l_whence = SEEK_SET, .l_len = 1 };
	int r = fcntl(fd, how, &all) < 0 ? -errno : 0;

	*type = all.l_type;
	return r;
}

int lives_join(int folder)
{
	CLEANUP(fd) int fd = -1;
	char name[NAME_SIZE];
	short type = F_RDLCK;
	int r;

	lives_name(lives_choose(), name);
	fd = openat(folder, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	r = lives_lock(fd, F_OFD_SETLK, &type);
	if (r < 0 && r != -ENOLCK && r != -EOPNOTSUPP && r != -ENOSYS && r != -EINVAL)
		return r;
	return TAKE_FD(fd);
}

/* A lock is its own holder's alone where it is asked for by the same descriptor. */
static bool lives_in(int folder, unsigned which, int own, const struct stat *mine)
{
	CLEANUP(fd) int fd = -1;
	short type = F_WRLCK;
	char name[NAME_SIZE];
	struct stat st;

	lives_name(which, name);
	fd = openat(folder, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno != ENOENT;
	if (own >= 0 && fstat(fd, &st) == 0 && st.st_ino == mine->st_ino &&
	    st.st_dev == mine->st_dev)
		return lives_lock(own, F_OFD_GETLK, &type) < 0 || type != F_UNLCK;
	return lives_lock(fd, F_OFD_GETLK, &type) < 0 || type != F_UNLCK;
}

bool lives_others(int folder, int own)
{
	struct stat mine;

	if (folder < 0 || (own >= 0 && fstat(own, &mine) < 0))
		return true;
	for (unsigned i = 0; i < FILES; i++)
		if (lives_in(folder, i, own, &mine))
			return true;
	return false;
}
