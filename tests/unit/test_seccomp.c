/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_seccomp.c - the compiled filters of both architectures, run in a BPF interpreter.
 *
 * Twice over: against the table, call by call, which proves the compiler; and against expectations
 * written out by hand, which proves the table. Numbers are compared with libseccomp's. */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/kit/seccomp/seccomp_table.h"

#define seccomp_strict aarch64_strict
#define seccomp_default aarch64_default
#define seccomp_debug aarch64_debug
#include "seccomp_filter_aarch64.inc"
#undef seccomp_strict
#undef seccomp_default
#undef seccomp_debug
#define seccomp_strict x86_64_strict
#define seccomp_default x86_64_default
#define seccomp_debug x86_64_debug
#include "seccomp_filter_x86_64.inc"

#define PROGRAM(array)                                                                             \
	{                                                                                          \
		array, sizeof(array) / sizeof((array)[0])                                          \
	}
#define ERRNO(e) (SECCOMP_RET_ERRNO | (e))
#define JUNK 0xdeadbeef00000000ULL

enum { BROKEN = 0x00bad000, MAX_LEN = 350 };

static const struct program {
	const struct sock_filter *insn;
	unsigned int len;
} programs[FILTER_ARCHES][SECCOMP_PROFILES] = {
	{ PROGRAM(aarch64_strict), PROGRAM(aarch64_default), PROGRAM(aarch64_debug) },
	{ PROGRAM(x86_64_strict), PROGRAM(x86_64_default), PROGRAM(x86_64_debug) },
};

static const uint32_t audit[] = { AUDIT_ARCH_AARCH64, AUDIT_ARCH_X86_64 };
static const uint32_t scmp[] = { SCMP_ARCH_AARCH64, SCMP_ARCH_X86_64 };

static const uint32_t answers[ARG_SOCKET] = {
	[V_ENOSYS] = ERRNO(ENOSYS),
	[V_EPERM] = ERRNO(EPERM),
	[V_EINVAL] = ERRNO(EINVAL),
	[V_EAFNOSUPPORT] = ERRNO(EAFNOSUPPORT),
	[V_EPROTONOSUPPORT] = ERRNO(EPROTONOSUPPORT),
	[V_KILL] = SECCOMP_RET_KILL_PROCESS,
	[V_PRETEND] = ERRNO(0),
	[V_ALLOW] = SECCOMP_RET_ALLOW,
};

/* Takes only what the kernel's own forecast of constant answers takes as well (its cache of allowed
 * calls relies on it); anything else, or a jump out of the program, is BROKEN. */
static uint32_t interpret(const struct program *prog, const struct seccomp_data *d)
{
	uint32_t a = 0;

	for (unsigned int pc = 0; pc < prog->len; pc++) {
		const struct sock_filter *i = &prog->insn[pc];
		bool yes;

		switch (i->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			if (i->k % 4 || i->k >= sizeof(*d))
				return BROKEN;
			memcpy(&a, (const char *)d + i->k, sizeof(a));
			continue;
		case BPF_ALU | BPF_AND | BPF_K:
			a &= i->k;
			continue;
		case BPF_RET | BPF_K:
			return i->k;
		case BPF_JMP | BPF_JA:
			pc += i->k;
			continue;
		case BPF_JMP | BPF_JEQ | BPF_K:
			yes = a == i->k;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			yes = a >= i->k;
			break;
		case BPF_JMP | BPF_JSET | BPF_K:
			yes = a & i->k;
			break;
		default:
			return BROKEN;
		}
		pc += yes ? i->jt : i->jf;
	}
	return BROKEN;
}

static uint32_t run(int arch, int profile, uint32_t nr, const uint64_t args[6])
{
	struct seccomp_data d = { .nr = (int)nr, .arch = audit[arch] };

	memcpy(d.args, args, sizeof(d.args));
	return interpret(&programs[arch][profile], &d);
}

static bool matches(const struct match *m, const uint64_t args[6])
{
	uint32_t word = (uint32_t)(args[m->word / 2] >> (m->word % 2 ? 32 : 0)) & m->mask;

	if (m->bits)
		return word != 0;
	for (int i = 0; i < m->values; i++)
		if (word == m->value[i])
			return true;
	return m->values == 0;
}

static uint32_t by_table(enum verdict v, int profile, const uint64_t args[6])
{
	if (v < ARG_SOCKET)
		return answers[v];
	for (const struct clause *c = arg_rules[v];; c++) {
		if (c->profiles && !(c->profiles & PROFILE(profile)))
			continue;
		if (matches(&c->when[0], args) && matches(&c->when[1], args) &&
		    matches(&c->when[2], args))
			return answers[c->then];
	}
}

static const struct syscall_rule *find(int arch, int nr)
{
	for (size_t i = 0; i < SYSCALL_RULES; i++)
		if (syscall_rules[i].nr[arch] == nr)
			return &syscall_rules[i];
	return NULL;
}

static int number(int arch, const char *name)
{
	for (size_t i = 0; i < SYSCALL_RULES; i++)
		if (strcmp(syscall_rules[i].name, name) == 0)
			return syscall_rules[i].nr[arch];
	fail_msg("no row '%s'", name);
	return NONE;
}

/* Values at and around every border of the argument rules. */
static uint64_t some_value(unsigned int *seed)
{
	static const uint32_t pool[] = {
		0,          1,          2,          3,          4,          5,          6,
		8,          9,          10,         16,         17,         35,         38,
		40,         53,         58,         132,        262,        0x7f,       0x80,
		0x100,      0400,       0755,       02000,      04000,      04755,      06000,
		0100644,    0020666,    0060666,    0010644,    0140777,    0x40,       0x400000,
		0x410000,   0x20000,    0x20008,    0x40000,    0x400000,   0x800,      0x80000,
		0x80801,    0x80802,    0x5411,     0x5412,     0x5413,     0x541c,     0x541d,
		0x5423,     0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000,
		0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff,
	};
	uint64_t v = pool[(unsigned int)rand_r(seed) % (sizeof(pool) / sizeof(pool[0]))];

	switch (rand_r(seed) % 8) {
	case 0:
		return v | (uint64_t)rand_r(seed) << 32;
	case 1:
		return (uint64_t)rand_r(seed);
	case 2:
		return v ^ (1ULL << rand_r(seed) % 64);
	default:
		return v;
	}
}

static void compare_with_row(int arch, int p, const struct syscall_rule *s)
{
	int rounds = s->verdict[p] < ARG_SOCKET ? 20 : 2000;
	unsigned int seed = 1;

	while (rounds-- > 0) {
		uint64_t a[6];

		for (int k = 0; k < 6; k++)
			a[k] = some_value(&seed);
		if (run(arch, p, (uint32_t)s->nr[arch], a) != by_table(s->verdict[p], p, a))
			fail_msg("%s(%jx, %jx, %jx, %jx), arch %d, profile %d", s->name,
				 (uintmax_t)a[0], (uintmax_t)a[1], (uintmax_t)a[2], (uintmax_t)a[3],
				 arch, p);
	}
}

static void every_listed_call_gets_the_verdict_of_its_row(void **state)
{
	(void)state;
	for (int arch = 0; arch < FILTER_ARCHES; arch++)
		for (int p = 0; p < SECCOMP_PROFILES; p++)
			for (size_t i = 0; i < SYSCALL_RULES; i++)
				if (syscall_rules[i].nr[arch] != NONE)
					compare_with_row(arch, p, &syscall_rules[i]);
}

static void an_unlisted_number_does_not_exist(void **state)
{
	static const uint32_t far[] = { 10000, 0x3fffffff, 0x80000000, 0xfffffffe, 0xffffffff };
	const uint64_t none[6] = { 0 };

	(void)state;
	for (int arch = 0; arch < FILTER_ARCHES; arch++)
		for (int p = 0; p < SECCOMP_PROFILES; p++) {
			for (int nr = 0; nr < 2000; nr++)
				if (!find(arch, nr))
					assert_int_equal(run(arch, p, (uint32_t)nr, none),
							 ERRNO(ENOSYS));
			for (size_t i = 0; i < sizeof(far) / sizeof(far[0]); i++)
				assert_int_equal(run(arch, p, far[i], none), ERRNO(ENOSYS));
		}
}

static void x32_numbers_do_not_exist(void **state)
{
	const uint64_t none[6] = { 0 };

	(void)state;
	for (int p = 0; p < SECCOMP_PROFILES; p++)
		for (uint32_t nr = 0; nr < 1000; nr++)
			assert_int_equal(run(FILTER_X86_64, p, 0x40000000 | nr, none),
					 ERRNO(ENOSYS));
}

static void a_foreign_architecture_is_killed(void **state)
{
	static const uint32_t foreign[] = {
		AUDIT_ARCH_I386, AUDIT_ARCH_ARM, AUDIT_ARCH_ARMEB, AUDIT_ARCH_RISCV64, 0, 0xffffffff
	};

	(void)state;
	for (int arch = 0; arch < FILTER_ARCHES; arch++)
		for (int p = 0; p < SECCOMP_PROFILES; p++)
			for (int nr = 0; nr < 600; nr++) {
				struct seccomp_data d = { .nr = nr, .arch = audit[!arch] };

				assert_int_equal(interpret(&programs[arch][p], &d),
						 SECCOMP_RET_KILL_PROCESS);
				for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++) {
					d.arch = foreign[i];
					assert_int_equal(interpret(&programs[arch][p], &d),
							 SECCOMP_RET_KILL_PROCESS);
				}
			}
}

static void numbers_agree_with_libseccomp(void **state)
{
	int compared = 0;

	(void)state;
	for (int arch = 0; arch < FILTER_ARCHES; arch++)
		for (size_t i = 0; i < SYSCALL_RULES; i++) {
			const struct syscall_rule *s = &syscall_rules[i];
			int nr = seccomp_syscall_resolve_name_arch(scmp[arch], s->name);

			if (nr == __NR_SCMP_ERROR) /* newer than the library */
				continue;
			compared++;
			if (s->nr[arch] != (nr < 0 ? NONE : nr))
				fail_msg("%s is %d, not %d", s->name, nr, s->nr[arch]);
		}
	assert_true(compared > 600);
}

/* Those that libseccomp 2.5.4 has not heard of. From 403 on all architectures count alike. */
static void numbers_newer_than_libseccomp_are_right(void **state)
{
	static const char *const from_457[] = {
		"statmount",        "listmount",     "lsm_get_self_attr", "lsm_set_self_attr",
		"lsm_list_modules", "mseal",         "setxattrat",        "getxattrat",
		"listxattrat",      "removexattrat", "open_tree_attr",    "file_getattr",
		"file_setattr",     "listns",        "rseq_slice_yield",
	};

	(void)state;
	for (int arch = 0; arch < FILTER_ARCHES; arch++) {
		for (size_t i = 0; i < sizeof(from_457) / sizeof(from_457[0]); i++)
			assert_int_equal(number(arch, from_457[i]), 457 + i);
		for (size_t i = 0; i < SYSCALL_RULES; i++)
			if (syscall_rules[i].nr[arch] >= 403)
				assert_int_equal(syscall_rules[i].nr[0], syscall_rules[i].nr[1]);
	}
	assert_int_equal(number(FILTER_X86_64, "uretprobe"), 335);
	assert_int_equal(number(FILTER_X86_64, "uprobe"), 336);
}

/* Numbers that the headers name but behind which no kernel of these architectures has a call. */
static bool was_never_there(const char *name)
{
	static const char *const empty[] = {
		"afs_syscall", "epoll_ctl_old", "epoll_wait_old",  "getpmsg", "get_thread_area",
		"putpmsg",     "security",      "set_thread_area", "tuxcall", "vserver",
	};

	for (size_t i = 0; i < sizeof(empty) / sizeof(empty[0]); i++)
		if (strcmp(name, empty[i]) == 0)
			return true;
	return false;
}

static void every_call_libseccomp_knows_has_a_row(void **state)
{
	int known = 0;

	(void)state;
	for (int arch = 0; arch < FILTER_ARCHES; arch++)
		for (int nr = 0; nr < 512; nr++) {
			char *name = seccomp_syscall_resolve_num_arch(scmp[arch], nr);

			if (name && !find(arch, nr) && !was_never_there(name))
				fail_msg("no row for %s, %d, arch %d", name, nr, arch);
			known += name != NULL;
			free(name);
		}
	assert_true(known > 600);
}

/* Calls of x86_64 alone, and the one of both architectures that does the same: the filter must not
 * be kinder to one way than to the other. In `from` stands, for each argument of the latter, which
 * of the old call's arguments it is, or one of these. */
enum { FREE = 6, CREATES, CHILD };

static const struct sibling {
	const char *old, *modern;
	uint8_t from[4];
} siblings[] = {
	{ "access", "faccessat", { FREE, 0, 1 } },
	{ "alarm", "setitimer", { FREE, FREE, FREE } },
	{ "chmod", "fchmodat", { FREE, 0, 1, FREE } },
	{ "chown", "fchownat", { FREE, 0, 1, 2 } },
	{ "creat", "openat", { FREE, 0, CREATES, 1 } },
	{ "dup2", "dup3", { 0, 1, FREE } },
	{ "epoll_create", "epoll_create1", { FREE } },
	{ "epoll_wait", "epoll_pwait", { 0, 1, 2, 3 } },
	{ "eventfd", "eventfd2", { 0, FREE } },
	{ "fork", "clone", { CHILD, FREE, FREE, FREE } },
	{ "futimesat", "utimensat", { 0, 1, 2, FREE } },
	{ "getdents", "getdents64", { 0, 1, 2 } },
	{ "getpgrp", "getpgid", { FREE } },
	{ "inotify_init", "inotify_init1", { FREE } },
	{ "lchown", "fchownat", { FREE, 0, 1, 2 } },
	{ "link", "linkat", { FREE, 0, FREE, 1 } },
	{ "lstat", "newfstatat", { FREE, 0, 1, FREE } },
	{ "mkdir", "mkdirat", { FREE, 0, 1 } },
	{ "mknod", "mknodat", { FREE, 0, 1, 2 } },
	{ "open", "openat", { FREE, 0, 1, 2 } },
	{ "pause", "ppoll", { FREE, FREE, FREE, FREE } },
	{ "pipe", "pipe2", { 0, FREE } },
	{ "poll", "ppoll", { 0, 1, 2, FREE } },
	{ "readlink", "readlinkat", { FREE, 0, 1, 2 } },
	{ "rename", "renameat", { FREE, 0, FREE, 1 } },
	{ "rmdir", "unlinkat", { FREE, 0, FREE } },
	{ "select", "pselect6", { 0, 1, 2, 3 } },
	{ "signalfd", "signalfd4", { 0, 1, 2, FREE } },
	{ "stat", "newfstatat", { FREE, 0, 1, FREE } },
	{ "symlink", "symlinkat", { 0, FREE, 1 } },
	{ "time", "clock_gettime", { FREE, FREE } },
	{ "unlink", "unlinkat", { FREE, 0, FREE } },
	{ "utime", "utimensat", { FREE, 0, 1, FREE } },
	{ "utimes", "utimensat", { FREE, 0, 1, FREE } },
	{ "vfork", "clone", { CHILD, FREE, FREE, FREE } },
};

/* x86_64's own: the processor's matters, which may or must exist there alone, and the long dead. */
static const struct {
	const char *name;
	uint32_t want;
} alone[] = {
	{ "arch_prctl", SECCOMP_RET_ALLOW },
	{ "uretprobe", SECCOMP_RET_ALLOW },
	{ "uprobe", SECCOMP_RET_ALLOW },
	{ "modify_ldt", ERRNO(ENOSYS) },
	{ "iopl", ERRNO(EPERM) },
	{ "ioperm", ERRNO(EPERM) },
	{ "create_module", ERRNO(EPERM) },
	{ "query_module", ERRNO(EPERM) },
	{ "get_kernel_syms", ERRNO(EPERM) },
	{ "_sysctl", ERRNO(EPERM) },
	{ "sysfs", ERRNO(EPERM) },
	{ "uselib", ERRNO(EPERM) },
	{ "ustat", ERRNO(EPERM) },
};

static uint64_t argument_of(uint8_t from, const uint64_t *old)
{
	switch (from) {
	case FREE:
		return 0;
	case CREATES:
		return O_CREAT | O_WRONLY | O_TRUNC;
	case CHILD:
		return 17; /* SIGCHLD */
	default:
		return old[from];
	}
}

static void compare_siblings(const struct sibling *s, int p)
{
	uint32_t old_nr = (uint32_t)number(FILTER_X86_64, s->old);
	unsigned int seed = 1;

	for (int round = 0; round < 2000; round++) {
		uint64_t old[6], modern[6] = { 0 };

		for (int k = 0; k < 6; k++)
			old[k] = some_value(&seed);
		for (int k = 0; k < 4; k++)
			modern[k] = argument_of(s->from[k], old);
		for (int arch = 0; arch < FILTER_ARCHES; arch++)
			if (run(FILTER_X86_64, p, old_nr, old) !=
			    run(arch, p, (uint32_t)number(arch, s->modern), modern))
				fail_msg("%s(%jx, %jx, %jx) is not judged as %s, profile %d",
					 s->old, (uintmax_t)old[0], (uintmax_t)old[1],
					 (uintmax_t)old[2], s->modern, p);
	}
}

static void old_calls_of_x86_64_are_judged_as_their_siblings(void **state)
{
	const uint64_t none[6] = { 0 };
	size_t only_there = 0;

	(void)state;
	for (size_t i = 0; i < SYSCALL_RULES; i++)
		only_there += syscall_rules[i].nr[FILTER_AARCH64] == NONE;
	assert_int_equal(only_there,
			 sizeof(siblings) / sizeof(siblings[0]) + sizeof(alone) / sizeof(alone[0]));
	for (int p = 0; p < SECCOMP_PROFILES; p++) {
		for (size_t i = 0; i < sizeof(siblings) / sizeof(siblings[0]); i++) {
			assert_int_equal(number(FILTER_AARCH64, siblings[i].old), NONE);
			compare_siblings(&siblings[i], p);
		}
		for (size_t i = 0; i < sizeof(alone) / sizeof(alone[0]); i++) {
			uint32_t nr = (uint32_t)number(FILTER_X86_64, alone[i].name);

			assert_int_equal(number(FILTER_AARCH64, alone[i].name), NONE);
			assert_int_equal(run(FILTER_X86_64, p, nr, none), alone[i].want);
		}
	}
}

/* All others exist on both, and the row gives both one verdict. */
static void nothing_exists_on_aarch64_alone(void **state)
{
	(void)state;
	for (size_t i = 0; i < SYSCALL_RULES; i++)
		if (syscall_rules[i].nr[FILTER_X86_64] == NONE)
			fail_msg("%s has no number on x86_64", syscall_rules[i].name);
}

static void programs_are_small(void **state)
{
	(void)state;
	for (int arch = 0; arch < FILTER_ARCHES; arch++)
		for (int p = 0; p < SECCOMP_PROFILES; p++) {
			assert_true(programs[arch][p].len <= MAX_LEN);
			print_message("arch %d profile %d: %u instructions\n", arch, p,
				      programs[arch][p].len);
		}
}

/* What follows is written out by hand and takes nothing from the table but numbers. */

static void expect(int arch, int p, uint32_t want, const char *name, uint64_t a0, uint64_t a1,
		   uint64_t a2, uint64_t a3, uint64_t a4)
{
	const uint64_t args[6] = { a0, a1, a2, a3, a4 };
	int nr = number(arch, name);
	uint32_t got;

	if (nr == NONE)
		return;
	got = run(arch, p, (uint32_t)nr, args);
	if (got != want)
		fail_msg("%s(%jx, %jx, %jx, %jx), arch %d, profile %d: %x, expected %x", name,
			 (uintmax_t)a0, (uintmax_t)a1, (uintmax_t)a2, (uintmax_t)a3, arch, p, got,
			 want);
}

struct example {
	uint32_t want;
	const char *name;
	uint64_t a0, a1, a2, a3, a4;
};

#define YES SECCOMP_RET_ALLOW
#define NO ERRNO(EPERM)
#define BAD ERRNO(EINVAL)

static const struct example examples[] = {
	/* sockets: types carry flags, protocol 262 is MPTCP, 132 SCTP, 1 ICMP */
	{ YES, "socket", 1, 1, 0, 0 },
	{ YES, "socket", 1, 5, 0, 0 },
	{ YES, "socket", JUNK | 1, JUNK | 2, JUNK, 0 },
	{ YES, "socket", 2, 1, 0, 0 },
	{ YES, "socket", 2, 0x80801, 6, 0 },
	{ YES, "socket", 2, JUNK | 0x80002, JUNK | 17, 0 },
	{ YES, "socket", 10, 2, 17, 0 },
	{ YES, "socket", 10, 0x801, 0, 0 },
	{ ERRNO(EPROTONOSUPPORT), "socket", 2, 1, 262, 0 },
	{ ERRNO(EPROTONOSUPPORT), "socket", JUNK | 10, 1, JUNK | 262, 0 },
	{ ERRNO(EPROTONOSUPPORT), "socket", 2, 1, 17, 0 },
	{ ERRNO(EPROTONOSUPPORT), "socket", 2, 2, 6, 0 },
	{ ERRNO(EPROTONOSUPPORT), "socket", 2, 2, 1, 0 },
	{ ERRNO(EPROTONOSUPPORT), "socket", 2, 3, 1, 0 },
	{ ERRNO(EPROTONOSUPPORT), "socket", 2, 3, 255, 0 },
	{ ERRNO(EPROTONOSUPPORT), "socket", 2, 10, 0x300, 0 },
	{ ERRNO(EPROTONOSUPPORT), "socket", 10, 5, 132, 0 },
	{ ERRNO(EPROTONOSUPPORT), "socket", 2, 0x11, 0, 0 },
	{ ERRNO(EAFNOSUPPORT), "socket", 17, 3, 0x300, 0 },
	{ ERRNO(EAFNOSUPPORT), "socket", 38, 5, 0, 0 },
	{ ERRNO(EAFNOSUPPORT), "socket", 40, 1, 0, 0 },
	{ ERRNO(EAFNOSUPPORT), "socket", 0, 1, 0, 0 },
	{ ERRNO(EAFNOSUPPORT), "socket", 0xffffffff, 1, 0, 0 },
	{ YES, "socketpair", JUNK | 1, 1, 0, 0 },
	{ ERRNO(EAFNOSUPPORT), "socketpair", 30, 1, 0, 0 },
	{ ERRNO(EAFNOSUPPORT), "socketpair", 2, 1, 0, 0 },
	/* terminals */
	{ NO, "ioctl", 0, 0x5412, 0, 0 },
	{ NO, "ioctl", 0, 0x100005412, 0, 0 },
	{ NO, "ioctl", 0, JUNK | 0x541c, 0, 0 },
	{ NO, "ioctl", 0, 0x541d, 0, 0 },
	{ NO, "ioctl", 0, JUNK | 0x5423, 0, 0 },
	{ YES, "ioctl", 0, 0x5413, 0, 0 },
	{ YES, "ioctl", 0, 0x5401, 0, 0 },
	{ YES, "ioctl", 0x5412, 0, 0x5412, 0 },
	/* of file systems: bytes may be shared; no subvolumes, snapshots, keys or encrypted folders
	 */
	{ YES, "ioctl", 0, 0x40049409, 0, 0 },
	{ YES, "ioctl", 0, JUNK | 0x4020940d, 0, 0 },
	{ YES, "ioctl", 0, 0xc0189436, 0, 0 },
	{ YES, "ioctl", 0, 0x81009431, 0, 0 },
	{ NO, "ioctl", 0, 0x50009401, 0, 0 },
	{ NO, "ioctl", 0, JUNK | 0x50009417, 0, 0 },
	{ NO, "ioctl", 0, 0x5000940e, 0, 0 },
	{ NO, "ioctl", 0, 0x50009418, 0, 0 },
	{ NO, "ioctl", 0, 0x4008941a, 0, 0 },
	{ NO, "ioctl", 0, 0x4020bc10, 0, 0 },
	{ NO, "ioctl", 0, 0x800c6613, 0, 0 },
	{ NO, "ioctl", 0, JUNK | 0xc0506617, 0, 0 },
	{ NO, "ioctl", 0, 0xc0406618, 0, 0 },
	{ NO, "ioctl", 0, 0xc0406619, 0, 0 },
	{ YES, "ioctl", 0, 0xc0096616, 0, 0 },
	{ YES, "ioctl", 0, 0x40086602, 0, 0 },
	/* clone: a thread, a fork, the seven namespaces, the exit-signal bit shared with time */
	{ YES, "clone", 0x003d0f00, 0, 0, 0 },
	{ YES, "clone", 0x01200011, 0, 0, 0 },
	{ YES, "clone", 0x80, 0, 0, 0 },
	{ YES, "clone", JUNK | 17, 0, 0, 0 },
	{ NO, "clone", 0x00020011, 0, 0, 0 },
	{ NO, "clone", 0x02000011, 0, 0, 0 },
	{ NO, "clone", 0x04000011, 0, 0, 0 },
	{ NO, "clone", 0x08000011, 0, 0, 0 },
	{ NO, "clone", 0x10000011, 0, 0, 0 },
	{ NO, "clone", 0x20000011, 0, 0, 0 },
	{ NO, "clone", JUNK | 0x40000011, 0, 0, 0 },
	{ YES, "personality", 0, 0, 0, 0 },
	{ YES, "personality", JUNK | 0xffffffff, 0, 0, 0 },
	{ NO, "personality", JUNK | 0x600000, 0, 0, 0 },
	{ NO, "personality", 0x20000, 0, 0, 0 },
	{ NO, "personality", 0x460000, 0, 0, 0 },
	{ NO, "personality", 0x400008, 0, 0, 0 },
	{ NO, "prctl", JUNK | 35, 0, 0, 0 },
	{ NO, "prctl", 53, 0, 2, 0 },
	{ YES, "prctl", 52, 0, 0, 0 },
	{ YES, "prctl", 22, 1, 0, 0 },
	{ YES, "prctl", 38, 1, 0, 0 },
	{ YES, "prctl", 4, 0, 0, 0 },
	{ YES, "prctl", 36, 1, 0, 0 },
	{ YES, "prctl", 15, 0, 0, 0 },
	/* the core limit: asked, set, both at once */
	{ ERRNO(0), "setrlimit", JUNK | 4, 0, 0, 0 },
	{ YES, "setrlimit", 7, 0, 0, 0 },
	{ YES, "prlimit64", 0, 4, 0, 0xffff },
	{ ERRNO(0), "prlimit64", 0, 4, 0x1000, 0 },
	{ ERRNO(0), "prlimit64", 0, JUNK | 4, 0x100000000, 0 },
	{ NO, "prlimit64", 0, 4, 0x1000, 0x1000 },
	{ NO, "prlimit64", 0, 4, 0x100000000, 0x100000000 },
	{ YES, "prlimit64", 0, 7, 0x1000, 0x1000 },
	{ YES, "prlimit64", 0, 4, 0, 0x100000000 },
	{ YES, "prlimit64", 0, 7, 0x1000, 0 },
	{ YES, "prlimit64", 4, 5, 0x1000, 0 },
	{ YES, "prlimit64", 1, 7, 0, 0x1000 },
	{ NO, "prlimit64", 1, 7, 0x1000, 0 },
	{ NO, "prlimit64", JUNK | 1, 7, 0x1000, 0x1000 },
	{ NO, "prlimit64", 1, 4, 0x1000, 0 },
	{ YES, "seccomp", 0, 0, 0, 0 },
	{ YES, "seccomp", 2, 0, 0x1000, 0 },
	/* leases: F_SETLEASE, F_NOTIFY, F_SETDELEG; beside them F_GETLEASE, F_SETPIPE_SZ up to what
	 * a pipe has anyway */
	{ BAD, "fcntl", 3, 1024, 0, 0 },
	{ BAD, "fcntl", 3, JUNK | 1024, 1, 0 },
	{ BAD, "fcntl", JUNK, 1026, 0, 0 },
	{ BAD, "fcntl", 3, JUNK | 1040, 0, 0 },
	{ YES, "fcntl", 1024, 1, 1024, 0 },
	{ YES, "fcntl", 3, 1025, 0, 0 },
	{ YES, "fcntl", 3, 1031, 1024, 0 },
	{ YES, "fcntl", 3, 1031, 65536, 0 },
	{ YES, "fcntl", 3, JUNK | 1031, 0, 0 },
	{ NO, "fcntl", 3, 1031, 65537, 0 },
	{ NO, "fcntl", 3, 1031, JUNK | 131072, 0 },
	{ NO, "fcntl", 3, JUNK | 1031, 1 << 20, 0 },
	{ NO, "fcntl", 3, 1031, 0xffffffff, 0 },
	{ YES, "fcntl", 3, 1030, 0, 0 },
	{ YES, "fcntl", 3, 38, 0, 0 },
	/* huge pages, of any size */
	{ BAD, "mmap", 0, 1, 3, 0x40022 },
	{ BAD, "mmap", 0, 1, 3, JUNK | 0x54040022 },
	{ YES, "mmap", 0x40000, 0x40000, 3, 0x20022 },
	{ YES, "mmap", 0, 1, 3, 0x100022 },
	{ BAD, "memfd_create", 0, 4, 0, 0 },
	{ BAD, "memfd_create", 0, JUNK | 7, 0, 0 },
	{ YES, "memfd_create", 4, 0x1b, 0, 0 },
	{ BAD, "shmget", 0, 1, 04600, 0 },
	{ BAD, "shmget", 0, 1, JUNK | 05000, 0 },
	{ YES, "shmget", 04000, 04000, 03600, 0 },
	/* whiteouts */
	{ BAD, "renameat2", 0, 0, 0, 0, 4 },
	{ BAD, "renameat2", 0, 0, 0, 0, JUNK | 5 },
	{ YES, "renameat2", 4, 4, 4, 4, 3 },
	/* threads with descriptors of their own */
	{ NO, "close_range", 3, 9, 2, 0 },
	{ NO, "close_range", 3, 9, JUNK | 6, 0 },
	{ YES, "close_range", 2, 2, 4, 0 },
	{ NO, "clone", 0x003d0b00, 0, 0, 0 },
	{ NO, "clone", JUNK | 0x00010900, 0, 0, 0 },
	{ YES, "clone", 0x00000911, 0, 0, 0 },
	/* programs in sockets: of the socket level alone */
	{ NO, "setsockopt", 3, 1, 26, 0 },
	{ NO, "setsockopt", 3, JUNK | 1, JUNK | 50, 0 },
	{ NO, "setsockopt", 3, 1, 51, 0 },
	{ NO, "setsockopt", 3, 1, 52, 0 },
	{ YES, "setsockopt", 3, 1, 27, 0 },
	{ YES, "setsockopt", 3, 1, 2, 0 },
	{ YES, "setsockopt", 1, 6, 26, 0 },
	/* init's priority, alone or with all of its user or group */
	{ YES, "setpriority", 0, 0, 19, 0 },
	{ YES, "setpriority", JUNK, 77, 1, 0 },
	{ NO, "setpriority", 0, 1, 19, 0 },
	{ NO, "setpriority", JUNK, JUNK | 1, 19, 0 },
	{ NO, "setpriority", 1, 0, 19, 0 },
	{ NO, "setpriority", 2, 0, 19, 0 },
	{ NO, "setpriority", JUNK | 2, 1000, 19, 0 },
	{ YES, "ioprio_set", 1, 0, 0x6000, 0 },
	{ NO, "ioprio_set", 1, JUNK | 1, 0x6000, 0 },
	{ NO, "ioprio_set", 2, 0, 0x6000, 0 },
	{ NO, "ioprio_set", 3, 1000, 0x6000, 0 },
	{ YES, "sched_setaffinity", 0, 8, 0, 0 },
	{ YES, "sched_setaffinity", 77, 1, 0, 0 },
	{ NO, "sched_setaffinity", JUNK | 1, 8, 0, 0 },
	{ NO, "sched_setscheduler", 1, 5, 0, 0 },
	{ NO, "sched_setparam", 1, 0, 0, 0 },
	{ NO, "sched_setattr", JUNK | 1, 0, 0, 0 },
	{ YES, "sched_setattr", 0, 1, 0, 0 },
	/* set-id modes; 0100 is O_CREAT, 020000000 the bit of O_TMPFILE */
	{ YES, "chmod", 0, 01777, 0, 0 },
	{ NO, "chmod", 0, 04755, 0, 0 },
	{ NO, "fchmod", 0, JUNK | 02755, 0, 0 },
	{ YES, "fchmod", 04755, 0755, 0, 0 },
	{ NO, "creat", 0, 04000, 0, 0 },
	{ YES, "creat", 0, 0644, 0, 0 },
	{ NO, "fchmodat", 0, 0, 06755, 0 },
	{ YES, "fchmodat", 0, 0, 0755, 04000 },
	{ NO, "fchmodat2", 0, 0, JUNK | 02000, 0 },
	{ YES, "fchmodat2", 0, 0, 0755, 0x100 },
	{ YES, "open", 0, 0, 06777, 0 },
	{ YES, "open", 0, 0101, 0644, 0 },
	{ NO, "open", 0, 0101, 04755, 0 },
	{ NO, "open", 0, 020200001, 02755, 0 },
	{ YES, "openat", 0, 0, 0, 06777 },
	{ YES, "openat", 0, 0, 0101, 0644 },
	{ NO, "openat", 0, 0, 0101, 04755 },
	{ NO, "openat", 0, 0, JUNK | 0101, JUNK | 02755 },
	{ NO, "openat", 0, 0, 020040001, 02755 },
	{ NO, "openat", 0, 0, 020000000, 04000 },
	{ YES, "mknod", 0, 0100644, 0, 0 },
	{ YES, "mknod", 0, 0010644, 0, 0 },
	{ YES, "mknod", 0, 0140644, 0, 0 },
	{ YES, "mknod", 0, 0644, 0, 0 },
	{ NO, "mknod", 0, 0020644, 0, 0 },
	{ NO, "mknod", 0, 0060644, 0, 0 },
	{ NO, "mknod", 0, 0104755, 0, 0 },
	{ YES, "mknodat", 0, 0, 0010644, 0 },
	{ NO, "mknodat", 0, 0, JUNK | 0020644, 0 },
	{ NO, "mknodat", 0, 0, 0060644, 0 },
	{ NO, "mknodat", 0, 0, 0102755, 0 },
};

static void arguments_decide_as_written_here(void **state)
{
	(void)state;
	for (int arch = 0; arch < FILTER_ARCHES; arch++)
		for (int p = 0; p < SECCOMP_PROFILES; p++)
			for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++) {
				const struct example *e = &examples[i];

				expect(arch, p, e->want, e->name, e->a0, e->a1, e->a2, e->a3,
				       e->a4);
			}
}

/* clang-format off */
static const char *const never[] = {
	"unshare", "setns", "mount", "umount2", "pivot_root", "chroot", "fsopen", "fsconfig",
	"fsmount", "fspick", "open_tree", "open_tree_attr", "move_mount", "mount_setattr",
	"open_by_handle_at", "name_to_handle_at", "bpf", "userfaultfd",
	"fanotify_init", "fanotify_mark", "add_key", "request_key", "keyctl", "pidfd_getfd",
	"vmsplice", "kexec_load", "kexec_file_load", "init_module", "finit_module",
	"delete_module", "iopl", "ioperm", "swapon", "swapoff", "reboot", "settimeofday",
	"clock_settime", "adjtimex", "clock_adjtime", "acct", "quotactl", "quotactl_fd", "syslog",
	"sethostname", "setdomainname", "vhangup", "nfsservctl", "lookup_dcookie",
};

static const char *const missing[] = {
	"clone3", "openat2", "io_uring_setup", "io_uring_enter", "io_uring_register",
	"memfd_secret", "statmount", "listmount", "listns",
};
/* clang-format on */

static void counters_are_for_the_guests_own_processes_in_debug(void **state)
{
	(void)state;
	for (int arch = 0; arch < FILTER_ARCHES; arch++)
		for (int p = 0; p < SECCOMP_PROFILES; p++) {
			uint32_t own = p == SECCOMP_DEBUG ? YES : NO;

			expect(arch, p, own, "perf_event_open", 1, 0, JUNK, 0, 8);
			expect(arch, p, own, "perf_event_open", 1, 77, 0, 0, 0);
			expect(arch, p, NO, "perf_event_open", 1, (uint64_t)-1, 0, 0, 0);
			expect(arch, p, NO, "perf_event_open", 1, JUNK | 0xffffffff, 0, 0, 0);
			expect(arch, p, NO, "perf_event_open", 1, 5, 0, 0, 4);
			expect(arch, p, NO, "perf_event_open", 1, 5, 0, 0, 12);
		}
}

static void dangerous_calls_are_refused_in_every_profile(void **state)
{
	(void)state;
	for (int arch = 0; arch < FILTER_ARCHES; arch++)
		for (int p = 0; p < SECCOMP_PROFILES; p++) {
			for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++)
				expect(arch, p, NO, never[i], 0, 0, 0, 0, 0);
			for (size_t i = 0; i < sizeof(missing) / sizeof(missing[0]); i++)
				expect(arch, p, ERRNO(ENOSYS), missing[i], 0, 0, 0, 0, 0);
		}
}

static void profiles_differ_as_documented(void **state)
{
	static const struct {
		const char *name;
		uint64_t a0, a1, a2;
		uint32_t want[SECCOMP_PROFILES];
	} rows[] = {
		{ "ptrace", 0, 3, 0, { NO, YES, YES } },
		{ "process_vm_readv", 0, 3, 0, { NO, YES, YES } },
		{ "process_vm_writev", 0, 3, 0, { NO, YES, YES } },
		{ "process_madvise", 0, 3, 0, { NO, YES, YES } },
		{ "kcmp", 0, 3, 0, { NO, NO, YES } },
		{ "personality", 8, 3, 0, { NO, YES, YES } },
		{ "personality", JUNK | 0x40000, 3, 0, { NO, YES, YES } },
		{ "personality", JUNK | 0x400000, 3, 0, { NO, YES, YES } },
		{ "personality", 0x440000, 3, 0, { NO, YES, YES } },
		{ "io_setup", 0, 3, 0, { ERRNO(ENOSYS), ERRNO(ENOSYS), YES } },
		{ "io_submit", 0, 3, 0, { ERRNO(ENOSYS), ERRNO(ENOSYS), YES } },
		{ "inotify_init1", 0, 3, 0, { ERRNO(ENOSYS), YES, YES } },
		{ "inotify_add_watch", 0, 3, 0, { ERRNO(ENOSYS), YES, YES } },
		{ "seccomp", 1, 0, 0x1000, { BAD, BAD, YES } },
		{ "seccomp", JUNK | 1, 1, 0x1000, { BAD, BAD, YES } },
		{ "seccomp", 1, 8, 0x1000, { BAD, BAD, NO } },
		{ "seccomp", 1, JUNK | 0x19, 0x1000, { BAD, BAD, NO } },
		{ "prctl", JUNK | 22, 2, 0x1000, { BAD, BAD, YES } },
		{ "mq_open", 0, 3, 0, { ERRNO(ENOSYS), YES, YES } },
		{ "msgget", 0, 3, 0, { ERRNO(ENOSYS), YES, YES } },
		{ "socket", 16, 3, 0, { ERRNO(EAFNOSUPPORT), YES, YES } },
		{ "socket", JUNK | 16, 3, JUNK, { ERRNO(EAFNOSUPPORT), YES, YES } },
		{ "socket",
		  16,
		  3,
		  4,
		  { ERRNO(EAFNOSUPPORT), ERRNO(EPROTONOSUPPORT), ERRNO(EPROTONOSUPPORT) } },
		{ "socket",
		  16,
		  3,
		  15,
		  { ERRNO(EAFNOSUPPORT), ERRNO(EPROTONOSUPPORT), ERRNO(EPROTONOSUPPORT) } },
	};

	(void)state;
	for (int arch = 0; arch < FILTER_ARCHES; arch++)
		for (int p = 0; p < SECCOMP_PROFILES; p++)
			for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
				expect(arch, p, rows[i].want[p], rows[i].name, rows[i].a0,
				       rows[i].a1, rows[i].a2, 0, 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(every_listed_call_gets_the_verdict_of_its_row),
	cmocka_unit_test(an_unlisted_number_does_not_exist),
	cmocka_unit_test(x32_numbers_do_not_exist),
	cmocka_unit_test(a_foreign_architecture_is_killed),
	cmocka_unit_test(numbers_agree_with_libseccomp),
	cmocka_unit_test(numbers_newer_than_libseccomp_are_right),
	cmocka_unit_test(every_call_libseccomp_knows_has_a_row),
	cmocka_unit_test(old_calls_of_x86_64_are_judged_as_their_siblings),
	cmocka_unit_test(nothing_exists_on_aarch64_alone),
	cmocka_unit_test(programs_are_small),
	cmocka_unit_test(arguments_decide_as_written_here),
	cmocka_unit_test(counters_are_for_the_guests_own_processes_in_debug),
	cmocka_unit_test(dangerous_calls_are_refused_in_every_profile),
	cmocka_unit_test(profiles_differ_as_documented),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
