/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_ironclaw.c - env files, SANDBOX_* variables, allowlist groups, and the holes of
 * IronClaw's own implementation, each named by its number in the list. */
#include "dialectcheck.h"

#include "model/settings/groups.h"

static const char *golden;
static const struct source ambient = { .name = "environment",
				       .folder = "/project",
				       .home = "/home/me",
				       .origin = ORIGIN_ENVIRONMENT };

static int file(const char *text, struct spec **s, struct err *e)
{
	return read_env(text, strlen(text), &here, s, e);
}

static void refused(const char *text, const char *part)
{
	CLEANUP(spec) struct spec *s = NULL;
	struct err e;

	print_message("%s\n", text);
	assert_true(file(text, &s, &e) < 0);
	if (!strstr(e.what, part) && !strstr(e.hint, part))
		fail_msg("'%s' is neither in '%s' nor in '%s'", part, e.what, e.hint);
	assert_true(e.kind == ERR_CONFIG || e.kind == ERR_POLICY);
}

static struct spec *taken(const char *text)
{
	struct spec *s = NULL;
	struct err e;

	if (file(text, &s, &e) < 0)
		fail_msg("%s: %s", text, e.what);
	return s;
}

/* One variable of the environment. */
static int from_environment(struct spec *s, const char *name, const char *value, struct err *e)
{
	struct env_line l = { .name = name, .value = value };

	return ironclaw_read(s, &ambient, &l, 1, e);
}

/* --- the file --- */

static void expect_lines(const char *text, size_t n, const struct env_line *want)
{
	CLEANUP(arena) struct arena *a = arena_new(1 << 22);
	struct env_line *got = NULL;
	size_t count = 0;
	struct err e;

	if (env_file_parse(a, &here, text, strlen(text), &got, &count, &e) < 0)
		fail_msg("%s: %s", text, e.what);
	assert_int_equal(count, n);
	for (size_t i = 0; i < n; i++) {
		assert_string_equal(got[i].name, want[i].name);
		assert_string_equal(got[i].value, want[i].value);
		assert_int_equal(got[i].line, want[i].line);
	}
}

static void lines_are_names_and_values(void **state UNUSED)
{
	static const struct env_line all[] = {
		{ "A", "1", 1 },
		{ "B", "two words", 4 },
		{ "C", "x#y", 5 },
		{ "D", "", 6 },
		{ "E", "", 7 },
		{ "F", "# no comment", 8 },
		{ "G", "it's", 9 },
		{ "H", "a\"b\\c$d`", 10 },
		{ "I", "\\n $X", 11 },
		{ "J", "a\nb", 12 },
		{ "K", "v", 14 },
		{ "_l9", "t", 15 },
		{ "M", "spaced out", 16 },
	};

	expect_lines("A=1\n"
		     "\n"
		     "  # comment = not a line\n"
		     "export B=two words   # and why\n"
		     "C=x#y\n"
		     "D=\n"
		     "E= # nothing\n"
		     "F=\"# no comment\" # comment\n"
		     "G=\"it's\"\n"
		     "H=\"a\\\"b\\\\c\\$d\\`\"\n"
		     "I='\\n $X'\n"
		     "J=\"a\n"
		     "b\"\n"
		     "\texport\tK=v\n"
		     "_l9=t\n"
		     "M = spaced out",
		     ARRAY_LEN(all), all);
	expect_lines("", 0, NULL);
	expect_lines("\n\n#\n   ", 0, NULL);
}

static void broken_lines_are_refused_with_their_number(void **state UNUSED)
{
	refused("A=1\nB\n", "f:2:2: no '='");
	refused("A=1\n\nexport B\n", "f:3:9: no '='");
	refused("=x\n", "f:1:1: '' is not a variable name");
	refused("1A=x\n", "f:1:1: '1A' is not a variable name");
	refused("A-B=x\n", "f:1:1: 'A-B'");
	refused("A B=x\n", "f:1:3: no '='");
	refused("A=1\nA=2\n", "f:2: 'A' appears twice, first in line 1");
	refused("A=1\r\nB=2\r\n", "f:1:4: a carriage return");
	refused("A=\"x\n", "f:1:3: a quote that is not closed");
	refused("A='x\n", "f:1:3: a quote that is not closed");
	refused("A=\"x\" y\n", "f:1:7: more text behind");
	refused("A='x'y\n", "f:1:6: more text behind");
	refused("- a: list\n", "no '='");
	refused("\xef\xbb\xbf"
		"A=1\n",
		"is not a variable name");
}

static void nul_bytes_and_big_files_are_refused(void **state UNUSED)
{
	CLEANUP(spec) struct spec *s = NULL;
	size_t n = ((size_t)1 << 20) + 1;
	char *big = malloc(n);
	struct err e;

	assert_non_null(big);
	assert_true(read_env("A=1\nB\0=2\n", 9, &here, &s, &e) < 0);
	assert_string_equal(e.what, "f:2:2: a NUL character");
	s = spec_free(s);
	memset(big, '\n', n);
	assert_true(read_env(big, n, &here, &s, &e) < 0);
	assert_non_null(strstr(e.what, "larger than 1 MiB"));
	s = spec_free(s);
	assert_int_equal(read_env(big, n - 1, &here, &s, &e), 0);
	s = spec_free(s);
	for (size_t i = 0; i + 2 < n; i += 2)
		memcpy(big + i, "\"\n", 2);
	memcpy(big, "A=", 2);
	assert_true(read_env(big, n - 1, &here, &s, &e) < 0);
	free(big);
}

static void too_many_variables_are_refused(void **state UNUSED)
{
	CLEANUP(buf) struct buf b = BUF_INIT(1 << 20);
	CLEANUP(spec) struct spec *s = NULL;
	struct err e;

	for (int i = 0; i < 5000; i++)
		buf_printf(&b, "V%d=\n", i);
	assert_true(read_env(b.data, b.len, &here, &s, &e) < 0);
	assert_non_null(strstr(e.what, "more than 4096 variables"));
}

static void a_forgotten_quote_swallows_no_setting(void **state UNUSED)
{
	refused("A=\"x\nSANDBOX_POLICY=readonly\nB=\"\n", "f:1:3: a quote that runs over");
	refused("A='x\n  export SANDBOX_POLICY=readonly\nB='\n", "f:1:3: a quote that runs over");
	refused("SANDBOX_IMAGE=\"a\nb\"\n", "of one line");
}

static void nothing_is_expanded(void **state UNUSED)
{
	refused("SANDBOX_IMAGE=$IMAGE\n", "nothing is expanded");
	refused("SANDBOX_IMAGE=\"$IMAGE\"\n", "without '$'");
	refused("SANDBOX_IMAGE=`id`\n", "nothing is expanded");
	refused("SANDBOX_POLICY=read\\only\n", "nothing is expanded");
	refused("SANDBOX_POLICY=read'only'\n", "nothing is expanded");
	refused("SANDBOX_IMAGE='$X'\n", "not the name of an image");
}

/* --- the settings --- */

static void one_example(const char *path, const char *stem, const char *folder)
{
	CLEANUP(spec) struct spec *s = NULL;
	char text[16384];
	size_t n = read_text_file(path, text, sizeof(text));
	struct err e;

	if (read_env(text, n, &here, &s, &e) < 0)
		fail_msg("%s", e.what);
	expect_file(s, folder, stem);
	assert_true(dialect_is_env(text, n));
}

static void documented_examples_resolve_as_documented(void **state UNUSED)
{
	char folder[PATH_MAX];

	(void)snprintf(folder, sizeof(folder), "%s/ironclaw", golden);
	assert_int_equal(each_example(folder, ".env", one_example), 7);
}

static void policies_have_aliases_and_no_silent_default(void **state UNUSED)
{
	static const struct {
		const char *word;
		enum policy policy;
	} all[] = {
		{ "readonly", POLICY_READONLY },
		{ "read_only", POLICY_READONLY },
		{ "ro", POLICY_READONLY },
		{ "ReadOnly", POLICY_READONLY },
		{ "workspacewrite", POLICY_WORKSPACE_WRITE },
		{ "workspace_write", POLICY_WORKSPACE_WRITE },
		{ "rw", POLICY_WORKSPACE_WRITE },
		{ "fullaccess", POLICY_FULL_ACCESS },
		{ "full_access", POLICY_FULL_ACCESS },
		{ "full", POLICY_FULL_ACCESS },
		{ "none", POLICY_FULL_ACCESS },
	};
	char text[64];

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		CLEANUP(spec) struct spec *s = NULL;

		(void)snprintf(text, sizeof(text), "SANDBOX_POLICY=%s\n", all[i].word);
		s = taken(text);
		assert_int_equal(s->policy, all[i].policy);
		assert_true(spec_wrote(s, FIELD_POLICY));
		assert_string_equal(s->where[FIELD_POLICY], "f:1");
	}
	refused("SANDBOX_POLICY=readnoly\n", "did you mean 'readonly'");
	refused("SANDBOX_POLICY=workspace-write\n", "did you mean 'workspace_write'");
	refused("SANDBOX_POLICY=paranoid\n", "f:1: SANDBOX_POLICY: unknown policy 'paranoid'");
	refused("SANDBOX_POLICY=\n", "the value is empty");
}

static void hole_4_10_8_full_access_waits_for_the_opt_in(void **state UNUSED)
{
	CLEANUP(spec) struct spec *s = taken("SANDBOX_POLICY=full_access\n");
	CLEANUP(spec) struct spec *off = taken("SANDBOX_ENABLED=false\n");

	assert_false(s->full_access_ok);
	assert_int_equal(off->backend, BACKEND_NONE);
	assert_false(off->full_access_ok);
}

static void the_opt_in_counts_only_in_a_trusted_file(void **state UNUSED)
{
	static const char text[] = "SANDBOX_ALLOW_FULL_ACCESS=true\n";
	struct source stranger = here;
	CLEANUP(spec) struct spec *trusted = taken(text), *untrusted = NULL, *env = NULL;
	struct err e = { 0 };

	assert_true(trusted->full_access_ok);
	stranger.trusted = false;
	assert_true(read_env(text, strlen(text), &stranger, &untrusted, &e) < 0);
	assert_int_equal(e.kind, ERR_POLICY);
	env = spec_new(&e);
	assert_int_equal(from_environment(env, "SANDBOX_ALLOW_FULL_ACCESS", "true", &e), 0);
	assert_false(env->full_access_ok);
	assert_true(has_note(env, "does not count"));
}

static void the_environment_adds_to_the_file(void **state UNUSED)
{
	CLEANUP(spec)
	struct spec *s = taken("SANDBOX_ENABLED=false\nSANDBOX_TIMEOUT=5\n"
			       "SANDBOX_IMAGE=a:1\n");
	struct err e;

	assert_int_equal(from_environment(s, "SANDBOX_ENABLED", "true", &e), 0);
	assert_int_equal(s->backend, BACKEND_DOCKER);
	assert_int_equal(from_environment(s, "SANDBOX_TIMEOUT", "6", &e), 0);
	assert_int_equal(s->command.timeout, 6000);
	assert_string_equal(s->where[FIELD_TIMEOUT], "SANDBOX_TIMEOUT");
	assert_string_equal(s->image, "a:1");
	assert_int_equal(s->egress.groups.n, GROUP_COUNT);
}

static void an_environment_without_our_names_changes_nothing(void **state UNUSED)
{
	CLEANUP(spec) struct spec *s = spec_new(&(struct err){ 0 });
	struct err e;

	assert_int_equal(from_environment(s, "PATH", "/bin", &e), 0);
	assert_int_equal(from_environment(s, "SANDBOX_POLICY", "", &e), 0);
	assert_int_equal(s->notes.n, 0);
	assert_int_equal(from_environment(s, "SANDBOX_COLOUR", "red", &e), 0);
	assert_true(has_note(s, "SANDBOX_COLOUR"));
	assert_int_equal(s->backend, BACKEND_AUTO);
	assert_int_equal(s->origin[FIELD_NETWORK], ORIGIN_DEFAULT);
}

static void broken_values_of_the_environment_are_refused(void **state UNUSED)
{
	CLEANUP(spec) struct spec *s = spec_new(&(struct err){ 0 });
	struct err e;

	assert_true(from_environment(s, "SANDBOX_POLICY", "readnoly", &e) < 0);
	assert_string_equal(e.what, "variable SANDBOX_POLICY: unknown policy 'readnoly'");
	assert_true(from_environment(s, "SANDBOX_TIMEOUT", "1\n", &e) < 0);
}

static void unknown_names_of_a_file_are_refused_with_the_nearest(void **state UNUSED)
{
	CLEANUP(spec) struct spec *s = taken("PAYPAL_SANDBOX_ENABLED=x\nOPENAI_KEY=y\nIMAGE=z\n");

	assert_int_equal(s->notes.n, 0);
	refused("SANDBOX_POLICE=readonly\n", "did you mean 'SANDBOX_POLICY'");
	refused("SANDBOX_COLOUR=red\n", "unknown variable 'SANDBOX_COLOUR'");
	refused("sandbox_policy=readonly\n", "unknown variable 'sandbox_policy'");
	refused("SANBOX_POLICY=readonly\n", "did you mean 'SANDBOX_POLICY'");
	refused("SANDBOXPOLICY=readonly\n", "did you mean 'SANDBOX_POLICY'");
}

static void hole_4_2_every_documented_name_is_read(void **state UNUSED)
{
	CLEANUP(spec)
	struct spec *s = taken("SANDBOX_ALLOWLIST=a.example.com\n"
			       "SANDBOX_TIMEOUT=7\nSANDBOX_PROXY_PORT=99\n");

	assert_string_equal(s->egress.allow.v[0], "a.example.com");
	assert_int_equal(s->command.timeout, 7000);
	assert_int_equal(s->egress.port, 99);
}

static void two_names_of_one_setting_must_agree(void **state UNUSED)
{
	CLEANUP(spec) struct spec *same = taken("SANDBOX_TIMEOUT=9\nSANDBOX_TIMEOUT_SECS=9\n");
	CLEANUP(spec)
	struct spec *both =
		taken("SANDBOX_ALLOWLIST=a.example.com\nSANDBOX_EXTRA_DOMAINS=b.example.com\n");

	assert_int_equal(same->command.timeout, 9000);
	assert_int_equal(both->egress.allow.n, 2);
	refused("SANDBOX_TIMEOUT=9\nSANDBOX_TIMEOUT_SECS=8\n", "they are one setting");
	refused("SANDBOX_TIMEOUT_SECS=8\nSANDBOX_TIMEOUT=9\n", "they are one setting");
}

static void numbers_are_whole_and_in_bounds(void **state UNUSED)
{
	static const char *const names[] = { "SANDBOX_TIMEOUT",
					     "SANDBOX_TIMEOUT_SECS",
					     "SANDBOX_MEMORY_LIMIT_MB",
					     "SANDBOX_CPU_SHARES",
					     "SANDBOX_REAPER_INTERVAL_SECS",
					     "SANDBOX_ORPHAN_THRESHOLD_SECS" };
	static const char *const values[] = { "0",    "-1",  "1.5",
					      "2g",   "60s", "09",
					      "lots", "1 2", "99999999999999999999999999" };
	char text[128];

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		for (size_t j = 0; j < ARRAY_LEN(values); j++) {
			(void)snprintf(text, sizeof(text), "%s=%s\n", names[i], values[j]);
			refused(text, names[i]);
		}
	refused("SANDBOX_PROXY_PORT=65536\n", "out of bounds");
	refused("SANDBOX_CPU_SHARES=1\n", "out of bounds");
	refused("SANDBOX_MEMORY_LIMIT_MB=99999999999\n", "out of bounds");
	refused("SANDBOX_REAPER_INTERVAL_SECS=0\n", "must be greater than 0");
	refused("SANDBOX_ORPHAN_THRESHOLD_SECS=0\n", "must be greater than 0");
	refused("SANDBOX_AUTO_PULL=yes\n", "neither true nor false");
	refused("SANDBOX_ENABLED=off\n", "neither true nor false");
	refused("SANDBOX_IMAGE=-v\n", "not the name of an image");
}

static void hole_4_10_1_and_9_the_defaults_have_a_proxy_and_a_pids_limit(void **state UNUSED)
{
	CLEANUP(spec) struct spec *s = taken("SANDBOX_ENABLED=true\n");

	assert_int_equal(s->network, NETWORK_PROXY);
	assert_true(s->egress.https_only);
	assert_int_equal(s->limits.pids, 256);
	assert_int_equal(s->user.uid, 1000);
	assert_int_equal(s->user.gid, 1000);
	assert_false(spec_wrote(s, FIELD_BACKEND));
	assert_false(spec_wrote(s, FIELD_IMAGE));
}

/* --- hosts and groups --- */

static void hosts_are_names_and_nothing_else(void **state UNUSED)
{
	static const char *const good[] = { "example.com",   "a-b.example.com",
					    "*.example.com", "X.Y",
					    "localname",     "xn--bcher-kva.example",
					    "1a.example" };
	static const char *const bad[] = {
		"",           ".",       "a..b",    ".a",        "a.",
		"*",          "*.com",   "a.*.com", "*a.com",    "a_b.com",
		"a b.com",    "-a.com",  "a-.com",  "a.com:443", "a.com/x",
		"http://a.b", "u@a.com", "[::1]",   "127.0.0.1", "1.2.3.4",
		"2130706433", "a.0x7f",  "*.1.2",   "a\tb.com",  "\xc3\xa4.de",
		"a.com#x",    "a.com?x", "a,b",     "%2e.com",   "*.*.a.com",
	};
	char label[70], name[300];
	struct err e;

	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		if (host_check(good[i], &e) < 0)
			fail_msg("%s", e.what);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (host_check(bad[i], &e) == 0)
			fail_msg("'%s' was taken", bad[i]);
	memset(label, 'a', 64);
	label[64] = '\0';
	assert_true(host_check(label, &e) < 0);
	label[63] = '\0';
	assert_int_equal(host_check(label, &e), 0);
	(void)snprintf(name, sizeof(name), "%s.%s.%s.%s.a", label, label, label, label);
	assert_true(host_check(name, &e) < 0);
}

static void the_allowlist_extends_and_is_checked(void **state UNUSED)
{
	CLEANUP(spec)
	struct spec *s = taken("SANDBOX_ALLOWLIST=' A.example.com ,b.example.com,a.example.com'\n");
	CLEANUP(spec) struct spec *none = taken("SANDBOX_ALLOWLIST=\n");

	assert_int_equal(s->egress.allow.n, 2);
	assert_string_equal(s->egress.allow.v[0], "a.example.com");
	assert_int_equal(s->egress.groups.n, GROUP_COUNT);
	assert_int_equal(none->egress.allow.n, 0);
	assert_int_equal(none->egress.groups.n, GROUP_COUNT);
	refused("SANDBOX_ALLOWLIST=a.com,,b.com\n", "not a host name");
	refused("SANDBOX_ALLOWLIST=a.com,\n", "not a host name");
	refused("SANDBOX_ALLOWLIST=*\n", "not a host name");
	refused("SANDBOX_ALLOWLIST=*.com\n", "whole top-level domain");
	refused("SANDBOX_ALLOWLIST=https://a.com\n", "without a scheme");
	refused("SANDBOX_ALLOWLIST=a.com:8443\n", "host alone");
	refused("SANDBOX_ALLOWLIST=169.254.169.254\n", "is an address");
	refused("SANDBOX_EXTRA_DOMAINS='a.com b.com'\n", "separate hosts by commas");
	refused("SANDBOX_ALLOWLIST=@git\n", "not a host name");
}

static void an_apex_that_covers_nothing_below_is_told(void **state UNUSED)
{
	CLEANUP(spec) struct spec *apex = taken("SANDBOX_ALLOWLIST=example.com\n");
	CLEANUP(spec) struct spec *both = taken("SANDBOX_ALLOWLIST=example.com,*.example.com\n");
	CLEANUP(spec) struct spec *known = taken("SANDBOX_ALLOWLIST=crates.io,github.com\n");
	CLEANUP(spec) struct spec *deep = taken("SANDBOX_ALLOWLIST=api.example.com\n");

	assert_true(has_note(apex, "'*.example.com' would"));
	assert_int_equal(both->notes.n, 0);
	assert_int_equal(known->notes.n, 0);
	assert_int_equal(deep->notes.n, 0);
}

static void a_wildcard_covers_what_is_below_and_not_the_apex(void **state UNUSED)
{
	assert_true(host_covers("*.example.org", "a.example.org"));
	assert_true(host_covers("*.example.org", "A.B.EXAMPLE.org"));
	assert_false(host_covers("*.example.org", "example.org"));
	assert_false(host_covers("*.example.org", "badexample.org"));
	assert_false(host_covers("*.example.org", ".example.org"));
	assert_false(host_covers("*.example.org", "example.org.evil.net"));
	assert_true(host_covers("example.org", "EXAMPLE.ORG"));
	assert_false(host_covers("example.org", "a.example.org"));
}

static void groups_hold_the_documented_hosts(void **state UNUSED)
{
	static const struct {
		const char *host, *group;
	} all[] = {
		{ "crates.io", "crates" },
		{ "any.crates.io", "crates" },
		{ "any.npmjs.org", "npm" },
		{ "proxy.golang.org", "go" },
		{ "pypi.org", "pypi" },
		{ "any.pythonhosted.org", "pypi" },
		{ "docs.rs", "docs" },
		{ "doc.rust-lang.org", "docs" },
		{ "nodejs.org", "docs" },
		{ "docs.python.org", "docs" },
		{ "go.dev", "docs" },
		{ "github.com", "git" },
		{ "raw.githubusercontent.com", "git" },
		{ "gitlab.com", "git" },
		{ "api.github.com", "git" },
		{ "dl.google.com", "build" },
		{ "download.qt.io", "build" },
	};

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		const struct group *g = group_covering(all[i].host);

		print_message("%s\n", all[i].host);
		assert_non_null(g);
		assert_string_equal(g->name, all[i].group);
	}
	assert_null(group_covering("npmjs.org"));
	assert_null(group_covering("evil.github.com"));
	assert_null(group_covering("google.com"));
	for (size_t i = 0; i < GROUP_COUNT; i++)
		for (const char *const *h = groups[i].hosts; *h; h++)
			assert_int_equal(host_check(*h, &(struct err){ 0 }), 0);
}

static void groups_are_found_by_name(void **state UNUSED)
{
	const struct group *g;
	struct err e;

	assert_int_equal(group_get("@git", &g, &e), 0);
	assert_true(group_get("@gti", &g, &e) < 0);
	assert_string_equal(e.hint, "did you mean '@git'?");
	assert_true(group_get("cargo", &g, &e) < 0);
	assert_int_equal(group_get("crates", &g, &e), 0);
	assert_ptr_equal(g, group_find("@crates"));
}

static void a_thousand_mutations_are_errors_or_not_weaker(void **state UNUSED)
{
	static const char *const names[] = { "variables", "enable" };

	for (size_t k = 0; k < ARRAY_LEN(names); k++) {
		char path[PATH_MAX], base_text[4096], text[8192];
		CLEANUP(spec) struct spec *base = NULL;
		uint64_t seed = 5 + k;
		struct err e;
		size_t n;

		(void)snprintf(path, sizeof(path), "%s/ironclaw/%s.env", golden, names[k]);
		n = read_text_file(path, base_text, sizeof(base_text));
		assert_int_equal(read_env(base_text, n, &here, &base, &e), 0);
		for (int i = 0; i < 1000; i++) {
			CLEANUP(spec) struct spec *s = NULL;
			size_t len = n;

			memcpy(text, base_text, n + 1);
			mutate(text, &len, sizeof(text), &seed);
			if (read_env(text, len, &here, &s, &e) == 0)
				assert_not_weaker(base, s);
			else
				assert_true(e.what[0] && e.code > 0);
		}
	}
}

/* One policy line: whatever one byte of it becomes, it never silently means more. */
static void a_mutated_policy_line_is_an_error_or_still_readonly(void **state UNUSED)
{
	static const char line[] = "SANDBOX_POLICY=readonly\n";

	for (size_t at = 0; at < sizeof(line) - 2; at++)
		for (int c = 1; c < 256; c++) {
			char text[sizeof(line)];
			CLEANUP(spec) struct spec *s = NULL;
			struct err e;

			memcpy(text, line, sizeof(line));
			text[at] = (char)c;
			if (c == '#' && at == 0)
				continue; /* a comment is a line taken out */
			if (read_env(text, strlen(text), &here, &s, &e) == 0)
				assert_int_equal(s->policy, POLICY_READONLY);
		}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(lines_are_names_and_values),
	cmocka_unit_test(broken_lines_are_refused_with_their_number),
	cmocka_unit_test(nul_bytes_and_big_files_are_refused),
	cmocka_unit_test(too_many_variables_are_refused),
	cmocka_unit_test(a_forgotten_quote_swallows_no_setting),
	cmocka_unit_test(nothing_is_expanded),
	cmocka_unit_test(documented_examples_resolve_as_documented),
	cmocka_unit_test(policies_have_aliases_and_no_silent_default),
	cmocka_unit_test(hole_4_10_8_full_access_waits_for_the_opt_in),
	cmocka_unit_test(the_opt_in_counts_only_in_a_trusted_file),
	cmocka_unit_test(the_environment_adds_to_the_file),
	cmocka_unit_test(an_environment_without_our_names_changes_nothing),
	cmocka_unit_test(broken_values_of_the_environment_are_refused),
	cmocka_unit_test(unknown_names_of_a_file_are_refused_with_the_nearest),
	cmocka_unit_test(hole_4_2_every_documented_name_is_read),
	cmocka_unit_test(two_names_of_one_setting_must_agree),
	cmocka_unit_test(numbers_are_whole_and_in_bounds),
	cmocka_unit_test(hole_4_10_1_and_9_the_defaults_have_a_proxy_and_a_pids_limit),
	cmocka_unit_test(hosts_are_names_and_nothing_else),
	cmocka_unit_test(the_allowlist_extends_and_is_checked),
	cmocka_unit_test(an_apex_that_covers_nothing_below_is_told),
	cmocka_unit_test(a_wildcard_covers_what_is_below_and_not_the_apex),
	cmocka_unit_test(groups_hold_the_documented_hosts),
	cmocka_unit_test(groups_are_found_by_name),
	cmocka_unit_test(a_thousand_mutations_are_errors_or_not_weaker),
	cmocka_unit_test(a_mutated_policy_line_is_an_error_or_still_readonly),
};

int main(int argc, char **argv)
{
	golden = argc > 1 ? argv[1] : "tests/golden";
	return cmocka_run_group_tests(tests, NULL, NULL);
}
