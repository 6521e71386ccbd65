/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/limits/cgroup_v1.c - leaves in the per-controller hierarchies.
 *
 * Each leaf lies directly below our own cgroup, where a limit that already holds for us holds for
 * the guest as well. Controllers mounted together share one leaf. A hierarchy that does not take
 * what was asked gets no leaf: every leaf costs a move of the child. */
#include "backend/kit/limits/cgroup_internal.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/sysmacros.h>

#include "base/files/fd.h"

/* null, zero, full, random, urandom, tty, ptmx, pts */
static const char *const devices_allowed[] = {
	"c 1:3 rwm", "c 1:5 rwm", "c 1:7 rwm", "c 1:8 rwm",
	"c 1:9 rwm", "c 5:0 rwm", "c 5:2 rwm", "c 136:* rwm",
};

/* Tells of the limit being reached: the kernel signals an eventfd registered for the file. */
static void register_oom(struct cgroup *c, const struct cg_leaf *leaf)
{
	CLEANUP(fd) int control = openat(leaf->dir, "memory.oom_control", O_RDONLY | O_CLOEXEC);
	CLEANUP(fd) int event = -1;
	char text[32];

	if (control < 0)
		return;
	event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	(void)snprintf(text, sizeof(text), "%d %d", event, control);
	if (event >= 0 && cg_set(leaf, "cgroup.event_control", text)) {
		c->oom_event = TAKE_FD(event);
		cg_oom_watch(c, c->oom_event, EPOLLIN);
	}
	c->oom_count = TAKE_FD(control);
}

static bool fill_memory(struct cgroup *c, struct cg_leaf *leaf, const struct cgroup_limits *l)
{
	if (!cg_set_number(leaf, "memory.limit_in_bytes", l->memory))
		return false;
	/* Memory plus swap can only be set once memory alone is lower, and is missing where the
	 * kernel does not account for swap. */
	(void)cg_set_number(leaf, "memory.memsw.limit_in_bytes", l->memory);
	(void)cg_set(leaf, "memory.swappiness", "0");
	/* Buffers of inet sockets are counted apart, and only where that has a limit. */
	(void)cg_set_number(leaf, "memory.kmem.tcp.limit_in_bytes", l->memory);
	register_oom(c, leaf);
	c->enforces |= CGROUP_HAS_MEMORY;
	return true;
}

static bool fill_pids(struct cgroup *c, struct cg_leaf *leaf, const struct cgroup_limits *l)
{
	if (!cg_set_number(leaf, "pids.max", l->pids + 1))
		return false;
	c->enforces |= CGROUP_HAS_PIDS;
	return true;
}

static bool fill_cpu(struct cgroup *c, struct cg_leaf *leaf, const struct cgroup_limits *l)
{
	bool useful = false;

	if (l->cpus && cg_set_number(leaf, "cpu.cfs_quota_us", cg_quota(l->cpus))) {
		c->enforces |= CGROUP_HAS_CPUS;
		useful = true;
	}
	if (l->cpu_shares && l->cpu_shares != CG_ORDINARY_SHARES &&
	    cg_set_number(leaf, "cpu.shares", l->cpu_shares)) {
		c->enforces |= CGROUP_HAS_SHARES;
		useful = true;
	}
	return useful;
}

static bool fill_freezer(struct cgroup *c UNUSED, struct cg_leaf *leaf,
			 const struct cgroup_limits *l UNUSED)
{
	return faccessat(leaf->dir, "freezer.state", W_OK, AT_EACCESS) == 0;
}

/* A device our own cgroup does not have cannot be allowed: the guest then lacks it as we do. */
static bool fill_devices(struct cgroup *c UNUSED, struct cg_leaf *leaf,
			 const struct cgroup_limits *l)
{
	CLEANUP(fd) int allow = openat(leaf->dir, "devices.allow", O_WRONLY | O_CLOEXEC);
	char text[32];

	if (allow < 0 || !cg_set(leaf, "devices.deny", "a"))
		return false;
	for (size_t i = 0; i < ARRAY_LEN(devices_allowed); i++)
		(void)fd_write_all(allow, devices_allowed[i], strlen(devices_allowed[i]));
	for (size_t i = 0; i < l->device_count; i++) {
		(void)snprintf(text, sizeof(text), "c %u:%u rw", major(l->devices[i]),
			       minor(l->devices[i]));
		(void)fd_write_all(allow, text, strlen(text));
	}
	return true;
}

static bool (*const fill[CG_UNIFIED])(struct cgroup *, struct cg_leaf *,
				      const struct cgroup_limits *) = {
	[CG_MEMORY] = fill_memory,   [CG_PIDS] = fill_pids,       [CG_CPU] = fill_cpu,
	[CG_FREEZER] = fill_freezer, [CG_DEVICES] = fill_devices,
};

static bool cgroup_v1_wanted(const struct cgroup *c, enum cg_kind kind,
			     const struct cgroup_limits *l)
{
	switch (kind) {
	case CG_MEMORY:
		return l->memory;
	case CG_PIDS:
		return l->pids;
	case CG_CPU:
		return cg_wants_cpu(l);
	case CG_FREEZER:
		return c->kill < 0; /* only to kill with */
	default:
		return true;
	}
}

/* The leaf of another kind that lies in the same directory: controllers mounted together. */
static struct cg_leaf *shared(struct cgroup *c, const struct cg_map *map, enum cg_kind kind)
{
	for (size_t i = 0; i < c->v1_count; i++)
		for (int k = 0; k < CG_UNIFIED; k++)
			if ((c->v1[i].kinds & CG_BIT(k)) &&
			    strcmp(map->place[k].dir, map->place[kind].dir) == 0)
				return &c->v1[i];
	return NULL;
}

static int get_leaf(struct cgroup *c, const struct cg_map *map, enum cg_kind kind,
		    struct cg_leaf **ret)
{
	CLEANUP(fd) int parent = -1;
	char name[CG_NAME_MAX];
	int r;

	*ret = shared(c, map, kind);
	if (*ret) {
		(*ret)->kinds |= CG_BIT(kind);
		return 0;
	}
	/* An ordinary user's answer in most places, and cheaper than a mkdir that fails. */
	if (faccessat(AT_FDCWD, map->place[kind].dir, W_OK | X_OK, AT_EACCESS) < 0)
		return -errno;
	parent = fd_open_nolinks(AT_FDCWD, map->place[kind].dir, O_PATH | O_DIRECTORY, 0);
	if (parent < 0)
		return parent;
	(void)snprintf(name, sizeof(name), CG_PREFIX "%s", c->id);
	r = cg_leaf_make(parent, name, CG_BIT(kind), &c->v1[c->v1_count]);
	if (r < 0)
		return r;
	(void)TAKE_FD(parent);
	*ret = &c->v1[c->v1_count++];
	return 0;
}

static void drop_useless(struct cgroup *c)
{
	size_t kept = 0;

	for (size_t i = 0; i < c->v1_count; i++) {
		if (c->v1[i].useful)
			c->v1[kept++] = c->v1[i];
		else if (!cg_leaf_remove(&c->v1[i]))
			cg_leaf_close(&c->v1[i]);
	}
	c->v1_count = kept;
}

int cg_v1_open(struct cgroup *c, const struct cg_map *map, const struct cgroup_limits *l)
{
	int r = 0;

	for (int k = 0; k < CG_UNIFIED; k++) {
		struct cg_leaf *leaf;

		if (!map->place[k].dir[0] || !cgroup_v1_wanted(c, (enum cg_kind)k, l))
			continue;
		r = get_leaf(c, map, (enum cg_kind)k, &leaf);
		if (r < 0 && !cg_unavailable(r))
			break;
		if (r == 0 && fill[k](c, leaf, l))
			leaf->useful = true;
		r = 0;
	}
	drop_useless(c);
	return r;
}
