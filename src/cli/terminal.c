/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/terminal.h"

#include <sys/stat.h>
#include <unistd.h>

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
