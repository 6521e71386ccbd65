/* SPDX-License-Identifier: Apache-2.0 */
/* mounts.c - mounts, links, devices, roots. */
#include <dirent.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/sysmacros.h>

#include "attack.h"

#ifndef RENAME_EXCHANGE
#define RENAME_EXCHANGE 2
#endif

/* In a folder of its own, so that the control works anywhere. */
static void classic(int argc, char **argv)
{
	const char *at = argc ? argv[0] : "/workspace/mnt";

	mkdir(at, 0755);
	tried("tmpfs", mount("none", at, "tmpfs", 0, NULL));
	tried("bind", mount("/usr", at, NULL, MS_BIND | MS_REC, NULL));
	tried("proc", mount("proc", at, "proc", 0, NULL));
	tried("devpts", mount("devpts", at, "devpts", 0, "newinstance"));
	tried("overlay", mount("overlay", at, "overlay", 0, "lowerdir=/usr:/etc"));
	tried("mqueue", mount("mqueue", at, "mqueue", 0, NULL));
	tried("sysfs", mount("sysfs", at, "sysfs", 0, NULL));
	tried("cgroup2", mount("cgroup2", at, "cgroup2", 0, NULL));
	tried("move", mount("/proc", at, NULL, MS_MOVE, NULL));
	tried("share", mount(NULL, "/", NULL, MS_SHARED | MS_REC, NULL));
	tried("remount-root", mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND, NULL));
	tried("remount-usr", mount(NULL, "/usr", NULL, MS_REMOUNT | MS_BIND, NULL));
	tried("umount", umount2("/proc", MNT_DETACH));
}

static void modern(int argc, char **argv)
{
	uint64_t attr[4] = { 0, 1, 0, 0 }; /* clear MOUNT_ATTR_RDONLY */
	long fs, tree;

	(void)argc, (void)argv;
	fs = tried("fsopen", syscall(SYS_fsopen, "tmpfs", 0));
	if (fs >= 0) {
		tried("fsconfig", syscall(SYS_fsconfig, fs, 6, NULL, NULL, 0));
		tried("fsmount", syscall(SYS_fsmount, fs, 0, 0));
	} else {
		tried("fsconfig", syscall(SYS_fsconfig, -1, 6, NULL, NULL, 0));
		tried("fsmount", syscall(SYS_fsmount, -1, 0, 0));
	}
	tree = tried("open_tree", syscall(SYS_open_tree, AT_FDCWD, "/usr", 1 /* CLONE */));
	tried("move_mount", syscall(SYS_move_mount, tree, "", AT_FDCWD, "/mnt", 4));
	tried("fspick", syscall(SYS_fspick, AT_FDCWD, "/", 0));
	tried("mount_setattr", syscall(442, AT_FDCWD, "/usr", 0, attr, sizeof(attr)));
	tried("open_tree_attr", syscall(467, AT_FDCWD, "/usr", 1, attr, sizeof(attr)));
}

/* Takes covers off, then writes what they covered: NAME... relative to the working folder. */
static void uncover(int argc, char **argv)
{
	for (int i = 0; i < argc; i++) {
		char path[4096];
		int fd;

		tried("umount", umount2(argv[i], MNT_DETACH));
		tried("umount-nofollow", umount2(argv[i], 8));
		tried("remount", mount(NULL, argv[i], NULL, MS_REMOUNT | MS_BIND, NULL));
		tried("unlink", unlink(argv[i]));
		tried("rmdir", rmdir(argv[i]));
		tried("rename", rename(argv[i], "moved"));
		mkdir("other", 0755);
		tried("exchange", renameat2(AT_FDCWD, argv[i], AT_FDCWD, "other", RENAME_EXCHANGE));
		tried("over", rename("other", argv[i]));
		fd = open(argv[i], O_WRONLY | O_APPEND);
		tried("write", fd < 0 ? -1 : write(fd, "PWNED\n", 6));
		snprintf(path, sizeof(path), "%s/pre-commit", argv[i]);
		tried("create", open(path, O_WRONLY | O_CREAT, 0755));
		tried("symlink", symlink("/tmp/evil", path));
		tried("chmod", chmod(argv[i], 0777));
		tried("truncate", truncate(argv[i], 0));
	}
}

/* Renames or replaces a folder above a protected name: NAME. */
static void above(int argc, char **argv)
{
	const char *name = argc ? argv[0] : ".git";
	char path[4096];

	tried("rename", rename(name, "moved"));
	mkdir("mine", 0755);
	snprintf(path, sizeof(path), "mine/hooks");
	mkdir(path, 0755);
	tried("exchange", renameat2(AT_FDCWD, "mine", AT_FDCWD, name, RENAME_EXCHANGE));
	tried("over", rename("mine", name));
	tried("rmdir", rmdir(name));
	tried("symlink", unlink(name) == 0 ? symlink("mine", name) : -1);
	if (argc > 1)
		tried("rename-top", rename(argv[1], "/tmp/elsewhere"));
}

/* FROM, a protected file, under a name that can be written. */
static void hard_link(int argc, char **argv)
{
	const char *from = argc ? argv[0] : ".git/config";
	char path[64];
	int fd = open(from, O_RDONLY), handle = open(from, O_PATH), out;

	tried("link", link(from, "alias1"));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	tried("link-proc", linkat(AT_FDCWD, path, AT_FDCWD, "alias2", AT_SYMLINK_FOLLOW));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", handle);
	tried("link-path", linkat(AT_FDCWD, path, AT_FDCWD, "alias3", AT_SYMLINK_FOLLOW));
	tried("link-empty", linkat(handle, "", AT_FDCWD, "alias4", AT_EMPTY_PATH));
	tried("rename", rename(from, "alias5"));
	out = open(path, O_WRONLY | O_APPEND);
	tried("reopen", out < 0 ? -1 : write(out, "PWNED\n", 6));
	for (int i = 1; i < 6; i++) {
		snprintf(path, sizeof(path), "alias%d", i);
		out = open(path, O_WRONLY | O_APPEND);
		if (out >= 0)
			tried("write", write(out, "PWNED\n", 6));
	}
}

/* NAME...: makes devices, opens those that are there. */
static void devices(int argc, char **argv)
{
	unlink("made");
	tried("mknod-zero", mknod("made", S_IFCHR | 0666, makedev(1, 5)));
	unlink("made");
	tried("mknod-mem", mknod("made", S_IFCHR | 0666, makedev(1, 1)));
	unlink("made");
	tried("mknod-disk", mknod("made", S_IFBLK | 0666, makedev(254, 0)));
	tried("mknod-tmp", mknod("/tmp/made", S_IFBLK | 0666, makedev(8, 0)));
	tried("whiteout", mknod("/tmp/white", S_IFCHR, 0));
	for (int i = 0; i < argc; i++) {
		char name[256];

		snprintf(name, sizeof(name), "open:%s", argv[i]);
		tried(name, open(argv[i], O_RDONLY | O_NONBLOCK));
	}
}

static void roots(int argc, char **argv)
{
	int up = open("/", O_RDONLY | O_DIRECTORY);

	(void)argc, (void)argv;
	mkdir("jail", 0755);
	tried("pivot_root", syscall(SYS_pivot_root, ".", "."));
	if (tried("chroot", chroot("jail")) == 0) {
		tried("fchdir", fchdir(up));
		tried("chroot-again", chroot("."));
	}
}

/* What is in a folder: DIR. */
static void look(int argc, char **argv)
{
	DIR *d = opendir(argc ? argv[0] : ".");

	for (struct dirent *e; d && (e = readdir(d));)
		printf("= %s there\n", e->d_name);
	if (argc > 1)
		let_host_look(argv[1]);
	d = opendir(argc ? argv[0] : ".");
	for (struct dirent *e; d && (e = readdir(d));)
		if (e->d_name[0] != '.')
			yes(e->d_name, "seen");
	no("look", 0);
}

int main(int argc, char **argv)
{
	static const struct subcommand all[] = {
		{ "classic", classic }, { "modern", modern },       { "uncover", uncover },
		{ "above", above },     { "hard-link", hard_link }, { "devices", devices },
		{ "roots", roots },     { "look", look },           { NULL, NULL },
	};

	return dispatch(all, argc, argv);
}
