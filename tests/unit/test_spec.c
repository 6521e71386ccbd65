/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_spec.c - settings from text, who wrote them, and what is refused as a whole. */
#include "unit.h"

#include "model/request/code.h"
#include "model/settings/paths.h"
#include "model/settings/spec.h"

static const struct place here = { .cwd = "/src/project", .home = "/home/me" };

static struct spec *fresh(void)
{
	struct err e;
	struct spec *s = spec_new(&e);

	assert_non_null(s);
	return s;
}

static void set(struct spec *s, const char *key, const char *text)
{
	struct err e = { 0 };

	if (spec_set_key(s, key, text, ORIGIN_FLAG, &e) < 0)
		fail_msg("%s=%s: %s", key, text, e.what);
}

static void refuse(const char *key, const char *text, int code, enum err_kind kind)
{
	CLEANUP(spec) struct spec *s = fresh();
	struct err e = { 0 };

	print_message("%s=%.40s\n", key, text);
	assert_int_equal(spec_set_key(s, key, text, ORIGIN_FLAG, &e), -code);
	assert_int_equal(e.kind, kind);
	assert_true(e.what[0]);
}

static void a_new_spec_holds_the_documented_defaults(void **state UNUSED)
{
	CLEANUP(spec) struct spec *s = fresh();

	assert_int_equal(s->policy, POLICY_WORKSPACE_WRITE);
	assert_int_equal(s->backend, BACKEND_AUTO);
	assert_int_equal(s->network, NETWORK_NONE);
	assert_int_equal(s->profile, PROFILE_DEFAULT);
	assert_string_equal(s->target, "same");
	assert_null(s->workdir);
	assert_int_equal(s->limits.memory, (uint64_t)2 << 30);
	assert_int_equal(s->limits.cpus, 0);
	assert_int_equal(s->limits.cpu_shares, 1024);
	assert_int_equal(s->limits.pids, 1024);
	assert_int_equal(s->limits.disk, 0);
	assert_int_equal(s->command.output, 65536);
	assert_int_equal(s->command.timeout, 600000);
	assert_true(s->read_only_root);
	assert_false(s->full_access_ok || s->command.tty || s->cli.json || s->cli.quiet ||
		     s->user.given);
	for (int id = 0; id < FIELD_COUNT; id++)
		assert_false(spec_wrote(s, (enum field_id)id));
}

static void every_default_and_every_word_is_taken(void **state UNUSED)
{
	for (int id = 0; id < FIELD_COUNT; id++) {
		const struct field *f = &fields[id];
		CLEANUP(spec) struct spec *s = fresh();
		struct err e = { 0 };

		assert_true(f->flag || f->key);
		assert_true(f->help && f->help[0]);
		if (f->fallback)
			assert_int_equal(
				spec_set(s, (enum field_id)id, f->fallback, ORIGIN_FLAG, &e), 0);
		assert_int_equal(f->words != NULL, f->type == FIELD_T_WORD);
		for (const char *const *w = f->words; w && *w; w++)
			assert_int_equal(spec_set(s, (enum field_id)id, *w, ORIGIN_FLAG, &e), 0);
	}
}

static void names_in_the_field_table_are_unique(void **state UNUSED)
{
	for (int a = 0; a < FIELD_COUNT; a++) {
		enum field_id id;

		if (fields[a].flag) {
			assert_ptr_equal(field_by_flag(fields[a].flag, &id), &fields[a]);
			assert_int_equal(id, a);
		}
		if (fields[a].key) {
			assert_ptr_equal(field_by_key(fields[a].key, &id), &fields[a]);
			assert_int_equal(id, a);
		}
		for (int b = 0; b < a; b++)
			assert_true(!fields[a].variable || !fields[b].variable ||
				    strcmp(fields[a].variable, fields[b].variable) != 0);
	}
}

static void numbers_out_of_bounds_are_refused(void **state UNUSED)
{
	static const struct {
		const char *key, *text;
	} all[] = {
		{ "limits.memory", "0" },
		{ "limits.memory", "1023k" },
		{ "limits.memory", "65t" },
		{ "limits.memory", "99999999999999999999999" },
		{ "limits.cpus", "0" },
		{ "limits.cpus", "0.009" },
		{ "limits.cpus", "4096.001" },
		{ "limits.cpu_shares", "1" },
		{ "limits.cpu_shares", "262145" },
		{ "limits.pids", "0" },
		{ "limits.pids", "1" },
		{ "limits.pids", "18446744073709551616" },
		{ "limits.timeout", "0" },
		{ "limits.timeout", "53w" },
		{ "limits.files", "15" },
		{ "limits.output", "0" },
		{ "limits.output", "2g" },
		{ "limits.tmp", "63k" },
		{ "limits.disk", "1" },
	};

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		refuse(all[i].key, all[i].text, ERANGE, ERR_USAGE);
}

static void numbers_that_are_none_are_refused(void **state UNUSED)
{
	static const struct {
		const char *key, *text;
	} all[] = {
		{ "limits.memory", "" },     { "limits.memory", "-1" },
		{ "limits.memory", "lots" }, { "limits.memory", "256 m" },
		{ "limits.cpus", "all" },    { "limits.cpus", "-1" },
		{ "limits.pids", "1k" },     { "limits.pids", "-1" },
		{ "limits.timeout", "-5" },  { "limits.timeout", "soon" },
		{ "limits.files", "0x100" }, { "limits.output", "1.2345k" },
	};

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		refuse(all[i].key, all[i].text, EINVAL, ERR_USAGE);
}

static void a_refused_value_leaves_the_old_one(void **state UNUSED)
{
	CLEANUP(spec) struct spec *s = fresh();
	struct err e;

	set(s, "limits.memory", "64m");
	assert_int_equal(spec_set_key(s, "limits.memory", "0", ORIGIN_FLAG, &e), -ERANGE);
	assert_int_equal(spec_set_key(s, "policy", "none", ORIGIN_FLAG, &e), -EINVAL);
	assert_int_equal(spec_set_key(s, "user", "0", ORIGIN_FLAG, &e), -EPERM);
	assert_int_equal(s->limits.memory, 64 << 20);
	assert_int_equal(s->policy, POLICY_WORKSPACE_WRITE);
	assert_false(s->user.given);
	assert_false(spec_wrote(s, FIELD_POLICY));
}

static void an_unknown_word_names_the_nearest(void **state UNUSED)
{
	CLEANUP(spec) struct spec *s = fresh();
	struct err e;

	assert_int_equal(spec_set_key(s, "backend", "natvie", ORIGIN_FLAG, &e), -EINVAL);
	assert_string_equal(e.what, "unknown backend 'natvie'");
	assert_string_equal(e.hint, "did you mean 'native'?");
	assert_int_equal(spec_set_key(s, "policy", "read-only", ORIGIN_FLAG, &e), -EINVAL);
	assert_string_equal(e.hint, "did you mean 'readonly'?");
	assert_int_equal(spec_set_key(s, "network", "Host", ORIGIN_FLAG, &e), -EINVAL);
	assert_int_equal(spec_set_key(s, "network", "", ORIGIN_FLAG, &e), -EINVAL);
	assert_int_equal(spec_set_key(s, "limits.memroy", "1g", ORIGIN_FLAG, &e), -EINVAL);
	assert_string_equal(e.what, "unknown setting 'limits.memroy'");
	assert_string_equal(e.hint, "did you mean 'limits.memory'?");
	assert_int_equal(spec_set_key(s, "", "x", ORIGIN_FLAG, &e), -EINVAL);
	assert_int_equal(spec_set_key(s, "limits", "x", ORIGIN_FLAG, &e), -EINVAL);
}

static void switches_are_true_or_false(void **state UNUSED)
{
	static const char *const bad[] = { "",     "1",    "0",   "yes",   "no",   "on",
					   "TRUE", "True", "tru", " true", "true " };
	CLEANUP(spec) struct spec *s = fresh();

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		refuse("allow_full_access", bad[i], EINVAL, ERR_USAGE);
	set(s, "allow_full_access", "true");
	assert_true(s->full_access_ok);
	set(s, "allow_full_access", "false");
	assert_false(s->full_access_ok);
}

static void ids_are_numbers_and_never_root(void **state UNUSED)
{
	static const char *const bad[] = {
		"",
		":",
		"1000:",
		":1000",
		"root",
		"-1",
		"65536",
		"1000:65536",
		"1000:1000:1000",
		"1 000",
		"99999999999999999999",
		"0x3e8",
		"1000:-1",
		"4294967296",
		"Auto",
		"1000 :1000",
	};
	static const char *const root[] = {
		"0", "0:0", "0:1000", "1000:0", "00", "000000000000000"
	};
	CLEANUP(spec) struct spec *s = fresh();

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		refuse("user", bad[i], EINVAL, ERR_USAGE);
	for (size_t i = 0; i < ARRAY_LEN(root); i++)
		refuse("user", root[i], EPERM, ERR_POLICY);
	set(s, "user", "1000:100");
	assert_true(s->user.given && s->user.uid == 1000 && s->user.gid == 100);
	set(s, "user", "65535");
	assert_true(s->user.given && s->user.uid == 65535 && s->user.gid == 65535);
	set(s, "user", "auto");
	assert_false(s->user.given);
}

static void variables_are_checked_and_the_last_of_a_name_counts(void **state UNUSED)
{
	CLEANUP(spec) struct spec *s = fresh();

	set(s, "env.set", "A=1");
	set(s, "env.set", "B=");
	set(s, "env.set", "A=x=y");
	assert_int_equal(s->env.n, 2);
	assert_string_equal(s->env.v[0].name, "A");
	assert_string_equal(s->env.v[0].value, "x=y");
	assert_string_equal(s->env.v[1].value, "");
	refuse("env.set", "A", EINVAL, ERR_USAGE);
	refuse("env.set", "=1", EINVAL, ERR_USAGE);
	refuse("env.set", "1A=1", EINVAL, ERR_USAGE);
	refuse("env.set", "A B=1", EINVAL, ERR_USAGE);
	refuse("env.set", "", EINVAL, ERR_USAGE);
}

static void a_secret_is_not_passed_by_its_name_alone(void **state UNUSED)
{
	CLEANUP(spec) struct spec *s = fresh();
	struct err e;

	refuse("env.pass", "GITHUB_TOKEN", EPERM, ERR_POLICY);
	refuse("env.pass", "ssh_auth_sock", EPERM, ERR_POLICY);
	refuse("env.pass", "AWS_ACCESS_KEY_ID", EPERM, ERR_POLICY);
	refuse("env.pass", "", EINVAL, ERR_USAGE);
	refuse("env.pass", "A=B", EINVAL, ERR_USAGE);
	(void)spec_set_key(s, "env.pass", "MY_TOKEN", ORIGIN_FLAG, &e);
	assert_string_equal(
		e.hint, "--credential MY_TOKEN has it used and not seen; to show it to the code "
			"inside on purpose: --env MY_TOKEN");
	set(s, "env.pass", "EDITOR");
	assert_int_equal(s->env_pass.n, 1);
}

static void a_value_longer_than_the_kernel_takes_is_refused(void **state UNUSED)
{
	size_t most = 131072;
	CLEANUP(mem) char *text = malloc(most + 2);

	assert_non_null(text);
	memset(text, 'x', most + 1);
	text[most + 1] = '\0';
	refuse("workspace.path", text, E2BIG, ERR_USAGE);
	refuse("limits.memory", text, E2BIG, ERR_USAGE);
	text[most] = '\0';
	refuse("limits.memory", text, EINVAL, ERR_USAGE);
}

static void a_weaker_origin_never_overwrites(void **state UNUSED)
{
	CLEANUP(spec) struct spec *s = fresh();
	struct err e;

	assert_int_equal(spec_set_key(s, "limits.pids", "99", ORIGIN_FLAG, &e), 0);
	assert_int_equal(spec_set_key(s, "limits.pids", "50", ORIGIN_ENVIRONMENT, &e), 0);
	assert_int_equal(s->limits.pids, 99);
	assert_int_equal(s->origin[FIELD_PIDS], ORIGIN_FLAG);
	assert_int_equal(spec_set_key(s, "limits.files", "50", ORIGIN_ENVIRONMENT, &e), 0);
	assert_int_equal(spec_set_key(s, "limits.files", "60", ORIGIN_API, &e), 0);
	assert_int_equal(s->limits.files, 60);
	assert_true(spec_wrote(s, FIELD_FILES));
}

static void only_the_named_variables_of_the_environment_are_read(void **state UNUSED)
{
	char *envp[] = { "BRIG_MEMORY=64m",
			 "BRIG_POLICY=readonly",
			 "BRIG_COLOUR=red",
			 "BRIG_AUDIT_KEY=0f",
			 "BRIG_SANDBOX=native",
			 "BRIG_RUN=1",
			 "BRIG_ATTACK_SECRET=x",
			 "MEMORY=3g",
			 "BRIG_I_KNOW_THIS_IS_NOT_A_SANDBOX=true",
			 "BRIG_ALLOW_FULL_ACCESS=true",
			 "BRIG_",
			 "BRIG_PIDS",
			 NULL };
	char *bad[] = { "BRIG_MEMORY=much", NULL };
	char *misspelt[] = { "BRIG_MEMORYX=1g", NULL };
	CLEANUP(spec) struct spec *s = fresh();
	struct err e;

	assert_int_equal(spec_set_environment(s, envp, &e), 0);
	assert_int_equal(s->limits.memory, 64 << 20);
	assert_int_equal(s->policy, POLICY_READONLY);
	assert_false(s->full_access_ok);
	assert_int_equal(s->limits.pids, 1024);
	assert_int_equal(spec_set_environment(s, bad, &e), -EINVAL);
	assert_string_equal(e.what, "variable BRIG_MEMORY: memory 'much' is not a size");
	assert_true(spec_set_environment(s, misspelt, &e) < 0);
	assert_string_equal(e.what, "unknown variable BRIG_MEMORYX");
	assert_string_equal(e.hint, "did you mean BRIG_MEMORY?");
}

static void the_command_line_is_copied(void **state UNUSED)
{
	CLEANUP(spec) struct spec *s = fresh();
	char word[] = "abc";
	char *argv[] = { word, "", NULL };
	struct err e;

	assert_int_equal(spec_set_argv(s, 2, argv, &e), 0);
	word[0] = 'X';
	assert_string_equal(s->command.argv[0], "abc");
	assert_string_equal(s->command.argv[1], "");
	assert_null(s->command.argv[2]);
	assert_int_equal(spec_set_argv(s, 0, argv, &e), 0);
	assert_null(s->command.argv[0]);
}

static void a_spec_can_be_filled_to_its_end_without_harm(void **state UNUSED)
{
	CLEANUP(spec) struct spec *s = fresh();
	CLEANUP(mem) char *text = malloc(100001);
	struct err e = { 0 };
	int r = 0;

	assert_non_null(text);
	memset(text, 'p', 100000);
	text[0] = '/';
	text[100000] = '\0';
	for (int i = 0; i < 1000 && r == 0; i++)
		r = spec_set_key(s, "read", text, ORIGIN_FLAG, &e);
	assert_int_equal(r, -ENOMEM);
	for (size_t i = 0; i < s->read.n; i++)
		assert_non_null(s->read.v[i]);
	(void)spec_check(s, &here, &e);
}

static void a_clone_is_equal_and_independent(void **state UNUSED)
{
	CLEANUP(spec) struct spec *copy = NULL;
	struct spec *s = fresh();
	struct err e;

	set(s, "workspace.path", "/data");
	set(s, "mounts", "/a:/b:rw");
	set(s, "read", "/r");
	set(s, "write", "/w");
	set(s, "env.set", "A=1");
	set(s, "env.pass", "EDITOR");
	set(s, "limits.memory", "64m");
	copy = spec_clone(s, &e);
	assert_non_null(copy);
	set(s, "env.set", "A=2");
	set(s, "mounts", "/c:/d");
	(void)spec_free(s);
	assert_string_equal(copy->workdir, "/data");
	assert_int_equal(copy->mounts.n, 1);
	assert_true(copy->mounts.v[0].writable);
	assert_string_equal(copy->mounts.v[0].source, "/a");
	assert_string_equal(copy->read.v[0], "/r");
	assert_string_equal(copy->write.v[0], "/w");
	assert_string_equal(copy->env.v[0].value, "1");
	assert_string_equal(copy->env_pass.v[0], "EDITOR");
	assert_int_equal(copy->limits.memory, 64 << 20);
	assert_true(spec_wrote(copy, FIELD_MEMORY));
	for (int i = 0; i < 20; i++)
		set(copy, "read", "/more");
	assert_int_equal(copy->read.n, 21);
	assert_string_equal(copy->read.v[0], "/r");
}

/* Every list that a file or a flag fills: two copies that both grow do not share the new place. */
static void lists_of_clones_grow_apart(void **state UNUSED)
{
	static const char *const keys[] = {
		"read",    "write",           "egress.groups", "home_seed",         "builtin_tools",
		"command", "use_credentials", "audit.anchor",  "egress.passthrough"
	};

	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		CLEANUP(spec) struct spec *s = fresh(), *one = NULL, *two = NULL;
		const struct strlist *l;
		enum field_id id;
		struct err e;

		assert_true(field_by_key(keys[i], &id));
		set(s, keys[i], "/a");
		one = spec_clone(s, &e);
		two = spec_clone(s, &e);
		assert_true(one && two);
		set(one, keys[i], "/one");
		set(two, keys[i], "/two");
		l = (const void *)((const char *)one + fields[id].offset);
		assert_int_equal(l->n, 2);
		if (strcmp(l->v[1], "/one") != 0)
			fail_msg("%s is shared", keys[i]);
	}
}

/* A check of a spec with the given "key", "value" pairs. */
static int check(struct spec *s, const struct place *at, struct err *e, const char *const *pairs)
{
	for (; *pairs; pairs += 2)
		set(s, pairs[0], pairs[1]);
	return spec_check(s, at, e);
}
#define PAIRS(...) ((const char *const[]){ __VA_ARGS__, NULL })

static void a_check_makes_every_path_absolute(void **state UNUSED)
{
	CLEANUP(spec) struct spec *s = fresh();
	struct err e;

	assert_int_equal(check(s, &here, &e,
			       PAIRS("workspace.path", "sub/../x", "mounts", "~/data:/data", "read",
				     "../r", "write", "/opt//w/")),
			 0);
	assert_string_equal(s->workdir, "/src/project/x");
	assert_string_equal(s->mounts.v[0].source, "/home/me/data");
	assert_string_equal(s->read.v[0], "/src/r");
	assert_string_equal(s->write.v[0], "/opt/w");
	assert_false(s->private_workspace);
}

static void refuse_check(const struct place *at, int code, enum err_kind kind,
			 const char *const *pairs)
{
	CLEANUP(spec) struct spec *s = fresh();
	struct err e = { 0 };

	print_message("%s=%s\n", pairs[0], pairs[1]);
	assert_int_equal(check(s, at, &e, pairs), -code);
	assert_int_equal(e.kind, kind);
}

static void a_check_refuses_what_no_backend_could_take(void **state UNUSED)
{
	static const char *const usage[][5] = {
		{ "policy", "readonly", "write", "/w" },
		{ "policy", "readonly", "limits.disk", "1g" },
		{ "policy", "readonly", "mounts", "/a:/b:rw" },
		{ "read", "" },
		{ "read", "~you" },
		{ "mounts", "/a:b" },
		{ "mounts", "/a:/b/" },
		{ "workspace.target", "relative" },
		{ "workspace.target", "/x/../y" },
		{ "workspace.path", "" },
		{ "workspace.path", "a\nb" },
	};
	static const char *const policy[][5] = {
		{ "read", "/" },
		{ "read", "/etc" },
		{ "write", "/proc/sys" },
		{ "mounts", "/a:/" },
		{ "mounts", "/a:/usr" },
		{ "mounts", "/a:/dev/null" },
		{ "mounts", "/a:/workspace" },
		{ "workspace.target", "/" },
		{ "workspace.target", "/proc" },
		{ "workspace.target", "/dev/shm" },
		{ "workspace.target", "/etc" },
		{ "workspace.target", "/mine", "mounts", "/a:/mine" },
		{ "mounts", "/a:/workspace/b" },
		{ "read", "/workspace/b" },
		{ "mounts", "/a:/src/project" },
		{ "read", "/src/project" },
		{ "workspace.target", "same", "workspace.path", "/tmp" },
		{ "workspace.target", "same", "workspace.path", "/home/brig/x" },
	};
	static const char *const twice[][7] = {
		{ "mounts", "/a:/x", "mounts", "/b:/x" },
		{ "mounts", "/a:/x", "read", "/x" },
		{ "read", "/x", "write", "/x" },
		{ "read", "/x", "read", "/y/../x" },
	};

	for (size_t i = 0; i < ARRAY_LEN(usage); i++)
		refuse_check(&here, EINVAL, ERR_USAGE, usage[i]);
	for (size_t i = 0; i < ARRAY_LEN(policy); i++)
		refuse_check(&here, EPERM, ERR_POLICY, policy[i]);
	for (size_t i = 0; i < ARRAY_LEN(twice); i++)
		refuse_check(&here, EEXIST, ERR_USAGE, twice[i]);
}

static void a_terminal_has_no_time_limit_unless_one_is_given(void **state UNUSED)
{
	CLEANUP(spec) struct spec *s = fresh();
	CLEANUP(spec) struct spec *given = fresh();
	struct err e;

	assert_int_equal(spec_set(s, FIELD_TTY, "true", ORIGIN_FLAG, &e), 0);
	assert_int_equal(spec_check(s, &here, &e), 0);
	assert_int_equal(s->command.timeout, 0);
	assert_int_equal(spec_set(given, FIELD_TTY, "true", ORIGIN_FLAG, &e), 0);
	set(given, "limits.timeout", "120s");
	assert_int_equal(spec_check(given, &here, &e), 0);
	assert_int_equal(given->command.timeout, 120000);
}

static void a_disk_limit_caps_the_private_folders_too(void **state UNUSED)
{
	CLEANUP(spec) struct spec *s = fresh();
	CLEANUP(spec) struct spec *both = fresh();
	struct err e;

	assert_int_equal(check(s, &here, &e, PAIRS("limits.disk", "10m")), 0);
	assert_int_equal(s->limits.tmp, 10 << 20);
	assert_int_equal(check(both, &here, &e, PAIRS("limits.disk", "10m", "limits.tmp", "20m")),
			 0);
	assert_int_equal(both->limits.tmp, 20 << 20);
}

static void home_and_root_are_no_workspace(void **state UNUSED)
{
	static const struct place places[] = { { .cwd = "/home/me", .home = "/home/me" },
					       { .cwd = "/", .home = "/home/me" },
					       { .cwd = "/", .home = NULL } };

	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		CLEANUP(spec) struct spec *s = fresh();
		struct err e;

		assert_int_equal(spec_check(s, &places[i], &e), 0);
		assert_true(s->private_workspace);
	}
	refuse_check(&here, EPERM, ERR_POLICY, PAIRS("workspace.path", "/"));
	refuse_check(&here, EPERM, ERR_POLICY, PAIRS("workspace.path", "~"));
	refuse_check(&here, EPERM, ERR_POLICY, PAIRS("workspace.path", "/home/me/"));
	refuse_check(&here, EPERM, ERR_POLICY, PAIRS("workspace.path", "../../home/me/x/.."));
}

static void a_home_written_in_another_way_is_still_home(void **state UNUSED)
{
	static const char *const homes[] = { "/home/me/", "//home/me", "/home/./me",
					     "/home/x/../me" };

	for (size_t i = 0; i < ARRAY_LEN(homes); i++) {
		const struct place at = { .cwd = "/home/me", .home = homes[i] };
		CLEANUP(spec) struct spec *s = fresh();
		struct err e;

		print_message("%s\n", homes[i]);
		assert_int_equal(spec_check(s, &at, &e), 0);
		assert_true(s->private_workspace);
		refuse_check(&at, EPERM, ERR_POLICY, PAIRS("workspace.path", "/home/me"));
	}
}

static void a_workspace_is_at_its_own_path_where_that_is_free(void **state UNUSED)
{
	static const char *const own[] = { "/src/project",  "/home/me/x",   "/work",
					   "/workspace",    "/workspace/x", "/tmp/x",
					   "/var/tmp/x",    "/home/brigx",  "/opt/x",
					   "/srv/x/y",      "/code/x",      "/run/user/1/x",
					   "/usr/local/src" };
	static const char *const taken[] = { "/tmp",   "/var/tmp", "/home/brig", "/home/brig/x/y",
					     "/etc/x", "/nix",     "/code",      "/role" };

	for (size_t i = 0; i < ARRAY_LEN(own) + ARRAY_LEN(taken); i++) {
		bool free = i < ARRAY_LEN(own);
		const char *path = free ? own[i] : taken[i - ARRAY_LEN(own)];
		CLEANUP(spec) struct spec *s = fresh();
		struct err e = { 0 };

		print_message("%s\n", path);
		set(s, "policy", "readonly"); /* some belong to the system */
		assert_int_equal(check(s, &here, &e, PAIRS("workspace.path", path)), 0);
		assert_string_equal(s->inside, free ? path : "/workspace");
		assert_int_equal(spec_moved_workspace(s), !free);
		assert_int_equal(spec_links_workspace(s), free && !path_under(path, "/workspace"));
	}
}

static void code_in_the_workspace_may_be_called_by_either_name(void **state UNUSED)
{
	CLEANUP(spec) struct spec *s = fresh();
	struct err e = { 0 };

	assert_int_equal(code_set(s, CODE_PYTHON, "x", 1, NULL, &e), 0);
	assert_int_equal(check(s, &here, &e, PAIRS("code.path", "/workspace/_x.py")), 0);
	assert_string_equal(s->command.code.path, "/src/project/_x.py");
	assert_int_equal(spec_check(s, &here, &e), 0);
	assert_string_equal(s->command.code.path, "/src/project/_x.py");
}

/* A request may be planned first and run then, or run twice. */
static void a_second_check_finds_the_same(void **state UNUSED)
{
	static const struct place places[] = { { .cwd = "/home/me", .home = "/home/me" },
					       { .cwd = "/", .home = "/home/me" },
					       { .cwd = "/src/project", .home = "/home/me" } };

	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		CLEANUP(spec) struct spec *s = fresh();
		bool was_private;
		struct err e = { 0 };

		set(s, "mounts", "~/a:/a");
		set(s, "read", "b");
		assert_int_equal(spec_check(s, &places[i], &e), 0);
		was_private = s->private_workspace;
		if (spec_check(s, &places[i], &e) < 0)
			fail_msg("cwd '%s': %s", places[i].cwd, e.what);
		assert_int_equal(s->private_workspace, was_private);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_new_spec_holds_the_documented_defaults),
	cmocka_unit_test(every_default_and_every_word_is_taken),
	cmocka_unit_test(names_in_the_field_table_are_unique),
	cmocka_unit_test(numbers_out_of_bounds_are_refused),
	cmocka_unit_test(numbers_that_are_none_are_refused),
	cmocka_unit_test(a_refused_value_leaves_the_old_one),
	cmocka_unit_test(an_unknown_word_names_the_nearest),
	cmocka_unit_test(switches_are_true_or_false),
	cmocka_unit_test(ids_are_numbers_and_never_root),
	cmocka_unit_test(variables_are_checked_and_the_last_of_a_name_counts),
	cmocka_unit_test(a_secret_is_not_passed_by_its_name_alone),
	cmocka_unit_test(a_value_longer_than_the_kernel_takes_is_refused),
	cmocka_unit_test(a_weaker_origin_never_overwrites),
	cmocka_unit_test(only_the_named_variables_of_the_environment_are_read),
	cmocka_unit_test(the_command_line_is_copied),
	cmocka_unit_test(a_spec_can_be_filled_to_its_end_without_harm),
	cmocka_unit_test(a_clone_is_equal_and_independent),
	cmocka_unit_test(lists_of_clones_grow_apart),
	cmocka_unit_test(a_check_makes_every_path_absolute),
	cmocka_unit_test(a_check_refuses_what_no_backend_could_take),
	cmocka_unit_test(a_terminal_has_no_time_limit_unless_one_is_given),
	cmocka_unit_test(a_disk_limit_caps_the_private_folders_too),
	cmocka_unit_test(a_workspace_is_at_its_own_path_where_that_is_free),
	cmocka_unit_test(code_in_the_workspace_may_be_called_by_either_name),
	cmocka_unit_test(home_and_root_are_no_workspace),
	cmocka_unit_test(a_home_written_in_another_way_is_still_home),
	cmocka_unit_test(a_second_check_finds_the_same),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
