/* SPDX-License-Identifier: Apache-2.0 */
/* cli/terminal.h - the caller's terminal while a command has one of its own. */
#pragma once

#include <stdbool.h>
#include <termios.h>

struct terminal {
	bool raw;
	struct termios before;
};

void terminal_raw(struct terminal *t); /* nothing happens unless stdin is a terminal */
void terminal_restore(struct terminal *t);

/* Whether stdin, stdout and stderr are one terminal, and this process stands in its foreground. */
bool terminal_is_ours(void);
