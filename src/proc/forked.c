/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/forked.h"

#include <errno.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/files/fd.h"

static _Noreturn void child_main(const struct forked_want *w, const int *pair)
{
	if (w->name)
		(void)prctl(PR_SET_NAME, w->name, 0, 0, 0);
	(void)close(pair[0]);
	_exit(w->run(w->arg, pair[1]));
}

pid_t forked_start(const struct forked_want *w, int *line, struct err *e)
{
	int type = w->line == FORKED_PACKETS ? SOCK_SEQPACKET : SOCK_STREAM;
	int pair[2];
	pid_t pid;

	if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(e, "cannot make a line to %s", w->what);
	pid = fork();
	if (pid == 0)
		child_main(w, pair);
	if (pid < 0) {
		(void)err_sys(e, "cannot start %s", w->what);
		(void)fd_close(pair[0]);
		(void)fd_close(pair[1]);
		return -e->code;
	}
	(void)fd_close(pair[1]);
	*line = pair[0];
	return pid;
}

int forked_wait(pid_t pid)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status;
}

int forked_tell(int line, const struct err *said)
{
	return fd_write_all(line, said, sizeof(*said));
}

int forked_hear(int line, struct err *said)
{
	int r = fd_read_all(line, said, sizeof(*said));

	said->what[sizeof(said->what) - 1] = said->hint[sizeof(said->hint) - 1] = '\0';
	if (r == 0 && ((unsigned)said->kind >= ERR_KINDS || said->code < 0))
		r = -EPROTO;
	return r;
}
