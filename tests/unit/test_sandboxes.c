/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_sandboxes.c - sandboxes.h on a loop, with real monitors and native sandboxes.
 *
 * The program is its own monitor: executed under that name it becomes one. A daemon that was killed
 * is a registry that was freed, which leaves monitors alone in the same way. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bytes/jread.h"
#include "base/files/fd.h"
#include "base/files/tree.h"
#include "base/sys/clock.h"
#include "base/text/str.h"
#include "daemon/registry/sandboxes.h"
#include "daemon/shared/monitor_protocol.h"

#define SECOND ((uint64_t)1000 * 1000)
#define PATIENCE (30 * SECOND)

extern const char brig_is_this_program[];
const char brig_is_this_program[] = "brig";

struct place {
	char root[64], work[96];
	int state;
	struct loop *loop;
	struct events *events;
	struct sandboxes *s;
};

static void open_daemon(struct place *p)
{
	struct err e = { 0 };

	if (events_open(p->state, &p->events, &e) < 0 ||
	    sandboxes_new(p->state, p->loop, p->events, &p->s, &e) < 0)
		fail_msg("%s", e.what);
}

static void close_daemon(struct place *p)
{
	p->s = sandboxes_free(p->s);
	p->events = events_free(p->events);
}

static int set_up(void **state)
{
	struct place *p = calloc(1, sizeof(*p));
	struct err e;
	char path[128];

	(void)snprintf(p->root, sizeof(p->root), "/var/tmp/brig-sandboxes-%d", (int)getpid());
	(void)mkdir(p->root, 0755);
	(void)snprintf(p->work, sizeof(p->work), "%s/work", p->root);
	(void)mkdir(p->work, 0777);
	(void)chmod(p->work, 0777);
	(void)snprintf(path, sizeof(path), "%s/state", p->root);
	(void)mkdir(path, 0700);
	p->state = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	(void)setenv("XDG_STATE_HOME", path, 1);
	if (p->state < 0 || loop_new(&p->loop, &e) < 0)
		return -1;
	*state = p;
	open_daemon(p);
	return 0;
}

static int tear_down(void **state)
{
	struct place *p = *state;
	int parent;

	close_daemon(p);
	(void)loop_free(p->loop);
	(void)close(p->state);
	parent = open("/var/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	(void)tree_remove(parent, strrchr(p->root, '/') + 1);
	(void)close(parent);
	free(p);
	return 0;
}

/* ---- turning ---- */

static bool state_is(struct place *p, const char *id, const char *word)
{
	CLEANUP(buf) struct buf b = BUF_INIT(1 << 20);
	CLEANUP(jread) struct jread *v = NULL;
	struct json j;
	struct err e = { 0 };

	json_init(&j, &b, false);
	if (sandboxes_show(p->s, "", id, false, &j, &e) != PROBLEM_NONE)
		return str_eq(word, "deleted");
	assert_int_equal(jread_parse(b.data, b.len, &v, &e), 0);
	if (str_eq(jread_str(v, "state"), "failed") && !str_eq(word, "failed"))
		fail_msg("failed: %s", b.data);
	return str_eq(jread_str(v, "state"), word);
}

static void await_state(struct place *p, const char *id, const char *word)
{
	uint64_t until = clock_us() + PATIENCE;

	while (!state_is(p, id, word)) {
		if (clock_us() > until)
			fail_msg("'%s' never became %s", id, word);
		loop_turn(p->loop, 50);
	}
}

static void create(struct place *p, const char *name, char *id)
{
	char spec[512];
	struct err e = { 0 };
	struct sandbox_create c = { .tenant = "", .name = name, .spec = spec };

	c.spec_size = (size_t)snprintf(spec, sizeof(spec),
				       "{\"backend\":\"native\",\"network\":\"none\","
				       "\"workspace\":{\"path\":\"%s\"}}",
				       p->work);
	if (sandboxes_create(p->s, &c, id, &e) != PROBLEM_NONE)
		fail_msg("%s", e.what);
	await_state(p, id, "ready");
}

struct heard {
	struct buf out, err, result;
	bool ended;
	size_t room; /* taken at a time; 0: all */
};

static size_t on_output(void *arg, int stream, uint64_t seq, const void *data, size_t n)
{
	struct heard *h = arg;

	assert_true(stream == 1 || stream == 2);
	if (h->room && n > h->room)
		n = h->room;
	if (stream == 1)
		assert_true(seq >= h->out.len);
	buf_add(stream == 1 ? &h->out : &h->err, data, n);
	return n;
}

static void on_end(void *arg, const char *result, size_t n)
{
	struct heard *h = arg;

	assert_false(h->ended);
	h->ended = true;
	buf_add(&h->result, result, n);
}

static struct exec_watch *listen_to(struct place *p, const char *id, const char *exec,
				    uint64_t from, struct heard *h)
{
	const struct exec_listener by = { .output = on_output, .end = on_end, .arg = h };
	struct exec_watch *w = NULL;
	struct err e = { 0 };

	*h = (struct heard){ .out.max = 64 << 20, .err.max = 64 << 20, .result.max = 1 << 20 };
	if (exec_listen(p->s, "", id, exec, from, &by, &w, &e) != PROBLEM_NONE)
		fail_msg("%s", e.what);
	return w;
}

static void heard_done(struct heard *h)
{
	buf_done(&h->out);
	buf_done(&h->err);
	buf_done(&h->result);
}

static void await_end(struct place *p, struct exec_watch *w, struct heard *h)
{
	uint64_t until = clock_us() + PATIENCE;

	while (!h->ended) {
		if (clock_us() > until)
			fail_msg("the command never ended");
		loop_turn(p->loop, 50);
		if (h->room)
			exec_more(w);
	}
}

static void start(struct place *p, const char *id, const char *line, bool input, char *exec)
{
	const char *const argv[] = { "/bin/sh", "-c", line, NULL };
	const char *const env[] = { "GREETING=hello", NULL };
	const struct exec_start x = { .order = { .argv = argv, .envp = env },
				      .stdin_open = input,
				      .output = 1 << 20 };
	struct err e = { 0 };

	if (sandboxes_exec(p->s, "", id, &x, exec, &e) != PROBLEM_NONE)
		fail_msg("%s", e.what);
}

static void run(struct place *p, const char *id, const char *line, struct heard *h)
{
	char exec[EXEC_ID_SIZE];
	struct exec_watch *w;

	start(p, id, line, false, exec);
	w = listen_to(p, id, exec, 0, h);
	await_end(p, w, h);
	(void)exec_unwatch(w);
}

static void did(void *arg, enum problem p, const struct err *e)
{
	(void)e;
	assert_int_equal(p, PROBLEM_NONE);
	*(bool *)arg = true;
}

static void perform(struct place *p, const char *id, enum sandbox_verb verb, uint64_t grace)
{
	uint64_t until = clock_us() + PATIENCE;
	struct err e = { 0 };
	bool done = false;

	if (sandboxes_do(p->s, "", id, verb, grace, did, &done, &e) != PROBLEM_NONE)
		fail_msg("%s", e.what);
	while (!done && clock_us() < until)
		loop_turn(p->loop, 50);
	assert_true(done);
}

static void assert_gone(struct place *p, const char *id)
{
	char path[160];

	(void)snprintf(path, sizeof(path), "%s/state/sandboxes/%s", p->root, id);
	assert_int_equal(access(path, F_OK), -1);
}

/* ---- tests ---- */

static void a_command_is_run_and_heard(void **state)
{
	struct place *p = *state;
	char id[SANDBOX_ID_SIZE];
	struct heard h;

	create(p, "first", id);
	run(p, "first", "echo $GREETING; echo oops >&2; exit 3", &h);
	assert_string_equal(buf_str(&h.out), "hello\n");
	assert_string_equal(buf_str(&h.err), "oops\n");
	assert_non_null(strstr(buf_str(&h.result), "\"exit_code\":3"));
	heard_done(&h);
	perform(p, id, SANDBOX_DELETE, 0);
	assert_gone(p, id);
	perform(p, id, SANDBOX_DELETE, 0);
}

static void stopped_ones_can_be_resumed(void **state)
{
	struct place *p = *state;
	char id[SANDBOX_ID_SIZE], exec[EXEC_ID_SIZE];
	struct exec_watch *w;
	struct heard h;

	create(p, NULL, id);
	start(p, id, "trap 'echo term; exit 0' TERM; echo up; while :; do sleep 0.05; done", false,
	      exec);
	w = listen_to(p, id, exec, 0, &h);
	while (!h.out.len)
		loop_turn(p->loop, 50);
	perform(p, id, SANDBOX_STOP, 5000);
	assert_true(state_is(p, id, "stopped"));
	await_end(p, w, &h);
	assert_string_equal(buf_str(&h.out), "up\nterm\n");
	(void)exec_unwatch(w);
	heard_done(&h);
	perform(p, id, SANDBOX_STOP, 0);
	perform(p, id, SANDBOX_RESUME, 0);
	assert_true(state_is(p, id, "ready"));
	run(p, id, "echo again", &h);
	assert_string_equal(buf_str(&h.out), "again\n");
	heard_done(&h);
	perform(p, id, SANDBOX_DELETE, 0);
}

static void input_reaches_the_command(void **state)
{
	struct place *p = *state;
	char id[SANDBOX_ID_SIZE], exec[EXEC_ID_SIZE];
	struct exec_watch *w;
	struct err e = { 0 };
	struct heard h;
	size_t took = 0;

	create(p, NULL, id);
	start(p, id, "cat", true, exec);
	w = listen_to(p, id, exec, 0, &h);
	assert_int_equal(exec_write(p->s, "", id, exec, "knock\n", 6, &took, &e), PROBLEM_NONE);
	assert_int_equal(took, 6);
	assert_int_equal(exec_write(p->s, "", id, exec, NULL, 0, &took, &e), PROBLEM_NONE);
	await_end(p, w, &h);
	assert_string_equal(buf_str(&h.out), "knock\n");
	(void)exec_unwatch(w);
	heard_done(&h);
	assert_int_equal(exec_write(p->s, "", id, exec, "x", 1, &took, &e), PROBLEM_EXEC_ENDED);
	perform(p, id, SANDBOX_DELETE, 0);
}

static void a_terminal_is_the_commands_own(void **state)
{
	static const char line[] = "tty; stty size; until stty size | grep 132; do :; done; "
				   "read x; echo got $x; exec 0<&-; echo last";
	const char *const argv[] = { "/bin/sh", "-c", line, NULL };
	const struct exec_start x = {
		.order = { .argv = argv }, .tty = true, .stdin_open = true, .rows = 30, .cols = 100
	};
	struct place *p = *state;
	char id[SANDBOX_ID_SIZE], exec[EXEC_ID_SIZE];
	struct exec_watch *w;
	struct err e = { 0 };
	struct heard h;
	size_t took;

	create(p, NULL, id);
	assert_int_equal(sandboxes_exec(p->s, "", id, &x, exec, &e), PROBLEM_NONE);
	w = listen_to(p, id, exec, 0, &h);
	while (!h.ended && !strstr(buf_str(&h.out), "30 100"))
		loop_turn(p->loop, 50);
	assert_non_null(strstr(buf_str(&h.out), "/dev/pts/"));
	assert_int_equal(exec_resize(p->s, "", id, exec, 50, 132, &e), PROBLEM_NONE);
	assert_int_equal(exec_write(p->s, "", id, exec, "word\n", 5, &took, &e), PROBLEM_NONE);
	await_end(p, w, &h);
	assert_non_null(strstr(buf_str(&h.out), "50 132"));
	assert_non_null(strstr(buf_str(&h.out), "got word\r\nlast\r\n"));
	(void)exec_unwatch(w);
	heard_done(&h);
	perform(p, id, SANDBOX_DELETE, 0);
}

static void a_paused_sandbox_stands_still(void **state)
{
	static const char *const argv[] = { "/bin/true", NULL };
	const struct exec_start x = { .order = { .argv = argv } };
	struct place *p = *state;
	char id[SANDBOX_ID_SIZE], exec[EXEC_ID_SIZE], other[EXEC_ID_SIZE];
	struct exec_watch *w;
	struct err e = { 0 };
	struct heard h;
	size_t before;

	create(p, NULL, id);
	start(p, id,
	      "i=0; while :; do echo $((i += 1)); done & "
	      "for n in 1 2 3 4 5; do (while :; do (:); done) & done; wait",
	      false, exec);
	w = listen_to(p, id, exec, 0, &h);
	while (!h.out.len)
		loop_turn(p->loop, 50);
	perform(p, id, SANDBOX_PAUSE, 0);
	perform(p, id, SANDBOX_PAUSE, 0);
	assert_true(state_is(p, id, "paused"));
	for (int i = 0; i < 5; i++)
		loop_turn(p->loop, 20);
	before = h.out.len;
	for (int i = 0; i < 5; i++)
		loop_turn(p->loop, 20);
	assert_int_equal(h.out.len, before);
	assert_int_equal(sandboxes_exec(p->s, "", id, &x, other, &e), PROBLEM_SANDBOX_PAUSED);
	close_daemon(p);
	(void)exec_unwatch(w);
	heard_done(&h);
	open_daemon(p);
	assert_true(state_is(p, id, "paused"));
	perform(p, id, SANDBOX_RESUME, 0);
	w = listen_to(p, id, exec, before, &h);
	while (!h.out.len)
		loop_turn(p->loop, 50);
	assert_int_equal(exec_cancel(p->s, "", id, exec, &e), PROBLEM_NONE);
	await_end(p, w, &h);
	(void)exec_unwatch(w);
	heard_done(&h);
	perform(p, id, SANDBOX_PAUSE, 0);
	perform(p, id, SANDBOX_STOP, 100);
	perform(p, id, SANDBOX_DELETE, 0);
}

static void a_cancel_ends_all_that_it_started(void **state)
{
	struct place *p = *state;
	char id[SANDBOX_ID_SIZE], exec[EXEC_ID_SIZE];
	struct exec_watch *w;
	struct err e = { 0 };
	struct heard h;

	create(p, NULL, id);
	start(p, id, "(setsid sleep 4242 &); setsid sleep 4242 & echo up; wait", false, exec);
	w = listen_to(p, id, exec, 0, &h);
	while (!h.out.len)
		loop_turn(p->loop, 50);
	assert_int_equal(exec_cancel(p->s, "", id, exec, &e), PROBLEM_NONE);
	await_end(p, w, &h);
	assert_non_null(strstr(buf_str(&h.result), "\"outcome\":\"cancelled\""));
	(void)exec_unwatch(w);
	heard_done(&h);
	run(p, id,
	    "for i in 1 2 3 4 5 6 7 8 9 10; do grep -l 4242 /proc/[0-9]*/cmdline | grep -v $$ "
	    "|| break; sleep 0.2; done | tail -1; echo done",
	    &h);
	assert_non_null(strstr(buf_str(&h.out), "done\n"));
	heard_done(&h);
	perform(p, id, SANDBOX_DELETE, 0);
}

static void a_slow_listener_gets_every_byte(void **state)
{
	struct place *p = *state;
	char id[SANDBOX_ID_SIZE], exec[EXEC_ID_SIZE];
	struct exec_watch *w, *late;
	struct heard h, second;

	create(p, NULL, id);
	start(p, id, "seq 1 20000", false, exec);
	w = listen_to(p, id, exec, 0, &h);
	h.room = 1000;
	await_end(p, w, &h);
	assert_int_equal(h.out.len, 108894);
	assert_non_null(strstr(buf_str(&h.out), "\n20000\n"));
	late = listen_to(p, id, exec, 108888, &second);
	second.out.len = 0;
	while (!second.ended)
		loop_turn(p->loop, 50);
	(void)exec_unwatch(w);
	(void)exec_unwatch(late);
	heard_done(&h);
	heard_done(&second);
	perform(p, id, SANDBOX_DELETE, 0);
}

static void a_new_daemon_finds_what_runs(void **state)
{
	struct place *p = *state;
	char id[SANDBOX_ID_SIZE], exec[EXEC_ID_SIZE];
	struct exec_watch *w;
	struct heard h;

	create(p, "kept", id);
	start(p, id, "echo before; sleep 0.4; echo after", false, exec);
	w = listen_to(p, id, exec, 0, &h);
	while (!h.out.len)
		loop_turn(p->loop, 50);
	(void)exec_unwatch(w);
	heard_done(&h);
	close_daemon(p);
	open_daemon(p);
	await_state(p, "kept", "ready");
	w = listen_to(p, id, exec, 0, &h);
	await_end(p, w, &h);
	assert_string_equal(buf_str(&h.out), "before\nafter\n");
	(void)exec_unwatch(w);
	heard_done(&h);
	run(p, id, "echo new", &h);
	assert_string_equal(buf_str(&h.out), "new\n");
	heard_done(&h);
	perform(p, id, SANDBOX_DELETE, 0);
}

static void a_spec_that_is_refused_leaves_no_spec(void **state)
{
	struct place *p = *state;
	static const char spec[] = "{\"backend\":\"native\",\"workspace\":{\"path\":"
				   "\"/nowhere/at/all\"}}";
	struct sandbox_create c = { .tenant = "", .spec = spec, .spec_size = sizeof(spec) - 1 };
	char id[SANDBOX_ID_SIZE], path[192];
	struct err e = { 0 };

	assert_int_equal(sandboxes_create(p->s, &c, id, &e), PROBLEM_NONE);
	await_state(p, id, "failed");
	(void)snprintf(path, sizeof(path), "%s/state/sandboxes/%s/spec", p->root, id);
	assert_int_equal(access(path, F_OK), -1);
	perform(p, id, SANDBOX_DELETE, 0);
	assert_gone(p, id);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup_teardown(a_command_is_run_and_heard, set_up, tear_down),
	cmocka_unit_test_setup_teardown(stopped_ones_can_be_resumed, set_up, tear_down),
	cmocka_unit_test_setup_teardown(input_reaches_the_command, set_up, tear_down),
	cmocka_unit_test_setup_teardown(a_terminal_is_the_commands_own, set_up, tear_down),
	cmocka_unit_test_setup_teardown(a_paused_sandbox_stands_still, set_up, tear_down),
	cmocka_unit_test_setup_teardown(a_cancel_ends_all_that_it_started, set_up, tear_down),
	cmocka_unit_test_setup_teardown(a_slow_listener_gets_every_byte, set_up, tear_down),
	cmocka_unit_test_setup_teardown(a_new_daemon_finds_what_runs, set_up, tear_down),
	cmocka_unit_test_setup_teardown(a_spec_that_is_refused_leaves_no_spec, set_up, tear_down),
};

int main(int argc, char **argv)
{
	if (argc > 1 && str_eq(argv[0], MONITOR_NAME))
		return monitor_main(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
