/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/sandbox/unpack_child.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "base/text/cleanup.h"
#include "proc/unpack_confined.h"

#define ENTRIES_MAX 1000000

static _Noreturn void child(int folder, uint64_t most, int from, int tells)
{
	struct tar_limits l = { .bytes = most, .entries = ENTRIES_MAX };
	int r;

	l.mask = umask(0);
	(void)umask(l.mask);
	r = unpack_confined(folder, from, &l, &tells, 1);
	(void)fd_write_all(tells, &r, sizeof(r));
	_exit(r < 0);
}

int unpack_child_start(int folder, uint64_t most, struct unpack_child *ret, struct err *e)
{
	CLEANUP(fd) int from = -1, to = -1, hears = -1, tells = -1;
	int data[2], words[2];
	pid_t pid;

	if (pipe2(data, O_CLOEXEC) < 0)
		return err_sys(e, "cannot make a pipe");
	from = data[0];
	to = data[1];
	if (pipe2(words, O_CLOEXEC) < 0)
		return err_sys(e, "cannot make a pipe");
	hears = words[0];
	tells = words[1];
	pid = fork();
	if (pid < 0)
		return err_sys(e, "cannot start a process");
	if (pid == 0)
		child(folder, most, from, tells);
	*ret = (struct unpack_child){ .pid = pid, .to = TAKE_FD(to), .tells = TAKE_FD(hears) };
	return 0;
}

int unpack_child_end(struct unpack_child *u, struct err *e)
{
	int r = 0, status = 0;
	bool told;

	u->to = fd_close(u->to);
	told = read(u->tells, &r, sizeof(r)) == (ssize_t)sizeof(r);
	u->tells = fd_close(u->tells);
	while (waitpid(u->pid, &status, 0) < 0 && errno == EINTR)
		;
	if (!told)
		return err_set(e, ERR_POLICY, EPROTO,
			       "what came out of the sandbox ended the process that unpacked it");
	if (r == -EBADMSG)
		return err_set(e, ERR_POLICY, EBADMSG,
			       "what came out of the sandbox is no archive of folders and files "
			       "that stay below the folder");
	if (r == -EFBIG)
		return err_refuse(e, ERR_USAGE, EFBIG, "--limit SIZE raises it",
				  "what comes out is larger than the limit");
	if (r == -ENODATA)
		return err_set(e, ERR_UNAVAILABLE, ENODATA,
			       "what came out of the sandbox ends in the middle");
	return r < 0 ? err_errno(e, r, "cannot unpack what came out of the sandbox") : 0;
}
