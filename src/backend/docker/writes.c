/* SPDX-License-Identifier: Apache-2.0 */
/* backend/docker/writes.c - how much has the container written to the host's disk?
 *
 * No engine limits what goes to a bound folder, so it is watched as on native, through the
 * container's own /proc. A process may hide its count from a caller that is not root (it is not
 * dumpable then): one that stays hidden ends the run, for it is the same as no limit. */
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>

#include "backend/docker/guard.h"
#include "base/files/fd.h"
#include "base/sys/clock.h"

#define HIDDEN_US (1500 * 1000) /* a runtime hides, too, until it has executed the command */
#define MOUNTINFO_MAX 65536

/* The engine may count processes in another namespace: believed when its mounts name the container.
 */
static bool writes_is_ours(const struct guard *g, const char *proc)
{
	char path[64], text[MOUNTINFO_MAX];

	(void)snprintf(path, sizeof(path), "%s/mountinfo", proc);
	return fd_read_file(AT_FDCWD, path, text, sizeof(text)) > 0 && strstr(text, g->container);
}

static int open_proc(const struct guard *g)
{
	char proc[32], path[64];
	CLEANUP(fd) int root = -1;
	CLEANUP(fd) int fd = -1;
	struct statfs fs;

	(void)snprintf(proc, sizeof(proc), "/proc/%lld", (long long)g->pid);
	(void)snprintf(path, sizeof(path), "%s/root", proc);
	if (g->pid <= 0 || !writes_is_ours(g, proc))
		return -1;
	root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	fd = root < 0 ? -1 : fd_open_nolinks(root, "proc", O_RDONLY | O_DIRECTORY, FD_BENEATH);
	if (fd < 0 || fstatfs(fd, &fs) < 0 || fs.f_type != PROC_SUPER_MAGIC)
		return -1;
	return TAKE_FD(fd);
}

void guard_watch_writes(struct guard *g)
{
	const struct box_plan *p = g->plan->box;
	const char *at = plan_on_disk(p);

	if (!p->limits.disk)
		return;
	g->look_at_writes = true;
	g->disk.with_init = true;
	if (at)
		g->disk.fd = open(at, O_PATH | O_CLOEXEC);
	g->seen_at = clock_us();
}

static void end_it(struct guard *g)
{
	g->look_at_writes = false;
	guard_kill(g, SIGKILL);
}

void guard_read_writes(struct guard *g)
{
	enum disk_seen seen = DISK_HIDDEN;

	if (g->proc < 0)
		g->proc = open_proc(g);
	if (g->proc >= 0)
		seen = disk_look(&g->disk, g->proc, g->plan->box->limits.disk);
	if (seen == DISK_OVER) {
		g->end.container.disk = true;
		end_it(g);
	} else if (seen == DISK_OK) {
		g->seen_at = clock_us();
	} else if (clock_us() - g->seen_at > HIDDEN_US) {
		(void)err_refuse(&g->end.err, ERR_UNAVAILABLE, EPERM,
				 "leave --disk out, run brig as root, or use --backend "
				 "native",
				 "what the command writes to disk cannot be watched: the run was "
				 "ended");
		end_it(g);
	}
}
