/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/terminal.h"

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
