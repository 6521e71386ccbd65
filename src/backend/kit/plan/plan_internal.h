/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/plan/plan_internal.h - the parts that fill one plan; nobody else includes this. */
#pragma once

#include <string.h>

#include "backend/kit/plan/plan.h"
#include "base/files/mounts.h"
#include "base/sys/sockets.h"
#include "model/outcome/store.h"
#include "model/settings/paths.h"

/* Appends an operation; NULL and *e without memory. */
struct op *plan_op(struct box_plan *p, enum op_kind kind, const char *dst, struct err *e);

/* Folders above dst that no operation makes yet. Stops at a tree somebody bound: what is missing
 * there is the user's to make, brig puts nothing into a host tree. */
int plan_parents(struct box_plan *p, const char *dst, struct err *e);

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

/* A link in brig's own root. */
int plan_link(struct box_plan *p, const char *path, const char *to, struct err *e);

/* A private, writable folder; all of them share one file system of limits.tmp bytes. */
int plan_private(struct box_plan *p, const char *path, mode_t mode, struct err *e);

/* The folder that is kept for this project, as HOME; nothing where there is none. Mapped: its owner
 * on disk, root, appears as the user inside. */
int plan_kept_home(struct box_plan *p, bool map, struct err *e);
/* Of a long-lived sandbox: the folder of its store for that place, at dst. 0: there is none, and a
 * private one is wanted; 1: it is shown. */
int plan_stored(struct box_plan *p, enum store_place place, const char *dst, struct err *e);
/* HOME and /tmp of a sandbox whose root is not brig's to make, where there is a store. */
int plan_stored_trees(struct box_plan *p, struct err *e);
/* Refuses what is to be mounted into one of them by who would follow a link there. */
int plan_check_stored(const struct box_plan *p, struct err *e);
int plan_bind_stored(struct box_plan *p, const char *folder, const char *dst, struct err *e);
/* A cache or a volume; its owner on disk appears as the user inside. */
int plan_bind_volume(struct box_plan *p, const char *folder, const char *dst, bool writable,
		     struct err *e);
/* Notes what of the user's own programs the command could replace in a writable tree. */
int plan_programs(struct box_plan *p, const char *flag, const char *src, struct err *e);

/* plan_image.c: the image's layers; before everything else. Then what it says of volumes; and, when
 * the plan has all of its places, which of them are in it. */
int plan_image_root(struct box_plan *p, struct err *e);
int plan_image_volumes(struct box_plan *p, struct err *e);
void plan_image_mark(struct box_plan *p);
/* Without a workspace, the folder that it names is the command's; made where it is missing. */
int plan_image_folder(struct box_plan *p, struct err *e);
/* Does what the image has at path show, or is that brig's own? */
bool plan_image_shows(const char *path);
/* Our lines and those of the image's users that have other names. NULL: no memory. */
const char *plan_image_lines(struct box_plan *p, const char *ours, const char *theirs);
/* The ids inside, where the image says whose its commands are. */
int plan_image_user(struct box_plan *p, struct err *e);
/* A tree of brig's own that root has idmapped. */
int plan_prepare(struct box_plan *p, struct op *o, const struct stat *st, struct err *e);
int plan_source(const char *path, struct stat *st, struct err *e);

/* The workspace, and the layer over it. */
int plan_layer(struct box_plan *p, struct err *e);
int plan_writable(struct box_plan *p, const char *inside, struct err *e);
void plan_note(struct box_plan *p, const char *text);
/* Does its command have a terminal, or may one that comes later? */
bool plan_has_terminal(const struct box_plan *p);

int plan_root(struct box_plan *p,
	      struct err *e);                    /* system folders, /etc, /proc, /dev, /tmp, HOME */
int plan_etc(struct box_plan *p, struct err *e); /* the host's pieces of /etc */
/* Is it root's, and may everybody read it, or enter it, and nobody else write? */
bool etc_for_everybody(const struct stat *st);
/* All that is in the folder, which is closed; `text` is room of LOOKED_TEXT_MAX to look for logins,
 * or NULL. false: something in there is not everybody's, or there is too much. */
bool etc_folder_for_everybody(int fd, int depth, char *text, unsigned *left);
/* Does the text of a configuration look as if a login stood in it? */
bool etc_has_login(const char *text);
/* What packages ship: the mounts, in the fixed tree, before plan_etc; and the links, after
 * everything else. */
int plan_packages_root(struct box_plan *p, struct err *e);
int plan_packages_links(struct box_plan *p, struct err *e);
/* After those: has /etc made before the start, where that can be had. */
int plan_links_etc(struct box_plan *p, struct err *e);
/* Of such a plan: where an operation in /etc is carried out. */
int plan_moved(struct box_plan *p, struct op *o, struct err *e);
/* The cache folder, or as much of its path as is there, in what the command may write to: the run
 * will be refused, and nothing is to be made before. */
bool plan_cache_is_writable(const struct box_plan *p);
/* Is what the host has at path theirs as a whole? */
bool plan_packages_have(const struct box_plan *p, const char *path);
#define CPU_ONLINE "/sys/devices/system/cpu/online"
/* Does the copy of the machine's topology show these CPUs? */
bool plan_packages_cpus(struct box_plan *p, const char *list);
/* The parent opens the source of `o`, as it is, for a child that could not. */
int plan_hand_over(struct box_plan *p, struct op *o, const struct stat *st, struct err *e);
void plan_etc_look(struct box_plan *p); /* are they fit to be shown? */
/* Before all trees: is the workspace a folder of a repository that can be shown around it? */
int plan_subfolder(struct box_plan *p, struct err *e);
int plan_toolchains(struct box_plan *p, struct err *e); /* before plan_mounts, which shows them */
/* Notes programs that are others inside than along the caller's PATH, `mine`. */
int plan_other_tools(struct box_plan *p, const char *mine, struct err *e);
int plan_mounts(struct box_plan *p, struct err *e); /* workspace, --mount, --read, --write */
/* Refuses what was asked for in a git folder outside of the workspace, which is bound by the
 * operations `from` on. */
int plan_git_grants(const struct box_plan *p, size_t from, struct err *e);
/* Adds to a configuration of git: the run's credentials, for hosts that git may ask. */
int plan_git_keys(struct box_plan *p, const struct spec *s, const char **text, struct err *e);
bool plan_has_names(const struct box_plan *p); /* will plan_protect find any? */
/* Names that an empty folder will hold, each as a line for git to ignore it by; NULL: no memory. */
const char *plan_held_folders(struct box_plan *p);
int plan_protect(struct box_plan *p, struct err *e); /* protected names, git folders; after the
						      * worktree */
int plan_guard(struct box_plan *p,
	       struct err *e); /* what no shown tree may show; after all trees */
enum { SETTINGS_PLACES = 3 };
/* plan_guard.c: where the user's own settings are, or may come to be; NULL: nowhere. `listed` is
 * the home that the password entry names, or NULL. */
const char *plan_settings_place(struct box_plan *p, int which, const char *listed);
int plan_gpus(struct box_plan *p, struct err *e); /* after plan_root; refuses where they are not */
/* What /sys says of the GPU with that render node, and of all that kfd drives; may be nothing. */
int plan_gpu_render(struct box_plan *p, dev_t number, struct err *e);
int plan_gpu_topology(struct box_plan *p, struct err *e);
int plan_gpu_nvidia(struct box_plan *p, struct err *e); /* after all nodes */
int plan_door(struct box_plan *p,
	      struct err *e); /* after plan_root; nothing unless network is proxy */
int plan_code(struct box_plan *p, struct err *e); /* Python code, over all of it */
int plan_environment(struct box_plan *p, struct err *e);

/* A tree that the command is shown: its own place on its file system, and where it appears. */
struct shown {
	struct where at;
	const char *inside;
	bool writable, folder;
	bool asked;  /* not only for what it lies in */
	bool system; /* of every run's tree */
	bool kept;   /* the HOME that brig keeps for this project */
};

/* By their places on the file system. */
static inline bool within(const struct where *one, const struct where *other)
{
	return one->dev == other->dev && path_under(one->path, other->path);
}

/* Of one that is: its path below the other. */
static inline const char *rest_of(const struct where *one, const struct where *other)
{
	return one->path + (other->path[1] ? strlen(other->path) : 0);
}

/* What plan_guard has looked at once for all guards. */
struct sight {
	struct mounts mounts;
	struct shown *v;
	size_t n;
};

/* plan_ways.c: refuses a second writable way to the workspace, to a protected name, or to what was
 * named to be read. */
int plan_ways(struct box_plan *p, const struct sight *s, struct err *e);

/* plan_letters.c: refuses what lies over a part of a tree whose names in other letters lead past
 * it.
 */
int plan_letters(struct box_plan *p, struct err *e);

/* plan_sockets.c: covers the host's sockets, and pipes that are not to be written, in what is
 * shown. */
int plan_sockets(struct box_plan *p, struct err *e); /* after plan_guard */

/* Something to cover, at every place where a tree shows it. */
struct hiding {
	struct box_plan *plan;
	const struct sight *sight;
	size_t first; /* index of the first cover made here */
};

int hide_in(struct hiding *h, const struct where *folder, const char *name, struct err *e);

/* plan_lost.c: sockets that are not where they were bound. */
struct lost {
	struct lost_socket {
		dev_t dev;
		uint32_t ino;
		const char *name; /* it was bound as; whoever bound it chose it */
		bool found;       /* in its only place */
	} * v;
	size_t n, left;  /* remembered, and of those not found for good */
	bool more;       /* than are remembered */
	uint16_t *slots; /* by device and inode: which of them, from 1 on; NULL: one alone */
};

/* `folder`, unless NULL, is the one it was bound in: who renames a socket mostly leaves it there.
 */
int lost_add(struct hiding *h, struct lost *l, const struct bound_socket *b,
	     const struct where *folder, struct err *e);
/* Looks for them, and for pipes, in the trees that somebody asked for. */
int plan_lost(struct hiding *h, struct lost *l, struct err *e);

/* plan_search.c: a look through folders of the host, for as many as the budget has. */
struct folder_search {
	const struct mounts *mounts;
	size_t folders, entries; /* that will still be looked at */
	size_t unseen;           /* folders that were left out */
	/* Sockets, pipes, devices. A result other than 0 ends the look; negative: an error. */
	int (*found)(void *ctx, const struct where *folder, const char *name, const struct stat *st,
		     struct err *e);
	void *ctx;
};

int search_folder(struct folder_search *s, const struct where *folder,
		  struct err *e); /* it alone */
int search_tree(struct folder_search *s, const struct where *top, struct err *e);

/* plan_protect.c: a tree of the host's in which names are protected. */
struct guarded_tree {
	int fd; /* O_PATH */
	const char *host, *inside;
};

/* The path in the tree of one of the host's, which may be NULL; NULL: it is not in there. */
static inline const char *in_tree(const struct guarded_tree *t, const char *host)
{
	size_t n = strlen(t->host);

	return host && path_under(host, t->host) && host[n] ? host + n + 1 : NULL;
}

/* `hold`: a placeholder keeps the name while it is missing; otherwise it is looked for afterwards.
 */
int plan_protect_name(struct box_plan *p, const struct guarded_tree *t, const char *name, bool hold,
		      struct err *e);
/* The same, over however many links, for a path that somebody else chose. */
int plan_protect_goal(struct box_plan *p, const struct guarded_tree *t, const char *goal,
		      struct err *e);
/* Where the protected names that are links lead; after all the others. */
int plan_protect_goals(struct box_plan *p, const struct guarded_tree *t, struct err *e);

enum { LINKS_MAX = 40 }; /* as many as the kernel follows */

/* Where a link in the tree leads, over links and mounts outside of it. */
struct link_way {
	const char *goal; /* its place in the tree; NULL: elsewhere, or the tree itself */
	const char *passed[LINKS_MAX]; /* links in the tree on the way there */
	size_t passed_count;
	int links;
	bool lost; /* it cannot be followed */
};

/* plan_links.c. The last name of the way may be a link in the tree again. */
void plan_follow(struct box_plan *p, const struct guarded_tree *t, const char *path,
		 struct link_way *ret);

/* Is the workspace one of brig's own folders of settings, or in one? */
bool plan_in_settings(struct box_plan *p);

/* plan_git.c: the shared git folder of a worktree; then the workspace's own repository, if it has
 * one, and those that it lies in. */
int plan_worktree(struct box_plan *p, struct err *e);
/* Where the workspace's `.git` file leads; NULL: it is no such file. */
const char *plan_git_goal(struct box_plan *p);
int plan_repository(struct box_plan *p, const struct guarded_tree *t, struct err *e);
/* git: read and none, in a workspace under a layer. */
int plan_layered_git(struct box_plan *p, const struct guarded_tree *t, struct err *e);
/* The repositories in what else the command may write to; after those of the workspace. */
int plan_written(struct box_plan *p, struct err *e);

/* Those of a repository: `config` is its folder, `git` that of the working tree `root`, or NULL. */
int plan_config_of(struct box_plan *p, const char *config, const char *git, const char *root,
		   bool nested, struct err *e);
/* What all of them name in this tree. May ask git, and refuses where that does not answer. */
int plan_configured(struct box_plan *p, const struct guarded_tree *t, struct err *e);

/* plan_above.c: the repositories that the workspace is a folder of. */
int plan_above(struct box_plan *p, struct err *e);
/* What a `.git` that is a file leads to: a worktree's, with the folder that it shares, or a
 * submodule's. */
int plan_pointer(struct box_plan *p, const char *file, const char *root, struct err *e);
/* Where a `.git` that is a file in `root` leads; NULL: it is no such file. */
const char *plan_goal_of(struct box_plan *p, const char *file, const char *root);
/* The folder that a worktree's git folder shares; NULL: none. */
const char *plan_common_of(struct box_plan *p, const char *git);
/* The working tree that a worktree's git folder belongs to; NULL: none. */
const char *plan_worktree_root(struct box_plan *p, const char *git);
/* The working tree of a common folder, where it lies in one. */
const char *plan_main_root(struct box_plan *p, const char *common);
bool plan_is_git(const char *path);
