/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/home/kept_home.h - a HOME that stays, for one project on one backend.
 *
 * CACHE/homes/ID has `home`, which is shown inside, and `about`, which says whose it is and by its
 * time when it was used last; the command sees neither that folder nor any other of them. A run
 * holds a shared lock on the folder for as long as it lives. What is in `home` was written by
 * hostile code: nothing of it is opened here but folders. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/bytes/sha256.h"
#include "base/text/err.h"
#include "model/settings/spec.h"

struct kept_home {
	int lock; /* held by the run; -1: none */
	char folder[PATH_MAX];
	unsigned char secret[SHA256_SIZE];
	bool has_secret;
};

#define KEPT_HOME_NONE ((struct kept_home){ .lock = -1 })

/* Finds or makes the HOME of a checked spec's project on that backend, and locks it. Refuses one
 * that has grown beyond home_size. */
int kept_home_open(const struct spec *s, const char *backend, struct kept_home *ret, struct err *e);
void kept_home_done(struct kept_home *k);

/* The folder that kept_home_open would give, where it is there already: 0, or -ENOENT. */
int kept_home_find(const struct spec *s, const char *backend, char folder[PATH_MAX]);

/* A copy of the spec with this folder as HOME; its secret (NULL: none) and the command's arguments
 * are borrowed. The caller owns *ret. */
int kept_home_spec(const struct spec *s, const char *folder, const unsigned char *secret,
		   struct spec **ret, struct err *e);

/* One of those that are there; all of it borrowed. */
struct kept_home_row {
	const char *id, *project, *backend, *policy, *image; /* image: "" where there is none */
	const char *path;                                    /* as kept_home_path gives it */
	const char *seed; /* the program whose settings it began with; NULL: none */
	bool trusted;
	bool gone;      /* there is no such folder any more, or another one by its name */
	bool leftover;  /* it was cleared, and this could not be; or somebody is at it */
	bool used;      /* by a run, now */
	uint64_t bytes; /* on disk */
	bool more;      /* and more: nobody counted on */
	time_t last;    /* when a run began with it */
};

/* Calls `each` for every one until it returns other than 0, which is returned. */
int kept_home_each(int (*each)(void *arg, const struct kept_home_row *row), void *arg,
		   struct err *e);

/* Removes one, unless a run uses it (-EBUSY). */
int kept_home_clear(const char *id, struct err *e);
/* Removes what clears before have left; *left is what could not be, and the first of it is told. */
int kept_home_tidy(size_t *left, struct err *e);

/* A project's path as rows have it: bytes that are no text cannot be shown, but compared. */
void kept_home_path(const char *project, char ret[SHA256_HEX]);
