/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_many.c - many runs in one epoll set of the caller's: each is taken, and each is heard
 * of, whoever among them was turned.
 *
 * The kernel bounds the ways from one file through nested sets: ten at a depth of five. */
#include "unit.h"

#include <poll.h>
#include <sys/epoll.h>

#include "brig.h"

enum { MANY = 40, PATIENCE_MS = 60000 };

struct one {
	brig_request *request;
	brig_run *run;
	int fd;
};

struct many {
	char top[PATH_MAX];
	brig_manager *manager;
	brig_sandbox *sandbox; /* NULL: each run has its own */
	struct one all[MANY];
	int set; /* the caller's */
	unsigned runs;
};

static struct brig_error e;

static int enter(void **state)
{
	struct many *m = calloc(1, sizeof(*m));
	char path[PATH_MAX + 16];

	must(m != NULL);
	enter_scratch(m->top);
	(void)snprintf(path, sizeof(path), "%s/state", m->top);
	must(mkdir(path, 0700) == 0 && setenv("XDG_STATE_HOME", path, 1) == 0);
	must(mkdir("work", 0700) == 0 && chdir("work") == 0);
	m->manager = brig_manager_new();
	m->set = epoll_create1(EPOLL_CLOEXEC);
	must(m->manager && m->set >= 0);
	*state = m;
	return 0;
}

static int leave(void **state)
{
	struct many *m = *state;

	(void)close(m->set);
	brig_manager_free(m->manager);
	must(chdir(m->top) == 0);
	leave_scratch(m->top);
	free(m);
	return 0;
}

static void open_sandbox(struct many *m)
{
	brig_request *q = brig_request_new(m->manager);

	must(q && brig_sandbox_open(q, &m->sandbox, &e) == 0);
	brig_request_free(q);
}

static void start(struct many *m, unsigned i, const char *line)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u32 = i };
	struct one *x = &m->all[i];

	x->request = m->sandbox ? brig_sandbox_command(m->sandbox) : brig_request_new(m->manager);
	must(x->request && brig_request_shell(x->request, line, &e) == 0);
	must((m->sandbox ? brig_sandbox_exec(m->sandbox, x->request, &x->run, &e)
			 : brig_start(x->request, &x->run, &e)) == 0);
	x->fd = brig_run_fd(x->run);
	assert_int_equal(epoll_ctl(m->set, EPOLL_CTL_ADD, x->fd, &ev), 0);
	m->runs++;
}

static void end(struct many *m, unsigned i, const char *outcome)
{
	struct one *x = &m->all[i];
	brig_result *r = NULL;

	assert_int_equal(epoll_ctl(m->set, EPOLL_CTL_DEL, x->fd, NULL), 0);
	(void)brig_run_finish(x->run, &r, &e);
	assert_string_equal(brig_result_outcome(r), outcome);
	brig_result_free(r);
	brig_request_free(x->request);
	*x = (struct one){ 0 };
	m->runs--;
}

/* By the set alone: nothing is asked for its descriptor again. Returns the first that is over. */
static unsigned next_over(struct many *m)
{
	struct epoll_event ev;

	for (;;) {
		assert_int_equal(epoll_wait(m->set, &ev, 1, PATIENCE_MS), 1);
		if (brig_run_dispatch(m->all[ev.data.u32].run) == 0)
			return ev.data.u32;
	}
}

static void all_are_heard_of(struct many *m)
{
	for (unsigned i = 0; i < MANY - 1; i++)
		start(m, i, "exec sleep 600");
	start(m, MANY - 1, "exit 7");
	assert_int_equal(next_over(m), MANY - 1);
	end(m, MANY - 1, "exited");
	for (unsigned i = 0; i < MANY - 1; i++)
		brig_request_cancel(m->all[i].request);
	while (m->runs)
		end(m, next_over(m), "cancelled");
}

static void runs_of_their_own(void **state)
{
	all_are_heard_of(*state);
}

static void commands_of_one_sandbox(void **state)
{
	struct many *m = *state;

	open_sandbox(m);
	all_are_heard_of(m);
	assert_int_equal(brig_sandbox_close(m->sandbox, NULL, &e), 0);
}

/* The one that hears of the sandbox ends, again and again. */
static void another_takes_over_from_one_that_ended(void **state)
{
	struct many *m = *state;

	open_sandbox(m);
	start(m, 0, "exec sleep 600");
	for (unsigned i = 1; i < MANY; i++) {
		start(m, i, "exit 0");
		assert_int_equal(next_over(m), i);
		end(m, i, "exited");
	}
	brig_request_cancel(m->all[0].request);
	assert_int_equal(next_over(m), 0);
	end(m, 0, "cancelled");
	assert_int_equal(brig_sandbox_close(m->sandbox, NULL, &e), 0);
}

/* One may be waited for alone, whichever was asked last before. */
static void one_is_waited_for_beside_others(void **state)
{
	struct many *m = *state;
	struct pollfd p = { .events = POLLIN };

	open_sandbox(m);
	start(m, 0, "sleep 0.2; exit 3");
	start(m, 1, "exec sleep 600");
	do {
		p.fd = brig_run_fd(m->all[0].run);
		assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
	} while (brig_run_dispatch(m->all[0].run));
	end(m, 0, "exited");
	brig_request_cancel(m->all[1].request);
	assert_int_equal(next_over(m), 1);
	end(m, 1, "cancelled");
	assert_int_equal(brig_sandbox_close(m->sandbox, NULL, &e), 0);
}

/* Nobody turned them when their sandbox ended, and yet their descriptors say so. */
static void the_end_of_the_sandbox_is_heard_by_all(void **state)
{
	struct many *m = *state;

	open_sandbox(m);
	for (unsigned i = 0; i < MANY; i++)
		start(m, i, "exec sleep 600");
	assert_int_equal(brig_sandbox_close(m->sandbox, NULL, &e), 0);
	while (m->runs)
		end(m, next_over(m), "cancelled");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, enter, leave)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(runs_of_their_own),
		TEST(commands_of_one_sandbox),
		TEST(another_takes_over_from_one_that_ended),
		TEST(one_is_waited_for_beside_others),
		TEST(the_end_of_the_sandbox_is_heard_by_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
