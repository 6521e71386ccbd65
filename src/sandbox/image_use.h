/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/image_use.h - an image of brig's own, held for as long as something runs in it. */
#pragma once

#include "backend/backend.h"
#include "image/store/image_store.h"
#include "model/settings/spec.h"

struct image_use {
	struct arena *arena; /* NULL: there is none */
	struct image_held held;
};

#define IMAGE_USE_NONE ((struct image_use){ .held = IMAGE_HELD_NONE })

/* Where the spec names an image and the backend makes a root of one: *own, made if it is NULL and
 * the caller's, is the spec with what its root is made of. Nothing otherwise. */
int image_use_open(const struct spec *s, const struct backend *b, struct image_use *u,
		   struct spec **own, struct err *e);
/* What the image runs by itself becomes the spec's command. */
int image_use_command(struct spec *s, struct err *e);
void image_use_done(struct image_use *u);
static inline void cleanup_image_use(struct image_use *u)
{
	image_use_done(u);
}
