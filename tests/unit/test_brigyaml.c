/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/text/str.h"
#include "model/dialect/dialect.h"

static struct spec *s;
static struct err e;

static int fresh(void **state UNUSED)
{
	memset(&e, 0, sizeof(e));
	s = spec_new(&e);
	return s ? 0 : -1;
}

static int gone(void **state UNUSED)
{
	s = spec_free(s);
	return 0;
}

static int read_by(const char *text, enum origin origin)
{
	const struct source src = { .name = "f.yaml",
				    .folder = "/proj",
				    .home = "/home/me",
				    .origin = origin,
				    .trusted = true };
	struct node *root;

	if (yaml_parse(s->arena, "f.yaml", text, strlen(text), &root, &e) < 0)
		return -e.code;
	return brig_read(s, &src, root, &e);
}

static void taken(const char *text)
{
	if (read_by(text, ORIGIN_FILE) < 0)
		fail_msg("%s", e.what);
}

static void refused(const char *text, const char *what, const char *hint)
{
	assert_true(read_by(text, ORIGIN_FILE) < 0);
	if (!strstr(e.what, what))
		fail_msg("'%s' does not say '%s'", e.what, what);
	if (hint && !strstr(e.hint, hint))
		fail_msg("hint '%s' does not say '%s'", e.hint, hint);
}

static void nested_keys_reach_their_fields(void **state UNUSED)
{
	taken("brig: 1\n"
	      "policy: readonly\n"
	      "limits: {memory: 256m, cpus: 1.5, timeout: 90, pids: 64, disk: 1g, output: 1024}\n"
	      "workspace: {path: src, target: /work, mode: overlay}\n"
	      "egress: {https_only: false, deny: [a.example], groups: [pypi]}\n"
	      "ssh: {host: build, connect_timeout: 1m}\n");
	assert_int_equal(s->policy, POLICY_READONLY);
	assert_int_equal(s->limits.memory, 256 << 20);
	assert_int_equal(s->limits.cpus, 1500);
	assert_int_equal(s->command.timeout, 90000);
	assert_int_equal(s->limits.pids, 64);
	assert_int_equal(s->command.output, 1024);
	assert_string_equal(s->workdir, "/proj/src");
	assert_string_equal(s->target, "/work");
	assert_int_equal(s->workspace_mode, WORKSPACE_OVERLAY);
	assert_false(s->egress.https_only);
	assert_string_equal(s->egress.deny.v[0], "a.example");
	assert_int_equal(s->ssh.connect_timeout, 60000);
	assert_int_equal(s->origin[FIELD_MEMORY], ORIGIN_FILE);
	assert_string_equal(s->where[FIELD_MEMORY], "f.yaml:3:18");
	assert_null(s->where[FIELD_FILES]);
}

static void every_key_of_the_table_is_known(void **state UNUSED)
{
	for (int id = 0; id < FIELD_COUNT; id++) {
		const char *key = fields[id].key;
		char text[128] = "";
		size_t n = 0, open = 0;

		for (; key && *key; key++)
			if (*key != '.') {
				text[n++] = *key;
			} else {
				memcpy(text + n, ": {", 3);
				n += 3;
				open++;
			}
		(void)snprintf(text + n, sizeof(text) - n, ": null%.*s\n", (int)open, "}}}");
		if (n)
			taken(text);
	}
}

static void null_is_as_good_as_not_written(void **state UNUSED)
{
	taken("limits: {memory: ~, cpus: null}\npolicy:\nenv:\n");
	assert_false(spec_wrote(s, FIELD_MEMORY));
	assert_false(spec_wrote(s, FIELD_POLICY));
	assert_int_equal(s->limits.memory, (uint64_t)2 << 30);
}

static void maps_of_variables_are_read(void **state UNUSED)
{
	taken("env: {set: {A: b=c, COUNT: 3, T: true}, pass: [EDITOR]}\nlabels: {team: x}\n");
	assert_int_equal(s->env.n, 3);
	assert_string_equal(s->env.v[0].value, "b=c");
	assert_string_equal(s->env.v[1].value, "3");
	assert_string_equal(s->env.v[2].value, "true");
	assert_string_equal(s->env_pass.v[0], "EDITOR");
	assert_string_equal(s->labels.v[0].name, "team");
	refused("env: {set: [A=b]}\n", "f.yaml:1:12: set: expected a map, not a list", NULL);
	refused("env: {set: {A: null}}\n", "A: expected a value, not nothing", NULL);
	refused("env: {set: {A-B: x}}\n", "'A-B' is not a variable name", NULL);
	refused("env: {set: {\"A=B\": x}}\n", "'A=B' is not a name", NULL);
	refused("env: {pass: [MY_SECRET]}\n", "f.yaml:1:14: env-pass 'MY_SECRET'", NULL);
}

static void mounts_are_text_or_maps(void **state UNUSED)
{
	taken("mounts:\n  - data:/data\n  - ~/x:/x:rw\n"
	      "  - {source: ../y, target: /y}\n  - {source: /z, target: /z, read_only: false}\n");
	assert_int_equal(s->mounts.n, 4);
	assert_string_equal(s->mounts.v[0].source, "/proj/data");
	assert_false(s->mounts.v[0].writable);
	assert_string_equal(s->mounts.v[1].source, "/home/me/x");
	assert_true(s->mounts.v[1].writable);
	assert_string_equal(s->mounts.v[2].source, "/y");
	assert_false(s->mounts.v[2].writable);
	assert_true(s->mounts.v[3].writable);
	refused("mounts: [{source: /a}]\n", "'target' is missing", NULL);
	refused("mounts: [{source: /a, target: /b, readonly: true}]\n",
		"unknown key 'readonly' in a mount", "'read_only'");
	refused("mounts: [{source: \"/a:b\", target: /b}]\n", "':'", NULL);
	refused("mounts: [/a]\n", "f.yaml:1:10: mount '/a'", NULL);
	refused("mounts: /a:/b\n", "mounts: expected a list", NULL);
	refused("mounts: [[/a:/b]]\n", "not a list", NULL);
}

static void copies_and_companions_are_read(void **state UNUSED)
{
	const struct companion_spec *c;

	taken("copies:\n  - {source: src, target: /w, exclude: [\"*.o\", .git]}\n"
	      "companions:\n  db:\n    command: [postgres, -D, /data]\n    env: {A: b}\n"
	      "    limits: {memory: 256m, cpus: 0.5, pids: 40}\n    data: /data\n    user: 1000\n"
	      "    healthcheck: {test: [CMD, pg_isready], interval: 5s, retries: 3}\n"
	      "    post_start_on_primary: [echo hi]\n    network: bridge\n"
	      "  cache:\n    image: redis\n");
	assert_string_equal(s->copies.v[0].source, "/proj/src");
	assert_int_equal(s->copies.v[0].exclude.n, 2);
	c = &s->companions.v[0];
	assert_string_equal(c->name, "db");
	assert_int_equal(c->memory, 256 << 20);
	assert_int_equal(c->cpus, 500);
	assert_int_equal(c->pids, 40);
	assert_string_equal(c->data, "/data");
	assert_string_equal(c->user, "1000");
	assert_string_equal(c->command.v[2], "/data");
	assert_int_equal(c->network, NETWORK_BRIDGE);
	assert_null(c->image);
	assert_string_equal(s->companions.v[1].image, "redis");
	assert_int_equal(c->health.interval, 5000);
	assert_string_equal(c->post_start.v[0], "echo hi");
	assert_int_equal(s->origin[FIELD_COMPANIONS], ORIGIN_FILE);
	refused("companions: {db: {}}\n", "has no command", NULL);
	refused("companions: {db: {command: []}}\n", "has no command", NULL);
	refused("companions: {Db.x: {image: a}}\n", "not a host name", NULL);
	refused("companions: {localhost: {image: a}}\n", "not a host name", NULL);
	refused("companions: {sandbox: {image: a}}\n", "not a host name", NULL);
	refused("companions: {db: {image: a, limits: {memory: 0}}}\n", "memory: '0'", NULL);
	refused("companions: {db: {image: a, memory: 1g}}\n", "unknown key 'memory'", NULL);
	refused("companions: {db: {image: a, user: 0}}\n", "root", NULL);
	refused("companions: {db: {image: a, network: host}}\n", "network: 'host'", NULL);
	refused("companions: {db: {image: a, data: x}}\n", "x", NULL);
	refused("companions: {db: {image: a, data: /usr}}\n", "/usr", NULL);
	refused("companions: {db: {image: a, healthcheck: {retries: 3}}}\n", "'test' is missing",
		NULL);
	refused("companions: {db: {image: a, healthcheck: {test: [CMD]}}}\n", "number of words",
		NULL);
	refused("companions: {db: {image: a, post_start_on_primary: [x]}}\n", "needs a healthcheck",
		NULL);
	refused("copies: [{source: /a, target: b}]\n", "not absolute", NULL);
}

static void rules_are_text_or_maps(void **state UNUSED)
{
	taken("egress:\n"
	      "  allow: [pypi.org, {host: API.example.org, ports: [443, 8443], methods: [GET],\n"
	      "          paths: [/a/, /b]}, {host: x.example, ports: 80}, '@npm']\n"
	      "  deny: [{host: '*.example.net'}]\n"
	      "  rate: {domain: 5}\n"
	      "  resolve: {Git.corp.example: '[fd00::5]:8443'}\n");
	assert_int_equal(s->egress.allow.n, 5);
	assert_string_equal(s->egress.allow.v[0], "pypi.org");
	assert_string_equal(s->egress.allow.v[1], "GET API.example.org:443,8443/a/");
	assert_string_equal(s->egress.allow.v[2], "GET API.example.org:443,8443/b");
	assert_string_equal(s->egress.allow.v[3], "x.example:80");
	assert_string_equal(s->egress.deny.v[0], "*.example.net");
	assert_int_equal(s->egress.rate.domain, 5);
	assert_int_equal(s->egress.rate.total, 20000);
	assert_string_equal(s->egress.resolve.v[0].name, "git.corp.example");
	refused("egress: {allow: [10.0.0.1]}\n", "f.yaml:1:18: '10.0.0.1' is an address", NULL);
	refused("egress: {allow: ['*.com']}\n", "covers a whole top-level domain", NULL);
	refused("egress: {allow: ['*']}\n", "'*' is not a host name", "leading '*.'");
	refused("egress: {allow: [a.example:0]}\n", "'0' is not a port", NULL);
	refused("egress: {allow: [a.example:0443]}\n", "'0443' is not a port", NULL);
	refused("egress: {allow: ['a.example/x/../y']}\n", "is not a path prefix", NULL);
	refused("egress: {allow: ['a.example/%2e']}\n", "is not a path prefix", NULL);
	refused("egress: {allow: ['TRACE a.example']}\n", "'TRACE' is not a method", NULL);
	refused("egress: {allow: [{host: a.example, paths: []}]}\n", "allows nothing", NULL);
	refused("egress: {allow: [{hosts: a.example}]}\n", "unknown key 'hosts'", "'host'");
	refused("egress: {allow: ['@pipy']}\n", "unknown group '@pipy'", "'@pypi'");
	refused("egress: {rate: {domian: 5}}\n", "unknown key 'domian' in egress.rate", "'domain'");
	refused("egress: {resolve: {a.example: 010.0.0.1}}\n", "is not ADDR[:PORT]", NULL);
	refused("egress: {resolve: {a.example: 127.1}}\n", "is not ADDR[:PORT]", NULL);
	refused("leaks: {rules: {jtw: block}}\n", "unknown kind of secret 'jtw'", "'jwt'");
	refused("leaks: {rules: {jwt: blok}}\n", "unknown action 'blok'", NULL);
}

static void credentials_are_read(void **state UNUSED)
{
	const struct credential_spec *c;

	taken("credentials:\n"
	      "  GITHUB_TOKEN: {host: api.github.com, methods: [GET, POST], paths: [/repos/]}\n"
	      "  KEY: {host: ['a.example:8443', b.example], header: X-Key, from: {file: key.txt}}\n"
	      "  GIT: {host: git.example, basic: me, from: {command: [pass, show, git]}}\n"
	      "  Q: {host: q.example, query: key, also: path, from: {env: OTHER}}\n");
	assert_int_equal(s->credentials.n, 4);
	c = s->credentials.v;
	assert_string_equal(c[0].field, "Authorization");
	assert_string_equal(c[0].prefix, "Bearer ");
	assert_string_equal(c[0].source.v[0], "GITHUB_TOKEN");
	assert_string_equal(c[0].paths.v[0], "/repos/");
	assert_string_equal(c[1].prefix, "");
	assert_string_equal(c[1].source.v[0], "/proj/key.txt");
	assert_int_equal(c[1].hosts.n, 2);
	assert_int_equal(c[2].slot, SLOT_BASIC);
	assert_int_equal(c[2].source.n, 3);
	assert_true(c[3].slot == SLOT_QUERY && c[3].in_path);
	refused("credentials: {A: {from: {env: A}}}\n", "'host' is missing", "bound");
	refused("credentials: {A: {host: '*.a.example'}}\n", "is not HOST[:PORT]", "exact");
	taken("credentials: {E: {host: a.example, header: X, query: [p, z], also: [query, path], "
	      "streaming: delayed}}\n");
	c = &s->credentials.v[s->credentials.n - 1];
	assert_true(c[0].slot == SLOT_HEADER && c[0].in_path && c[0].delayed);
	assert_int_equal(c[0].query.n, 2);
	assert_string_equal(c[0].query.v[1], "z");
	taken("credentials: {F: {host: a.example, query: [p, z]}}\n");
	c = &s->credentials.v[s->credentials.n - 1];
	assert_true(c[0].slot == SLOT_QUERY && c[0].query.n == 1 && !c[0].delayed);
	refused("credentials: {A: {host: a.example, header: X, cookie: z}}\n", "not two", NULL);
	refused("credentials: {A: {host: a.example, also: query}}\n", "which parameters",
		"access_token");
	refused("credentials: {A: {host: a.example, also: [body]}}\n", "'path' and 'query'", NULL);
	refused("credentials: {A: {host: a.example, query: []}}\n", "its parameters", NULL);
	refused("credentials: {A: {host: a.example, streaming: live}}\n", "'delayed'", NULL);
	refused("credentials: {A: {host: a.example, header: Host}}\n", "nothing can be injected",
		NULL);
	refused("credentials: {A: {host: a.example, header: 'X Y'}}\n", "is not a name", NULL);
	refused("credentials: {A: {host: a.example, from: {command: 'pass show'}}}\n",
		"expected a list", "without a shell");
	refused("credentials: {A: {host: a.example, from: {env: A, file: b}}}\n", "one of env",
		NULL);
	refused("credentials: {A-B: {host: a.example}}\n", "is not the name of a variable", NULL);
	refused("credentials: {A: {host: a.example, prefix: \"x\\ny\"}}\n", "prefix of a header",
		NULL);
}

static void a_stronger_layer_replaces_lists_and_merges_maps(void **state UNUSED)
{
	assert_int_equal(spec_set(s, FIELD_ENV, "A=flag", ORIGIN_FLAG, &e), 0);
	assert_int_equal(spec_set(s, FIELD_READ, "/flag", ORIGIN_FLAG, &e), 0);
	assert_int_equal(read_by("read: [/u]\nwrite: [/u1, /u2]\nmounts: [/m:/m]\n"
				 "env: {set: {A: user, B: user, C: user}}\negress: {deny: [u]}\n",
				 ORIGIN_USER),
			 0);
	assert_int_equal(read_by("read: [/f]\nwrite: [/f]\nenv: {set: {A: file, C: file}}\n"
				 "mounts: []\negress: {deny: [f]}\n",
				 ORIGIN_FILE),
			 0);
	assert_int_equal(s->read.n, 1);
	assert_string_equal(s->read.v[0], "/flag");
	assert_int_equal(s->write.n, 1);
	assert_string_equal(s->write.v[0], "/f");
	assert_int_equal(s->mounts.n, 0);
	assert_int_equal(s->env.n, 3);
	assert_string_equal(s->env.v[0].value, "flag");
	assert_string_equal(s->env.v[1].value, "user");
	assert_string_equal(s->env.v[2].value, "file");
	assert_int_equal(s->egress.deny.n, 2);
}

static void the_order_of_layers_does_not_matter(void **state UNUSED)
{
	assert_int_equal(read_by("limits: {memory: 1g}\nwrite: [/f]\nmounts: [/f:/f]\ncopies: "
				 "[{source: /a, target: /b}]\n",
				 ORIGIN_FILE),
			 0);
	assert_int_equal(read_by("limits: {memory: 3g}\nwrite: [/s]\nmounts: [/s:/s]\ncopies: []\n",
				 ORIGIN_SYSTEM),
			 0);
	assert_int_equal(s->limits.memory, (uint64_t)1 << 30);
	assert_string_equal(s->write.v[0], "/f");
	assert_int_equal(s->write.n, 1);
	assert_int_equal(s->mounts.n, 1);
	assert_string_equal(s->mounts.v[0].source, "/f");
	assert_int_equal(s->copies.n, 1);
	assert_int_equal(s->origin[FIELD_MEMORY], ORIGIN_FILE);
	assert_string_equal(s->where[FIELD_MEMORY], "f.yaml:1:18");
}

static void what_nobody_will_see_is_checked_all_the_same(void **state UNUSED)
{
	assert_int_equal(spec_set(s, FIELD_MEMORY, "1g", ORIGIN_FLAG, &e), 0);
	refused("limits: {memory: much}\n", "f.yaml:1:18: memory: memory 'much' is not a size",
		NULL);
	assert_int_equal(s->limits.memory, (uint64_t)1 << 30);
}

static void mistakes_are_named_with_their_place_and_the_nearest_word(void **state UNUSED)
{
	refused("polcy: readonly\n", "f.yaml:1:1: unknown key 'polcy'", "'policy'");
	refused("limits:\n  memroy: 1g\n", "f.yaml:2:3: unknown key 'memroy' in limits",
		"'memory'");
	refused("limits.memory: 1g\n", "f.yaml:1:1: unknown key 'limits.memory'", "'limits'");
	refused("limits: {\"x.memory\": 1g}\n", "unknown key 'x.memory' in limits", NULL);
	refused("policy: readonyl\n", "f.yaml:1:9: policy: unknown policy 'readonyl'",
		"'readonly'");
	refused("backend: dokcer\n", "unknown backend 'dokcer'", "'docker'");
	refused("limits: 5\n", "f.yaml:1:9: limits: expected a map, not a value", NULL);
	refused("policy: [readonly]\n", "policy: expected a value, not a list", NULL);
	refused("read: /x\n", "read: expected a list, not a value", NULL);
	refused("read_only_root: 0\n", "read_only_root: '0' is neither true nor false", NULL);
	refused("read_only_root: \"true\"\n", "the text 'true'", "without quotes");
	refused("limits: {memory: 1}\n", "out of bounds", NULL);
	refused("limits: {pids: 0100}\n", "begins with a zero", NULL);
	refused("limits: {pids: 1_000}\n", "is not a number", NULL);
	refused("limits: {memory: 99999999999g}\n", "out of bounds", NULL);
	refused("brig: 2\n", "version '2'", "brig: 1");
	refused("[]\n", "expected a map, not a list", NULL);
	refused("tty: true\n", "unknown key 'tty'", NULL);
	refused("allow: [a.example]\n", "unknown key 'allow'", "'egress.allow'");
	refused("memory: 1g\n", "unknown key 'memory'", "'limits.memory'");
	refused("allow_full: true\n", "unknown key 'allow_full'", NULL);
	refused("user: 0\n", "nobody is root", NULL);
}

static void recognised(const char *text, enum dialect want)
{
	const struct source src = { .name = "f.yaml", .folder = "/" };
	enum dialect d = DIALECT_COUNT;
	struct node *root;

	assert_int_equal(yaml_parse(s->arena, "f", text, strlen(text), &root, &e), 0);
	if (dialect_of_tree(&src, root, &d, &e) < 0)
		assert_int_equal(want, DIALECT_COUNT);
	assert_int_equal(d, want);
}

static void a_document_says_what_dialect_it_is_in(void **state UNUSED)
{
	recognised("brig: 1\n", DIALECT_BRIG);
	recognised("brig: 1\nimage: x\n", DIALECT_BRIG);
	recognised("apiVersion: initrunner/v1\nkind: Agent\n", DIALECT_INITRUNNER);
	recognised("security: {sandbox: {backend: auto}}\n", DIALECT_INITRUNNER);
	recognised("security: {docker: {enabled: true}}\n", DIALECT_INITRUNNER);
	recognised("sandbox: {runtime: docker}\n", DIALECT_RLM);
	recognised("project: x\nsandbox: {docker: {}}\n", DIALECT_RLM);
	recognised("image: x\n", DIALECT_AGENTS);
	recognised("image: x\ncompanion_containers: {}\n", DIALECT_AGENTS);
	recognised("image: x\nelse: 1\n", DIALECT_AGENTS);
	recognised("mounts: []\n", DIALECT_COUNT);
	recognised("sandbox: {}\n", DIALECT_COUNT);
	recognised("apiVersion: v1\n", DIALECT_COUNT);
	recognised("[a]\n", DIALECT_COUNT);
	recognised("brig: 1\nsandbox: {runtime: docker}\n", DIALECT_COUNT);
	assert_non_null(strstr(e.what, "could be 'brig' or 'rlm'"));
	assert_non_null(strstr(e.hint, "--dialect rlm"));
}

static void lines_named_sandbox_are_an_env_file(void **state UNUSED)
{
	static const char *const yes[] = { "SANDBOX_POLICY=readonly\n", "# c\n\nexport SANDBOX_X=1",
					   "OTHER=1\nSANDBOX_X=2\n" };
	static const char *const no[] = {
		"", "brig: 1\n", "OTHER=1\n", "SANDBOX_=1\n", "a: |\n  x\n", "a: |\nSANDBOX_X=1\n"
	};

	for (size_t i = 0; i < sizeof(yes) / sizeof(*yes); i++)
		assert_true(dialect_is_env(yes[i], strlen(yes[i])));
	for (size_t i = 0; i < sizeof(no) / sizeof(*no); i++)
		assert_false(dialect_is_env(no[i], strlen(no[i])));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, fresh, gone)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(nested_keys_reach_their_fields),
		TEST(every_key_of_the_table_is_known),
		TEST(null_is_as_good_as_not_written),
		TEST(maps_of_variables_are_read),
		TEST(mounts_are_text_or_maps),
		TEST(copies_and_companions_are_read),
		TEST(rules_are_text_or_maps),
		TEST(credentials_are_read),
		TEST(a_stronger_layer_replaces_lists_and_merges_maps),
		TEST(the_order_of_layers_does_not_matter),
		TEST(what_nobody_will_see_is_checked_all_the_same),
		TEST(mistakes_are_named_with_their_place_and_the_nearest_word),
		TEST(a_document_says_what_dialect_it_is_in),
		TEST(lines_named_sandbox_are_an_env_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
