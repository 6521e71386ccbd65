/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_migrate.c - the old form of a role becomes the printed new one, and nothing is lost.
 *
 * The folder of examples is the program's argument: NAME.old.yaml becomes NAME.yaml. */
#include "unit.h"

#include <dirent.h>

#include "base/bytes/yaml.h"
#include "base/text/buf.h"
#include "base/text/str.h"
#include "model/dialect/initrunner/initrunner.h"
#include "model/migrate/migrate.h"

static const char *examples;

/* Both come from blocks of exactly their size, so that a sanitizer sees a step too far. */
static int run(const char *old, struct buf *out, struct err *e)
{
	size_t n = strlen(old);
	CLEANUP(mem) char *data = malloc(n ? n : 1);

	assert_non_null(data);
	memcpy(data, old, n);
	err_clear(e);
	return migrate_file("role.yaml", data, n, out, e);
}

static void becomes(const char *old, const char *wanted)
{
	CLEANUP(buf) struct buf out = BUF_INIT(1 << 20);
	struct err e;
	int r = run(old, &out, &e);

	if (r < 0)
		print_error("%s\n", e.what);
	assert_int_equal(r, 0);
	assert_string_equal(buf_str(&out), wanted);
}

static void fails(const char *old, const char *what)
{
	CLEANUP(buf) struct buf out = BUF_INIT(1 << 20);
	struct err e;

	print_message("%s\n", old);
	assert_int_equal(run(old, &out, &e), -EINVAL);
	print_message("  %s\n", e.what);
	assert_int_equal(e.kind, ERR_CONFIG);
	assert_non_null(strstr(e.what, what));
	assert_int_equal(out.len, 0);
}

static void read_example(const char *name, char *out, size_t n)
{
	char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/%s", examples, name);
	(void)read_text_file(path, out, n);
}

static void every_documented_old_form_becomes_the_documented_new_one(void **state UNUSED)
{
	static char old[65536], wanted[65536];
	DIR *d = opendir(examples);
	size_t done = 0;

	assert_non_null(d);
	for (struct dirent *e; (e = readdir(d));) {
		char name[NAME_MAX + 1];

		if (!str_ends_nocase(e->d_name, ".old.yaml"))
			continue;
		print_message("%s\n", e->d_name);
		(void)snprintf(name, sizeof(name), "%.*s.yaml", (int)strlen(e->d_name) - 9,
			       e->d_name);
		read_example(e->d_name, old, sizeof(old));
		read_example(name, wanted, sizeof(wanted));
		becomes(old, wanted);
		done++;
	}
	(void)closedir(d);
	assert_int_equal(done, 5);
}

static void what_is_switched_off_becomes_none(void **state UNUSED)
{
	becomes("security:\n  docker:\n    enabled: false\n",
		"security:\n  sandbox:\n    backend: none\n");
	becomes("security:\n  docker:\n    image: x\n",
		"security:\n  sandbox:\n    backend: none\n    docker:\n      image: x\n");
	becomes("security:\n  docker:\n", "security:\n  sandbox:\n    backend: none\n");
	becomes("security:\n  docker: null # off\n",
		"security:\n  sandbox: # off\n    backend: none\n");
	becomes("security:\n  docker: ~\n  preset: public\n",
		"security:\n  sandbox:\n    backend: none\n  preset: public\n");
	becomes("security:\n  docker:\n    enabled:\n    network: none\n",
		"security:\n  sandbox:\n    backend: none\n    network: none\n");
}

static void comments_stay_with_what_they_speak_of(void **state UNUSED)
{
	becomes("# top\n"
		"security: # why\n"
		"  # about docker\n"
		"  docker: # block\n"
		"    # on or off\n"
		"    enabled: true # on\n"
		"    # which image\n"
		"    image: x:1 # pinned\n"
		"\n"
		"    # no network\n"
		"    network: none\n"
		"    # last words\n"
		"  # about the preset\n"
		"  preset: public\n"
		"# end\n",
		"# top\n"
		"security: # why\n"
		"  # about docker\n"
		"  sandbox: # block\n"
		"    # on or off\n"
		"    backend: docker # on\n"
		"\n"
		"    # no network\n"
		"    network: none\n"
		"    # last words\n"
		"    docker:\n"
		"      # which image\n"
		"      image: x:1 # pinned\n"
		"  # about the preset\n"
		"  preset: public\n"
		"# end\n");
}

static void other_parts_of_the_document_are_not_touched(void **state UNUSED)
{
	becomes("apiVersion: initrunner/v1\nkind: Agent\nspec:\n  role: |\n    security:\n      "
		"docker: x\n"
		"  security:\n    docker:\n      enabled: true\n    content: {pii_redaction: "
		"true}\n"
		"  tools:\n  - type: shell   # odd   spacing\n",
		"apiVersion: initrunner/v1\nkind: Agent\nspec:\n  role: |\n    security:\n      "
		"docker: x\n"
		"  security:\n    sandbox:\n      backend: docker\n    content: {pii_redaction: "
		"true}\n"
		"  tools:\n  - type: shell   # odd   spacing\n");
}

static void layouts_of_other_hands_are_kept(void **state UNUSED)
{
	/* four blanks, lists at the level of their key, no newline at the end */
	becomes("security:\n    docker:\n        enabled: true\n        extra_args:\n        - "
		"\"--pids-limit=5\"\n"
		"        bind_mounts:\n        - source: a\n          target: /a",
		"security:\n    sandbox:\n        backend: docker\n        bind_mounts:\n        - "
		"source: a\n"
		"          target: /a\n        docker:\n            extra_args:\n            - "
		"\"--pids-limit=5\"\n");
	/* carriage returns */
	becomes("security:\r\n  docker:\r\n    enabled: true\r\n    image: x\r\n",
		"security:\r\n  sandbox:\r\n    backend: docker\r\n    docker:\r\n      image: "
		"x\r\n");
	/* quoted keys and values */
	becomes("\"security\":\n  \"docker\":\n    \"enabled\": true\n    \"image\": 'x'\n",
		"\"security\":\n  sandbox:\n    backend: docker\n    docker:\n      \"image\": "
		"'x'\n");
	/* not the first key, characters of more than one byte in front */
	becomes("security:\n  note: \"\xc3\xa4\xc3\xb6\"\n  docker:\n    network: none\n    "
		"enabled: true\n",
		"security:\n  note: \"\xc3\xa4\xc3\xb6\"\n  sandbox:\n    network: none\n    "
		"backend: docker\n");
}

static void flow_style_is_written_out(void **state UNUSED)
{
	becomes("security:\n  docker: {enabled: true, image: node:20-slim, env_passthrough: [A, "
		"\"B,C\"]} # x\n"
		"  preset: public\n",
		"security:\n  sandbox: # x\n    backend: docker\n    env_passthrough: [A, "
		"\"B,C\"]\n"
		"    docker:\n      image: node:20-slim\n  preset: public\n");
	becomes("security: {docker: {enabled: true, network: none}, preset: public}\n",
		"security:\n  sandbox:\n    backend: docker\n    network: none\n  preset: "
		"public\n");
	becomes("security:\n  docker: {}\n", "security:\n  sandbox:\n    backend: none\n");
	becomes("security: {docker: }\n", "security:\n  sandbox:\n    backend: none\n");
}

static void a_document_without_the_old_form_comes_out_unchanged(void **state UNUSED)
{
	static const char *const all[] = {
		"",
		"# nothing\n",
		"security:\n  sandbox:\n    backend: docker\n    docker:\n      image: x\n",
		"apiVersion: initrunner/v1\nspec: {security: {preset: public}}\n",
		"sandbox:\n  docker:\n    image: x\n",
		"- a\n- b",
	};

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		becomes(all[i], all[i]);
}

static void what_cannot_be_rewritten_is_an_error_and_prints_nothing(void **state UNUSED)
{
	fails("security: {docker: {enabled: true},\n  preset: public}\n", "without loss");
	fails("{\"security\": {\"docker\": {\"enabled\": true}}}\n", "without loss");
	fails("security:\n  docker: {enabled: true,\n    image: x}\n", "without loss");
	fails("security:\n  docker:\n    enabled: true\n  sandbox:\n    backend: docker\n",
	      "docker and sandbox at the same time");
	fails("security:\n  docker:\n    enabled: true\n    imgae: x\n", "unknown key 'imgae'");
	fails("security:\n  docker:\n    enabled: \"true\"\n", "enabled");
	fails("security:\n  docker: true\n", "expected a map");
	fails("security:\n  docker: [a]\n", "expected a map");
	fails("security: [\n", "not YAML");
}

/* The new form is one that brig then takes, and a second time nothing happens. */
static void the_result_loads_and_stays_as_it_is(void **state UNUSED)
{
	static const struct source from = { .name = "role.yaml",
					    .folder = "/role",
					    .origin = ORIGIN_FILE };
	static char old[65536];
	CLEANUP(buf) struct buf out = BUF_INIT(1 << 20);
	CLEANUP(buf) struct buf again = BUF_INIT(1 << 20);
	CLEANUP(arena) struct arena *a = arena_new(16 << 20);
	CLEANUP(spec) struct spec *s = NULL;
	struct node *root;
	struct role role;
	struct err e;

	read_example("000-custom-image.old.yaml", old, sizeof(old));
	assert_int_equal(run(old, &out, &e), 0);
	assert_int_equal(run(buf_str(&out), &again, &e), 0);
	assert_string_equal(buf_str(&out), buf_str(&again));
	assert_int_equal(yaml_parse(a, "x", out.data, out.len, &root, &e), 0);
	s = spec_new(&e);
	assert_non_null(s);
	assert_int_equal(initrunner_read_role(s, &from, from.cwd, root, &role, &e), 0);
	assert_int_equal(s->backend, BACKEND_DOCKER);
	assert_string_equal(s->docker.image, "node:20-slim");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(every_documented_old_form_becomes_the_documented_new_one),
	cmocka_unit_test(what_is_switched_off_becomes_none),
	cmocka_unit_test(comments_stay_with_what_they_speak_of),
	cmocka_unit_test(other_parts_of_the_document_are_not_touched),
	cmocka_unit_test(layouts_of_other_hands_are_kept),
	cmocka_unit_test(flow_style_is_written_out),
	cmocka_unit_test(a_document_without_the_old_form_comes_out_unchanged),
	cmocka_unit_test(what_cannot_be_rewritten_is_an_error_and_prints_nothing),
	cmocka_unit_test(the_result_loads_and_stays_as_it_is),
};

int main(int argc, char **argv)
{
	must(argc == 2);
	examples = argv[1];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
