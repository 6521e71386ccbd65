/* SPDX-License-Identifier: Apache-2.0 */
#include "apps/setup/examples.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/exposed.h"
#include "base/files/fd.h"
#include "base/text/str.h"

#define EXAMPLES_MAX 64

const struct example *example_find(const char *name, struct err *e)
{
	const char *names[EXAMPLES_MAX + 1] = { NULL }, *near;

	for (size_t i = 0; i < example_count && i < EXAMPLES_MAX; i++) {
		if (str_eq(examples[i].name, name))
			return &examples[i];
		names[i] = examples[i].name;
	}
	near = str_nearest(name, names);
	(void)err_set(e, ERR_USAGE, ENOENT, "there is no example '%.60s'", name);
	if (near)
		(void)err_hint(e, "did you mean '%s'?", near);
	else
		(void)err_hint(e, "brig examples list shows all of them");
	return NULL;
}

/* The folder that an example's file is in, made where it is not there; a descriptor, and the
 * file's own name. Names are the program's own; the folder they meet is not. */
static int open_parent(int top, const char *name, bool make, const char **base, struct err *e)
{
	const char *slash = strchr(name, '/');
	char folder[64];
	int fd;

	*base = slash ? slash + 1 : name;
	if (!slash)
		return fcntl(top, F_DUPFD_CLOEXEC, 0);
	(void)snprintf(folder, sizeof(folder), "%.*s", (int)(slash - name), name);
	if (make && mkdirat(top, folder, 0777) < 0 && errno != EEXIST)
		return err_sys(e, "cannot create the folder '%s'", folder);
	fd = fd_open_nolinks(top, folder, O_PATH | O_DIRECTORY, FD_BENEATH);
	return fd < 0 && fd != -ENOENT ? err_errno(e, fd, "cannot open the folder '%s'", folder)
				       : fd;
}

static int is_free(int top, const char *name, struct err *e)
{
	const char *base;
	CLEANUP(fd) int parent = open_parent(top, name, false, &base, e);
	struct stat st;

	if (parent == -ENOENT)
		return 0;
	if (parent < 0)
		return parent;
	if (fstatat(parent, base, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return err_refuse(e, ERR_CONFIG, EEXIST,
				  "name another folder: brig examples copy "
				  "NAME FOLDER",
				  "'%s' exists there; nothing was copied", name);
	return errno == ENOENT ? 0 : err_sys(e, "cannot look at '%s'", name);
}

static int copy_file(int top, const struct example_file *f, struct err *e)
{
	const char *base;
	CLEANUP(fd) int parent = open_parent(top, f->name, true, &base, e);
	CLEANUP(fd) int fd = -1;
	int r;

	if (parent < 0)
		return parent == -ENOENT ? err_errno(e, parent, "cannot write '%s'", f->name)
					 : parent;
	fd = openat(parent, base, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, f->mode);
	r = fd < 0 ? -errno : fd_write_all(fd, f->data, f->size);
	return r < 0 ? err_errno(e, r, "cannot write '%s'", f->name) : 0;
}

int example_copy_file(const struct example_file *f, struct err *e)
{
	CLEANUP(fd) int here = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (here < 0)
		return err_sys(e, "cannot open this folder");
	return is_free(here, f->name, e) < 0 ? -e->code : copy_file(here, f, e);
}

int example_copy(const struct example *x, const char *path, struct err *e)
{
	CLEANUP(fd) int top = -1;

	if (mkdir(path, 0777) < 0 && errno != EEXIST)
		return err_sys(e, "cannot create the folder '%.200s'", path);
	top = exposed_open(path, O_PATH | O_DIRECTORY, e);
	if (top < 0)
		return err_hint(e, "name another folder: brig examples copy %s FOLDER", x->name);
	for (size_t i = 0; i < x->count; i++)
		if (is_free(top, x->files[i].name, e) < 0)
			return -e->code;
	for (size_t i = 0; i < x->count; i++)
		if (copy_file(top, &x->files[i], e) < 0)
			return -e->code;
	return 0;
}
