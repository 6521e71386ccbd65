/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/limits/memfds.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "base/text/cleanup.h"

#define INODE_BYTES 1024 /* about what an empty one takes */

/* A folder of /proc, entry by entry. */
struct memfd_walk {
	_Alignas(8) char data[8192];
	int fd;
	long n, at;
};

static const char *next(struct memfd_walk *w)
{
	const struct fd_entry *d;

	if (w->at >= w->n) {
		w->n = syscall(SYS_getdents64, w->fd, w->data, sizeof(w->data));
		w->at = 0;
	}
	if (w->n <= 0)
		return NULL;
	d = (const void *)(w->data + w->at);
	w->at += d->reclen;
	return d->name;
}

static dev_t own_device(void)
{
	CLEANUP(fd) int fd = memfd_create("brig-device", MFD_CLOEXEC);
	struct stat st;

	return fd < 0 || fstat(fd, &st) < 0 ? 0 : st.st_dev;
}

static bool is_new(struct memfds *m, uint64_t inode)
{
	for (size_t i = 0; i < m->n; i++)
		if (m->seen[i] == inode)
			return false;
	if (m->n < MEMFDS_MAX)
		m->seen[m->n++] = inode;
	return true;
}

/* Returns how many descriptors were looked at. */
static int of_process(struct memfds *m, int procfd, const char *pid)
{
	struct memfd_walk w = { .fd = -1 };
	char path[40];
	int looked = 0;

	(void)snprintf(path, sizeof(path), "%.11s/fd", pid);
	w.fd = openat(procfd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (const char *name; w.fd >= 0 && (name = next(&w));) {
		struct stat st;

		looked++;
		if (name[0] != '.' && fstatat(w.fd, name, &st, AT_NO_AUTOMOUNT) == 0 &&
		    st.st_dev == m->device && is_new(m, st.st_ino))
			m->sum += (uint64_t)st.st_blocks * 512 + INODE_BYTES;
	}
	(void)fd_close(w.fd);
	return looked;
}

/* The threads of a process share its descriptors, and the first one may have ended. */
static int of_threads(struct memfds *m, int procfd, const char *pid)
{
	struct memfd_walk w = { .fd = -1 };
	char path[24];
	int looked = of_process(m, procfd, pid);

	if (looked > 0)
		return looked;
	(void)snprintf(path, sizeof(path), "%.11s/task", pid);
	w.fd = openat(procfd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (const char *tid; looked == 0 && w.fd >= 0 && (tid = next(&w));)
		if (tid[0] != '.')
			looked = of_process(m, procfd, tid);
	(void)fd_close(w.fd);
	return looked;
}

uint64_t memfds_step(struct memfds *m, int procfd)
{
	struct memfd_walk w = { .fd = openat(procfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) };
	int looked = 0;

	if (!m->device)
		m->device = own_device();
	if (!m->behind)
		m->sum = m->n = 0;
	for (const char *name; w.fd >= 0 && looked < MEMFDS_STEP;) {
		long pid;

		name = next(&w);
		if (!name) {
			m->behind = 0;
			m->last = m->sum;
			break;
		}
		pid = strtol(name, NULL, 10);
		if (pid <= 1 || pid <= m->behind)
			continue;
		looked += of_threads(m, procfd, name);
		m->behind = pid;
	}
	(void)fd_close(w.fd);
	return m->sum > m->last ? m->sum : m->last;
}
