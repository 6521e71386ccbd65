/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_rlm.c - RLM Code's sandbox block: documented examples, bounds, and the holes of its own
 * implementation, each named by its number in the list. */
#include "dialectcheck.h"

static const char *golden;

static int rlm(const char *text, struct spec **s, struct err *e)
{
	return read_yaml(rlm_read, text, strlen(text), s, e);
}

/* Refused, and the message (or its hint) says so. */
static void refused(const char *text, const char *part)
{
	CLEANUP(spec) struct spec *s = NULL;
	struct err e;

	print_message("%s\n", text);
	assert_true(rlm(text, &s, &e) < 0);
	if (!strstr(e.what, part) && !strstr(e.hint, part))
		fail_msg("'%s' is neither in '%s' nor in '%s'", part, e.what, e.hint);
	assert_true(e.kind == ERR_CONFIG || e.kind == ERR_POLICY || e.kind == ERR_UNAVAILABLE);
}

static struct spec *taken(const char *text)
{
	struct spec *s = NULL;
	struct err e;

	if (rlm(text, &s, &e) < 0)
		fail_msg("%s: %s", text, e.what);
	return s;
}

static void one_example(const char *path, const char *stem, const char *folder)
{
	expect_example(rlm_read, DIALECT_RLM, path, stem, folder);
}

static void documented_examples_resolve_as_documented(void **state UNUSED)
{
	char folder[PATH_MAX];

	(void)snprintf(folder, sizeof(folder), "%s/rlm", golden);
	assert_int_equal(each_example(folder, ".yaml", one_example), 7);
}

static void a_default_is_no_request_and_a_written_value_is(void **state UNUSED)
{
	CLEANUP(spec)
	struct spec *s = taken("sandbox:\n  runtime: docker\n  docker: {cpus: null}\n");

	assert_true(spec_wrote(s, FIELD_BACKEND));
	assert_string_equal(s->where[FIELD_BACKEND], "f:2:12");
	assert_true(spec_wrote(s, FIELD_CPUS));
	assert_false(spec_wrote(s, FIELD_MEMORY));
	assert_false(spec_wrote(s, FIELD_NETWORK));
	assert_int_equal(s->origin[FIELD_MEMORY], ORIGIN_DIALECT);
	assert_null(s->where[FIELD_MEMORY]);
}

static void a_flag_wins_over_the_file(void **state UNUSED)
{
	static const char text[] =
		"sandbox:\n  runtime: local\n  docker: {network_enabled: true}\n";
	CLEANUP(spec) struct spec *s = spec_new(&(struct err){ 0 });
	struct node *root;
	struct err e;

	assert_int_equal(spec_set(s, FIELD_BACKEND, "docker", ORIGIN_FLAG, &e), 0);
	assert_int_equal(spec_set(s, FIELD_MEMORY, "64m", ORIGIN_FLAG, &e), 0);
	assert_int_equal(yaml_parse(s->arena, "f", text, strlen(text), &root, &e), 0);
	assert_int_equal(rlm_read(s, &here, root, &e), 0);
	assert_int_equal(s->backend, BACKEND_DOCKER);
	assert_int_equal(s->limits.memory, 64 << 20);
	/* docker is what will run, so its block applies */
	assert_int_equal(s->network, NETWORK_BRIDGE);
}

static void hole_2_8_2_a_mistyped_runtime_never_becomes_local(void **state UNUSED)
{
	refused("sandbox: {runtime: dokcer}", "did you mean 'docker'");
	refused("sandbox: {runtime: docker2}", "did you mean 'docker'");
	refused("sandbox: {runtime: loacl}", "did you mean 'local'");
	refused("sandbox: {runtime: ''}", "unknown runtime");
	refused("sandbox: {runtime: podman}", "unknown runtime 'podman'");
	refused("sandbox: {runtime: [docker]}", "expected a value, not a list");
}

static void hole_2_8_2_no_runtime_falls_through_to_another(void **state UNUSED)
{
	static const char *const others[] = { "monty", "apple-container", "modal", "e2b",
					      "daytona" };
	char text[96];

	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		(void)snprintf(text, sizeof(text), "sandbox: {runtime: %s}", others[i]);
		refused(text, "is not one that brig has");
	}
	refused("sandbox: {superbox_fallback_runtimes: [docker, local]}", "local is the host");
	refused("sandbox: {superbox_fallback_runtimes: [dcoker]}", "did you mean 'docker'");
	refused("sandbox: {superbox_profile: dev}", "falls back to the host");
	refused("sandbox: {superbox_profile: Dev}", "falls back to the host");
	refused("sandbox: {superbox_profile: securr}", "did you mean 'secure'");
}

static void hole_2_8_2_a_blocked_flag_ends_the_reading(void **state UNUSED)
{
	refused("sandbox:\n  superbox_auto_fallback: true\n  docker:\n    extra_args: "
		"[--privileged]\n",
		"Docker extra arg '--privileged' is blocked by sandbox policy.");
}

static void blocked_flags_have_exactly_the_documented_text(void **state UNUSED)
{
	static const char *const flags[] = {
		"--privileged", "--pid=host",    "--network=host",   "--ipc=host",
		"--uts=host",   "--cap-add=ALL", "--volume",         "-v",
		"--mount",      "--volume=/:/x", "--mount=type=bind"
	};
	char text[128], want[128];

	for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
		CLEANUP(spec) struct spec *s = NULL;
		struct err e;

		(void)snprintf(text, sizeof(text), "sandbox: {docker: {extra_args: ['%s']}}",
			       flags[i]);
		(void)snprintf(want, sizeof(want),
			       "Docker extra arg '%s' is blocked by sandbox policy.", flags[i]);
		assert_true(rlm(text, &s, &e) < 0);
		assert_string_equal(e.what, want);
		assert_int_equal(e.kind, ERR_POLICY);
		assert_non_null(strstr(e.hint, "f:1:"));
	}
}

static void hole_2_8_5_other_spellings_of_blocked_flags_are_refused_too(void **state UNUSED)
{
	static const char *const lists[] = {
		"[--pid, host]",
		"[--network, host]",
		"[--net=host]",
		"[--cap-add=SYS_ADMIN]",
		"[--cap-add, ALL]",
		"[--privileged=true]",
		"['-v/:/x']",
		"[--device=/dev/sda]",
		"[--userns=host]",
		"[--security-opt, a=b]",
		"[--volumes-from=x]",
		"[--cgroupns=host]",
		"[bare]",
		"[--priv]",
	};
	char text[128];

	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		(void)snprintf(text, sizeof(text), "sandbox: {docker: {extra_args: %s}}", lists[i]);
		refused(text, "is blocked by sandbox policy.");
		(void)snprintf(text, sizeof(text), "sandbox: {apple: {extra_args: %s}}", lists[i]);
		refused(text, "is blocked by sandbox policy.");
	}
}

static void hole_2_8_4_the_network_stays_off_whatever_else_is_set(void **state UNUSED)
{
	CLEANUP(spec)
	struct spec *s = taken("sandbox:\n"
			       "  env_allowlist: [LANG]\n"
			       "  pure_rlm_strict: false\n"
			       "  apple: {network_enabled: true}\n"
			       "  docker: {network_enabled: false, cpus: 2}\n");

	assert_int_equal(s->network, NETWORK_NONE);
	assert_true(spec_wrote(s, FIELD_NETWORK));
}

static void hole_2_8_6_processes_output_and_the_user_are_bounded(void **state UNUSED)
{
	CLEANUP(spec) struct spec *s = taken("sandbox: {runtime: docker}");

	assert_int_equal(s->limits.pids, 256);
	assert_int_equal(s->command.output, 65536);
	assert_false(s->user.given);
	assert_string_equal(s->docker.user, "auto");
}

static void hole_2_8_8_silence_means_docker_and_not_the_host(void **state UNUSED)
{
	CLEANUP(spec) struct spec *s = taken("sandbox: {default_timeout_seconds: 5}");

	assert_int_equal(s->backend, BACKEND_DOCKER);
	assert_int_equal(s->command.timeout, 5000);
}

static void code_on_the_host_by_another_name_is_refused(void **state UNUSED)
{
	refused("sandbox: {pure_rlm_allow_unsafe_exec: true}", "runs code on the host");
	refused("sandbox: {pure_rlm_backend: exec}", "runs code on the host");
	refused("sandbox: {pure_rlm_backend: monty}", "is not one that brig has");
	refused("sandbox: {pure_rlm_backend: dockr}", "did you mean 'docker'");
	refused("sandbox: {pure_rlm_allow_unsafe_exec: 1}", "neither true nor false");
}

static void hole_2_1_a_limit_of_zero_is_refused_and_not_replaced(void **state UNUSED)
{
	static const char *const keys[] = { "sandbox: {memory_limit_mb: %s}",
					    "sandbox: {docker: {memory_limit_mb: %s}}",
					    "sandbox: {apple: {memory_limit_mb: %s}}",
					    "sandbox: {default_timeout_seconds: %s}" };
	static const char *const values[] = { "0",   "-1",  "512m", "1.5",
					      "01",  "1e3", "0x10", "\"\"",
					      "[1]", "{}",  "true", "99999999999999999999999" };
	char text[128];

	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		for (size_t j = 0; j < ARRAY_LEN(values); j++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
			(void)snprintf(text, sizeof(text), keys[i], values[j]);
#pragma GCC diagnostic pop
			refused(text, "f:1:");
		}
	refused("sandbox: {docker: {cpus: 0}}", "null means no quota");
	refused("sandbox: {docker: {cpus: -1}}", "null means no quota");
	refused("sandbox: {docker: {cpus: many}}", "null means no quota");
	refused("sandbox: {docker: {cpus: 9999999}}", "out of bounds");
}

static void the_limit_of_the_docker_block_wins_over_the_general_one(void **state UNUSED)
{
	CLEANUP(spec) struct spec *a = taken("sandbox: {memory_limit_mb: 64}");
	CLEANUP(spec)
	struct spec *b = taken("sandbox: {memory_limit_mb: 64, docker: {memory_limit_mb: 96}}");

	assert_int_equal(a->limits.memory, 64 << 20);
	assert_int_equal(b->limits.memory, 96 << 20);
}

static void mount_roots_are_the_files_folder_and_tmp_or_what_is_listed(void **state UNUSED)
{
	CLEANUP(spec) struct spec *s = taken("sandbox: {allowed_mount_roots: [., sub/../x, '~']}");

	assert_int_equal(s->mount_roots.n, 3);
	assert_string_equal(s->mount_roots.v[0], "/project");
	assert_string_equal(s->mount_roots.v[1], "/project/x");
	assert_string_equal(s->mount_roots.v[2], "/home/me");
	refused("sandbox: {allowed_mount_roots: []}", "permits nothing");
	refused("sandbox: {allowed_mount_roots: [/]}", "permits everything");
	refused("sandbox: {allowed_mount_roots: [../..]}", "permits everything");
	refused("sandbox: {allowed_mount_roots: [~root]}", "only '~' and '~/' are known");
	refused("sandbox: {allowed_mount_roots: /tmp}", "expected a list");
	refused("sandbox: {allowed_mount_roots: [null]}", "path is missing");
}

static void variables_pass_only_through_the_scrub(void **state UNUSED)
{
	refused("sandbox: {env_allowlist: [AWS_SECRET_ACCESS_KEY]}",
		"the name is that of a secret");
	refused("sandbox: {env_allowlist: [OPENAI_API_KEY]}", "the name is that of a secret");
	refused("sandbox: {env_allowlist: ['A=b']}", "not a variable name");
	refused("sandbox: {env_allowlist: LANG}", "expected a list");
}

static void unknown_keys_are_refused_with_the_nearest(void **state UNUSED)
{
	refused("sandbox: {runtme: docker}", "did you mean 'runtime'");
	refused("sandbox: {docker: {imgae: x}}", "did you mean 'image'");
	refused("sandbox: {docker: {network: host}}", "unknown key 'network'");
	refused("sandbox: {network_enabled: false}", "sandbox.docker");
	refused("sandbox: {extra_args: [--privileged]}", "sandbox.docker");
	refused("sandbox: {apple: {mount: x}}", "unknown key 'mount'");
	refused("sandbox: [docker]", "expected a map");
	refused("sandbox: docker", "expected a map");
	refused("sandbx: {runtime: docker}", "no 'sandbox'");
}

static void wrong_types_are_refused(void **state UNUSED)
{
	refused("sandbox: {docker: {network_enabled: 'false'}}", "write it without quotes");
	refused("sandbox: {docker: {network_enabled: 0}}", "neither true nor false");
	refused("sandbox: {docker: {extra_args: '--init'}}", "expected a list");
	refused("sandbox: {docker: {extra_args: [{a: b}]}}", "expected a text");
	refused("sandbox: {docker: {image: '-v'}}", "not the name of an image");
	refused("sandbox: {docker: {image: 'a b'}}", "not the name of an image");
	refused("sandbox: {docker: {image: ''}}", "not the name of an image");
	refused("sandbox: {docker: [image]}", "expected a map");
	refused("sandbox: {superbox_auto_fallback: 3}", "neither true nor false");
	refused("sandbox: {pure_rlm_output_mode: sumarize}", "did you mean 'summarize'");
	refused("sandbox: {monty_max_memory: lots}", "not a whole number");
}

static void a_thousand_mutations_are_errors_or_not_weaker(void **state UNUSED)
{
	char path[PATH_MAX], base_text[4096], text[8192];
	CLEANUP(spec) struct spec *base = NULL;
	uint64_t seed = 2;
	size_t n;
	struct err e;

	(void)snprintf(path, sizeof(path), "%s/rlm/setup.yaml", golden);
	n = read_text_file(path, base_text, sizeof(base_text));
	assert_int_equal(read_yaml(rlm_read, base_text, n, &base, &e), 0);
	for (int i = 0; i < 1000; i++) {
		CLEANUP(spec) struct spec *s = NULL;
		size_t len = n;

		memcpy(text, base_text, n + 1);
		mutate(text, &len, sizeof(text), &seed);
		if (read_yaml(rlm_read, text, len, &s, &e) == 0)
			assert_not_weaker(base, s);
		else
			assert_true(e.what[0] && e.code > 0);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(documented_examples_resolve_as_documented),
	cmocka_unit_test(a_default_is_no_request_and_a_written_value_is),
	cmocka_unit_test(a_flag_wins_over_the_file),
	cmocka_unit_test(hole_2_8_2_a_mistyped_runtime_never_becomes_local),
	cmocka_unit_test(hole_2_8_2_no_runtime_falls_through_to_another),
	cmocka_unit_test(hole_2_8_2_a_blocked_flag_ends_the_reading),
	cmocka_unit_test(blocked_flags_have_exactly_the_documented_text),
	cmocka_unit_test(hole_2_8_5_other_spellings_of_blocked_flags_are_refused_too),
	cmocka_unit_test(hole_2_8_4_the_network_stays_off_whatever_else_is_set),
	cmocka_unit_test(hole_2_8_6_processes_output_and_the_user_are_bounded),
	cmocka_unit_test(hole_2_8_8_silence_means_docker_and_not_the_host),
	cmocka_unit_test(code_on_the_host_by_another_name_is_refused),
	cmocka_unit_test(hole_2_1_a_limit_of_zero_is_refused_and_not_replaced),
	cmocka_unit_test(the_limit_of_the_docker_block_wins_over_the_general_one),
	cmocka_unit_test(mount_roots_are_the_files_folder_and_tmp_or_what_is_listed),
	cmocka_unit_test(variables_pass_only_through_the_scrub),
	cmocka_unit_test(unknown_keys_are_refused_with_the_nearest),
	cmocka_unit_test(wrong_types_are_refused),
	cmocka_unit_test(a_thousand_mutations_are_errors_or_not_weaker),
};

int main(int argc, char **argv)
{
	golden = argc > 1 ? argv[1] : "tests/golden";
	return cmocka_run_group_tests(tests, NULL, NULL);
}
