/* SPDX-License-Identifier: Apache-2.0 */
/* backend/docker/engine/seccomp_json.c - from clauses tried in order to rules without any order.
 *
 * libseccomp, which the engine's runtime uses, takes a set of rules: for each call some tests, at
 * most one for each argument, and an answer. Where two rules hold at once it is not said which one
 * counts, and "is not" exists for whole 64-bit values only, behind which the kernel's int hides.
 *
 * So the clauses are turned into rules that exclude one another. Arguments are taken in ascending
 * order; the values of one are cut, bit by bit from the top, into classes (argument & mask ==
 * value) in which every test of every clause has one answer. Each class decides those tests, and
 * the clauses left over are treated the same way with the next argument. What ends in EPERM needs
 * no rule, because that is the default: an engine can give but one answer to what has no rule, and
 * the table's other refusals (EAFNOSUPPORT, EPROTONOSUPPORT) become EPERM here. */
#include "backend/docker/engine/seccomp_json.h"

#include <string.h>

#include "backend/kit/seccomp/seccomp_table.h"

#define CLAUSES 8
#define MATCHES 3
#define ARGS 6

#if defined(__aarch64__)
#define ARCH_NAME "SCMP_ARCH_AARCH64"
#define ARCH FILTER_AARCH64
#else
#define ARCH_NAME "SCMP_ARCH_X86_64"
#define ARCH FILTER_X86_64
#endif

enum truth { UNKNOWN, NO, YES };

struct test {
	enum test_op { TEST_MASKED, TEST_IS, TEST_NOT } op;
	uint64_t mask, value;
	bool used;
};

/* Where the walk stands: what is known of each clause's matches, and by which tests. */
struct filter_walk {
	struct json *j;
	enum seccomp_profile profile;
	enum verdict rule; /* whose clauses they are */
	const struct clause *clauses;
	enum truth known[CLAUSES][MATCHES];
	struct test tests[ARGS];
};

static bool is_used(const struct match *m)
{
	return m->bits || m->values;
}

static uint64_t wide(const struct match *m, uint32_t v)
{
	return (uint64_t)v << (m->word % 2 ? 32 : 0);
}

/* What a match says of all values with (value & mask) == v. */
static enum truth seccomp_json_judge(const struct match *m, uint64_t mask, uint64_t v)
{
	uint64_t own = wide(m, m->mask);
	bool whole = (own & ~mask) == 0;

	if (m->bits)
		return v & own ? YES : whole ? NO : UNKNOWN;
	for (int i = 0; i < m->values; i++)
		if (((wide(m, m->value[i]) ^ v) & mask & own) == 0)
			return whole ? YES : UNKNOWN;
	return NO;
}

static bool applies(const struct filter_walk *w, int c)
{
	return !w->clauses[c].no_engine &&
	       (!w->clauses[c].profiles || w->clauses[c].profiles & PROFILE(w->profile));
}

/* Does the clause hold, as far as is known? */
static enum truth clause_holds(const struct filter_walk *w, int c)
{
	enum truth all = YES;

	for (int i = 0; i < MATCHES; i++) {
		if (!is_used(&w->clauses[c].when[i]))
			continue;
		if (w->known[c][i] == NO)
			return NO;
		if (w->known[c][i] == UNKNOWN)
			all = UNKNOWN;
	}
	return all;
}

/* The verdict, or VERDICTS while it still depends; then *argument is the lowest one it depends on.
 * Clauses that may or may not hold decide nothing if they say what comes after them anyway. */
static enum verdict decided(const struct filter_walk *w, int *argument)
{
	enum verdict open = VERDICTS;
	bool differ = false;

	*argument = ARGS;
	for (int c = 0; c < CLAUSES; c++) {
		enum truth t = applies(w, c) ? clause_holds(w, c) : NO;

		if (t == YES && (*argument == ARGS || (!differ && open == w->clauses[c].then)))
			return w->clauses[c].then;
		if (t == YES)
			return VERDICTS;
		if (t == UNKNOWN) {
			differ |= open != VERDICTS && open != w->clauses[c].then;
			open = w->clauses[c].then;
		}
		for (int i = 0; t == UNKNOWN && i < MATCHES; i++)
			if (is_used(&w->clauses[c].when[i]) && w->known[c][i] == UNKNOWN &&
			    w->clauses[c].when[i].word / 2 < *argument)
				*argument = w->clauses[c].when[i].word / 2;
	}
	return VERDICTS;
}

static void seccomp_json_names(const struct filter_walk *w, enum verdict v)
{
	json_karray(w->j, "names");
	for (size_t i = 0; i < SYSCALL_RULES; i++)
		if (syscall_rules[i].verdict[w->profile] == v && syscall_rules[i].nr[ARCH] != NONE)
			json_str(w->j, syscall_rules[i].name);
	json_array_end(w->j);
}

static const char *const op_names[] = {
	[TEST_MASKED] = "SCMP_CMP_MASKED_EQ", [TEST_IS] = "SCMP_CMP_EQ", [TEST_NOT] = "SCMP_CMP_NE"
};

static void tests_json(const struct filter_walk *w)
{
	json_karray(w->j, "args");
	for (int a = 0; a < ARGS; a++) {
		const struct test *t = &w->tests[a];

		if (!t->used)
			continue;
		json_object(w->j);
		json_ku64(w->j, "index", (uint64_t)a);
		json_ku64(w->j, "value", t->op == TEST_MASKED ? t->mask : t->value);
		json_ku64(w->j, "valueTwo", t->op == TEST_MASKED ? t->value : 0);
		json_kstr(w->j, "op", op_names[t->op]);
		json_object_end(w->j);
	}
	json_array_end(w->j);
}

static void rule(const struct filter_walk *w, enum verdict v)
{
	static const unsigned answers[ARG_SOCKET] = { [V_ENOSYS] = 38, [V_EINVAL] = 22 };

	if (v != V_ALLOW && v != V_PRETEND && !answers[v])
		return;
	json_object(w->j);
	seccomp_json_names(w, w->rule);
	json_kstr(w->j, "action", v == V_ALLOW ? "SCMP_ACT_ALLOW" : "SCMP_ACT_ERRNO");
	if (v != V_ALLOW)
		json_ku64(w->j, "errnoRet", answers[v]);
	tests_json(w);
	json_object_end(w->j);
}

static void walk_on(struct filter_walk *w);

/* Notes what a class of an argument's values decides; the highest bit that would decide more. */
static uint64_t learn(struct filter_walk *w, int a, uint64_t mask, uint64_t v)
{
	uint64_t open = 0;

	for (int c = 0; c < CLAUSES; c++)
		for (int i = 0; i < MATCHES; i++) {
			const struct match *m = &w->clauses[c].when[i];

			if (!is_used(m) || m->word / 2 != a || !applies(w, c))
				continue;
			w->known[c][i] = seccomp_json_judge(m, mask, v);
			if (w->known[c][i] == UNKNOWN)
				open |= wide(m, m->mask) & ~mask;
		}
	return open ? (uint64_t)1 << (63 - __builtin_clzll(open)) : 0;
}

static void classes(struct filter_walk *w, int a, uint64_t mask, uint64_t v)
{
	uint64_t bit = learn(w, a, mask, v);

	if (bit) {
		classes(w, a, mask | bit, v);
		classes(w, a, mask | bit, v | bit);
		(void)learn(w, a, 0, 0);
		return;
	}
	w->tests[a] = (struct test){ .op = TEST_MASKED, .mask = mask, .value = v, .used = true };
	walk_on(w);
	w->tests[a].used = false;
	(void)learn(w, a, 0, 0);
}

/* A test of one whole 64-bit value is cut in two instead of in 65. */
static bool whole_value(const struct filter_walk *w, int a, uint64_t *v)
{
	uint64_t mask = 0;

	*v = 0;
	for (int c = 0; c < CLAUSES; c++)
		for (int i = 0; i < MATCHES; i++) {
			const struct match *m = &w->clauses[c].when[i];

			if (!is_used(m) || m->word / 2 != a || !applies(w, c))
				continue;
			if (m->bits || m->values != 1 || mask & wide(m, m->mask))
				return false;
			mask |= wide(m, m->mask);
			*v |= wide(m, m->value[0]);
		}
	return mask == ~(uint64_t)0;
}

static void two_classes(struct filter_walk *w, int a, uint64_t v)
{
	(void)learn(w, a, ~(uint64_t)0, v);
	w->tests[a] = (struct test){ .op = TEST_IS, .value = v, .used = true };
	walk_on(w);
	/* Not that value: at least one of its two words is another. Which one makes no difference,
	 * because both stand in one clause. */
	(void)learn(w, a, ~(uint64_t)0, ~v);
	w->tests[a] = (struct test){ .op = TEST_NOT, .value = v, .used = true };
	walk_on(w);
	w->tests[a].used = false;
	(void)learn(w, a, 0, 0);
}

static void walk_on(struct filter_walk *w)
{
	int argument;
	enum verdict v = decided(w, &argument);
	uint64_t value;

	if (v != VERDICTS)
		rule(w, v);
	else if (argument < ARGS && whole_value(w, argument, &value))
		two_classes(w, argument, value);
	else if (argument < ARGS)
		classes(w, argument, 0, 0);
}

static bool has_rule(enum seccomp_profile profile, enum verdict v)
{
	for (size_t i = 0; i < SYSCALL_RULES; i++)
		if (syscall_rules[i].verdict[profile] == v && syscall_rules[i].nr[ARCH] != NONE)
			return true;
	return false;
}

/* unshare with these flags, and with no other. */
static void allow_namespace(uint64_t flags, struct json *j)
{
	struct filter_walk w = { .j = j };

	w.tests[0] = (struct test){ .op = TEST_IS, .value = flags, .used = true };
	json_object(j);
	json_karray(j, "names");
	json_str(j, "unshare");
	json_array_end(j);
	json_kstr(j, "action", "SCMP_ACT_ALLOW");
	tests_json(&w);
	json_object_end(j);
}

static void profile_json(enum seccomp_profile profile, bool door, struct json *j)
{
	struct filter_walk w = { .j = j, .profile = profile };

	json_object(j);
	json_kstr(j, "defaultAction", "SCMP_ACT_ERRNO");
	json_karray(j, "architectures");
	json_str(j, ARCH_NAME);
	json_array_end(j);
	json_karray(j, "syscalls");
	for (int v = 0; v < VERDICTS; v++) {
		w.rule = (enum verdict)v;
		w.clauses = arg_rules[v];
		if (!has_rule(profile, w.rule))
			continue;
		if (v < ARG_SOCKET)
			rule(&w, w.rule);
		else if (door)
			walk_on(&w);
		else
			rule(&w, V_ALLOW);
	}
	allow_namespace(CLONE_NEWUSER | (door ? CLONE_NEWNET : CLONE_NEWNS), j);
	json_array_end(j);
	json_object_end(j);
}

void seccomp_json(enum seccomp_profile profile, struct json *j)
{
	profile_json(profile, false, j);
}

void seccomp_json_door(struct json *j)
{
	profile_json(SECCOMP_DEFAULT, true, j);
}
