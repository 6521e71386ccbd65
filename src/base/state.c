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
static int open_made(const char *path)
{
	int fd = open(path, FOLDER);

	if (fd < 0 && errno == ENOENT && make_parents(path) == 0)
		fd = open(path, FOLDER);
	return fd;
}

/* A folder of our own, or nothing: in /tmp anybody may have been there first. */
static int try_base(const char *base, const char *sub, bool make, char *path, size_t n)
{
	CLEANUP(fd) int fd = make ? open_made(base) : open(base, FOLDER);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || st.st_uid != geteuid() || (st.st_mode & 022) ||
	    snprintf(path, n, "%s/%s", base, sub) >= (int)n)
		return -1;
	return make ? open_made(path) : open(path, FOLDER);
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

/* Every place it may be, the best first; -1 when it is (or can be made) in none of them. */
static int try_all(const char *sub, bool make, char *path, size_t n)
{
	const char *run = getenv("XDG_RUNTIME_DIR");
	char base[3][PATH_MAX];

	base[1][0] = '\0';
	if (state_path(base[0], PATH_MAX) < 0)
		base[0][0] = '\0';
	if (run && run[0] == '/')
		(void)snprintf(base[1], PATH_MAX, "%s/brig", run);
	(void)snprintf(base[2], PATH_MAX, "/tmp/brig-%u", geteuid());
	for (size_t i = 0; i < ARRAY_LEN(base); i++) {
		int fd = base[i][0] ? try_base(base[i], sub, make, path, n) : -1;

		if (fd >= 0)
			return fd;
	}
	return -1;
}

int state_open(const char *sub, char *path, size_t n, struct err *e)
{
	char own[PATH_MAX] = "";
	int fd = try_all(sub, true, path ? path : own, path ? n : sizeof(own));

	if (fd >= 0)
		return fd;
	return err_set(e, ERR_UNAVAILABLE, EACCES, "no folder for brig's own state can be made"),
	       err_hint(e, "set XDG_STATE_HOME to a folder you may write to");
}

int state_find(const char *sub, char *path, size_t n)
{
	return try_all(sub, false, path, n);
}
