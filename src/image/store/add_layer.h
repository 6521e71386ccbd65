/* SPDX-License-Identifier: Apache-2.0 */
/* image/store/add_layer.h - one layer into the store: half-made under another name, on disk, then
 * by its own. */
#pragma once

#include "image/store/image_store.h"
#include "image/store/unpack_layer.h"

struct layer_want_sums {
	const char *sent; /* digest of the bytes as they come; NULL: whatever it is */
	uint64_t size;    /* of them; of an archive without digests UINT64_MAX */
	const char *diff; /* of what they hold */
};

/* A new, empty folder among the layers, open; `name` gets its name. */
int layer_part(const struct image_store *s, char name[64], struct err *e);
/* `hex` gets the name that it has there. */
int layer_add(const struct image_store *s, int blob, const struct layer_want_sums *w,
	      char hex[SHA256_HEX], struct unpack_tally *tally, struct err *e);
bool layer_is_there(const struct image_store *s, const char *hex);
