/* SPDX-License-Identifier: Apache-2.0 */
/* workspace/apply_list.h - what an apply is about to do, as it is written down before: whoever
 * finds it after a kill undoes from it what was done. Read strictly. */
#pragma once

#include <limits.h>

#include "workspace/change.h"

enum apply_what {
	APPLY_ADD,    /* the staged thing gets a name that is free */
	APPLY_SWAP,   /* it and what has the name change places */
	APPLY_REMOVE, /* what has the name goes to the stage */
	APPLY_MODE,   /* of a folder that stays */
	APPLY_INNER,  /* in a new folder, whose step is its own */
	APPLY_WHATS
};

struct apply_op {
	const char *path;
	enum apply_what what;
	uint64_t root;          /* of INNER: which op has the folder; else its own number */
	struct change_was made; /* as it was staged; mode 0: there is nothing of it */
	struct change_was was;  /* of the workspace */
	bool moved, origin;     /* the layer's own file, by a rename; with that mark */
	bool same_bytes;        /* only the mode is another */
};

struct apply_list {
	struct arena *arena;
	const char *layer;     /* its folder */
	const char *workspace; /* as the layer has it */
	const char *items;     /* the folder with what is staged, by number; */
	uint64_t items_ino;
	uint64_t began; /* seconds */
	struct apply_op *ops;
	size_t n;
};

void apply_list_done(struct apply_list *l);
static inline void cleanup_apply_list(struct apply_list *l)
{
	apply_list_done(l);
}

void apply_list_write(const struct apply_list *l, struct buf *out);
/* 0, -EBADMSG or -ENOMEM; the bytes are not needed afterwards. */
int apply_list_read(const char *data, size_t n, struct apply_list *ret);

/* Where in `items` it is staged. */
int apply_staged_name(const struct apply_list *l, size_t i, char out[PATH_MAX]);
