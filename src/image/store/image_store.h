/* SPDX-License-Identifier: Apache-2.0 */
/* image/store/image_store.h - images that brig keeps by itself, without an engine.
 *
 * CACHE/images is 0700 and ours. It has
 *
 *	layers/HEX/tree    a layer, unpacked; HEX is the SHA-256 of its bytes as they were sent
 *	layers/HEX/names   what is in there, and its sums: for `verify`
 *	records/HEX        an image: image/store/image_record.h; HEX is the digest of its
 *configuration names/HEX          a name and the image it stands for; HEX is the SHA-256 of the
 *name lock               shared by who adds, alone by who takes away
 *
 * Each has its name only once it is whole and on disk; `.part-*` is half-made, `.gone-*` half
 * removed, and neither is ever used. A run holds a shared lock on its record. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/bytes/sha256.h"
#include "base/text/arena.h"
#include "base/text/err.h"
#include "image/ref.h"
#include "image/store/image_record.h"

#define IMAGES "images"
#define IMAGE_TREE "tree"
#define IMAGE_NAMES "names"
#define IMAGE_PART ".part-"
#define IMAGE_GONE ".gone-"

enum { IMAGE_NAME_MAX = REF_HOST_MAX + REF_REPOSITORY_MAX + REF_TAG_MAX + REF_DIGEST_MAX };

/* The full name: without a host it is docker.io's, without a tag `latest`; one with a digest has no
 * tag. */
int image_name(const char *text, char out[IMAGE_NAME_MAX], struct err *e);
/* As people write it: without docker.io/library/ in front. Borrowed from `name`. */
const char *image_short(const char *name);

/* The store, open. */
struct image_store {
	int top, layers, records, names, lock;
	char path[PATH_MAX]; /* of `layers`, without links */
};

#define IMAGE_STORE_NONE                                                                           \
	((struct image_store){ .top = -1, .layers = -1, .records = -1, .names = -1, .lock = -1 })

enum image_hold { IMAGE_READS, IMAGE_ADDS, IMAGE_TAKES_AWAY };

/* `IMAGE_ADDS` makes it. -ENOENT: there is none. -EBUSY: somebody adds to it. */
int image_store_open(enum image_hold hold, struct image_store *ret, struct err *e);
void image_store_done(struct image_store *s);

/* An image that cannot go while this is held. */
struct image_held {
	int lock;
	struct image_record record; /* of the arena */
	char store[PATH_MAX];
};

#define IMAGE_HELD_NONE ((struct image_held){ .lock = -1 })

/* By a name, or an id or a beginning of it with 12 digits or more. -ENOENT, with what to do: it is
 * not there. */
int image_hold(const char *ref, struct arena *a, struct image_held *ret, struct err *e);
void image_let_go(struct image_held *h);
/* Is it there? Whatever else is wrong with it is for image_hold to say. */
bool image_is_here(const char *ref);

struct image_row {
	const char *name; /* "": it has none */
	const struct image_record *record;
	bool used; /* by a run, now */
};

/* Every name, and every image without one, until `each` returns other than 0, which is returned. */
int image_list(int (*each)(void *arg, const struct image_row *row), void *arg, struct err *e);

/* ---- image_change.c ---- */

/* A record, and a name for it ("": none), which another image may have had. */
int image_add(const struct image_store *s, const struct image_record *r, const char *name,
	      struct err *e);
/* Takes a name away, or all names of an id; an image without a name goes, and layers that no image
 * has. Refused while a run has it. *freed: bytes of layers. */
int image_remove(const char *ref, uint64_t *freed, struct err *e);
/* What is half-made or half removed, layers that no image has, and images without a name; all:
 * every image that no run has. */
int image_prune(bool all, uint64_t *freed, unsigned *images, struct err *e);
