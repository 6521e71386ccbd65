/* SPDX-License-Identifier: Apache-2.0 */
/* deny-userns COMMAND [ARG...] - run a command where user namespaces are refused, as in a
 * container.
 *
 * clone and unshare with CLONE_NEWUSER answer EPERM. The flags of clone3 lie in memory, where a
 * filter cannot look, so it answers ENOSYS and the caller falls back to clone. Both calls carry
 * their flags in the low half of the first argument; these are all the architectures brig has. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FIELD(name) offsetof(struct seccomp_data, name)

static int install(void)
{
	struct sock_filter program[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, FIELD(nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 6, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_unshare, 0, 2),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, FIELD(args[0])),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_NEWUSER, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
	};
	struct sock_fprog filter = { .len = sizeof(program) / sizeof(program[0]),
				     .filter = program };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -1;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0);
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		(void)fprintf(stderr, "usage: deny-userns COMMAND [ARG...]\n");
		return 125;
	}
	if (install() < 0) {
		(void)fprintf(stderr, "deny-userns: no filter: %s\n", strerror(errno));
		return 125;
	}
	(void)execvp(argv[1], argv + 1);
	(void)fprintf(stderr, "deny-userns: '%s': %s\n", argv[1], strerror(errno));
	return 127;
}
