/* SPDX-License-Identifier: Apache-2.0 */
/* base/files/taken.h - what was taken out of a workspace: STATE/quarantine/ID, a folder for each.
 *
 *	thing    what it was
 *	about    JSON: where it was, why it was taken, what its mode was
 *
 * Hostile code made it. A folder is closed to everybody, and its HEAD or .git has another name:
 * whoever comes by with git, or with a prompt that calls it, finds no repository there. Without
 * `about`, of an earlier version, the thing itself has the id for its name; on a full disk it is
 * called bare-ID, so that an `about` of the command's own in it counts for nothing. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/text/err.h"

#define TAKEN_FOLDER "quarantine"

struct taken_row {
	const char *id;
	const char *from, *why; /* NULL: not known */
	mode_t mode;            /* with its type; 0: it is gone */
	int64_t when;           /* seconds */
	int folder;             /* what it lies in, and its name there: borrowed */
	const char *name;
};

/* Moves it there: 0 or -errno, and then it is where it was. `from` is its path on the host. */
int taken_put(int dir, const char *name, const char *id, const char *from, const char *why,
	      char *place, size_t n);

typedef int taken_look(void *arg, const struct taken_row *r);
/* One after the other, the oldest first, until one returns other than 0, which is returned. */
int taken_each(taken_look *look, void *arg, struct err *e);
/* Puts one back where it was, as it was. */
int taken_restore(const char *id, struct err *e);
int taken_clear(const char *id, struct err *e);
