/* SPDX-License-Identifier: Apache-2.0 */
#include "base/files/output.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/files/exposed.h"
#include "base/files/fd.h"
#include "base/text/cleanup.h"

static int refuse_link(const char *path, const char *folder, struct err *e)
{
	CLEANUP(mem) char *real = realpath(folder, NULL);

	(void)err_set(e, ERR_POLICY, ELOOP, "'%.150s' passes through a symbolic link", path);
	return err_hint(e, "commands in sandboxes may have made it; it leads to '%.120s'",
			real ? real : "nothing");
}

/* The folder and the name in it. */
static int output_open_folder(struct output *o, const char *path, bool guests, struct err *e)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	char folder[PATH_MAX] = ".";

	if (slash && snprintf(folder, sizeof(folder), "%.*s",
			      slash == path ? 1 : (int)(slash - path), path) >= (int)sizeof(folder))
		return err_set(e, ERR_USAGE, ENAMETOOLONG, "'%.100s...' is too long", path);
	if (!*name || snprintf(o->name, sizeof(o->name), "%s", name) >= (int)sizeof(o->name))
		return err_set(e, ERR_USAGE, EINVAL, "'%.200s' names no file", path);
	if (guests)
		o->folder = fd_open_nolinks(AT_FDCWD, folder, O_RDONLY | O_DIRECTORY, 0);
	else
		o->folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (o->folder >= 0)
		return 0;
	if (guests && o->folder == -ELOOP)
		return refuse_link(path, folder, e);
	return err_errno(e, guests ? o->folder : -errno, "cannot open the folder of '%.200s'",
			 path);
}

/* A pipe, a device or a link of the user's own. */
static int open_there(struct output *o, const char *path, struct err *e)
{
	o->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, o->mode);
	return o->fd < 0 ? err_sys(e, "cannot write to '%.200s'", path) : 0;
}

static int open_anew(struct output *o, const char *path, bool guests, struct err *e)
{
	int r;

	if (output_open_folder(o, path, guests, e) < 0)
		return -e->code;
	r = draft_open(o->folder, &o->draft);
	o->fd = o->draft.fd;
	if (r == 0)
		return 0;
	(void)fd_close(o->folder);
	return err_errno(e, r, "cannot write to '%.200s'", path);
}

int output_open(const char *path, mode_t mode, struct output *ret, struct err *e)
{
	struct output o = { .fd = -1, .folder = -1, .draft = { .folder = -1, .fd = -1 } };
	mode_t mask = umask(077);
	struct err why = { 0 };
	struct stat st;
	bool guests;

	(void)umask(mask);
	o.mode = mode & ~mask;
	guests = exposed_path(path, NULL, 0, &why);
	if (!guests && lstat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
		if (open_there(&o, path, e) < 0)
			return -e->code;
	} else if (open_anew(&o, path, guests, e) < 0) {
		return -e->code;
	}
	*ret = o;
	return 0;
}

int output_keep(struct output *o, struct err *e)
{
	int r = o->folder < 0 ? 0 : draft_keep(&o->draft, o->name, o->mode);

	if (o->folder < 0)
		(void)fd_close(o->fd);
	o->fd = -1;
	o->folder = fd_close(o->folder);
	return r < 0 ? err_errno(e, r, "cannot write '%.200s'", o->name) : 0;
}

void output_drop(struct output *o)
{
	if (o->folder >= 0)
		draft_drop(&o->draft);
	else if (o->fd >= 0)
		(void)fd_close(o->fd);
	o->fd = -1;
	o->folder = fd_close(o->folder);
}
