/* SPDX-License-Identifier: Apache-2.0 */
/* The index against logs made by hand: it only looks at lines, so their macs need not be right. */
#include "unit.h"

#include "audit/read/index.h"
#include "audit/read/query.h"
#include "base/text/cleanup.h"

struct place {
	char dir[PATH_MAX];
	int fd;
};

static int set_up(void **state)
{
	struct place *p = calloc(1, sizeof(*p));

	enter_scratch(p->dir);
	must(chmod(p->dir, 0700) == 0);
	p->fd = open(p->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*state = p;
	return p->fd < 0;
}

static int tear_down(void **state)
{
	struct place *p = *state;

	(void)close(p->fd);
	leave_scratch(p->dir);
	free(p);
	return 0;
}

/* Adds the records first..last, whose macs begin with `tag`, to a segment. */
static void append(const char *segment, int first, int last, const char *tag)
{
	FILE *f = fopen(segment, "a");

	must(f != NULL);
	for (int i = first; i <= last; i++)
		(void)fprintf(
			f,
			"{\"seq\":%d,\"time\":\"2026-01-02T03:%02d:%02d.000000Z\",\"type\":\"%s\","
			"\"run\":\"%032x\",%s,\"prev\":\"0\",\"mac\":\"%s%062d\"}\n",
			i, i / 60, i % 60, i % 2 ? "egress.deny" : "sandbox.exec", i / 4,
			i % 2 ? "\"host\":\"h.example.org\"" : "\"outcome\":\"exited\"", tag, i);
	must(fclose(f) == 0);
}

static int add(void *data, const struct entry *en)
{
	int *sum = data;

	sum[0]++;
	sum[1] = (int)en->seq;
	return 0;
}

/* How many match; *last is the number of the last. */
static int count_with(struct place *p, bool indexed, const struct filter *f, int *last)
{
	CLEANUP(query) struct query *q = NULL;
	struct err e = { 0 };
	int sum[2] = { 0 };

	assert_int_equal(query_open(p->fd, p->dir, indexed, &q, &e), 0);
	if (indexed)
		assert_null(query_unindexed(q));
	assert_int_equal(query_run(q, f, add, sum, &e), 0);
	if (last)
		*last = sum[1];
	return sum[0];
}

static int count(struct place *p, const struct filter *f, int *last)
{
	int without, n = count_with(p, true, f, last);

	assert_int_equal(count_with(p, false, f, &without), n);
	if (last && n)
		assert_int_equal(without, *last);
	return n;
}

static const struct filter all;

static void it_finds_what_was_added_since(void **state)
{
	struct place *p = *state;
	struct stat st;
	int last;

	assert_int_equal(count(p, &all, NULL), 0);
	append("000001.jsonl", 1, 10, "aa");
	assert_int_equal(count(p, &all, &last), 10);
	append("000001.jsonl", 11, 12, "aa");
	append("000002.jsonl", 13, 20, "aa");
	assert_int_equal(count(p, &all, &last), 20);
	assert_int_equal(last, 20);
	assert_int_equal(stat(INDEX_NAME, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
}

static void filters_and_limits_agree_with_a_plain_reading(void **state)
{
	static const struct {
		struct filter f;
		int n, last;
	} cases[] = {
		{ { .limit = 3 }, 3, 100 },
		{ { .limit = 1000 }, 100, 100 },
		{ { .types = { "egress.*" }, .type_count = 1 }, 50, 99 },
		{ { .types = { "egress.*" }, .type_count = 1, .limit = 2 }, 2, 99 },
		{ { .types = { "sandbox.exec", "egress.deny" }, .type_count = 2, .limit = 7 },
		  7,
		  100 },
		{ { .types = { "none" }, .type_count = 1 }, 0, 0 },
		{ { .run = "0000000000000000000000000000000a" }, 4, 43 },
		{ { .run = "0000000000000000000000000000001" }, 37, 100 },
		{ { .host = "H.example.org", .limit = 1 }, 1, 99 },
		{ { .host = "*.example.org" }, 50, 99 },
		{ { .outcome = "exited" }, 50, 100 },
		{ { .outcome = "a\"b" }, 0, 0 },
		{ { .since = INT64_C(1767322890000000) }, 11, 100 },
		{ { .until = INT64_C(1767322810000000) }, 10, 10 },
		{ { .since = INT64_C(1767322810000000), .until = INT64_C(1767322815000000) },
		  6,
		  15 },
		{ { .since = INT64_C(9767322990000000) }, 0, 0 },
		{ { .security = true, .limit = 5 }, 5, 100 },
	};
	struct place *p = *state;
	int last;

	append("000001.jsonl", 1, 100, "aa");
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		assert_int_equal(count(p, &cases[i].f, &last), cases[i].n);
		if (cases[i].n)
			assert_int_equal(last, cases[i].last);
	}
}

static void a_deleted_or_broken_index_is_made_anew(void **state)
{
	static const char *const broken[] = { "", "no database at all", NULL };
	struct place *p = *state;

	append("000001.jsonl", 1, 30, "aa");
	assert_int_equal(count(p, &all, NULL), 30);
	assert_int_equal(unlink(INDEX_NAME), 0);
	assert_int_equal(count(p, &all, NULL), 30);
	for (size_t i = 0; broken[i]; i++) {
		write_text(INDEX_NAME, broken[i]);
		assert_int_equal(count(p, &all, NULL), 30);
	}
	/* Bytes in the middle. */
	for (off_t at = 0; at < 40960; at += 512) {
		int fd = open(INDEX_NAME, O_WRONLY | O_CLOEXEC);

		assert_true(fd >= 0 && pwrite(fd, "\xff\xff\xff\xff\xff\xff\xff\xff", 8, at) == 8);
		(void)close(fd);
		assert_int_equal(count(p, &(struct filter){ .limit = 100 }, NULL), 30);
		(void)unlink(INDEX_NAME);
		assert_int_equal(count(p, &all, NULL), 30);
	}
}

static void an_index_of_another_log_is_not_believed(void **state)
{
	struct place *p = *state;
	int last;

	append("000001.jsonl", 1, 30, "aa");
	assert_int_equal(count(p, &all, NULL), 30);
	/* The same numbers at the same places, but other records. */
	assert_int_equal(unlink("000001.jsonl"), 0);
	append("000001.jsonl", 1, 30, "bb");
	append("000001.jsonl", 31, 31, "bb");
	assert_int_equal(count(p, &all, &last), 31);
	/* Older: some of its end is gone. */
	assert_int_equal(unlink("000001.jsonl"), 0);
	append("000001.jsonl", 1, 5, "bb");
	assert_int_equal(count(p, &all, &last), 5);
	assert_int_equal(last, 5);
	/* Nothing at all. */
	assert_int_equal(unlink("000001.jsonl"), 0);
	assert_int_equal(count(p, &all, NULL), 0);
}

static void what_retention_removed_is_not_found(void **state)
{
	struct place *p = *state;

	append("000001.jsonl", 1, 10, "aa");
	append("000002.jsonl", 11, 20, "aa");
	append("000003.jsonl", 21, 30, "aa");
	assert_int_equal(count(p, &all, NULL), 30);
	assert_int_equal(unlink("000001.jsonl"), 0);
	assert_int_equal(count(p, &all, NULL), 20);
	/* A segment written anew without its first records. */
	assert_int_equal(unlink("000002.jsonl"), 0);
	append("000002.jsonl", 15, 20, "aa");
	assert_int_equal(count(p, &all, NULL), 16);
	append("000003.jsonl", 31, 31, "aa");
	assert_int_equal(count(p, &all, NULL), 17);
}

static void damaged_lines_are_passed_over(void **state)
{
	struct place *p = *state;
	FILE *f;

	append("000001.jsonl", 1, 5, "aa");
	f = fopen("000001.jsonl", "a");
	assert_non_null(f);
	(void)fputs("{\"seq\":6,\n\x1b[31m\n", f);
	(void)fclose(f);
	append("000001.jsonl", 7, 9, "aa");
	f = fopen("000001.jsonl", "a");
	assert_non_null(f);
	(void)fputs("{\"seq\":10,\"time\":", f); /* being written */
	(void)fclose(f);
	assert_int_equal(count(p, &all, NULL), 8);
	assert_int_equal(count(p, &all, NULL), 8);
}

static void fill_at_once(void *arg)
{
	struct place *p = arg;
	CLEANUP(query) struct query *q = NULL;
	struct err e = { 0 };
	int sum[2] = { 0 };

	must(query_open(p->fd, p->dir, true, &q, &e) == 0);
	if (query_unindexed(q))
		(void)fprintf(stderr, "%s\n", query_unindexed(q));
	must(query_unindexed(q) == NULL);
	must(query_run(q, &all, add, sum, &e) == 0);
	must(sum[0] == 3000);
}

static void many_readers_may_fill_it_at_once(void **state)
{
	struct place *p = *state;
	pid_t pids[6];
	int status;

	append("000001.jsonl", 1, 3000, "aa");
	for (size_t i = 0; i < ARRAY_LEN(pids); i++) {
		(void)fflush(NULL);
		pids[i] = fork();
		must(pids[i] >= 0);
		if (pids[i] == 0) {
			fill_at_once(p);
			_exit(0);
		}
	}
	for (size_t i = 0; i < ARRAY_LEN(pids); i++) {
		must(waitpid(pids[i], &status, 0) == pids[i]);
		assert_int_equal(status, 0);
	}
}

static void without_a_place_for_it_everything_is_read(void **state)
{
	struct place *p = *state;
	CLEANUP(query) struct query *q = NULL;
	struct err e = { 0 };
	int sum[2] = { 0 };

	append("000001.jsonl", 1, 10, "aa");
	/* Not a file, so that root cannot write it either. */
	assert_int_equal(mkdir(INDEX_NAME, 0700), 0);
	assert_int_equal(query_open(p->fd, p->dir, true, &q, &e), 0);
	assert_non_null(query_unindexed(q));
	assert_int_equal(query_run(q, &all, add, sum, &e), 0);
	assert_int_equal(sum[0], 10);
}

static void a_run_is_found_by_its_first_digits(void **state)
{
	struct place *p = *state;
	CLEANUP(query) struct query *q = NULL;
	struct err e = { 0 };
	char id[33];

	append("000001.jsonl", 60, 70, "aa");
	assert_int_equal(query_open(p->fd, p->dir, true, &q, &e), 0);
	assert_int_equal(query_resolve_run(q, "last", id, &e), 0);
	assert_string_equal(id, "00000000000000000000000000000011");
	assert_int_equal(query_resolve_run(q, "0000000000000000000000000000000f", id, &e), 0);
	assert_int_equal(query_resolve_run(q, "00", id, &e), -EEXIST);
	assert_int_equal(query_resolve_run(q, "ff", id, &e), -ENOENT);
	assert_int_equal(query_resolve_run(q, "x", id, &e), -EINVAL);
}

#define TEST(t) cmocka_unit_test_setup_teardown(t, set_up, tear_down)

static const struct CMUnitTest tests[] = {
	TEST(it_finds_what_was_added_since),
	TEST(filters_and_limits_agree_with_a_plain_reading),
	TEST(a_deleted_or_broken_index_is_made_anew),
	TEST(an_index_of_another_log_is_not_believed),
	TEST(what_retention_removed_is_not_found),
	TEST(damaged_lines_are_passed_over),
	TEST(many_readers_may_fill_it_at_once),
	TEST(without_a_place_for_it_everything_is_read),
	TEST(a_run_is_found_by_its_first_digits),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
