/* SPDX-License-Identifier: Apache-2.0 */
/* base/files/fd.h - descriptors and the system calls around them that libc of Debian 12 does not
 * wrap.
 *
 * Everything here is safe between clone and exec. A call the kernel does not know is emulated where
 * that can be done without losing a promise; the comment says how. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/text/cleanup.h"

/* What an object is, so that a second look can tell whether it is still the same one. */
struct ident {
	dev_t dev;
	ino_t ino;
	mode_t type; /* S_IFMT bits */
};

/* "file", "folder", "link" or "other". */
const char *fd_kind_name(mode_t mode);

struct ident ident_of(const struct stat *st);
bool ident_same(const struct ident *a, const struct ident *b);

/* The same, and whether it was changed meanwhile: nobody but the kernel sets ctime. */
struct stamp {
	struct ident ident;
	off_t size;
	struct timespec mtime, ctime;
};

struct stamp stamp_of(const struct stat *st);
bool stamp_same(const struct stamp *a, const struct stamp *b);
bool time_before(const struct timespec *a, const struct timespec *b);

enum {
	FD_BENEATH = 1, /* never above the start directory; absolute paths are refused */
	FD_IN_ROOT = 2, /* the start directory acts as "/" */
};

/* Opens path without following a single symbolic or magic link: openat2, or a walk component by
 * component where the kernel has no openat2. Returns a descriptor or -errno (-ELOOP: a link). */
int fd_open_nolinks(int dirfd, const char *path, int flags, unsigned how);

/* Where the kernel says that it is: a path only where it begins with a slash. 0 or -errno,
 * which errno is, too. */
int fd_real_path(int fd, char out[PATH_MAX]);

int fd_write_all(int fd, const void *p, size_t n); /* 0 or -errno; retries EINTR */
int fd_read_all(int fd, void *p, size_t n);        /* likewise; -ENODATA: it ends before that */
int fd_write_file(int dirfd, const char *path,
		  const char *text); /* existing file, one write; 0 or -errno */
ssize_t fd_read_file(int dirfd, const char *path, char *out,
		     size_t n); /* NUL-terminated; length or -errno */

/* What getdents64 fills a buffer with; reclen leads to the next. */
struct fd_entry {
	uint64_t ino;
	int64_t off;
	unsigned short reclen;
	unsigned char type;
	char name[];
};

int fd_close_range(int first, int last); /* close_range, or /proc/self/fd; 0 or -errno */
int fd_close_except(int first, const int *keep, size_t n); /* all from first on but those n */
int fd_send(int sock, const void *p, size_t n, const int *fds, size_t nfds); /* 0 or -errno */
ssize_t fd_recv(int sock, void *p, size_t n, int *fds,
		size_t *nfds); /* *nfds in: room, out: received */

/* Makes sure that 0, 1 and 2 are open, so that nothing of ours can land there. */
int fd_ensure_stdio(void);

/* As many descriptors as the hard limit lets this process have. */
void fd_raise_limit(void);
