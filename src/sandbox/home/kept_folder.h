/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/home/kept_folder.h - folders of brig's own that commands write to and that outlive a run:
 * kept HOMEs, caches of tools, volumes.
 *
 * FOLDER/ID has a folder that is shown inside, and `about`, which says what it is and by its time
 * when it was used last; the command sees neither that nor any other ID. A run holds a shared lock
 * on FOLDER/ID for as long as it lives. What is shown was written by hostile code: nothing of it is
 * opened here but folders. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/bytes/sha256.h"
#include "base/text/buf.h"
#include "base/text/err.h"
#include "model/settings/spec.h"

struct jread;
struct json;

/* One of these for homes, for caches and for volumes. */
struct kept_folder_kind {
	const char *folder; /* of brig's cache, or of its state */
	bool in_state;
	const char *shown; /* the folder that the command sees, in FOLDER/ID */
	const char *noun;  /* for refusals: "kept HOME" */
	const char *clear; /* how to remove it: a command */
};

/* Opens FOLDER: makes it, or -ENOENT and no error told where it is not there. */
int kept_folder_parent(const struct kept_folder_kind *k, bool make, struct err *e);

/* Makes FOLDER/ID, unless it is there, and locks it shared; the descriptor holds the lock. */
int kept_folder_lock(const struct kept_folder_kind *k, int parent, const char *id, struct err *e);
/* Opens what is shown of it, and gives it back its mode, which the command may have changed. */
int kept_folder_open(const struct kept_folder_kind *k, int folder, const char *id, struct err *e);
/* The same, made first if need be. */
int kept_folder_make(const struct kept_folder_kind *k, int folder, const char *id, struct err *e);
/* Where that really is: a bind follows no links. */
int kept_folder_place(const struct kept_folder_kind *k, int shown, char path[PATH_MAX],
		      struct err *e);
/* FOLDER/ID/shown, where it is there: 0, or -ENOENT. */
int kept_folder_find(const struct kept_folder_kind *k, const char *id, char path[PATH_MAX]);

/* Refuses what lies in memory, where nobody can count what is written to it. */
int kept_folder_check_disk(const struct kept_folder_kind *k, int shown, struct err *e);

/* Notes the use by the time of `about`, which the first use writes: text() is asked for it once. */
int kept_folder_note_use(const struct kept_folder_kind *k, int folder,
			 void (*text)(const void *arg, struct buf *b), const void *arg,
			 struct err *e);

/* Refuses what has grown beyond `most`, or cannot be looked through. `whose`, such as "of
 * '/home/me/project'", and `limit`, the setting that says `most`, are for the refusal. */
int kept_folder_check_size(const struct kept_folder_kind *k, int shown, uint64_t most,
			   const char *whose, const char *limit, struct err *e);

/* What goes into an id: a text, with its length; under what a run is, apart from its project, as
 * another of these must not have what it has written. */
void kept_folder_add_text(struct sha256 *h, const char *text);
void kept_folder_add_trust(struct sha256 *h, const struct spec *s, const char *backend);
/* The same for `about`, in an object that is open. */
void kept_folder_put_trust(struct json *j, const struct spec *s, const char *backend);
/* The identity of a project's folder, as a line; 0, or a refusal. */
enum { KEPT_FOLDER_PROJECT = 96 };
int kept_folder_project(const struct spec *s, char line[KEPT_FOLDER_PROJECT], struct err *e);
/* The same of a folder that is open; false: it cannot be told. */
bool kept_folder_project_fd(int fd, char line[KEPT_FOLDER_PROJECT]);

/* --- all of them --- */

struct kept_folder_row {
	const char *id;
	const struct jread *about; /* NULL: it cannot be read */
	bool leftover;             /* it was cleared, and this could not be; or somebody is at it */
	bool used;                 /* by a run, now */
	uint64_t bytes;            /* on disk */
	bool more;                 /* and more: nobody counted on */
	time_t last;               /* when a run began with it */
};

/* Calls `each` for every one until it returns other than 0, which is returned. */
int kept_folder_each(const struct kept_folder_kind *k,
		     int (*each)(void *arg, const struct kept_folder_row *row), void *arg,
		     struct err *e);

/* Removes one, unless a run uses it (-EBUSY). */
int kept_folder_clear(const struct kept_folder_kind *k, const char *id, struct err *e);
/* Removes what clears before have left; *left is what could not be, and the first of it is told. */
int kept_folder_tidy(const struct kept_folder_kind *k, size_t *left, struct err *e);
