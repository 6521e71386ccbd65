/* SPDX-License-Identifier: Apache-2.0 */
/* image/store/image_verify.c - is every layer still what it was when it was unpacked? */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "image/store/import.h"
#include "image/store/sums.h"

struct verifying {
	const struct image_store *s;
	int (*each)(void *arg, const char *name, const struct image_record *r,
		    const struct err *wrong);
	void *arg;
	struct arena *arena; /* of what is kept about layers that were looked at */
	struct looked {
		const char *hex;
		struct err wrong; /* code 0: nothing is */
	} * v;
	size_t n;
};

static int verify_layer(const struct image_store *s, const char *hex, struct err *e)
{
	CLEANUP(fd) int layer = openat(s->layers, hex, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CLEANUP(fd)
	int tree = layer < 0 ? -1
			     : openat(layer, IMAGE_TREE,
				      O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	CLEANUP(fd)
	int names = layer < 0 ? -1 : openat(layer, IMAGE_NAMES, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	if (tree < 0 || names < 0)
		return err_set(e, ERR_POLICY, ENOENT, "a layer is missing: %.12s", hex);
	return sums_compare(tree, names, e);
}

/* Layers are shared: each is read once. NULL: no memory. */
static const struct err *verify_once(struct verifying *v, const char *hex)
{
	struct looked *l;

	for (size_t i = 0; i < v->n; i++)
		if (strcmp(v->v[i].hex, hex) == 0)
			return &v->v[i].wrong;
	l = ARENA_PUSH(v->arena, v->v, v->n);
	if (!l || !(l->hex = arena_strdup(v->arena, hex)))
		return NULL;
	l->wrong = (struct err){ 0 };
	(void)verify_layer(v->s, hex, &l->wrong);
	return &l->wrong;
}

static int verify_image(void *arg, const struct image_row *row)
{
	struct verifying *v = arg;
	struct err fine = { 0 };
	const struct err *wrong = &fine;

	for (size_t i = 0; !wrong->code && i < row->record->root.layer_count; i++) {
		wrong = verify_once(v, row->record->root.layers[i]);
		if (!wrong)
			return -ENOMEM;
	}
	return v->each(v->arg, row->name, row->record, wrong);
}

int image_verify(int (*each)(void *arg, const char *name, const struct image_record *r,
			     const struct err *wrong),
		 void *arg, struct err *e)
{
	struct image_store s = IMAGE_STORE_NONE;
	CLEANUP(arena) struct arena *a = arena_new((size_t)64 << 20);
	struct verifying v = { .s = &s, .each = each, .arg = arg, .arena = a };
	int r;

	if (!a)
		return err_nomem(e);
	r = image_store_open(IMAGE_READS, &s, e);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	r = image_list(verify_image, &v, e);
	image_store_done(&s);
	if (r == -ENOMEM && !e->code)
		return err_nomem(e);
	return r;
}
