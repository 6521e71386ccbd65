/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/limits/cgroup.h - one control-group leaf per run, on v2, v1 and hybrid hosts.
 *
 * A leaf is made before the child exists, is locked (flock) for as long as its monitor lives, and
 * is removed at the end. A leaf whose lock is free belongs to a monitor that died: cgroup_sweep
 * removes it. Which limits the leaf enforces is known after cgroup_new; the rest is somebody else's
 * job. A forked child may use cgroup_join, but must not call cgroup_free on its copy. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/text/cleanup.h"
#include "base/text/err.h"

struct cgroup;

/* Where the hierarchies are; the unit tests point it at a made-up tree. NULL members: the real
 * ones. */
struct cgroup_host {
	const char *mountinfo;   /* /proc/self/mountinfo */
	const char *self_cgroup; /* /proc/self/cgroup */
	const char *usual;       /* /sys/fs/cgroup; NULL with a mountinfo: it alone says where */
	const char *proc;        /* /proc, for the cgroups of others */
	const char *runtime;     /* /run/user/UID */
};

struct cgroup_limits {
	uint64_t memory;      /* bytes; 0: none */
	uint64_t cpus;        /* thousandths; 0: none */
	uint64_t cpu_shares;  /* v1 scale, 1024 ordinary */
	uint64_t pids;        /* of the guest; init comes on top */
	const dev_t *devices; /* character devices besides the plain ones; borrowed */
	size_t device_count;
};

/* Makes the leaf. No writable hierarchy at all is not an error: *ret is then NULL and the run goes
 * on with the watch. `id` is part of the leaf's name: letters, digits, '_' and '-', at most 64. */
int cgroup_new(const struct cgroup_host *host, const char *id, const struct cgroup_limits *l,
	       struct cgroup **ret, struct err *e);

/* The same in two steps. After the first a child can be cloned into cgroup_dirfd and begin; it
 * joins the rest by cgroup_entries, before anything else runs in it. That is possible where
 * cgroup_can_wait says so; elsewhere the second step must come before the child. It may find that
 * there is nothing to be had, and then *ret is NULL. */
int cgroup_begin(const struct cgroup_host *host, const char *id, const struct cgroup_limits *l,
		 struct cgroup **ret, struct err *e);
bool cgroup_can_wait(const struct cgroup *c);
int cgroup_complete(struct cgroup **ret, const struct cgroup_limits *l, struct err *e);

/* The same for a login session, to which nothing is delegated: the leaf lies in a scope that the
 * caller's own service manager makes for it (see manager.h). Only a process that cgroup_attach
 * moves gets in. Takes milliseconds, and three seconds at the most. Where nobody can be asked, or
 * nothing would be gained, *ret is NULL and that is no error; an error is a manager that does not
 * do it. */
int cgroup_ask(const struct cgroup_host *host, const char *id, const struct cgroup_limits *l,
	       struct cgroup **ret, struct err *e);

/* Removes the leaf, waiting up to half a second for it to empty; past that a later sweep has it. */
struct cgroup *cgroup_free(struct cgroup *c);
DEFINE_CLEANUP(cgroup, struct cgroup *, cgroup_free)

const char *cgroup_version(const struct cgroup *c); /* "v1", "v2", "hybrid", or "none" for NULL */

enum { CGROUP_HAS_MEMORY = 1, CGROUP_HAS_CPUS = 2, CGROUP_HAS_SHARES = 4, CGROUP_HAS_PIDS = 8 };
/* Bits above: the limits that were asked for and that the kernel took; 0 for NULL. */
unsigned cgroup_enforces(const struct cgroup *c);

/* Another number of processes, as in cgroup_limits. False: the kernel did not take it. */
bool cgroup_set_pids(struct cgroup *c, uint64_t pids);

/* Descriptor of the v2 leaf for clone3's CLONE_INTO_CGROUP, or -1. Borrowed. */
int cgroup_dirfd(const struct cgroup *c);
/* A leaf that only the manager may move a process into: cgroup_attach is the one way. */
bool cgroup_is_asked_for(const struct cgroup *c);

/* Two ways in. The fast one: the child is cloned into cgroup_dirfd and calls cgroup_join before it
 * does anything else (10 us a hierarchy). The slow one: the parent calls cgroup_attach; moving
 * another process makes the kernel wait for a grace period, 5 to 40 ms. The child's cgroup
 * namespace comes after either (unshare): one made by clone shows the v1 leaf's name inside. */
int cgroup_join(const struct cgroup *c); /* v1 only; safe between clone and exec; 0 or -errno */
enum { CGROUP_ENTRIES_MAX = 8 };
/* What cgroup_join writes "0" to, for a child that has no copy of them. Borrowed. */
size_t cgroup_entries(const struct cgroup *c, int fds[CGROUP_ENTRIES_MAX]);
int cgroup_attach(struct cgroup *c, pid_t pid, struct err *e); /* v1 and v2, where not yet inside */

/* Signals all of it: cgroup.kill, else freeze, signal each, thaw, for at most 50 ms or so. 0,
 * -EAGAIN when somebody is left, -ESRCH for NULL. */
int cgroup_kill(struct cgroup *c);

/* Can all of it be made to stand still? And the doing: 0; -EOPNOTSUPP; -EBUSY when somebody does
 * not come to a stop, and then all of it goes on. What is frozen by v1 is killed only once it is
 * not. */
bool cgroup_can_freeze(const struct cgroup *c);
int cgroup_freeze(struct cgroup *c, bool on);

/* Readable (POLLIN, for poll and epoll alike) when the memory limit was hit or the kernel reclaimed
 * at it, until cgroup_events is called, which tells the two apart; -1 when there is none.
 * Borrowed. */
int cgroup_oom_fd(const struct cgroup *c);

struct cgroup_events {
	uint64_t oom;         /* processes killed for memory */
	uint64_t pids_max;    /* forks refused */
	uint64_t memory_peak; /* bytes; 0: not known */
};
void cgroup_events(const struct cgroup *c, struct cgroup_events *ret);
bool cgroup_killed(const struct cgroup *c); /* of these `oom` alone, for less */

/* Where leaves are made, as cgroup_new found it: the caller's from now on, to be freed. NULL for
 * NULL. */
struct cg_map;
struct cg_map *cgroup_places(struct cgroup *c);

/* Says in a file of this user's that the leaves of a run are being made, until the descriptor is
 * closed: no sweep that knows the file takes them. Takes the descriptor over, or -1; returns it. */
int cgroup_claim(int claims, const char *id);

/* Removes empty leaves of dead monitors from the places where ours would be made: the first there
 * are, and as many others in turn, whoever else makes or sweeps some at the same time. Cheap when
 * there are none, or only the leaf of the run `own` (NULL: of none). `claims` is the file that
 * others write their claims to; -1: nobody does. Places that are not known (NULL) are looked for,
 * which costs more than the sweep. *busy: of one that is dead something is still ending, and its
 * leaf is there.
 * Returns how many, counting each hierarchy. */
int cgroup_sweep(const struct cgroup_host *host, const struct cg_map *places, int claims,
		 const char *own, bool *busy);
