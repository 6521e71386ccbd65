/* SPDX-License-Identifier: Apache-2.0 */
/* workspace/apply.h - puts what a layer would change into its workspace: all of it or nothing.
 *
 *	CACHE/applied/DEV-INO/lock    held by who applies or undoes in that workspace
 *	                      plan    what is being staged: nothing of the workspace is touched yet
 *	                      list    what is being done; found by another, it is undone
 *	                      done    what was done: until the next apply, or 7 days, it can be
 *undone items/  what is staged, and what came out of the workspace, by number undone  stamps of
 *what an undo has put back
 *
 * Everything is staged first, as inodes of the workspace's own file system; then each change is one
 * rename, by descriptors that follow no link. What a rename brings out is compared with what the
 * list says was there: where it is another, everything is undone. Where the cache is on another
 *file system than the workspace, `items` is a closed folder beside the workspace.
 *
 * "All or nothing" is after recovery: readers may see a state in between. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "sandbox/layers/layer.h"
#include "workspace/change.h"
#include "workspace/apply_guard.h"
#include "workspace/layer_look.h"

enum apply_verdict {
	VERDICT_NOT_ASKED,
	VERDICT_TAKE,
	VERDICT_GUARDED,  /* by name only */
	VERDICT_NEVER,    /* a socket, a device: nobody applies it */
	VERDICT_CONFLICT, /* the host has changed it as well */
};

struct apply; /* of one workspace and layer, locked */

/* Locks the workspace, undoes what a killed apply left, and looks through the layer, which is held
 * alone, or `still`, and stays the caller's. From one that is in use files are copied. -EBUSY:
 * somebody else applies there. */
int apply_begin(struct layer *l, struct apply **ret, struct err *e);
struct apply *apply_end(struct apply *a);
DEFINE_CLEANUP(apply, struct apply *, apply_end)

const struct change_list *apply_changes(const struct apply *a);
enum apply_verdict apply_verdict_of(const struct apply *a, size_t i);
struct guard_says apply_guard_of(const struct apply *a, size_t i);
struct look_want apply_look(const struct apply *a); /* to show texts of these changes */

struct apply_asked {
	const char *const *paths; /* and all that is below them; none: all */
	size_t count;
	bool force; /* over what the host has changed; with paths alone */
};

/* Decides for each change. A path that nothing is changed at is an error. */
int apply_judge(struct apply *a, const struct apply_asked *asked, struct err *e);
size_t apply_count(const struct apply *a, enum apply_verdict v);

/* Does what was judged so; *done is how many changes that were. A conflict refuses all of it. After
 * an error the workspace is as it was. */
int apply_commit(struct apply *a, size_t *done, struct err *e);

/* Called before each step, for tests. */
typedef void apply_step(void *arg);
void apply_on_step(struct apply *a, apply_step *fn, void *arg);

/* For who finishes a run without a question: applies what needs no name, where nothing is in
 * conflict. */
struct apply_told {
	size_t done, left; /* changes; those that were left out */
};
/* What was applied and is worth a look (guard_says.reported); may be NULL. */
typedef void apply_look_at(void *arg, const char *path, const char *reason);
int apply_auto(struct layer *l, struct apply_told *ret, apply_look_at *look, void *arg,
	       struct err *e);

/* Undoes the last apply in the workspace; *done: how many changes. -ENOENT: there is none. Refused
 * where something has been changed since, unless `force`. */
int apply_undo(int workspace, bool force, size_t *done, struct err *e);

/* Stamps of what applies and undos have changed in that workspace: no conflicts. The caller frees
 * *ret. */
int apply_known(int workspace, struct look_known **ret, size_t *n);
/* Likewise of what was put there from a layer that is in use. */
int apply_own(const struct layer *l, struct look_known **ret, size_t *n);

/* Undoes what a killed apply left in that workspace, where there is such a thing; one call to the
 * kernel where there is none. */
int apply_recover(int workspace, struct err *e);
