/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_loop.c - descriptors and timers on one loop, and on the loop of somebody else. */
#include "unit.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/sys/loop.h"

#define MANY 500

typedef int make_fn(struct loop **ret, struct err *e);

static void make(void **state, struct loop **ret)
{
	struct err e;

	assert_int_equal((*(make_fn **)state)(ret, &e), 0);
}

struct clockwork {
	struct loop_timer t; /* first */
	struct loop *loop;
	unsigned *rang;
	unsigned at; /* in what order it rang; 0: never */
	uint64_t again;
	struct clockwork *victim;
};

static void ring(struct loop_timer *t, uint64_t now UNUSED)
{
	struct clockwork *c = (struct clockwork *)t;

	c->at = ++*c->rang;
	if (c->again) {
		loop_at(c->loop, t, c->again);
		c->again = 0;
	}
	if (c->victim)
		loop_at(c->loop, &c->victim->t, 0);
}

static void timers_ring_in_the_order_of_their_time(void **state)
{
	struct clockwork c[MANY] = { 0 };
	unsigned rang = 0, kept = 0;
	struct loop *l = NULL;

	make(state, &l);
	srandom(7);
	for (size_t i = 0; i < MANY; i++) {
		c[i] = (struct clockwork){ .t.due = ring, .loop = l, .rang = &rang };
		/* Within the loop's own future, so that none is put off. */
		loop_at(l, &c[i].t, loop_now(l) + 1 + (uint64_t)random() % 2000);
	}
	for (size_t i = 0; i < MANY; i += 3) /* some set anew, some taken off */
		loop_at(l, &c[i].t, i % 2 ? loop_now(l) + 1 + (uint64_t)random() % 2000 : 0);
	for (size_t i = 0; i < MANY; i++)
		kept += c[i].t.at != 0;
	{
		uint64_t at[MANY];

		for (size_t i = 0; i < MANY; i++)
			at[i] = c[i].t.at;
		for (int turns = 0; rang < kept && turns < 10000; turns++)
			loop_turn(l, 10);
		assert_int_equal(rang, kept);
		for (size_t i = 0; i < MANY; i++)
			for (size_t j = 0; j < MANY; j++)
				if (at[i] && at[j] && at[i] < at[j])
					assert_true(c[i].at < c[j].at);
	}
	assert_null(loop_free(l));
}

static void a_handler_sets_its_own_timer_and_takes_others_off(void **state)
{
	unsigned rang = 0;
	struct loop *l = NULL;
	struct clockwork a, b;

	make(state, &l);
	b = (struct clockwork){ .t.due = ring, .loop = l, .rang = &rang };
	/* Again at a time that is past: at the next turn, not for ever in this one. */
	a = (struct clockwork){ .t.due = ring, .loop = l, .rang = &rang, .again = 1, .victim = &b };
	loop_at(l, &a.t, 1);
	loop_at(l, &b.t, loop_now(l) + 100);
	loop_turn(l, -1);
	assert_int_equal(rang, 1);
	loop_turn(l, -1);
	assert_int_equal(rang, 2);
	assert_int_equal(a.at, 2);
	assert_int_equal(b.at, 0);
	loop_turn(l, 0); /* nothing is left */
	assert_int_equal(rang, 2);
	assert_null(loop_free(l));
}

struct reader {
	struct loop_watch w; /* first */
	struct loop *loop;
	struct reader *other;
	unsigned calls;
};

static void read_one(struct loop_watch *w, uint32_t events UNUSED)
{
	struct reader *r = (struct reader *)w;
	char c;

	r->calls++;
	if (read(w->fd, &c, 1) <= 0)
		(void)loop_want(r->loop, w, 0);
	if (r->other)
		(void)loop_want(r->loop, &r->other->w, 0);
}

static void one_that_was_taken_off_is_not_called(void **state)
{
	int a[2], b[2];
	struct loop *l = NULL;
	struct reader x, y;

	make(state, &l);
	assert_int_equal(pipe2(a, O_CLOEXEC) | pipe2(b, O_CLOEXEC), 0);
	assert_int_equal(write(a[1], "x", 1) + write(b[1], "x", 1), 2);
	x = (struct reader){ .w = { .fd = a[0], .ready = read_one }, .loop = l, .other = &y };
	y = (struct reader){ .w = { .fd = b[0], .ready = read_one }, .loop = l, .other = &x };
	assert_int_equal(loop_want(l, &x.w, EPOLLIN) | loop_want(l, &y.w, EPOLLIN), 0);
	loop_turn(l, 1000);
	loop_turn(l, 0);
	assert_int_equal(x.calls + y.calls, 1);
	for (int i = 0; i < 2; i++) {
		(void)close(a[i]);
		(void)close(b[i]);
	}
	assert_null(loop_free(l));
}

static void a_file_is_always_ready(void **state)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct loop *l = NULL;
	struct reader x;

	assert_true(fd >= 0);
	make(state, &l);
	x = (struct reader){ .w = { .fd = fd, .ready = read_one }, .loop = l };
	assert_int_equal(loop_want(l, &x.w, EPOLLIN), 0);
	for (int i = 0; i < 3; i++)
		loop_turn(l, -1);
	assert_int_equal(x.calls, 3);
	assert_int_equal(loop_want(l, &x.w, 0), 0);
	loop_turn(l, 0);
	assert_int_equal(x.calls, 3);
	(void)close(fd);
	assert_null(loop_free(l));
}

static bool readable(int fd, int ms)
{
	return poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, ms) == 1;
}

static void a_loop_around_it_waits_for_one_descriptor(void **state)
{
	unsigned rang = 0;
	int fd, a[2];
	struct loop *l = NULL;
	struct clockwork c;
	struct reader x;

	make(state, &l);
	assert_int_equal(pipe2(a, O_CLOEXEC), 0);
	fd = loop_fd(l);
	assert_true(fd >= 0);
	assert_int_equal(loop_fd(l), fd);
	assert_false(readable(fd, 0));
	c = (struct clockwork){ .t.due = ring, .loop = l, .rang = &rang };
	loop_at(l, &c.t, clock_us() + 2000);
	assert_true(readable(fd, 10000));
	for (int i = 0; i < 1000 && !rang; i++)
		loop_turn(l, 0);
	assert_int_equal(rang, 1);
	assert_false(readable(fd, 0));
	x = (struct reader){ .w = { .fd = a[0], .ready = read_one }, .loop = l };
	assert_int_equal(loop_want(l, &x.w, EPOLLIN), 0);
	assert_false(readable(fd, 0));
	assert_int_equal(write(a[1], "x", 1), 1);
	assert_true(readable(fd, 1000));
	loop_turn(l, 0);
	assert_int_equal(x.calls, 1);
	assert_false(readable(fd, 0));
	assert_int_equal(loop_want(l, &x.w, 0), 0);
	(void)close(a[0]);
	(void)close(a[1]);
	assert_null(loop_free(l));
}

/* The file itself is still open, and still readable. */
static void what_was_taken_off_does_not_wake_a_loop_around_it(void **state)
{
	struct loop *l = NULL;
	struct reader x;
	int fd, a[2];

	make(state, &l);
	assert_int_equal(pipe2(a, O_CLOEXEC), 0);
	fd = loop_fd(l);
	x = (struct reader){ .w = { .fd = a[0], .ready = read_one }, .loop = l };
	assert_int_equal(loop_want(l, &x.w, EPOLLIN), 0);
	assert_int_equal(write(a[1], "x", 1), 1);
	assert_true(readable(fd, 1000));
	assert_int_equal(loop_want(l, &x.w, 0), 0);
	assert_false(readable(fd, 0));
	(void)close(a[0]);
	(void)close(a[1]);
	assert_null(loop_free(l));
}

static void a_file_wakes_a_loop_around_it(void **state)
{
	int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), fd;
	struct loop *l = NULL;
	struct reader x;

	assert_true(file >= 0);
	make(state, &l);
	fd = loop_fd(l);
	x = (struct reader){ .w = { .fd = file, .ready = read_one }, .loop = l };
	assert_int_equal(loop_want(l, &x.w, EPOLLIN), 0);
	loop_turn(l, 0);
	assert_int_equal(x.calls, 1);
	assert_true(readable(fd, 1000));
	assert_int_equal(loop_want(l, &x.w, 0), 0);
	loop_turn(l, 0);
	assert_false(readable(fd, 0));
	(void)close(file);
	assert_null(loop_free(l));
}

#define BOTH(test)                                                                                 \
	{ #test, test, NULL, NULL, (void *)(uintptr_t)loop_new },                                  \
	{                                                                                          \
#test ", small", test, NULL, NULL, (void *)(uintptr_t)loop_new_small               \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(timers_ring_in_the_order_of_their_time),
		BOTH(a_handler_sets_its_own_timer_and_takes_others_off),
		BOTH(one_that_was_taken_off_is_not_called),
		BOTH(a_file_is_always_ready),
		BOTH(a_loop_around_it_waits_for_one_descriptor),
		BOTH(what_was_taken_off_does_not_wake_a_loop_around_it),
		BOTH(a_file_wakes_a_loop_around_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
