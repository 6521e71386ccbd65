/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/process/seccomp.c - hand the prepared filter to the kernel. */
#include "backend/kit/process/seccomp.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__aarch64__)
#include "seccomp_filter_aarch64.inc"
#elif defined(__x86_64__)
#include "seccomp_filter_x86_64.inc"
#else
#error "no system-call filter for this architecture"
#endif

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

static int load(const struct sock_filter *insn, unsigned short len)
{
	/* The kernel only reads the program; its structure merely lacks the const. */
	struct sock_fprog prog = { .len = len, .filter = (struct sock_filter *)insn };

	if (syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0)
		return -errno;
	return 0;
}

int seccomp_install(enum seccomp_profile profile, bool deny_affinity)
{
	int r = 0;

	if ((unsigned int)profile >= SECCOMP_PROFILES)
		return -EINVAL;
	if (deny_affinity)
		r = load(affinity, LENGTH(affinity));
	if (r < 0)
		return r;
	return load(programs[profile].insn, programs[profile].len);
}
