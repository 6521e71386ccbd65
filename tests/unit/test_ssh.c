/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_ssh.c - the ssh backend without a network: quoting, plans, the relay, a remote report.
 */
#include "unit.h"

#include <sys/socket.h>

#include "backend/ssh/ssh.h"
#include "base/files/fd.h"
#include "base/text/str.h"
#include "model/request/code.h"

#define ID "0123456789abcdef0123456789abcdef"
#define MARKED "\036" ID
#define END_ID "fedcba9876543210fedcba9876543210"
#define MARKED_END "\036" END_ID

/* What /bin/sh makes of a word. */
static void spoken(const char *word, char *out, size_t room)
{
	struct buf b = BUF_INIT(1 << 20);
	FILE *p;
	size_t n;

	buf_puts(&b, "printf %s ");
	buf_put_quoted(&b, word);
	p = popen(buf_str(&b), "r");
	assert_non_null(p);
	n = fread(out, 1, room - 1, p);
	out[n] = '\0';
	assert_int_equal(pclose(p), 0);
	buf_done(&b);
}

static void a_quoted_word_is_itself(void **state UNUSED)
{
	static const char *const words[] = { "plain", "a b",    "it's", "''",
					     "$HOME", "`id`",   "*",    "a\nb",
					     "\\",    "\\'\\'", "\"",   "!x",
					     "-n",    "~",      "#",    "\xff\x81\x88" };
	char out[64];

	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		spoken(words[i], out, sizeof(out));
		assert_string_equal(out, words[i]);
	}
}

static struct spec *new_spec(const char *const *pairs)
{
	char *argv[] = { (char[]){ "echo" }, (char[]){ "a b" }, NULL };
	struct place at = { .cwd = "/src/project", .home = "/home/me" };
	struct err e = { 0 };
	struct spec *s = spec_new(&e);

	assert_non_null(s);
	for (; *pairs; pairs += 2)
		if (spec_set_key(s, pairs[0], pairs[1], ORIGIN_FLAG, &e) < 0)
			fail_msg("%s: %s", pairs[0], e.what);
	assert_int_equal(spec_set_argv(s, 2, argv, &e), 0);
	if (spec_check(s, &at, &e) < 0)
		fail_msg("%s", e.what);
	return s;
}

static bool has(const char **v, const char *word)
{
	for (; *v; v++)
		if (str_eq(*v, word))
			return true;
	return false;
}

static void a_plan_holds_the_host_apart_from_options(void **state UNUSED)
{
	const char *const pairs[] = { "ssh.host",
				      "me@box",
				      "ssh.identity_file",
				      "~/key",
				      "ssh.connect_timeout",
				      "1500ms",
				      "ssh.control_persist",
				      "0",
				      "env.set",
				      "A=it's",
				      NULL };
	CLEANUP(spec) struct spec *s = new_spec(pairs);
	CLEANUP(ssh_plan) struct backend_plan *p = NULL;
	const char *const *notes;
	struct err e = { 0 };

	assert_int_equal(ssh_plan(s, &p, &notes, &e), 0);
	assert_string_equal(p->argv[0], "ssh");
	assert_true(has(p->argv, "/home/me/key"));
	assert_true(has(p->argv, "ConnectTimeout=2"));  /* never shorter than asked for */
	assert_true(has(p->argv, "ControlPersist=no")); /* 0 would be for ever */
	assert_true(has(p->argv, "StrictHostKeyChecking=yes"));
	assert_false(has(p->argv, "me@box")); /* comes behind "--", when it is started */
	assert_true(has(p->vars, "A=it's"));
	assert_non_null(strstr(notes[0], "not a sandbox"));
}

/* The value of ControlPath in the plan, with these folders to choose from. */
static void control_path(const char *run, const char *state, char *out, size_t n)
{
	static const char *const pairs[] = { "backend", "ssh", "ssh.host", "box", NULL };
	struct spec *s = new_spec(pairs);
	struct backend_plan *p = NULL;
	struct err e = { 0 };

	assert_int_equal(setenv("XDG_RUNTIME_DIR", run, 1), 0);
	assert_int_equal(setenv("XDG_STATE_HOME", state, 1), 0);
	if (backend_ssh.plan(s, &p, NULL, &e) < 0)
		fail_msg("%s", e.what);
	out[0] = '\0';
	for (const char **v = p->argv; *v; v++)
		if (str_starts(*v, "ControlPath="))
			(void)snprintf(out, n, "%s", *v + strlen("ControlPath="));
	(void)backend_ssh.plan_free(p);
	(void)spec_free(s);
}

static void a_shared_connection_lies_in_no_shared_folder(void **state UNUSED)
{
	char top[] = "/tmp/brig-test-ssh-XXXXXX", run[64], kept[64], below[80], out[256], want[256];

	assert_non_null(mkdtemp(top));
	(void)snprintf(run, sizeof(run), "%s/run", top);
	(void)snprintf(kept, sizeof(kept), "%s/state", top);
	(void)snprintf(below, sizeof(below), "%s/brig", kept);
	control_path(run, kept, out, sizeof(out));
	assert_string_equal(out, "none"); /* neither is there */
	assert_int_equal(mkdir(kept, 0755) | mkdir(below, 0700), 0);
	control_path(run, kept, out, sizeof(out));
	(void)snprintf(want, sizeof(want), "%s/ssh/", below);
	assert_true(str_starts(out, want));
	assert_int_equal(mkdir(run, 0755), 0);
	control_path(run, kept, out, sizeof(out)); /* others may enter it */
	assert_true(str_starts(out, want));
	assert_int_equal(chmod(run, 0700), 0);
	control_path(run, kept, out, sizeof(out));
	(void)snprintf(want, sizeof(want), "%s/brig/ssh/", run);
	assert_true(str_starts(out, want));
	assert_int_equal(rmdir(run) | chmod(below, 0777), 0);
	control_path(run, kept, out, sizeof(out)); /* others may write to it */
	assert_string_equal(out, "none");
	assert_int_equal(rmdir(below) | rmdir(kept) | rmdir(top), 0);
}

static void the_remote_line_holds_nothing_of_the_users(void **state UNUSED)
{
	char line[96];

	remote_reader(123, false, line, sizeof(line));
	assert_string_equal(line, "exec /bin/sh -c 'b=$(head -c 123) && eval \"$b\"'");
	remote_reader(123, true, line, sizeof(line));
	assert_null(strchr(line, '!'));
	assert_null(strchr(line, '\n'));
}

static void settings_go_over_as_words(void **state UNUSED)
{
	const char *const pairs[] = { "ssh.host",    "box",           "ssh.remote",
				      "brig",        "limits.memory", "64m",
				      "limits.cpus", "1.5",           "mounts",
				      "/a:/b:rw",    "read",          "/srv/x",
				      "policy",      "readonly",      "limits.timeout",
				      "90s",         "user",          "12:34",
				      "env.set",     "TOKEN=secret",  NULL };
	const char *const without_mount[] = { "ssh.host", "box", "ssh.remote", "brig", NULL };
	static const char *const want[] = {
		"limits.memory=67108864b", "limits.cpus=1.500",      "read=/srv/x",
		"policy=workspace_write",  "limits.timeout=90000ms", "user=12:34",
		"mounts=/a:/b:rw"
	};
	const char *with[ARRAY_LEN(pairs)];
	CLEANUP(spec) struct spec *s = NULL;
	CLEANUP(spec) struct spec *plain = new_spec(without_mount);
	CLEANUP(ssh_plan) struct backend_plan *p = NULL;
	CLEANUP(ssh_plan) struct backend_plan *q = NULL;
	struct err e = { 0 };

	memcpy(with, pairs, sizeof(pairs));
	with[13] = "workspace_write"; /* readonly takes no writable mount */
	s = new_spec(with);
	assert_int_equal(ssh_plan(s, &p, NULL, &e), 0);
	for (size_t i = 0; i < ARRAY_LEN(want); i++)
		if (!has(p->command, want[i]))
			fail_msg("no '%s'", want[i]);
	assert_true(has(p->command, "TOKEN=_bv0")); /* by name: its value is no argument */
	for (const char **w = p->command; *w; w++)
		assert_null(strstr(*w, "secret"));
	assert_string_equal(p->command[0], "brig");
	/* Defaults are the other brig's own. */
	assert_int_equal(ssh_plan(plain, &q, NULL, &e), 0);
	assert_false(has(q->command, "--set"));
	assert_true(has(q->command, "echo"));
}

static void hosts_that_are_options_are_refused(void **state UNUSED)
{
	static const char *const bad[] = { "-oProxyCommand=id", "a b", "x@-y", "" };

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		const char *const pairs[] = { "ssh.host", bad[i], NULL };
		CLEANUP(spec) struct spec *s = new_spec(pairs);
		struct backend_plan *p = NULL;
		struct err e = { 0 };

		assert_true(ssh_plan(s, &p, NULL, &e) < 0);
		assert_non_null(strstr(e.what, "ssh.host"));
	}
}

/* ---- the relay ---- */

struct tube {
	int in; /* the remote side writes here */
	int out;
	struct relay r;
	char said[256]; /* lines, with '|' behind each */
	char shown[4096];
	bool report;
};

static void tube_open(struct tube *t, bool report)
{
	int pipe_ends[2], ends[2];

	*t = (struct tube){ 0 };
	assert_int_equal(pipe2(pipe_ends, O_CLOEXEC), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	t->in = pipe_ends[1];
	t->out = ends[0];
	relay_init(&t->r, pipe_ends[0], ends[1], ID);
	t->report = report;
}

static void tube_turn(struct tube *t)
{
	size_t have;
	ssize_t n;

	while (relay_move(&t->r) == SAID_LINE) {
		(void)snprintf(t->said + strlen(t->said), sizeof(t->said) - strlen(t->said), "%s|",
			       buf_str(&t->r.line));
		if (!t->r.last)
			relay_expect_end(&t->r, END_ID, t->report);
	}
	have = strlen(t->shown);
	n = recv(t->out, t->shown + have, sizeof(t->shown) - 1 - have, MSG_DONTWAIT);
	if (n > 0)
		t->shown[have + (size_t)n] = '\0';
}

static void tube_close(struct tube *t)
{
	t->in = fd_close(t->in);
	tube_turn(t);
	tube_turn(t);
	relay_done(&t->r);
	t->out = fd_close(t->out);
}

static void the_wrappers_lines_are_no_output(void **state UNUSED)
{
	static const char text[] = "noise " MARKED " S 77\nfirst\n\036 no mark\n" MARKED
				   " E 3\n" MARKED_END " E 4\n" MARKED_END " E 5\nlast";
	size_t size = strlen(text);

	/* However the stream is cut. */
	for (size_t cut = 0; cut <= size; cut++) {
		struct tube t;

		tube_open(&t, false);
		assert_int_equal(write(t.in, text, cut), (ssize_t)cut);
		tube_turn(&t);
		assert_int_equal(write(t.in, text + cut, size - cut), (ssize_t)(size - cut));
		tube_turn(&t);
		tube_close(&t);
		/* The number of the beginning is no longer good, that of the end only once. */
		assert_string_equal(t.said, " S 77| E 4|");
		assert_string_equal(t.shown, "first\n\036 no mark\n" MARKED " E 3\n");
		assert_true(t.r.after);
	}
}

static void a_report_runs_to_the_end(void **state UNUSED)
{
	static const char text[] = MARKED " S 2\nout" MARKED_END " J {\n \"a\": 1\n}\n";
	struct tube t;

	tube_open(&t, true);
	for (const char *c = text; *c; c++) {
		assert_int_equal(write(t.in, c, 1), 1);
		tube_turn(&t);
	}
	tube_close(&t);
	assert_string_equal(t.said, " S 2| J {\n \"a\": 1\n}\n|");
	assert_string_equal(t.shown, "out");
}

static void half_a_mark_at_the_end_is_output(void **state UNUSED)
{
	struct tube t;

	tube_open(&t, false);
	assert_int_equal(write(t.in, MARKED " S 2\nx\0360123", 1 + 32 + 5 + 6), 1 + 32 + 5 + 6);
	tube_turn(&t);
	tube_close(&t);
	assert_string_equal(t.shown, "x\0360123");
}

/* ---- reports ---- */

static void a_report_fills_an_outcome(void **state UNUSED)
{
	static const char text[] =
		"{\"outcome\": \"oom\", \"exit_code\": 137, \"signal\": null, "
		"\"limits_hit\": [\"memory\", \"nonsense\"], \"denials\": [{\"kind\": \"k\", "
		"\"target\": \"t\", \"reason\": \"r\"}, 7], \"isolation\": {\"user_ns\": true, "
		"\"seccomp\": \"default\", \"limits\": {\"memory\": \"cgroup\"}}}";
	CLEANUP(outcome) struct outcome *o = outcome_new();
	struct isolation i = { .net_ns = true };
	struct err e = { 0 };

	assert_int_equal(report_read(text, strlen(text), o, &i, &e), 0);
	assert_int_equal(o->kind, OUTCOME_OOM);
	assert_int_equal(o->limits_hit, 1U << LIMIT_MEMORY);
	assert_int_equal(o->denial_count, 1);
	assert_true(i.user_ns && !i.net_ns);
	assert_int_equal(i.limits[LIMIT_MEMORY], ENFORCER_CGROUP);
}

static void a_broken_report_is_an_error(void **state UNUSED)
{
	static const char *const bad[] = {
		"", "{", "[]", "{}", "{\"outcome\": \"fine\"}", "{\"outcome\": 3}"
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		CLEANUP(outcome) struct outcome *o = outcome_new();
		struct isolation unused;
		struct err e = { 0 };

		assert_true(report_read(bad[i], strlen(bad[i]), o, &unused, &e) < 0);
		assert_int_equal(o->kind, OUTCOME_FAILED);
	}
}

static void the_conductors_judgement_stands(void **state UNUSED)
{
	static const char text[] = "{\"outcome\": \"exited\", \"exit_code\": 0}";
	CLEANUP(outcome) struct outcome *o = outcome_new();
	struct isolation unused;
	struct err e = { 0 };

	o->kind = OUTCOME_TIMEOUT;
	assert_int_equal(report_read(text, strlen(text), o, &unused, &e), 0);
	assert_int_equal(o->kind, OUTCOME_TIMEOUT);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_quoted_word_is_itself),
		cmocka_unit_test(a_plan_holds_the_host_apart_from_options),
		cmocka_unit_test(a_shared_connection_lies_in_no_shared_folder),
		cmocka_unit_test(the_remote_line_holds_nothing_of_the_users),
		cmocka_unit_test(settings_go_over_as_words),
		cmocka_unit_test(hosts_that_are_options_are_refused),
		cmocka_unit_test(the_wrappers_lines_are_no_output),
		cmocka_unit_test(a_report_runs_to_the_end),
		cmocka_unit_test(half_a_mark_at_the_end_is_output),
		cmocka_unit_test(a_report_fills_an_outcome),
		cmocka_unit_test(a_broken_report_is_an_error),
		cmocka_unit_test(the_conductors_judgement_stands),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
