/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/terminal.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/fd.h"

void terminal_raw(struct terminal *t)
{
	struct termios raw;

	t->raw = isatty(0) && tcgetattr(0, &t->before) == 0;
	if (!t->raw)
		return;
	raw = t->before;
	cfmakeraw(&raw);
	t->raw = tcsetattr(0, TCSADRAIN, &raw) == 0;
}

void terminal_restore(struct terminal *t)
{
	if (t->raw)
		(void)tcsetattr(0, TCSADRAIN, &t->before);
	t->raw = false;
}

int terminal_open(void)
{
	CLEANUP(fd) int fd = open("/dev/tty", O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	return fd >= 0 && tcgetpgrp(fd) == getpgrp() ? TAKE_FD(fd) : -1;
}

bool terminal_is_ours(void)
{
	struct stat in, st;

	if (!isatty(0) || fstat(0, &in) < 0 || tcgetpgrp(0) != getpgrp())
		return false;
	for (int fd = 1; fd <= 2; fd++)
		if (!isatty(fd) || fstat(fd, &st) < 0 || st.st_rdev != in.st_rdev)
			return false;
	return true;
}

/* ---- what a command wrote ---- */

void terminal_writer_begin(struct terminal_writer *w, bool own)
{
	*w = (struct terminal_writer){ .reset = own && isatty(1) };
	for (int fd = 1; fd <= 2; fd++) {
		vtfilter_init(&w->filters[fd - 1]);
		w->filtered[fd - 1] = !own && isatty(fd);
	}
}

int terminal_write(struct terminal_writer *w, int fd, const char *data, size_t n)
{
	char clean[4096 + VTFILTER_SLACK];
	int r = 0;

	if (!w->filtered[fd - 1])
		return fd_write_all(fd, data, n);
	for (size_t at = 0, part; at < n && r == 0; at += part) {
		part = n - at < 4096 ? n - at : 4096;
		r = fd_write_all(fd, clean,
				 vtfilter_run(&w->filters[fd - 1], data + at, part, clean));
	}
	return r;
}

void terminal_writer_end(struct terminal_writer *w)
{
	char rest[VTFILTER_SLACK];

	for (int fd = 1; fd <= 2; fd++)
		if (w->filtered[fd - 1])
			(void)fd_write_all(fd, rest, vtfilter_flush(&w->filters[fd - 1], rest));
	if (w->reset)
		(void)fd_write_all(1, VT_RESET, sizeof(VT_RESET) - 1);
}
