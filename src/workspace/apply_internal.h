/* SPDX-License-Identifier: Apache-2.0 */
/* workspace/apply_internal.h - what the files of an apply share. */
#pragma once

#include "workspace/apply.h"
#include "workspace/apply_list.h"

#define APPLIED "applied" /* of the cache folder */
#define APPLIED_PLAN "plan"
#define APPLIED_LIST "list"
#define APPLIED_DONE "done"
#define APPLIED_UNDONE "undone"

enum { UNDONE_MAX = CHANGES_MAX };

/* Where one workspace's apply is written down. */
struct apply_place {
	int folder, lock;
	char path[PATH_MAX];
};

#define APPLY_PLACE_NONE ((struct apply_place){ .folder = -1, .lock = -1 })

/* Opens (and, with `make`, makes) and locks it. -ENOENT; -EBUSY: somebody has the lock. */
int apply_place_open(int workspace, bool make, struct apply_place *ret, struct err *e);
void apply_place_done(struct apply_place *p);
/* Of workspaces whose last apply is older than that: gone. Quiet. */
void apply_place_prune(time_t before);

int apply_place_write(const struct apply_place *p, const char *name, const struct apply_list *l,
		      struct err *e);
/* -ENOENT: there is none of that name. */
int apply_place_read(const struct apply_place *p, const char *name, struct apply_list *ret,
		     struct err *e);
/* The folder of what is staged, made anew; or the one that a list names. */
int apply_items_make(const struct apply_place *p, int workspace, const char *workspace_path,
		     char path[PATH_MAX], struct err *e);
int apply_items_open(const struct apply_list *l);
/* With all that is in it. */
void apply_items_drop(const struct apply_list *l);
/* Only where nothing is in it: false, and it stays. */
bool apply_items_end(const struct apply_list *l);

/* Stamps, in a file of a folder: APPLIED_UNDONE of the place of an apply has those of what brig has
 * changed, LAYER_APPLIED of a layer that is in use those of what was put into the workspace from
 * it. The caller frees *ret; no such file: none. */
int apply_stamps_read(int folder, const char *name, struct look_known **ret, size_t *n);
/* Adds to what the file has. */
int apply_stamps_add(int folder, const char *name, const struct look_known *v, size_t n,
		     struct err *e);

/* Two ends of what is done: the workspace and the stage. */
struct apply_ends {
	struct apply_list *list;
	int workspace, items, upper; /* upper -1: the layer is gone */
	struct timespec looked;      /* what is newer was changed since the look */
	apply_step *step;
	void *arg;
	/* What has a new ctime by what was done: room for three of each op. */
	struct look_known *back;
	size_t back_n;
};

/* stage.c: those whose op says `moved` are taken, if they can be. */
int apply_stage(struct apply_ends *x, const struct layer_about *about, struct err *e);
/* What is ours in the stage goes back to the layer, where it is from there, else away. */
void apply_unstage(struct apply_ends *x);

/* commit.c: -errno with *e, and then nothing of it is undone. */
int apply_steps(struct apply_ends *x, struct err *e);
/* Undoes what was done of it, by inodes; how many steps could not be undone. */
size_t apply_unsteps(struct apply_ends *x);
/* Afterwards: notes the folders in which something was renamed. */
void apply_note_folders(struct apply_ends *x);
/* ... and all that was put into the workspace. */
void apply_note_made(struct apply_ends *x);
/* Was anything of what was applied changed since? The path of one such, or NULL. */
const char *apply_touched(const struct apply_ends *x, const struct timespec *since);

/* Opens the folder that has the name at a path, and says which name: following no link. */
int apply_parent(int top, const char *path, const char **name);
