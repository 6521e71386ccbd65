/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/process/enforce.c - who holds a run to its limits: its cgroup, the watch or the
 * kernel's own limits, and how the cgroup comes to be. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "backend/kit/process/start_internal.h"

#define LOCK_FOLDER "/run/brig"
/* The kernel looks at the limit before it adds a message of up to 253 descriptors. */
#define FILES_ROOM 256

/* A weight below the ordinary one as a nice value: each step is worth a quarter. */
static int nice_of(uint64_t shares)
{
	int n = 0;

	for (uint64_t weight = 1024000; weight > shares * 1000 + shares * 100 && n < 19; n++)
		weight = weight * 4 / 5;
	return n;
}

static int cannot_limit(const char *what, struct err *e)
{
	return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP,
			  "run it in a delegated cgroup: systemd-run --user --scope -p "
			  "Delegate=yes brig ...",
			  "%s cannot be limited here: no cgroup is writable", what);
}

/* Root's runs have ids of their own, which count alone. brig sends under its hard limit; the user's
 * other programs have the soft one, for which the strict profile leaves room as well. */
void enforce_files(const struct box_plan *p, struct rlimit_want *limits, size_t n)
{
	struct rlimit ours;
	rlim_t most;

	if (p->by_root || plan_wrote(p, LIMIT_FILES) || getrlimit(RLIMIT_NOFILE, &ours) < 0)
		return;
	most = p->profile == PROFILE_STRICT ? ours.rlim_cur : ours.rlim_max;
	if (most < 2 * FILES_ROOM)
		return;
	most -= FILES_ROOM;
	for (size_t i = 0; i < n; i++)
		if (limits[i].resource == RLIMIT_NOFILE && limits[i].value.rlim_max > most)
			limits[i].value.rlim_cur = limits[i].value.rlim_max = most;
}

/* Since Linux 5.14 the processes of a user are counted for each user namespace, so that a limit set
 * inside counts the sandbox alone. No file or call tells. */
bool box_counts_processes(void)
{
	struct utsname u;
	unsigned long major, minor = 0;
	char *end;

	if (uname(&u) < 0)
		return false;
	major = strtoul(u.release, &end, 10);
	if (*end == '.')
		minor = strtoul(end + 1, NULL, 10);
	return major > 5 || (major == 5 && minor >= 14);
}

/* It never holds the host's root. */
static bool rlimit_holds(const struct box_plan *p)
{
	return box_counts_processes() && (p->needs_range || p->uids[0].outside != 0);
}

/* Strict takes no word for a protection: a memory limit that somebody wrote must be the kernel's.
 */
static int enforce_memory(struct backend_job *j, unsigned has, struct err *e)
{
	const struct box_plan *p = j->plan;
	enum enforcer *by = &j->isolation.limits[LIMIT_MEMORY];

	if (!p->limits.memory)
		return 0;
	*by = has & CGROUP_HAS_MEMORY ? ENFORCER_CGROUP : ENFORCER_PARTIAL;
	j->watch_memory = *by == ENFORCER_PARTIAL;
	if (j->watch_memory && p->profile == PROFILE_STRICT && plan_wrote(p, LIMIT_MEMORY))
		return cannot_limit("memory under --profile strict", e);
	return 0;
}

/* Init, the only process of brig's in that namespace, is not the command's. */
static void enforce_pids(struct backend_job *j, struct box_start *c, unsigned has)
{
	uint64_t pids = j->plan->limits.pids;
	enum enforcer *by = &j->isolation.limits[LIMIT_PIDS];

	if (has & CGROUP_HAS_PIDS) {
		*by = ENFORCER_CGROUP;
		return;
	}
	j->watch_pids = true;
	j->pids_held = rlimit_holds(j->plan);
	*by = j->pids_held ? ENFORCER_RLIMIT : ENFORCER_WATCH;
	/* Otherwise a backstop between two looks. Init's own is larger in an open sandbox, and it
	 * holds each command to its part. */
	c->inside.nproc = (j->pids_held ? pids + 1 : pids * 2) + (j->commands ? COMMANDS_MAX : 0);
}

static void begin_disk(struct backend_job *j)
{
	const char *at = plan_on_disk(j->plan);

	if (at)
		j->disk.fd = open(at, O_PATH | O_CLOEXEC);
	disk_begin(&j->disk);
}

int enforce_limits(struct backend_job *j, struct box_start *c, struct err *e)
{
	const struct limits *l = &j->plan->limits;
	enum enforcer *by = j->isolation.limits;
	unsigned has = cgroup_enforces(j->cgroup);

	if (enforce_memory(j, has, e) < 0)
		return -e->code;
	enforce_pids(j, c, has);
	by[LIMIT_TMP] = j->plan->store ? ENFORCER_WATCH : ENFORCER_TMPFS;
	by[LIMIT_FILES] = ENFORCER_RLIMIT;
	by[LIMIT_GPUS] = gpu_set_empty(&j->plan->gpus) ? ENFORCER_NONE : ENFORCER_DEVICES;
	by[LIMIT_DISK] = l->disk ? ENFORCER_WATCH : ENFORCER_NONE;
	j->watch_disk = l->disk;
	if (j->watch_disk)
		begin_disk(j);
	if (l->cpus && has & CGROUP_HAS_CPUS)
		by[LIMIT_CPUS] = ENFORCER_CGROUP;
	else if (l->cpus && l->cpus % 1000)
		return cannot_limit("a fraction of a CPU", e);
	else if (l->cpus)
		by[LIMIT_CPUS] = ENFORCER_AFFINITY;
	if (by[LIMIT_CPUS] == ENFORCER_AFFINITY)
		c->inside.cpus = (unsigned)(l->cpus / 1000);
	if (has & CGROUP_HAS_SHARES)
		by[LIMIT_CPU_SHARES] = ENFORCER_CGROUP;
	else if (l->cpu_shares > 1024)
		return cannot_limit("a CPU weight above the ordinary", e);
	else if (l->cpu_shares < 1024)
		by[LIMIT_CPU_SHARES] = ENFORCER_NICE;
	if (by[LIMIT_CPU_SHARES] == ENFORCER_NICE)
		c->inside.nice = nice_of(l->cpu_shares);
	return 0;
}

/* In a folder that nobody else can enter, so that nobody else can hold what is locked there;
 * without one there is no sweep. */
static int open_claims(void)
{
	char folder[48] = LOCK_FOLDER, path[64];

	if (geteuid() != 0)
		(void)snprintf(folder, sizeof(folder), "/run/user/%u/brig", geteuid());
	if (mkdir(folder, 0700) < 0 && errno != EEXIST)
		return -1;
	(void)snprintf(path, sizeof(path), "%s/cgroups", folder);
	return open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
}

/* A limit that somebody wrote and that nothing but a cgroup holds to: the watch is late by a look,
 * and there is no other way to a part of a CPU or to more than one's share. Whole CPUs and lesser
 * shares are the kernel's without one; what is a default is not worth the wait. */
static bool needs_cgroup(const struct box_plan *p, unsigned has)
{
	const struct limits *l = &p->limits;

	return (l->memory && plan_wrote(p, LIMIT_MEMORY) && !(has & CGROUP_HAS_MEMORY)) ||
	       (plan_wrote(p, LIMIT_PIDS) && !(has & CGROUP_HAS_PIDS)) ||
	       (l->cpus % 1000 && !(has & CGROUP_HAS_CPUS)) ||
	       (l->cpu_shares > 1024 && !(has & CGROUP_HAS_SHARES));
}

/* A manager that cannot be had leaves everything as it is, and is told of. */
static void ask_manager(struct backend_job *j, const struct cgroup_limits *want,
			const struct job_want *w)
{
	struct cgroup *c = NULL;
	struct err e = { 0 };
	char text[512];

	if (cgroup_ask(&(struct cgroup_host){ 0 }, j->id, want, &c, &e) < 0 && w->host.note) {
		(void)snprintf(text, sizeof(text), "no control group for the limits: %s", e.what);
		w->host.note(w->host.arg, text);
	}
	if (!c)
		return;
	(void)cgroup_free(j->cgroup);
	j->cgroup = c;
}

static struct cgroup_limits limits_of(const struct backend_job *j)
{
	const struct limits *l = &j->plan->limits;

	return (struct cgroup_limits){ .memory = l->memory,
				       .cpus = l->cpus,
				       .cpu_shares = l->cpu_shares,
				       .pids = l->pids + j->kind->helpers,
				       .devices = j->plan->gpu_devices,
				       .device_count = j->plan->gpu_device_count };
}

int box_complete_cgroup(struct backend_job *j, struct err *e)
{
	struct cgroup_limits want = limits_of(j);

	return cgroup_complete(&j->cgroup, &want, e) < 0 ? err_wrap(e, "control group") : 0;
}

int enforce_cgroup(struct backend_job *j, struct box_start *c, const struct job_want *w,
		   struct err *e)
{
	struct cgroup_limits want = limits_of(j);

	/* Until it is locked a leaf looks abandoned: no sweep takes it meanwhile. */
	j->cgroup_claim = cgroup_claim(open_claims(), j->id);
	if (cgroup_begin(&(struct cgroup_host){ 0 }, j->id, &want, &j->cgroup, e) < 0)
		return err_wrap(e, "control group");
	c->join_late = j->kind->tell && j->plan->by_root && cgroup_can_wait(j->cgroup);
	if (c->join_late)
		return 0;
	if (box_complete_cgroup(j, e) < 0)
		return -e->code;
	if (needs_cgroup(j->plan, cgroup_enforces(j->cgroup)))
		ask_manager(j, &want, w);
	return 0;
}

int enforce_room(struct backend_job *j, size_t commands, struct err *e)
{
	if (!(cgroup_enforces(j->cgroup) & CGROUP_HAS_PIDS) ||
	    cgroup_set_pids(j->cgroup, limits_of(j).pids + commands))
		return 0;
	return err_set(e, ERR_INTERNAL, EPERM,
		       "the control group does not take one more process of brig's own");
}

void enforce_sweep(struct backend_job *j)
{
	CLEANUP(mem)
	struct cg_map *places = j->unswept ? TAKE_PTR(j->unswept) : cgroup_places(j->cgroup);
	CLEANUP(fd) int claims = places ? open_claims() : -1;
	bool busy = false;

	if (claims >= 0)
		(void)cgroup_sweep(NULL, places, claims, j->id, &busy);
	if (busy)
		j->unswept = TAKE_PTR(places);
}
