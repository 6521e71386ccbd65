/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/streams/vtfilter.h - takes the terminal out of a command's hands, and leaves it text and
 * colour.
 *
 * What passes: printable text in valid UTF-8, \n \r \t \b \a \f, colours, moving the cursor,
 * erasing, showing and hiding the cursor. Everything else a terminal might obey is dropped: titles,
 * clipboard, links, reports it would type back, character sets, resets, 8-bit controls, bidi
 * overrides. A byte that is not UTF-8 becomes '?'.
 *
 * The result does not depend on how the input is cut into calls; each call's output holds whole
 * characters and whole sequences only, so that two streams on one terminal cannot be spliced into
 * something new. Filtering twice changes nothing. Whoever speaks after the end of the input speaks
 * in the terminal's own colours. Pure: no allocation, no system call. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum {
	/* What one call may write beyond what it was given: kept back by earlier calls. A sequence
	 * longer than this and its last byte is dropped whole. */
	VTFILTER_SLACK = 64,
};

enum vt_state {
	VT_TEXT,
	VT_CHARACTER, /* in the middle of a UTF-8 character, kept in held */
	VT_ESC,       /* ESC seen */
	VT_ESC_MORE,  /* an escape sequence of more than two bytes, being dropped */
	VT_CSI,       /* ESC [ seen, kept in held as long as it may turn out harmless */
	VT_CSI_DROP,  /* it will not */
	VT_STRING,    /* OSC, DCS and their kind, being dropped */
	VT_STRING_ESC,
};

struct vtfilter {
	enum vt_state state;
	char held[VTFILTER_SLACK];
	size_t held_len;
	size_t dropped;     /* of the sequence being dropped */
	unsigned char last; /* byte of the string being dropped */
	/* What the input has done to the terminal and not undone. */
	bool painted, hidden; /* a colour is set; the cursor cannot be seen */
	bool moved;           /* the cursor may be anywhere */
	bool mid_line;        /* it is not where a line begins */
};

/* Undoes whatever a program with a terminal of its own can have left behind: an unfinished
 * sequence, the other screen, a scrolling region, margins, insert mode, no wrapping, character
 * sets, keypad, mouse, paste and focus reports, held updates, a changed palette, colours, a hidden
 * cursor. Moves nothing, clears nothing: a region, margins and origin mode send the cursor home
 * when they are reset, so it is saved before and restored after. Where origin mode was on, that
 * brings it back, over a region that is the whole screen. */
#define VT_RESET                                                                                   \
	"\033\\\0337\033[r\033[?69l\033[?6l\0338\033[?1047l\033[?7h\033[?5l\033[4l\033[20l\033[?"  \
	"1l"                                                                                       \
	"\033>\033(B\033)B\017\033[?9l\033[?1000l\033[?1002l\033[?1003l\033[?1005l\033[?1006l"     \
	"\033[?1015l\033[?1004l\033[?2004l\033[?2026l\033[?9001l\033[<9u\033[>4m\033]"             \
	"104\033\\\033]110\033\\\033]111\033\\"                                                    \
	"\033[0m\033[?25h"

void vtfilter_init(struct vtfilter *f);

/* Returns how many bytes it wrote to out, which has room for n + VTFILTER_SLACK and is not in. */
size_t vtfilter_run(struct vtfilter *f, const char *in, size_t n, char *out);

/* The input is at its end: writes what is left of it, undoes colours and a hidden cursor that the
 * input left on (at most VTFILTER_SLACK bytes), and starts anew. `moved` and `mid_line` stay. */
size_t vtfilter_flush(struct vtfilter *f, char *out);
