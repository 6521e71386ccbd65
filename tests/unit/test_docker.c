/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_docker.c - the docker backend without an engine: filter, stream, places, names. */
#include "model/known/image_name.h"
#include "unit.h"

#include <sched.h>
#include <sys/socket.h>

#include "backend/docker/docker.h"
#include "backend/docker/gate/gate.h"
#include "image/login.h"
#include "backend/docker/engine/seccomp_json.h"
#include "backend/kit/seccomp/seccomp_table.h"
#include "base/text/str.h"

#if defined(__aarch64__)
#define ARCH FILTER_AARCH64
#else
#define ARCH FILTER_X86_64
#endif

/* ---- the filter, read back and compared with the table ---- */

static bool match_holds(const struct match *m, const uint64_t *args)
{
	uint32_t word = (uint32_t)(args[m->word / 2] >> (m->word % 2 ? 32 : 0));

	if (m->bits)
		return word & m->mask;
	for (int i = 0; i < m->values; i++)
		if ((word & m->mask) == m->value[i])
			return true;
	return m->values == 0;
}

/* The table's own answer: clauses in order, the first that holds. Some are not an engine's. */
static enum verdict by_table(enum verdict v, enum seccomp_profile profile, const uint64_t *args)
{
	if (v < ARG_SOCKET)
		return v;
	for (const struct clause *c = arg_rules[v];; c++) {
		if (c->no_engine || (c->profiles && !(c->profiles & PROFILE(profile))))
			continue;
		if (match_holds(&c->when[0], args) && match_holds(&c->when[1], args) &&
		    match_holds(&c->when[2], args))
			return c->then;
	}
}

static bool names(const struct jread *rule, const char *name)
{
	const struct jread *all = jread_get(rule, "names");

	for (size_t i = 0; i < jread_count(all); i++)
		if (str_eq(jread_text(jread_at(all, i)), name))
			return true;
	return false;
}

static bool tests_hold(const struct jread *rule, const uint64_t *args)
{
	const struct jread *all = jread_get(rule, "args");

	for (size_t i = 0; i < jread_count(all); i++) {
		const struct jread *t = jread_at(all, i);
		uint64_t arg = args[jread_int(t, "index", 0)];
		uint64_t value = (uint64_t)jread_int(t, "value", 0);
		uint64_t two = (uint64_t)jread_int(t, "valueTwo", 0);
		const char *op = jread_str(t, "op");

		if (str_eq(op, "SCMP_CMP_MASKED_EQ") ? (arg & value) != two
						     : (arg == value) != str_eq(op, "SCMP_CMP_EQ"))
			return false;
	}
	return true;
}

/* The rules that name a call: looked for once, since a filter has hundreds of names. */
struct about {
	const struct jread *rule[2048];
	size_t n;
};

static struct about rules_about(const struct jread *rules, const char *name)
{
	struct about a = { .n = 0 };

	for (size_t i = 0; i < jread_count(rules); i++) {
		if (!names(jread_at(rules, i), name))
			continue;
		assert_true(a.n < ARRAY_LEN(a.rule));
		a.rule[a.n++] = jread_at(rules, i);
	}
	return a;
}

/* The engine's answer: EPERM where no rule holds; two at once would be nobody's to decide. */
static enum verdict by_rules(const struct about *a, const uint64_t *args)
{
	enum verdict v = V_EPERM;
	int holding = 0;

	for (size_t i = 0; i < a->n; i++) {
		const struct jread *r = a->rule[i];

		if (!tests_hold(r, args))
			continue;
		holding++;
		v = str_eq(jread_str(r, "action"), "SCMP_ACT_ALLOW") ? V_ALLOW
		    : jread_int(r, "errnoRet", -1) == 0              ? V_PRETEND
		    : jread_int(r, "errnoRet", -1) == ENOSYS         ? V_ENOSYS
		    : jread_int(r, "errnoRet", -1) == EINVAL         ? V_EINVAL
								     : V_KILL;
	}
	assert_true(holding <= 1);
	return v;
}

static bool is_refusal(enum verdict v)
{
	return v == V_EPERM || v == V_EAFNOSUPPORT || v == V_EPROTONOSUPPORT;
}

/* Values around those the clauses name, with each bit turned and with something in the high word.
 */
static uint64_t sample(enum verdict v, unsigned n)
{
	const struct clause *c = &arg_rules[v][n % 7];
	const struct match *m = &c->when[n / 7 % 3];
	uint64_t base = m->values ? m->value[n / 21 % m->values] : m->mask;

	switch (n / 97 % 5) {
	case 0:
		return base;
	case 1:
		return base ^ (uint64_t)1 << (n / 485 % 64);
	case 2:
		return base | (uint64_t)(n * 2654435761U) << 32;
	case 3:
		return (uint64_t)n * 0x9e3779b97f4a7c15ULL;
	default:
		return n % 3 ? base + n % 5 : 0;
	}
}

static void compare(const struct jread *rules, enum seccomp_profile profile,
		    const struct syscall_rule *s)
{
	const struct about about = rules_about(rules, s->name);
	enum verdict v = (enum verdict)s->verdict[profile];
	unsigned rounds = v < ARG_SOCKET ? 1 : 4000;

	for (unsigned i = 0; i < rounds; i++) {
		uint64_t args[6];
		enum verdict want, got;

		for (unsigned a = 0; a < 6; a++)
			args[a] = v < ARG_SOCKET ? 0 : sample(v, i * 31 + a * 7919 * (i % 11));
		want = by_table(v, profile, args);
		got = by_rules(&about, args);
		if (want != got && !(is_refusal(want) && got == V_EPERM))
			fail_msg("%s(%llx, %llx, %llx, %llx): table %d, rules %d", s->name,
				 (unsigned long long)args[0], (unsigned long long)args[1],
				 (unsigned long long)args[2], (unsigned long long)args[3], want,
				 got);
	}
}

static void read_filter(const struct buf *b, struct jread **ret)
{
	struct err e = { 0 };

	assert_false(b->failed);
	assert_int_equal(jread_parse(b->data, b->len, ret, &e), 0);
	assert_string_equal(jread_str(*ret, "defaultAction"), "SCMP_ACT_ERRNO");
}

/* By name alone: what the calls may be given is the gate's filter's to say. */
static void the_engines_filter_has_the_tables_calls(void **state)
{
	const uint64_t args[6] = { 0 }, lock[6] = { CLONE_NEWUSER | CLONE_NEWNS };

	(void)state;
	for (int profile = 0; profile < SECCOMP_PROFILES; profile++) {
		CLEANUP(buf) struct buf b = BUF_INIT((size_t)1 << 20);
		CLEANUP(jread) struct jread *v = NULL;
		struct about about;
		struct json j;

		json_init(&j, &b, false);
		seccomp_json((enum seccomp_profile)profile, &j);
		read_filter(&b, &v);
		assert_null(strstr(buf_str(&b), "MASKED"));
		for (size_t i = 0; i < SYSCALL_RULES; i++) {
			const struct syscall_rule *s = &syscall_rules[i];
			enum verdict want = (enum verdict)s->verdict[profile], got;

			if (s->nr[ARCH] == NONE || str_eq(s->name, "unshare"))
				continue;
			about = rules_about(jread_get(v, "syscalls"), s->name);
			got = by_rules(&about, args);
			if (want >= ARG_SOCKET
				    ? got != V_ALLOW
				    : want != got && !(is_refusal(want) && got == V_EPERM))
				fail_msg("%s: table %d, rules %d", s->name, want, got);
		}
		about = rules_about(jread_get(v, "syscalls"), "unshare");
		assert_int_equal(by_rules(&about, lock), V_ALLOW);
		assert_int_equal(by_rules(&about, args), V_EPERM);
	}
}

static void the_filter_of_the_doors_helper_is_the_tables(void **state)
{
	CLEANUP(buf) struct buf b = BUF_INIT((size_t)1 << 20);
	CLEANUP(jread) struct jread *v = NULL;
	struct json j;

	(void)state;
	json_init(&j, &b, false);
	seccomp_json_door(&j);
	read_filter(&b, &v);
	for (size_t i = 0; i < SYSCALL_RULES; i++)
		if (syscall_rules[i].nr[ARCH] != NONE && !str_eq(syscall_rules[i].name, "unshare"))
			compare(jread_get(v, "syscalls"), SECCOMP_DEFAULT, &syscall_rules[i]);
}

/* ---- the stream ---- */

static void frames_come_apart_however_they_are_cut(void **state)
{
	const char text[] = "\1\0\0\0\0\0\0\3out\2\0\0\0\0\0\0\3err\1\0\0\0\0\0\0\0"
			    "\1\0\0\0\0\0\0\1!";

	(void)state;
	for (size_t step = 1; step < sizeof(text); step++) {
		char out[16] = "", err[16] = "";
		struct demux d = { 0 };

		for (size_t at = 0; at < sizeof(text) - 1; at += step) {
			size_t left = sizeof(text) - 1 - at < step ? sizeof(text) - 1 - at : step;
			const char *p = text + at, *data;
			size_t n;
			int stream;

			while ((stream = demux_next(&d, &p, &left, &data, &n)) > 0)
				(void)strncat(stream == 1 ? out : err, data, n);
			assert_int_equal(stream, 0);
		}
		assert_string_equal(out, "out!");
		assert_string_equal(err, "err");
	}
}

static void what_is_no_frame_is_refused(void **state)
{
	static const char bad[][8] = { { 3, 0, 0, 0, 0, 0, 0, 1 },
				       { 1, 1, 0, 0, 0, 0, 0, 1 },
				       { 'H', 'T', 'T', 'P', '/', '1', '.', '1' } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct demux d = { 0 };
		const char *p = bad[i], *data;
		size_t left = sizeof(bad[i]), n;

		assert_int_equal(demux_next(&d, &p, &left, &data, &n), -EBADMSG);
	}
}

/* ---- where an engine may be ---- */

static void an_address_that_was_named_is_the_only_one(void **state)
{
	CLEANUP(arena) struct arena *a = arena_new((size_t)1 << 20);
	struct engine_places at;
	struct err e = { 0 };

	(void)state;
	must(clearenv() == 0 && setenv("HOME", "/home/x", 1) == 0);
	assert_int_equal(engine_places(a, &at, &e), 0);
	assert_false(at.named);
	assert_string_equal(at.path[0], "/var/run/docker.sock");
	assert_true(at.n > 5);
	must(setenv("DOCKER_HOST", "unix:///x/y.sock", 1) == 0);
	assert_int_equal(engine_places(a, &at, &e), 0);
	assert_true(at.named && at.n == 1);
	assert_string_equal(at.path[0], "/x/y.sock");
	must(setenv("DOCKER_HOST", "ssh://there", 1) == 0);
	assert_int_equal(engine_places(a, &at, &e), -ENOTSUP);
	must(unsetenv("DOCKER_HOST") == 0 && setenv("DOCKER_CONTEXT", "gone", 1) == 0);
	assert_int_equal(engine_places(a, &at, &e), -ENOENT);
	must(clearenv() == 0);
}

static void a_name_of_an_image_is_no_flag_and_no_path(void **state)
{
	(void)state;
	assert_true(image_valid("python:3.12-slim"));
	assert_true(image_valid("127.0.0.1:5000/a/b@sha256:0123"));
	assert_false(image_valid(""));
	assert_false(image_valid("-v"));
	assert_false(image_valid("/etc"));
	assert_false(image_valid("a b"));
	assert_false(image_valid("a?b=c"));
	assert_false(image_valid("a%2fb"));
	assert_false(image_valid("a:"));
	assert_false(image_valid("@sha256:0123"));
}

static int reads(const char *text, const char *registry, struct login *l)
{
	struct err e = { 0 };

	*l = (struct login){ 0 };
	return login_read(text, strlen(text), registry, l, &e);
}

static void credentials_are_found_under_the_names_a_registry_has(void **state)
{
	const char *text =
		"{\"auths\":{\"https://index."
		"docker.io/v1/\":{\"auth\":\"YTpi\"},"
		"\"r.test:5000\":{\"auth\":\"dTpwOnE=\"},\"t.test\":{\"identitytoken\":\"x\"},"
		"\"bad.test\":{\"auth\":\"YQ==\"},\"empty.test\":{}}}";
	struct login l;
	char out[64];

	(void)state;
	assert_string_equal(login_registry("python:3", out, sizeof(out)), "docker.io");
	assert_string_equal(login_registry("team/tool", out, sizeof(out)), "docker.io");
	assert_string_equal(login_registry("localhost/tool", out, sizeof(out)), "localhost");
	assert_string_equal(login_registry("r.test:5000/a/b:1", out, sizeof(out)), "r.test:5000");
	assert_int_equal(reads(text, "docker.io", &l), 0);
	assert_string_equal(l.user, "a");
	assert_string_equal(l.secret, "b");
	assert_int_equal(reads(text, "r.test:5000", &l), 0);
	assert_string_equal(l.secret, "p:q");
	assert_int_equal(reads(text, "t.test", &l), 0);
	assert_true(!l.user[0] && l.secret[0] == 'x');
	assert_int_equal(reads(text, "r.test", &l), 1);
	assert_int_equal(reads(text, "empty.test", &l), 1);
	assert_true(reads(text, "bad.test", &l) < 0);
	assert_true(reads("{\"credsStore\":\"../x\"}", "r.test", &l) < 0);
	assert_int_equal(reads("{\"credsStore\":\"pass\",\"credHelpers\":{\"r.test\":\"own\"}}",
			       "r.test", &l),
			 0);
	assert_string_equal(l.helper, "own");
}

static void the_gate_sees_that_the_guard_is_gone(void **state UNUSED)
{
	int pair[2];

	must(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	assert_true(gate_answer(pair[0])); /* there, and silent */
	(void)close(pair[1]);
	errno = EAGAIN; /* as left by whatever was called before */
	assert_false(gate_answer(pair[0]));
	(void)close(pair[0]);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(the_engines_filter_has_the_tables_calls),
	cmocka_unit_test(the_filter_of_the_doors_helper_is_the_tables),
	cmocka_unit_test(frames_come_apart_however_they_are_cut),
	cmocka_unit_test(what_is_no_frame_is_refused),
	cmocka_unit_test(an_address_that_was_named_is_the_only_one),
	cmocka_unit_test(a_name_of_an_image_is_no_flag_and_no_path),
	cmocka_unit_test(credentials_are_found_under_the_names_a_registry_has),
	cmocka_unit_test(the_gate_sees_that_the_guard_is_gone),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
