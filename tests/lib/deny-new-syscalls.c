/* SPDX-License-Identifier: Apache-2.0 */
/* deny-new-syscalls COMMAND [ARG...] - run a command as on an older kernel.
 *
 * The system calls that came after Linux 5.3 and that brig has a second way for answer ENOSYS, as
 * the kernel of that time would. The filter stays on in every descendant. Both architectures of
 * interest share the numbers of calls this new, so one table serves. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* Numbers, because the headers of an older system lack the names. */
static const unsigned short denied[] = {
	428, /* open_tree */
	429, /* move_mount */
	430, /* fsopen */
	431, /* fsconfig */
	432, /* fsmount */
	433, /* fspick */
	435, /* clone3 */
	436, /* close_range */
	437, /* openat2 */
	439, /* faccessat2 */
	440, /* process_madvise */
	441, /* epoll_pwait2 */
	442, /* mount_setattr */
	444, /* landlock_create_ruleset */
	445, /* landlock_add_rule */
	446, /* landlock_restrict_self */
	448, /* process_mrelease */
	452, /* fchmodat2 */
	457, /* statmount */
	458, /* listmount */
	467, /* open_tree_attr */
};
#define DENIED (sizeof(denied) / sizeof(denied[0]))

static int install(void)
{
	struct sock_filter program[DENIED + 3];
	struct sock_fprog filter = { .len = DENIED + 3, .filter = program };

	program[0] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						  offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < DENIED; i++) /* a hit jumps to the last statement */
		program[1 + i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, denied[i],
							      (unsigned char)(DENIED - i), 0);
	program[DENIED + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	program[DENIED + 2] =
		(struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -1;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0);
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		(void)fprintf(stderr, "usage: deny-new-syscalls COMMAND [ARG...]\n");
		return 125;
	}
	if (install() < 0) {
		(void)fprintf(stderr, "deny-new-syscalls: no filter: %s\n", strerror(errno));
		return 125;
	}
	(void)execvp(argv[1], argv + 1);
	(void)fprintf(stderr, "deny-new-syscalls: '%s': %s\n", argv[1], strerror(errno));
	return 127;
}
