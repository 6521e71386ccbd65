/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/plan/plan_internal.h - the parts that fill one plan; nobody else includes this. */
#pragma once

#include "backend/kit/plan/plan.h"
#include "base/mounts.h"

/* Appends an operation; NULL and *e without memory. */
struct op *plan_op(struct box_plan *p, enum op_kind kind, const char *dst, struct err *e);

/* Folders above dst that no operation makes yet. Stops at a tree somebody bound: what is missing
 * there is the user's to make, brig puts nothing into a host tree. */
int plan_parents(struct box_plan *p, const char *dst, struct err *e);

/* Opens a source without following links and notes what it is. Refuses all but files and folders.
 */
int plan_source(const char *path, struct stat *st, struct err *e);

/* A host tree at dst: bound as it is, or prepared by the parent where root needs it idmapped. */
int plan_bind(struct box_plan *p, const char *src, const char *dst, bool writable, bool owned,
	      struct err *e);
/* The same for a source that was looked at already. */
int plan_bind_seen(struct box_plan *p, const char *src, const char *dst, bool writable, bool owned,
		   const struct stat *st, struct err *e);

/* A host file or folder at its own path, read-only; small files are copied. */
int plan_object(struct box_plan *p, const char *path, const struct stat *st, struct err *e);
/* The same for what may be absent, and is then nothing, or a link, which is made again. */
int plan_same_place(struct box_plan *p, const char *path, struct err *e);
/* A file of brig's own; text is borrowed, and NULL means that there was no memory for it. */
int plan_file(struct box_plan *p, const char *path, const char *text, struct err *e);

/* A private, writable folder; all of them share one file system of limits.tmp bytes. */
int plan_private(struct box_plan *p, const char *path, mode_t mode, struct err *e);

int plan_writable(struct box_plan *p, const char *inside, struct err *e);
void plan_note(struct box_plan *p, const char *text);

int plan_root(struct box_plan *p,
	      struct err *e);                    /* system folders, /etc, /proc, /dev, /tmp, HOME */
int plan_etc(struct box_plan *p, struct err *e); /* the host's pieces of /etc */
/* Does the text of a configuration look as if a login stood in it? */
bool etc_has_login(const char *text);
int plan_mounts(struct box_plan *p, struct err *e);  /* workspace, --mount, --read, --write */
int plan_protect(struct box_plan *p, struct err *e); /* protected names, git folders */
/* After plan_protect: refuses a second writable way to a protected name. */
int plan_ways(struct box_plan *p, struct err *e);
int plan_guard(struct box_plan *p,
	       struct err *e); /* what no shown tree may show; after all trees */
int plan_door(struct box_plan *p,
	      struct err *e); /* after plan_root; nothing unless network is proxy */
int plan_code(struct box_plan *p, struct err *e); /* Python code, over all of it */
int plan_environment(struct box_plan *p, struct err *e);

/* The inside path of a host path that one of the plan's binds shows, or NULL. */
const char *plan_inside(struct box_plan *p, const char *host);

/* A tree that the command is shown: its own place on its file system, and where it appears. */
struct shown {
	struct where at;
	const char *inside;
	bool writable, folder;
};

/* What plan_guard has looked at once for all guards. */
struct sight {
	struct mounts mounts;
	struct shown *v;
	size_t n;
};

/* plan_sockets.c: covers the host's sockets in what is shown. */
int plan_sockets(struct box_plan *p, const struct sight *s, struct err *e);

/* plan_protect.c: a tree of the host's in which names are protected. */
struct guarded_tree {
	int fd; /* O_PATH */
	const char *host, *inside;
};

/* `hold`: a placeholder keeps the name while it is missing; otherwise it is looked for afterwards.
 */
int plan_protect_name(struct box_plan *p, const struct guarded_tree *t, const char *name, bool hold,
		      struct err *e);
/* The same, over however many links, for a path that somebody else chose. */
int plan_protect_goal(struct box_plan *p, const struct guarded_tree *t, const char *goal,
		      struct err *e);
/* Where the protected names that are links lead; after all the others. */
int plan_protect_goals(struct box_plan *p, const struct guarded_tree *t, struct err *e);

/* plan_git.c: the shared git folder of a worktree, which becomes *folder; then the workspace's own
 * repository, if it has one. `folder` is NULL or what the first has found. */
int plan_worktree(struct box_plan *p, const char **folder, struct err *e);
int plan_repository(struct box_plan *p, const struct guarded_tree *t, const char *folder,
		    struct err *e);
