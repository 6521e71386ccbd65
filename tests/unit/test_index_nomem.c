/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_index_nomem.c - the nth allocation fails, SQLite's among them: a query then says so or
 * does without the index, but never answers with less than there is. */
#include "nomem.h"
#include "unit.h"

#include "audit/read/export.h"
#include "audit/read/query.h"

#define TRIES_MAX 20000

struct found {
	struct exporter x;
	int n;
};

static int each(void *data, const struct entry *en)
{
	struct found *f = data;

	export_entry(&f->x, en);
	f->n++;
	return f->x.out->failed ? -ENOMEM : 0;
}

/* How many are found, or -errno. */
static int ask(const char *dir, const struct filter *f, enum format format)
{
	CLEANUP(fd) int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CLEANUP(query) struct query *q = NULL;
	CLEANUP(buf) struct buf out = BUF_INIT(1 << 20);
	struct found found = { 0 };
	struct err e = { 0 };
	int r;

	export_begin(&found.x, format, &out);
	if (query_open(fd, dir, true, &q, &e) < 0)
		return -e.code;
	r = query_run(q, f, each, &found, &e);
	return r < 0 ? r : found.n;
}

static void no_memory_is_no_shorter_answer(void **state UNUSED)
{
	static const struct filter filters[] = {
		{ .limit = 0 },
		{ .limit = 20 },
		{ .types = { "a.*" }, .type_count = 1, .host = "h\"1", .limit = 20 },
	};
	char dir[PATH_MAX];
	FILE *f;

	enter_scratch(dir);
	must(chmod(dir, 0700) == 0);
	f = fopen("000001.jsonl", "w");
	must(f != NULL);
	for (int i = 1; i <= 20; i++)
		(void)fprintf(f,
			      "{\"seq\":%d,\"time\":\"2026-01-02T03:04:05Z\",\"type\":\"a.b\","
			      "\"host\":\"h\\\"1\",\"mac\":\"%d\"}\n",
			      i, i);
	must(fclose(f) == 0);
	for (size_t i = 0; i < ARRAY_LEN(filters); i++)
		for (long n = 0;; n++) {
			int r;

			assert_true(n < TRIES_MAX);
			if (n % 8 == 0)
				(void)unlink("audit.db"); /* both making and reading it */
			left = n;
			struck = false;
			r = ask(dir, &filters[i], (enum format)(n % FORMAT_COUNT));
			left = -1;
			assert_true(r == 20 || (struck && r < 0));
			if (!struck)
				break;
		}
	leave_scratch(dir);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(no_memory_is_no_shorter_answer),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
