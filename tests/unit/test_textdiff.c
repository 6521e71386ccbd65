/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_textdiff.c - what the differ says puts the second text in place of the first, as patch
 * of Debian reads it; it says no more than diff does; hostile texts take no more than their time.
 */
#include "unit.h"

#include <time.h>

#include "base/files/fd.h"
#include "workspace/textdiff.h"

static char top[PATH_MAX];

static int enter(void **state UNUSED)
{
	enter_scratch(top);
	return 0;
}

static int leave(void **state UNUSED)
{
	leave_scratch(top);
	return 0;
}

static unsigned seed = 7;

static unsigned some(unsigned n)
{
	seed = seed * 1103515245 + 12345;
	return (seed >> 16) % n;
}

/* Lines of few words, so that many are equal. */
static void random_text(struct buf *b, unsigned lines, unsigned words)
{
	for (unsigned i = 0; i < lines; i++)
		buf_printf(b, "line %u%s", some(words), i + 1 < lines || some(4) ? "\n" : "");
}

/* The same, with some lines changed, taken away or added. */
static void random_edit(const struct buf *a, struct buf *b, unsigned words)
{
	for (const char *at = buf_str(a); *at;) {
		size_t n = strcspn(at, "\n");
		unsigned dice = some(12);

		n += at[n] == '\n';
		if (dice == 0)
			buf_printf(b, "other %u\n", some(words));
		if (dice > 1)
			buf_add(b, at, n);
		at += n;
	}
}

static void write_buf(const char *path, const struct buf *b)
{
	CLEANUP(fd) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	must(fd >= 0 && fd_write_all(fd, buf_str(b), b->len) == 0);
}

static struct textdiff_side side_of(const struct buf *b)
{
	return (struct textdiff_side){ buf_str(b), b->len };
}

static uint64_t lines_of_diff(void)
{
	FILE *f = popen("diff -u a b | tail -n +3 | grep -c '^[-+]'", "r"); /* NOLINT */
	unsigned long n = 0;

	must(f != NULL && fscanf(f, "%lu", &n) == 1);
	(void)pclose(f);
	return n;
}

static void patch_takes_it(unsigned lines, unsigned words, bool edit)
{
	struct buf a = BUF_INIT(TEXTDIFF_BYTES), b = BUF_INIT(TEXTDIFF_BYTES);
	struct buf out = BUF_INIT(4 * (size_t)TEXTDIFF_BYTES);
	struct textdiff_count count;

	random_text(&a, lines, words);
	if (edit)
		random_edit(&a, &b, words);
	else
		random_text(&b, lines, words);
	buf_puts(&out, "--- a\n+++ b\n");
	assert_int_equal(textdiff(side_of(&a), side_of(&b), &out, &count), TEXTDIFF_TEXT);
	write_buf("a", &a);
	write_buf("b", &b);
	write_buf("p", &out);
	assert_int_equal(system("cp a c && { cmp -s a b || patch -s c p; } && cmp -s b c"), 0);
	assert_true(count.added + count.removed <= lines_of_diff());
	buf_done(&a);
	buf_done(&b);
	buf_done(&out);
}

static void patch_makes_the_second_text_of_it(void **state UNUSED)
{
	for (unsigned i = 0; i < 12; i++) {
		patch_takes_it(1 + some(60), 2 + some(8), false);
		patch_takes_it(1 + some(300), 2 + some(400), true);
	}
	patch_takes_it(3000, 2000, true);
}

static void diff_is(const char *a, const char *b, const char *want)
{
	struct buf out = BUF_INIT(4096);
	struct textdiff_count count;

	assert_int_equal(textdiff((struct textdiff_side){ a, strlen(a) },
				  (struct textdiff_side){ b, strlen(b) }, &out, &count),
			 TEXTDIFF_TEXT);
	assert_string_equal(buf_str(&out), want);
	buf_done(&out);
}

static void it_is_written_as_unified_text(void **state UNUSED)
{
	diff_is("", "", "");
	diff_is("a\n", "a\n", "");
	diff_is("", "a\nb\n", "@@ -0,0 +1,2 @@\n+a\n+b\n");
	diff_is("a\n", "", "@@ -1 +0,0 @@\n-a\n");
	diff_is("a\nb\nc\n", "a\nx\nc\n", "@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n");
	diff_is("a", "a\n", "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n");
	diff_is("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "x\n2\n3\n4\n5\n6\n7\n8\ny\n",
		"@@ -1,4 +1,4 @@\n-1\n+x\n 2\n 3\n 4\n@@ -6,4 +6,4 @@\n 6\n 7\n 8\n-9\n+y\n");
}

static void what_is_no_text_or_too_large_is_said(void **state UNUSED)
{
	CLEANUP(mem) char *large = malloc(TEXTDIFF_BYTES + 1);
	struct textdiff_side none = { "", 0 };
	struct textdiff_count count;

	must(large != NULL);
	memset(large, 'x', TEXTDIFF_BYTES + 1);
	assert_int_equal(textdiff((struct textdiff_side){ "a\0b", 3 }, none, NULL, &count),
			 TEXTDIFF_BINARY);
	assert_int_equal(
		textdiff((struct textdiff_side){ large, TEXTDIFF_BYTES + 1 }, none, NULL, &count),
		TEXTDIFF_LARGE);
	assert_int_equal(
		textdiff((struct textdiff_side){ large, TEXTDIFF_BYTES }, none, NULL, &count),
		TEXTDIFF_TEXT);
	memset(large, '\n', TEXTDIFF_LINES + 1);
	assert_int_equal(
		textdiff((struct textdiff_side){ large, TEXTDIFF_LINES + 1 }, none, NULL, &count),
		TEXTDIFF_LARGE);
	assert_int_equal(
		textdiff((struct textdiff_side){ large, TEXTDIFF_LINES }, none, NULL, &count),
		TEXTDIFF_TEXT);
}

/* Two long texts of few different lines, in no order: the longest way there is. */
static void hostile_texts_do_not_take_long(void **state UNUSED)
{
	struct buf a = BUF_INIT(TEXTDIFF_BYTES), b = BUF_INIT(TEXTDIFF_BYTES);
	struct textdiff_count count;
	clock_t began = clock();

	for (unsigned i = 0; i < TEXTDIFF_LINES; i++) {
		buf_printf(&a, "%u\n", some(40));
		buf_printf(&b, "%u\n", some(40));
	}
	assert_int_equal(textdiff(side_of(&a), side_of(&b), NULL, &count), TEXTDIFF_TEXT);
	/* Without a bound it is minutes with the sanitizers; CPU time, not the clock's. */
	assert_true((clock() - began) / CLOCKS_PER_SEC < 8);
	buf_done(&a);
	buf_done(&b);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup_teardown(patch_makes_the_second_text_of_it, enter, leave),
	cmocka_unit_test(it_is_written_as_unified_text),
	cmocka_unit_test(what_is_no_text_or_too_large_is_said),
	cmocka_unit_test(hostile_texts_do_not_take_long),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
