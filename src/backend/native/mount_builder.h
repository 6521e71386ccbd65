/* SPDX-License-Identifier: Apache-2.0 */
/* backend/native/mount_builder.h - the new root while it is built: places in it, and trees attached
 * there. For the files mount*.c alone. */
#pragma once

#include <stdio.h>
#include <string.h>
#include <sys/mount.h>

#include "backend/kit/plan/plan.h"

#define COMMON_ATTRS (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)

enum { HELD_NAMES = 2, FD_PATH_LEN = 32 };

struct builder {
	const struct box_plan *plan;
	int prepared[PREPARED_MAX];
	int root;     /* the new root, O_PATH; also the current folder while it is built */
	bool classic; /* the kernel, or a filter around us, has no mount_setattr */

	/* The folder looked up last: neighbours in the plan share it. */
	int parent;
	const char *parent_path; /* of some operation; parent_len bytes of it */
	size_t parent_len;
	int null, empty;           /* what masks are copies of: the null device, an empty folder */
	int held[HELD_NAMES];      /* what is seen of a name that is held, by placeholder_text */
	int awaiting[TRUST_FILES]; /* files whose text ends with what comes last */
	size_t awaiting_count;
	bool plain; /* trees of the fixed part are mounted that have no attributes yet */
	int beside; /* with an image: the tmpfs that the root is a folder of; else -1 */
	int own;    /* with an image: the folder of what brig puts over it; else -1 */
	int layer;  /* where writable layers keep what is written; gone from the tree in the end */
};

static inline const char *last_part(const char *path)
{
	return strrchr(path, '/') + 1;
}

static inline void fd_path(int fd, char out[FD_PATH_LEN])
{
	(void)snprintf(out, FD_PATH_LEN, "/proc/self/fd/%d", fd);
}

/* The folder an object of the new root is made in; borrowed from the builder. Or -errno. */
int builder_parent(struct builder *b, const char *dst);
/* The same with the object's name there, also of one at a fixed place. */
int builder_place_of(struct builder *b, const struct op *o, const char **name);
/* Something was mounted at dst: a folder remembered at or below it may be hidden now. */
void builder_forget(struct builder *b, const char *dst);
/* A descriptor on what is there, or -errno; the second makes it first, unless something is. */
int builder_inside(struct builder *b, const char *dst);
int builder_target(struct builder *b, const char *dst, bool folder, mode_t mode);

/* What the mount of an operation is to have; a tree gets such, or what is mounted at a fixed place:
 * nobody is there yet to see it without them. */
uint64_t builder_attrs_of(const struct op *o);
int builder_attrs(int tree, uint64_t attrs, struct err *e);
int builder_attrs_at(const struct builder *b, const char *at, uint64_t attrs, struct err *e);
/* Many trees get the same ones, in one call for all that is mounted so far. */
int builder_set_plain(struct builder *b, struct err *e);

int builder_attach(int tree, int target, struct err *e);
/* At dst, which is made for it. */
int builder_attach_new(struct builder *b, int tree, const char *dst, bool folder, mode_t mode,
		       struct err *e);
/* The tree at `from` once more at `to`, with more attributes. */
int builder_bind(struct builder *b, int from, int to, uint64_t attrs, struct err *e);
/* What the operation names on the host, compared with what the plan has seen there. */
int builder_bind_source(struct builder *b, const struct op *o, bool folder, mode_t mode,
			uint64_t attrs, struct err *e);

/* ---- mount_op.c ---- */

/* Carries one operation out. */
int mount_op(struct builder *b, const struct op *o, struct err *e);
/* What only operations needed is gone from the tree. */
int mount_drop_held(const struct builder *b, struct err *e);
void mount_close_layer(struct builder *b);
