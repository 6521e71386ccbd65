/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/seccomp/seccomp_args.h - what becomes of a system call, where its arguments decide
 * too.
 *
 * Plain data, of seccomp_table.h alone. The constants come from the build host's headers; those
 * used have one value on both architectures. */
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

#include "backend/kit/seccomp/seccomp.h"

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
		{ .when = { IS(LOW(0), PER_LINUX32, ADDR_NO_RANDOMIZE, READ_IMPLIES_EXEC,
			       ADDR_NO_RANDOMIZE | READ_IMPLIES_EXEC) },
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
/* clang-format on */
