/* SPDX-License-Identifier: Apache-2.0 */
/* apps/bundle/unpack.c - brig-unpack: reads an archive, and can do nothing but make its files.
 *
 * It hears nothing from the parent and tells one thing: a struct err, then the manifest's text. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "apps/bundle/archive.h"
#include "base/files/fd.h"
#include "proc/forked.h"
#include "proc/confine.h"

struct unpacking {
	int archive, folder, file;
};

static ssize_t unpack_get(void *arg, void *p, size_t n)
{
	const struct unpacking *u = arg;
	ssize_t got;

	do
		got = read(u->archive, p, n);
	while (got < 0 && errno == EINTR);
	return got < 0 ? -errno : got;
}

/* Each folder is made and then opened again from the top, without a link on the way. */
static int open_above(const struct unpacking *u, const char *place, const char **name)
{
	const char *slash = strrchr(place, '/');
	char path[BUNDLE_PATH_MAX + 1];

	*name = slash ? slash + 1 : place;
	if (!slash)
		return fcntl(u->folder, F_DUPFD_CLOEXEC, 3);
	for (const char *at = strchr(place, '/'); at; at = strchr(at + 1, '/')) {
		memcpy(path, place, (size_t)(at - place));
		path[at - place] = '\0';
		if (mkdirat(u->folder, path, 0755) < 0 && errno != EEXIST)
			return -errno;
	}
	return fd_open_nolinks(u->folder, path, O_PATH | O_DIRECTORY | O_CLOEXEC, FD_BENEATH);
}

static int unpack_begin(void *arg, const char *place, mode_t mode)
{
	struct unpacking *u = arg;
	const char *name;
	CLEANUP(fd) int above = open_above(u, place, &name);

	if (above < 0)
		return above;
	u->file = openat(above, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	return u->file < 0 ? -errno : 0;
}

static int unpack_add(void *arg, const void *p, size_t n)
{
	const struct unpacking *u = arg;

	return fd_write_all(u->file, p, n);
}

static int unpack_end(void *arg)
{
	struct unpacking *u = arg;

	u->file = fd_close(u->file);
	return 0;
}

static int unpack_run(void *arg, int line)
{
	CLEANUP(buf) struct buf manifest = BUF_INIT(MANIFEST_MAX + 1);
	struct unpacking *u = arg;
	const bool makes = u->folder >= 0;
	const struct archive_io io = { .get = unpack_get,
				       .begin = makes ? unpack_begin : NULL,
				       .add = makes ? unpack_add : NULL,
				       .end = makes ? unpack_end : NULL,
				       .arg = u };
	const struct confine_want rest = { .folder = u->folder, .bytes = UINT64_MAX };
	const int keep[] = { u->archive, u->folder, line };
	struct err e = { 0 };
	int r = fd_close_except(3, keep, ARRAY_LEN(keep));

	(void)umask(022);
	if (r < 0)
		(void)err_errno(&e, r, "cannot close descriptors");
	else if (confine(makes ? CONFINE_BUNDLER : CONFINE_INSPECTOR, &rest, &e) == 0)
		(void)archive_read(&io, &manifest, &e);
	if (forked_tell(line, &e) == 0 && !e.code)
		(void)fd_write_all(line, buf_str(&manifest), manifest.len);
	return 0;
}

/* All that it tells. 0 or -errno: it was silent, or made no sense. */
static int unpack_hear(int line, struct err *said, struct buf *manifest)
{
	int r = forked_hear(line, said);
	char piece[4096];
	ssize_t n;

	while (r == 0 && ((n = read(line, piece, sizeof(piece))) > 0 || (n < 0 && errno == EINTR)))
		if (n > 0)
			buf_add(manifest, piece, (size_t)n);
	return r;
}

int archive_unpack(int fd, int folder, struct buf *manifest, struct err *e)
{
	struct unpacking u = { .archive = fd, .folder = folder, .file = -1 };
	const struct forked_want w = { .name = "brig-unpack",
				       .what = "the process that unpacks",
				       .line = FORKED_BYTES,
				       .run = unpack_run,
				       .arg = &u };
	CLEANUP(fd) int line = -1;
	struct err said = { 0 };
	int status, r;
	pid_t pid;

	if (lseek(fd, 0, SEEK_SET) < 0)
		return err_sys(e, "cannot read the archive");
	pid = forked_start(&w, &line, e);
	if (pid < 0)
		return (int)pid;
	r = unpack_hear(line, &said, manifest);
	if (r < 0)
		(void)kill(pid, SIGKILL);
	status = forked_wait(pid);
	if (r < 0 || !WIFEXITED(status) || WEXITSTATUS(status) || manifest->failed)
		return err_set(e, ERR_POLICY, EPROTO,
			       "the bundle is refused: it ended the process that read it");
	if (said.code)
		*e = said;
	return -said.code;
}
