/* SPDX-License-Identifier: Apache-2.0 */
#include "image/store/archive_open.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "base/tar/tar.h"
#include "image/store/inflate.h"
#include "proc/confine.h"
#include "proc/forked.h"

#define ARCHIVE_BYTES ((uint64_t)64 << 30)

enum { ARCHIVE_ENTRIES = 8192 };

struct archive_job {
	int file, folder;
	const char *path;
};

static ssize_t archive_from(void *arg, void *p, size_t n)
{
	const struct archive_job *j = arg;
	ssize_t got;

	do
		got = read(j->file, p, n);
	while (got < 0 && errno == EINTR);
	return got < 0 ? -errno : got;
}

static int archive_exactly(void *arg, void *p, size_t n)
{
	ssize_t got = inflate_read(arg, p, n);

	if (got < 0)
		return (int)got;
	return (size_t)got == n ? 0 : -EBADMSG;
}

static int archive_job_run(void *arg, int line)
{
	struct archive_job *j = arg;
	const struct confine_want rest = { .folder = j->folder, .bytes = ARCHIVE_BYTES };
	const int keep[] = { j->file, j->folder, line };
	struct tar_limits l = { .bytes = ARCHIVE_BYTES, .entries = ARCHIVE_ENTRIES, .drops = true };
	struct inflate *z = inflate_new(archive_from, j, ARCHIVE_BYTES);
	struct err e = { 0 };
	int r = 0;

	(void)umask(077);
	if (!z)
		(void)err_nomem(&e);
	else if (fd_close_except(3, keep, ARRAY_LEN(keep)) < 0)
		(void)err_set(&e, ERR_INTERNAL, EIO, "cannot close descriptors");
	else if (confine(CONFINE_BUNDLER, &rest, &e) == 0)
		r = tar_unpack(j->folder, &l, archive_exactly, NULL, z);
	if (r == -EBADMSG)
		(void)err_refuse(&e, ERR_POLICY, EBADMSG,
				 "docker save -o FILE IMAGE, podman save or skopeo copy make one",
				 "'%.200s' is no archive of an image", j->path);
	else if (r < 0)
		(void)err_errno(&e, r, "cannot unpack '%.200s'", j->path);
	(void)forked_tell(line, &e);
	return 0;
}

int archive_open(int file, int folder, const char *path, struct err *e)
{
	struct archive_job j = { file, folder, path };
	const struct forked_want w = { .name = "brig-unpack",
				       .what = "the process that unpacks",
				       .line = FORKED_BYTES,
				       .run = archive_job_run,
				       .arg = &j };
	CLEANUP(fd) int line = -1;
	struct err said = { 0 };
	int r, status;
	pid_t pid;

	if (lseek(file, 0, SEEK_SET) < 0)
		return err_sys(e, "cannot read '%.200s'", path);
	pid = forked_start(&w, &line, e);
	if (pid < 0)
		return (int)pid;
	r = forked_hear(line, &said);
	status = forked_wait(pid);
	if (r < 0 || !WIFEXITED(status) || WEXITSTATUS(status))
		return err_set(e, ERR_POLICY, EPROTO,
			       "'%.200s' is refused: it ended the process that read it", path);
	if (said.code)
		*e = said;
	return -said.code;
}
