/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_initrunner.c - roles: the documented examples resolve as documented, slips are errors.
 *
 * "hole" names an entry of the list of known holes of the system whose files are read here. The
 * folder of examples is the program's argument: NAME.yaml and what it resolves to in NAME.expect.
 */
#include "unit.h"

#include <dirent.h>

#include "base/bytes/yaml.h"
#include "base/text/buf.h"
#include "base/text/str.h"
#include "model/dialect/initrunner/initrunner.h"
#include "model/settings/spec.h"

static const char *examples;

static const struct source from = { .name = "role.yaml",
				    .folder = "/role/dir",
				    .home = "/home/me",
				    .cwd = "/project",
				    .origin = ORIGIN_FILE,
				    .trusted = true };

/* Reads a role into s; the tree is gone afterwards, as it is in the program. */
static int read_into(struct spec *s, const char *yaml, size_t n, struct role *role, struct err *e)
{
	CLEANUP(arena) struct arena *a = arena_new(16 << 20);
	struct node *root;

	err_clear(e);
	if (yaml_parse(a, from.name, yaml, n, &root, e) < 0)
		return -e->code;
	return initrunner_read_role(s, &from, from.cwd, root, role, e);
}

static struct spec *load(const char *yaml, struct role *role, struct err *e)
{
	CLEANUP(spec) struct spec *s = spec_new(e);

	assert_non_null(s);
	if (read_into(s, yaml, strlen(yaml), role, e) < 0)
		return NULL;
	return TAKE_PTR(s);
}

static struct spec *must_load(const char *yaml)
{
	struct role role;
	struct err e;
	struct spec *s = load(yaml, &role, &e);

	if (!s)
		print_error("%s\n%s\n", yaml, e.what);
	assert_non_null(s);
	return s;
}

/* The lines become the block security.sandbox. */
static const char *sandbox(const char *lines)
{
	static char text[16384];
	size_t n = (size_t)snprintf(text, sizeof(text), "security:\n  sandbox:\n");

	while (*lines) {
		size_t len = strcspn(lines, "\n");

		n += (size_t)snprintf(text + n, sizeof(text) - n, "    %.*s\n", (int)len, lines);
		lines += len + (lines[len] == '\n');
	}
	return text;
}

static void must_fail(const char *yaml, enum err_kind kind, const char *what)
{
	CLEANUP(spec) struct spec *s = NULL;
	struct role role;
	struct err e;

	print_message("%s\n", yaml);
	s = load(yaml, &role, &e);
	assert_null(s);
	print_message("  %s (%s)\n", e.what, e.hint);
	assert_int_equal(e.kind, kind);
	assert_true(str_starts(e.what, "role.yaml:"));
	assert_non_null(strstr(e.what, what));
}

static bool has_note(const struct spec *s, const char *part)
{
	for (size_t i = 0; i < s->notes.n; i++)
		if (strstr(s->notes.v[i], part))
			return true;
	return false;
}

/* --- the documented examples --- */

static void put_mounts(struct buf *b, const struct mountlist *l)
{
	for (size_t i = 0; i < l->n; i++)
		buf_printf(b, "%s%s:%s:%s", i ? " " : "", l->v[i].source, l->v[i].target,
			   l->v[i].writable ? "rw" : "ro");
}

static void put_strings(struct buf *b, const struct strlist *l)
{
	for (size_t i = 0; i < l->n; i++)
		buf_printf(b, "%s%s", i ? " " : "", l->v[i]);
}

/* The value of a field as the .expect files write it: numbers in their smallest unit. */
static void put_value(struct buf *b, const struct spec *s, const struct field *f)
{
	const void *at = (const char *)s + f->offset;
	const char *text = NULL;
	uint64_t v;
	int word;

	switch (f->type) {
	case FIELD_T_BOOL:
		buf_puts(b, *(const bool *)at ? "true" : "false");
		return;
	case FIELD_T_WORD:
		memcpy(&word, at, sizeof(word));
		buf_puts(b, f->words[word]);
		return;
	case FIELD_T_COUNT:
	case FIELD_T_SIZE:
	case FIELD_T_DURATION:
	case FIELD_T_MILLI:
		memcpy(&v, at, sizeof(v));
		buf_printf(b, "%llu", (unsigned long long)v);
		return;
	case FIELD_T_MOUNTS:
		put_mounts(b, at);
		return;
	case FIELD_T_NAMES:
	case FIELD_T_STRINGS:
	case FIELD_T_PATHS:
	case FIELD_T_EXTRA_ARGS:
		put_strings(b, at);
		return;
	default:
		memcpy(&text, at, sizeof(text));
		buf_puts(b, text ? text : "");
	}
}

static void read_example(const char *name, char *out, size_t n)
{
	char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/%s", examples, name);
	(void)read_text_file(path, out, n);
}

static void compare(const struct spec *s, char *expect)
{
	for (char *line; (line = strsep(&expect, "\n"));) {
		CLEANUP(buf) struct buf b = BUF_INIT(65536);
		char *equals = strstr(line, " =");
		const struct field *f;
		enum field_id id;

		if (!*line)
			continue;
		assert_non_null(equals);
		*equals = '\0';
		f = field_by_key(line, &id);
		assert_non_null(f);
		put_value(&b, s, f);
		print_message("  %s\n", line);
		assert_string_equal(buf_str(&b), equals + 2 + strspn(equals + 2, " "));
	}
}

static void every_documented_example_resolves_as_documented(void **state UNUSED)
{
	static char yaml[65536], expect[65536];
	DIR *d = opendir(examples);
	size_t done = 0;

	assert_non_null(d);
	for (struct dirent *e; (e = readdir(d));) {
		CLEANUP(spec) struct spec *s = NULL;
		const struct place at = { .cwd = "/project", .home = "/home/me" };
		struct err err;
		char name[NAME_MAX + 1];

		if (!str_ends_nocase(e->d_name, ".expect"))
			continue;
		read_example(e->d_name, expect, sizeof(expect));
		(void)snprintf(name, sizeof(name), "%.*s.yaml", (int)strlen(e->d_name) - 7,
			       e->d_name);
		print_message("%s\n", name);
		read_example(name, yaml, sizeof(yaml));
		s = must_load(yaml);
		compare(s, expect);
		assert_int_equal(spec_check(s, &at, &err), 0);
		done++;
	}
	(void)closedir(d);
	assert_true(done >= 12);
}

static void defaults_are_not_requests_and_written_values_are(void **state UNUSED)
{
	CLEANUP(spec) struct spec *s = must_load(sandbox("backend: docker\nmemory_limit: 512m\n"));

	assert_true(spec_wrote(s, FIELD_BACKEND));
	assert_true(spec_wrote(s, FIELD_MEMORY));
	assert_string_equal(s->where[FIELD_MEMORY], "role.yaml:4:19");
	assert_false(spec_wrote(s, FIELD_NETWORK));
	assert_false(spec_wrote(s, FIELD_CPUS));
	assert_false(spec_wrote(s, FIELD_DOCKER_IMAGE));
	assert_int_equal(s->origin[FIELD_CPUS], ORIGIN_DIALECT);
	assert_int_equal(s->limits.cpus, 1000);
}

static void a_flag_wins_over_the_role(void **state UNUSED)
{
	CLEANUP(spec) struct spec *s = NULL;
	struct role role;
	struct err e;
	const char *yaml = sandbox("backend: docker\nmemory_limit: 512m\n");

	s = spec_new(&e);
	assert_non_null(s);
	assert_int_equal(spec_set(s, FIELD_MEMORY, "64m", ORIGIN_FLAG, &e), 0);
	assert_int_equal(spec_set(s, FIELD_BACKEND, "native", ORIGIN_FLAG, &e), 0);
	assert_int_equal(read_into(s, yaml, strlen(yaml), &role, &e), 0);
	assert_int_equal(s->limits.memory, 64 << 20);
	assert_int_equal(s->backend, BACKEND_NATIVE);
}

/* --- the backend --- */

static void a_role_that_names_no_backend_gets_auto_and_one_line_saying_so(void **state UNUSED)
{
	static const char *const all[] = {
		"apiVersion: initrunner/v1\nspec: {role: x}\n",
		"apiVersion: initrunner/v1\nspec: {security: {}}\n",
		"apiVersion: initrunner/v1\nspec: {security: {sandbox: null}}\n",
		"security: {sandbox: {network: none}}\n",
		"security: null\n",
	};

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		CLEANUP(spec) struct spec *s = must_load(all[i]);

		assert_int_equal(s->backend, BACKEND_AUTO);
		assert_false(spec_wrote(s, FIELD_BACKEND));
		assert_int_equal(s->notes.n, 1);
		assert_true(has_note(s, "the backend is auto"));
	}
}

static void backend_none_stays_as_written_for_the_second_opt_in(void **state UNUSED)
{
	CLEANUP(spec) struct spec *s = must_load(sandbox("backend: none\n"));

	assert_int_equal(s->backend, BACKEND_NONE);
	assert_true(spec_wrote(s, FIELD_BACKEND));
	assert_false(s->full_access_ok);
}

static void words_of_another_dialect_and_slips_are_errors(void **state UNUSED)
{
	must_fail(sandbox("backend: dokcer\n"), ERR_CONFIG, "unknown backend 'dokcer'");
	must_fail(sandbox("backend: native\n"), ERR_CONFIG, "unknown backend 'native'");
	must_fail(sandbox("backend: Docker\n"), ERR_CONFIG, "unknown backend 'Docker'");
	must_fail(sandbox("backend: [docker]\n"), ERR_CONFIG, "backend");
	must_fail(sandbox("network: proxy\n"), ERR_CONFIG, "unknown network 'proxy'");
	must_fail(sandbox("network: hsot\n"), ERR_CONFIG, "unknown network");
	must_fail(sandbox("docker: {runtime: runs}\n"), ERR_CONFIG, "unknown runtime 'runs'");
	must_fail(sandbox("docker: {runtime: crun}\n"), ERR_CONFIG, "unknown runtime");
	must_fail("security: {preset: sandbx}\n", ERR_CONFIG, "unknown preset 'sandbx'");
}

static void the_nearest_word_is_named(void **state UNUSED)
{
	struct role role;
	struct err e;

	assert_null(load(sandbox("backend: dokcer\n"), &role, &e));
	assert_string_equal(e.hint, "did you mean 'docker'?");
	assert_null(load(sandbox("docker: {runtime: kata-qmu}\n"), &role, &e));
	assert_string_equal(e.hint, "did you mean 'kata-qemu'?");
	assert_null(load(sandbox("memory_limt: 1g\n"), &role, &e));
	assert_string_equal(e.hint, "did you mean 'memory_limit'?");
	assert_null(load("security: {preset: develpment}\n", &role, &e));
	assert_string_equal(e.hint, "did you mean 'development'?");
}

/* A letter left out or changed anywhere in a key never passes in silence. */
static void no_slip_in_a_key_is_ignored(void **state UNUSED)
{
	static const char *const keys[] = { "backend",
					    "network",
					    "allowed_read_paths",
					    "allowed_write_paths",
					    "memory_limit",
					    "cpu_limit",
					    "read_only_rootfs",
					    "bind_mounts",
					    "env_passthrough",
					    "docker",
					    "ssh" };
	struct role role;
	struct err e;

	for (size_t k = 0; k < ARRAY_LEN(keys); k++)
		for (size_t i = 0; i < 2 * strlen(keys[k]); i++) {
			char slip[64], line[128];
			size_t at = i / 2;

			(void)snprintf(slip, sizeof(slip), "%.*s%s%s", (int)at, keys[k],
				       i % 2 ? "q" : "", keys[k] + at + 1);
			(void)snprintf(line, sizeof(line), "%s: null\n", slip);
			assert_null(load(sandbox(line), &role, &e));
			assert_int_equal(e.kind, ERR_CONFIG);
		}
}

static void unknown_keys_are_errors_inside_the_sandbox_and_tolerated_outside(void **state UNUSED)
{
	CLEANUP(spec)
	struct spec *s = must_load(
		"apiVersion: initrunner/v1\nkind: Agent\nmetadata: {name: x, tags: [a]}\nspec:\n"
		"  guardrails: {max_tokens: 5}\n  security:\n    content: {pii_redaction: true}\n"
		"    server: {require_https: true}\n    tools: {audit_hooks_enabled: false}\n"
		"    anything: 1\n    sandbox: {backend: bwrap}\n");

	assert_int_equal(s->backend, BACKEND_BWRAP);
	must_fail(sandbox("extra: 1\n"), ERR_CONFIG, "unknown key 'extra' in security.sandbox");
	must_fail(sandbox("docker: {imge: x}\n"), ERR_CONFIG, "unknown key 'imge'");
	must_fail(sandbox("docker: {network: none}\n"), ERR_CONFIG, "security.sandbox.docker");
	must_fail(sandbox("ssh: {host: a, port: 22}\n"), ERR_CONFIG, "unknown key 'port'");
	must_fail(sandbox("bind_mounts: [{source: a, target: /a, readonly: true}]\n"), ERR_CONFIG,
		  "unknown key 'readonly'");
	must_fail("security: {sanbox: {backend: docker}}\n", ERR_CONFIG, "unknown key 'sanbox'");
}

static const struct code_hooks *hooks_of(struct spec *s)
{
	return &s->command.code.hooks;
}

static void the_audit_hook_has_its_documented_settings(void **state UNUSED)
{
#define HOOKS(settings)                                                                            \
	"apiVersion: initrunner/v1\nkind: Agent\nspec:\n  security:\n"                             \
	"    tools: {audit_hooks_enabled: " settings "}\n    sandbox: {backend: auto}\n"
	CLEANUP(spec) struct spec *usual = must_load(HOOKS("true"));
	CLEANUP(spec)
	struct spec *other = must_load(
		HOOKS("true, allowed_write_paths: [out, /tmp], allowed_network_hosts: [a.example], "
		      "block_private_ips: false, allow_subprocess: true, allow_eval_exec: true, "
		      "sandbox_violation_action: log, blocked_custom_modules: [json], "
		      "mcp_command_allowlist: [x]"));
	CLEANUP(spec) struct spec *off = must_load(HOOKS("false, allow_subprocess: true"));

	assert_non_null(strstr(hooks_of(usual)->where, ":5:"));
	assert_int_equal(hooks_of(usual)->write.n + hooks_of(usual)->hosts.n, 0);
	assert_int_equal(hooks_of(usual)->blocked.n, 15);
	assert_false(hooks_of(usual)->near || hooks_of(usual)->programs);
	assert_false(hooks_of(usual)->evals || hooks_of(usual)->log);
	assert_int_equal(hooks_of(other)->write.n, 2);
	assert_string_equal(hooks_of(other)->hosts.v[0], "a.example");
	assert_int_equal(hooks_of(other)->blocked.n, 3);
	assert_string_equal(hooks_of(other)->blocked.v[0], "json");
	assert_true(hooks_of(other)->near && hooks_of(other)->programs);
	assert_true(hooks_of(other)->evals && hooks_of(other)->log);
	assert_null(hooks_of(off)->where);
	must_fail(HOOKS("maybe"), ERR_CONFIG, "audit_hooks_enabled");
	must_fail(HOOKS("true, sandbox_violation_action: shout"), ERR_CONFIG,
		  "unknown sandbox_violation_action 'shout'");
	must_fail(HOOKS("true, allowed_write_path: [a]"), ERR_CONFIG,
		  "unknown key 'allowed_write_path' in security.tools");
	must_fail(HOOKS("true, allow_subprocess: 3"), ERR_CONFIG, "allow_subprocess");
#undef HOOKS
}

static void a_role_names_its_model_and_its_bounds(void **state UNUSED)
{
#define ROLE(body)                                                                                 \
	"apiVersion: initrunner/v1\nkind: Agent\nspec:\n" body                                     \
	"  security: {sandbox: {backend: auto}}\n"
	CLEANUP(spec) struct spec *none = must_load(ROLE(""));
	CLEANUP(spec) struct spec *slip = must_load(ROLE("  guardrails: {max_tool_cals: 1}\n"));
	CLEANUP(spec)
	struct spec *s = must_load(ROLE(
		"  role: |\n    Two\n    lines.\n"
		"  model: {name: 'groq:fast', base_url: 'https://a.example/v1', api_key_env: K,\n"
		"          temperature: 0.5, max_tokens: 100, fallback: []}\n"
		"  guardrails: {max_tokens_per_run: 7, max_tool_calls: 3, timeout_seconds: 9,\n"
		"               total_tokens_limit: 8, cost_limit: 0.25}\n"
		"  tools:\n    - {type: shell, require_confirmation: true}\n    - {type: "
		"web_reader}\n"
		"    - {type: script, timeout_seconds: 5, scripts: [{name: a, body: 'x', "
		"description: d}]}\n"));

	assert_non_null(strstr(slip->chat.slip, "unknown key 'max_tool_cals' in guardrails"));
	assert_true(!none->chat.slip && !s->chat.slip);
	assert_null(none->chat.name);
	assert_int_equal(none->chat.requests, 30);
	assert_int_equal(none->chat.out_tokens, 50000);
	assert_false(none->chat.shell || none->chat.python);
	assert_string_equal(s->chat.provider, "groq");
	assert_string_equal(s->chat.name, "fast");
	assert_string_equal(s->chat.prompt, "Two\nlines.\n");
	assert_int_equal(s->chat.temperature, 500);
	assert_int_equal(s->chat.answer_tokens, 100);
	assert_int_equal(s->chat.out_tokens, 7);
	assert_int_equal(s->chat.calls, 3);
	assert_int_equal(s->chat.requests, 30);
	assert_int_equal(s->chat.timeout, 9000);
	assert_int_equal(s->chat.tokens, 8);
	assert_int_equal(s->chat.cost, 250);
	assert_true(s->chat.shell && s->chat.confirm && !s->chat.python);
	assert_int_equal(s->chat.other.n, 1);
	assert_int_equal(s->command.code.script_count, 1);
	assert_int_equal(s->command.code.scripts[0].timeout, 5000);
	assert_string_equal(s->command.code.scripts[0].about, "d");
	must_fail(ROLE("  model: {name: a, temperature: 3}\n"), ERR_CONFIG, "temperature");
	must_fail(ROLE("  model: {name: a, max_tokens: 0}\n"), ERR_CONFIG, "max_tokens");
	must_fail(ROLE("  model: text\n"), ERR_CONFIG, "expected a map");
	must_fail(ROLE("  guardrails: {cost_limit: x}\n"), ERR_CONFIG, "cost_limit");
#undef ROLE
}

static void a_block_in_the_wrong_place_is_an_error(void **state UNUSED)
{
	must_fail("apiVersion: initrunner/v1\nspec: {sandbox: {backend: docker}}\n", ERR_CONFIG,
		  "outside security");
	must_fail("apiVersion: initrunner/v1\nsandbox: {backend: docker}\n", ERR_CONFIG,
		  "outside security");
	must_fail("apiVersion: initrunner/v1\nsecurity: {}\nspec: {security: {}}\n", ERR_CONFIG,
		  "security appears twice");
	must_fail("security: [sandbox]\n", ERR_CONFIG, "expected a map");
	must_fail("security: {sandbox: docker}\n", ERR_CONFIG, "expected a map");
	must_fail("apiVersion: initrunner/v2\nspec: {}\n", ERR_CONFIG, "initrunner/v2");
	must_fail("spec: {}\n", ERR_CONFIG, "apiVersion is missing");
	must_fail("- security\n", ERR_CONFIG, "expected a role");
}

static void the_old_form_is_refused_with_the_way_to_the_new_one(void **state UNUSED)
{
	static const char *const all[] = {
		"security:\n  docker:\n    enabled: true\n",
		"security:\n  docker:\n    enabled: false\n",
		"security: {docker: null}\n",
		"security: {docker: {enabled: true}, sandbox: {backend: docker}}\n",
		"apiVersion: initrunner/v1\nspec:\n  security:\n    docker: {enabled: true}\n",
	};
	struct role role;
	struct err e;

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		must_fail(all[i], ERR_CONFIG, "security.docker has been removed");
		assert_null(load(all[i], &role, &e));
		assert_non_null(strstr(e.what, "security.sandbox"));
		assert_non_null(strstr(e.what, "backend: docker"));
		assert_non_null(strstr(e.hint, "brig config migrate"));
	}
}

/* --- numbers --- */

static void sizes_and_numbers_are_those_of_the_page(void **state UNUSED)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} sizes[] = { { "256m", 256 << 20 },  { "\"1g\"", 1 << 30 }, { "1G", 1 << 30 },
		      { "2097152", 2 << 20 }, { "4096K", 4 << 20 },  { "2097152b", 2 << 20 } };
	static const char *const bad[] = { "256mb", "1.5g", "-1",  "0",         "1t",           "m",
					   "\"\"",  "1 g",  "+1g", "unlimited", "99999999999g", "1",
					   "0m",    "1e9",  "[1g]" };
	char line[64];

	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		CLEANUP(spec) struct spec *s = NULL;

		(void)snprintf(line, sizeof(line), "memory_limit: %s\n", sizes[i].text);
		s = must_load(sandbox(line));
		assert_int_equal(s->limits.memory, sizes[i].bytes);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		(void)snprintf(line, sizeof(line), "memory_limit: %s\n", bad[i]);
		must_fail(sandbox(line), ERR_CONFIG, "memory");
	}
}

static void a_cpu_limit_is_above_zero(void **state UNUSED)
{
	static const char *const bad[] = { "0",   "0.0", "-1",  "inf", ".inf",
					   "nan", "1e9", "two", "\"\"" };
	CLEANUP(spec) struct spec *s = must_load(sandbox("cpu_limit: 0.5\n"));
	char line[64];

	assert_int_equal(s->limits.cpus, 500);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		(void)snprintf(line, sizeof(line), "cpu_limit: %s\n", bad[i]);
		must_fail(sandbox(line), ERR_CONFIG, "cpu");
	}
}

static void booleans_are_true_or_false(void **state UNUSED)
{
	CLEANUP(spec) struct spec *s = must_load(sandbox("read_only_rootfs: false\n"));

	assert_false(s->read_only_root);
	must_fail(sandbox("read_only_rootfs: no\n"), ERR_CONFIG, "no");
	must_fail(sandbox("read_only_rootfs: \"false\"\n"), ERR_CONFIG, "read_only_rootfs");
	must_fail(sandbox("read_only_rootfs: 0\n"), ERR_CONFIG, "read_only_rootfs");
}

static void hole_1_10_4_the_documented_memory_limit_is_bytes_before_any_backend(void **state UNUSED)
{
	CLEANUP(spec) struct spec *s = must_load(sandbox("backend: bwrap\nmemory_limit: 256m\n"));

	assert_int_equal(s->limits.memory, (uint64_t)256 << 20);
}

/* --- network --- */

static void hole_1_10_2_the_network_is_honoured_or_refused_on_bwrap(void **state UNUSED)
{
	CLEANUP(spec) struct spec *s = must_load(sandbox("backend: bwrap\nnetwork: host\n"));

	assert_int_equal(s->network, NETWORK_HOST);
	assert_true(spec_wrote(s, FIELD_NETWORK));
	must_fail(sandbox("backend: bwrap\nnetwork: bridge\n"), ERR_CONFIG, "network bridge");
}

static void host_is_legal_as_a_field_and_blocked_as_a_flag(void **state UNUSED)
{
	CLEANUP(spec) struct spec *s = must_load(sandbox("backend: docker\nnetwork: host\n"));

	assert_int_equal(s->network, NETWORK_HOST);
	must_fail(sandbox("backend: docker\ndocker: {extra_args: [--network=host]}\n"), ERR_POLICY,
		  "'--network=host'");
}

/* --- docker --- */

static void a_null_user_is_root_inside_and_says_so(void **state UNUSED)
{
	CLEANUP(spec)
	struct spec *s = must_load(sandbox("backend: docker\ndocker: {user: null}\n"));
	CLEANUP(spec) struct spec *ids = must_load(sandbox("docker: {user: \"1000:1000\"}\n"));
	CLEANUP(spec) struct spec *zero = must_load(sandbox("docker: {user: \"0:0\"}\n"));

	assert_string_equal(s->docker.user, "");
	assert_true(spec_wrote(s, FIELD_DOCKER_USER));
	assert_true(has_note(s, "runs as root inside"));
	assert_string_equal(ids->docker.user, "1000:1000");
	assert_false(has_note(ids, "root"));
	assert_true(has_note(zero, "runs as root inside"));
	must_fail(sandbox("docker: {user: nobody}\n"), ERR_CONFIG, "user 'nobody'");
	must_fail(sandbox("docker: {user: \"1:2:3\"}\n"), ERR_CONFIG, "user");
	must_fail(sandbox("docker: {user: \"-1:0\"}\n"), ERR_CONFIG, "user");
}

static void an_image_is_a_name_and_nothing_else(void **state UNUSED)
{
	CLEANUP(spec)
	struct spec *s = must_load(sandbox("docker: {image: \"host:5000/team/x:1@sha256:0a\"}\n"));

	assert_string_equal(s->docker.image, "host:5000/team/x:1@sha256:0a");
	assert_null(s->image);
	must_fail(sandbox("docker: {image: \"\"}\n"), ERR_CONFIG, "image");
	must_fail(sandbox("docker: {image: \"  \"}\n"), ERR_CONFIG, "image");
	must_fail(sandbox("docker: {image: --privileged}\n"), ERR_CONFIG, "image");
	must_fail(sandbox("docker: {image: \"a b\"}\n"), ERR_CONFIG, "image");
}

static void blocked_flags_are_policy_errors_at_load_time(void **state UNUSED)
{
	static const char *const all[] = {
		"--privileged",    "--cap-add",        "--security-opt",     "--pid=host",
		"--userns=host",   "--network=host",   "--ipc=host",         "--uts=host",
		"--runtime=runsc", "--device=/dev/x",  "--volume=/:/x",      "other/image",
		"--pids-limit=-1", "--memory-swap=-1", "--oom-kill-disable", "--tmpfs=/tmp:exec"
	};
	char line[128], quoted[64];

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		(void)snprintf(line, sizeof(line), "docker: {extra_args: [\"%s\"]}\n", all[i]);
		(void)snprintf(quoted, sizeof(quoted), "'%s'", all[i]);
		must_fail(sandbox(line), ERR_POLICY, quoted);
	}
	must_fail(sandbox("docker: {extra_args: [--pid, host]}\n"), ERR_POLICY, "'--pid'");
	must_fail(sandbox("docker: {extra_args: [null]}\n"), ERR_POLICY, "''");
	must_fail(sandbox("docker: {extra_args: --privileged}\n"), ERR_CONFIG, "expected a list");
}

static void gpus_carry_the_warning_of_the_page(void **state UNUSED)
{
	CLEANUP(spec)
	struct spec *s = must_load(sandbox("docker: {extra_args: [\"--gpus=all\"]}\n"));

	assert_int_equal(s->docker.extra_args.n, 1);
	assert_true(has_note(s, "reduces isolation"));
}

/* --- the environment --- */

static void names_of_secrets_are_filtered_not_refused(void **state UNUSED)
{
	CLEANUP(spec)
	struct spec *s = must_load(sandbox(
		"backend: bwrap\nenv_passthrough: [LANG, OPENAI_API_KEY, TZ, HOME, GITHUB_PAT]\n"));

	assert_int_equal(s->env_pass.n, 2);
	assert_string_equal(s->env_pass.v[0], "LANG");
	assert_string_equal(s->env_pass.v[1], "TZ");
	assert_true(has_note(s, "'OPENAI_API_KEY' is not passed"));
	assert_true(has_note(s, "'GITHUB_PAT' is not passed"));
	assert_true(has_note(s, "brig sets it itself"));
}

static void names_that_steer_the_loader_are_refused(void **state UNUSED)
{
	static const char *const all[] = { "LD_PRELOAD", "LD_LIBRARY_PATH", "BASH_ENV",
					   "NODE_OPTIONS" };
	char line[64];

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		(void)snprintf(line, sizeof(line), "env_passthrough: [%s]\n", all[i]);
		must_fail(sandbox(line), ERR_POLICY, all[i]);
	}
	must_fail(sandbox("env_passthrough: [A=B]\n"), ERR_CONFIG, "not a variable name");
	must_fail(sandbox("env_passthrough: [\"\"]\n"), ERR_CONFIG, "not a variable name");
	must_fail(sandbox("env_passthrough: [1X]\n"), ERR_CONFIG, "not a variable name");
	must_fail(sandbox("env_passthrough: [[A]]\n"), ERR_CONFIG, "expected a value");
	must_fail(sandbox("env_passthrough: LANG\n"), ERR_CONFIG, "expected a list");
}

/* --- mounts --- */

static void hole_1_10_10_sources_are_resolved_the_same_for_every_backend(void **state UNUSED)
{
	static const char *const backends[] = { "auto", "bwrap", "docker", "none" };
	char lines[512];

	for (size_t i = 0; i < ARRAY_LEN(backends); i++) {
		CLEANUP(spec) struct spec *s = NULL;

		(void)snprintf(
			lines, sizeof(lines),
			"backend: %s\nallowed_read_paths: [data]\nallowed_write_paths: [./out/]\n"
			"bind_mounts: [{source: x/../y, target: /y}]\n",
			backends[i]);
		s = must_load(sandbox(lines));
		assert_string_equal(s->read.v[0], "/role/dir/data");
		assert_string_equal(s->write.v[0], "/role/dir/out");
		assert_string_equal(s->mounts.v[0].source, "/role/dir/y");
		assert_false(s->mounts.v[0].writable);
	}
}

static void hole_1_10_5_allowed_paths_are_part_of_the_request_on_docker_too(void **state UNUSED)
{
	CLEANUP(spec)
	struct spec *s = must_load(sandbox("backend: docker\nallowed_read_paths: [/project/a]\n"
					   "allowed_write_paths: [/project/b]\n"));

	assert_int_equal(s->read.n, 1);
	assert_int_equal(s->write.n, 1);
	assert_true(spec_wrote(s, FIELD_READ) && spec_wrote(s, FIELD_WRITE));
}

static void hole_1_10_12_a_colon_in_a_path_is_refused(void **state UNUSED)
{
	must_fail(sandbox("bind_mounts: [{source: \"a:b\", target: /x}]\n"), ERR_POLICY, "':'");
	must_fail(sandbox("bind_mounts: [{source: a, target: \"/x:rw\"}]\n"), ERR_POLICY, "':'");
	must_fail(sandbox("allowed_read_paths: [\"a:b\"]\n"), ERR_POLICY, "':'");
	must_fail(sandbox("allowed_write_paths: [\"./a:/etc:rw\"]\n"), ERR_POLICY, "':'");
}

static void system_roots_are_refused_in_either_mode(void **state UNUSED)
{
	static const char *const all[] = {
		"/",           "/etc",  "/root",        "/home",    "/boot", "/sys",
		"/proc",       "/dev",  "/usr",         "/bin",     "/sbin", "/lib",
		"/lib64",      "/var",  "/run",         "/opt",     "/srv",  "/etc/",
		"/usr/../etc", "//etc", "/role/../etc", "../../etc"
	};
	static const char *const forms[][2] = {
		{ "allowed_read_paths: [", "]" },
		{ "allowed_write_paths: [", "]" },
		{ "bind_mounts: [{target: /x, source: ", "}]" },
		{ "bind_mounts: [{target: /x, read_only: false, source: ", "}]" },
	};
	char line[128];

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		for (size_t mode = 0; mode < ARRAY_LEN(forms); mode++) {
			(void)snprintf(line, sizeof(line), "%s\"%s\"%s\n", forms[mode][0], all[i],
				       forms[mode][1]);
			must_fail(sandbox(line), ERR_POLICY, "is");
		}
}

static void hole_1_2_below_a_system_root_nothing_is_writable(void **state UNUSED)
{
	must_fail(sandbox("bind_mounts: [{source: /etc/cron.d, target: /x, read_only: false}]\n"),
		  ERR_POLICY, "/etc/cron.d");
	must_fail(sandbox("allowed_write_paths: [/usr/local/bin]\n"), ERR_POLICY, "/usr/local/bin");
	must_fail(sandbox("allowed_write_paths: [/boot/grub]\n"), ERR_POLICY, "/boot/grub");
}

static void engine_sockets_and_the_kernel_are_refused_in_either_mode(void **state UNUSED)
{
	must_fail(sandbox("bind_mounts: [{source: /var/run/docker.sock, target: /x}]\n"),
		  ERR_POLICY, "socket of a container engine");
	must_fail(sandbox("allowed_read_paths: [./docker.sock]\n"), ERR_POLICY,
		  "socket of a container engine");
	must_fail(sandbox("allowed_read_paths: [/proc/1]\n"), ERR_POLICY, "/proc/1");
	must_fail(sandbox("allowed_read_paths: [/dev/mem]\n"), ERR_POLICY, "/dev/mem");
}

static void sources_outside_the_permitted_roots_are_refused(void **state UNUSED)
{
	static const char *const bad[] = { "/data",      "../x",           "~/x",
					   "/role/dirt", "/etc/ssl/certs", "/home/me/.ssh",
					   "/projects",  "/role" };
	static const char *const good[] = { "/role/dir/a", ".", "a/b", "/project/a", "/project" };
	char line[128];

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		(void)snprintf(line, sizeof(line), "bind_mounts: [{source: %s, target: /x}]\n",
			       bad[i]);
		must_fail(sandbox(line), ERR_POLICY, "outside the role's permitted folders");
	}
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		(void)snprintf(line, sizeof(line), "bind_mounts: [{source: %s, target: /x}]\n",
			       good[i]);
		(void)spec_free(must_load(sandbox(line)));
	}
}

static void trusted_mount_roots_permit_more(void **state UNUSED)
{
	CLEANUP(spec) struct spec *s = NULL;
	const char *yaml = sandbox("bind_mounts: [{source: /data/set, target: /x}]\n");
	struct role role;
	struct err e;

	s = spec_new(&e);
	assert_non_null(s);
	assert_int_equal(spec_set(s, FIELD_MOUNT_ROOTS, "/data", ORIGIN_USER, &e), 0);
	assert_int_equal(read_into(s, yaml, strlen(yaml), &role, &e), 0);
	assert_string_equal(s->mounts.v[0].source, "/data/set");
}

static void a_working_folder_on_the_command_line_replaces_the_current_one(void **state UNUSED)
{
	CLEANUP(spec) struct spec *s = NULL;
	const char *yaml = sandbox("allowed_read_paths: [/project/a]\n");
	struct role role;
	struct err e;

	s = spec_new(&e);
	assert_non_null(s);
	assert_int_equal(spec_set(s, FIELD_WORKDIR, "/elsewhere", ORIGIN_FLAG, &e), 0);
	assert_int_equal(read_into(s, yaml, strlen(yaml), &role, &e), -EPERM);
}

static void targets_are_absolute_plain_and_free(void **state UNUSED)
{
	static const char *const bad[] = { "x",     "./x",        "/x/../etc",     "/x/",
					   "/work", "/workspace", "/proc/x",       "/etc",
					   "/tmp",  "/dev/shm",   "/work/_run.py", "/code",
					   "/" };
	char line[128];

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		enum err_kind kind = i < 4 ? ERR_CONFIG : ERR_POLICY;

		(void)snprintf(line, sizeof(line), "bind_mounts: [{source: a, target: %s}]\n",
			       bad[i]);
		must_fail(sandbox(line), kind, "target");
	}
	must_fail(sandbox("bind_mounts: [{source: a, target: /x}, {source: b, target: /x}]\n"),
		  ERR_CONFIG, "two mounts at '/x'");
	must_fail(sandbox("allowed_read_paths: [a]\nallowed_write_paths: [./a]\n"), ERR_CONFIG,
		  "two mounts at '/role/dir/a'");
}

static void a_mount_needs_both_its_ends(void **state UNUSED)
{
	must_fail(sandbox("bind_mounts: [{source: a}]\n"), ERR_CONFIG, "'target' is missing");
	must_fail(sandbox("bind_mounts: [{target: /a}]\n"), ERR_CONFIG, "'source' is missing");
	must_fail(sandbox("bind_mounts: [{source: \"\", target: /a}]\n"), ERR_CONFIG, "source");
	must_fail(sandbox("bind_mounts: [{source: null, target: /a}]\n"), ERR_CONFIG, "source");
	must_fail(sandbox("bind_mounts: [\"a:/a\"]\n"), ERR_CONFIG, "expected a map");
	must_fail(sandbox("bind_mounts: {source: a, target: /a}\n"), ERR_CONFIG, "expected a list");
	must_fail(sandbox("bind_mounts: [{source: a, target: /a, read_only: maybe}]\n"), ERR_CONFIG,
		  "read_only");
	must_fail(sandbox("allowed_read_paths: [null]\n"), ERR_CONFIG, "path");
	must_fail(sandbox("allowed_read_paths: x\n"), ERR_CONFIG, "expected a list");
	must_fail(sandbox("allowed_read_paths: [\"~root/x\"]\n"), ERR_CONFIG, "~root");
}

/* --- ssh --- */

static void ssh_needs_a_host(void **state UNUSED)
{
	must_fail(sandbox("backend: ssh\n"), ERR_CONFIG, "ssh.host");
	must_fail(sandbox("backend: ssh\nssh: {}\n"), ERR_CONFIG, "ssh.host");
	must_fail(sandbox("ssh: {remote_cwd: /x}\n"), ERR_CONFIG, "ssh.host");
	must_fail(sandbox("ssh: {host: \"\"}\n"), ERR_CONFIG, "ssh.host");
	must_fail(sandbox("ssh: {host: -oProxyCommand=x}\n"), ERR_CONFIG, "ssh.host");
	must_fail(sandbox("ssh: {host: \"a b\"}\n"), ERR_CONFIG, "ssh.host");
}

static void ssh_takes_every_documented_field(void **state UNUSED)
{
	CLEANUP(spec)
	struct spec *s =
		must_load(sandbox("backend: ssh\nssh:\n  host: me@box\n  remote_cwd: /srv/work\n"
				  "  identity_file: ~/.ssh/id\n  config_file: conf\n"
				  "  connect_timeout: 5\n  control_persist: 1h30m\n"));

	assert_int_equal(s->backend, BACKEND_SSH);
	assert_string_equal(s->ssh.host, "me@box");
	assert_string_equal(s->ssh.remote_cwd, "/srv/work");
	assert_string_equal(s->ssh.identity_file, "/home/me/.ssh/id");
	assert_string_equal(s->ssh.config_file, "/role/dir/conf");
	assert_int_equal(s->ssh.connect_timeout, 5000);
	assert_int_equal(s->ssh.control_persist, 5400000);
	must_fail(sandbox("ssh: {host: a, connect_timeout: 0}\n"), ERR_CONFIG, "connect_timeout");
	must_fail(sandbox("ssh: {host: a, connect_timeout: -1}\n"), ERR_CONFIG, "connect_timeout");
	must_fail(sandbox("ssh: {host: a, connect_timeout: 5s}\n"), ERR_CONFIG, "connect_timeout");
	must_fail(sandbox("ssh: {host: a, control_persist: soon}\n"), ERR_CONFIG,
		  "control_persist");
}

static void ssh_durations_take_every_openssh_form(void **state UNUSED)
{
	static const struct {
		const char *text;
		uint64_t ms;
	} all[] = {
		{ "90", 90000 },      { "60s", 60000 },   { "10m", 600000 }, { "1h30m", 5400000 },
		{ "2w", 1209600000 }, { "1d", 86400000 }, { "0", 0 }
	};
	char line[96];

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		CLEANUP(spec) struct spec *s = NULL;

		(void)snprintf(line, sizeof(line), "ssh: {host: a, control_persist: \"%s\"}\n",
			       all[i].text);
		s = must_load(sandbox(line));
		assert_int_equal(s->ssh.control_persist, all[i].ms);
	}
}

static void ssh_refuses_mounts_and_bridge(void **state UNUSED)
{
	must_fail(sandbox("backend: ssh\nssh: {host: a}\nbind_mounts: [{source: a, target: /a}]\n"),
		  ERR_CONFIG, "bind_mounts");
	must_fail(sandbox("backend: ssh\nssh: {host: a}\nallowed_read_paths: [a]\n"), ERR_CONFIG,
		  "allowed_read_paths");
	must_fail(sandbox("backend: ssh\nssh: {host: a}\nallowed_write_paths: [a]\n"), ERR_CONFIG,
		  "allowed_write_paths");
	must_fail(sandbox("backend: ssh\nssh: {host: a}\nnetwork: bridge\n"), ERR_CONFIG,
		  "network bridge");
}

static void ssh_warns_once_for_each_written_setting_it_ignores(void **state UNUSED)
{
	CLEANUP(spec) struct spec *plain = must_load(sandbox("backend: ssh\nssh: {host: a}\n"));
	CLEANUP(spec)
	struct spec *s = must_load(
		sandbox("backend: ssh\nssh: {host: a}\nnetwork: none\nmemory_limit: 1g\n"
			"cpu_limit: 2\nread_only_rootfs: true\ndocker: {image: x, extra_args: []}\n"
			"bind_mounts: []\nallowed_read_paths: []\n"));

	assert_int_equal(plain->notes.n, 0);
	assert_int_equal(s->notes.n, 6);
	assert_true(has_note(s, "network is not enforced by backend ssh"));
	assert_true(has_note(s, "memory_limit is not enforced by backend ssh"));
	assert_true(has_note(s, "docker.image is not enforced by backend ssh"));
}

/* --- presets --- */

static void presets_have_their_documented_values(void **state UNUSED)
{
	static const struct {
		const char *name;
		unsigned rate, burst, prompt;
		bool strict;
	} all[] = { { "public", 30, 5, 10000, true },
		    { "internal", 120, 20, 50000, false },
		    { "development", 9999, 9999, 500000, false },
		    { "sandbox", 30, 5, 10000, true } };
	char text[64];

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		CLEANUP(spec) struct spec *s = NULL;
		struct role role;
		struct err e;

		(void)snprintf(text, sizeof(text), "security: {preset: %s}\n", all[i].name);
		s = load(text, &role, &e);
		assert_non_null(s);
		assert_string_equal(role.preset->name, all[i].name);
		assert_int_equal(role.preset->requests_per_minute, all[i].rate);
		assert_int_equal(role.preset->burst, all[i].burst);
		assert_int_equal(role.preset->prompt_max, all[i].prompt);
		assert_int_equal(role.preset->block_input, all[i].strict);
		assert_int_equal(role.preset->require_https, all[i].strict);
		assert_int_equal(role.preset->redact_pii, all[i].strict);
		assert_int_equal(spec_wrote(s, FIELD_MEMORY), str_eq(all[i].name, "sandbox"));
	}
	assert_int_equal(preset_none()->requests_per_minute, 60);
	assert_int_equal(preset_none()->burst, 10);
}

static void fields_win_over_the_preset_wherever_it_stands(void **state UNUSED)
{
	CLEANUP(spec)
	struct spec *s = must_load(
		"security:\n  sandbox: {backend: docker, cpu_limit: 2}\n  preset: sandbox\n");

	assert_int_equal(s->backend, BACKEND_DOCKER);
	assert_int_equal(s->limits.cpus, 2000);
	assert_int_equal(s->limits.memory, 256 << 20);
	assert_true(spec_wrote(s, FIELD_MEMORY));
	assert_string_equal(s->where[FIELD_MEMORY], "role.yaml:3:11");
}

/* --- tools --- */

static void tools_are_read_and_kept(void **state UNUSED)
{
	static const char yaml[] =
		"apiVersion: initrunner/v1\nmetadata: {name: builder}\nspec:\n  tools:\n"
		"    - type: shell\n      allowed_commands: [ls, git]\n      timeout_seconds: 60\n"
		"      require_confirmation: false\n"
		"    - type: web_reader\n      anything: [1, 2]\n"
		"    - type: python\n      max_output_bytes: 2048\n      working_dir: sub\n"
		"    - type: script\n      interpreter: /bin/bash\n      scripts:\n"
		"        - name: greet\n          body: |\n            echo \"hello $WHO\"\n"
		"          timeout_seconds: 5\n          parameters:\n"
		"            - {name: who, required: true}\n            - {name: how, default: "
		"loud}\n";
	CLEANUP(spec) struct spec *s = NULL;
	struct role role;
	struct err e;

	s = load(yaml, &role, &e);
	assert_non_null(s);
	assert_string_equal(role.name, "builder");
	assert_int_equal(role.tool_count, 3);
	assert_int_equal(role.tools[0].kind, ROLE_TOOL_SHELL);
	assert_int_equal(role.tools[0].timeout, 60000);
	assert_int_equal(role.tools[0].output, 102400);
	assert_false(role.tools[0].confirm);
	assert_true(role.tools[0].default_blocked);
	assert_string_equal(role.tools[0].allowed.v[1], "git");
	assert_int_equal(role.tools[1].output, 2048);
	assert_true(role.tools[1].network_disabled);
	assert_string_equal(role.tools[1].working_dir, "/role/dir/sub");
	assert_string_equal(role.tools[2].interpreter, "/bin/bash");
	assert_string_equal(role.tools[2].scripts[0].body, "echo \"hello $WHO\"\n");
	assert_int_equal(role.tools[2].scripts[0].timeout, 5000);
	assert_int_equal(role.tools[2].scripts[0].parameter_count, 2);
	assert_true(role.tools[2].scripts[0].parameters[0].required);
	assert_string_equal(role.tools[2].scripts[0].parameters[1].fallback, "loud");
}

static void must_fail_tool(const char *tool, const char *what)
{
	char yaml[512];

	(void)snprintf(yaml, sizeof(yaml), "apiVersion: initrunner/v1\nspec: {tools: [%s]}\n",
		       tool);
	must_fail(yaml, ERR_CONFIG, what);
}

static void tools_of_the_wrong_type_are_errors(void **state UNUSED)
{
	must_fail_tool("{type: shell, timeout_seconds: 0}", "timeout_seconds");
	must_fail_tool("{type: shell, timeout_seconds: soon}", "timeout_seconds");
	must_fail_tool("{type: shell, allowed_commands: ls}", "allowed_commands");
	must_fail_tool("{type: shell, allowed_comands: [ls]}", "unknown key 'allowed_comands'");
	must_fail_tool("{type: shell, blocked_commands: [[rm]]}", "blocked_commands");
	must_fail_tool("{type: python, network_disabled: maybe}", "network_disabled");
	must_fail_tool("{type: python, max_output_bytes: -1}", "max_output_bytes");
	must_fail_tool("{type: script}", "scripts");
	must_fail_tool("{type: script, scripts: []}", "scripts");
	must_fail_tool("{type: script, scripts: [{name: a b, body: x}]}", "name");
	must_fail_tool("{type: script, scripts: [{name: a, body: \" \"}]}", "body");
	must_fail_tool("{type: script, scripts: [{name: a, body: x}, {name: a, body: z}]}",
		       "two scripts named 'a'");
	must_fail_tool("{type: script, scripts: [{name: a, body: x, parameters: [{name: 1x}]}]}",
		       "name");
}

/* --- everything --- */

/* A thousand damaged roles: none crashes, none gives up a protection that no byte asked to drop. */
static void damaged_roles_never_crash_and_never_run_on_the_host(void **state UNUSED)
{
	static char yaml[65536], copy[65536];
	uint32_t seed = 20260416;

	read_example("001-configuration.yaml", yaml, sizeof(yaml));
	for (int round = 0; round < 1000; round++) {
		CLEANUP(spec) struct spec *s = NULL;
		size_t n = strlen(yaml);
		struct role role;
		struct err e;

		memcpy(copy, yaml, n + 1);
		for (int i = 0; i <= round % 3; i++) {
			seed = seed * 1664525 + 1013904223;
			copy[(seed >> 8) % n] = " :-#\n{}[]'\"abz0"[(seed >> 4) % 15];
		}
		s = load(copy, &role, &e);
		if (!s)
			continue;
		assert_int_not_equal(s->backend, BACKEND_NONE);
		assert_int_equal(s->network, NETWORK_NONE);
		assert_int_equal(s->mounts.n + s->write.n + s->docker.extra_args.n, 0);
		assert_true(s->limits.memory <= (uint64_t)999 << 20 && s->limits.cpus <= 100000);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(every_documented_example_resolves_as_documented),
	cmocka_unit_test(defaults_are_not_requests_and_written_values_are),
	cmocka_unit_test(a_flag_wins_over_the_role),
	cmocka_unit_test(a_role_that_names_no_backend_gets_auto_and_one_line_saying_so),
	cmocka_unit_test(backend_none_stays_as_written_for_the_second_opt_in),
	cmocka_unit_test(words_of_another_dialect_and_slips_are_errors),
	cmocka_unit_test(the_nearest_word_is_named),
	cmocka_unit_test(no_slip_in_a_key_is_ignored),
	cmocka_unit_test(unknown_keys_are_errors_inside_the_sandbox_and_tolerated_outside),
	cmocka_unit_test(the_audit_hook_has_its_documented_settings),
	cmocka_unit_test(a_role_names_its_model_and_its_bounds),
	cmocka_unit_test(a_block_in_the_wrong_place_is_an_error),
	cmocka_unit_test(the_old_form_is_refused_with_the_way_to_the_new_one),
	cmocka_unit_test(sizes_and_numbers_are_those_of_the_page),
	cmocka_unit_test(a_cpu_limit_is_above_zero),
	cmocka_unit_test(booleans_are_true_or_false),
	cmocka_unit_test(hole_1_10_4_the_documented_memory_limit_is_bytes_before_any_backend),
	cmocka_unit_test(hole_1_10_2_the_network_is_honoured_or_refused_on_bwrap),
	cmocka_unit_test(host_is_legal_as_a_field_and_blocked_as_a_flag),
	cmocka_unit_test(a_null_user_is_root_inside_and_says_so),
	cmocka_unit_test(an_image_is_a_name_and_nothing_else),
	cmocka_unit_test(blocked_flags_are_policy_errors_at_load_time),
	cmocka_unit_test(gpus_carry_the_warning_of_the_page),
	cmocka_unit_test(names_of_secrets_are_filtered_not_refused),
	cmocka_unit_test(names_that_steer_the_loader_are_refused),
	cmocka_unit_test(hole_1_10_10_sources_are_resolved_the_same_for_every_backend),
	cmocka_unit_test(hole_1_10_5_allowed_paths_are_part_of_the_request_on_docker_too),
	cmocka_unit_test(hole_1_10_12_a_colon_in_a_path_is_refused),
	cmocka_unit_test(system_roots_are_refused_in_either_mode),
	cmocka_unit_test(hole_1_2_below_a_system_root_nothing_is_writable),
	cmocka_unit_test(engine_sockets_and_the_kernel_are_refused_in_either_mode),
	cmocka_unit_test(sources_outside_the_permitted_roots_are_refused),
	cmocka_unit_test(trusted_mount_roots_permit_more),
	cmocka_unit_test(a_working_folder_on_the_command_line_replaces_the_current_one),
	cmocka_unit_test(targets_are_absolute_plain_and_free),
	cmocka_unit_test(a_mount_needs_both_its_ends),
	cmocka_unit_test(ssh_needs_a_host),
	cmocka_unit_test(ssh_takes_every_documented_field),
	cmocka_unit_test(ssh_durations_take_every_openssh_form),
	cmocka_unit_test(ssh_refuses_mounts_and_bridge),
	cmocka_unit_test(ssh_warns_once_for_each_written_setting_it_ignores),
	cmocka_unit_test(presets_have_their_documented_values),
	cmocka_unit_test(fields_win_over_the_preset_wherever_it_stands),
	cmocka_unit_test(tools_are_read_and_kept),
	cmocka_unit_test(tools_of_the_wrong_type_are_errors),
	cmocka_unit_test(damaged_roles_never_crash_and_never_run_on_the_host),
};

int main(int argc, char **argv)
{
	must(argc == 2);
	examples = argv[1];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
