/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/limits/cgroup_v2.c - the leaf in the unified tree.
 *
 * Where it may lie: below our own cgroup or an ancestor of it. To put a child there we need the
 * right to write cgroup.procs of the common ancestor, which is exactly the directory the leaf is
 * made in. That directory must hand the controllers down (cgroup.subtree_control), which it cannot
 * begin to do while processes are in it. So our own cgroup serves only when it is the root, when
 * its controllers are on already, or when we are alone in it: then we step aside into a leaf of
 * our own, and come back at the end. */
#include "backend/kit/limits/cgroup_internal.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/files/fd.h"

#define CONTROLLERS 3

static const struct {
	const char *name;
	unsigned bit;
} controllers[CONTROLLERS] = {
	{ "memory", CG_BIT(CG_MEMORY) },
	{ "pids", CG_BIT(CG_PIDS) },
	{ "cpu", CG_BIT(CG_CPU) },
};

struct leaf_spot {
	int dir;
	unsigned have; /* controllers a child of it gets */
};

/* Which of our controllers the blank-separated list in a file names. */
static unsigned controllers_in(int dir, const char *file)
{
	char text[512], *rest = text, *word;
	unsigned found = 0;

	if (fd_read_file(dir, file, text, sizeof(text)) <= 0)
		return 0;
	while ((word = strsep(&rest, " \n")))
		for (size_t i = 0; i < CONTROLLERS; i++)
			if (strcmp(word, controllers[i].name) == 0)
				found |= controllers[i].bit;
	return found;
}

/* Switches each of `which` on ('+') or off ('-'), one by one because a list is taken whole or not
 * at all. Returns those that were accepted. */
static unsigned switch_controllers(int dir, unsigned which, char sign)
{
	CLEANUP(fd) int fd = openat(dir, "cgroup.subtree_control", O_WRONLY | O_CLOEXEC);
	unsigned done = 0;

	for (size_t i = 0; fd >= 0 && i < CONTROLLERS; i++) {
		char word[16];
		int n = snprintf(word, sizeof(word), "%c%s", sign, controllers[i].name);

		if ((which & controllers[i].bit) && write(fd, word, (size_t)n) == n)
			done |= controllers[i].bit;
	}
	return done;
}

/* The root of the tree has no cgroup.type and may hold processes and hand down controllers at
 * once; the root of a cgroup namespace is not that root. */
static bool is_root(int dir)
{
	return faccessat(dir, "cgroup.type", F_OK, 0) < 0 && errno == ENOENT;
}

static bool alone_in(int dir)
{
	char text[64], self[24];

	(void)snprintf(self, sizeof(self), "%d\n", (int)getpid());
	return fd_read_file(dir, "cgroup.procs", text, sizeof(text)) > 0 && strcmp(text, self) == 0;
}

/* Back into our own cgroup; the entry is closed first so that a descriptor is free for it. */
static bool remove_aside(struct cgroup *c)
{
	c->aside.entry = fd_close(c->aside.entry);
	if (c->enabled) /* before we enter: nobody may while controllers are handed down */
		(void)switch_controllers(c->aside.parent, c->enabled, '-');
	/* "0" stands for the writer. */
	if (fd_write_file(c->aside.parent, "cgroup.procs", "0") < 0 || !cg_leaf_remove(&c->aside))
		cg_leaf_close(&c->aside);
	return false;
}

/* Moves us from our own cgroup into a leaf beside the guest's, so that nobody is left in it. */
static bool step_aside(struct cgroup *c, int own)
{
	CLEANUP(fd) int parent = fcntl(own, F_DUPFD_CLOEXEC, 3);
	char name[CG_NAME_MAX];

	(void)snprintf(name, sizeof(name), CG_PREFIX "monitor-%s", c->id);
	if (parent < 0 || cg_leaf_make(parent, name, CG_BIT(CG_UNIFIED), &c->aside) < 0)
		return false;
	(void)TAKE_FD(parent);
	if (write(c->aside.entry, "0", 1) != 1)
		return remove_aside(c);
	return true;
}

/* What a child of `dir` would get of `want`, after switching on what can be. */
static unsigned offer(struct cgroup *c, int dir, unsigned want, bool own)
{
	unsigned have = controllers_in(dir, "cgroup.subtree_control") & want;
	unsigned missing = want & ~have;

	if (missing)
		missing &= controllers_in(dir, "cgroup.controllers");
	if (!missing)
		return have;
	if (!own || is_root(dir))
		return have | switch_controllers(dir, missing, '+');
	/* Something handed down already: then nobody is in it, and we are not either. */
	if (have || !alone_in(dir) || !step_aside(c, dir))
		return have;
	c->enabled = switch_controllers(dir, missing, '+');
	if (!c->enabled)
		(void)remove_aside(c);
	return have | c->enabled;
}

static bool may_use(int dir)
{
	return faccessat(dir, ".", W_OK | X_OK, AT_EACCESS) == 0 &&
	       faccessat(dir, "cgroup.procs", W_OK, AT_EACCESS) == 0;
}

static void keep_better(struct leaf_spot *best, int *dir, unsigned have)
{
	if (best->dir >= 0 && __builtin_popcount(have) <= __builtin_popcount(best->have))
		return;
	(void)fd_close(best->dir);
	*best = (struct leaf_spot){ .dir = TAKE_FD(*dir), .have = have };
}

/* Upwards from our own cgroup: the first directory that offers all, else the one with the most;
 * best->dir stays -1 where there is none. Having stepped aside we stay in our own. */
static int find_spot(struct cgroup *c, struct cg_place *p, unsigned want, struct leaf_spot *best)
{
	bool own = true;

	do {
		CLEANUP(fd) int dir = fd_open_nolinks(AT_FDCWD, p->dir, O_PATH | O_DIRECTORY, 0);

		if (dir < 0 && !cg_unavailable(dir))
			return dir;
		if (dir >= 0 && may_use(dir))
			keep_better(best, &dir, offer(c, dir, want, own));
		own = false;
	} while ((best->dir < 0 || best->have != want) && !c->aside.kinds && cg_place_up(p));
	return 0;
}

/* Throttling at memory.high is left out on purpose: without swap a program that only grows is
 * slowed to a crawl just below the limit and ends by timeout instead of as out of memory. */
static void fill_memory(struct cgroup *c, uint64_t bytes)
{
	CLEANUP(fd) int events = -1;
	char text[256];

	if (!cg_set_number(&c->v2, "memory.max", bytes))
		return;
	(void)cg_set(&c->v2, "memory.swap.max", "0");
	(void)cg_set(&c->v2, "memory.oom.group", "1");
	c->enforces |= CGROUP_HAS_MEMORY;
	events = openat(c->v2.dir, "memory.events", O_RDONLY | O_CLOEXEC);
	/* A file that was never read counts as changed. */
	if (events < 0 || pread(events, text, sizeof(text), 0) < 0)
		return;
	c->oom_count = TAKE_FD(events);
	cg_oom_watch(c, c->oom_count, EPOLLPRI);
}

/* systemd's conversion, the inverse of the kernel's: 1024 shares are a weight of 100. */
static uint64_t weight(uint64_t shares)
{
	uint64_t w = shares > UINT64_MAX / 100 ? UINT64_MAX : shares * 100 / CG_ORDINARY_SHARES;

	return w < 1 ? 1 : w > 10000 ? 10000 : w;
}

static void fill_cpu(struct cgroup *c, const struct cgroup_limits *l)
{
	char text[48];

	(void)snprintf(text, sizeof(text), "%llu %d", (unsigned long long)cg_quota(l->cpus),
		       CG_PERIOD);
	if (l->cpus && cg_set(&c->v2, "cpu.max", text))
		c->enforces |= CGROUP_HAS_CPUS;
	if (l->cpu_shares && l->cpu_shares != CG_ORDINARY_SHARES &&
	    cg_set_number(&c->v2, "cpu.weight", weight(l->cpu_shares)))
		c->enforces |= CGROUP_HAS_SHARES;
}

static void cgroup_v2_fill(struct cgroup *c, const struct cgroup_limits *l, unsigned have)
{
	if (have & CG_BIT(CG_MEMORY))
		fill_memory(c, l->memory);
	if ((have & CG_BIT(CG_PIDS)) && cg_set_number(&c->v2, "pids.max", l->pids + 1))
		c->enforces |= CGROUP_HAS_PIDS;
	if (have & CG_BIT(CG_CPU))
		fill_cpu(c, l);
	c->kill = openat(c->v2.dir, "cgroup.kill", O_WRONLY | O_CLOEXEC);
	c->v2.useful = c->enforces || c->kill >= 0 ||
		       faccessat(c->v2.dir, "cgroup.freeze", W_OK, AT_EACCESS) == 0;
}

/* A controller with a hierarchy of its own is not to be had here. */
unsigned cg_v2_wanted(const struct cg_map *map, const struct cgroup_limits *l)
{
	unsigned want = (l->memory ? CG_BIT(CG_MEMORY) : 0) | (l->pids ? CG_BIT(CG_PIDS) : 0) |
			(cg_wants_cpu(l) ? CG_BIT(CG_CPU) : 0);

	for (size_t i = 0; i < CONTROLLERS; i++)
		if (map->place[i].dir[0])
			want &= ~CG_BIT(i);
	return want;
}

/* Takes dir over when there is a leaf in the end. */
static int make_leaf(struct cgroup *c, int dir, unsigned have, const struct cgroup_limits *l)
{
	char name[CG_NAME_MAX];
	int r;

	(void)snprintf(name, sizeof(name), CG_PREFIX "%s", c->id);
	r = cg_leaf_make(dir, name, CG_BIT(CG_UNIFIED), &c->v2);
	if (r < 0)
		return r;
	cgroup_v2_fill(c, l, have);
	if (!c->v2.useful && !cg_leaf_remove(&c->v2))
		cg_leaf_close(&c->v2);
	return 0;
}

int cg_v2_open(struct cgroup *c, const struct cg_map *map, const struct cgroup_limits *l)
{
	struct cg_place at = map->place[CG_UNIFIED]; /* used up by the walk */
	struct leaf_spot spot = { .dir = -1 };
	int r;

	_Static_assert(CG_MEMORY == 0 && CG_PIDS == 1 && CG_CPU == 2, "kinds index controllers");
	if (!at.dir[0])
		return 0;
	r = find_spot(c, &at, cg_v2_wanted(map, l), &spot);
	if (r == 0 && spot.dir >= 0) {
		r = make_leaf(c, spot.dir, spot.have, l);
		if (r == 0)
			return 0;
	}
	(void)fd_close(spot.dir);
	return r < 0 && !cg_unavailable(r) ? r : 0;
}

int cg_v2_below(struct cgroup *c, int dir, unsigned want, const struct cgroup_limits *l)
{
	return make_leaf(c, dir, offer(c, dir, want, false), l);
}

void cg_v2_return(struct cgroup *c)
{
	if (c->aside.kinds)
		(void)remove_aside(c);
}
