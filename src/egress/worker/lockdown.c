/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/worker/lockdown.h"

#include <errno.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"

#define NOBODY 65534

#if defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#elif defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#else
#error "no system-call filter for this architecture"
#endif

/* What a loop of reads and writes with memory and time needs; nothing here takes a path. Memory may
 * not be made executable: see `guarded`. */
static const unsigned short common[] = {
	__NR_read,         __NR_write,          __NR_readv,        __NR_writev,
	__NR_recvfrom,     __NR_sendto,         __NR_recvmsg,      __NR_sendmsg,
	__NR_close,        __NR_munmap,         __NR_mremap,       __NR_brk,
	__NR_madvise,      __NR_futex,          __NR_getrandom,    __NR_clock_gettime,
	__NR_clock_getres, __NR_gettimeofday,   __NR_exit,         __NR_exit_group,
	__NR_rt_sigreturn, __NR_rt_sigprocmask, __NR_rt_sigaction, __NR_restart_syscall,
	__NR_getpid,       __NR_gettid,         __NR_sched_yield,  __NR_sigaltstack,
#if defined(__x86_64__)
	__NR_time,
#endif
};

/* The worker's own: its loop and its sockets. */
static const unsigned short worker[] = {
	__NR_epoll_ctl,   __NR_epoll_pwait, __NR_accept4,    __NR_connect,  __NR_getsockname,
	__NR_getpeername, __NR_getsockopt,  __NR_setsockopt, __NR_shutdown,
#if defined(__x86_64__)
	__NR_epoll_wait,
#endif
};

/* That of who stands before an ssh-agent: connections come to it, and it makes none. */
static const unsigned short signer[] = {
	__NR_epoll_ctl,
	__NR_epoll_pwait,
	__NR_accept4,
#if defined(__x86_64__)
	__NR_epoll_wait,
#endif
};

/* That of brig-tls: it accepts, and makes pairs to hand one end of on. */
static const unsigned short tls[] = {
	__NR_epoll_ctl,  __NR_epoll_pwait, __NR_accept4,
	__NR_setsockopt, __NR_socketpair,  __NR_shutdown,
#if defined(__x86_64__)
	__NR_epoll_wait,
#endif
};

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define RET(what) BPF_STMT(BPF_RET | BPF_K, (what))
#define REFUSE RET(SECCOMP_RET_ERRNO | EPERM)
#define ARG(n) offsetof(struct seccomp_data, args[n])

struct program {
	struct sock_filter insn[192];
	unsigned short n;
};

static void put(struct program *p, struct sock_filter f)
{
	p->insn[p->n++] = f;
}

static void allow(struct program *p, const unsigned short *calls, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		put(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i], 0, 1));
		put(p, (struct sock_filter)RET(SECCOMP_RET_ALLOW));
	}
}

/* Memory that is not executable. */
static void guarded(struct program *p, unsigned call)
{
	const struct sock_filter f[] = {
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 4),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARG(2)),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 4 /* PROT_EXEC */, 0, 1),
		REFUSE,
		RET(SECCOMP_RET_ALLOW),
	};

	for (size_t i = 0; i < ARRAY_LEN(f); i++)
		put(p, f[i]);
}

/* Signals to itself, as abort() sends them: without Landlock's scopes (ABI 6) the worker of an
 * ordinary user could end every process of that user. */
static void signals(struct program *p)
{
	const struct sock_filter f[] = {
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_tgkill, 0, 4),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARG(0)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)getpid(), 0, 1),
		RET(SECCOMP_RET_ALLOW),
		REFUSE,
	};

	for (size_t i = 0; i < ARRAY_LEN(f); i++)
		put(p, f[i]);
}

/* Sockets of the internet, streams and datagrams: no raw, netlink, packet or Unix ones. */
static void sockets(struct program *p)
{
	const struct sock_filter f[] = {
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_socket, 0, 9),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARG(0)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_INET, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_INET6, 0, 5),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARG(1)),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xf),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SOCK_STREAM, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SOCK_DGRAM, 0, 1),
		RET(SECCOMP_RET_ALLOW),
		REFUSE,
	};

	for (size_t i = 0; i < ARRAY_LEN(f); i++)
		put(p, f[i]);
}

static int filter(enum lockdown_role role, struct err *e)
{
	struct program p = { .n = 0 };
	struct sock_fprog prog;

	put(&p, (struct sock_filter)LOAD(arch));
	put(&p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0));
	put(&p, (struct sock_filter)RET(SECCOMP_RET_KILL_PROCESS));
	put(&p, (struct sock_filter)LOAD(nr));
	allow(&p, common, ARRAY_LEN(common));
	if (role == LOCKDOWN_WORKER)
		allow(&p, worker, ARRAY_LEN(worker));
	if (role == LOCKDOWN_SIGNER)
		allow(&p, signer, ARRAY_LEN(signer));
	if (role == LOCKDOWN_TLS)
		allow(&p, tls, ARRAY_LEN(tls));
	if (role == LOCKDOWN_WORKER)
		sockets(&p);
	signals(&p);
	guarded(&p, __NR_mmap);
	guarded(&p, __NR_mprotect);
	put(&p, (struct sock_filter)REFUSE);
	prog = (struct sock_fprog){ .len = p.n, .filter = p.insn };
	if (syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0)
		return err_sys(e, "cannot load the system-call filter of the door");
	return 0;
}

/* All rights on files, and no rule that gives any back. Newer than the headers of Debian 12: ports
 * (ABI 4) and scopes (ABI 6). */
static int landlock(struct err *e)
{
	static const uint64_t fs[] = { 0, 0x1fff, 0x3fff, 0x7fff, 0x7fff, 0xffff };
	const uint64_t bind_tcp = 1, scopes = 3;
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	struct {
		uint64_t fs, net, scoped;
	} attr = { 0 };
	CLEANUP(fd) int ruleset = -1;

	if (abi <= 0)
		return 0; /* a kernel without it: the filter takes no path anyway */
	attr.fs = fs[abi < (long)ARRAY_LEN(fs) ? abi : (long)ARRAY_LEN(fs) - 1];
	attr.net = abi >= 4 ? bind_tcp : 0;
	attr.scoped = abi >= 6 ? scopes : 0;
	ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr,
			       abi >= 6   ? sizeof(attr)
			       : abi >= 4 ? 2 * sizeof(uint64_t)
					  : sizeof(uint64_t),
			       0);
	if (ruleset < 0 || syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
		return err_sys(e, "cannot enter the Landlock domain of the door");
	return 0;
}

/* Started by root it is nobody from here on. */
static int drop(struct err *e)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { 0 };

	for (int cap = 0; geteuid() == 0 && cap < 64; cap++)
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
			break;
	if (geteuid() == 0 && (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
			       setresuid(NOBODY, NOBODY, NOBODY) < 0))
		return err_sys(e, "the door cannot become nobody");
	if (syscall(SYS_capset, &head, none) < 0)
		return err_sys(e, "the door cannot give up its capabilities");
	return 0;
}

static int limits(struct err *e)
{
	static const struct {
		int what;
		rlim_t most;
	} all[] = { { RLIMIT_CORE, 0 }, { RLIMIT_FSIZE, 0 }, { RLIMIT_NOFILE, LOCKDOWN_FILES } };

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		struct rlimit l;

		if (getrlimit((__rlimit_resource_t)all[i].what, &l) < 0)
			return err_sys(e, "cannot read a limit");
		if (l.rlim_max > all[i].most)
			l.rlim_max = all[i].most;
		l.rlim_cur = l.rlim_max;
		if (setrlimit((__rlimit_resource_t)all[i].what, &l) < 0)
			return err_sys(e, "cannot set a limit of the door");
	}
	return 0;
}

int lockdown_early(struct err *e)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return err_sys(e, "the door cannot protect itself");
	return 0;
}

int lockdown(enum lockdown_role role, struct err *e)
{
	if (limits(e) < 0 || drop(e) < 0)
		return -e->code;
	/* Changing ids cleared both. */
	if (lockdown_early(e) < 0)
		return -e->code;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(e, "cannot set no-new-privs");
	if (landlock(e) < 0)
		return -e->code;
	return filter(role, e);
}
