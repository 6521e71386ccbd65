/* SPDX-License-Identifier: Apache-2.0 */
/* far/serve/far_serve.h - brig-far: a run, or a sandbox that stays open, on this machine for a brig
 * on another one.
 *
 * Whoever asks is believed as far as the user is, whose process both are. Neither outlives the
 * other: when the line ends, so does what it asked for. */
#pragma once

#include <stdbool.h>

#include "far/serve/far_asked.h"

struct far_line {
	int from, to;
	far_asked_load_fn *load; /* what is configured here; see far_asked_request */
	bool newlines;           /* see struct frames_line */
	bool speaks;             /* the other side says every ten seconds that it is there, and so
				  * does this one every five */
	const char *ask; /* frames of a request that also comes by the line; NULL: it comes there
			  * alone */
	size_t ask_size;
	const char *task; /* of a job array, as Slurm calls it: `from` and `to` are files, and the
			   * other side says nothing more. NULL: it is none */
};

/* Returns the exit status. */
int far_serve(const struct far_line *l);
