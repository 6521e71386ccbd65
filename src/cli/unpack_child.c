/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/unpack_child.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/tar.h"

#define ENTRIES_MAX 1000000
#define FILES_MAX 256
#define FS_ABI_1 ((LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1)

#if defined(__x86_64__)
#define OWN_ARCH AUDIT_ARCH_X86_64
#else
#define OWN_ARCH AUDIT_ARCH_AARCH64
#endif

/* All that making files takes, by descriptor. */
static const unsigned calls[] = {
	SYS_read,      SYS_write,      SYS_openat,     SYS_close,        SYS_mkdirat,
	SYS_unlinkat,  SYS_renameat,   SYS_renameat2,  SYS_fchmod,       SYS_fcntl,
	SYS_getrandom, SYS_newfstatat, SYS_exit_group, SYS_rt_sigreturn,
};

static int filter(void)
{
	struct sock_filter code[ARRAY_LEN(calls) + 6];
	struct sock_fprog prog = { .filter = code };
	unsigned short n = 0;

	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						 offsetof(struct seccomp_data, arch));
	code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OWN_ARCH, 1, 0);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						 offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < ARRAY_LEN(calls); i++)
		code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i],
							 (unsigned char)(ARRAY_LEN(calls) - i), 0);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	prog.len = n;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) < 0 ? -errno : 0;
}

/* Below the folder alone; what the kernel cannot say is said by the walk (tar_unpack). */
static int landlock(int folder)
{
	const struct landlock_path_beneath_attr below = {
		.allowed_access = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_FILE |
				  LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG,
		.parent_fd = folder
	};
	const uint64_t all = FS_ABI_1;
	CLEANUP(fd) int rules = -1;

	if (syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION) < 1)
		return 0;
	rules = (int)syscall(SYS_landlock_create_ruleset, &all, sizeof(all), 0);
	if (rules < 0 ||
	    syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &below, 0) < 0 ||
	    syscall(SYS_landlock_restrict_self, rules, 0) < 0)
		return -errno;
	return 0;
}

static int confine(int folder)
{
	const struct rlimit none = { 0, 0 }, files = { FILES_MAX, FILES_MAX };
	int r;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 ||
	    setrlimit(RLIMIT_CORE, &none) < 0 || setrlimit(RLIMIT_NPROC, &none) < 0 ||
	    setrlimit(RLIMIT_NOFILE, &files) < 0)
		return -errno;
	r = landlock(folder);
	return r < 0 ? r : filter();
}

static int get(void *arg, void *p, size_t n)
{
	const int *from = arg;
	char *at = p;

	while (n) {
		ssize_t got = read(*from, at, n);

		if (got == 0)
			return -ENODATA;
		if (got < 0 && errno != EINTR)
			return -errno;
		at += got > 0 ? got : 0;
		n -= got > 0 ? (size_t)got : 0;
	}
	return 0;
}

static _Noreturn void child(int folder, uint64_t most, int from, int tells)
{
	struct tar_limits l = { .bytes = most, .entries = ENTRIES_MAX };
	const int keep[] = { folder, from, tells };
	char dust[4096];
	int r = fd_close_except(3, keep, ARRAY_LEN(keep));

	l.mask = umask(0);
	(void)umask(l.mask);
	if (r == 0)
		r = confine(folder);
	if (r == 0)
		r = tar_unpack(folder, &l, get, NULL, &from);
	/* What fills up the last record; if it failed, nobody shall wait for us. */
	while (r == 0 && read(from, dust, sizeof(dust)) > 0)
		;
	(void)fd_write_all(tells, &r, sizeof(r));
	_exit(r < 0);
}

int unpack_child_start(int folder, uint64_t most, struct unpack_child *ret, struct err *e)
{
	CLEANUP(fd) int from = -1, to = -1, hears = -1, tells = -1;
	int data[2], words[2];
	pid_t pid;

	if (pipe2(data, O_CLOEXEC) < 0)
		return err_sys(e, "cannot make a pipe");
	from = data[0];
	to = data[1];
	if (pipe2(words, O_CLOEXEC) < 0)
		return err_sys(e, "cannot make a pipe");
	hears = words[0];
	tells = words[1];
	pid = fork();
	if (pid < 0)
		return err_sys(e, "cannot start a process");
	if (pid == 0)
		child(folder, most, from, tells);
	*ret = (struct unpack_child){ .pid = pid, .to = TAKE_FD(to), .tells = TAKE_FD(hears) };
	return 0;
}

int unpack_child_end(struct unpack_child *u, struct err *e)
{
	int r = 0, status = 0;
	bool told;

	u->to = fd_close(u->to);
	told = read(u->tells, &r, sizeof(r)) == (ssize_t)sizeof(r);
	u->tells = fd_close(u->tells);
	while (waitpid(u->pid, &status, 0) < 0 && errno == EINTR)
		;
	if (!told)
		return err_set(e, ERR_POLICY, EPROTO,
			       "what came out of the sandbox ended the process that unpacked it");
	if (r == -EBADMSG)
		return err_set(e, ERR_POLICY, EBADMSG,
			       "what came out of the sandbox is no archive of folders and files "
			       "that stay below the folder");
	if (r == -EFBIG)
		return err_refuse(e, ERR_USAGE, EFBIG, "--limit SIZE raises it",
				  "what comes out is larger than the limit");
	if (r == -ENODATA)
		return err_set(e, ERR_UNAVAILABLE, ENODATA,
			       "what came out of the sandbox ends in the middle");
	return r < 0 ? err_errno(e, r, "cannot unpack what came out of the sandbox") : 0;
}
