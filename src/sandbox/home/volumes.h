/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/home/volumes.h - caches of tools and volumes: folders of brig's own that runs name.
 *
 * CACHE/caches/ID/data and STATE/volumes/ID/data; kept_folder.h has what they share with kept
 * HOMEs. Runs of one policy, backend, image and trust have one of each name. */
#pragma once

#include "model/request/volume.h"
#include "sandbox/home/kept_folder.h"

typedef void volume_note_fn(void *arg, const char *text);

/* The locks of a run. */
struct volumes {
	int locks[VOLUMES_MAX];
	size_t n;
};

/* Finds or makes those that a checked spec asks for on that backend, and locks them; *folders, in
 * the order of volume_of, is the arena's. Refuses one that has grown beyond volume_size. `note`
 * (NULL: nobody) hears of a new one beside another of that name. */
int volumes_open(const struct spec *s, const char *backend, struct arena *a, volume_note_fn *note,
		 void *note_arg, struct volumes *ret, const char *const **folders, struct err *e);
void volumes_done(struct volumes *v);

/* The folders of those that are there, NULL for the others; *missing: are there any? */
int volumes_find(const struct spec *s, const char *backend, struct arena *a,
		 const char *const **folders, bool *missing, struct err *e);

/* One of those that are there; all of it borrowed. */
struct volume_row {
	const char *id, *name, *backend, *policy, *image; /* image: "" where there is none */
	const char *project; /* of one that no other project has; NULL: all have it */
	bool trusted, leftover, used, more; /* as in kept_folder.h */
	uint64_t bytes;
	time_t last;
};

enum volume_kind { VOLUME_CACHES, VOLUME_VOLUMES };

int volumes_each(enum volume_kind kind, int (*each)(void *arg, const struct volume_row *row),
		 void *arg, struct err *e);
int volumes_clear(enum volume_kind kind, const char *id, struct err *e);
int volumes_tidy(enum volume_kind kind, size_t *left, struct err *e);
