/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/limits/cgroup_internal.h - what the files of the cgroup module share.
 *
 * cgroup_map.c finds out where our own cgroup lies in each hierarchy (reads, decides, changes
 * nothing); cgroup_leaf.c makes, locks and removes one leaf; cgroup_v1.c and cgroup_v2.c fill
 * leaves with limits; cgroup_scope.c gets a place for one from the service manager; cgroup.c is the
 * public face. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "backend/kit/limits/cgroup.h"

/* The v1 hierarchies we use, then the v2 tree. Others (cpuset above all, whose empty children take
 * no process) are left alone. */
enum cg_kind { CG_MEMORY, CG_PIDS, CG_CPU, CG_FREEZER, CG_DEVICES, CG_UNIFIED, CG_KINDS };

#define CG_BIT(kind) (1U << (kind))
#define CG_PREFIX "brig-"
#define CG_ID_MAX 64
#define CG_NAME_MAX (CG_ID_MAX + 16)
#define CG_PERIOD 100000 /* microseconds; what a new group has anyway */
#define CG_ORDINARY_SHARES 1024

struct cg_place {
	char dir[PATH_MAX]; /* of our own cgroup; "" where the hierarchy cannot be reached */
	size_t mount_len;   /* the leading part of dir that is the mount point */
};

struct cg_map {
	struct cg_place place[CG_KINDS];
};

/* Fills the whole map; a host without cgroups leaves all places empty. 0 or -errno. */
int cg_map_read(const struct cgroup_host *host, struct cg_map *ret);
bool cg_place_up(struct cg_place *p); /* to the parent; false at the mount point */

struct cg_leaf {
	unsigned kinds; /* CG_BIT of what this directory serves; 0: no leaf here */
	bool useful;    /* at least one of them took what was asked */
	int parent, dir;
	int entry; /* v1: "tasks", write only; v2: "cgroup.procs" */
	char name[CG_NAME_MAX];
};

#define CG_LEAF_NONE                                                                               \
	(struct cg_leaf)                                                                           \
	{                                                                                          \
		.parent = -1, .dir = -1, .entry = -1                                               \
	}

/* Makes and locks the leaf `name` below the directory `parent`, which it takes over on success. */
int cg_leaf_make(int parent, const char *name, unsigned kinds, struct cg_leaf *ret);
bool cg_leaf_remove(struct cg_leaf *leaf); /* one try; false while processes are in it */
void cg_leaf_close(struct cg_leaf *leaf);  /* leaves the directory for a later sweep */

struct cg_sweep {
	int claims;      /* as in cgroup_sweep */
	const char *own; /* likewise */
	int removed;     /* so far */
	bool busy;
};
void cg_leaf_sweep(const char *path, struct cg_sweep *s); /* the abandoned leaves in it */

bool cg_set(const struct cg_leaf *leaf, const char *file, const char *text);
bool cg_set_number(const struct cg_leaf *leaf, const char *file, uint64_t value);
/* The number behind `key` in a file of "key number" lines, or the file's only number for NULL. */
uint64_t cg_get(const struct cg_leaf *leaf, const char *file, const char *key);
uint64_t cg_value(const char *text, const char *key);

/* What the manager made for us. The holder is a process of ours that keeps the scope alive, for a
 * scope ends with the last process in it and takes the counters along. */
struct cg_scope {
	pid_t holder; /* 0: there is no scope */
	int leash;    /* the holder ends when this does */
	int manager;
	char unit[CG_NAME_MAX];
	struct cg_leaf rest; /* where the holder is, so that the scope itself is empty */
};

struct cgroup {
	char id[CG_ID_MAX + 1];
	struct cg_map *map;
	unsigned enforces;
	struct cg_leaf v2;
	struct cg_leaf v1[CG_UNIFIED];
	size_t v1_count;
	struct cg_leaf aside; /* where we went so that our own cgroup could get controllers */
	unsigned enabled;     /* controllers that were switched on there */
	struct cg_scope scope;
	int kill;      /* cgroup.kill of the v2 leaf */
	int oom_count; /* v2: memory.events, v1: memory.oom_control */
	int oom_event; /* v1: the eventfd */
	int oom_poll;  /* epoll over whichever of them tells */
};

void cg_oom_watch(struct cgroup *c, int fd, unsigned events);
uint64_t cg_quota(uint64_t cpus); /* thousandths of a CPU to microseconds a period */
bool cg_wants_cpu(const struct cgroup_limits *l);

/* Both give 0, also where there is nothing to be had, or the -errno of a real failure. */
int cg_v2_open(struct cgroup *c, const struct cg_map *map, const struct cgroup_limits *l);
int cg_v1_open(struct cgroup *c, const struct cg_map *map, const struct cgroup_limits *l);
void cg_v2_return(struct cgroup *c); /* undoes stepping aside */
unsigned cg_v2_wanted(const struct cg_map *map, const struct cgroup_limits *l); /* CG_BITs */
/* The leaf below a directory of ours without processes, which it takes over on success. */
int cg_v2_below(struct cgroup *c, int dir, unsigned want, const struct cgroup_limits *l);

bool cg_inside(const struct cg_leaf *v2, pid_t pid);    /* and nobody else is */
struct cgroup *cg_alloc(const char *id, struct err *e); /* nothing in it yet but the id */
void cg_scope_end(struct cg_scope *s); /* lets go of it: the manager removes it soon */
int cg_scope_attach(struct cgroup *c, pid_t pid, struct err *e);

/* Not permitted, not there, not offered: the next place may do. Anything else is a failure. */
bool cg_unavailable(int r);
