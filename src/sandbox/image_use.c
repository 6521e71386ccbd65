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

static size_t put_words(const char **to, size_t n, const char *const *words)
{
	for (; *words; words++)
		to[n++] = *words;
	return n;
}

static size_t count_words(const char *const *words)
{
	size_t n = 0;

	while (words[n])
		n++;
	return n;
}

int image_use_command(struct spec *s, struct err *e)
{
	CLEANUP(image_use) struct image_use u = IMAGE_USE_NONE;
	const struct image_root *i = &u.held.record.root;
	const char **words;
	size_t n;

	u.arena = arena_new(IMAGE_ARENA_MAX);
	if (!u.arena)
		return err_nomem(e);
	if (image_hold(s->image, u.arena, &u.held, e) < 0)
		return err_kind(e, ERR_UNAVAILABLE);
	n = count_words(i->entrypoint) + count_words(i->cmd);
	if (!n)
		return err_refuse(e, ERR_USAGE, EINVAL, "brig run --image REF -- COMMAND",
				  "image '%.100s' has no command of its own, and none was given",
				  s->image);
	words = arena_alloc(u.arena, (n + 1) * sizeof(*words));
	if (!words)
		return err_nomem(e);
	n = put_words(words, put_words(words, 0, i->entrypoint), i->cmd);
	return spec_set_argv(s, (int)n, (char **)(uintptr_t)words, e);
}

void image_use_done(struct image_use *u)
{
	image_let_go(&u->held);
	u->arena = arena_free(u->arena);
}
