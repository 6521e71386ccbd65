/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "apps/batch/batch_internal.h"
#include "base/files/fd.h"
#include "base/text/buf.h"
#include "unit.h"

static void end_line(struct batch_ledger *l, uint64_t index, const char *text)
{
	CLEANUP(buf) struct buf object = BUF_INIT(64);

	buf_puts(&object, text);
	batch_ledger_end(l, index, 1, "exited", false, &object);
}

static void text_of(const char *folder, const char *name, char *out, size_t size)
{
	char path[128];
	ssize_t n;

	(void)snprintf(path, sizeof(path), "%s/%s", folder, name);
	n = fd_read_file(AT_FDCWD, path, out, size);
	assert_true(n >= 0);
}

/* A disk that was full for a moment: the ledger must not say of a result that it is there. */
static void after_a_failed_write_nothing_follows(void **state UNUSED)
{
	char folder[] = "/tmp/brig-batch-XXXXXX", path[64], text[4096];
	struct err e = { 0 };
	CLEANUP(spec) struct spec *s = spec_new(&e);
	struct batch_options o = { .spec = s, .text = "x", .size = 1 };
	struct batch_known known[4] = { 0 };
	struct batch_ledger l;
	int results;

	assert_non_null(mkdtemp(folder));
	(void)snprintf(path, sizeof(path), "%s/out", folder);
	o.out = path;
	assert_int_equal(batch_ledger_open(&o, 4, known, &l, &e), 0);
	end_line(&l, 0, "{\"n\":1}");
	assert_int_equal(batch_ledger_commit(&l, &e), 0);
	/* The control: what was written is in both. */
	text_of(path, "ledger.jsonl", text, sizeof(text));
	assert_non_null(strstr(text, "{\"end\":1,"));

	results = l.results;
	l.results = open("/dev/full", O_WRONLY | O_CLOEXEC);
	assert_true(l.results >= 0);
	end_line(&l, 1, "{\"n\":2}");
	assert_true(batch_ledger_commit(&l, &e) < 0);
	(void)fd_close(l.results);
	l.results = results;
	end_line(&l, 2, "{\"n\":3}");
	assert_true(batch_ledger_commit(&l, &e) < 0);
	batch_ledger_done(&l);

	text_of(path, "ledger.jsonl", text, sizeof(text));
	assert_null(strstr(text, "{\"end\":2,"));
	assert_null(strstr(text, "{\"end\":3,"));
	text_of(path, "results.jsonl", text, sizeof(text));
	assert_string_equal(text, "{\"n\":1}\n");
	/* Who goes on with it knows of the first alone. */
	o.resume = true;
	e = (struct err){ 0 };
	assert_int_equal(batch_ledger_open(&o, 4, known, &l, &e), 0);
	assert_true(known[0].ended && !known[1].ended && !known[2].ended);
	batch_ledger_done(&l);
	(void)snprintf(text, sizeof(text), "%s/ledger.jsonl", path);
	(void)unlink(text);
	(void)snprintf(text, sizeof(text), "%s/results.jsonl", path);
	(void)unlink(text);
	assert_int_equal(rmdir(path) | rmdir(folder), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(after_a_failed_write_nothing_follows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
