/* SPDX-License-Identifier: Apache-2.0 */
/* cli/run/terminal.h - the caller's terminal while a command has one of its own. */
#pragma once

#include <stdbool.h>
#include <termios.h>

#include "sandbox/streams/vtfilter.h"

struct terminal {
	bool raw;
	struct termios before;
};

void terminal_raw(struct terminal *t); /* nothing happens unless stdin is a terminal */
void terminal_restore(struct terminal *t);

/* The terminal that the caller sits at, whatever became of the three streams, not blocking; -1:
 * there is none, or this process does not stand in its foreground. */
int terminal_open(void);

/* Whether stdin, stdout and stderr are one terminal, and this process stands in its foreground. */
bool terminal_is_ours(void);

/* What a command somewhere else wrote, on its way to the caller's own streams. One that is a
 * terminal gets text and colour of it, as from `run`. */
struct terminal_writer {
	struct vtfilter filters[2]; /* of 1 and 2 */
	bool filtered[2], reset;    /* reset: once it is over */
};

/* own: the command has this very terminal as its own, which is put in order afterwards. */
void terminal_writer_begin(struct terminal_writer *w, bool own);
int terminal_write(struct terminal_writer *w, int fd, const char *data, size_t n); /* or -errno */
void terminal_writer_end(struct terminal_writer *w);
