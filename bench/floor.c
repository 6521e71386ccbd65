/* SPDX-License-Identifier: Apache-2.0 */
/* bench/floor.c - the least a sandbox of this shape can cost: seven namespaces, a private root of
 * tmpfs, read-only /usr, proc, pivot, exec. No filter, no Landlock, no limits, no supervision: a
 * yardstick, not a sandbox.
 *
 *   floor COMMAND [ARG...] */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void need(int r, const char *what)
{
	if (r >= 0)
		return;
	perror(what);
	_exit(125);
}

static void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	need(fd, path);
	need((int)write(fd, text, strlen(text)), path);
	(void)close(fd);
}

static void map_ids(uid_t uid, gid_t gid)
{
	char line[64];

	put("/proc/self/setgroups", "deny");
	(void)snprintf(line, sizeof(line), "%u %u 1\n", uid, uid);
	put("/proc/self/uid_map", line);
	(void)snprintf(line, sizeof(line), "%u %u 1\n", gid, gid);
	put("/proc/self/gid_map", line);
}

static void build_root(void)
{
	static const char *const links[] = { "bin", "sbin", "lib", "lib64" };
	char to[16];

	need(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), "private");
	need(mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, NULL), "tmpfs");
	need(chdir("/tmp"), "chdir");
	need(mkdir("usr", 0755), "usr");
	need(mkdir("proc", 0755), "proc");
	need(mkdir("tmp", 01777), "tmp");
	need(mount("/usr", "usr", NULL, MS_BIND | MS_REC, NULL), "bind");
	need(mount(NULL, "usr", NULL, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV,
		   NULL),
	     "read-only");
	for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
		(void)snprintf(to, sizeof(to), "usr/%s", links[i]);
		need(symlink(to, links[i]), links[i]);
	}
	need(mount("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL), "proc");
	need((int)syscall(SYS_pivot_root, ".", "."), "pivot_root");
	need(umount2(".", MNT_DETACH), "detach");
	need(chdir("/"), "chdir");
}

int main(int argc, char **argv)
{
	struct clone_args a = {
		.flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC |
			 CLONE_NEWUTS | CLONE_NEWCGROUP,
		.exit_signal = SIGCHLD,
	};
	uid_t uid = geteuid();
	gid_t gid = getegid();
	int status = 0;

	if (argc < 2)
		return 125;
	long pid = syscall(SYS_clone3, &a, sizeof(a));
	need((int)pid, "clone3");
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		map_ids(uid, gid);
		build_root();
		(void)execvp(argv[1], argv + 1);
		_exit(127);
	}
	need(waitpid((pid_t)pid, &status, 0), "waitpid");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
