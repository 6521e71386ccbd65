/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/native/child.h"

#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "backend/kit/net/door_net.h"
#include "backend/kit/process/job_bridge.h"
#include "backend/native/mount.h"
#include "base/text/str.h"
#include "proc/spawn.h"

static int write_map(const char *path, uint32_t inside, uint32_t outside, struct err *e)
{
	char line[64];
	int r;

	(void)snprintf(line, sizeof(line), "%u %u 1\n", inside, outside);
	r = fd_write_file(AT_FDCWD, path, line);
	return r < 0 ? err_errno(e, r, "cannot write '%s'", path) : 0;
}

static int own_maps(const struct box_plan *p, struct err *e)
{
	int r = fd_write_file(AT_FDCWD, "/proc/self/setgroups", "deny");

	if (r < 0)
		return err_errno(e, r, "cannot write '/proc/self/setgroups'");
	if (write_map("/proc/self/uid_map", p->uids[0].inside, p->uids[0].outside, e) < 0)
		return -e->code;
	return write_map("/proc/self/gid_map", p->gids[0].inside, p->gids[0].outside, e);
}

static int loopback(struct err *e)
{
	struct ifreq r = { .ifr_name = "lo" };
	CLEANUP(fd) int s = -1;

	s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (s < 0)
		return err_sys(e, "cannot make a socket for loopback");
	r.ifr_flags = IFF_UP | IFF_RUNNING;
	if (ioctl(s, SIOCSIFFLAGS, &r) < 0)
		return err_sys(e, "cannot bring loopback up");
	return 0;
}

/* The sockets leave at once: nothing in here is to accept on them. */
static int door(const struct box_start *c, struct err *e)
{
	struct supervisor_msg m = { .said = SUPERVISOR_DOOR };
	int fds[DOOR_SOCKETS_MAX], r;

	if (door_open(c->plan->door, DOOR_NEW_GUEST, fds, e) < 0)
		return -e->code;
	r = fd_send(c->inside.control, &m, sizeof(m), fds, c->plan->door->n);
	for (size_t i = 0; i < c->plan->door->n; i++)
		(void)fd_close(fds[i]);
	return r < 0 ? err_errno(e, r, "cannot pass the door's sockets on") : 0;
}

static int bridge(const struct box_start *c, struct err *e)
{
	struct supervisor_msg m = { .said = SUPERVISOR_DOOR };
	int fds[BRIDGE_FDS] = { -1, -1, -1, -1 };
	int r = job_bridge_inside(fds, e), sent = 0;

	if (r == 0)
		sent = fd_send(c->inside.control, &m, sizeof(m), fds, BRIDGE_FDS);
	for (size_t i = 0; i < BRIDGE_FDS; i++)
		(void)fd_close(fds[i]);
	return sent < 0 ? err_errno(e, sent, "cannot pass the router on") : r;
}

/* Loopback is always up, as Docker has it. */
static int network(const struct box_start *c, struct err *e)
{
	if (c->plan->network == NETWORK_HOST)
		return 0;
	if (c->plan->network == NETWORK_BRIDGE)
		return bridge(c, e);
	return c->plan->door ? door(c, e) : loopback(e);
}

/* A process joins by itself in microseconds; to move another one the kernel waits for all CPUs. */
static int join_cgroup(const struct box_start *c, struct err *e)
{
	int r = cgroup_join(c->cgroup);

	return r < 0 ? err_errno(e, r, "cannot join the control group") : 0;
}

static int build(const struct box_start *c, int *fds, struct err *e)
{
	const struct box_plan *p = c->plan;

	/* Before the ids change: afterwards the file is root's. */
	(void)fd_write_file(AT_FDCWD, "/proc/self/oom_score_adj", "1000");
	if (join_cgroup(c, e) < 0 ||
	    inside_close(&c->inside, c->prepared, c->plan->prepared_count, e) < 0 ||
	    inside_count(&c->inside, fds, e) < 0 || box_wait(c, e) < 0 ||
	    (c->plan->by_root ? box_become(c, e) : own_maps(c->plan, e)) < 0)
		return -e->code;
	if (c->cgroup && unshare(CLONE_NEWCGROUP) < 0)
		return err_sys(e, "cannot make a cgroup namespace");
	if (sethostname(p->hostname, strlen(p->hostname)) < 0)
		return err_sys(e, "cannot set the host name");
	if (network(c, e) < 0 || mount_plan(c, e) < 0)
		return -e->code;
	if (inside_sockets(&c->inside, fds, e) < 0 || mount_lock(&fds[INIT_FD_PROCS], e) < 0)
		return -e->code;
	if (chdir(p->cwd) < 0)
		return err_sys(e, "cannot enter '%s'", p->cwd);
	return inside_open(&c->inside, fds, e);
}

_Noreturn void child_main(const struct box_start *c)
{
	int fds[INIT_FD_ALL], abi;
	struct err e = { 0 };

	memset(fds, -1, sizeof(fds));
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	(void)prctl(PR_SET_NAME, "brig-init", 0, 0, 0);
	if (build(c, fds, &e) < 0)
		init_fail(c->inside.control, &e);
	/* The change of ids has cleared the parent-death signal. */
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	proc_forget_environment();
	abi = inside_lock_down(&c->inside, fds, &e);
	if (abi < 0 || inside_check(&c->inside, &e) < 0 || inside_permit(&c->inside, &e) < 0)
		init_fail(c->inside.control, &e);
	init_main(&c->inside, abi, fds);
}
