/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/client/place.c - where the daemon's socket and tokens are. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/state.h"
#include "base/text/cleanup.h"
#include "daemon/daemon.h"

#define ROOT_FOLDER "/run/brig"
#define NAME "brig.sock"

static bool place_is_ours(const char *folder)
{
	struct stat st;

	return lstat(folder, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
	       !(st.st_mode & 077);
}

/* A folder of the session that is this user's alone; false: there is none. */
static bool session_folder(char *out, size_t n)
{
	const char *run = getenv("XDG_RUNTIME_DIR");

	if (run && run[0] == '/' && strlen(run) < n) {
		(void)snprintf(out, n, "%s", run);
		return place_is_ours(out);
	}
	(void)snprintf(out, n, "/run/user/%u", geteuid());
	return place_is_ours(out);
}

static int in_folder(const char *folder, char *path, size_t n, bool make, struct err *e)
{
	if (make && mkdir(folder, 0700) < 0 && errno != EEXIST) {
		(void)err_sys(e, "cannot make '%.200s'", folder);
		return err_hint(e, "XDG_RUNTIME_DIR names a folder of yours that can be written");
	}
	if (make && !place_is_ours(folder)) {
		(void)err_set(e, ERR_POLICY, EPERM,
			      "'%.200s' must be yours and closed to everybody else", folder);
		return err_hint(e, "chmod 700 '%.200s'", folder);
	}
	if (snprintf(path, n, "%s/" NAME, folder) >= (int)n)
		return err_set(e, ERR_CONFIG, ENAMETOOLONG, "'%.200s' is too long a path", folder);
	return 0;
}

int daemon_socket_path(char *path, size_t n, bool make, struct err *e)
{
	char folder[PATH_MAX], session[PATH_MAX - 8];
	int fd;

	if (geteuid() == 0)
		return in_folder(ROOT_FOLDER, path, n, make, e);
	if (session_folder(session, sizeof(session))) {
		(void)snprintf(folder, sizeof(folder), "%s/brig", session);
		return in_folder(folder, path, n, make, e);
	}
	fd = state_open("run", folder, sizeof(folder), e);
	if (fd < 0)
		return fd;
	(void)fd_close(fd);
	return in_folder(folder, path, n, make, e);
}

int daemon_token_path(char *path, size_t n, struct err *e)
{
	char folder[PATH_MAX];
	int fd = state_open("daemon", folder, sizeof(folder), e);

	if (fd < 0)
		return fd;
	(void)fd_close(fd);
	if (snprintf(path, n, "%s/tokens", folder) >= (int)n)
		return err_set(e, ERR_CONFIG, ENAMETOOLONG, "'%.200s' is too long a path", folder);
	return 0;
}
