/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_event_log.c - numbers that go on, readers at their own pace, segments that go. */
#include <fcntl.h>
#include <sys/stat.h>

#include "unit.h"

#include "base/fd.h"
#include "base/tree.h"
#include "daemon/event_log.h"

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
	cmocka_unit_test(a_listener_is_woken_until_it_leaves),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
