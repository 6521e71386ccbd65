/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_event_log.c - numbers that go on, readers at their own pace, segments that go. */
#include <fcntl.h>
#include <sys/stat.h>

#include "unit.h"

#include "base/files/fd.h"
#include "base/files/tree.h"
#include "base/text/str.h"
#include "daemon/shared/event_log.h"

static int fresh_folder(char path[64])
{
	int fd;

	(void)snprintf(path, 64, "/tmp/brig-events.XXXXXX");
	must(mkdtemp(path) != NULL);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	must(fd >= 0);
	return fd;
}

static void remove_folder(const char *path, int fd)
{
	int above = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	must(above >= 0 && tree_remove(above, path + strlen("/tmp/")) == 0);
	(void)close(above);
	(void)close(fd);
}

static struct events *opened(int fd)
{
	struct events *ev = NULL;
	struct err e = { 0 };

	assert_int_equal(events_open(fd, &ev, &e), 0);
	return ev;
}

static uint64_t add(struct events *ev, const char *tenant, const char *sandbox, const char *data)
{
	const struct event_note n = {
		.type = "sandbox.ready", .tenant = tenant, .sandbox = sandbox, .data = data
	};

	return events_add(ev, &n);
}

static void numbers_go_on_where_an_earlier_daemon_ended(void **state)
{
	struct events_cursor at = { 0 };
	struct event_text t;
	char path[64];
	int fd = fresh_folder(path);
	struct events *ev = opened(fd);

	(void)state;
	assert_int_equal(events_last(ev), 0);
	assert_int_equal(events_oldest(ev, ""), 1);
	assert_int_equal(add(ev, "a", "sb_1", NULL), 1);
	assert_int_equal(add(ev, "b", "sb_2", "{\"x\":\n1}"), 2);
	ev = events_free(ev);
	ev = opened(fd);
	assert_int_equal(add(ev, "a", "sb_1", NULL), 3);
	assert_int_equal(events_next(ev, &at, "a", NULL, &t), 1);
	assert_int_equal(t.seq, 1);
	assert_string_equal(t.type, "sandbox.ready");
	assert_int_equal(events_next(ev, &at, "a", NULL, &t), 1);
	assert_int_equal(t.seq, 3);
	assert_int_equal(events_next(ev, &at, "a", NULL, &t), 0);
	at = (struct events_cursor){ .seq = 1 };
	assert_int_equal(events_next(ev, &at, "", "sb_2", &t), 1);
	assert_int_equal(t.seq, 2);
	assert_null(memchr(t.json, '\n', t.n));
	(void)events_free(ev);
	remove_folder(path, fd);
}

static void the_oldest_go_and_a_reader_is_told(void **state)
{
	static char data[32768];
	struct events_cursor at = { 0 }, end;
	struct event_text t;
	char path[64];
	int fd = fresh_folder(path);
	struct events *ev = opened(fd);
	uint64_t last = 0, seen = 0;

	(void)state;
	(void)snprintf(data, sizeof(data), "{\"x\":\"%0*d\"}", 32000, 0);
	for (int i = 0; i < 2400; i++)
		last = add(ev, "", "sb_1", data);
	assert_int_equal(last, 2400);
	assert_true(events_oldest(ev, "") > 1);
	assert_int_equal(events_next(ev, &at, "", NULL, &t), -ESTALE);
	end = (struct events_cursor){ .seq = events_oldest(ev, "") - 1 };
	while (events_next(ev, &end, "", NULL, &t) == 1)
		seen++;
	assert_int_equal(seen, last - events_oldest(ev, "") + 1);
	ev = events_free(ev);
	ev = opened(fd);
	assert_int_equal(events_last(ev), last);
	(void)events_free(ev);
	remove_folder(path, fd);
}

static void one_tenant_cannot_push_out_what_another_has_not_read(void **state)
{
	static char data[32768];
	struct events_cursor at = { 0 };
	struct event_text t;
	char path[64];
	int fd = fresh_folder(path), cut;
	struct events *ev = opened(fd);
	struct stat st;

	(void)state;
	assert_int_equal(add(ev, "quiet", "sb_1", NULL), 1);
	(void)snprintf(data, sizeof(data), "{\"x\":\"%0*d\"}", 32000, 0);
	for (int i = 0; i < 2400; i++)
		assert_int_equal(add(ev, "loud", "sb_2", data), i + 2);
	assert_true(events_oldest(ev, "") > 1);
	assert_true(events_oldest(ev, "loud") > events_oldest(ev, ""));
	assert_int_equal(events_next(ev, &at, "loud", NULL, &t), -ESTALE);
	for (int again = 0; again < 2; again++) {
		at = (struct events_cursor){ 0 };
		assert_int_equal(events_oldest(ev, "quiet"), 1);
		assert_int_equal(events_next(ev, &at, "quiet", NULL, &t), 1);
		assert_int_equal(t.seq, 1);
		assert_int_equal(events_next(ev, &at, "quiet", NULL, &t), 0);
		assert_int_equal(events_next(ev, &at, "nobody", NULL, &t), 0);
		(void)events_free(ev);
		ev = opened(fd);
		assert_int_equal(events_last(ev), 2401);
	}
	/* A daemon that was killed between the two logs: the next one writes the second. */
	assert_int_equal(add(ev, "quiet", "sb_3", NULL), 2402);
	(void)events_free(ev);
	cut = openat(fd, "events/tenants/quiet/00000000000000000001.log", O_WRONLY | O_CLOEXEC);
	must(cut >= 0 && fstat(cut, &st) == 0 && ftruncate(cut, st.st_size / 2) == 0);
	(void)close(cut);
	ev = opened(fd);
	assert_int_equal(events_next(ev, &at, "quiet", NULL, &t), 1);
	assert_int_equal(t.seq, 2402);
	(void)events_free(ev);
	remove_folder(path, fd);
}

/* The next one shows how many are open: the kernel gives out the lowest. */
static int next_descriptor(void)
{
	int fd = open("/", O_PATH | O_CLOEXEC);

	must(fd >= 0 && close(fd) == 0);
	return fd;
}

static void read_both(struct events *ev, const char *tenant, uint64_t first, uint64_t second)
{
	struct events_cursor at = { 0 };
	struct event_text t;

	assert_int_equal(events_next(ev, &at, tenant, NULL, &t), 1);
	assert_int_equal(t.seq, first);
	assert_int_equal(events_next(ev, &at, tenant, NULL, &t), 1);
	assert_int_equal(t.seq, second);
	assert_int_equal(events_next(ev, &at, tenant, NULL, &t), 0);
}

static void any_number_of_tenants_takes_few_descriptors(void **state)
{
	enum { TENANTS = 200, FEW = 100 };
	char path[64], name[16];
	int fd = fresh_folder(path), before = next_descriptor();
	struct events *ev = opened(fd);

	(void)state;
	for (unsigned i = 0; i < 2 * TENANTS; i++) {
		(void)snprintf(name, sizeof(name), "@t%u", i % TENANTS);
		assert_int_equal(add(ev, name, "sb_1", NULL), i + 1);
		assert_true(next_descriptor() < before + FEW);
	}
	for (int again = 0; again < 2; again++) {
		for (unsigned i = 0; i < TENANTS; i++) {
			(void)snprintf(name, sizeof(name), "@t%u", i);
			read_both(ev, name, i + 1, i + 1 + TENANTS);
		}
		assert_true(next_descriptor() < before + FEW);
		ev = events_free(ev);
		assert_int_equal(next_descriptor(), before);
		ev = opened(fd);
		assert_true(next_descriptor() < before + FEW);
	}
	(void)events_free(ev);
	remove_folder(path, fd);
}

static int heard;

static bool is_gone(void *arg, const char *tenant, uint64_t idle_s)
{
	assert_true(idle_s < 60 || str_eq(tenant, "old"));
	return str_eq(tenant, arg) || idle_s > 1000;
}

static int has_log(int fd, const char *tenant)
{
	char path[96];

	(void)snprintf(path, sizeof(path), "events/tenants/%s", tenant);
	return faccessat(fd, path, F_OK, 0) == 0;
}

static void the_log_of_a_tenant_that_is_gone_goes(void **state)
{
	const struct timespec long_ago[2] = { { .tv_sec = 1000000 }, { .tv_sec = 1000000 } };
	char path[64], name[] = "gone";
	int fd = fresh_folder(path);
	struct events *ev = opened(fd);
	struct events_cursor at = { 0 };
	struct event_text t;

	(void)state;
	assert_int_equal(add(ev, name, "one", NULL), 1);
	assert_int_equal(add(ev, "stays", "two", NULL), 2);
	assert_int_equal(add(ev, "old", "three", NULL), 3);
	must(utimensat(fd, "events/tenants/old/00000000000000000003.log", long_ago, 0) == 0);
	events_forget(ev, is_gone, name);
	assert_true(!has_log(fd, name) && !has_log(fd, "old") && has_log(fd, "stays"));
	assert_int_equal(events_next(ev, &at, name, NULL, &t), 0);
	assert_int_equal(events_next(ev, &at, "stays", NULL, &t), 1);
	assert_int_equal(t.seq, 2);
	/* The next of that name has what happens from now on. */
	assert_int_equal(add(ev, name, "four", NULL), 4);
	at = (struct events_cursor){ 0 };
	assert_int_equal(events_next(ev, &at, name, NULL, &t), 1);
	assert_int_equal(t.seq, 4);
	at = (struct events_cursor){ 0 };
	assert_int_equal(events_next(ev, &at, "", NULL, &t), 1);
	assert_int_equal(t.seq, 1); /* the owner's log keeps it */
	events_free(ev);
	remove_folder(path, fd);
}

static void news(struct events_listener *l)
{
	heard++;
	events_unlisten(l);
}

static void a_listener_is_woken_until_it_leaves(void **state)
{
	struct events_listener one = { .news = news }, two = { .news = news };
	char path[64];
	int fd = fresh_folder(path);
	struct events *ev = opened(fd);

	(void)state;
	events_listen(ev, &one);
	events_listen(ev, &two);
	(void)add(ev, "", NULL, NULL);
	(void)add(ev, "", NULL, NULL);
	assert_int_equal(heard, 2);
	events_unlisten(&one);
	(void)events_free(ev);
	remove_folder(path, fd);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(numbers_go_on_where_an_earlier_daemon_ended),
	cmocka_unit_test(the_oldest_go_and_a_reader_is_told),
	cmocka_unit_test(one_tenant_cannot_push_out_what_another_has_not_read),
	cmocka_unit_test(any_number_of_tenants_takes_few_descriptors),
	cmocka_unit_test(the_log_of_a_tenant_that_is_gone_goes),
	cmocka_unit_test(a_listener_is_woken_until_it_leaves),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
