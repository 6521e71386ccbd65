/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_buf.c - memory with a maximum: the growing buffer and the arena. */
#include "unit.h"

#include "base/text/arena.h"
#include "base/text/buf.h"

static void a_buffer_grows_and_is_always_ended(void **state UNUSED)
{
	CLEANUP(buf) struct buf b = BUF_INIT(1 << 20);

	assert_string_equal(buf_str(&b), "");
	for (size_t i = 0; i < 5000; i++) {
		buf_putc(&b, (char)('a' + i % 26));
		assert_int_equal(b.data[b.len], '\0');
	}
	buf_puts(&b, "");
	buf_add(&b, NULL, 0);
	buf_printf(&b, "%s%d", "x", 7);
	assert_int_equal(b.len, 5002);
	assert_string_equal(b.data + 5000, "x7");
	assert_false(b.failed);
}

static void a_buffer_takes_its_maximum_and_not_a_byte_more(void **state UNUSED)
{
	for (size_t max = 0; max < 600; max += 37) {
		CLEANUP(buf) struct buf b = BUF_INIT(max);

		for (size_t i = 0; i < max; i++)
			buf_putc(&b, 'x');
		assert_false(b.failed);
		assert_int_equal(b.len, max);
		buf_putc(&b, 'y');
		assert_true(b.failed);
		assert_int_equal(b.len, max);
	}
}

static void past_the_maximum_nothing_is_added_any_more(void **state UNUSED)
{
	CLEANUP(buf) struct buf b = BUF_INIT(10);

	buf_puts(&b, "12345");
	buf_printf(&b, "%s", "6789AB");
	assert_true(b.failed);
	buf_putc(&b, 'x');
	assert_string_equal(buf_str(&b), "12345");
	assert_null(buf_take(&b));
	assert_false(b.failed);
	buf_puts(&b, "again");
	assert_string_equal(buf_str(&b), "again");
}

static void a_word_is_quoted_where_a_shell_would_read_more_into_it(void **state UNUSED)
{
	static const char *const words[][2] = { { "--policy=a,b:c", "--policy=a,b:c" },
						{ "", "''" },
						{ "a b", "'a b'" },
						{ "$HOME", "'$HOME'" },
						{ "it's", "'it'\\''s'" } };

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		CLEANUP(buf) struct buf b = BUF_INIT(100);

		buf_put_word(&b, words[i][0]);
		assert_string_equal(buf_str(&b), words[i][1]);
	}
}

static void a_length_that_overflows_is_refused(void **state UNUSED)
{
	CLEANUP(buf) struct buf b = BUF_INIT(100);

	buf_puts(&b, "abc");
	buf_add(&b, "x", SIZE_MAX);
	assert_true(b.failed);
	assert_string_equal(buf_str(&b), "abc");
}

static void what_is_taken_belongs_to_the_taker(void **state UNUSED)
{
	struct buf b = BUF_INIT(100);
	char *p;

	buf_add(&b, "a\0b", 3);
	p = buf_take(&b);
	assert_memory_equal(p, "a\0b", 4);
	free(p);
	p = buf_take(&b);
	assert_string_equal(p, "");
	free(p);
	buf_done(&b);
	buf_done(&b);
}

static void an_arena_gives_zeroed_and_aligned_memory(void **state UNUSED)
{
	CLEANUP(arena) struct arena *a = arena_new(1 << 20);

	for (size_t n = 0; n < 3000; n += 13) {
		char *p = arena_alloc(a, n);

		assert_non_null(p);
		assert_int_equal((uintptr_t)p % _Alignof(max_align_t), 0);
		for (size_t i = 0; i < n; i++)
			assert_int_equal(p[i], 0);
		memset(p, 0xff, n);
	}
}

static void an_arena_ends_at_its_maximum(void **state UNUSED)
{
	CLEANUP(arena) struct arena *a = arena_new(65536);
	size_t got = 0;

	while (arena_alloc(a, 1000))
		got += 1000;
	assert_true(got > 32768 && got <= 65536);
	assert_null(arena_alloc(a, 65536));
}

static void one_piece_may_be_as_large_as_the_arena(void **state UNUSED)
{
	CLEANUP(arena) struct arena *a = arena_new(100000);
	char *p = arena_alloc(a, 100000);

	assert_non_null(p);
	p[99999] = 1;
	assert_null(arena_alloc(a, 1));
	assert_null(arena_alloc(a, 100000));
}

static void absurd_sizes_are_refused_by_an_arena(void **state UNUSED)
{
	CLEANUP(arena) struct arena *a = arena_new(SIZE_MAX);
	static const size_t absurd[] = { SIZE_MAX, SIZE_MAX - 1, SIZE_MAX - 15, SIZE_MAX / 2 + 1 };

	for (size_t i = 0; i < ARRAY_LEN(absurd); i++)
		assert_null(arena_alloc(a, absurd[i]));
	assert_non_null(arena_alloc(a, 1));
}

static void texts_are_copied_whole(void **state UNUSED)
{
	CLEANUP(arena) struct arena *a = arena_new(1 << 20);
	char longer[20000];

	memset(longer, 'q', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	assert_string_equal(arena_strdup(a, ""), "");
	assert_string_equal(arena_strndup(a, "abcdef", 3), "abc");
	assert_string_equal(arena_printf(a, "%s-%d", "x", -1), "x--1");
	assert_string_equal(arena_printf(a, "%s", longer), longer);
	assert_string_equal(arena_strdup(a, longer), longer);
}

static void a_list_keeps_its_elements_while_it_grows(void **state UNUSED)
{
	CLEANUP(arena) struct arena *a = arena_new(1 << 20);
	uint64_t *v = NULL;
	size_t n = 0;

	for (uint64_t i = 0; i < 1000; i++) {
		uint64_t *slot = ARENA_PUSH(a, v, n);

		assert_non_null(slot);
		assert_int_equal(*slot, 0);
		*slot = i * i;
	}
	assert_int_equal(n, 1000);
	for (uint64_t i = 0; i < 1000; i++)
		assert_int_equal(v[i], i * i);
}

static void a_list_that_cannot_grow_stays_as_it_was(void **state UNUSED)
{
	CLEANUP(arena) struct arena *a = arena_new(16384);
	uint64_t *v = NULL;
	size_t n = 0, before;

	while (ARENA_PUSH(a, v, n))
		v[n - 1] = n;
	before = n;
	assert_null(ARENA_PUSH(a, v, n));
	assert_int_equal(n, before);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(v[i], i + 1);
}

static void freeing_nothing_is_allowed(void **state UNUSED)
{
	assert_null(arena_free(NULL));
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_buffer_grows_and_is_always_ended),
	cmocka_unit_test(a_buffer_takes_its_maximum_and_not_a_byte_more),
	cmocka_unit_test(past_the_maximum_nothing_is_added_any_more),
	cmocka_unit_test(a_word_is_quoted_where_a_shell_would_read_more_into_it),
	cmocka_unit_test(a_length_that_overflows_is_refused),
	cmocka_unit_test(what_is_taken_belongs_to_the_taker),
	cmocka_unit_test(an_arena_gives_zeroed_and_aligned_memory),
	cmocka_unit_test(an_arena_ends_at_its_maximum),
	cmocka_unit_test(one_piece_may_be_as_large_as_the_arena),
	cmocka_unit_test(absurd_sizes_are_refused_by_an_arena),
	cmocka_unit_test(texts_are_copied_whole),
	cmocka_unit_test(a_list_keeps_its_elements_while_it_grows),
	cmocka_unit_test(a_list_that_cannot_grow_stays_as_it_was),
	cmocka_unit_test(freeing_nothing_is_allowed),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
