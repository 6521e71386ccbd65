/* SPDX-License-Identifier: Apache-2.0 */
/* docker/probe.c - system calls that a container of brig's must not have, and some it needs.
 *
 * Prints one line a call: its name and 0, or the name of the error. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static void say(const char *name, long r)
{
	printf("%s %s\n", name, r < 0 ? strerrorname_np(errno) : "0");
	errno = 0;
}

int main(void)
{
	struct rlimit none = { 0, 0 }, now;
	char byte = 'x';
	int fd = open("mine", O_CREAT | O_RDWR, 0644);

	say("chmod_setuid", fchmod(fd, 04755));
	say("chmod_plain", fchmod(fd, 0755));
	say("create_setuid", open("theirs", O_CREAT | O_RDWR, 06755));
	say("unshare_user", unshare(CLONE_NEWUSER));
	say("mount", mount("x", "/tmp", "tmpfs", 0, NULL));
	say("socket_packet", socket(AF_PACKET, SOCK_RAW, 0));
	say("socket_raw", socket(AF_INET, SOCK_RAW, 1));
	say("socket_mptcp", socket(AF_INET, SOCK_STREAM, 262));
	say("socket_vsock", socket(40, SOCK_STREAM, 0));
	say("socket_tcp", socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 6));
	say("socket_unix", socket(AF_UNIX, SOCK_STREAM, 0));
	say("ioctl_tiocsti", ioctl(0, TIOCSTI, &byte));
	say("ioctl_tiocsti_high", syscall(SYS_ioctl, 0, 0x100000000UL | TIOCSTI, &byte));
	say("clone3", syscall(SYS_clone3, NULL, 0));
	say("io_uring", syscall(SYS_io_uring_setup, 0, NULL));
	say("bpf", syscall(SYS_bpf, 0, NULL, 0));
	say("keyctl", syscall(SYS_keyctl, 0, -3, 0, 0, 0));
	say("prctl_set_mm", prctl(PR_SET_MM, 0, 0, 0, 0));
	say("prctl_name", prctl(PR_SET_NAME, "probe"));
	say("core_to_zero", setrlimit(RLIMIT_CORE, &none));
	say("core_asked", getrlimit(RLIMIT_CORE, &now));
	printf("core_is %ld\n", (long)now.rlim_cur);
	say("mknod_device", mknod("device", S_IFCHR | 0600, 0x103));
	say("mknod_fifo", mknod("fifo", S_IFIFO | 0600, 0));
	say("personality_odd", personality(0x0020000));
	say("setuid_root", setuid(0));
	return 0;
}
