/* SPDX-License-Identifier: Apache-2.0 */
/* A disk that is full, broken or slow, and a clock that is set back: through wrapped system calls,
 * which the code itself knows nothing of. */
#include "auditcheck.h"

#include <sys/resource.h>
#include <time.h>

ssize_t __real_pwrite64(int fd, const void *p, size_t n, off_t at);
ssize_t __wrap_pwrite64(int fd, const void *p, size_t n, off_t at);
int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd);
int __real_clock_gettime(clockid_t c, struct timespec *t);
int __wrap_clock_gettime(clockid_t c, struct timespec *t);

static struct {
	int after;    /* so many writes go well; -1: all */
	int code;     /* what the next ones say; 0: records are written bit by bit */
	int sync;     /* what fdatasync says; 0: it works */
	int syncs;    /* how often it was asked */
	long seconds; /* the wall clock is off by so many */
} world = { .after = -1 };

ssize_t __wrap_pwrite64(int fd, const void *p, size_t n, off_t at)
{
	if (world.after > 0)
		world.after--;
	else if (world.after == 0 && world.code == 0)
		return __real_pwrite64(fd, p, n > HEAD_SLOT ? 100 : n, at);
	else if (world.after == 0) {
		(void)__real_pwrite64(fd, p, n / 3, at); /* some of it may well have arrived */
		return errno = world.code, -1;
	}
	return __real_pwrite64(fd, p, n, at);
}

int __wrap_fdatasync(int fd)
{
	world.syncs++;
	return world.sync ? (errno = world.sync, -1) : __real_fdatasync(fd);
}

int __wrap_clock_gettime(clockid_t c, struct timespec *t)
{
	int r = __real_clock_gettime(c, t);

	if (c == CLOCK_REALTIME)
		t->tv_sec += world.seconds;
	return r;
}

static char scratch[PATH_MAX];

static int enter(void **state UNUSED)
{
	world.after = -1;
	world.code = world.sync = world.syncs = 0;
	world.seconds = 0;
	enter_scratch(scratch);
	return 0;
}

static int leave(void **state UNUSED)
{
	world.after = -1;
	leave_scratch(scratch);
	return 0;
}

static void a_write_that_fails_is_an_error_and_leaves_no_trace(void **state UNUSED)
{
	static const int codes[] = { ENOSPC, EIO, EDQUOT, EROFS };

	for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++)
		for (int after = 0; after < 2; after++) { /* the record; the head */
			struct log *l = open_log(0, false);
			uint64_t before;
			struct err e = { 0 };

			append_many(l, 3);
			before = log_head(l).seq;
			world.after = after;
			world.code = codes[i];
			assert_int_equal(append(l, "lost", 0, &e), -codes[i]);
			assert_int_equal(e.kind, ERR_UNAVAILABLE);
			assert_non_null(strstr(e.what, "'log'"));
			assert_non_null(strstr(e.what, strerror(codes[i])));
			assert_true(e.hint[0]);
			world.after = -1;
			assert_int_equal(log_head(l).seq, before);
			append_many(l, 1);
			assert_int_equal(log_head(l).seq >= before + 1, 1);
			(void)log_free(l);
			assert_false(log_says("lost\""));
			/* A torn head is seen, and then written anew. */
			make_log(2, 0);
			assert_true(intact());
		}
}

static void a_short_write_is_gone_on_with(void **state UNUSED)
{
	world.after = 0;
	make_log(5, 0);
	assert_true(intact());
	assert_int_equal(check(NULL).records, 5);
}

static void a_failed_sync_acknowledges_nothing(void **state UNUSED)
{
	struct log *l = open_log(0, true);
	struct err e = { 0 };

	append_many(l, 2);
	assert_int_equal(world.syncs, 2);
	world.sync = EIO;
	assert_int_equal(append(l, "lost", 0, &e), -EIO);
	world.sync = 0;
	append_many(l, 2);
	(void)log_free(l);
	assert_false(log_says("lost"));
	assert_true(intact());
	assert_int_equal(check(NULL).records, 4);
}

static void without_sync_nothing_is_synced(void **state UNUSED)
{
	make_log(5, 0);
	assert_int_equal(world.syncs, 0);
}

static void one_sync_serves_all_that_were_submitted(void **state UNUSED)
{
	struct log *l = open_log(0, true);
	uint64_t ticket = 0;
	struct err e = { 0 };
	struct record r;

	record_init(&r, EVENT_SANDBOX_STOP);
	record_text(&r, "backend", "native");
	for (int i = 0; i < 1000; i++)
		assert_int_equal(log_submit(l, &r, 1, &ticket, &e), 0);
	assert_int_equal(log_wait(l, ticket, &e), 0);
	assert_int_equal(world.syncs, 1);
	(void)log_free(l);
	assert_int_equal(check(NULL).records, 1000);
}

/* Without any trick: the kernel itself refuses to let the file grow. */
static void a_file_that_may_not_grow(void **state UNUSED)
{
	struct rlimit was, tight;
	struct err e = { 0 };
	struct log *l;

	(void)signal(SIGXFSZ, SIG_IGN);
	make_log(3, 0);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
	tight = was;
	tight.rlim_cur = 1200;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
	l = open_log(0, false);
	while (append(l, "true", 0, &e) == 0)
		;
	assert_int_equal(e.code, EFBIG);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
	assert_true(intact());
	append_many(l, 2);
	(void)log_free(l);
	assert_true(intact());
}

static void a_clock_set_back_is_said_and_not_followed(void **state UNUSED)
{
	struct log *l = open_log(0, false);

	append_many(l, 2);
	world.seconds = -3600;
	append_many(l, 2);
	world.seconds = 10;
	append_many(l, 1);
	(void)log_free(l);
	assert_true(intact()); /* which looks at the times, too */
	assert_true(log_says("\"clock\":\"back\",\"type\""));
}

static void failed_tickets_are_told_apart_from_good_ones(void **state UNUSED)
{
	struct log *l = open_log(0, false);
	uint64_t good, bad, later;
	struct err e = { 0 };
	struct record r;

	record_init(&r, EVENT_SANDBOX_STOP);
	record_text(&r, "backend", "native");
	assert_int_equal(log_submit(l, &r, 1, &good, &e), 0);
	assert_int_equal(log_wait(l, good, &e), 0);
	assert_int_equal(log_submit(l, &r, 1, &bad, &e), 0);
	world.after = 0;
	world.code = EIO;
	assert_int_equal(log_wait(l, bad, &e), -EIO);
	world.after = -1;
	assert_int_equal(log_submit(l, &r, 1, &later, &e), 0);
	assert_int_equal(log_wait(l, later, &e), 0);
	assert_int_equal(log_wait(l, bad, &e), -EIO);
	assert_int_equal(log_wait(l, good, &e), 0);
	(void)log_free(l);
	assert_int_equal(check(NULL).records, 2);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, enter, leave)
	const struct CMUnitTest tests[] = {
		CASE(a_write_that_fails_is_an_error_and_leaves_no_trace),
		CASE(a_short_write_is_gone_on_with),
		CASE(a_failed_sync_acknowledges_nothing),
		CASE(without_sync_nothing_is_synced),
		CASE(one_sync_serves_all_that_were_submitted),
		CASE(a_file_that_may_not_grow),
		CASE(a_clock_set_back_is_said_and_not_followed),
		CASE(failed_tickets_are_told_apart_from_good_ones),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
