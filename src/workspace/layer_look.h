/* SPDX-License-Identifier: Apache-2.0 */
/* workspace/layer_look.h - looks through a layer, and says what it would change in its workspace.
 *
 * Hostile code wrote the layer, so a child of ours does it that can only read: below those two
 * folders, by descriptors, following no link, without a network or another process
 * (CONFINE_WALKER); as root it is nobody, who may read. Blocks until it is done. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "sandbox/layers/layer.h"
#include "workspace/change.h"

/* A file of the workspace whose ctime was set by brig: put back by an undo. */
struct look_known {
	uint64_t dev, ino;
	struct timespec ctime;
};

struct look_want {
	int upper, workspace; /* folders, open for reading */
	const struct layer_about *about;
	const char *const *paths; /* only these, and what is below them; none: all */
	size_t path_count;
	bool count; /* lines */
	const struct look_known *known;
	size_t known_count;
	/* What was put into the workspace from this layer since its mount was made: in a folder
	 * that the mount has alone, a name of those that is missing was removed inside. */
	const struct look_known *own;
	size_t own_count;
};

int look_list(const struct look_want *w, struct change_list *ret, struct err *e);

/* Unified text, as git writes it, in pieces. It is hostile: to a terminal as well. */
typedef int look_put(void *arg, const char *data, size_t n);
int look_text(const struct look_want *w, look_put *put, void *arg, struct err *e);
