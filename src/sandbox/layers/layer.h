/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/layers/layer.h - what a run with `workspace.mode: overlay` has written, and who may touch
 * it.
 *
 * CACHE/layers/RUN has
 *
 *	upper/   the overlay's upper layer, written by hostile code
 *	work/    the overlay's own; gone once it is finished
 *	about    JSON, mode 0600: whose it is, written whole under another name first
 *	live     of a long-lived sandbox: locked while anything may be written to the layer
 *	applied  likewise: what was put into the workspace since its last start (workspace/apply.h)
 *
 * CACHE/layers is 0700 and ours. As root everything in it is root's on disk, too: a run sees it
 * through an idmapped mount. Nothing in `upper` is opened here but folders: who reads it does so
 * confined, by descriptors, following no link.
 *
 * States: made (a run has the shared lock) -> finished (`about` says so, written last) -> dropped
 * (moved to .gone-*, then removed). A layer without `finished` that nobody holds is damaged: brig
 * or the machine ended in the middle. It can be looked at and dropped, never applied.
 *
 * A long-lived sandbox has one layer from its first start to its end. It lets go of `live` while it
 * is paused, so that others can look and apply, and takes it again before anything goes on. When it
 * is stopped the layer is finished, and its next start takes it up again. Nobody prunes it. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/files/claim.h"
#include "base/files/fd.h"
#include "base/text/err.h"

#define LAYERS "layers" /* of the cache folder */
#define LAYER_UPPER "upper"
#define LAYER_WORK "work"
#define LAYER_ABOUT "about"
#define LAYER_LIVE "live"
#define LAYER_APPLIED "applied"

enum { LAYER_KEPT_S = 7 * 24 * 3600, LAYER_BOOT = 40, LAYER_SANDBOX = 64 };
#define LAYERS_SIZE ((uint64_t)5 << 30) /* where layers_size says nothing else */

struct layer_about {
	char id[CLAIM_ID + 1]; /* of the run */
	/* Of the long-lived sandbox that it belongs to, and the boot of its last start; "" of a
	 * run. */
	char sandbox[LAYER_SANDBOX], boot[LAYER_BOOT];
	char workspace[PATH_MAX]; /* the host folder */
	/* Whether the folder by that name is still that one: device, inode, and when it was made (0
	 * where the file system notes none). */
	uint64_t dev, ino;
	struct timespec made;
	/* ctime of a file made at the start on the workspace's file system: what has one not older
	 * was changed by somebody else since. */
	struct timespec start;
	bool same_place; /* the layer is on the workspace's file system: renames may do */
	uint32_t disk_uid, disk_gid; /* of the workspace: as root what is applied gets them */
	bool by_root;
	bool finished;           /* all of it is on disk, and no mount has it any more */
	int64_t began, ended;    /* seconds; ended: 0 until it is finished */
	int64_t began_ns;        /* of that second: several may begin in one */
	uint64_t changed, bytes; /* counted at the end, see layer_count; at most LAYER_NAMES */
	bool more;               /* and more: nobody counted on */
};

struct layer {
	int folder;  /* RUN, open for reading; the lock is on it */
	int upper;   /* likewise */
	int live;    /* of a long-lived sandbox; -1: it has none, or nobody took it */
	bool passed; /* it is the "last", and a younger one of the workspace is not finished */
	bool still;  /* it is in use, and whoever uses it stands still: see layer_open */
	char path[PATH_MAX]; /* of RUN, without links */
	struct layer_about about;
};

#define LAYER_NONE ((struct layer){ .folder = -1, .upper = -1, .live = -1 })

/* How a layer is held. */
enum layer_hold {
	LAYER_SHARED, /* by a run while it lives, and by those who only look */
	LAYER_ALONE,  /* to apply, undo or discard it; -EBUSY while anybody has it */
};

/* ---- the run's ---- */

struct layer_want {
	const char *id;        /* of the run */
	const char *workspace; /* a host folder, without links */
	const char *sandbox;   /* the id of a long-lived one, shorter than LAYER_SANDBOX; or NULL */
};

/* Makes one, and holds it shared. The cache must be on a file system that can be an upper layer:
 * user xattrs, and neither NFS nor an overlay; refused by name else. */
int layer_make(const struct layer_want *w, struct layer *ret, struct err *e);
/* That of a long-lived sandbox, which was stopped, for its next start; as layer_make where there is
 * none of that id. One that another boot of the machine has left unfinished is refused. */
int layer_take_up(const struct layer_want *w, struct layer *ret, struct err *e);
/* Others may look at it (the sandbox stands still); or may no longer: -EBUSY while somebody does,
 * for a second. */
int layer_rest(const struct layer *l, bool on, struct err *e);
/* All processes inside are gone, and with them the mount: syncs the layer's file system, removes
 * the mark that a volatile mount leaves, counts names, and writes `finished`. */
int layer_finish(struct layer *l, struct err *e);
/* Lets go of it; it stays on disk. */
void layer_done(struct layer *l);

/* ---- the verbs' ---- */

/* One by a run's id (a beginning of it that is the only one will do), or "last": the youngest
 * finished one of that workspace, which may be NULL where an id is given. -ENOENT: there is none.
 * A layer that a run still has is refused for LAYER_ALONE, with -EBUSY, and told as live for
 * LAYER_SHARED: reading an upper layer in use gives halves. That of a long-lived sandbox, also by
 * its id; while it is paused with `still`, and the sandbox cannot go on until layer_done. */
int layer_open(const char *which, const char *workspace, enum layer_hold hold, struct layer *ret,
	       struct err *e);
/* Is the workspace that it names still the folder it was made over? 0, or an error that says what
 * is there instead. `fd` gets that folder, open for reading. */
int layer_workspace(const struct layer *l, int *fd, struct err *e);
enum { LAYER_NAMES = 1000000 };
/* Names in an upper layer but those of folders that were there before (at most `most`, then *more),
 * and their bytes on disk. Hostile: by descriptors, no link followed, nothing read but names,
 * attributes and marks. */
int layer_count(const struct layer *l, uint64_t most, uint64_t *names, uint64_t *bytes, bool *more);

struct layer_row {
	const struct layer_about *about;
	bool used;     /* by a run, or by somebody who applies it, now */
	bool leftover; /* it was dropped, and this could not be removed; `about` has the id alone */
	bool damaged;  /* neither used nor finished */
	uint64_t bytes;
};

/* Calls `each`, the youngest first, until it returns other than 0, which is returned. */
int layer_list(int (*each)(void *arg, const struct layer_row *row), void *arg, struct err *e);
/* Takes a layer that is held alone away, by another name first; *l is done in any case. One that is
 * `still` is refused. */
int layer_drop(struct layer *l, struct err *e);
/* Its sandbox was deleted: where there is anything in it, it is kept as that of a run is, from now
 * on; else it goes. Quiet. */
void layer_release(const char *id);
/* Drops those older than 7 days, then the oldest until all together have at most `most` bytes;
 * never one that anybody holds. */
int layer_prune(uint64_t most, struct err *e);
