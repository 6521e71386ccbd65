/* SPDX-License-Identifier: Apache-2.0 */
/* identity.c - who one is, and every way to become somebody else. */
#include <grp.h>
#include <linux/capability.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/xattr.h>
#include <sys/syscall.h>

#include "attack.h"

/* Reads a file that only root may: FILE. Meant to be run from a set-id or capable copy. */
static void read_secret(int argc, char **argv)
{
	char text[128] = "";
	int fd;

	printf("= ids %d %d %d %d\n", getuid(), geteuid(), getgid(), getegid());
	if (geteuid() == 0 && getuid() != 0)
		yes("euid", "0");
	fd = open(argc ? argv[0] : "/etc/shadow", O_RDONLY);
	if (fd >= 0 && read(fd, text, sizeof(text) - 1) > 0)
		yes("secret", "%s", text);
	else
		no("secret", errno);
}

static void capabilities(int argc, char **argv)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct all[2] = { { ~0U, ~0U, ~0U }, { 0x1ff, 0x1ff, 0x1ff } },
				      one[2] = { { 1U << CAP_SYS_ADMIN, 1U << CAP_SYS_ADMIN, 0 },
						 { 0, 0, 0 } };
	gid_t groups[] = { 0, 4, 6, 44, 998, 999 };

	tried("capset-all", syscall(SYS_capset, &head, all));
	tried("capset-admin", syscall(SYS_capset, &head, one));
	tried("ambient", prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SYS_ADMIN, 0, 0));
	tried("securebits", prctl(PR_SET_SECUREBITS, 0, 0, 0, 0));
	tried("keepcaps", prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0));
	if (prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0)
		yes("new-privs", "0");
	else
		no("new-privs", errno);
	tried("setuid-0", setuid(0));
	tried("setresuid-0", setresuid(0, 0, 0));
	tried("setgid-0", setgid(0));
	tried("setuid-other", setresuid(4343, 4343, 4343));
	tried("setgroups", setgroups(6, groups));
	tried("setfsuid", setfsuid(0) < 0 || setfsuid(-1) != 0 ? (errno = EPERM, -1) : 0);
	if (argc)
		let_host_look(argv[0]);
}

/* Every way to make a set-id file in the working folder. The host judges. */
static void set_id_files(int argc, char **argv)
{
	static const mode_t modes[] = { 04755, 02755, 06755, 07777 };
	/* security.capability, version 2: every capability, permitted and effective */
	static const uint32_t caps[] = { 0x02000001, ~0U, 0, ~0U, 0 };
	char name[64], path[64];
	int fd;

	(void)argc, (void)argv;
	umask(0);
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		mode_t m = modes[i];

#define FILE_CALLED(text)                                                                          \
	(snprintf(name, sizeof(name), text "-%o", m), close(open(name, O_WRONLY | O_CREAT, 0755)), \
	 name)
		tried("fchmodat", syscall(SYS_fchmodat, AT_FDCWD, FILE_CALLED("fchmodat"), m));
		tried("fchmodat2", syscall(452, AT_FDCWD, FILE_CALLED("fchmodat2"), m, 0));
		fd = open(FILE_CALLED("fchmod"), O_RDONLY);
		tried("fchmod", fchmod(fd, m));
		tried("fchmod-high", syscall(SYS_fchmod, fd, 0x100000000UL | m));
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		tried("chmod-proc", chmod(path, m));
		snprintf(name, sizeof(name), "open-%o", m);
		tried("open", open(name, O_WRONLY | O_CREAT, m));
		snprintf(name, sizeof(name), "open-high-%o", m);
		tried("open-high", syscall(SYS_openat, AT_FDCWD, name,
					   0x100000000UL | O_WRONLY | O_CREAT, 0x700000000UL | m));
		fd = open(".", O_TMPFILE | O_RDWR, m);
		snprintf(name, sizeof(name), "tmpfile-%o", m);
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		tried("tmpfile",
		      fd < 0 ? -1 : linkat(AT_FDCWD, path, AT_FDCWD, name, AT_SYMLINK_FOLLOW));
		snprintf(name, sizeof(name), "mknod-%o", m);
		tried("mknod", mknod(name, S_IFREG | m, 0));
		snprintf(name, sizeof(name), "mknod-zero-type-%o", m);
		tried("mknod-zero-type", mknod(name, m, 0));
		snprintf(name, sizeof(name), "fifo-%o", m);
		tried("mkfifo", mknod(name, S_IFIFO | m, 0));
		{
			uint64_t how[3] = { O_WRONLY | O_CREAT, m, 0 };

			snprintf(name, sizeof(name), "openat2-%o", m);
			tried("openat2", syscall(437, AT_FDCWD, name, how, sizeof(how)));
		}
#ifdef SYS_chmod
		tried("chmod", syscall(SYS_chmod, FILE_CALLED("chmod"), m));
		snprintf(name, sizeof(name), "creat-%o", m);
		tried("creat", syscall(SYS_creat, name, m));
#endif
		snprintf(name, sizeof(name), "folder-%o", m);
		mkdir(name, m);
		tried("fchmodat-folder", syscall(SYS_fchmodat, AT_FDCWD, name, m));
	}
	close(open("caps", O_WRONLY | O_CREAT, 0755));
	tried("setcap", setxattr("caps", "security.capability", caps, sizeof(caps), 0));
	tried("trusted", setxattr("caps", "trusted.x", "y", 1, 0));
	tried("chown-root", chown("caps", 0, 0));
	tried("chown-other", chown("caps", 4343, 4343));
}

int main(int argc, char **argv)
{
	static const struct subcommand all[] = {
		{ "read", read_secret },
		{ "capabilities", capabilities },
		{ "set-id-files", set_id_files },
		{ NULL, NULL },
	};

	return dispatch(all, argc, argv);
}
