/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/net/user_cable.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/sys/clock.h"
#include "base/files/fd.h"
#include "base/sys/wait.h"
#include "proc/host_program.h"
#include "proc/host_find.h"
#include "proc/spawn.h"

#define TUN "/dev/net/tun"
#define LOOK_MS 5
#define WAIT_US ((uint64_t)10 * 1000 * 1000)

static const char *const pastas[] = { "/usr/bin/pasta", "/usr/local/bin/pasta" };
static const char *const slirps[] = { "/usr/bin/slirp4netns", "/usr/local/bin/slirp4netns" };

/* NULL: none, or one that a guest could have written, and then *e says so. */
static const char *first(const char *const *paths, size_t n, struct err *e)
{
	char full[PATH_MAX];

	for (size_t i = 0; i < n; i++)
		if (host_find(paths[i], NULL, NULL, full, e) == 0)
			return paths[i];
	return NULL;
}

/* pasta started by root becomes nobody, who may not enter the sandbox's namespaces; slirp4netns
 * started by another confines itself only where the user namespace has a root. */
int user_cable_find(const char **path, struct err *e)
{
	bool root = geteuid() == 0;
	const char *found =
		root ? first(slirps, ARRAY_LEN(slirps), e) : first(pastas, ARRAY_LEN(pastas), e);

	if (!found && e->code != ENOENT)
		return -e->code;
	if (!found)
		return err_refuse(e, ERR_UNAVAILABLE, ENOENT,
				  root ? "apt install slirp4netns; or use --network proxy"
				       : "apt install passt; or use --network proxy",
				  "network bridge needs the program '%s', which is not installed",
				  root ? "slirp4netns" : "pasta");
	if (access(TUN, R_OK | W_OK) < 0)
		return err_refuse(e, ERR_UNAVAILABLE, errno,
				  "as root: modprobe tun; chmod 0666 " TUN
				  "; or use --network proxy",
				  "network bridge needs '" TUN "', which this user cannot open");
	*path = found;
	return 0;
}

void user_cable_argv(const char *path, const char *pid, const char *argv[USER_CABLE_ARGS])
{
	static const char *const pasta[] = {
		"--foreground", "--quiet",     "--ipv4-only",   "-t",
		"none",         "-u",          "none",          "-T",
		"none",         "-U",          "none",          "--no-map-gw",
		"--no-dhcp",    "--no-ra",     "--no-dhcpv6",   "--address",
		"10.0.2.100",   "--netmask",   "255.255.255.0", "--gateway",
		"10.0.2.2",     "--ns-ifname", USER_CABLE,
	};
	static const char *const slirp[] = { "--disable-host-loopback", "--disable-dns",
					     "--enable-sandbox", "--enable-seccomp" };
	bool is_pasta = strstr(path, "/pasta") != NULL;
	const char *const *from = is_pasta ? pasta : slirp;
	size_t count = is_pasta ? ARRAY_LEN(pasta) : ARRAY_LEN(slirp), n = 0;

	argv[n++] = path;
	for (size_t i = 0; i < count; i++)
		argv[n++] = from[i];
	argv[n++] = pid;
	if (!is_pasta)
		argv[n++] = USER_CABLE;
	argv[n] = NULL;
}

struct router_cable user_cable_ends(void)
{
	return (struct router_cable){
		.mtu = USER_CABLE_MTU,
		.own = { .family = AF_INET, .prefix = 32, .bytes = { 10, 0, 2, 100 } },
		.gateway = { .family = AF_INET, .prefix = 32, .bytes = { 10, 0, 2, 2 } },
	};
}

/* ---- a process to find the namespaces by ---- */

/* Both programs take a pid, and some machines let them take nothing else. Who changes its user
 * namespace cannot be looked at any more until it says that it may be. */
static _Noreturn void stand_in(int user, int net, int say)
{
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (setns(user, CLONE_NEWUSER) < 0 || setns(net, CLONE_NEWNET) < 0 ||
	    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || write(say, "", 1) != 1)
		_exit(1);
	for (;;)
		(void)pause();
}

static void end_process(pid_t pid, int pidfd)
{
	siginfo_t info;

	if (pid > 0) {
		(void)syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
		while (waitid(P_PID, (id_t)pid, &info, WEXITED | __WALL) < 0 && errno == EINTR)
			;
	}
	(void)fd_close(pidfd);
}

static int start_stand_in(int user, int net, struct user_cable *ret, struct err *e)
{
	CLEANUP(fd) int heard = -1, say = -1;
	int ends[2];
	char word;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(e, "cannot make a pipe");
	heard = ends[0];
	say = ends[1];
	ret->pid = proc_fork(&ret->pidfd);
	if (ret->pid == 0)
		stand_in(user, net, say);
	if (ret->pid < 0)
		return err_sys(e, "cannot start a process");
	(void)fd_close(TAKE_FD(say));
	return read(heard, &word, 1) == 1
		       ? 0
		       : err_set(e, ERR_INTERNAL, ECHILD, "cannot enter the router's namespace");
}

/* ---- the program ---- */

/* As root slirp4netns mounts over /tmp, for everybody where that is shared. */
static int mounts_of_its_own(void)
{
	return geteuid() == 0 && (unshare(CLONE_NEWNS) < 0 ||
				  mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		       ? errno
		       : 0;
}

static int user_cable_on_link(void *arg, const struct nlmsghdr *m)
{
	const struct ifinfomsg *l = NLMSG_DATA(m);
	const char *name = rtnl_find(m, sizeof(*l), IFLA_IFNAME, sizeof(USER_CABLE));

	if (m->nlmsg_type == RTM_NEWLINK && name &&
	    memcmp(name, USER_CABLE, sizeof(USER_CABLE)) == 0)
		*(int *)arg = l->ifi_index;
	return 0;
}

static int wait_for_device(const struct user_cable *u, int rtnl, const char *path, int *index,
			   struct err *e)
{
	uint64_t until = clock_us() + WAIT_US;

	*index = 0;
	while (clock_us() < until) {
		int r = rtnl_list(rtnl, RTM_GETLINK, AF_UNSPEC, user_cable_on_link, index);

		if (r < 0 && r != -EAGAIN)
			return err_errno(e, r, "cannot look at the cable");
		if (*index)
			return 0;
		if (wait_fd(u->pidfd, POLLIN, clock_after(LOOK_MS)) == 0)
			break;
	}
	return err_refuse(e, ERR_UNAVAILABLE, ECHILD,
			  "this host needs a default route of IPv4; or use --network proxy",
			  "network bridge: '%s' made no cable", path);
}

static int start_program(pid_t target, const char *path, struct user_cable *ret, struct err *e)
{
	static const char *const envp[] = { "PATH=/usr/bin:/bin", NULL };
	struct host_program h = { .program = path,
				  .envp = envp,
				  .first = mounts_of_its_own,
				  .dies_with = SIGKILL,
				  .session = true };
	const char *argv[USER_CABLE_ARGS];
	char pid[16];

	(void)snprintf(pid, sizeof(pid), "%d", target);
	user_cable_argv(path, pid, argv);
	h.argv = argv;
	return host_start(&h, &ret->pid, &ret->pidfd, e);
}

int user_cable_start(int user, int net, int rtnl, struct router_cable *c, struct user_cable *ret,
		     struct err *e)
{
	struct user_cable stand = { .pidfd = -1 };
	const char *path;
	int r = user_cable_find(&path, e);

	*ret = (struct user_cable){ .pidfd = -1 };
	if (r == 0)
		r = start_stand_in(user, net, &stand, e);
	if (r == 0)
		r = start_program(stand.pid, path, ret, e);
	if (r == 0)
		r = wait_for_device(ret, rtnl, path, &c->index, e);
	end_process(stand.pid, stand.pidfd);
	if (r < 0)
		user_cable_stop(ret);
	return r;
}

void user_cable_stop(struct user_cable *u)
{
	if (u->pid > 0)
		end_process(u->pid, u->pidfd);
	*u = (struct user_cable){ .pidfd = -1 };
}
