/* SPDX-License-Identifier: Apache-2.0 */
/* base/files/exposed_notes.h - the list that base/files/exposed.h goes by: made by runs, taken back
 * by people.
 *
 * A note stays when its run is over: what a command has left is a guest's for as long as it lies
 * there. Its owner alone can say that it is theirs, with `brig exposed forget`, and only when
 * nobody lives who could still write: a descriptor may have been handed to any other run of the
 * same user. So every run holds a lock on the list for as long as it lives, and who takes a place
 * back holds it alone. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/text/err.h"

#define EXPOSED_FOLDER "exposed" /* of the state folder */

/* What made a place of it; a letter of the note each. */
enum exposed_as {
	EXPOSED_AS_WORKSPACE = 'w',
	EXPOSED_AS_WRITE = 'g',
	EXPOSED_AS_MOUNT = 'm',
	EXPOSED_AS_HOME = 'h',
	EXPOSED_AS_STORE = 's',
	EXPOSED_AS_DATA = 'd',
	EXPOSED_AS_COPY = 'c',
	EXPOSED_AS_GIT = 'r',
	EXPOSED_AS_VOLUME = 'v',
};
const char *exposed_as_word(char as); /* "workspace", "--write"; NULL: none is known */

/* Before a command may write to a folder or a file of the host's. Cheap when it is known. A run
 * that cannot note must not start. */
int exposed_note(const char *path, enum exposed_as as, struct err *e);
/* The same for a file that is open and will have this name: nobody ever finds it there without a
 * note. */
int exposed_note_first(int fd, int folder, const char *name, enum exposed_as as, struct err *e);
/* A run lives from here until the descriptor is closed, in all processes that have it: nothing is
 * taken back meanwhile. Waits while somebody does just that. Before it notes anything. */
int exposed_hold(struct err *e);

struct exposed_row {
	const char *path;  /* as it was noted */
	const char *as;    /* letters; "": an earlier version did not say */
	const char *state; /* the folder that has the note */
	int64_t since;     /* seconds: for people alone */
	bool there;        /* something is, and */
	bool same;         /* it is what was noted, not another thing of that name */
	bool used;         /* the state is the one in use: it can be taken back from here */
};

typedef int exposed_row_fn(void *arg, const struct exposed_row *r);
/* Those of all states that this user may have, by path, until one returns other than 0, which is
 * returned. */
int exposed_each(exposed_row_fn *fn, void *arg, struct err *e);

/* Nobody of this user's lives who could write anywhere, and nobody begins until the descriptor is
 * closed. Refused where somebody does. */
int exposed_lock(struct err *e);
/* How many have begun until now, more or less: another number where any has. */
uint64_t exposed_runs(int lock);
/* Takes the note of a place back, by its name and by what is there now, which must be something.
 * `path` is absolute and has no links. 1, or 0: there was none. */
int exposed_forget(const char *path, struct err *e);
/* Is what is there a place by what it is, and under which name was that noted? */
bool exposed_was(const char *path, char was[PATH_MAX]);

/* ---- for base/files/exposed.c ---- */

struct exposed_note {
	char text[PATH_MAX];
	const char *path; /* these lie in the text */
	const char *as;
	size_t birth, as_count; /* their lengths */
};

struct statx;
int exposed_look_at(int fd, struct statx *x);
/* Do the notes in this folder have what is there, or its name? */
bool exposed_noted(int notes, const struct statx *x, const char *real, struct exposed_note *ret);
