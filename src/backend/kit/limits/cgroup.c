/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/limits/cgroup_internal.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/files/fd.h"

#define FREEZE_ROUNDS 1000 /* of a millisecond */
#define REMOVE_TRIES 60    /* with the pauses below about half a second */
#define KILL_ROUNDS 50     /* a millisecond apart */
#define PAUSE_MAX 10000000
#define LIST_BYTES 16384 /* pids a round of killing looks at */

/* The guest is in no more hierarchies than these; a cgroup's name appears once in each. */
#define PROC_CGROUP_BYTES 16384

/* The leaf that enforces it; NULL: none. */
static const struct cg_leaf *cg_leaf_of(const struct cgroup *c, enum cg_kind kind)
{
	for (size_t i = 0; i < c->v1_count; i++)
		if (c->v1[i].kinds & CG_BIT(kind))
			return &c->v1[i];
	return c->v2.kinds ? &c->v2 : NULL;
}

bool cgroup_set_pids(struct cgroup *c, uint64_t pids)
{
	const struct cg_leaf *leaf = c ? cg_leaf_of(c, CG_PIDS) : NULL;

	return leaf && cg_set_number(leaf, "pids.max", pids + 1);
}

/* A file of cgroupfs always polls as readable, an eventfd never as exceptional. One epoll over
 * either gives the caller a descriptor with a single meaning. */
void cg_oom_watch(struct cgroup *c, int fd, unsigned events)
{
	struct epoll_event ev = { .events = events };

	c->oom_poll = epoll_create1(EPOLL_CLOEXEC);
	if (c->oom_poll >= 0 && epoll_ctl(c->oom_poll, EPOLL_CTL_ADD, fd, &ev) < 0)
		c->oom_poll = fd_close(c->oom_poll);
}

uint64_t cg_quota(uint64_t cpus)
{
	uint64_t us;

	if (__builtin_mul_overflow(cpus, CG_PERIOD / 1000, &us))
		return UINT64_MAX;
	return us < 1000 ? 1000 : us; /* the kernel takes no less than a millisecond */
}

bool cg_wants_cpu(const struct cgroup_limits *l)
{
	return l->cpus || (l->cpu_shares && l->cpu_shares != CG_ORDINARY_SHARES);
}

/* No dot (see the sweep), no slash, nothing a listing could not show. */
static bool good_id(const char *id)
{
	size_t n = strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");

	return n > 0 && n <= CG_ID_MAX && id[n] == '\0';
}

struct cgroup *cg_alloc(const char *id, struct err *e)
{
	struct cgroup *c;

	if (!good_id(id)) {
		(void)err_set(e, ERR_INTERNAL, EINVAL, "'%s' cannot be part of a cgroup's name",
			      id);
		return NULL;
	}
	c = calloc(1, sizeof(*c));
	if (c)
		c->map = malloc(sizeof(*c->map));
	if (!c || !c->map) {
		free(c);
		(void)err_nomem(e);
		return NULL;
	}
	(void)snprintf(c->id, sizeof(c->id), "%s", id);
	c->v2 = c->aside = c->scope.rest = CG_LEAF_NONE;
	c->scope.leash = c->scope.manager = -1;
	for (size_t i = 0; i < ARRAY_LEN(c->v1); i++)
		c->v1[i] = CG_LEAF_NONE;
	c->kill = c->oom_count = c->oom_event = c->oom_poll = -1;
	return c;
}

static int cannot_make(const struct cgroup *c, int r, struct err *e)
{
	return err_set(e, ERR_INTERNAL, -r, "cannot make cgroup '" CG_PREFIX "%s': %s", c->id,
		       strerror(-r));
}

int cgroup_begin(const struct cgroup_host *host, const char *id, const struct cgroup_limits *l,
		 struct cgroup **ret, struct err *e)
{
	CLEANUP(cgroup) struct cgroup *c = NULL;
	int r;

	c = cg_alloc(id, e);
	if (!c)
		return -e->code;
	r = cg_map_read(host, c->map);
	if (r == 0) /* before v1, which needs its freezer only where this cannot kill */
		r = cg_v2_open(c, c->map, l);
	if (r < 0)
		return cannot_make(c, r, e);
	*ret = TAKE_PTR(c);
	return 0;
}

bool cgroup_can_wait(const struct cgroup *c)
{
	return c->v2.useful;
}

int cgroup_complete(struct cgroup **ret, const struct cgroup_limits *l, struct err *e)
{
	struct cgroup *c = *ret;
	int r = cg_v1_open(c, c->map, l);

	if (r < 0)
		return cannot_make(c, r, e);
	if (!c->enforces && !c->v2.useful && !cg_leaf_of(c, CG_FREEZER)) {
		*ret = cgroup_free(c);
		return 0;
	}
	if (l->cpu_shares == CG_ORDINARY_SHARES)
		c->enforces |= CGROUP_HAS_SHARES; /* what every new group has */
	return 0;
}

int cgroup_new(const struct cgroup_host *host, const char *id, const struct cgroup_limits *l,
	       struct cgroup **ret, struct err *e)
{
	CLEANUP(cgroup) struct cgroup *c = NULL;

	if (cgroup_begin(host, id, l, &c, e) < 0 || cgroup_complete(&c, l, e) < 0)
		return -e->code;
	*ret = TAKE_PTR(c);
	return 0;
}

static bool remove_leaves(struct cgroup *c)
{
	bool gone = cg_leaf_remove(&c->v2);

	for (size_t i = 0; i < c->v1_count; i++)
		gone &= cg_leaf_remove(&c->v1[i]);
	return gone;
}

/* A process that was killed leaves its cgroup only when the kernel has taken it apart. */
static void remove_patiently(struct cgroup *c)
{
	struct timespec pause = { .tv_nsec = 100000 };

	for (int i = 0; !remove_leaves(c) && i < REMOVE_TRIES; i++) {
		(void)nanosleep(&pause, NULL);
		pause.tv_nsec = pause.tv_nsec * 2 > PAUSE_MAX ? PAUSE_MAX : pause.tv_nsec * 2;
	}
}

struct cgroup *cgroup_free(struct cgroup *c)
{
	if (!c)
		return NULL;
	(void)fd_close(c->oom_poll);
	(void)fd_close(c->oom_event);
	(void)fd_close(c->oom_count);
	(void)fd_close(c->kill);
	remove_patiently(c);
	cg_v2_return(c);
	cg_leaf_close(&c->v2);
	for (size_t i = 0; i < c->v1_count; i++)
		cg_leaf_close(&c->v1[i]);
	cg_scope_end(&c->scope);
	free(c->map);
	free(c);
	return NULL;
}

const char *cgroup_version(const struct cgroup *c)
{
	if (!c)
		return "none";
	if (!c->v1_count)
		return "v2";
	return c->v2.kinds ? "hybrid" : "v1";
}

unsigned cgroup_enforces(const struct cgroup *c)
{
	return c ? c->enforces : 0;
}

int cgroup_dirfd(const struct cgroup *c)
{
	return c && !c->scope.holder ? c->v2.dir : -1;
}

bool cgroup_is_asked_for(const struct cgroup *c)
{
	return c && c->scope.holder;
}

int cgroup_join(const struct cgroup *c)
{
	for (size_t i = 0; c && i < c->v1_count; i++)
		if (write(c->v1[i].entry, "0", 1) != 1)
			return -errno;
	return 0;
}

size_t cgroup_entries(const struct cgroup *c, int fds[CGROUP_ENTRIES_MAX])
{
	size_t n = c ? c->v1_count : 0;

	for (size_t i = 0; i < n; i++)
		fds[i] = c->v1[i].entry;
	return n;
}

/* Moving a process that is there already would cost as much as moving it in. */
bool cg_inside(const struct cg_leaf *v2, pid_t pid)
{
	char text[64], want[24];
	ssize_t n = pread(v2->entry, text, sizeof(text) - 1, 0);

	if (n <= 0)
		return false;
	text[n] = '\0';
	(void)snprintf(want, sizeof(want), "%d\n", (int)pid);
	return strcmp(text, want) == 0;
}

int cgroup_attach(struct cgroup *c, pid_t pid, struct err *e)
{
	char text[24];
	int r = 0;

	if (!c)
		return 0;
	if (c->scope.holder)
		return cg_scope_attach(c, pid, e);
	(void)snprintf(text, sizeof(text), "%d", (int)pid);
	if (c->v2.kinds && !cg_inside(&c->v2, pid))
		r = fd_write_file(c->v2.dir, "cgroup.procs", text);
	for (size_t i = 0; r == 0 && i < c->v1_count; i++)
		r = fd_write_file(c->v1[i].dir, "cgroup.procs", text);
	if (r < 0)
		return err_set(e, ERR_INTERNAL, -r,
			       "cannot move process %d into cgroup '" CG_PREFIX "%s': %s", (int)pid,
			       c->id, strerror(-r));
	return 0;
}

/* Does the process still live in our leaf? Its number may have gone to a stranger meanwhile. */
static bool is_member(const struct cgroup *c, pid_t pid)
{
	char path[40], name[CG_NAME_MAX + 4], text[PROC_CGROUP_BYTES];

	(void)snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
	(void)snprintf(name, sizeof(name), "/" CG_PREFIX "%s\n", c->id);
	return fd_read_file(AT_FDCWD, path, text, sizeof(text)) > 0 && strstr(text, name);
}

static void kill_member(const struct cgroup *c, pid_t pid)
{
	CLEANUP(fd) int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);

	if (pidfd < 0 && errno != ENOSYS)
		return;
	if (!is_member(c, pid))
		return;
	if (pidfd >= 0)
		(void)syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
	else
		(void)kill(pid, SIGKILL);
}

/* Kills what the leaf lists; returns how many it listed or -errno. */
static int kill_listed(const struct cgroup *c, const struct cg_leaf *leaf)
{
	char text[LIST_BYTES], *at = text, *nl;
	ssize_t n = fd_read_file(leaf->dir, "cgroup.procs", text, sizeof(text));
	int listed = 0;

	if (n < 0)
		return (int)n;
	/* A number without its newline was cut off; the next round has it. */
	for (; (nl = strchr(at, '\n')); at = nl + 1) {
		long pid;

		*nl = '\0';
		pid = strtol(at, NULL, 10);
		listed++;
		/* 0 is a process our pid namespace does not show; it must never reach kill(). */
		if (pid > 1 && pid != getpid())
			kill_member(c, (pid_t)pid);
	}
	return listed;
}

/* Frozen, nothing can fork past the list. Which of the two files exists is the version's matter. */
static void freeze(const struct cg_leaf *leaf, bool on)
{
	if (leaf->kinds & CG_BIT(CG_UNIFIED))
		(void)cg_set(leaf, "cgroup.freeze", on ? "1" : "0");
	else if (leaf->kinds & CG_BIT(CG_FREEZER))
		(void)cg_set(leaf, "freezer.state", on ? "FROZEN" : "THAWED");
}

int cgroup_kill(struct cgroup *c)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	const struct cg_leaf *leaf;

	if (!c)
		return -ESRCH;
	if (c->kill >= 0 && write(c->kill, "1", 1) == 1)
		return 0;
	leaf = cg_leaf_of(c, CG_FREEZER);
	if (!leaf)
		leaf = &c->v1[0];
	for (int i = 0; i < KILL_ROUNDS; i++) {
		int listed;

		freeze(leaf, true);
		listed = kill_listed(c, leaf);
		freeze(leaf, false);
		if (listed <= 0)
			return listed;
		(void)nanosleep(&pause, NULL);
	}
	return -EAGAIN;
}

static const struct cg_leaf *freezer(const struct cgroup *c)
{
	const struct cg_leaf *v1 = c ? cg_leaf_of(c, CG_FREEZER) : NULL;

	if (c && c->v2.kinds && faccessat(c->v2.dir, "cgroup.freeze", W_OK, AT_EACCESS) == 0)
		return &c->v2;
	return v1 && v1 != &c->v2 ? v1 : NULL;
}

bool cgroup_can_freeze(const struct cgroup *c)
{
	return freezer(c);
}

static bool is_frozen(const struct cg_leaf *leaf)
{
	char text[16];

	if (leaf->kinds & CG_BIT(CG_UNIFIED))
		return cg_get(leaf, "cgroup.events", "frozen") == 1;
	return fd_read_file(leaf->dir, "freezer.state", text, sizeof(text)) > 0 &&
	       strncmp(text, "FROZEN", 6) == 0;
}

int cgroup_freeze(struct cgroup *c, bool on)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	const struct cg_leaf *leaf = freezer(c);

	if (!leaf)
		return -EOPNOTSUPP;
	freeze(leaf, on);
	for (int i = 0; on && i < FREEZE_ROUNDS; i++) {
		if (is_frozen(leaf))
			return 0;
		(void)nanosleep(&pause, NULL);
	}
	if (on)
		freeze(leaf, false);
	return on ? -EBUSY : 0;
}

int cgroup_oom_fd(const struct cgroup *c)
{
	return c ? c->oom_poll : -1;
}

static uint64_t oom_kills(const struct cgroup *c)
{
	uint64_t drained;
	char text[512];
	ssize_t n;

	if (c->oom_event >= 0)
		(void)!read(c->oom_event, &drained, sizeof(drained));
	n = c->oom_count < 0 ? -1 : pread(c->oom_count, text, sizeof(text) - 1, 0);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	return cg_value(text, "oom_kill");
}

bool cgroup_killed(const struct cgroup *c)
{
	return c && oom_kills(c);
}

void cgroup_events(const struct cgroup *c, struct cgroup_events *ret)
{
	const struct cg_leaf *leaf;

	*ret = (struct cgroup_events){ 0 };
	if (!c)
		return;
	ret->oom = oom_kills(c);
	leaf = c->enforces & CGROUP_HAS_PIDS ? cg_leaf_of(c, CG_PIDS) : NULL;
	if (leaf)
		ret->pids_max = cg_get(leaf, "pids.events", "max");
	leaf = c->enforces & CGROUP_HAS_MEMORY ? cg_leaf_of(c, CG_MEMORY) : NULL;
	if (leaf)
		ret->memory_peak = cg_get(
			leaf, leaf == &c->v2 ? "memory.peak" : "memory.max_usage_in_bytes", NULL);
}

struct cg_map *cgroup_places(struct cgroup *c)
{
	return c ? TAKE_PTR(c->map) : NULL;
}

static void cgroup_sweep_places(const struct cg_map *places, struct cg_sweep *s)
{
	struct cg_place unified = places->place[CG_UNIFIED];

	for (int k = 0; k < CG_UNIFIED; k++)
		if (places->place[k].dir[0])
			cg_leaf_sweep(places->place[k].dir, s);
	if (unified.dir[0])
		do
			cg_leaf_sweep(unified.dir, s);
		while (cg_place_up(&unified));
}

int cgroup_sweep(const struct cgroup_host *host, const struct cg_map *places, int claims,
		 const char *own, bool *busy)
{
	struct cg_sweep s = { .claims = claims, .own = own };
	struct cg_map map;

	if (places)
		cgroup_sweep_places(places, &s);
	else if (cg_map_read(host, &map) == 0)
		cgroup_sweep_places(&map, &s);
	*busy = s.busy;
	return s.removed;
}
