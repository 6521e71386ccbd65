/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/process/seccomp_table.h - every system call the filter knows, and what becomes of it.
 *
 * Plain data, shared by tools/gen-seccomp.c, which compiles it, and by the tests, which compare the
 * compiled programs with it. A call that is not listed answers ENOSYS, as on a kernel without it.
 *
 * Numbers are written out for both architectures: they are kernel ABI and never change, so every
 * build host makes the same program, whichever calls its libraries have heard of. The constants
 * below come from the build host's headers; those used have one value on both architectures. */
#pragma once

#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/ioprio.h>
#include <linux/memfd.h>
#include <linux/prctl.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "backend/kit/process/seccomp.h"

enum filter_arch { FILTER_AARCH64, FILTER_X86_64, FILTER_ARCHES };

/* Zero is a refusal, so that a forgotten field fails closed. */
enum verdict {
	V_ENOSYS,
	V_EPERM,
	V_EINVAL,
	V_EAFNOSUPPORT,
	V_EPROTONOSUPPORT,
	V_KILL,
	V_PRETEND, /* answer 0 and do nothing */
	V_ALLOW,
	ARG_SOCKET, /* from here on: decided by arg_rules[] */
	ARG_SOCKETPAIR,
	ARG_IOCTL,
	ARG_CLONE,
	ARG_PERSONALITY,
	ARG_PRCTL,
	ARG_SETRLIMIT,
	ARG_PERF,
	ARG_PRLIMIT,
	ARG_SECCOMP,
	ARG_MODE_1, /* the file mode is argument 1 */
	ARG_MODE_2,
	ARG_OPEN,
	ARG_OPENAT,
	ARG_MKNOD,
	ARG_MKNODAT,
	ARG_FCNTL,
	ARG_MMAP,
	ARG_MEMFD,
	ARG_SHMGET,
	ARG_RENAME,
	ARG_CLOSE_RANGE,
	ARG_SETSOCKOPT,
	ARG_SETPRIORITY,
	ARG_IOPRIO,
	ARG_SCHED, /* the thread that is meant is argument 0 */
	VERDICTS,
};

/* An argument is two 32-bit words. Where the kernel takes an int, only the low word counts: the
 * high one may hold anything and must not be able to hide the value from the filter. */
#define LOW(argument) (2 * (argument))
#define HIGH(argument) (2 * (argument) + 1)

/* True when (word & mask) is one of the values; when `bits`, if any bit of the mask is set. */
struct match {
	uint8_t word;
	uint8_t values; /* how many; with !bits, zero means an unused slot */
	bool bits;
	uint32_t mask;
	uint32_t value[4];
};

/* Clauses are tried in order and the first whose matches all hold decides; one without any match
 * always holds and ends the rule. Outside its profiles (zero: all) a clause is passed over. */
struct clause {
	struct match when[3];
	enum verdict then;
	unsigned int profiles;
	bool no_engine; /* said to an engine it would take more than a filter may have */
};

#define COUNT_OF(...) (sizeof((uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t))
#define MASKED(w, m, ...)                                                                          \
	{                                                                                          \
		.word = (w), .values = COUNT_OF(__VA_ARGS__), .mask = (m), .value = {              \
			__VA_ARGS__                                                                \
		}                                                                                  \
	}
#define IS(w, ...) MASKED(w, ~0U, __VA_ARGS__)
#define ANY_BIT(w, m)                                                                              \
	{                                                                                          \
		.word = (w), .bits = true, .mask = (m)                                             \
	}
#define PROFILE(p) (1U << (p))

/* CLONE_NEWTIME is left out on purpose: in clone() its bit belongs to the exit signal. */
#define CLONE_NEW_ANY                                                                              \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |             \
	 CLONE_NEWPID | CLONE_NEWNET)
#define SOCKET_TYPE (~(uint32_t)(SOCK_NONBLOCK | SOCK_CLOEXEC))
/* O_TMPFILE also holds O_DIRECTORY, whose value differs; the kernel looks at this bit alone. */
#define OPEN_CREATES (O_CREAT | 020000000)
#define SET_ID (S_ISUID | S_ISGID)
#define F_SETDELEG_CMD 1040 /* of Linux 6.19 */
/* Whose request it is, and which: the rest of the word says how large what it points to is. */
#define IOCTL_OF 0xff00U
#define IOCTL_NAME 0xffffU
#define CLONE_FILE 0x9409U /* FICLONE */
#define CLONE_RANGE 0x940dU
#define DEDUPE_RANGE 0x9436U
#define GET_LABEL 0x9431U
#define FSCRYPT_POLICY 0x6613U /* FS_IOC_SET_ENCRYPTION_POLICY */
#define FSCRYPT_ADD_KEY 0x6617U
#define FSCRYPT_REMOVE_KEY 0x6618U
#define FSCRYPT_REMOVE_ALL 0x6619U
#define NOT_DEBUG (PROFILE(SECCOMP_STRICT) | PROFILE(SECCOMP_DEFAULT))
#define NOT_STRICT (PROFILE(SECCOMP_DEFAULT) | PROFILE(SECCOMP_DEBUG))

/* clang-format off */
static const struct clause arg_rules[VERDICTS][8] = {
	/* MPTCP would bypass Landlock's TCP rules; raw, ICMP and SCTP bypass the egress door. */
	[ARG_SOCKET] = {
		{ .when = { IS(LOW(0), AF_UNIX) }, .then = V_ALLOW },
		{ .when = { IS(LOW(0), AF_INET, AF_INET6), MASKED(LOW(1), SOCKET_TYPE, SOCK_STREAM),
			    IS(LOW(2), 0, IPPROTO_TCP) }, .then = V_ALLOW },
		{ .when = { IS(LOW(0), AF_INET, AF_INET6), MASKED(LOW(1), SOCKET_TYPE, SOCK_DGRAM),
			    IS(LOW(2), 0, IPPROTO_UDP) }, .then = V_ALLOW },
		{ .when = { IS(LOW(0), AF_INET, AF_INET6) }, .then = V_EPROTONOSUPPORT },
		{ .when = { IS(LOW(0), AF_NETLINK), IS(LOW(2), 0 /* NETLINK_ROUTE */) },
		  .then = V_ALLOW, .profiles = NOT_STRICT },
		{ .when = { IS(LOW(0), AF_NETLINK) },
		  .then = V_EPROTONOSUPPORT, .profiles = NOT_STRICT },
		{ .then = V_EAFNOSUPPORT },
	},
	[ARG_SOCKETPAIR] = {
		{ .when = { IS(LOW(0), AF_UNIX) }, .then = V_ALLOW },
		{ .then = V_EAFNOSUPPORT },
	},
	/* The first four act on a terminal the guest may share with whoever started it. Of what btrfs
	 * (0x94) and bcachefs (0xbc) do only sharing the bytes of files is left: a snapshot is a copy
	 * of a tree without the mounts that cover parts of it, and no Landlock is asked. A folder that
	 * is encrypted has other names as soon as its key is taken back, and all its stamps stay. */
	[ARG_IOCTL] = {
		{ .when = { IS(LOW(1), TIOCSTI, TIOCLINUX, TIOCSETD, TIOCCONS) }, .then = V_EPERM },
		{ .when = { MASKED(LOW(1), IOCTL_NAME, CLONE_FILE, CLONE_RANGE, DEDUPE_RANGE,
				   GET_LABEL) }, .then = V_ALLOW },
		{ .when = { MASKED(LOW(1), IOCTL_OF, 0x9400, 0xbc00) }, .then = V_EPERM },
		{ .when = { MASKED(LOW(1), IOCTL_NAME, FSCRYPT_POLICY, FSCRYPT_ADD_KEY,
				   FSCRYPT_REMOVE_KEY, FSCRYPT_REMOVE_ALL) }, .then = V_EPERM },
		{ .then = V_ALLOW },
	},
	/* A thread with descriptors of its own would keep its files out of what the watch counts.
	 */
	[ARG_CLONE] = {
		{ .when = { ANY_BIT(LOW(0), CLONE_NEW_ANY) }, .then = V_EPERM },
		{ .when = { ANY_BIT(LOW(0), CLONE_THREAD), MASKED(LOW(0), CLONE_FILES, 0) },
		  .then = V_EPERM },
		{ .then = V_ALLOW },
	},
	/* PER_LINUX32 is what `setarch` and package builds set, ADDR_NO_RANDOMIZE what
	 * ThreadSanitizer and debuggers set for themselves; 0xffffffff only asks. */
	[ARG_PERSONALITY] = {
		{ .when = { IS(LOW(0), PER_LINUX, 0xffffffff) }, .then = V_ALLOW },
		{ .when = { IS(LOW(0), PER_LINUX32, ADDR_NO_RANDOMIZE) },
		  .then = V_ALLOW, .profiles = NOT_STRICT },
		{ .then = V_EPERM },
	},
	/* The first forges /proc/PID/exe and cmdline, the second switches mitigations off. Filters:
	 * see ARG_SECCOMP. */
	[ARG_PRCTL] = {
		{ .when = { IS(LOW(0), PR_SET_MM, PR_SET_SPECULATION_CTRL) }, .then = V_EPERM },
		{ .when = { IS(LOW(0), PR_SET_SECCOMP), IS(LOW(1), SECCOMP_MODE_FILTER) },
		  .then = V_EINVAL, .profiles = NOT_DEBUG },
		{ .then = V_ALLOW },
	},
	/* Counters of the guest's own processes, which the kernel finds in its pid namespace and asks
	 * ptrace about; never of a whole CPU or of a control group, where others run. */
	[ARG_PERF] = {
		{ .when = { IS(LOW(1), 0xffffffff) }, .then = V_EPERM },
		{ .when = { ANY_BIT(LOW(4), 4 /* PERF_FLAG_PID_CGROUP */) }, .then = V_EPERM },
		{ .then = V_ALLOW },
	},
	/* With a core limit of 1, which the guest starts with, the kernel does not run the host's
	 * core handler; with 0 it does. So the limit stays, but the call says it worked: sanitizers
	 * lower it at their start and give up if they cannot. */
	[ARG_SETRLIMIT] = {
		{ .when = { IS(LOW(0), RLIMIT_CORE) }, .then = V_PRETEND },
		{ .then = V_ALLOW },
	},
	/* Asking, without a new limit, is answered by the kernel. Setting and asking at once is not
	 * pretended: the answer would be missing. A pointer has two words. Init has the guest's own
	 * ids, which is all the kernel asks for: without descriptors it could not even poll. */
	[ARG_PRLIMIT] = {
		{ .when = { IS(LOW(2), 0), IS(HIGH(2), 0) }, .then = V_ALLOW },
		{ .when = { IS(LOW(0), 1) }, .then = V_EPERM, .no_engine = true },
		{ .when = { IS(LOW(1), RLIMIT_CORE), IS(LOW(3), 0), IS(HIGH(3), 0) },
		  .then = V_PRETEND },
		{ .when = { IS(LOW(1), RLIMIT_CORE) }, .then = V_EPERM },
		{ .then = V_ALLOW },
	},
	/* Each filter is a program in the kernel that no limit counts, and great numbers of them
	 * stop a machine: EINVAL, as from a kernel without filters, which is what callers expect.
	 * A listener's answers could only loosen the guest's own filters, but it adds the whole
	 * notify machinery to what the guest can reach. */
	[ARG_SECCOMP] = {
		{ .when = { IS(LOW(0), SECCOMP_SET_MODE_FILTER) },
		  .then = V_EINVAL, .profiles = NOT_DEBUG },
		{ .when = { ANY_BIT(LOW(1), SECCOMP_FILTER_FLAG_NEW_LISTENER) }, .then = V_EPERM },
		{ .then = V_ALLOW },
	},
	/* A root-owned workspace is attached by an idmapped mount: a set-id file made there would
	 * be one of the host's root. Directories need no rule: mkdir drops these bits. */
	[ARG_MODE_1] = {
		{ .when = { ANY_BIT(LOW(1), SET_ID) }, .then = V_EPERM },
		{ .then = V_ALLOW },
	},
	[ARG_MODE_2] = {
		{ .when = { ANY_BIT(LOW(2), SET_ID) }, .then = V_EPERM },
		{ .then = V_ALLOW },
	},
	/* Without the creating flags the mode is whatever the register held. */
	[ARG_OPEN] = {
		{ .when = { ANY_BIT(LOW(1), OPEN_CREATES), ANY_BIT(LOW(2), SET_ID) },
		  .then = V_EPERM },
		{ .then = V_ALLOW },
	},
	[ARG_OPENAT] = {
		{ .when = { ANY_BIT(LOW(2), OPEN_CREATES), ANY_BIT(LOW(3), SET_ID) },
		  .then = V_EPERM },
		{ .then = V_ALLOW },
	},
	[ARG_MKNOD] = {
		{ .when = { ANY_BIT(LOW(1), SET_ID) }, .then = V_EPERM },
		{ .when = { MASKED(LOW(1), S_IFMT, S_IFCHR, S_IFBLK) }, .then = V_EPERM },
		{ .then = V_ALLOW },
	},
	[ARG_MKNODAT] = {
		{ .when = { ANY_BIT(LOW(2), SET_ID) }, .then = V_EPERM },
		{ .when = { MASKED(LOW(2), S_IFMT, S_IFCHR, S_IFBLK) }, .then = V_EPERM },
		{ .then = V_ALLOW },
	},
	/* A lease on any file that is shown, be it read-only, makes the host's open() wait for as
	 * long as 45 seconds, again and again. EINVAL is the answer of file systems without.
	 * The pages of pipes are counted for the user, on the host as in here: no pipe has more than
	 * it is made with, which is 64 KiB. EPERM is the answer where they are used up. */
	[ARG_FCNTL] = {
		{ .when = { IS(LOW(1), F_SETLEASE, F_NOTIFY, F_SETDELEG_CMD) }, .then = V_EINVAL },
		{ .when = { IS(LOW(1), F_SETPIPE_SZ), ANY_BIT(LOW(2), ~(uint32_t)0x1ffff) },
		  .then = V_EPERM },
		{ .when = { IS(LOW(1), F_SETPIPE_SZ), ANY_BIT(LOW(2), 0x10000),
			    ANY_BIT(LOW(2), 0xffff) }, .then = V_EPERM },
		{ .then = V_ALLOW },
	},
	/* Huge pages are a pool of the machine's, outside of every memory limit. */
	[ARG_MMAP] = {
		{ .when = { ANY_BIT(LOW(3), MAP_HUGETLB) }, .then = V_EINVAL },
		{ .then = V_ALLOW },
	},
	[ARG_MEMFD] = {
		{ .when = { ANY_BIT(LOW(1), MFD_HUGETLB) }, .then = V_EINVAL },
		{ .then = V_ALLOW },
	},
	[ARG_SHMGET] = {
		{ .when = { ANY_BIT(LOW(2), SHM_HUGETLB) }, .then = V_EINVAL },
		{ .then = V_ALLOW },
	},
	/* A whiteout is a device node, and hides a file where the folder becomes a layer. */
	[ARG_RENAME] = {
		{ .when = { ANY_BIT(LOW(4), RENAME_WHITEOUT) }, .then = V_EINVAL },
		{ .then = V_ALLOW },
	},
	[ARG_CLOSE_RANGE] = {
		{ .when = { ANY_BIT(LOW(2), CLOSE_RANGE_UNSHARE) }, .then = V_EPERM },
		{ .then = V_ALLOW },
	},
	/* As ARG_SECCOMP: a program in the kernel a socket. */
	[ARG_SETSOCKOPT] = {
		{ .when = { IS(LOW(1), SOL_SOCKET),
			    IS(LOW(2), SO_ATTACH_FILTER, SO_ATTACH_BPF, SO_ATTACH_REUSEPORT_CBPF,
			       SO_ATTACH_REUSEPORT_EBPF) }, .then = V_EPERM },
		{ .then = V_ALLOW },
	},
	/* Init has the guest's own ids, which is all the kernel asks for, and must not be starved:
	 * not by its number, nor along with its user or group. */
	[ARG_SETPRIORITY] = {
		{ .when = { IS(LOW(0), PRIO_PROCESS), IS(LOW(1), 1) },
		  .then = V_EPERM },
		{ .when = { IS(LOW(0), PRIO_PROCESS) }, .then = V_ALLOW },
		{ .then = V_EPERM },
	},
	[ARG_IOPRIO] = {
		{ .when = { IS(LOW(0), IOPRIO_WHO_PROCESS), IS(LOW(1), 1) },
		  .then = V_EPERM, .no_engine = true },
		{ .when = { IS(LOW(0), IOPRIO_WHO_PROCESS) }, .then = V_ALLOW },
		{ .then = V_EPERM },
	},
	[ARG_SCHED] = {
		{ .when = { IS(LOW(0), 1) }, .then = V_EPERM },
		{ .then = V_ALLOW },
	},
};

#define NONE (-1) /* the architecture has no such call */

/* The name stands in the row: an address would have to be made anew at every start of brig. */
struct syscall_rule {
	char name[28];
	int16_t nr[FILTER_ARCHES];
	uint8_t verdict[SECCOMP_PROFILES];
};

/* Name, number on aarch64, number on x86_64, then the verdicts of strict, default and debug. */
#define EACH(name, arm, x86, ...) { name, { arm, x86 }, { __VA_ARGS__ } }
#define ALL(name, arm, x86, verdict) EACH(name, arm, x86, verdict, verdict, verdict)

static const struct syscall_rule syscall_rules[] = {
	/* Files and descriptors. */
	ALL("read", 63, 0, V_ALLOW),
	ALL("write", 64, 1, V_ALLOW),
	ALL("readv", 65, 19, V_ALLOW),
	ALL("writev", 66, 20, V_ALLOW),
	ALL("pread64", 67, 17, V_ALLOW),
	ALL("pwrite64", 68, 18, V_ALLOW),
	ALL("preadv", 69, 295, V_ALLOW),
	ALL("pwritev", 70, 296, V_ALLOW),
	ALL("preadv2", 286, 327, V_ALLOW),
	ALL("pwritev2", 287, 328, V_ALLOW),
	ALL("close", 57, 3, V_ALLOW),
	ALL("close_range", 436, 436, ARG_CLOSE_RANGE),
	ALL("lseek", 62, 8, V_ALLOW),
	ALL("dup", 23, 32, V_ALLOW),
	ALL("dup2", NONE, 33, V_ALLOW),
	ALL("dup3", 24, 292, V_ALLOW),
	ALL("fcntl", 25, 72, ARG_FCNTL),
	ALL("flock", 32, 73, V_ALLOW),
	ALL("pipe", NONE, 22, V_ALLOW),
	ALL("pipe2", 59, 293, V_ALLOW),
	ALL("sendfile", 71, 40, V_ALLOW),
	ALL("splice", 76, 275, V_ALLOW),
	ALL("tee", 77, 276, V_ALLOW),
	ALL("copy_file_range", 285, 326, V_ALLOW),
	ALL("fallocate", 47, 285, V_ALLOW),
	ALL("truncate", 45, 76, V_ALLOW),
	ALL("ftruncate", 46, 77, V_ALLOW),
	ALL("fsync", 82, 74, V_ALLOW),
	ALL("fdatasync", 83, 75, V_ALLOW),
	ALL("sync", 81, 162, V_ALLOW),
	ALL("syncfs", 267, 306, V_ALLOW),
	ALL("sync_file_range", 84, 277, V_ALLOW),
	ALL("readahead", 213, 187, V_ALLOW),
	ALL("fadvise64", 223, 221, V_ALLOW),
	ALL("cachestat", 451, 451, V_ALLOW),
	ALL("access", NONE, 21, V_ALLOW),
	ALL("faccessat", 48, 269, V_ALLOW),
	ALL("faccessat2", 439, 439, V_ALLOW),
	ALL("stat", NONE, 4, V_ALLOW),
	ALL("fstat", 80, 5, V_ALLOW),
	ALL("lstat", NONE, 6, V_ALLOW),
	ALL("newfstatat", 79, 262, V_ALLOW),
	ALL("statx", 291, 332, V_ALLOW),
	ALL("statfs", 43, 137, V_ALLOW),
	ALL("fstatfs", 44, 138, V_ALLOW),
	ALL("getdents", NONE, 78, V_ALLOW),
	ALL("getdents64", 61, 217, V_ALLOW),
	ALL("getcwd", 17, 79, V_ALLOW),
	ALL("chdir", 49, 80, V_ALLOW),
	ALL("fchdir", 50, 81, V_ALLOW),
	ALL("mkdir", NONE, 83, V_ALLOW),
	ALL("mkdirat", 34, 258, V_ALLOW),
	ALL("rmdir", NONE, 84, V_ALLOW),
	ALL("link", NONE, 86, V_ALLOW),
	ALL("linkat", 37, 265, V_ALLOW),
	ALL("unlink", NONE, 87, V_ALLOW),
	ALL("unlinkat", 35, 263, V_ALLOW),
	ALL("symlink", NONE, 88, V_ALLOW),
	ALL("symlinkat", 36, 266, V_ALLOW),
	ALL("readlink", NONE, 89, V_ALLOW),
	ALL("readlinkat", 78, 267, V_ALLOW),
	ALL("rename", NONE, 82, V_ALLOW),
	ALL("renameat", 38, 264, V_ALLOW),
	ALL("renameat2", 276, 316, ARG_RENAME),
	ALL("umask", 166, 95, V_ALLOW),
	ALL("chown", NONE, 92, V_ALLOW),
	ALL("fchown", 55, 93, V_ALLOW),
	ALL("lchown", NONE, 94, V_ALLOW),
	ALL("fchownat", 54, 260, V_ALLOW),
	ALL("utime", NONE, 132, V_ALLOW),
	ALL("utimes", NONE, 235, V_ALLOW),
	ALL("futimesat", NONE, 261, V_ALLOW),
	ALL("utimensat", 88, 280, V_ALLOW),
	ALL("getxattr", 8, 191, V_ALLOW),
	ALL("lgetxattr", 9, 192, V_ALLOW),
	ALL("fgetxattr", 10, 193, V_ALLOW),
	ALL("getxattrat", 464, 464, V_ALLOW),
	ALL("setxattr", 5, 188, V_ALLOW),
	ALL("lsetxattr", 6, 189, V_ALLOW),
	ALL("fsetxattr", 7, 190, V_ALLOW),
	ALL("setxattrat", 463, 463, V_ALLOW),
	ALL("listxattr", 11, 194, V_ALLOW),
	ALL("llistxattr", 12, 195, V_ALLOW),
	ALL("flistxattr", 13, 196, V_ALLOW),
	ALL("listxattrat", 465, 465, V_ALLOW),
	ALL("removexattr", 14, 197, V_ALLOW),
	ALL("lremovexattr", 15, 198, V_ALLOW),
	ALL("fremovexattr", 16, 199, V_ALLOW),
	ALL("removexattrat", 466, 466, V_ALLOW),
	ALL("file_getattr", 468, 468, V_ALLOW),
	ALL("memfd_create", 279, 319, ARG_MEMFD),
	/* A watch on a shown folder tells which of its files the host opens: not in strict. */
	EACH("inotify_init", NONE, 253, V_ENOSYS, V_ALLOW, V_ALLOW),
	EACH("inotify_init1", 26, 294, V_ENOSYS, V_ALLOW, V_ALLOW),
	EACH("inotify_add_watch", 27, 254, V_ENOSYS, V_ALLOW, V_ALLOW),
	EACH("inotify_rm_watch", 28, 255, V_ENOSYS, V_ALLOW, V_ALLOW),

	/* Waiting for events. */
	ALL("poll", NONE, 7, V_ALLOW),
	ALL("ppoll", 73, 271, V_ALLOW),
	ALL("select", NONE, 23, V_ALLOW),
	ALL("pselect6", 72, 270, V_ALLOW),
	ALL("epoll_create", NONE, 213, V_ALLOW),
	ALL("epoll_create1", 20, 291, V_ALLOW),
	ALL("epoll_ctl", 21, 233, V_ALLOW),
	ALL("epoll_wait", NONE, 232, V_ALLOW),
	ALL("epoll_pwait", 22, 281, V_ALLOW),
	ALL("epoll_pwait2", 441, 441, V_ALLOW),
	ALL("eventfd", NONE, 284, V_ALLOW),
	ALL("eventfd2", 19, 290, V_ALLOW),
	ALL("signalfd", NONE, 282, V_ALLOW),
	ALL("signalfd4", 74, 289, V_ALLOW),
	ALL("timerfd_create", 85, 283, V_ALLOW),
	ALL("timerfd_settime", 86, 286, V_ALLOW),
	ALL("timerfd_gettime", 87, 287, V_ALLOW),

	/* Memory. */
	ALL("brk", 214, 12, V_ALLOW),
	ALL("mmap", 222, 9, ARG_MMAP),
	ALL("munmap", 215, 11, V_ALLOW),
	ALL("mremap", 216, 25, V_ALLOW),
	ALL("mprotect", 226, 10, V_ALLOW),
	ALL("madvise", 233, 28, V_ALLOW),
	ALL("mincore", 232, 27, V_ALLOW),
	ALL("msync", 227, 26, V_ALLOW),
	ALL("mlock", 228, 149, V_ALLOW),
	ALL("mlock2", 284, 325, V_ALLOW),
	ALL("mlockall", 230, 151, V_ALLOW),
	ALL("munlock", 229, 150, V_ALLOW),
	ALL("munlockall", 231, 152, V_ALLOW),
	ALL("mseal", 462, 462, V_ALLOW),
	ALL("pkey_alloc", 289, 330, V_ALLOW),
	ALL("pkey_free", 290, 331, V_ALLOW),
	ALL("pkey_mprotect", 288, 329, V_ALLOW),
	ALL("map_shadow_stack", 453, 453, V_ALLOW),
	ALL("membarrier", 283, 324, V_ALLOW),

	/* Processes, threads and who they are. */
	ALL("fork", NONE, 57, V_ALLOW),
	ALL("vfork", NONE, 58, V_ALLOW),
	ALL("execve", 221, 59, V_ALLOW),
	ALL("execveat", 281, 322, V_ALLOW),
	ALL("exit", 93, 60, V_ALLOW),
	ALL("exit_group", 94, 231, V_ALLOW),
	ALL("wait4", 260, 61, V_ALLOW),
	ALL("waitid", 95, 247, V_ALLOW),
	ALL("pidfd_open", 434, 434, V_ALLOW),
	ALL("pidfd_send_signal", 424, 424, V_ALLOW),
	ALL("kill", 129, 62, V_ALLOW),
	ALL("tkill", 130, 200, V_ALLOW),
	ALL("tgkill", 131, 234, V_ALLOW),
	ALL("getpid", 172, 39, V_ALLOW),
	ALL("getppid", 173, 110, V_ALLOW),
	ALL("gettid", 178, 186, V_ALLOW),
	ALL("getpgrp", NONE, 111, V_ALLOW),
	ALL("getpgid", 155, 121, V_ALLOW),
	ALL("setpgid", 154, 109, V_ALLOW),
	ALL("getsid", 156, 124, V_ALLOW),
	ALL("setsid", 157, 112, V_ALLOW),
	ALL("getuid", 174, 102, V_ALLOW),
	ALL("geteuid", 175, 107, V_ALLOW),
	ALL("getgid", 176, 104, V_ALLOW),
	ALL("getegid", 177, 108, V_ALLOW),
	ALL("getresuid", 148, 118, V_ALLOW),
	ALL("getresgid", 150, 120, V_ALLOW),
	ALL("getgroups", 158, 115, V_ALLOW),
	ALL("setuid", 146, 105, V_ALLOW),
	ALL("setgid", 144, 106, V_ALLOW),
	ALL("setreuid", 145, 113, V_ALLOW),
	ALL("setregid", 143, 114, V_ALLOW),
	ALL("setresuid", 147, 117, V_ALLOW),
	ALL("setresgid", 149, 119, V_ALLOW),
	ALL("setfsuid", 151, 122, V_ALLOW),
	ALL("setfsgid", 152, 123, V_ALLOW),
	ALL("setgroups", 159, 116, V_ALLOW),
	ALL("capget", 90, 125, V_ALLOW),
	ALL("capset", 91, 126, V_ALLOW),
	ALL("arch_prctl", NONE, 158, V_ALLOW),
	ALL("set_tid_address", 96, 218, V_ALLOW),
	ALL("set_robust_list", 99, 273, V_ALLOW),
	ALL("get_robust_list", 100, 274, V_ALLOW),
	ALL("rseq", 293, 334, V_ALLOW),
	ALL("rseq_slice_yield", 471, 471, V_ALLOW),
	ALL("futex", 98, 202, V_ALLOW),
	ALL("futex_waitv", 449, 449, V_ALLOW),
	ALL("futex_wait", 455, 455, V_ALLOW),
	ALL("futex_wake", 454, 454, V_ALLOW),
	ALL("futex_requeue", 456, 456, V_ALLOW),
	ALL("getrlimit", 163, 97, V_ALLOW),
	ALL("getrusage", 165, 98, V_ALLOW),
	ALL("times", 153, 100, V_ALLOW),
	ALL("sysinfo", 179, 99, V_ALLOW),
	ALL("uname", 160, 63, V_ALLOW),
	ALL("getcpu", 168, 309, V_ALLOW),
	ALL("getrandom", 278, 318, V_ALLOW),
	ALL("restart_syscall", 128, 219, V_ALLOW),

	/* Scheduling: the kernel itself refuses to raise anything without a capability; init is out
	 * of reach by argument rules. */
	ALL("sched_yield", 124, 24, V_ALLOW),
	ALL("sched_getaffinity", 123, 204, V_ALLOW),
	ALL("sched_setaffinity", 122, 203, ARG_SCHED),
	ALL("sched_getparam", 121, 143, V_ALLOW),
	ALL("sched_setparam", 118, 142, ARG_SCHED),
	ALL("sched_getscheduler", 120, 145, V_ALLOW),
	ALL("sched_setscheduler", 119, 144, ARG_SCHED),
	ALL("sched_getattr", 275, 315, V_ALLOW),
	ALL("sched_setattr", 274, 314, ARG_SCHED),
	ALL("sched_get_priority_max", 125, 146, V_ALLOW),
	ALL("sched_get_priority_min", 126, 147, V_ALLOW),
	ALL("sched_rr_get_interval", 127, 148, V_ALLOW),
	ALL("getpriority", 141, 140, V_ALLOW),
	ALL("setpriority", 140, 141, ARG_SETPRIORITY),
	ALL("ioprio_get", 31, 252, V_ALLOW),
	ALL("ioprio_set", 30, 251, ARG_IOPRIO),

	/* Signals and time. */
	ALL("rt_sigaction", 134, 13, V_ALLOW),
	ALL("rt_sigprocmask", 135, 14, V_ALLOW),
	ALL("rt_sigpending", 136, 127, V_ALLOW),
	ALL("rt_sigsuspend", 133, 130, V_ALLOW),
	ALL("rt_sigtimedwait", 137, 128, V_ALLOW),
	ALL("rt_sigqueueinfo", 138, 129, V_ALLOW),
	ALL("rt_tgsigqueueinfo", 240, 297, V_ALLOW),
	ALL("rt_sigreturn", 139, 15, V_ALLOW),
	ALL("sigaltstack", 132, 131, V_ALLOW),
	ALL("pause", NONE, 34, V_ALLOW),
	ALL("alarm", NONE, 37, V_ALLOW),
	ALL("getitimer", 102, 36, V_ALLOW),
	ALL("setitimer", 103, 38, V_ALLOW),
	ALL("nanosleep", 101, 35, V_ALLOW),
	ALL("clock_nanosleep", 115, 230, V_ALLOW),
	ALL("clock_gettime", 113, 228, V_ALLOW),
	ALL("clock_getres", 114, 229, V_ALLOW),
	ALL("gettimeofday", 169, 96, V_ALLOW),
	ALL("time", NONE, 201, V_ALLOW),
	ALL("timer_create", 107, 222, V_ALLOW),
	ALL("timer_settime", 110, 223, V_ALLOW),
	ALL("timer_gettime", 108, 224, V_ALLOW),
	ALL("timer_getoverrun", 109, 225, V_ALLOW),
	ALL("timer_delete", 111, 226, V_ALLOW),

	/* Sockets. Which ones may be made is an argument rule. */
	ALL("bind", 200, 49, V_ALLOW),
	ALL("listen", 201, 50, V_ALLOW),
	ALL("accept", 202, 43, V_ALLOW),
	ALL("accept4", 242, 288, V_ALLOW),
	ALL("connect", 203, 42, V_ALLOW),
	ALL("getsockname", 204, 51, V_ALLOW),
	ALL("getpeername", 205, 52, V_ALLOW),
	ALL("setsockopt", 208, 54, ARG_SETSOCKOPT),
	ALL("getsockopt", 209, 55, V_ALLOW),
	ALL("sendto", 206, 44, V_ALLOW),
	ALL("recvfrom", 207, 45, V_ALLOW),
	ALL("sendmsg", 211, 46, V_ALLOW),
	ALL("recvmsg", 212, 47, V_ALLOW),
	ALL("sendmmsg", 269, 307, V_ALLOW),
	ALL("recvmmsg", 243, 299, V_ALLOW),
	ALL("shutdown", 210, 48, V_ALLOW),

	/* SysV shared memory and semaphores: private, as the ipc namespace is. */
	ALL("shmget", 194, 29, ARG_SHMGET),
	ALL("shmat", 196, 30, V_ALLOW),
	ALL("shmdt", 197, 67, V_ALLOW),
	ALL("shmctl", 195, 31, V_ALLOW),
	ALL("semget", 190, 64, V_ALLOW),
	ALL("semop", 193, 65, V_ALLOW),
	ALL("semtimedop", 192, 220, V_ALLOW),
	ALL("semctl", 191, 66, V_ALLOW),

	/* The guest may confine itself further. */
	ALL("landlock_create_ruleset", 444, 444, V_ALLOW),
	ALL("landlock_add_rule", 445, 445, V_ALLOW),
	ALL("landlock_restrict_self", 446, 446, V_ALLOW),

	/* Trampolines of the host's own uprobes: refused, they would kill the traced program. */
	ALL("uretprobe", NONE, 335, V_ALLOW),
	ALL("uprobe", NONE, 336, V_ALLOW),

	/* Decided by argument. */
	ALL("socket", 198, 41, ARG_SOCKET),
	ALL("socketpair", 199, 53, ARG_SOCKETPAIR),
	ALL("ioctl", 29, 16, ARG_IOCTL),
	ALL("clone", 220, 56, ARG_CLONE),
	ALL("personality", 92, 135, ARG_PERSONALITY),
	ALL("prctl", 167, 157, ARG_PRCTL),
	ALL("setrlimit", 164, 160, ARG_SETRLIMIT),
	ALL("prlimit64", 261, 302, ARG_PRLIMIT),
	ALL("seccomp", 277, 317, ARG_SECCOMP),
	ALL("chmod", NONE, 90, ARG_MODE_1),
	ALL("fchmod", 52, 91, ARG_MODE_1),
	ALL("creat", NONE, 85, ARG_MODE_1),
	ALL("fchmodat", 53, 268, ARG_MODE_2),
	ALL("fchmodat2", 452, 452, ARG_MODE_2),
	ALL("open", NONE, 2, ARG_OPEN),
	ALL("openat", 56, 257, ARG_OPENAT),
	ALL("mknod", NONE, 133, ARG_MKNOD),
	ALL("mknodat", 33, 259, ARG_MKNODAT),

	/* Reaching into other processes of the same sandbox. */
	EACH("ptrace", 117, 101, V_EPERM, V_ALLOW, V_ALLOW),
	EACH("process_vm_readv", 270, 310, V_EPERM, V_ALLOW, V_ALLOW),
	EACH("process_vm_writev", 271, 311, V_EPERM, V_ALLOW, V_ALLOW),
	EACH("process_madvise", 440, 440, V_EPERM, V_ALLOW, V_ALLOW),
	EACH("process_mrelease", 448, 448, V_EPERM, V_ALLOW, V_ALLOW),
	EACH("kcmp", 272, 312, V_EPERM, V_EPERM, V_ALLOW),

	/* Its queues come from one budget of the whole machine, which one guest can take. */
	EACH("io_setup", 0, 206, V_ENOSYS, V_ENOSYS, V_ALLOW),
	EACH("io_destroy", 1, 207, V_ENOSYS, V_ENOSYS, V_ALLOW),
	EACH("io_submit", 2, 209, V_ENOSYS, V_ENOSYS, V_ALLOW),
	EACH("io_cancel", 3, 210, V_ENOSYS, V_ENOSYS, V_ALLOW),
	EACH("io_getevents", 4, 208, V_ENOSYS, V_ENOSYS, V_ALLOW),
	EACH("io_pgetevents", 292, 333, V_ENOSYS, V_ENOSYS, V_ALLOW),

	/* Rarely needed, rich in past faults. Strict says ENOSYS: callers then fall back. */
	EACH("msgget", 186, 68, V_ENOSYS, V_ALLOW, V_ALLOW),
	EACH("msgsnd", 189, 69, V_ENOSYS, V_ALLOW, V_ALLOW),
	EACH("msgrcv", 188, 70, V_ENOSYS, V_ALLOW, V_ALLOW),
	EACH("msgctl", 187, 71, V_ENOSYS, V_ALLOW, V_ALLOW),
	EACH("mq_open", 180, 240, V_ENOSYS, V_ALLOW, V_ALLOW),
	EACH("mq_unlink", 181, 241, V_ENOSYS, V_ALLOW, V_ALLOW),
	EACH("mq_timedsend", 182, 242, V_ENOSYS, V_ALLOW, V_ALLOW),
	EACH("mq_timedreceive", 183, 243, V_ENOSYS, V_ALLOW, V_ALLOW),
	EACH("mq_notify", 184, 244, V_ENOSYS, V_ALLOW, V_ALLOW),
	EACH("mq_getsetattr", 185, 245, V_ENOSYS, V_ALLOW, V_ALLOW),
	EACH("remap_file_pages", 234, 216, V_ENOSYS, V_ALLOW, V_ALLOW),
	EACH("file_setattr", 469, 469, V_ENOSYS, V_ALLOW, V_ALLOW),

	/* As if the kernel lacked them, so that callers fall back to what the filter can judge:
	 * clone3 and openat2 hide flags and mode behind a pointer, io_uring makes calls no filter
	 * sees, and the lists show what /proc shows already or hides. */
	ALL("clone3", 435, 435, V_ENOSYS),
	ALL("openat2", 437, 437, V_ENOSYS),
	ALL("io_uring_setup", 425, 425, V_ENOSYS),
	ALL("io_uring_enter", 426, 426, V_ENOSYS),
	ALL("io_uring_register", 427, 427, V_ENOSYS),
	ALL("memfd_secret", 447, 447, V_ENOSYS),
	ALL("statmount", 457, 457, V_ENOSYS),
	ALL("listmount", 458, 458, V_ENOSYS),
	ALL("listns", 470, 470, V_ENOSYS),
	ALL("lsm_get_self_attr", 459, 459, V_ENOSYS),
	ALL("lsm_set_self_attr", 460, 460, V_ENOSYS),
	ALL("lsm_list_modules", 461, 461, V_ENOSYS),

	/* Where memory comes from may be asked (CUDA does, where /sys has nodes), and not chosen; a
	 * kernel without 16-bit segments. */
	EACH("get_mempolicy", 236, 239, V_ENOSYS, V_ALLOW, V_ALLOW),
	ALL("set_mempolicy", 237, 238, V_ENOSYS),
	ALL("mbind", 235, 237, V_ENOSYS),
	ALL("migrate_pages", 238, 256, V_ENOSYS),
	ALL("move_pages", 239, 279, V_ENOSYS),
	ALL("set_mempolicy_home_node", 450, 450, V_ENOSYS),
	ALL("modify_ldt", NONE, 154, V_ENOSYS),

	/* Namespaces and mounts. */
	ALL("unshare", 97, 272, V_EPERM),
	ALL("setns", 268, 308, V_EPERM),
	ALL("mount", 40, 165, V_EPERM),
	ALL("umount2", 39, 166, V_EPERM),
	ALL("pivot_root", 41, 155, V_EPERM),
	ALL("chroot", 51, 161, V_EPERM),
	ALL("fsopen", 430, 430, V_EPERM),
	ALL("fsconfig", 431, 431, V_EPERM),
	ALL("fsmount", 432, 432, V_EPERM),
	ALL("fspick", 433, 433, V_EPERM),
	ALL("open_tree", 428, 428, V_EPERM),
	ALL("open_tree_attr", 467, 467, V_EPERM),
	ALL("move_mount", 429, 429, V_EPERM),
	ALL("mount_setattr", 442, 442, V_EPERM),
	ALL("name_to_handle_at", 264, 303, V_EPERM),
	ALL("open_by_handle_at", 265, 304, V_EPERM),

	/* Kernel interfaces that are never the guest's business. */
	ALL("bpf", 280, 321, V_EPERM),
	EACH("perf_event_open", 241, 298, V_EPERM, V_EPERM, ARG_PERF),
	ALL("userfaultfd", 282, 323, V_EPERM),
	ALL("fanotify_init", 262, 300, V_EPERM),
	ALL("fanotify_mark", 263, 301, V_EPERM),
	ALL("add_key", 217, 248, V_EPERM),
	ALL("request_key", 218, 249, V_EPERM),
	ALL("keyctl", 219, 250, V_EPERM),
	ALL("pidfd_getfd", 438, 438, V_EPERM),
	ALL("vmsplice", 75, 278, V_EPERM),
	ALL("lookup_dcookie", 18, 212, V_EPERM),
	ALL("syslog", 116, 103, V_EPERM),

	/* The machine itself. */
	ALL("acct", 89, 163, V_EPERM),
	ALL("quotactl", 60, 179, V_EPERM),
	ALL("quotactl_fd", 443, 443, V_EPERM),
	ALL("swapon", 224, 167, V_EPERM),
	ALL("swapoff", 225, 168, V_EPERM),
	ALL("reboot", 142, 169, V_EPERM),
	ALL("kexec_load", 104, 246, V_EPERM),
	ALL("kexec_file_load", 294, 320, V_EPERM),
	ALL("init_module", 105, 175, V_EPERM),
	ALL("finit_module", 273, 313, V_EPERM),
	ALL("delete_module", 106, 176, V_EPERM),
	ALL("create_module", NONE, 174, V_EPERM),
	ALL("query_module", NONE, 178, V_EPERM),
	ALL("get_kernel_syms", NONE, 177, V_EPERM),
	ALL("iopl", NONE, 172, V_EPERM),
	ALL("ioperm", NONE, 173, V_EPERM),
	ALL("sethostname", 161, 170, V_EPERM),
	ALL("setdomainname", 162, 171, V_EPERM),
	ALL("settimeofday", 170, 164, V_EPERM),
	ALL("clock_settime", 112, 227, V_EPERM),
	ALL("adjtimex", 171, 159, V_EPERM),
	ALL("clock_adjtime", 266, 305, V_EPERM),
	ALL("vhangup", 58, 153, V_EPERM),
	ALL("nfsservctl", 42, 180, V_EPERM),
	ALL("_sysctl", NONE, 156, V_EPERM),
	ALL("sysfs", NONE, 139, V_EPERM),
	ALL("uselib", NONE, 134, V_EPERM),
	ALL("ustat", NONE, 136, V_EPERM),
};
/* clang-format on */

#define SYSCALL_RULES (sizeof(syscall_rules) / sizeof(syscall_rules[0]))
