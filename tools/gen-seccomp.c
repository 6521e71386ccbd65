/* SPDX-License-Identifier: Apache-2.0 */
/* tools/gen-seccomp.c - compile seccomp_table.h into classic BPF, at build time.
 *
 *	gen-seccomp aarch64|x86_64 > seccomp_filter_ARCH.inc
 *
 * An assembler of our own rather than libseccomp's because the latter gives each call a comparison
 * of its own where neighbouring numbers with one verdict can share one (398 instructions before any
 * argument rule, against 168 with all of them), compares both words of an argument where the kernel
 * looks at one, lets an unconditional rule silently swallow a conditional one, and knows only the
 * calls of its own release.
 *
 * Theory of operation. The call numbers 0..2^32-1 are cut into ranges of equal verdict; a binary
 * search over their borders ends at a return or at the code of an argument rule. Classic BPF jumps
 * forward only, so the program is written from its end: every jump then meets a target that exists
 * already. Conditional jumps reach 255 instructions; a return farther away is written again nearby,
 * an argument rule is reached through an unconditional jump. */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/kit/seccomp/seccomp_table.h"

enum { MAX_INSNS = 1024, MAX_NR = 1024, MAX_RANGES = MAX_NR + 1, REACH = 255 };

static const struct {
	const char *name;
	uint32_t audit;
} arches[] = {
	[FILTER_AARCH64] = { "aarch64", AUDIT_ARCH_AARCH64 },
	[FILTER_X86_64] = { "x86_64", AUDIT_ARCH_X86_64 },
};

static const char *const profiles[] = {
	[SECCOMP_STRICT] = "strict",
	[SECCOMP_DEFAULT] = "default",
	[SECCOMP_DEBUG] = "debug",
};

_Static_assert(sizeof(profiles) / sizeof(profiles[0]) == SECCOMP_PROFILES, "a name each");

static const uint32_t returns[ARG_SOCKET] = {
	[V_ENOSYS] = SECCOMP_RET_ERRNO | ENOSYS,
	[V_EPERM] = SECCOMP_RET_ERRNO | EPERM,
	[V_EINVAL] = SECCOMP_RET_ERRNO | EINVAL,
	[V_EAFNOSUPPORT] = SECCOMP_RET_ERRNO | EAFNOSUPPORT,
	[V_EPROTONOSUPPORT] = SECCOMP_RET_ERRNO | EPROTONOSUPPORT,
	[V_KILL] = SECCOMP_RET_KILL_PROCESS,
	[V_PRETEND] = SECCOMP_RET_ERRNO | 0,
	[V_ALLOW] = SECCOMP_RET_ALLOW,
};

struct range {
	uint32_t start; /* up to the start of the next */
	enum verdict verdict;
};

/* Positions count from the end of the program: insn[0] runs last. */
struct prog {
	struct sock_filter insn[MAX_INSNS];
	int len;
	int at[VERDICTS]; /* where the code of each verdict starts, or -1 */
	enum seccomp_profile profile;
};

static void fail(const char *what, const char *subject)
{
	fprintf(stderr, "gen-seccomp: %s '%s'\n", what, subject);
	exit(1);
}

static int emit(struct prog *p, int code, uint32_t k, int yes, int no)
{
	if (p->len == MAX_INSNS)
		fail("program too long in profile", profiles[p->profile]);
	p->insn[p->len] = (struct sock_filter){
		.code = (uint16_t)code, .jt = (uint8_t)yes, .jf = (uint8_t)no, .k = k
	};
	return p->len++;
}

/* The target, or a jump to it, close enough for a branch written next or next but one. */
static int within_reach(struct prog *p, int target)
{
	if (p->len - target <= REACH)
		return target;
	return emit(p, BPF_JMP | BPF_JA, (uint32_t)(p->len - target - 1), 0, 0);
}

static int branch(struct prog *p, int op, uint32_t k, int yes, int no)
{
	yes = within_reach(p, yes);
	no = within_reach(p, no);
	return emit(p, BPF_JMP | op | BPF_K, k, p->len - yes - 1, p->len - no - 1);
}

static int load(struct prog *p, size_t offset)
{
	return emit(p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

static int match(struct prog *p, const struct match *m, int yes, int no)
{
	size_t offset = offsetof(struct seccomp_data, args) + m->word * sizeof(uint32_t);

	if (m->bits) {
		branch(p, BPF_JSET, m->mask, yes, no);
		return load(p, offset);
	}
	for (int i = m->values; i-- > 0;)
		no = branch(p, BPF_JEQ, m->value[i], yes, no);
	if (m->mask != ~0U)
		emit(p, BPF_ALU | BPF_AND | BPF_K, m->mask, 0, 0);
	return load(p, offset);
}

static bool unused(const struct match *m)
{
	return !m->bits && m->values == 0;
}

static int place(struct prog *p, enum verdict v);

static int clauses(struct prog *p, const struct clause *c)
{
	int yes, no;

	if (c->profiles && !(c->profiles & PROFILE(p->profile)))
		return clauses(p, c + 1);
	if (unused(&c->when[0]))
		return place(p, c->then);
	no = clauses(p, c + 1);
	yes = place(p, c->then);
	for (int i = 3; i-- > 0;)
		if (!unused(&c->when[i]))
			yes = match(p, &c->when[i], yes, no);
	return yes;
}

/* The position of code that delivers the verdict, written now if there is none to be used. */
static int place(struct prog *p, enum verdict v)
{
	int at = p->at[v];

	if (v < ARG_SOCKET && (at < 0 || p->len - at > REACH))
		at = emit(p, BPF_RET | BPF_K, returns[v], 0, 0);
	else if (at < 0)
		at = clauses(p, arg_rules[v]);
	p->at[v] = at;
	return at;
}

/* One number between two ranges of equal verdict: a single comparison finds it. */
static bool is_island(const struct range *r, int n)
{
	return n == 3 && r[0].verdict == r[2].verdict && r[2].start - r[1].start == 1;
}

static int tree(struct prog *p, const struct range *r, int n)
{
	int low, high, half = n / 2;

	if (n == 1)
		return place(p, r[0].verdict);
	if (is_island(r, n)) {
		high = place(p, r[1].verdict);
		low = place(p, r[0].verdict);
		return branch(p, BPF_JEQ, r[1].start, high, low);
	}
	high = tree(p, r + half, n - half);
	low = tree(p, r, half);
	return branch(p, BPF_JGE, r[half].start, high, low);
}

static int cut(enum filter_arch arch, enum seccomp_profile profile, struct range *r)
{
	enum verdict of[MAX_NR] = { V_ENOSYS };
	const char *owner[MAX_NR] = { NULL };
	int n = 0;

	for (size_t i = 0; i < SYSCALL_RULES; i++) {
		const struct syscall_rule *s = &syscall_rules[i];
		int nr = s->nr[arch];

		if (nr == NONE)
			continue;
		/* The last slot stays empty: what follows the table is unknown, without an end. */
		if (nr < 0 || nr >= MAX_NR - 1 || owner[nr])
			fail("number impossible or used twice by", s->name);
		owner[nr] = s->name;
		of[nr] = s->verdict[profile];
	}
	for (uint32_t nr = 0; nr < MAX_NR; nr++)
		if (nr == 0 || of[nr] != r[n - 1].verdict)
			r[n++] = (struct range){ nr, of[nr] };
	return n;
}

static void assemble(struct prog *p, enum filter_arch arch, enum seccomp_profile profile)
{
	struct range ranges[MAX_RANGES];
	int known;

	*p = (struct prog){ .profile = profile };
	for (int v = 0; v < VERDICTS; v++)
		p->at[v] = -1;
	tree(p, ranges, cut(arch, profile, ranges));
	known = load(p, offsetof(struct seccomp_data, nr));
	branch(p, BPF_JEQ, arches[arch].audit, known, place(p, V_KILL));
	load(p, offsetof(struct seccomp_data, arch));
}

static void print(const struct prog *p)
{
	printf("static const struct sock_filter seccomp_%s[] = {\n", profiles[p->profile]);
	for (int i = p->len; i-- > 0;)
		printf("\t{ 0x%02x, %u, %u, 0x%08x },\n", p->insn[i].code, p->insn[i].jt,
		       p->insn[i].jf, p->insn[i].k);
	printf("};\n");
}

int main(int argc, char **argv)
{
	static struct prog p;

	for (int a = 0; argc == 2 && a < FILTER_ARCHES; a++) {
		if (strcmp(argv[1], arches[a].name) != 0)
			continue;
		printf("/* Made by gen-seccomp from seccomp_table.h for %s. */\n", arches[a].name);
		for (int i = 0; i < SECCOMP_PROFILES; i++) {
			assemble(&p, (enum filter_arch)a, (enum seccomp_profile)i);
			print(&p);
		}
		return fflush(stdout) == 0 ? 0 : 1;
	}
	fprintf(stderr, "usage: gen-seccomp aarch64|x86_64\n");
	return 2;
}
