/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/files/exposed_notes.h"
#include "base/sys/clock.h"
#include "model/files/config.h"
#include "model/files/settings_used.h"
#include "model/files/trust.h"

static char top[PATH_MAX];
static struct spec *s;
static struct err e;
static char *nothing[] = { NULL };

static int fresh(void **state UNUSED)
{
	char path[PATH_MAX + 16];

	enter_scratch(top);
	memset(&e, 0, sizeof(e));
	(void)snprintf(path, sizeof(path), "%s/state", top);
	must(setenv("XDG_STATE_HOME", path, 1) == 0);
	must(mkdir("home", 0755) == 0 && mkdir("home/proj", 0755) == 0);
	must(mkdir("home/proj/deep", 0755) == 0 && mkdir("outside", 0755) == 0);
	s = spec_new(&e);
	return s ? 0 : -1;
}

static int gone(void **state UNUSED)
{
	s = spec_free(s);
	leave_scratch(top);
	return 0;
}

static void put(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	must(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

static const char *at_top(const char *name)
{
	static char out[4][PATH_MAX + 64];
	static size_t next;
	char *p = out[next++ % 4];

	(void)snprintf(p, PATH_MAX + 64, "%s/%s", top, name);
	return p;
}

static int load_with(const char *cwd, char *const *env)
{
	struct config_place at = { .cwd = at_top(cwd),
				   .home = at_top("home"),
				   .file = s->cli.config,
				   .dialect = s->cli.dialect,
				   .environ = env,
				   .system_file = at_top("system.yaml"),
				   .user_file = at_top("user.yaml") };

	return config_load(s, &at, &e);
}

static int load(const char *cwd)
{
	return load_with(cwd, nothing);
}

static void again(void)
{
	s = spec_free(s);
	s = spec_new(&e);
	assert_non_null(s);
}

static void loads(const char *cwd)
{
	again();
	if (load(cwd) < 0)
		fail_msg("%s", e.what);
}

static void refuses(const char *cwd, const char *words)
{
	again();
	assert_true(load(cwd) < 0);
	if (!strstr(e.what, words))
		fail_msg("'%s' does not say '%s'", e.what, words);
}

static void flag(enum field_id id, const char *text)
{
	assert_int_equal(spec_set(s, id, text, ORIGIN_FLAG, &e), 0);
}

static void nothing_written_leaves_the_defaults(void **state UNUSED)
{
	loads("home/proj");
	for (int id = 0; id < FIELD_COUNT; id++)
		assert_false(spec_wrote(s, (enum field_id)id));
	assert_int_equal(s->limits.memory, (uint64_t)2 << 30);
}

static void each_layer_beats_the_one_below(void **state UNUSED)
{
	char memory[] = "BRIG_MEMORY=5m", *env[] = { memory, NULL };

	put("system.yaml",
	    "limits: {memory: 1m, pids: 11, files: 111, tmp: 11m, output: 1k, disk: 1g}\n");
	put("user.yaml", "limits: {memory: 2m, pids: 12, files: 112, tmp: 12m, output: 2k}\n");
	put("home/proj/.brig.yaml", "limits: {memory: 1m, pids: 10, files: 100, tmp: 10m}\n");
	put("f.yaml", "brig: 1\nlimits: {memory: 4m, pids: 14, files: 114}\n");
	flag(FIELD_CONFIG, at_top("f.yaml"));
	flag(FIELD_PIDS, "16");
	assert_int_equal(load_with("home/proj", env), 0);
	assert_int_equal(s->limits.pids, 16);
	assert_int_equal(s->limits.memory, 5 << 20);
	assert_int_equal(s->limits.files, 114);
	assert_int_equal(s->limits.tmp, 10 << 20);
	assert_int_equal(s->command.output, 2048);
	assert_int_equal(s->limits.disk, (uint64_t)1 << 30);
	assert_int_equal(s->origin[FIELD_PIDS], ORIGIN_FLAG);
	assert_int_equal(s->origin[FIELD_MEMORY], ORIGIN_ENVIRONMENT);
	assert_string_equal(s->where[FIELD_MEMORY], "BRIG_MEMORY");
	assert_int_equal(s->origin[FIELD_FILES], ORIGIN_FILE);
	assert_int_equal(s->origin[FIELD_TMP], ORIGIN_PROJECT);
	assert_int_equal(s->origin[FIELD_OUTPUT], ORIGIN_USER);
	assert_int_equal(s->origin[FIELD_DISK], ORIGIN_SYSTEM);
	assert_string_equal(s->where[FIELD_OUTPUT], at_top("user.yaml:1:62"));
}

static void the_users_file_is_found_by_the_xdg_rule(void **state UNUSED)
{
	char xdg[PATH_MAX + 32], *env[] = { xdg, NULL };
	struct config_place at = { .cwd = at_top("outside"),
				   .environ = env,
				   .system_file = "/nowhere" };

	(void)snprintf(xdg, sizeof(xdg), "XDG_CONFIG_HOME=%s/xdg", top);
	must(mkdir("xdg", 0755) == 0 && mkdir("xdg/brig", 0755) == 0);
	put("xdg/brig/config.yaml", "limits: {pids: 33}\n");
	assert_int_equal(config_load(s, &at, &e), 0);
	assert_int_equal(s->limits.pids, 33);
	must(mkdir("home/.config", 0755) == 0 && mkdir("home/.config/brig", 0755) == 0);
	put("home/.config/brig/config.yaml", "limits: {pids: 44}\n");
	again();
	at.environ = nothing;
	at.home = at_top("home");
	assert_int_equal(config_load(s, &at, &e), 0);
	assert_int_equal(s->limits.pids, 44);
}

static void files_that_others_can_write_are_refused(void **state UNUSED)
{
	put("user.yaml", "policy: readonly\n");
	must(chmod("user.yaml", 0666) == 0);
	refuses("outside", "can be written by everybody");
	must(chmod("user.yaml", 0644) == 0);
	if (geteuid() == 0) {
		must(chown("user.yaml", 4242, 4242) == 0);
		refuses("outside", "belongs to another user");
	}
}

static void a_broken_layer_is_an_error_with_its_place(void **state UNUSED)
{
	put("user.yaml", "polcy: readonly\n");
	refuses("outside", "user.yaml:1:1: unknown key 'polcy'");
	put("user.yaml", "sandbox: {runtime: docker}\n");
	refuses("outside", "unknown key 'sandbox'");
	must(remove("user.yaml") == 0 && mkdir("user.yaml", 0755) == 0);
	refuses("outside", "is not a file");
}

/* --- the project's file --- */

static void a_project_may_tighten(void **state UNUSED)
{
	put("home/proj/.brig.yaml",
	    "policy: readonly\nnetwork: none\nprofile: strict\nlimits: {memory: 1g, cpus: 1, "
	    "timeout: 60, "
	    "pids: 100, disk: 1g, tmp: 64m, files: 64, output: 1k, cpu_shares: 512, tmp_exec: "
	    "false}\n"
	    "env: {set: {CI: b}}\negress: {deny: [x.example], allow: []}\nread_only_root: true\n"
	    "workspace: {mode: overlay}\nallow_full_access: false\nmounts: []\n");
	loads("home/proj");
	assert_int_equal(s->policy, POLICY_READONLY);
	assert_int_equal(s->limits.memory, (uint64_t)1 << 30);
	assert_int_equal(s->env.n, 1);
}

/* A list of hosts means the door; an empty one, which anybody may write, must not: behind it are
 * the groups that the user has for other runs. */
static void an_empty_list_of_hosts_opens_no_door(void **state UNUSED)
{
	const struct place at = { .cwd = at_top("home/proj"), .home = at_top("home") };
	char word[] = "true", *argv[] = { word };

	put("user.yaml", "egress: {groups: [pypi]}\n");
	for (int trusted = 0; trusted < 2; trusted++) {
		put("home/proj/.brig.yaml", "egress: {allow: []}\n");
		loads("home/proj");
		assert_int_equal(spec_set_argv(s, 1, argv, &e), 0);
		assert_int_equal(spec_check(s, &at, &e), 0);
		assert_int_equal(s->network, NETWORK_NONE);
		assert_int_equal(trust_add(at_top("home/proj/.brig.yaml"), "egress: {allow: []}\n",
					   strlen("egress: {allow: []}\n"), &e),
				 0);
	}
	/* The control: one that names a host does, where it is trusted. */
	put("home/proj/.brig.yaml", "egress: {allow: [a.example]}\n");
	assert_int_equal(trust_add(at_top("home/proj/.brig.yaml"), "egress: {allow: [a.example]}\n",
				   strlen("egress: {allow: [a.example]}\n"), &e),
			 0);
	loads("home/proj");
	assert_int_equal(spec_set_argv(s, 1, argv, &e), 0);
	assert_int_equal(spec_check(s, &at, &e), 0);
	assert_int_equal(s->network, NETWORK_PROXY);
}

/* What the user shows may lie within something else: read-only in a workspace that is writable, an
 * empty file over secrets. To show nothing would then show more. */
static void a_project_does_not_take_away_what_narrows(void **state UNUSED)
{
	static const char *const rows[][2] = {
		{ "read: [/srv/golden]\n", "read: []\n" },
		{ "mounts: ['/dev/null:/srv/.env']\n", "mounts: []\n" },
		{ "credentials: {K: {host: a.example, from: {env: K}, paths: [/v1]}}\n",
		  "credentials: {}\n" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		put("user.yaml", rows[i][0]);
		put("home/proj/.brig.yaml", rows[i][1]);
		refuses("home/proj", "may only tighten");
		/* The control: where there is nothing, nothing is said by it. */
		put("user.yaml", "");
		loads("home/proj");
	}
	put("user.yaml", "write: [/srv/x]\negress: {groups: [pypi]}\n");
	put("home/proj/.brig.yaml", "write: []\negress: {groups: []}\n");
	loads("home/proj");
	assert_int_equal(s->write.n + s->egress.groups.n, 0);
}

static void a_project_may_not_loosen_until_it_is_trusted(void **state UNUSED)
{
	static const char *const lines[] = {
		"policy: full_access",
		"network: host",
		"network: proxy",
		"limits: {memory: 3g}",
		"limits: {timeout: 601}",
		"limits: {pids: 1025}",
		"limits: {output: 65k}",
		"limits: {files: 5000}",
		"limits: {tmp: 2g}",
		"limits: {cpu_shares: 2048}",
		"mounts: [/srv/x:/x]",
		"read: [/srv]",
		"write: [/srv/x]",
		"env: {pass: [EDITOR]}",
		"egress: {allow: [a.example]}",
		"egress: {groups: [pypi]}",
		"egress: {https_only: false}",
		"egress: {port: 8080}",
		"image: x",
		"docker: {image: x}",
		"docker: {extra_args: [--init]}",
		"docker: {extra_args: []}",
		"user: 1000",
		"ssh: {host: x}",
		"backend: native",
		"backend: none",
		"profile: debug",
		"read_only_root: false",
		"allow_full_access: true",
		"mount_roots: [/]",
		"mount_roots: []",
		"workspace: {path: /tmp}",
		"workspace: {target: /w}",
		"copies: [{source: /etc, target: /x}]",
		"companions: {a: {image: b}}",
		"builtin_tools: [git]",
		"ports: ['1:1']",
		"gpus: all",
		"gpus: 1",
		"command: [x]",
		"runtime: runc",
		"idle_ttl: 11m",
		"env: {set: {PATH: /workspace/bin}}",
		"env: {set: {PYTHONPATH: x}}",
		"env: {set: {CI: /workspace/x}}",
		"env: {set: {LANGUAGE: en}}",
		"env: {set: {A: b, CI: '1'}}",
		"egress: {resolve: {a.example: 127.0.0.1}}",
		"leaks: {rules: {private-key: 'off'}}",
	};
	char text[128];

	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
		(void)snprintf(text, sizeof(text), "%s\n", lines[i]);
		put("home/proj/.brig.yaml", text);
		refuses("home/proj", "may only tighten");
		assert_int_equal(e.kind, ERR_POLICY);
		assert_non_null(strstr(e.hint, "brig allow"));
		assert_int_equal(trust_add(at_top("home/proj/.brig.yaml"), text, strlen(text), &e),
				 0);
		if (strstr(text, "full_access") || strstr(text, "none"))
			refuses("home/proj", "cannot ask for a run on the host");
		else
			loads("home/proj");
	}
}

static void what_tightens_is_measured_against_the_layers_below(void **state UNUSED)
{
	put("user.yaml",
	    "limits: {memory: 256m, timeout: 1h}\negress: {deny: [u]}\nenv: {set: {A: user}}\n");
	put("home/proj/.brig.yaml", "limits: {memory: 512m}\n");
	refuses("home/proj", "limits.memory");
	put("home/proj/.brig.yaml", "limits: {timeout: 30m}\negress: {deny: [p]}\n");
	loads("home/proj");
	assert_int_equal(s->command.timeout, 1800000);
	assert_int_equal(s->egress.deny.n, 2);
}

/* What a stronger layer has written into the same map makes the project's entries nobody else's. */
static void entries_of_a_map_are_compared_one_by_one(void **state UNUSED)
{
	static const struct {
		enum field_id id;
		const char *ours, *same, *theirs;
	} tries[] = {
		{ FIELD_EGRESS_RESOLVE, "b.example=127.0.0.2",
		  "egress: {resolve: {b.example: 127.0.0.2}}",
		  "egress: {resolve: {a.example: 127.0.0.1}}" },
		{ FIELD_LEAKS_RULES, "hex64=block", "leaks: {rules: {hex64: block}}",
		  "leaks: {rules: {hex64: block, private-key: 'off'}}" },
		{ FIELD_ENV, "HOME=/x", "env: {set: {HOME: /x}}",
		  "env: {set: {HOME: /x, PATH: /y}}" },
	};

	for (size_t i = 0; i < ARRAY_LEN(tries); i++)
		for (int by = ORIGIN_SYSTEM; by <= ORIGIN_FLAG; by++) {
			if (by == ORIGIN_PROJECT)
				continue;
			again();
			put("home/proj/.brig.yaml", tries[i].same);
			assert_int_equal(spec_set(s, tries[i].id, tries[i].ours, by, &e), 0);
			if (load("home/proj") < 0)
				fail_msg("%s: %s", tries[i].same, e.what);
			again();
			put("home/proj/.brig.yaml", tries[i].theirs);
			assert_int_equal(spec_set(s, tries[i].id, tries[i].ours, by, &e), 0);
			assert_true(load("home/proj") < 0);
			assert_non_null(strstr(e.what, "may only tighten"));
		}
}

/* A weaker layer's entry that the project would replace is a change as well. */
static void an_entry_is_not_replaced_in_silence(void **state UNUSED)
{
	put("user.yaml", "leaks: {rules: {private-key: block}}\n");
	put("home/proj/.brig.yaml", "leaks: {rules: {private-key: 'off'}}\n");
	refuses("home/proj", "leaks.rules.private-key");
	put("home/proj/.brig.yaml", "leaks: {rules: {private-key: block}}\n");
	loads("home/proj");
}

static void a_map_has_an_end(void **state UNUSED)
{
	char name[32];
	int r = 0;

	for (int i = 0; i < 5000 && r == 0; i++) {
		(void)snprintf(name, sizeof(name), "N%d=x", i);
		r = spec_set(s, FIELD_ENV, name, ORIGIN_FLAG, &e);
	}
	assert_int_equal(r, -E2BIG);
}

static void a_home_behind_a_link_bounds_the_search_as_well(void **state UNUSED)
{
	char cwd[PATH_MAX + 64], home[PATH_MAX + 64];
	struct config_place at = { .cwd = cwd,
				   .home = home,
				   .environ = nothing,
				   .system_file = "/nonexistent",
				   .user_file = "/nonexistent" };

	(void)snprintf(cwd, sizeof(cwd), "%s", at_top("home/proj/sub"));
	(void)snprintf(home, sizeof(home), "%s", at_top("hlink"));
	must(mkdir("home/proj/sub", 0755) == 0 && symlink("home", "hlink") == 0);
	put("home/proj/.brig.yaml", "policy: readonly\n");
	assert_int_equal(config_load(s, &at, &e), 0);
	assert_int_equal(s->policy, POLICY_READONLY);
	/* The home folder's own is not a project's. */
	put("home/.brig.yaml", "limits: {pids: 10}\n");
	(void)snprintf(cwd, sizeof(cwd), "%s", at_top("home"));
	again();
	assert_int_equal(config_load(s, &at, &e), 0);
	assert_int_equal(s->limits.pids, 1024);
}

static void a_dialects_defaults_count_as_below(void **state UNUSED)
{
	put("role.yaml", "security: {sandbox: {backend: auto}}\n");
	put("home/proj/.brig.yaml", "limits: {memory: 1g}\n");
	flag(FIELD_CONFIG, at_top("role.yaml"));
	assert_true(load("home/proj") < 0);
	assert_non_null(strstr(e.what, "limits.memory"));
}

static void what_a_stronger_layer_says_needs_no_trust(void **state UNUSED)
{
	put("home/proj/.brig.yaml", "limits: {memory: 3g}\n");
	flag(FIELD_MEMORY, "4g");
	assert_int_equal(load("home/proj"), 0);
	assert_int_equal(s->limits.memory, (uint64_t)4 << 30);
}

static void a_changed_file_is_trusted_no_longer(void **state UNUSED)
{
	char path[PATH_MAX + 64];

	(void)snprintf(path, sizeof(path), "%s", at_top("home/proj/.brig.yaml"));
	put("home/proj/.brig.yaml", "network: host\n");
	assert_int_equal(trust_add(path, "network: host\n", 14, &e), 0);
	loads("home/proj");
	put("home/proj/.brig.yaml", "network: host \n");
	refuses("home/proj", "network");
	put("home/proj/.brig.yaml", "network: host\n");
	loads("home/proj");
	assert_int_equal(trust_remove(path, &e), 1);
	assert_int_equal(trust_remove(path, &e), 0);
	refuses("home/proj", "network");
}

static void trust_is_for_one_path(void **state UNUSED)
{
	assert_int_equal(trust_add("/a/b", "x", 1, &e), 0);
	assert_int_equal(trust_add("/a/c", "y", 1, &e), 0);
	assert_true(trust_has("/a/b", "x", 1));
	assert_true(trust_has("/a/c", "y", 1));
	assert_false(trust_has("/a/c", "x", 1));
	assert_false(trust_has("/a", "x", 1));
	assert_int_equal(trust_add("/a/b", "z", 1, &e), 0);
	assert_false(trust_has("/a/b", "x", 1));
	assert_true(trust_has("/a/b", "z", 1));
	assert_true(trust_add("/a\n/b", "z", 1, &e) < 0);
	put("state/brig/trusted", "garbage\n\nabc  /x\n");
	assert_false(trust_has("/x", "", 0));
	assert_int_equal(trust_add("/x", "", 0, &e), 0);
	assert_true(trust_has("/x", "", 0));
}

static void the_file_is_found_upwards_within_a_bound(void **state UNUSED)
{
	put("home/proj/.brig.yaml", "limits: {pids: 7}\n");
	loads("home/proj/deep");
	assert_int_equal(s->limits.pids, 7);
	/* a repository ends the search */
	must(mkdir("home/proj/deep/.git", 0755) == 0);
	loads("home/proj/deep");
	assert_int_equal(s->limits.pids, 1024);
	/* the home folder's own is no project's */
	put("home/.brig.yaml", "limits: {pids: 8}\n");
	must(remove("home/proj/.brig.yaml") == 0 && remove("home/proj/deep/.git") == 0);
	loads("home/proj/deep");
	assert_int_equal(s->limits.pids, 1024);
	loads("home");
	assert_int_equal(s->limits.pids, 1024);
	/* outside of home and without a repository only the folder itself counts */
	must(mkdir("outside/a", 0755) == 0);
	put("outside/.brig.yaml", "limits: {pids: 9}\n");
	loads("outside/a");
	assert_int_equal(s->limits.pids, 1024);
	loads("outside");
	assert_int_equal(s->limits.pids, 9);
	must(mkdir("outside/.git", 0755) == 0);
	loads("outside/a");
	assert_int_equal(s->limits.pids, 9);
}

static void what_a_guest_may_have_made_hides_no_file_that_tightens(void **state UNUSED)
{
	put("user.yaml", "network: proxy\nlimits: {pids: 100, files: 50}\nwrite: [/srv]\n"
			 "egress: {allow: [a.example], deny: [b.example]}\n");
	put("home/proj/.brig.yaml",
	    "network: none\nlimits: {pids: 7, files: 60}\nwrite: []\npolicy: full_access\n"
	    "egress: {deny: [c.example]}\nenv: {set: {A: b}}\nlabels: {a: b}\n");
	put("home/proj/deep/.brig.yaml", "limits: {pids: 9}\n");
	loads("home/proj/deep"); /* nobody has run there: the nearest is the one */
	assert_int_equal(s->limits.pids, 9);
	must(exposed_note(at_top("home/proj"), EXPOSED_AS_WRITE, &e) == 0);
	loads("home/proj/deep");
	assert_int_equal(s->limits.pids, 7);
	assert_int_equal(s->origin[FIELD_PIDS], ORIGIN_PROJECT);
	assert_int_equal(s->limits.files, 50);
	assert_int_equal(s->network, NETWORK_NONE);
	assert_int_equal(s->policy, POLICY_WORKSPACE_WRITE);
	assert_int_equal(s->write.n, 0);
	assert_int_equal(s->env.n + s->labels.n, 0);
	assert_int_equal(s->egress.deny.n, 2);
	assert_string_equal(s->egress.deny.v[1], "c.example");
	assert_int_equal(s->notes.n, 1);
	put("home/proj/deep/.brig.yaml", "limits: {pids: 5}\n"); /* whichever tightens more */
	loads("home/proj/deep");
	assert_int_equal(s->limits.pids, 5);
	must(trust_add(at_top("home/proj/deep/.brig.yaml"), "limits: {pids: 5}\n", 18, &e) == 0);
	loads("home/proj/deep"); /* the user's word ends the search */
	assert_int_equal(s->limits.files, 50);
	assert_int_equal(s->network, NETWORK_PROXY);
	put("home/proj/deep/.brig.yaml", "limits: {pids: nine}\n");
	refuses("home/proj/deep", "nine");
	must(remove("home/proj/deep/.brig.yaml") == 0 && mkdir("home/proj/deep/.git", 0755) == 0);
	put("home/proj/.brig.yaml",
	    "limits: {pids: nine}\n"); /* one that says nothing is no way out */
	refuses("home/proj/deep", "nine");
}

static void of_settings_that_were_used_those_of_folders_that_are_gone_go(void **state UNUSED)
{
	CLEANUP(arena) struct arena *a = arena_new(1 << 20);
	const char *const *used;
	char path[64];
	size_t n;

	assert_int_equal(settings_remember(at_top("home/proj/.brig.yaml"), "brig", &e), 0);
	for (int i = 0; i < 600; i++) {
		(void)snprintf(path, sizeof(path), "/nowhere/%d/.brig.yaml", i);
		assert_int_equal(settings_remember(path, "brig", &e), 0);
	}
	assert_int_equal(settings_used(a, &used, &n), 0);
	assert_true(n < 600);
	assert_string_equal(used[0],
			    at_top("home/proj/.brig.yaml")); /* missing, and could be made */
	assert_string_equal(used[n - 1], path);
}

static void the_workdir_decides_whose_file_is_read(void **state UNUSED)
{
	put("home/proj/.brig.yaml", "limits: {pids: 7}\n");
	flag(FIELD_WORKDIR, at_top("home/proj"));
	assert_int_equal(load("outside"), 0);
	assert_int_equal(s->limits.pids, 7);
}

static void a_link_in_its_place_is_refused(void **state UNUSED)
{
	put("elsewhere.yaml", "policy: readonly\n");
	must(symlink("../../elsewhere.yaml", "home/proj/.brig.yaml") == 0);
	refuses("home/proj", "symbolic link");
}

/* --- other dialects --- */

static void a_file_is_read_in_its_own_dialect(void **state UNUSED)
{
	put("role.yaml", "security: {sandbox: {backend: auto}}\n");
	flag(FIELD_CONFIG, at_top("role.yaml"));
	assert_int_equal(load("home/proj"), 0);
	assert_int_equal(s->dialect_used, DIALECT_INITRUNNER);
	assert_int_equal(s->limits.memory, 256 << 20);
	assert_int_equal(s->origin[FIELD_MEMORY], ORIGIN_DIALECT);
	assert_string_equal(s->config_file, at_top("role.yaml"));
}

static void a_named_dialect_settles_it(void **state UNUSED)
{
	put("f.yaml", "limits: {pids: 9}\n");
	flag(FIELD_CONFIG, at_top("f.yaml"));
	assert_true(load("outside") < 0);
	assert_non_null(strstr(e.what, "not in a dialect"));
	again();
	flag(FIELD_CONFIG, at_top("f.yaml"));
	flag(FIELD_DIALECT, "brig");
	assert_int_equal(load("outside"), 0);
	assert_int_equal(s->limits.pids, 9);
	again();
	flag(FIELD_DIALECT, "rlm");
	assert_true(load("outside") < 0);
	again();
	flag(FIELD_DIALECT, "rml");
	assert_true(load("outside") < 0);
	assert_non_null(strstr(e.hint, "'rlm'"));
}

static void ambient_variables_count_without_another_file(void **state UNUSED)
{
	char policy[] = "SANDBOX_POLICY=readonly", *env[] = { policy, NULL };

	assert_int_equal(load_with("outside", env), 0);
	assert_int_equal(s->dialect_used, DIALECT_IRONCLAW);
	assert_int_equal(s->policy, POLICY_READONLY);
	assert_string_equal(s->where[FIELD_POLICY], "SANDBOX_POLICY");
	again();
	put("f.yaml", "brig: 1\n");
	flag(FIELD_CONFIG, at_top("f.yaml"));
	assert_int_equal(load_with("outside", env), 0);
	assert_int_equal(s->policy, POLICY_WORKSPACE_WRITE);
	assert_int_equal(s->dialect_used, DIALECT_BRIG);
	again();
	put("f.env", "SANDBOX_POLICY=workspace_write\nSANDBOX_TIMEOUT_SECS=7\n");
	flag(FIELD_CONFIG, at_top("f.env"));
	assert_int_equal(load_with("outside", env), 0);
	assert_int_equal(s->policy, POLICY_READONLY);
	assert_int_equal(s->command.timeout, 7000);
}

static void somebody_elses_sandbox_variables_change_nothing(void **state UNUSED)
{
	char other[] = "SANDBOX_COLOUR=blue", *env[] = { other, NULL };

	must(mkdir("home/.ironclaw", 0755) == 0);
	put("home/.ironclaw/.env", "LLM_BACKEND=x\n\"what else\n"); /* none of our business */
	assert_int_equal(load_with("outside", env), 0);
	assert_int_equal(s->dialect_used, DIALECT_BRIG);
	assert_int_equal(s->command.timeout, 600000);
	assert_int_equal(s->network, NETWORK_NONE);
}

static void ironclaws_own_file_counts_alone(void **state UNUSED)
{
	must(mkdir("home/.ironclaw", 0755) == 0);
	put("home/.ironclaw/.env", "LLM_BACKEND=x\nSANDBOX_POLICY=readonly\n");
	assert_int_equal(load("outside"), 0);
	assert_int_equal(s->dialect_used, DIALECT_IRONCLAW);
	assert_int_equal(s->policy, POLICY_READONLY);
	assert_int_equal(s->origin[FIELD_POLICY], ORIGIN_USER);
	assert_int_equal(s->backend, BACKEND_DOCKER);
	again();
	put("f.yaml", "brig: 1\n");
	flag(FIELD_CONFIG, at_top("f.yaml"));
	assert_int_equal(load("outside"), 0);
	assert_int_equal(s->policy, POLICY_WORKSPACE_WRITE);
	again();
	put("home/.ironclaw/.env", "SANDBOX_POLCY=readonly\n");
	assert_true(load("outside") < 0);
	assert_non_null(strstr(e.hint, "SANDBOX_POLICY"));
}

static void ironclaws_own_file_joins_its_variables(void **state UNUSED)
{
	char policy[] = "SANDBOX_POLICY=readonly", *env[] = { policy, NULL };

	must(mkdir("home/.ironclaw", 0755) == 0);
	put("home/.ironclaw/.env", "SANDBOX_POLICY=workspace_write\nSANDBOX_TIMEOUT_SECS=7\n");
	assert_int_equal(load_with("outside", env), 0);
	assert_int_equal(s->command.timeout, 7000);
	assert_int_equal(s->policy, POLICY_READONLY);
	assert_int_equal(s->origin[FIELD_TIMEOUT], ORIGIN_USER);
	again();
	flag(FIELD_DIALECT, "ironclaw");
	assert_int_equal(load("outside"), 0);
	assert_int_equal(s->command.timeout, 7000);
}

static void variables_alone_never_lead_to_the_host(void **state UNUSED)
{
	char policy[] = "SANDBOX_POLICY=full_access", ok[] = "SANDBOX_ALLOW_FULL_ACCESS=true",
	     *env[] = { policy, ok, NULL };

	assert_int_equal(load_with("outside", env), 0);
	assert_false(s->full_access_ok);
}

/* --- the spec as a whole --- */

static int check_file(const char *text)
{
	struct place at = { .cwd = at_top("outside"), .home = at_top("home") };

	again();
	put("f.yaml", text);
	flag(FIELD_CONFIG, at_top("f.yaml"));
	return load("outside") < 0 ? -1 : spec_check(s, &at, &e);
}

static void files_may_not_steer_programs(void **state UNUSED)
{
	static const char *const names[] = {
		"LD_PRELOAD", "LD_LIBRARY_PATH", "BASH_ENV",     "ENV",     "IFS",
		"SHELLOPTS",  "PYTHONSTARTUP",   "NODE_OPTIONS", "PERL5OPT"
	};
	struct place at = { .cwd = at_top("outside"), .home = at_top("home") };
	char text[96];

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		(void)snprintf(text, sizeof(text), "brig: 1\nenv: {set: {%s: x}}\n", names[i]);
		assert_true(check_file(text) < 0);
		assert_non_null(strstr(e.what, names[i]));
		assert_non_null(strstr(e.what, "f.yaml:2:12"));
	}
	again();
	flag(FIELD_ENV, "LD_PRELOAD=x");
	assert_int_equal(spec_check(s, &at, &e), 0);
	assert_int_equal(check_file("brig: 1\nenv: {set: {ENVIRONMENT: a, LDAP: b}}\n"), 0);
}

static void system_folders_are_kept(void **state UNUSED)
{
	static const char *const never[] = { "/",      "/etc", "/root", "/home", "/boot", "/sys",
					     "/proc",  "/dev", "/usr",  "/bin",  "/sbin", "/lib",
					     "/lib64", "/var", "/run",  "/opt",  "/srv" };
	static const char *const below[] = { "/etc/ssl", "/usr/local", "/var/lib/x", "/var/log",
					     "/home/u",  "/root/x",    "/run/x",     "/boot/grub",
					     "/dev/shm", "/run/user/7" };
	static const char *const own[] = { "/home/u/x",  "/srv/x", "/opt/x", "/var/tmp",
					   "/var/tmp/x", "/tmp/x", "/data",  "/run/user/7/x" };
	char text[96];

	for (size_t i = 0; i < sizeof(never) / sizeof(*never); i++)
		for (int rw = 0; rw < 2; rw++) {
			(void)snprintf(text, sizeof(text), "brig: 1\nmounts: [\"%s:/x%s\"]\n",
				       never[i], rw ? ":rw" : "");
			assert_true(check_file(text) < 0);
			assert_int_equal(e.kind, ERR_POLICY);
		}
	for (size_t i = 0; i < sizeof(below) / sizeof(*below); i++) {
		(void)snprintf(text, sizeof(text), "brig: 1\nmounts: [\"%s:/x:rw\"]\n", below[i]);
		assert_true(check_file(text) < 0);
		(void)snprintf(text, sizeof(text), "brig: 1\nmounts: [\"%s:/x\"]\n", below[i]);
		assert_int_equal(check_file(text), 0);
		(void)snprintf(text, sizeof(text), "brig: 1\nwrite: [%s]\n", below[i]);
		assert_true(check_file(text) < 0);
	}
	for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++) {
		(void)snprintf(text, sizeof(text), "brig: 1\nmounts: [\"%s:/x:rw\"]\n", own[i]);
		assert_int_equal(check_file(text), 0);
	}
	assert_int_equal(
		check_file(
			"brig: 1\nmount_roots: [/var/lib/x]\nmounts: [\"/var/lib/x/y:/x:rw\"]\n"),
		0);
	assert_true(check_file("brig: 1\nmount_roots: [/]\nmounts: [\"/var/lib/x:/x:rw\"]\n") < 0);
}

static void mounts_come_from_the_permitted_roots(void **state UNUSED)
{
	assert_int_equal(check_file("brig: 1\nmount_roots: [/data]\nmounts: [/data/x:/x]\n"), 0);
	assert_true(check_file("brig: 1\nmount_roots: [/data]\nmounts: [/database:/x]\n") < 0);
	assert_non_null(strstr(e.what, "/database"));
	assert_non_null(strstr(e.hint, "/data"));
	assert_true(check_file("brig: 1\nmount_roots: [/data]\nmounts: [/data/../x:/x]\n") < 0);
	assert_true(
		check_file("brig: 1\nmount_roots: [/data]\ncopies: [{source: /x, target: /y}]\n") <
		0);
}

static void the_flags_of_docker_are_checked(void **state UNUSED)
{
	assert_true(check_file("brig: 1\ndocker: {extra_args: [--privileged]}\n") < 0);
	assert_int_equal(e.kind, ERR_POLICY);
	assert_non_null(strstr(e.what, "--privileged"));
}

/* --- showing it --- */

static void what_is_shown_reads_back_the_same(void **state UNUSED)
{
	CLEANUP(buf) struct buf one = BUF_INIT((size_t)1 << 20);
	CLEANUP(buf) struct buf two = BUF_INIT((size_t)1 << 20);

	assert_int_equal(
		check_file("brig: 1\npolicy: readonly\nlimits: {cpus: 1.5, memory: 300m, timeout: "
			   "90500ms}\n"
			   "env: {set: {A: \"x: \\\"y\\\" # z\", B: \"on\"}}\nmounts: [/data:/d]\n"
			   "labels: {a: b}\nports: [\"80:8080\", \"53:53/udp\"]\nuser: 7:8\n"
			   "copies: [{source: /a, target: /b, exclude: ['*.o']}]\n"),
		0);
	config_show(s, false, &one);
	assert_int_equal(check_file(buf_str(&one)), 0);
	config_show(s, false, &two);
	assert_string_equal(buf_str(&one), buf_str(&two));
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define BUDGET_US 20000
#elif defined(__has_feature)
#define BUDGET_US 20000
#else
#define BUDGET_US 1000
#endif

/* The best of many: the machine has other things to do. */
static void a_role_is_loaded_within_a_millisecond(void **state UNUSED)
{
	struct place at = { .cwd = at_top("outside"), .home = at_top("home") };
	uint64_t best = UINT64_MAX;

	put("role.yaml",
	    "apiVersion: initrunner/v1\nkind: Agent\nmetadata:\n  name: runner\nspec:\n"
	    "  role: Runs code\n  tools:\n    - type: python\n      timeout_seconds: 30\n"
	    "  security:\n    sandbox:\n      backend: auto\n      network: none\n"
	    "      memory_limit: 128m\n      cpu_limit: 1.0\n      read_only_rootfs: true\n");
	for (int i = 0; i < 200; i++) {
		uint64_t began = clock_us(), took;

		again();
		flag(FIELD_CONFIG, at_top("role.yaml"));
		assert_int_equal(load("outside"), 0);
		assert_int_equal(spec_check(s, &at, &e), 0);
		took = clock_us() - began;
		best = took < best ? took : best;
	}
	print_message("%u us\n", (unsigned)best);
	assert_true(best < BUDGET_US);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, fresh, gone)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(nothing_written_leaves_the_defaults),
		TEST(each_layer_beats_the_one_below),
		TEST(the_users_file_is_found_by_the_xdg_rule),
		TEST(files_that_others_can_write_are_refused),
		TEST(a_broken_layer_is_an_error_with_its_place),
		TEST(a_project_may_tighten),
		TEST(an_empty_list_of_hosts_opens_no_door),
		TEST(a_project_does_not_take_away_what_narrows),
		TEST(a_project_may_not_loosen_until_it_is_trusted),
		TEST(what_tightens_is_measured_against_the_layers_below),
		TEST(entries_of_a_map_are_compared_one_by_one),
		TEST(an_entry_is_not_replaced_in_silence),
		TEST(a_home_behind_a_link_bounds_the_search_as_well),
		TEST(a_map_has_an_end),
		TEST(a_dialects_defaults_count_as_below),
		TEST(what_a_stronger_layer_says_needs_no_trust),
		TEST(a_changed_file_is_trusted_no_longer),
		TEST(trust_is_for_one_path),
		TEST(the_file_is_found_upwards_within_a_bound),
		TEST(what_a_guest_may_have_made_hides_no_file_that_tightens),
		TEST(of_settings_that_were_used_those_of_folders_that_are_gone_go),
		TEST(the_workdir_decides_whose_file_is_read),
		TEST(a_link_in_its_place_is_refused),
		TEST(a_file_is_read_in_its_own_dialect),
		TEST(a_named_dialect_settles_it),
		TEST(ambient_variables_count_without_another_file),
		TEST(somebody_elses_sandbox_variables_change_nothing),
		TEST(ironclaws_own_file_counts_alone),
		TEST(ironclaws_own_file_joins_its_variables),
		TEST(variables_alone_never_lead_to_the_host),
		TEST(files_may_not_steer_programs),
		TEST(system_folders_are_kept),
		TEST(mounts_come_from_the_permitted_roots),
		TEST(the_flags_of_docker_are_checked),
		TEST(what_is_shown_reads_back_the_same),
		TEST(a_role_is_loaded_within_a_millisecond),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
