/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/api/subprocess.h - a program of brig's own that is started for one call, and whose output
 * is the answer.
 *
 * What takes long, or needs what the daemon does not hold (SQLite, YAML), is done there: the record
 * read, the machine looked at. The words are separate arguments; there is no shell. A subprocess
 * ends with its caller, at its time, or when it has written too much. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/api/api.h"

enum { SUBPROCESS_WORDS = 256, SUBPROCESSES_MAX = 8, SUBPROCESSES_FOLLOW = 4 };

struct subprocess_asked {
	const char *program;     /* NULL: brig itself */
	const char *const *argv; /* NULL-terminated, with its name; copied by the kernel alone */
	const char *head, *tail; /* put around what it wrote; NULL: nothing */
	uint64_t seconds;        /* then it is ended */
	bool follow;             /* each line it writes is an event; there is no end */
	const char *event;       /* ... of this type; `seq` of the object is its number */
	int most;                /* exit status that is still an answer */
};

/* Answers the call, now or later. */
void subprocess_run(struct api *a, struct http_call *c, const struct subprocess_asked *q);
/* All of them end; at the end of the daemon. */
void subprocess_end_all(struct api *a);
