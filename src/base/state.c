/* SPDX-License-Identifier: Apache-2.0 */
#include "base/state.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"

#define FOLDER (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

static int make_parents(const char *path)
{
	char part[PATH_MAX];

	for (const char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
		(void)snprintf(part, sizeof(part), "%.*s", (int)(at - path), path);
		if (mkdir(part, 0700) < 0 && errno != EEXIST)
			return -errno;
	}
	return mkdir(path, 0700) < 0 && errno != EEXIST ? -errno : 0;
}

/* Opens a folder, making it, and what is above it, only when it is not there. */
static int open_made(const char *path, int flags)
{
	int fd = open(path, FOLDER | flags);

	if (fd < 0 && errno == ENOENT && make_parents(path) == 0)
		fd = open(path, FOLDER | flags);
	return fd;
}

/* A folder of our own, or nothing: in /tmp anybody may have been there first. `path` has the base
 * and gets the folder below it. */
static int try_base(const char *sub, uid_t me, bool make, char *path, size_t n)
{
	CLEANUP(fd) int fd = make ? open_made(path, O_PATH) : open(path, FOLDER | O_PATH);
	size_t len = strlen(path);
	struct stat st;
	int below;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -1;
	errno = EACCES;
	if (st.st_uid != me || (st.st_mode & 022) ||
	    snprintf(path + len, n - len, "/%s", sub) >= (int)(n - len))
		return -1;
	below = openat(fd, sub, FOLDER);
	return below < 0 && errno == ENOENT && make ? open_made(path, 0) : below;
}

/* The folder of the first choice. */
int state_path(char *path, size_t n)
{
	const char *xdg = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
	int len = -1;

	if (xdg && xdg[0] == '/')
		len = snprintf(path, n, "%s/brig", xdg);
	else if (geteuid() == 0)
		len = snprintf(path, n, "/var/lib/brig");
	else if (home && home[0] == '/')
		len = snprintf(path, n, "%s/.local/state/brig", home);
	return len >= 0 && (size_t)len < n ? 0 : -ENOENT;
}

static int base_path(int which, uid_t me, char *path, size_t n)
{
	const char *run = which == 1 ? getenv("XDG_RUNTIME_DIR") : NULL;
	int len = -1;

	if (which == 0)
		return state_path(path, n);
	if (which == 2)
		len = snprintf(path, n, "/tmp/brig-%u", me);
	else if (run && run[0] == '/')
		len = snprintf(path, n, "%s/brig", run);
	return len >= 0 && (size_t)len < n ? 0 : -ENOENT;
}

/* What says nothing about the place: the next one would be taken for the first by mistake. */
static bool out_of_means(int code)
{
	return code == EMFILE || code == ENFILE || code == ENOMEM;
}

/* Every place it may be, the best first; -1 when it is (or can be made) in none of them. A run
 * comes here more than once: one buffer, so that no page of the stack is touched for the other
 * places. */
static int try_all(const char *sub, bool make, char *path, size_t n)
{
	uid_t me = geteuid();

	for (int which = 0; which < 3; which++) {
		int fd;

		if (base_path(which, me, path, n) < 0)
			continue;
		fd = try_base(sub, me, make, path, n);
		if (fd >= 0 || out_of_means(errno))
			return fd;
	}
	errno = EACCES;
	return -1;
}

int state_open(const char *sub, char *path, size_t n, struct err *e)
{
	char own[PATH_MAX];
	int fd = try_all(sub, true, path ? path : own, path ? n : sizeof(own));

	if (fd >= 0)
		return fd;
	if (out_of_means(errno))
		return err_sys(e, "cannot open the folder of brig's own state");
	return err_set(e, ERR_UNAVAILABLE, EACCES, "no folder for brig's own state can be made"),
	       err_hint(e, "set XDG_STATE_HOME to a folder you may write to");
}

int state_find(const char *sub, char *path, size_t n)
{
	char own[PATH_MAX];

	return try_all(sub, false, path ? path : own, path ? n : sizeof(own));
}
