/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/confine_files.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/sanitized.h"

#define FILES_MAX 256
#define FS_ABI_1 ((LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1)

#if defined(__x86_64__)
#define OWN_ARCH AUDIT_ARCH_X86_64
#else
#define OWN_ARCH AUDIT_ARCH_AARCH64
#endif

/* All that reading and writing what is open takes; then memory; then making files, by descriptor.
 */
static const unsigned common[] = { SYS_read,       SYS_write, SYS_close,
				   SYS_exit_group, SYS_fcntl, SYS_rt_sigreturn };
static const unsigned memory[] = { SYS_brk,         SYS_mmap,     SYS_munmap, SYS_mremap,
				   SYS_madvise,     SYS_mprotect, SYS_futex,  SYS_sigaltstack,
				   SYS_sched_yield, SYS_getpid,   SYS_gettid };
static const unsigned files[] = {
	SYS_openat,    SYS_openat2, SYS_mkdirat,   SYS_unlinkat,   SYS_renameat,
	SYS_renameat2, SYS_fchmod,  SYS_getrandom, SYS_newfstatat, SYS_fstat,
};

struct files_filter {
	struct sock_filter code[64];
	unsigned short n;
};

static void put(struct files_filter *p, struct sock_filter f)
{
	p->code[p->n++] = f;
}

static void allow(struct files_filter *p, const unsigned *calls, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		put(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i], 0, 1));
		put(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
	}
}

static int filter(bool makes, bool allocates)
{
	struct files_filter p = { .n = 0 };
	struct sock_fprog prog;

	put(&p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
					     offsetof(struct seccomp_data, arch)));
	put(&p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OWN_ARCH, 1, 0));
	put(&p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
	put(&p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
					     offsetof(struct seccomp_data, nr)));
	allow(&p, common, ARRAY_LEN(common));
	if (allocates)
		allow(&p, memory, ARRAY_LEN(memory));
	if (makes)
		allow(&p, files, ARRAY_LEN(files));
	put(&p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
	prog = (struct sock_fprog){ .len = p.n, .filter = p.code };
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
	    (folder >= 0 &&
	     syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &below, 0) < 0) ||
	    syscall(SYS_landlock_restrict_self, rules, 0) < 0)
		return -errno;
	return 0;
}

int confine_files(int folder, bool allocates)
{
	const struct rlimit none = { 0, 0 }, open_files = { FILES_MAX, FILES_MAX };
	int r;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 ||
	    setrlimit(RLIMIT_CORE, &none) < 0 || setrlimit(RLIMIT_NPROC, &none) < 0 ||
	    setrlimit(RLIMIT_NOFILE, &open_files) < 0)
		return -errno;
	r = landlock(folder);
	/* The sanitizers ask for more on the way to _exit. */
	return r < 0 ? r : filter(folder >= 0, allocates || SANITIZED);
}
