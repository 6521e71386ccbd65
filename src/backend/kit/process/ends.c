/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/process/ends.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/files/fd.h"

#define TERMINAL_PATH_MAX 64

int ends_far(struct ends *p, const struct job_want *w, struct err *e)
{
	if ((!w->no_input && pipe2(p->in, O_CLOEXEC) < 0) || pipe2(p->out, O_CLOEXEC) < 0 ||
	    (!job_has_tty(w) && pipe2(p->err, O_CLOEXEC) < 0))
		return err_sys(e, "cannot make a pipe");
	return 0;
}

int ends_pipes(struct ends *p, const struct job_want *w, struct err *e)
{
	return job_has_tty(w) || !w->command ? 0 : ends_far(p, w, e);
}

int ends_open(struct ends *p, const struct job_want *w, struct err *e)
{
	for (size_t i = 0; w->line && i < ARRAY_LEN(p->control); i++)
		p->control[i] = TAKE_FD(w->line[i]);
	if (p->control[0] < 0 &&
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, p->control) < 0)
		return err_sys(e, "cannot make a socket pair");
	return ends_pipes(p, w, e);
}

int ends_terminal(struct ends *p, const struct job_want *w, struct err *e)
{
	struct winsize size = { .ws_row = w->rows, .ws_col = w->cols };
	char path[TERMINAL_PATH_MAX];

	p->out[0] = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (p->out[0] < 0 || grantpt(p->out[0]) < 0 || unlockpt(p->out[0]) < 0 ||
	    ptsname_r(p->out[0], path, sizeof(path)) != 0)
		return err_sys(e, "cannot make a terminal");
	if (w->rows && ioctl(p->out[0], TIOCSWINSZ, &size) < 0)
		return err_sys(e, "cannot set the terminal up");
	p->in[1] = fcntl(p->out[0], F_DUPFD_CLOEXEC, 3);
	p->in[0] = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
	p->out[1] = p->in[0] < 0 ? -1 : fcntl(p->in[0], F_DUPFD_CLOEXEC, 3);
	if (p->in[1] < 0 || p->out[1] < 0)
		return err_sys(e, "cannot open the terminal");
	return 0;
}

void ends_done(struct ends *p)
{
	int *all[] = { p->in, p->out, p->err, p->control };

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		all[i][0] = fd_close(all[i][0]);
		all[i][1] = fd_close(all[i][1]);
	}
}
