/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/image_use.h"

int image_use_open(const struct spec *s, const struct backend *b, struct image_use *u,
		   struct spec **own, struct err *e)
{
	if (!s->image || !(b->can & BACKEND_IMAGES))
		return 0;
	u->arena = arena_new(IMAGE_ARENA_MAX);
	if (!u->arena)
		return err_nomem(e);
	if (image_hold(s->image, u->arena, &u->held, e) < 0)
		return err_kind(e, ERR_UNAVAILABLE);
	if (!*own) {
		*own = spec_clone(s, e);
		if (!*own)
			return -e->code;
		(*own)->command.argv = s->command.argv;
	}
	(*own)->image_root = &u->held.record.root;
	return 0;
}

void image_use_done(struct image_use *u)
{
	image_let_go(&u->held);
	u->arena = arena_free(u->arena);
}
