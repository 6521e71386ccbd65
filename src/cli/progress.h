/* SPDX-License-Identifier: Apache-2.0 */
/* cli/progress.h - one line about what takes long: on a terminal alone, never in a pipe.
 *
 * It is on stderr, appears after half a second, is written over ten times a second at most, and is
 * gone before anything else is said. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct progress {
	const char *what; /* borrowed: "copying" */
	uint64_t all;     /* bytes; 0: not known */
	uint64_t now, began_us, told_us;
	bool shown, off;
};

/* quiet: nothing is ever written. */
void progress_begin(struct progress *p, const char *what, uint64_t all, bool quiet);
void progress_add(struct progress *p, uint64_t bytes);
void progress_end(struct progress *p);

/* A line of somebody else's words in its place, such as an engine's; cleaned. */
void progress_line(const char *text);
/* The same as a brig_note_fn of pulls and builds. A pipe gets the first of such lines, so that a
 * log says what is waited for; `told` is a bool that is false at first. */
void progress_note(void *told, const char *text);
void progress_clear(void);
