/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sys/program.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/text/cleanup.h"
#include "config.h"

/* The path of NAME in FOLDER, a path relative to the folder of the program that runs. */
static int near(const char *folder, const char *name, char *path, size_t n)
{
	ssize_t len = readlink("/proc/self/exe", path, n - 1);
	size_t left;
	char *slash;

	if (len <= 0)
		return -1;
	path[len] = '\0';
	slash = strrchr(path, '/');
	if (!slash)
		return -1;
	left = n - (size_t)(slash + 1 - path);
	if ((size_t)snprintf(slash + 1, left, "%s%s", folder, name) >= left)
		return -1;
	return access(path, X_OK);
}

int program_find(const char *name, char *path, size_t n, struct err *e)
{
	if (near("", name, path, n) == 0 || near("../libexec/brig/", name, path, n) == 0)
		return 0;
	if ((size_t)snprintf(path, n, "%s/%s", BRIG_LIBEXECDIR, name) < n &&
	    access(path, X_OK) == 0)
		return 0;
	(void)err_set(e, ERR_UNAVAILABLE, ENOENT, "the program %s is not installed", name);
	return err_hint(e, "make install puts it at '%s/%s'", BRIG_LIBEXECDIR, name);
}

int program_become(const char *name, char **argv, struct err *e)
{
	char path[PATH_MAX];

	if (program_find(name, path, sizeof(path), e) < 0)
		return -e->code;
	(void)execv(path, argv);
	return err_sys(e, "cannot start '%s'", path);
}

void program_is_brig(void)
{
	(void)prctl(PR_SET_NAME, "brig", 0, 0, 0);
}
