/* SPDX-License-Identifier: Apache-2.0 */
/* without FEATURE COMMAND [ARG...] - run a command on a machine that lacks something.
 *
 * userns: making user namespaces is EPERM, as under AppArmor or in a container. seccomp, landlock:
 * the kernel was built without. signals: kill, tkill and tgkill are EPERM, so that only a pidfd (or
 * a control group) ends anybody. nodes: a file system that has no sockets in it. cgroups is for the
 * caller: it needs no filter. */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOAD(member) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, member))
#define RETURN(value) BPF_STMT(BPF_RET | BPF_K, value)
#define DENY(nr, code)                                                                             \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1), RETURN(SECCOMP_RET_ERRNO | (code))
static struct sock_filter userns[] = {
	LOAD(nr),
	DENY(435, ENOSYS), /* clone3: the caller falls back to clone, whose flags can be seen */
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 1, 0),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_unshare, 0, 3),
	LOAD(args[0]),
	BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_NEWUSER, 0, 1),
	RETURN(SECCOMP_RET_ERRNO | EPERM),
	RETURN(SECCOMP_RET_ALLOW),
};
static struct sock_filter no_seccomp[] = {
	LOAD(nr),
	DENY(SYS_seccomp, EINVAL),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 3),
	LOAD(args[0]),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PR_SET_SECCOMP, 0, 1),
	RETURN(SECCOMP_RET_ERRNO | EINVAL),
	RETURN(SECCOMP_RET_ALLOW),
};
static struct sock_filter no_landlock[] = {
	LOAD(nr),          DENY(444, ENOSYS),         DENY(445, ENOSYS),
	DENY(446, ENOSYS), RETURN(SECCOMP_RET_ALLOW),
};
static struct sock_filter no_signals[] = {
	LOAD(nr),
	DENY(SYS_kill, EPERM),
	DENY(SYS_tkill, EPERM),
	DENY(SYS_tgkill, EPERM),
	RETURN(SECCOMP_RET_ALLOW),
};
static struct sock_filter no_nodes[] = {
	LOAD(nr),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mknodat, 0, 4),
	LOAD(args[2]),
	BPF_STMT(BPF_ALU | BPF_AND | BPF_K, S_IFMT),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, S_IFSOCK, 0, 1),
	RETURN(SECCOMP_RET_ERRNO | EPERM),
	RETURN(SECCOMP_RET_ALLOW),
};

#define FEATURE(name, filter)                                                                      \
	{                                                                                          \
		name,                                                                              \
		{                                                                                  \
			sizeof(filter) / sizeof((filter)[0]), filter                               \
		}                                                                                  \
	}
static const struct {
	const char *name;
	struct sock_fprog program;
} features[] = { FEATURE("userns", userns), FEATURE("seccomp", no_seccomp),
		 FEATURE("landlock", no_landlock), FEATURE("signals", no_signals),
		 FEATURE("nodes", no_nodes) };

int main(int argc, char **argv)
{
	for (size_t i = 0; argc > 2 && i < sizeof(features) / sizeof(features[0]); i++) {
		if (strcmp(argv[1], features[i].name) != 0)
			continue;
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
		    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &features[i].program, 0, 0) < 0)
			return 120;
		execvp(argv[2], argv + 2);
		return 121;
	}
	return 122;
}
