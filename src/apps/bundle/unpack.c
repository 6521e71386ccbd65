/* SPDX-License-Identifier: Apache-2.0 */
/* apps/bundle/unpack.c - brig-unpack: reads an archive, and can do nothing but make its files.
 *
 * It hears nothing from the parent and tells one thing: a struct err, then the manifest's text. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "apps/bundle/archive.h"
#include "base/files/fd.h"
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

static _Noreturn void child(int archive, int folder, int tells)
{
	CLEANUP(buf) struct buf manifest = BUF_INIT(MANIFEST_MAX + 1);
	struct unpacking u = { .archive = archive, .folder = folder, .file = -1 };
	const struct archive_io io = { .get = unpack_get,
				       .begin = folder < 0 ? NULL : unpack_begin,
				       .add = folder < 0 ? NULL : unpack_add,
				       .end = folder < 0 ? NULL : unpack_end,
				       .arg = &u };
	const struct confine_want rest = { .folder = folder, .bytes = UINT64_MAX };
	const int keep[] = { archive, folder, tells };
	struct err e = { 0 };
	int r = fd_close_except(3, keep, ARRAY_LEN(keep));

	(void)umask(022);
	(void)prctl(PR_SET_NAME, "brig-unpack");
	if (r < 0)
		(void)err_errno(&e, r, "cannot close descriptors");
	else if (confine(folder < 0 ? CONFINE_INSPECTOR : CONFINE_BUNDLER, &rest, &e) == 0)
		(void)archive_read(&io, &manifest, &e);
	if (fd_write_all(tells, &e, sizeof(e)) == 0 && !e.code)
		(void)fd_write_all(tells, buf_str(&manifest), manifest.len);
	_exit(0);
}

/* All that it tells; 1: not even how it ended. */
static int unpack_hear(int fd, struct err *said, struct buf *manifest)
{
	char piece[4096];
	ssize_t n;

	if (fd_read_all(fd, said, sizeof(*said)) < 0)
		return 1;
	while ((n = read(fd, piece, sizeof(piece))) > 0 || (n < 0 && errno == EINTR))
		if (n > 0)
			buf_add(manifest, piece, (size_t)n);
	return 0;
}

int archive_unpack(int fd, int folder, struct buf *manifest, struct err *e)
{
	CLEANUP(fd) int hears = -1, tells = -1;
	struct err said = { 0 };
	int words[2], status = 0, silent;
	pid_t pid;

	if (lseek(fd, 0, SEEK_SET) < 0 || pipe2(words, O_CLOEXEC) < 0)
		return err_sys(e, "cannot make a pipe");
	hears = words[0];
	tells = words[1];
	pid = fork();
	if (pid < 0)
		return err_sys(e, "cannot start a process");
	if (pid == 0)
		child(fd, folder, tells);
	(void)fd_close(TAKE_FD(tells));
	silent = unpack_hear(hears, &said, manifest);
	if (silent)
		(void)kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (silent || !WIFEXITED(status) || WEXITSTATUS(status) || manifest->failed)
		return err_set(e, ERR_POLICY, EPROTO,
			       "the bundle is refused: it ended the process that read it");
	if (!said.code)
		return 0;
	said.what[sizeof(said.what) - 1] = said.hint[sizeof(said.hint) - 1] = '\0';
	*e = said;
	if ((unsigned)e->kind >= ERR_KINDS)
		e->kind = ERR_POLICY;
	return e->code > 0 ? -e->code : -EBADMSG;
}
