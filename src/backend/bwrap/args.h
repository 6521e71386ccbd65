/* SPDX-License-Identifier: Apache-2.0 */
/* backend/bwrap/args.h - a plan as bubblewrap's arguments.
 *
 * Pure but for one look at what kind of thing a mask covers. The same operations that native
 * carries out by itself; docs/design/bwrap.md says which of them bubblewrap does differently. */
#pragma once

#include "backend/kit/process/inside.h"

#define BWRAP_PROCS_FOLDER "/.brig"
#define BWRAP_PROCS BWRAP_PROCS_FOLDER "/proc"
#define BWRAP_LAYER BWRAP_PROCS_FOLDER "/layer" /* of an overlay workspace */

/* What the program at hand knows beyond 0.8.0, found in the program itself: distributions carry
 * newer options back. */
struct bwrap_features {
	bool bind_fd; /* --bind-fd and --ro-bind-fd, upstream since 0.10.0 */
};

enum bwrap_fd {
	BWRAP_NO_FD, /* plain text */
	BWRAP_OP,    /* of operation `op`: a file's text, or what is bound */
	BWRAP_INFO,  /* where bubblewrap writes the pid of its child */
};

struct bwrap_arg {
	const char *text; /* what is shown for a descriptor, too */
	enum bwrap_fd fd;
	size_t op;
};

struct bwrap_args {
	struct bwrap_arg *v;
	size_t n;
	const char *tmpfs[INSIDE_TMPFS_MAX]; /* private folders: each is a file system of its own */
	size_t tmpfs_count;
};

/* Where root's idmapped trees stand in the namespace that bubblewrap is started in. */
#define BWRAP_TREES "/run/brig"

/* One folder, as most runs have it, is attached there; several things below it, by their number. */
bool bwrap_one_folder(const struct box_plan *p);

/* Texts are the plan's or live in its arena. Operations marked `skip` are left out. */
int bwrap_args(struct box_plan *p, const struct bwrap_features *f, struct bwrap_args *ret,
	       struct err *e);

/* Is what it shows handed over as a descriptor, if bubblewrap can take one? Not the system's own
 * trees, which nobody but root could swap, nor covers, whose placeholders come later than the
 * descriptors: what stands there is compared inside, and bubblewrap needs less time for a path. */
bool bwrap_by_fd(const struct op *o);

/* May a node hold the name that this operation covers? Then the file that is seen of it is handed
 * over as a descriptor, whether it is needed in the end or not. */
bool bwrap_may_hold(const struct box_plan *p, size_t op);

/* The host path of what a bind, cover or hidden socket is made of; NULL without memory. */
const char *bwrap_host_path(struct box_plan *p, const struct op *o);

/* The first folder on the way to the host path `path` that others than its owner and group may not
 * pass, not counting what lies above the folder `top`: the length of its path; 0: none. A folder
 * with the owner or group of `top` counts as open if `mapped`: they are the user inside. */
size_t bwrap_closed(const char *top, const char *path, bool mapped);
