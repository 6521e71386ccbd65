/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_agents.c - the YAML of agents-sandbox: examples, every rule of its validation, and the
 * holes of its own implementation, each named by its number in the list. */
#include "dialectcheck.h"

static const char *golden;

static int agents(const char *text, struct spec **s, struct err *e)
{
	return read_yaml(agents_read, text, strlen(text), s, e);
}

/* Each text is put behind the one key that must be there. */
static void refused(const char *text, const char *part)
{
	CLEANUP(spec) struct spec *s = NULL;
	char whole[2048];
	struct err e;

	print_message("%s\n", text);
	(void)snprintf(whole, sizeof(whole), "image: a:1\n%s\n", text);
	assert_true(agents(whole, &s, &e) < 0);
	if (!strstr(e.what, part) && !strstr(e.hint, part))
		fail_msg("'%s' is neither in '%s' nor in '%s'", part, e.what, e.hint);
	assert_true(str_starts(e.what, "f:") || strstr(e.what, ": f:"));
}

static struct spec *taken(const char *text)
{
	struct spec *s = NULL;
	char whole[2048];
	struct err e;

	(void)snprintf(whole, sizeof(whole), "image: a:1\n%s\n", text);
	if (agents(whole, &s, &e) < 0)
		fail_msg("%s: %s", text, e.what);
	return s;
}

static void accepted(const char *text)
{
	CLEANUP(spec) struct spec *s = taken(text);

	assert_non_null(s);
}

static void one_example(const char *path, const char *stem, const char *folder)
{
	expect_example(agents_read, DIALECT_AGENTS, path, stem, folder);
}

static void documented_fields_resolve_as_documented(void **state UNUSED)
{
	char folder[PATH_MAX];

	(void)snprintf(folder, sizeof(folder), "%s/agents", golden);
	assert_int_equal(each_example(folder, ".yaml", one_example), 4);
}

static void the_image_is_a_request_and_limits_of_none_are_not(void **state UNUSED)
{
	CLEANUP(spec) struct spec *s = taken("cpu_limit: 1");

	assert_true(spec_wrote(s, FIELD_IMAGE));
	assert_string_equal(s->where[FIELD_IMAGE], "f:1:8");
	assert_true(spec_wrote(s, FIELD_CPUS));
	assert_false(spec_wrote(s, FIELD_MEMORY));
	assert_false(spec_wrote(s, FIELD_TIMEOUT));
	assert_false(spec_wrote(s, FIELD_NETWORK));
	assert_int_equal(s->limits.memory, 0);
	assert_int_equal(s->command.timeout, 0);
}

static void a_flag_shows_a_workspace(void **state UNUSED)
{
	CLEANUP(spec) struct spec *s = spec_new(&(struct err){ 0 });
	struct node *root;
	struct err e;

	assert_int_equal(spec_set(s, FIELD_WORKDIR, "/data/w", ORIGIN_FLAG, &e), 0);
	assert_int_equal(spec_set(s, FIELD_TIMEOUT, "9s", ORIGIN_FLAG, &e), 0);
	assert_int_equal(yaml_parse(s->arena, "f", "image: a", 8, &root, &e), 0);
	assert_int_equal(agents_read(s, &here, root, &e), 0);
	assert_false(s->no_workspace);
	assert_string_equal(s->workdir, "/data/w");
	assert_int_equal(s->command.timeout, 9000);
}

static void an_image_is_required(void **state UNUSED)
{
	static const char *const texts[] = { "labels: {a: b}", "image:",       "image: ''",
					     "image: [a]",     "image: '-it'", "image: a b",
					     "image: 'a:'" };

	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		CLEANUP(spec) struct spec *s = NULL;
		struct err e;

		assert_true(agents(texts[i], &s, &e) < 0);
		assert_non_null(strstr(e.what, "image"));
	}
}

static void unknown_keys_are_refused_with_the_nearest(void **state UNUSED)
{
	refused("mount: []", "did you mean 'mounts'");
	refused("copys: []", "did you mean 'copies'");
	refused("privileged: true", "unknown key 'privileged'");
	refused("mounts: [{source: /data/a, target: /a, readonly: true}]",
		"unknown key 'readonly'");
	refused("ports: [{container: 1, host_port: 2}]", "unknown key 'container'");
	refused("companion_containers: {db: {image: a, ports: []}}", "unknown key 'ports'");
	refused("companion_containers: {db: {image: a, healthcheck: {tests: []}}}",
		"did you mean 'test'");
}

static void the_hosts_network_will_never_be_supported(void **state UNUSED)
{
	refused("network: host", "this will never be supported");
	refused("network: none", "this will never be supported");
	refused("network_mode: host", "this will never be supported");
	refused("host_network: true", "this will never be supported");
	refused("extra_hosts: ['a:1.2.3.4']", "this will never be supported");
	refused("host_services: [5432]", "this will never be supported");
}

static void sources_are_absolute_or_below_home(void **state UNUSED)
{
	accepted("mounts: [{source: /data/a, target: /a}]");
	accepted("mounts: [{source: ~/a, target: /a}]");
	accepted("mounts: [{source: '~', target: /a}]");
	refused("mounts: [{source: data, target: /a}]", "is not absolute");
	refused("mounts: [{source: ./data, target: /a}]", "is not absolute");
	refused("mounts: [{source: ~root/x, target: /a}]", "only '~' and '~/' are known");
	refused("mounts: [{source: /data/../etc/x, target: /a}]", "climbs");
	refused("mounts: [{source: ~/.., target: /a}]", "climbs");
	refused("copies: [{source: /data/.., target: /a}]", "climbs");
	refused("mounts: [{source: '/data/a:b', target: /a}]", "contains ':'");
	refused("mounts: [{source: \"/data/a\\nb\", target: /a}]", "control character");
	refused("mounts: [{target: /a}]", "'source' is missing");
	refused("mounts: [{source: /data/a}]", "'target' is missing");
	refused("mounts: [{source: '', target: /a}]", "expected a path");
	refused("mounts: [/data/a]", "expected a map");
	refused("mounts: {a: b}", "expected a list");
	refused("mounts: [{source: /data/a, target: /a, writable: 1}]", "neither true nor false");
	accepted("mounts: [{source: /data/..a, target: /a}]");
}

static void targets_are_absolute_plain_and_used_once(void **state UNUSED)
{
	refused("mounts: [{source: /data/a, target: a}]", "is not absolute");
	refused("mounts: [{source: /data/a, target: /a/}]", "plain form");
	refused("mounts: [{source: /data/a, target: /a/../b}]", "plain form");
	refused("copies: [{source: /data/a, target: b}]", "is not absolute");
	refused("copies: [{source: /data/a, target: /proc/x}]", "nothing may cover");
	refused("mounts: [{source: /data/a, target: /}]", "reserved");
	refused("mounts: [{source: /data/a, target: '/a:b'}]", "contains ':'");
	refused("mounts: [{source: /data/a, target: /a}, {source: /data/b, target: /a}]",
		"appears twice");
	refused("copies: [{source: /data/a, target: /a}, {source: /data/b, target: /a}]",
		"appears twice");
	refused("mounts: [{source: /data/a, target: /a}]\n"
		"copies: [{source: /data/b, target: /a}]",
		"appears twice");
	refused("mounts: [{source: /data/a, target: /workspace}]\n"
		"copies: [{source: /data/b, target: /workspace}]",
		"appears twice");
}

static void hole_3_9_3_no_engine_socket_enters(void **state UNUSED)
{
	refused("mounts: [{source: /var/run/docker.sock, target: /a}]", "socket of a container");
	refused("mounts: [{source: /run/docker.sock, target: /a}]", "socket of a container");
	refused("mounts: [{source: /run/user/1000/podman/podman.sock, target: /a}]",
		"socket of a container");
	refused("mounts: [{source: ~/.docker/run/docker.sock, target: /a}]",
		"socket of a container");
	refused("mounts: [{source: /run, target: /a}]", "folder of the system");
	refused("mounts: [{source: /var, target: /a}]", "folder of the system");
}

static void hole_3_9_3_system_folders_do_not_enter(void **state UNUSED)
{
	static const char *const roots[] = { "/",    "/etc",  "/usr",  "/var",  "/proc", "/sys",
					     "/dev", "/boot", "/home", "/root", "//",    "/etc/" };
	char text[128];

	for (size_t i = 0; i < ARRAY_LEN(roots); i++) {
		(void)snprintf(text, sizeof(text), "mounts: [{source: '%s', target: /a}]",
			       roots[i]);
		refused(text, "folder of the system");
		(void)snprintf(text, sizeof(text),
			       "mounts: [{source: '%s', target: /a, writable: true}]", roots[i]);
		refused(text, "folder of the system");
		(void)snprintf(text, sizeof(text), "copies: [{source: '%s', target: /a}]",
			       roots[i]);
		refused(text, "folder of the system");
	}
	refused("mounts: [{source: /etc/ssh, target: /a, writable: true}]", "cannot be writable");
	refused("mounts: [{source: /usr/share/x, target: /a, writable: true}]",
		"cannot be writable");
	refused("mounts: [{source: /proc/1, target: /a}]", "kernel");
	refused("mounts: [{source: /dev/kvm, target: /a}]", "kernel");
	accepted("mounts: [{source: /usr/share/x, target: /a}]");
}

static void hole_3_9_4_nobody_chooses_the_user_by_a_variable(void **state UNUSED)
{
	CLEANUP(spec) struct spec *s = taken("labels: {}");

	assert_false(s->user.given);
	refused("envs: {HOST_UID: 0}", "sets 'HOST_UID' itself");
	refused("envs: {HOST_GID: 0}", "sets 'HOST_GID' itself");
	refused("envs: {AGENTS_SANDBOX_SUPPLEMENTAL_GROUPS: 0}", "itself");
	refused("companion_containers: {db: {image: a, envs: {HOST_UID: 0}}}", "itself");
}

static void hole_3_9_8_real_credentials_enter_only_with_a_note(void **state UNUSED)
{
	CLEANUP(spec) struct spec *real = taken("builtin_tools: [claude, npm]");
	CLEANUP(spec) struct spec *not = taken("builtin_tools: [{claude: placeholder}]");

	assert_true(has_note(real, "claude, npm"));
	assert_int_equal(not ->notes.n, 0);
	assert_string_equal(not ->builtin_tools.v[0], "claude:placeholder");
	refused("builtin_tools: [clade]", "did you mean 'claude'");
	refused("builtin_tools: [git, git]", "appears twice");
	refused("builtin_tools: [git, {git: placeholder}]", "appears twice");
	refused("builtin_tools: [{git: real}]", "only 'placeholder'");
	refused("builtin_tools: [{git: placeholder, uv: placeholder}]", "not a map");
	refused("builtin_tools: git", "expected a list");
	refused("builtin_tools: [null]", "expected a value");
}

static void variables_and_labels_are_text_by_name(void **state UNUSED)
{
	refused("envs: [A=b]", "expected a map");
	refused("envs: {A: [b]}", "expected a value");
	refused("envs: {A: null}", "expected a value");
	refused("envs: {'A B': c}", "not a variable name");
	refused("envs: {'A=B': c}", "'='");
	refused("labels: {'a=b': c}", "'='");
	refused("labels: {a: \"b\\nc\"}", "not NAME=VALUE");
	refused("labels: {a: {b: c}}", "expected a value");
	refused("labels: text", "expected a map");
	accepted("envs:");
	accepted("labels:");
}

static void ports_are_in_bounds_and_unique(void **state UNUSED)
{
	accepted("ports: [{container_port: 1, host_port: 65535, protocol: SCTP}]");
	accepted("ports: [{container_port: 1, host_port: 2, protocol: ''}]");
	accepted("ports: [{container_port: 1, host_port: 2}, {container_port: 1, host_port: 3}]");
	refused("ports: [{container_port: 0, host_port: 2}]", "out of bounds");
	refused("ports: [{container_port: 65536, host_port: 2}]", "out of bounds");
	refused("ports: [{container_port: 1, host_port: -2}]", "not a whole number");
	refused("ports: [{container_port: 1, host_port: 0080}]", "not a whole number");
	refused("ports: [{container_port: 1}]", "'host_port' is missing");
	refused("ports: [{host_port: 1}]", "'container_port' is missing");
	refused("ports: [{container_port: 1, host_port: 2, protocol: tpc}]", "did you mean 'tcp'");
	refused("ports: [{container_port: 1, host_port: 2}, {container_port: 3, host_port: 2}]",
		"two ports at 2/tcp");
	refused("ports: ['80:80']", "expected a map");
}

static void companions_have_a_name_an_image_and_a_sound_health_check(void **state UNUSED)
{
#define DB(rest) "companion_containers: {db: {image: a, " rest "}}"
	accepted("companion_containers: {Db_1-x: {image: a}}");
	refused("companion_containers: {db: {}}", "has no image");
	refused("companion_containers: {db: }", "has no image");
	refused("companion_containers: {db: {image: 'a b'}}", "not the name of an image");
	refused("companion_containers: {'d.b': {image: a}}", "not a host name");
	refused("companion_containers: {-db: {image: a}}", "not a host name");
	refused("companion_containers: {localhost: {image: a}}", "not a host name");
	refused("companion_containers: {db: {image: a}, db: {image: b}}", "twice");
	refused("companion_containers: {db: {image: a}, DB: {image: b}}", "are one name");
	refused("companion_containers: [db]", "expected a map");
	refused(DB("post_start_on_primary: [x]"), "needs a healthcheck");
	refused(DB("post_start_on_primary: [x], healthcheck: {test: [NONE]}"),
		"needs a healthcheck");
	accepted(DB("post_start_on_primary: [x], healthcheck: {test: [CMD, z]}"));
	accepted(DB("healthcheck: {test: [NONE]}"));
	refused(DB("healthcheck: {interval: 5s}"), "'test' is missing");
	refused(DB("healthcheck: {test: []}"), "test is empty");
	refused(DB("healthcheck: {test: [CMD]}"), "wrong number of words");
	refused(DB("healthcheck: {test: [CMD-SHELL]}"), "wrong number of words");
	refused(DB("healthcheck: {test: [CMD-SHELL, a, b]}"), "wrong number of words");
	refused(DB("healthcheck: {test: [NONE, a]}"), "wrong number of words");
	refused(DB("healthcheck: {test: [CMDSHELL, a]}"), "did you mean 'CMD-SHELL'");
	refused(DB("healthcheck: {test: [curl]}"), "not CMD");
	refused(DB("healthcheck: {test: [CMD, '']}"), "an empty one");
	refused(DB("healthcheck: {test: [CMD, a], interval: -5s}"), "below zero");
	refused(DB("healthcheck: {test: [CMD, a], interval: 5}"), "has no unit");
	refused(DB("healthcheck: {test: [CMD, a], timeout: soon}"), "not a duration");
	refused(DB("healthcheck: {test: [CMD, a], retries: -1}"), "not a whole number");
	refused(DB("command: []"), "not a command");
	refused(DB("command: [a, '']"), "an empty one");
	refused(DB("cpu_limit: 0"), "not a number of CPUs");
	refused(DB("memory_limit: 0"), "out of bounds");
	refused(DB("disk_limit: 1k"), "out of bounds");
#undef DB
}

static void limits_are_above_zero_and_sizes_above_six_megabytes(void **state UNUSED)
{
	accepted("cpu_limit: 0.01");
	accepted("memory_limit: 6m");
	accepted("memory_limit: 6291456");
	accepted("disk_limit: 6MiB");
	refused("cpu_limit: 0", "not a number of CPUs");
	refused("cpu_limit: 0.0001", "not a number of CPUs");
	refused("cpu_limit: -1", "not a number of CPUs");
	refused("cpu_limit: all", "not a number of CPUs");
	refused("cpu_limit: [1]", "expected a value");
	refused("memory_limit: 5m", "out of bounds");
	refused("memory_limit: -1g", "not a size");
	refused("memory_limit: 1x", "not a size");
	refused("memory_limit: 99999999999999999999g", "not a size");
	refused("disk_limit: 0", "out of bounds");
	refused("gpus: 2", "neither empty nor");
	refused("gpus: All", "neither empty nor");
}

static void the_idle_time_is_zero_or_more(void **state UNUSED)
{
	CLEANUP(spec) struct spec *s = taken("idle_ttl: 1h30m");

	assert_int_equal(s->idle_ttl, 5400000);
	accepted("idle_ttl: 0");
	accepted("idle_ttl: '0s'");
	accepted("idle_ttl:");
	refused("idle_ttl: -1s", "below zero");
	refused("idle_ttl: 10", "has no unit");
	refused("idle_ttl: never", "not a duration");
	refused("idle_ttl: 99999999999h", "idle_ttl");
}

static void a_command_has_words(void **state UNUSED)
{
	refused("command: []", "not a command");
	refused("command: ['']", "an empty one");
	refused("command: [a, '', b]", "an empty one");
	refused("command: sleep 1", "expected a list");
	refused("command: [[a]]", "expected a text");
	accepted("command:");
}

static void one_switch_for_the_workspace_and_all_mounts(void **state UNUSED)
{
	refused("mounts: [{source: /data/a, target: /workspace},"
		" {source: /data/b, target: /b, writable: true}]",
		"beside a writable one");
	accepted("mounts: [{source: /data/a, target: /workspace},"
		 " {source: /data/b, target: /b}]");
}

static void a_thousand_mutations_are_errors_or_not_weaker(void **state UNUSED)
{
	static const char *const names[] = { "image", "everything" };

	for (size_t k = 0; k < ARRAY_LEN(names); k++) {
		char path[PATH_MAX], base_text[4096], text[8192];
		CLEANUP(spec) struct spec *base = NULL;
		uint64_t seed = 3 + k;
		struct err e;
		size_t n;

		(void)snprintf(path, sizeof(path), "%s/agents/%s.yaml", golden, names[k]);
		n = read_text_file(path, base_text, sizeof(base_text));
		assert_int_equal(read_yaml(agents_read, base_text, n, &base, &e), 0);
		for (int i = 0; i < 1000; i++) {
			CLEANUP(spec) struct spec *s = NULL;
			size_t len = n;

			memcpy(text, base_text, n + 1);
			mutate(text, &len, sizeof(text), &seed);
			if (read_yaml(agents_read, text, len, &s, &e) == 0)
				assert_not_weaker(base, s);
			else
				assert_true(e.what[0] && e.code > 0);
		}
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(documented_fields_resolve_as_documented),
	cmocka_unit_test(the_image_is_a_request_and_limits_of_none_are_not),
	cmocka_unit_test(a_flag_shows_a_workspace),
	cmocka_unit_test(an_image_is_required),
	cmocka_unit_test(unknown_keys_are_refused_with_the_nearest),
	cmocka_unit_test(the_hosts_network_will_never_be_supported),
	cmocka_unit_test(sources_are_absolute_or_below_home),
	cmocka_unit_test(targets_are_absolute_plain_and_used_once),
	cmocka_unit_test(hole_3_9_3_no_engine_socket_enters),
	cmocka_unit_test(hole_3_9_3_system_folders_do_not_enter),
	cmocka_unit_test(hole_3_9_4_nobody_chooses_the_user_by_a_variable),
	cmocka_unit_test(hole_3_9_8_real_credentials_enter_only_with_a_note),
	cmocka_unit_test(variables_and_labels_are_text_by_name),
	cmocka_unit_test(ports_are_in_bounds_and_unique),
	cmocka_unit_test(companions_have_a_name_an_image_and_a_sound_health_check),
	cmocka_unit_test(limits_are_above_zero_and_sizes_above_six_megabytes),
	cmocka_unit_test(the_idle_time_is_zero_or_more),
	cmocka_unit_test(a_command_has_words),
	cmocka_unit_test(one_switch_for_the_workspace_and_all_mounts),
	cmocka_unit_test(a_thousand_mutations_are_errors_or_not_weaker),
};

int main(int argc, char **argv)
{
	golden = argc > 1 ? argv[1] : "tests/golden";
	return cmocka_run_group_tests(tests, NULL, NULL);
}
