/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_bounds.c - bounds that are too long to be waited for, with a clock that the test sets.
 *
 * The program is its own monitor, as in test_sandboxes.c, and what a monitor clones into a sandbox
 * is this program as well: all of them see one page that says how far ahead the clock is. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bytes/jread.h"
#include "base/files/fd.h"
#include "base/files/folder.h"
#include "base/files/tree.h"
#include "base/sys/clock.h"
#include "base/text/num.h"
#include "base/text/str.h"
#include "daemon/registry/sandbox_files.h"
#include "daemon/shared/monitor_protocol.h"

#define SECOND ((uint64_t)1000 * 1000)
#define PATIENCE (60 * SECOND)
#define PAGE_VARIABLE "BRIG_TEST_PAGE"

extern const char brig_is_this_program[];
const char brig_is_this_program[] = "brig";

struct driven {
	volatile uint64_t ahead_us; /* of CLOCK_MONOTONIC, for everybody */
	volatile int impatient;     /* a step of a helper's data waits for no time */
};

static struct driven *driven;

int clock_gettime(clockid_t clock_id, struct timespec *tp)
{
	int r = (int)syscall(SYS_clock_gettime, clock_id, tp);

	if (r == 0 && clock_id == CLOCK_MONOTONIC && driven) {
		uint64_t ns = (uint64_t)tp->tv_nsec + driven->ahead_us % SECOND * 1000;

		tp->tv_sec += (time_t)(driven->ahead_us / SECOND + ns / 1000000000);
		tp->tv_nsec = (long)(ns % 1000000000);
	}
	return r;
}

int poll(struct pollfd *fds, nfds_t nfds, int timeout)
{
	const struct timespec t = { timeout / 1000, (long)(timeout % 1000) * 1000000 },
			      now = { 0, 0 };
	bool hurry = driven && driven->impatient && timeout == FILE_PATIENCE_MS;

	return ppoll(fds, nfds, timeout < 0 ? NULL : hurry ? &now : &t, NULL);
}

/* The time that the test itself waits for. */
static uint64_t real_us(void)
{
	return clock_us() - driven->ahead_us;
}

struct place {
	char root[64], work[96];
	int state;
	struct loop *loop;
	struct events *events;
	struct sandboxes *s;
};

static int set_up(void **state)
{
	struct place *p = calloc(1, sizeof(*p));
	struct err e = { 0 };
	char path[128];

	driven->ahead_us = 0;
	driven->impatient = 0;
	(void)snprintf(p->root, sizeof(p->root), "/var/tmp/brig-bounds-%d", (int)getpid());
	(void)mkdir(p->root, 0755);
	(void)snprintf(p->work, sizeof(p->work), "%s/work", p->root);
	(void)mkdir(p->work, 0777);
	(void)chmod(p->work, 0777);
	(void)snprintf(path, sizeof(path), "%s/state", p->root);
	(void)mkdir(path, 0700);
	p->state = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	(void)setenv("XDG_STATE_HOME", path, 1);
	*state = p;
	return p->state < 0 || loop_new(&p->loop, &e) < 0 ||
			       events_open(p->state, &p->events, &e) < 0 ||
			       sandboxes_new(p->state, p->loop, p->events, &p->s, &e) < 0
		       ? -1
		       : 0;
}

static int tear_down(void **state)
{
	struct place *p = *state;
	int parent = open("/var/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	(void)sandboxes_free(p->s);
	(void)events_free(p->events);
	(void)loop_free(p->loop);
	(void)close(p->state);
	(void)tree_remove(parent, strrchr(p->root, '/') + 1);
	(void)close(parent);
	free(p);
	return 0;
}

/* ---- sandboxes ---- */

static struct jread *show(struct place *p, const char *id)
{
	CLEANUP(buf) struct buf b = BUF_INIT(1 << 20);
	struct jread *v = NULL;
	struct json j;
	struct err e = { 0 };

	json_init(&j, &b, false);
	if (sandboxes_show(p->s, "", id, false, &j, &e) != PROBLEM_NONE)
		return NULL;
	assert_int_equal(jread_parse(b.data, b.len, &v, &e), 0);
	return v;
}

static bool state_is(struct place *p, const char *id, const char *word, const char *reason)
{
	CLEANUP(jread) struct jread *v = show(p, id);

	if (!v)
		return str_eq(word, "deleted");
	return str_eq(jread_str(v, "state"), word) &&
	       (!reason || str_eq(jread_str(v, "reason"), reason));
}

static void await_state(struct place *p, const char *id, const char *word, const char *reason)
{
	uint64_t until = real_us() + PATIENCE;

	while (!state_is(p, id, word, reason)) {
		if (real_us() > until)
			fail_msg("'%s' never became %s", id, word);
		loop_turn(p->loop, 20);
	}
}

static void create(struct place *p, const char *more, char *id)
{
	char spec[768];
	struct err e = { 0 };
	struct sandbox_create c = { .tenant = "", .spec = spec };

	c.spec_size = (size_t)snprintf(spec, sizeof(spec),
				       "{\"backend\":\"native\",\"network\":\"none\",%s"
				       "\"workspace\":{\"path\":\"%s\"}}",
				       more, p->work);
	if (sandboxes_create(p->s, &c, id, &e) != PROBLEM_NONE)
		fail_msg("%s", e.what);
}

static void destroy(struct place *p, const char *id)
{
	struct err e = { 0 };

	assert_int_equal(sandboxes_do(p->s, "", id, SANDBOX_DELETE, 0, NULL, NULL, &e),
			 PROBLEM_NONE);
	await_state(p, id, "deleted", NULL);
}

/* ---- files ---- */

struct told {
	bool has, done;
	enum problem p;
	char what[400];
};

static void on_has(void *arg, const struct file_answer *a)
{
	(void)a;
	((struct told *)arg)->has = true;
}

static void on_done(void *arg, enum problem p, const struct file_answer *a, const struct err *e)
{
	struct told *t = arg;

	(void)a;
	t->done = true;
	t->p = p;
	(void)snprintf(t->what, sizeof(t->what), "%s", e->what);
}

static struct file_op *begin(struct place *p, const char *id, struct told *t)
{
	const struct file_order o = { .verb = FILE_WRITE, .path = "f", .to = "", .mode = 0644 };
	const struct file_listener by = { .has = on_has, .done = on_done, .arg = t };
	struct file_op *f = NULL;
	struct err e = { 0 };

	*t = (struct told){ 0 };
	if (file_op_new(p->s, "", id, &o, &by, &f, &e) != PROBLEM_NONE)
		fail_msg("%s", e.what);
	return f;
}

static void await_flag(struct place *p, const bool *flag)
{
	uint64_t until = real_us() + PATIENCE;

	while (!*flag) {
		if (real_us() > until)
			fail_msg("nothing was said");
		loop_turn(p->loop, 20);
	}
}

static void a_helper_whose_data_stands_still_gives_up(void **state)
{
	struct place *p = *state;
	char id[SANDBOX_ID_SIZE];
	struct told t;
	struct file_op *f;

	create(p, "", id);
	await_state(p, id, "ready", NULL);
	f = begin(p, id, &t);
	await_flag(p, &t.has);
	/* The control: while its time is not over it waits. */
	for (int i = 0; i < 5; i++)
		loop_turn(p->loop, 20);
	assert_false(t.done);
	(void)file_op_free(f);
	driven->impatient = 1;
	f = begin(p, id, &t);
	await_flag(p, &t.done);
	assert_int_equal(t.p, PROBLEM_CONFLICT);
	assert_non_null(strstr(t.what, "moved for 30 s"));
	(void)file_op_free(f);
	driven->impatient = 0;
	destroy(p, id);
}

/* Its parent, if it has this name (NULL: any); -1. */
static pid_t parent_of(int proc, pid_t pid, const char *name)
{
	char path[64], text[512];
	const char *at;

	(void)snprintf(path, sizeof(path), "%d/stat", (int)pid);
	if (fd_read_file(proc, path, text, sizeof(text)) <= 0 || (name && !strstr(text, name)))
		return -1;
	at = strrchr(text, ')'); /* then a blank, the state, a blank */
	return at ? (pid_t)strtol(at + 4, NULL, 10) : -1;
}

/* The first process of the only sandbox that this program has: its monitor's child. */
static pid_t find_init(void)
{
	struct folder f;
	const struct fd_entry *d;
	int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	pid_t found = -1;

	folder_begin(&f, proc);
	while ((d = folder_next(&f))) {
		uint64_t pid;
		pid_t monitor;

		if (num_count(d->name, &pid) < 0)
			continue;
		monitor = parent_of(proc, (pid_t)pid, "(brig-init)");
		if (monitor > 1 && parent_of(proc, monitor, NULL) == getpid())
			found = (pid_t)pid;
	}
	(void)close(proc);
	return found;
}

static void a_helper_that_never_comes_is_not_waited_for(void **state)
{
	struct place *p = *state;
	char id[SANDBOX_ID_SIZE];
	struct told t;
	struct file_op *f;
	pid_t init;

	create(p, "", id);
	await_state(p, id, "ready", NULL);
	init = find_init();
	assert_true(init > 1);
	assert_int_equal(kill(init, SIGSTOP), 0);
	f = begin(p, id, &t);
	driven->ahead_us += 29 * SECOND;
	for (int i = 0; i < 5; i++)
		loop_turn(p->loop, 10);
	assert_false(t.done);
	driven->ahead_us += 2 * SECOND;
	await_flag(p, &t.done);
	assert_int_equal(t.p, PROBLEM_CONFLICT);
	assert_non_null(strstr(t.what, "moved for 30 s"));
	(void)file_op_free(f);
	assert_int_equal(kill(init, SIGCONT), 0);
	destroy(p, id);
}

/* ---- companions ---- */

#define NEVER_WELL                                                                                 \
	"\"companions\":{\"db\":{\"command\":[\"sleep\",\"600\"],\"healthcheck\":{\"test\":"       \
	"[\"CMD\",\"false\"],\"interval\":\"20ms\",\"retries\":1000000}}},"

static void companions_have_five_minutes_to_become_well(void **state)
{
	struct place *p = *state;
	char id[SANDBOX_ID_SIZE];

	create(p, NEVER_WELL, id);
	for (int i = 0; i < 20; i++)
		loop_turn(p->loop, 20);
	assert_true(state_is(p, id, "pending", NULL));
	driven->ahead_us += 290 * SECOND;
	for (int i = 0; i < 20; i++)
		loop_turn(p->loop, 20);
	assert_true(state_is(p, id, "pending", NULL));
	driven->ahead_us += 15 * SECOND;
	await_state(p, id, "failed", "companion-unhealthy");
	destroy(p, id);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup_teardown(a_helper_whose_data_stands_still_gives_up, set_up,
					tear_down),
	cmocka_unit_test_setup_teardown(a_helper_that_never_comes_is_not_waited_for, set_up,
					tear_down),
	cmocka_unit_test_setup_teardown(companions_have_five_minutes_to_become_well, set_up,
					tear_down),
};

/* The page is a file that every monitor opens again. */
static int open_page(char path[64])
{
	const char *named = getenv(PAGE_VARIABLE);
	int fd;
	void *at;

	(void)snprintf(path, 64, "/var/tmp/brig-bounds-page-%d", (int)getpid());
	fd = open(named ? named : path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, sizeof(struct driven)) < 0)
		return -1;
	at = mmap(NULL, sizeof(struct driven), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	(void)close(fd);
	if (at == MAP_FAILED)
		return -1;
	driven = at;
	return named ? 0 : setenv(PAGE_VARIABLE, path, 1);
}

/* What answers for companions' names is looked for beside this program, which is one folder down.
 */
static int find_egress(void)
{
	char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
	char *slash;

	path[n < 0 ? 0 : n] = '\0';
	slash = strrchr(path, '/');
	if (!slash || (size_t)(slash - path) + sizeof("/brig-egress") > sizeof(path))
		return -1;
	(void)strcpy(slash, "/brig-egress"); /* NOLINT */
	return symlink("../brig-egress", path) == 0 || errno == EEXIST ? 0 : -1;
}

int main(int argc, char **argv)
{
	char path[64];
	int r;

	if (open_page(path) < 0 || find_egress() < 0)
		return 1;
	if (argc > 1 && str_eq(argv[0], MONITOR_NAME))
		return monitor_main(argc, argv);
	r = cmocka_run_group_tests(tests, NULL, NULL);
	(void)unlink(path);
	return r;
}
