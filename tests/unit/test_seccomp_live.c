/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_seccomp_live.c - the filter in this kernel: real calls, each in a child of its own.
 *
 * Every call is first made without the filter, as a control: an answer that would have come anyway
 * proves nothing. All calls have arguments that let them do nothing even if they got through. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "backend/kit/seccomp/seccomp.h"

/* Newer than the headers of the oldest release we build on. */
#define NR_fchmodat2 452
#define NR_statmount 457
#define NR_open_tree_attr 467
#define NR_listns 470

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define HIGH 0x7700000000L
#define ABSENT ((long)(intptr_t) "/nonexistent/brig")

enum { UNFILTERED = -1, AFFINITY = 0x10, DIED = 1000, LIMIT_SECONDS = 20 };

typedef int attempt_fn(const void *context);

static void confine(int how)
{
	if (how == UNFILTERED)
		return;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
	    seccomp_install((enum seccomp_profile)(how & ~AFFINITY), how & AFFINITY) != 0)
		_exit(255);
}

/* What the attempt gave in a fresh child: 0, an errno, or DIED plus a signal. */
static int outcome(int how, attempt_fn *attempt, const void *context)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		(void)alarm(LIMIT_SECONDS);
		confine(how);
		_exit(attempt(context));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFSIGNALED(status))
		return DIED + WTERMSIG(status);
	assert_int_not_equal(WEXITSTATUS(status), 255);
	return WEXITSTATUS(status);
}

struct call {
	const char *name;
	long nr, a[5];
};

static int make_call(const void *context)
{
	const struct call *c = context;

	return syscall(c->nr, c->a[0], c->a[1], c->a[2], c->a[3], c->a[4]) < 0 ? errno : 0;
}

/* Without privilege some controls give EPERM by themselves; under a filter of somebody else, such
 * as a container's, any of them may. */
static bool privileged(void)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct d[2] = { { 0 } };

	return syscall(SYS_capget, &h, d) == 0 && (d[0].effective & (1U << CAP_SYS_ADMIN)) != 0 &&
	       (d[0].effective & (1U << CAP_SYS_BOOT)) != 0;
}

static void expect(int how, const struct call *c, int want)
{
	int got = outcome(how, make_call, c);

	if (got != want)
		fail_msg("%s, filter %d: got %d (%s), expected %d", c->name, how, got,
			 strerror(got), want);
}

static void expect_refused(const struct call *c, int want, bool control_needs_privilege)
{
	int control = outcome(UNFILTERED, make_call, c);
	bool telling = prctl(PR_GET_SECCOMP) == 0 && (!control_needs_privilege || privileged());

	if (control == want && (want == ENOSYS || !telling))
		print_message("note: %s gives %d without the filter as well\n", c->name, want);
	else
		assert_int_not_equal(control, want);
	for (int p = 0; p < SECCOMP_PROFILES; p++)
		expect(p, c, want);
}

static void kernel_interfaces_are_refused(void **state)
{
	static const struct call calls[] = {
		{ "keyctl", SYS_keyctl, { 0, -3, 0 } },
		{ "add_key", SYS_add_key, { 0 } },
		{ "request_key", SYS_request_key, { 0 } },
		{ "perf_event_open", SYS_perf_event_open, { 0, -1, -1, -1, 0 } },
		{ "userfaultfd", SYS_userfaultfd, { 1 } },
		{ "unshare", SYS_unshare, { 0 } },
		{ "setns", SYS_setns, { -1, 0 } },
		{ "pidfd_getfd", SYS_pidfd_getfd, { -1, -1, 0 } },
		{ "name_to_handle_at", SYS_name_to_handle_at, { AT_FDCWD, ABSENT, 0, 0, 0 } },
		{ "vmsplice", SYS_vmsplice, { -1, 0, 0, 0 } },
		{ "adjtimex", SYS_adjtimex, { 0 } },
		{ "sethostname", SYS_sethostname, { 0, -1 } },
		{ "fanotify_mark", SYS_fanotify_mark, { -1, 0, 0, -1, 0 } },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(calls); i++)
		expect_refused(&calls[i], EPERM, strcmp(calls[i].name, "sethostname") == 0);
}

static void privileged_calls_are_refused_by_the_filter_too(void **state)
{
	static const struct call calls[] = {
		{ "bpf", SYS_bpf, { 0, 0, 0 } },
		{ "mount", SYS_mount, { 0, 0, 0, 0, 0 } },
		{ "umount2", SYS_umount2, { ABSENT, 0 } },
		{ "pivot_root", SYS_pivot_root, { ABSENT, ABSENT } },
		{ "chroot", SYS_chroot, { ABSENT } },
		{ "fsopen", SYS_fsopen, { 0, 0 } },
		{ "fsconfig", SYS_fsconfig, { -1, 0, 0, 0, 0 } },
		{ "fspick", SYS_fspick, { AT_FDCWD, ABSENT, 0 } },
		{ "open_tree", SYS_open_tree, { AT_FDCWD, ABSENT, 1 } },
		{ "open_tree_attr", NR_open_tree_attr, { AT_FDCWD, ABSENT, 1, 0, 0 } },
		{ "move_mount", SYS_move_mount, { -1, ABSENT, -1, ABSENT, 0 } },
		{ "mount_setattr", SYS_mount_setattr, { AT_FDCWD, ABSENT, 0, 0, 0 } },
		{ "open_by_handle_at", SYS_open_by_handle_at, { -1, 0, 0 } },
		{ "swapon", SYS_swapon, { ABSENT, 0 } },
		{ "swapoff", SYS_swapoff, { ABSENT } },
		{ "reboot", SYS_reboot, { 0, 0, 0, 0 } },
		{ "settimeofday", SYS_settimeofday, { 1, 1 } },
		{ "clock_settime", SYS_clock_settime, { 0, 0 } },
		{ "clock_adjtime", SYS_clock_adjtime, { 0, 0 } },
		{ "acct", SYS_acct, { ABSENT } },
		{ "quotactl", SYS_quotactl, { -1, 0, 0, 0 } },
		{ "syslog", SYS_syslog, { -1, 0, 0 } },
		{ "init_module", SYS_init_module, { 0, 0, 0 } },
		{ "finit_module", SYS_finit_module, { -1, 0, 0 } },
		{ "delete_module", SYS_delete_module, { 0, 0 } },
		{ "kexec_load", SYS_kexec_load, { 0, 0, 0, -1 } },
		{ "fanotify_init", SYS_fanotify_init, { -1, 0 } },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(calls); i++)
		expect_refused(&calls[i], EPERM, true);
}

static void calls_with_a_fallback_do_not_exist(void **state)
{
	static const struct call calls[] = {
		{ "io_uring_setup", SYS_io_uring_setup, { 1, 0 } },
		{ "io_uring_enter", SYS_io_uring_enter, { -1, 0, 0, 0, 0 } },
		{ "io_uring_register", SYS_io_uring_register, { -1, 0, 0, 0 } },
		{ "clone3", SYS_clone3, { 0, 0 } },
		{ "openat2", SYS_openat2, { -1, 0, 0, 0 } },
		{ "memfd_secret", 447, { -1 } },
		{ "statmount", NR_statmount, { 0, 0, 0, -1 } },
		{ "listns", NR_listns, { 0, 0, 0, -1 } },
		{ "set_mempolicy", SYS_set_mempolicy, { 0, 0, 0 } },
		{ "number 600", 600, { 0 } },
		{ "number 10000", 10000, { 0 } },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(calls); i++)
		expect_refused(&calls[i], ENOSYS, false);
}

/* CLONE_SIGHAND without CLONE_VM is invalid: the control makes no process. */
static void clone_makes_no_namespace(void **state)
{
	static const long flags[] = { CLONE_NEWNS,   CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC,
				      CLONE_NEWUSER, CLONE_NEWPID,    CLONE_NEWNET };
	const struct call plain = { "clone", SYS_clone, { CLONE_SIGHAND | SIGCHLD } };

	(void)state;
	for (size_t i = 0; i < COUNT(flags); i++) {
		struct call c = plain;

		c.a[0] |= flags[i];
		expect_refused(&c, EPERM, false);
		c.a[0] |= HIGH;
		expect_refused(&c, EPERM, false);
	}
	for (int p = 0; p < SECCOMP_PROFILES; p++)
		expect(p, &plain, EINVAL);
}

static void terminal_injection_is_refused_whatever_the_high_bits(void **state)
{
	static const long requests[] = { 0x5412, 0x541c, 0x541d, 0x5423 };
	struct call c = { "ioctl", SYS_ioctl, { -1 } };

	(void)state;
	for (size_t i = 0; i < COUNT(requests); i++) {
		c.a[1] = requests[i];
		expect_refused(&c, EPERM, false);
		c.a[1] |= 0x100000000;
		expect_refused(&c, EPERM, false);
	}
	c.a[1] = 0x5413;
	for (int p = 0; p < SECCOMP_PROFILES; p++)
		expect(p, &c, EBADF);
}

static void no_file_system_is_asked_for_a_second_view(void **state)
{
	/* snapshots and subvolumes of btrfs, old and new; one of bcachefs; fscrypt: policy, keys */
	static const long refused[] = {
		0x50009401, 0x50009417, 0x5000940e, 0x50009418, 0x4008941a,
		0x4020bc10, 0x800c6613, 0xc0506617, 0xc0406618, 0xc0406619
	};
	static const long allowed[] = { 0x40049409, 0x4020940d, 0xc0189436, 0x40086602 };
	struct call c = { "ioctl", SYS_ioctl, { -1 } };

	(void)state;
	for (size_t i = 0; i < COUNT(refused); i++) {
		c.a[1] = refused[i];
		expect_refused(&c, EPERM, false);
		c.a[1] |= 0x100000000;
		expect_refused(&c, EPERM, false);
	}
	for (size_t i = 0; i < COUNT(allowed); i++)
		for (int p = 0; p < SECCOMP_PROFILES; p++) {
			c.a[1] = allowed[i];
			expect(p, &c, EBADF);
		}
}

static void set_id_modes_are_refused(void **state)
{
	static const struct call refused[] = {
		{ "fchmod", SYS_fchmod, { -1, 04755 } },
		{ "fchmod", SYS_fchmod, { -1, HIGH | 02755 } },
		{ "fchmodat", SYS_fchmodat, { AT_FDCWD, ABSENT, 04755 } },
		{ "fchmodat2", NR_fchmodat2, { AT_FDCWD, ABSENT, 04755, 0 } },
		{ "openat", SYS_openat, { AT_FDCWD, ABSENT, O_CREAT | O_WRONLY, 04755 } },
		{ "openat", SYS_openat, { AT_FDCWD, ABSENT, HIGH | O_CREAT, HIGH | 02755 } },
		{ "openat", SYS_openat, { AT_FDCWD, ABSENT, O_TMPFILE | O_RDWR, 02755 } },
		{ "mknodat", SYS_mknodat, { AT_FDCWD, ABSENT, S_IFREG | 04755, 0 } },
		{ "mknodat", SYS_mknodat, { AT_FDCWD, ABSENT, S_IFCHR | 0666, 0 } },
		{ "mknodat", SYS_mknodat, { AT_FDCWD, ABSENT, HIGH | S_IFBLK | 0666, 0 } },
#ifdef SYS_chmod
		{ "chmod", SYS_chmod, { ABSENT, 04755 } },
		{ "open", SYS_open, { ABSENT, O_CREAT | O_WRONLY, 04755 } },
		{ "creat", SYS_creat, { ABSENT, 02755 } },
		{ "mknod", SYS_mknod, { ABSENT, S_IFREG | 02755, 0 } },
#endif
	};
	static const struct call fine[] = {
		{ "fchmodat", SYS_fchmodat, { AT_FDCWD, ABSENT, 01777 } },
		{ "openat", SYS_openat, { AT_FDCWD, ABSENT, O_CREAT | O_WRONLY, 0644 } },
		{ "openat", SYS_openat, { AT_FDCWD, ABSENT, O_RDONLY, 06777 } },
		{ "mknodat", SYS_mknodat, { AT_FDCWD, ABSENT, S_IFIFO | 0644, 0 } },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(refused); i++)
		expect_refused(&refused[i], EPERM, false);
	for (size_t i = 0; i < COUNT(fine); i++)
		for (int p = 0; p < SECCOMP_PROFILES; p++)
			expect(p, &fine[i], ENOENT);
}

static int make_setuid_memfd(const void *context)
{
	int fd = memfd_create("brig", 0);

	(void)context;
	if (fd < 0 || fchmod(fd, 0755) != 0)
		return 254;
	return fchmod(fd, 04755) != 0 ? errno : 0;
}

static void a_real_file_keeps_its_plain_mode(void **state)
{
	(void)state;
	assert_int_equal(outcome(UNFILTERED, make_setuid_memfd, NULL), 0);
	for (int p = 0; p < SECCOMP_PROFILES; p++)
		assert_int_equal(outcome(p, make_setuid_memfd, NULL), EPERM);
}

static int socket_result(int how, long family, long type, long protocol)
{
	struct call c = { "socket", SYS_socket, { family, type, protocol } };

	return outcome(how, make_call, &c);
}

static void only_four_socket_families_exist(void **state)
{
	int offered = 0;

	(void)state;
	for (long family = 0; family <= 45; family++) {
		int control = socket_result(UNFILTERED, family, SOCK_DGRAM, 0);
		bool always = family == AF_UNIX || family == AF_INET || family == AF_INET6;

		offered += control != EAFNOSUPPORT;
		for (int p = 0; p < SECCOMP_PROFILES; p++) {
			bool open = always || (family == AF_NETLINK && p != SECCOMP_STRICT);

			assert_int_equal(socket_result(p, family, SOCK_DGRAM, 0),
					 open ? control : EAFNOSUPPORT);
			assert_int_equal(socket_result(p, HIGH | family, SOCK_DGRAM, 0),
					 open ? control : EAFNOSUPPORT);
		}
	}
	print_message("this kernel offers %d families without the filter\n", offered);
	assert_true(offered >= 3);
}

static void internet_sockets_are_tcp_or_udp(void **state)
{
	static const struct {
		long family, type, protocol;
	} refused[] = {
		{ AF_INET, SOCK_STREAM, 262 /* MPTCP */ },
		{ AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, HIGH | 262 },
		{ AF_INET, SOCK_STREAM, 132 /* SCTP */ },
		{ AF_INET, SOCK_SEQPACKET, 132 },
		{ AF_INET, SOCK_RAW, 1 },
		{ AF_INET6, SOCK_RAW, 255 },
		{ AF_INET, SOCK_DGRAM, 1 /* ICMP */ },
		{ AF_INET, SOCK_DGRAM, 136 /* UDP-Lite */ },
		{ AF_INET, SOCK_PACKET, 0x300 },
	};

	int present = 0;

	(void)state;
	for (size_t i = 0; i < COUNT(refused); i++) {
		long family = refused[i].family, type = refused[i].type;

		present += socket_result(UNFILTERED, family, type, refused[i].protocol) == 0;
		for (int p = 0; p < SECCOMP_PROFILES; p++)
			assert_int_equal(socket_result(p, family, type, refused[i].protocol),
					 EPROTONOSUPPORT);
	}
	print_message("this kernel grants %d of them without the filter\n", present);
	for (int p = 0; p < SECCOMP_PROFILES; p++) {
		assert_int_equal(socket_result(p, AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 6), 0);
		assert_int_equal(socket_result(p, AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 17), 0);
		assert_int_equal(socket_result(p, AF_UNIX, SOCK_SEQPACKET, 0), 0);
	}
}

static void netlink_is_route_only(void **state)
{
	int control = socket_result(UNFILTERED, AF_NETLINK, SOCK_RAW, 0);

	(void)state;
	assert_int_equal(socket_result(SECCOMP_DEFAULT, AF_NETLINK, SOCK_RAW, 0), control);
	assert_int_equal(socket_result(SECCOMP_STRICT, AF_NETLINK, SOCK_RAW, 0), EAFNOSUPPORT);
	for (long protocol = 1; protocol < 32; protocol++)
		assert_int_equal(socket_result(SECCOMP_DEFAULT, AF_NETLINK, SOCK_RAW, protocol),
				 EPROTONOSUPPORT);
}

static void personality_and_prctl_are_limited(void **state)
{
	static const struct call refused[] = {
		{ "UNAME26", SYS_personality, { 0x20000 } },
		{ "UNAME26, high bits", SYS_personality, { HIGH | 0x20000 } },
		{ "UNAME26 beside another", SYS_personality, { 0x420000 } },
		{ "PR_SET_MM", SYS_prctl, { HIGH | 35, -1, 0, 0, 1 } },
		{ "PR_SET_SPECULATION_CTRL", SYS_prctl, { 53, 99, 2, 0, 0 } },
	};
	static const struct call fine[] = {
		{ "personality query", SYS_personality, { 0xffffffff } },
		{ "PR_SET_DUMPABLE", SYS_prctl, { PR_SET_DUMPABLE, 1, 0, 0, 0 } },
		{ "PR_SET_PDEATHSIG", SYS_prctl, { PR_SET_PDEATHSIG, 0, 0, 0, 0 } },
		{ "PR_SET_CHILD_SUBREAPER", SYS_prctl, { PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0 } },
	};
	const struct call plain_filter = { "seccomp", SYS_seccomp, { 1, 0, 0 } };
	const struct call listener = { "notify listener", SYS_seccomp, { 1, 8, 0 } };
	static const struct call own[] = {
		{ "ADDR_NO_RANDOMIZE", SYS_personality, { 0x40000 } },
		{ "READ_IMPLIES_EXEC", SYS_personality, { 0x400000 } },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(refused); i++)
		expect_refused(&refused[i], EPERM, refused[i].a[1] == -1);
	for (size_t i = 0; i < COUNT(fine); i++)
		for (int p = 0; p < SECCOMP_PROFILES; p++)
			expect(p, &fine[i], 0);
	for (int p = 0; p < SECCOMP_PROFILES; p++) {
		expect(p, &plain_filter, p == SECCOMP_DEBUG ? EFAULT : EINVAL);
		expect(p, &listener, p == SECCOMP_DEBUG ? EPERM : EINVAL);
	}
	for (size_t i = 0; i < COUNT(own); i++) {
		expect(UNFILTERED, &own[i], 0);
		expect(SECCOMP_STRICT, &own[i], EPERM);
		expect(SECCOMP_DEFAULT, &own[i], 0);
		expect(SECCOMP_DEBUG, &own[i], 0);
	}
}

enum { BY_PRLIMIT, BY_SETRLIMIT, AND_ASK };

/* Lowers the soft core limit by one of three ways; tells the errno, or 100 if it had no effect. */
static int lower_core_limit(const void *how)
{
	struct rlimit before, wanted, after;
	long r;

	if (getrlimit(RLIMIT_CORE, &before) != 0)
		return 254;
	wanted = before;
	wanted.rlim_cur = before.rlim_cur == 0 ? before.rlim_max : 0;
	if (*(const int *)how == BY_SETRLIMIT)
		r = syscall(SYS_setrlimit, RLIMIT_CORE, &wanted);
	else
		r = syscall(SYS_prlimit64, 0, RLIMIT_CORE, &wanted,
			    *(const int *)how == AND_ASK ? &before : NULL);
	if (r < 0)
		return errno;
	if (getrlimit(RLIMIT_CORE, &after) != 0)
		return 254;
	return after.rlim_cur == wanted.rlim_cur ? 0 : 100;
}

static void the_core_limit_stays_though_setting_it_seems_to_work(void **state)
{
	static const struct {
		int how, want;
	} ways[] = { { BY_PRLIMIT, 100 }, { BY_SETRLIMIT, 100 }, { AND_ASK, EPERM } };
	struct rlimit limit;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_CORE, &limit), 0);
	if (limit.rlim_max == 0) {
		print_message("note: the core limit is 0 for good here\n");
		return;
	}
	for (size_t i = 0; i < COUNT(ways); i++) {
		assert_int_equal(outcome(UNFILTERED, lower_core_limit, &ways[i].how), 0);
		for (int p = 0; p < SECCOMP_PROFILES; p++)
			assert_int_equal(outcome(p, lower_core_limit, &ways[i].how), ways[i].want);
	}
}

static void other_limits_can_be_set(void **state)
{
	static struct rlimit limit;
	const long at = (long)(intptr_t)&limit;
	struct call set = { "prlimit64", SYS_prlimit64, { 0, RLIMIT_NOFILE, at, 0 } };
	struct call old_set = { "setrlimit", SYS_setrlimit, { RLIMIT_NOFILE, at } };

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	for (int p = 0; p < SECCOMP_PROFILES; p++) {
		expect(p, &set, 0);
		expect(p, &old_set, 0);
	}
}

static void debugging_depends_on_the_profile(void **state)
{
	const struct call ptrace_call = { "ptrace", SYS_ptrace, { 7 /* CONT */, -1, 0, 0 } };
	const struct call readv = { "process_vm_readv", SYS_process_vm_readv, { -1, 0, 0, 0, 0 } };
	const struct call kcmp = { "kcmp", SYS_kcmp, { -1, -1, 0, 0, 0 } };
	int control = outcome(UNFILTERED, make_call, &readv);

	(void)state;
	expect(UNFILTERED, &ptrace_call, ESRCH);
	expect(SECCOMP_STRICT, &ptrace_call, EPERM);
	expect(SECCOMP_DEFAULT, &ptrace_call, ESRCH);
	expect(SECCOMP_DEBUG, &ptrace_call, ESRCH);
	expect(SECCOMP_STRICT, &readv, EPERM);
	expect(SECCOMP_DEFAULT, &readv, control);
	expect(SECCOMP_STRICT, &kcmp, EPERM);
	expect(SECCOMP_DEFAULT, &kcmp, EPERM);
	expect(SECCOMP_DEBUG, &kcmp, outcome(UNFILTERED, make_call, &kcmp));
}

static void affinity_is_refused_only_when_asked(void **state)
{
	static cpu_set_t set;
	const long at = (long)(intptr_t)&set;
	struct call put = { "sched_setaffinity", SYS_sched_setaffinity, { 0, sizeof(set), at } };
	struct call get = { "sched_getaffinity", SYS_sched_getaffinity, { 0, sizeof(set), at } };
	struct call core = { "unshare", SYS_unshare, { 0 } };

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(set), &set), 0);
	for (int p = 0; p < SECCOMP_PROFILES; p++) {
		expect(p, &put, 0);
		expect(p | AFFINITY, &put, EPERM);
		expect(p | AFFINITY, &get, 0);
		expect(p | AFFINITY, &core, EPERM);
	}
}

static void *in_thread(void *arg)
{
	return arg;
}

static int start_things(const void *context)
{
	char *const argv[] = { (char *)"true", NULL };
	pthread_t thread;
	int status;
	pid_t pid;

	(void)context;
	if (pthread_create(&thread, NULL, in_thread, NULL) != 0 || pthread_join(thread, NULL) != 0)
		return 1;
	pid = fork();
	if (pid == 0) {
		execv("/bin/true", argv);
		_exit(127);
	}
	return pid < 0 || waitpid(pid, &status, 0) != pid || status != 0;
}

static void threads_and_programs_still_start(void **state)
{
	(void)state;
	for (int p = 0; p < SECCOMP_PROFILES; p++) {
		assert_int_equal(outcome(p, start_things, NULL), 0);
		assert_int_equal(outcome(p | AFFINITY, start_things, NULL), 0);
	}
}

#ifdef __x86_64__
static int call_as_i386(const void *context)
{
	long r;

	(void)context;
	__asm__ volatile("int $0x80" : "=a"(r) : "a"(20L /* getpid */) : "memory");
	return r < 0;
}

static void i386_calls_kill_and_x32_calls_do_not_exist(void **state)
{
	const struct call x32 = { "x32 getpid", 0x40000000 | SYS_getpid, { 0 } };

	(void)state;
	if (outcome(UNFILTERED, call_as_i386, NULL) != 0)
		print_message("note: no i386 emulation in this kernel\n");
	else
		for (int p = 0; p < SECCOMP_PROFILES; p++)
			assert_int_equal(outcome(p, call_as_i386, NULL), DIED + SIGSYS);
	for (int p = 0; p < SECCOMP_PROFILES; p++)
		expect(p, &x32, ENOSYS);
}
#endif

static int install_badly(const void *context)
{
	(void)context;
	return -seccomp_install(SECCOMP_PROFILES, false);
}

static int install_without_no_new_privs(const void *context)
{
	(void)context;
	return -seccomp_install(SECCOMP_DEFAULT, false);
}

static void installing_reports_its_errors(void **state)
{
	(void)state;
	assert_int_equal(outcome(UNFILTERED, install_badly, NULL), EINVAL);
	if (!privileged() && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0)
		assert_int_equal(outcome(UNFILTERED, install_without_no_new_privs, NULL), EACCES);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(kernel_interfaces_are_refused),
	cmocka_unit_test(privileged_calls_are_refused_by_the_filter_too),
	cmocka_unit_test(calls_with_a_fallback_do_not_exist),
	cmocka_unit_test(clone_makes_no_namespace),
	cmocka_unit_test(terminal_injection_is_refused_whatever_the_high_bits),
	cmocka_unit_test(no_file_system_is_asked_for_a_second_view),
	cmocka_unit_test(set_id_modes_are_refused),
	cmocka_unit_test(a_real_file_keeps_its_plain_mode),
	cmocka_unit_test(only_four_socket_families_exist),
	cmocka_unit_test(internet_sockets_are_tcp_or_udp),
	cmocka_unit_test(netlink_is_route_only),
	cmocka_unit_test(personality_and_prctl_are_limited),
	cmocka_unit_test(the_core_limit_stays_though_setting_it_seems_to_work),
	cmocka_unit_test(other_limits_can_be_set),
	cmocka_unit_test(debugging_depends_on_the_profile),
	cmocka_unit_test(affinity_is_refused_only_when_asked),
	cmocka_unit_test(threads_and_programs_still_start),
#ifdef __x86_64__
	cmocka_unit_test(i386_calls_kill_and_x32_calls_do_not_exist),
#endif
	cmocka_unit_test(installing_reports_its_errors),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
