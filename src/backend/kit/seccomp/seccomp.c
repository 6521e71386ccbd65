/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/seccomp/seccomp.c - hand the prepared filter to the kernel. */
#include "backend/kit/seccomp/seccomp.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__aarch64__)
#include "seccomp_filter_aarch64.inc"
#elif defined(__x86_64__)
#include "seccomp_filter_x86_64.inc"
#else
#error "no system-call filter for this architecture"
#endif

/* Not in the headers of every build host. */
#define NOTIF_SET_FLAGS SECCOMP_IOW(4, uint64_t)
#define NOTIF_SYNC_WAKE_UP 1UL

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static const struct program {
	const struct sock_filter *insn;
	unsigned short len;
} programs[] = {
	[SECCOMP_STRICT] = { seccomp_strict, LENGTH(seccomp_strict) },
	[SECCOMP_DEFAULT] = { seccomp_default, LENGTH(seccomp_default) },
	[SECCOMP_DEBUG] = { seccomp_debug, LENGTH(seccomp_debug) },
};

_Static_assert(LENGTH(programs) == SECCOMP_PROFILES, "one program for each profile");

/* Stacked under the main program: the strictest answer of all filters counts, so this one need not
 * look at the architecture (the main one kills the foreign) nor know the profiles. */
static const struct sock_filter affinity[] = {
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_sched_setaffinity, 0, 1),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};

/* What a thread's name and a process's memory are opened with, and hardly anything else. The two
 * numbers are O_LARGEFILE and O_NOFOLLOW, on either architecture. */
#define OPENED_WITH (~(uint32_t)(O_CLOEXEC | 0100000 | 0400000))
#ifdef __NR_open
#define LISTEN_OPEN                                                                                \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_open, 0, 2),                                      \
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),        \
		BPF_JUMP(BPF_JMP | BPF_JA, 2, 0, 0),
#else
#define LISTEN_OPEN
#endif
#define LISTEN(with)                                                                               \
	{                                                                                          \
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),             \
			LISTEN_OPEN BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_openat, 0, 4),        \
			BPF_STMT(BPF_LD | BPF_W | BPF_ABS,                                         \
				 offsetof(struct seccomp_data, args[2])),                          \
			BPF_STMT(BPF_ALU | BPF_AND | BPF_K, with),                                 \
			BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, O_RDWR, 2, 0),                         \
			BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, O_WRONLY, 1, 0),                       \
			BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),                              \
			BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),                         \
	}

static const struct sock_filter listen[] = LISTEN(OPENED_WITH);
/* fopen("w"), which is how most files come to be: each of them waits. */
static const struct sock_filter listen_streams[] = LISTEN(OPENED_WITH & ~(O_CREAT | O_TRUNC));

#define WATCH(nr)                                                                                  \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1),                                             \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF)

/* What the main filter refuses is refused before anybody is asked: an error is the stronger answer.
 * Init opens with O_NOCTTY what it opens before its monitor listens. */
static const struct sock_filter watch[] = {
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	WATCH(__NR_openat2),
	WATCH(__NR_execve),
	WATCH(__NR_execveat),
	WATCH(__NR_readlinkat),
	WATCH(__NR_renameat),
	WATCH(__NR_renameat2),
	WATCH(__NR_mkdirat),
	WATCH(__NR_unlinkat),
	WATCH(__NR_symlinkat),
	WATCH(__NR_linkat),
#ifdef __NR_open
	WATCH(__NR_open),
	WATCH(__NR_creat),
	WATCH(__NR_readlink),
	WATCH(__NR_rename),
	WATCH(__NR_mkdir),
	WATCH(__NR_rmdir),
	WATCH(__NR_unlink),
	WATCH(__NR_symlink),
	WATCH(__NR_link),
#endif
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_openat, 1, 0),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
	BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_NOCTTY, 0, 1),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
};

static int seccomp_load(const struct sock_filter *insn, unsigned short len, unsigned flags)
{
	/* The kernel only reads the program; its structure merely lacks the const. */
	struct sock_fprog prog = { .len = len, .filter = (struct sock_filter *)insn };

	int r = (int)syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, flags, &prog);

	return r < 0 ? -errno : r;
}

/* A signal would end the open(), and few expect that of a file: not once it is being answered,
 * where the kernel can. */
static int load_listener(const struct sock_filter *insn, unsigned short len)
{
	int r = seccomp_load(insn, len,
			     SECCOMP_FILTER_FLAG_NEW_LISTENER |
				     SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV);

	if (r == -EINVAL)
		r = seccomp_load(insn, len, SECCOMP_FILTER_FLAG_NEW_LISTENER);
	if (r >= 0) /* who asks and who answers take turns on one CPU; from Linux 6.6 on */
		(void)ioctl(r, NOTIF_SET_FLAGS, NOTIF_SYNC_WAKE_UP);
	return r;
}

int seccomp_listen(bool streams)
{
	return load_listener(streams ? listen_streams : listen, LENGTH(listen));
}

int seccomp_watch(void)
{
	return load_listener(watch, LENGTH(watch));
}

int seccomp_install(enum seccomp_profile profile, bool deny_affinity)
{
	int r = 0;

	if ((unsigned int)profile >= SECCOMP_PROFILES)
		return -EINVAL;
	if (deny_affinity)
		r = seccomp_load(affinity, LENGTH(affinity), 0);
	if (r < 0)
		return r;
	return seccomp_load(programs[profile].insn, programs[profile].len, 0);
}
