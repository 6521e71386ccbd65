/* SPDX-License-Identifier: Apache-2.0 */
/* doctor/attack_tries.c - the attacks. Each makes one attempt and takes back what it got. */
#include "doctor/attack.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/if_ether.h>
#include <linux/keyctl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "base/files/fd.h"
#include "base/sys/wait.h"
#include "base/text/num.h"

#define WATCH_MS 200         /* where there is no cgroup, a watch looks every few milliseconds */
#define METADATA 0xa9fea9feU /* 169.254.169.254 */

static bool stopped(char *detail, size_t n)
{
	const char *name = strerrorname_np(errno);

	(void)snprintf(detail, n, "%s", name ? name : "no error");
	return false;
}

static bool got(char *detail, size_t n, const char *what)
{
	(void)snprintf(detail, n, "%s", what);
	return true;
}

static bool open_socket(int family, int type, int protocol, char *detail, size_t n)
{
	CLEANUP(fd) int fd = socket(family, type | SOCK_CLOEXEC, protocol);

	return fd < 0 ? stopped(detail, n) : got(detail, n, "a socket");
}

static bool raw_socket(const struct bait *b UNUSED, char *detail, size_t n)
{
	return open_socket(AF_INET, SOCK_RAW, IPPROTO_ICMP, detail, n);
}

static bool packet_socket(const struct bait *b UNUSED, char *detail, size_t n)
{
	return open_socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL), detail, n);
}

/* Only the scratch network can be given the address; anywhere else this changes nothing. */
static void claim_metadata(void)
{
	struct ifreq r = { .ifr_name = "lo" };
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(METADATA) };
	CLEANUP(fd) int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	memcpy(&r.ifr_addr, &a, sizeof(a));
	(void)ioctl(s, SIOCSIFADDR, &r);
	r.ifr_flags = IFF_UP | IFF_RUNNING;
	(void)ioctl(s, SIOCSIFFLAGS, &r);
}

static bool metadata(const struct bait *b, char *detail, size_t n)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons(80),
				 .sin_addr.s_addr = htonl(METADATA) };
	CLEANUP(fd) int fd = -1;

	if (!b->token) /* the control */
		claim_metadata();
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	/* A datagram socket is connected once there is a way; nothing is sent. */
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		return stopped(detail, n);
	return got(detail, n, "a way to 169.254.169.254");
}

static bool reads_token(const struct bait *b, const char *path, char *detail, size_t n)
{
	char text[128];
	ssize_t len = fd_read_file(AT_FDCWD, path, text, sizeof(text));

	if (len < 0)
		return errno = (int)-len, stopped(detail, n);
	if (b->token && !strstr(text, b->token))
		return (void)snprintf(detail, n, "another file"), false;
	return got(detail, n, "the secret");
}

static bool host_file(const struct bait *b, char *detail, size_t n)
{
	return reads_token(b, b->secret, detail, n);
}

static bool proc_root(const struct bait *b, char *detail, size_t n)
{
	static const char *const ways[] = { "/proc/1/root", "/proc/self/root",
					    "/proc/1/cwd/../.." };
	char path[512];

	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		(void)snprintf(path, sizeof(path), "%s%s", ways[i], b->secret);
		if (reads_token(b, path, detail, n))
			return true;
	}
	return false;
}

static bool proc_sys(const struct bait *b UNUSED, char *detail, size_t n)
{
	/* The last one is for root of the network alone, which the control is. */
	static const char *const files[] = { "/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern",
					     "/proc/sys/net/ipv4/ip_forward" };

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		CLEANUP(fd) int fd = open(files[i], O_WRONLY | O_CLOEXEC);

		if (fd >= 0)
			return got(detail, n, files[i]);
	}
	return stopped(detail, n);
}

static bool signal_host(const struct bait *b, char *detail, size_t n)
{
	return kill(b->victim, 0) < 0 ? stopped(detail, n) : got(detail, n, "may signal it");
}

static bool trace_host(const struct bait *b, char *detail, size_t n)
{
	int status;

	if (ptrace(PTRACE_SEIZE, b->victim, NULL, NULL) < 0)
		return stopped(detail, n);
	(void)ptrace(PTRACE_INTERRUPT, b->victim, NULL, NULL);
	(void)waitpid(b->victim, &status, __WALL);
	(void)ptrace(PTRACE_DETACH, b->victim, NULL, NULL);
	return got(detail, n, "traces it");
}

static bool abstract_socket(const struct bait *b, char *detail, size_t n)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	CLEANUP(fd) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	size_t len = strlen(b->name);

	if (len >= sizeof(a.sun_path))
		return false;
	memcpy(a.sun_path + 1, b->name, len);
	if (fd < 0 || connect(fd, (struct sockaddr *)&a,
			      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len)) < 0)
		return stopped(detail, n);
	return got(detail, n, "connected");
}

static bool writes(const char *path, char *detail, size_t n)
{
	CLEANUP(fd) int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	if (fd < 0)
		return stopped(detail, n);
	return got(detail, n, "written");
}

static bool protected_name(const struct bait *b UNUSED, char *detail, size_t n)
{
	return writes(".git/hooks/post-checkout", detail, n) || writes(".git/config", detail, n) ||
	       writes(".vscode/tasks.json", detail, n);
}

static bool symlink_out(const struct bait *b UNUSED, char *detail, size_t n)
{
	return writes("out/planted", detail, n);
}

static bool setuid_file(const struct bait *b UNUSED, char *detail, size_t n)
{
	struct stat st;
	bool set;

	if (!writes("setuid", detail, n))
		return false;
	set = chmod("setuid", 04755) == 0;
	if (!set)
		(void)stopped(detail, n);
	set = set && stat("setuid", &st) == 0 && st.st_mode & S_ISUID;
	(void)unlink("setuid");
	return set ? got(detail, n, "a setuid file") : false;
}

static bool device_node(const struct bait *b UNUSED, char *detail, size_t n)
{
	bool made = mknod("node", S_IFCHR | 0600, makedev(1, 3)) == 0;
	CLEANUP(fd) int fd = -1;

	if (!made)
		return stopped(detail, n);
	fd = open("node", O_RDWR | O_CLOEXEC);
	(void)unlink("node");
	return fd < 0 ? stopped(detail, n) : got(detail, n, "a device");
}

static bool mount_fs(const struct bait *b UNUSED, char *detail, size_t n)
{
	return mount("tmpfs", "/tmp", "tmpfs", 0, NULL) < 0 ? stopped(detail, n)
							    : got(detail, n, "mounted");
}

static bool user_namespace(const struct bait *b UNUSED, char *detail, size_t n)
{
	return unshare(CLONE_NEWUSER) < 0 ? stopped(detail, n) : got(detail, n, "a namespace");
}

static bool keyring(const struct bait *b UNUSED, char *detail, size_t n)
{
	return syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_USER_KEYRING, 1) < 0
		       ? stopped(detail, n)
		       : got(detail, n, "the user's keyring");
}

static bool io_uring(const struct bait *b UNUSED, char *detail, size_t n)
{
	unsigned char params[256] = { 0 };
	CLEANUP(fd) int fd = (int)syscall(SYS_io_uring_setup, 4, params);

	return fd < 0 ? stopped(detail, n) : got(detail, n, "a ring");
}

/* EBADF is what somebody who may load modules is told. */
static bool kernel_module(const struct bait *b UNUSED, char *detail, size_t n)
{
	if (syscall(SYS_finit_module, -1, "", 0) < 0 && errno != EBADF)
		return stopped(detail, n);
	return got(detail, n, "may load modules");
}

static bool bpf_program(const struct bait *b UNUSED, char *detail, size_t n)
{
	unsigned char attr[128] = { 1, 0, 0, 0 }; /* a socket filter without instructions */

	if (syscall(SYS_bpf, 5 /* BPF_PROG_LOAD */, attr, sizeof(attr)) < 0 && errno != EINVAL &&
	    errno != E2BIG && errno != EFAULT)
		return stopped(detail, n);
	return got(detail, n, "may load programs");
}

static bool other_environment(const struct bait *b, char *detail, size_t n)
{
	char text[4096] = "";
	CLEANUP(fd) int fd = open("/proc/1/environ", O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (getenv("BRIG_ATTACK_SECRET"))
		return got(detail, n, "the caller's variable");
	if (len > 0 && b->token && memmem(text, (size_t)len, b->token, strlen(b->token)))
		return got(detail, n, "init's variables");
	return (void)snprintf(detail, n, "not there"), false;
}

static bool push_input(const struct bait *b UNUSED, char *detail, size_t n)
{
	CLEANUP(fd) int fd = open("/dev/tty", O_RDWR | O_CLOEXEC);
	char c = '\n';

	if (fd < 0 || ioctl(fd, TIOCSTI, &c) < 0)
		return stopped(detail, n);
	return got(detail, n, "typed for the user");
}

/* The control needs a terminal of its own. */
static bool push_own_input(const struct bait *b, char *detail, size_t n)
{
	CLEANUP(fd) int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	CLEANUP(fd) int slave = -1;
	int off = 0;

	if (b->token)
		return push_input(b, detail, n);
	(void)setsid();
	if (master < 0 || ioctl(master, TIOCSPTLCK, &off) < 0)
		return stopped(detail, n);
	slave = open(ptsname(master), O_RDWR | O_CLOEXEC);
	if (slave < 0 || ioctl(slave, TIOCSCTTY, 0) < 0)
		return stopped(detail, n);
	return push_input(b, detail, n);
}

const struct attack attacks[] = {
	{ "raw_socket", "forged packets", raw_socket, PLACE_SCRATCH },
	{ "packet_socket", "listening on the wire", packet_socket, PLACE_SCRATCH },
	{ "metadata_address", "the cloud's credentials", metadata, PLACE_SCRATCH },
	{ "host_file", "a file nobody shared", host_file, PLACE_HOST },
	{ "proc_root", "the host's files through /proc", proc_root, PLACE_HOST },
	{ "proc_write", "settings of the kernel", proc_sys, PLACE_SCRATCH },
	{ "signal", "ending a process of the host", signal_host, PLACE_HOST },
	{ "ptrace", "taking a process of the host over", trace_host, PLACE_HOST },
	{ "abstract_socket", "talking to a service of the host", abstract_socket, PLACE_HOST },
	{ "protected_name", "git hooks and editor tasks, which the host runs", protected_name,
	  PLACE_HOST },
	{ "symlink_out", "writing out of the workspace", symlink_out, PLACE_HOST },
	{ "setuid_file", "a program that runs as somebody else", setuid_file, PLACE_HOST },
	{ "device_node", "a way to a device", device_node, PLACE_ROOT },
	{ "mount", "changing what is seen where", mount_fs, PLACE_SCRATCH },
	{ "user_namespace", "capabilities over more of the kernel", user_namespace, PLACE_HOST },
	{ "keyctl", "the user's keys", keyring, PLACE_HOST },
	{ "io_uring", "system calls that no filter sees", io_uring, PLACE_HOST },
	{ "kernel_module", "code in the kernel", kernel_module, PLACE_ROOT },
	{ "bpf", "programs in the kernel", bpf_program, PLACE_ROOT },
	{ "environment", "variables of the caller", other_environment, PLACE_HOST },
	{ "tiocsti", "typing on the caller's terminal", push_own_input, PLACE_SCRATCH },
};
const size_t attack_count = sizeof(attacks) / sizeof(attacks[0]);

/* ---- the three that run until they are stopped, and no further than they must ---- */

int attack_forks(void)
{
	int n = 0;

	for (; n < BOMB_FORKS; n++) {
		pid_t pid = fork(); /* allow fork: that is the attack */

		if (pid < 0)
			break;
		if (pid == 0) {
			(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
			wait_moment(10000);
			_exit(0);
		}
	}
	return n;
}

void attack_memory(void)
{
	size_t n = (size_t)BOMB_MIB << 20;
	char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return;
	for (size_t i = 0; i < n; i += 4096)
		((volatile char *)p)[i] = 1;
	wait_moment(WATCH_MS);
	(void)munmap(p, n);
}

static void attack_flood(void)
{
	static char block[65536];

	memset(block, 'x', sizeof(block));
	for (size_t i = 0; i < ((size_t)FLOOD_MIB << 20) / sizeof(block); i++)
		(void)fd_write_all(STDOUT_FILENO, block, sizeof(block));
}

static void attack_tries_tell(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void attack_tries_tell(const char *fmt, ...)
{
	char line[256];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	/* At once: an attack that kills must not take the others' answers along. */
	(void)fd_write_all(STDOUT_FILENO, line, strlen(line));
}

static void bomb_forks(void)
{
	int n = attack_forks();

	wait_moment(WATCH_MS);
	attack_tries_tell("%d\n", n);
}

/* Arguments: "each" SECRET SOCKET PID TOKEN, or the name of one of the three. */
int attack_inside(int argc, char **argv)
{
	struct bait b = { 0 };
	uint64_t victim;

	if (argc == 1 && strcmp(argv[0], "forks") == 0)
		return bomb_forks(), 0;
	if (argc == 1 && strcmp(argv[0], "memory") == 0)
		return attack_memory(), 0;
	if (argc == 1 && strcmp(argv[0], "flood") == 0)
		return attack_flood(), 0;
	if (argc != 5 || num_count(argv[3], &victim) < 0 || victim > INT_MAX)
		return 125;
	b.secret = argv[1];
	b.name = argv[2];
	b.victim = (pid_t)victim;
	b.token = argv[4];
	for (size_t i = 0; i < attack_count; i++) {
		char detail[128] = "";
		bool worked = attacks[i].try(&b, detail, sizeof(detail));

		attack_tries_tell("%s %s %s\n", attacks[i].name, worked ? "broke" : "held", detail);
	}
	return 0;
}
