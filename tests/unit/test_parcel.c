/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_parcel.c - what is written is read; anything less, more or other is not. */
#include "unit.h"

#include "base/bytes/parcel.h"

#define MARK "test 1"

struct sample {
	uint64_t number;
	bool flag;
	int word;
	const char *text;
	const char **list;
	size_t listed;
	const char *bytes;
	size_t n;
};

static void fields_of(struct parcel *p, struct sample *s)
{
	parcel_number(p, &s->number);
	parcel_flag(p, &s->flag);
	parcel_word(p, &s->word, 3);
	parcel_text(p, &s->text);
	s->list = parcel_texts(p, s->list, &s->listed);
	parcel_bytes(p, &s->bytes, &s->n);
}

static void write_sample(struct buf *b)
{
	const char *list[] = { "a", "", "c\nd" };
	struct sample s = { .number = UINT64_MAX,
			    .flag = true,
			    .word = 3,
			    .text = "text",
			    .list = list,
			    .listed = 3,
			    .bytes = "x\0y",
			    .n = 3 };
	struct parcel p = parcel_to(b, MARK);

	fields_of(&p, &s);
	assert_false(b->failed);
}

static void assert_sample(const struct sample *s)
{
	assert_true(s->number == UINT64_MAX && s->flag && s->word == 3);
	assert_string_equal(s->text, "text");
	assert_int_equal(s->listed, 3);
	assert_string_equal(s->list[2], "c\nd");
	assert_null(s->list[3]);
	assert_int_equal(s->n, 3);
	assert_memory_equal(s->bytes, "x\0y", 4);
}

static void what_is_written_is_read_in_place(void **state UNUSED)
{
	CLEANUP(buf) struct buf b = BUF_INIT(4096);
	const char *room[4];
	struct sample s = { 0 };
	struct parcel p;

	write_sample(&b);
	p = parcel_from(b.data, b.len, MARK);
	p.room = (char *)room;
	p.left = sizeof(room);
	fields_of(&p, &s);
	assert_true(parcel_whole(&p));
	assert_sample(&s);
	assert_true(s.text > b.data && s.text < b.data + b.len);
}

static void a_copy_outlives_what_was_read(void **state UNUSED)
{
	CLEANUP(arena) struct arena *a = arena_new(1 << 16);
	CLEANUP(buf) struct buf b = BUF_INIT(4096);
	struct sample s = { 0 };
	struct parcel p;

	write_sample(&b);
	p = parcel_from(b.data, b.len, MARK);
	p.arena = a;
	p.copy = true;
	fields_of(&p, &s);
	assert_true(parcel_whole(&p));
	assert_sample(&s);
	memset(b.data, 'z', b.len);
	assert_string_equal(s.text, "text");
	assert_string_equal(s.list[0], "a");
}

static bool reads(const char *data, size_t n, const char *mark, size_t words)
{
	const char *room[8];
	struct sample s = { 0 };
	struct parcel p = parcel_from(data, n, mark);

	p.room = (char *)room;
	p.left = words * sizeof(*room);
	fields_of(&p, &s);
	return parcel_whole(&p);
}

static void nothing_else_is_read(void **state UNUSED)
{
	CLEANUP(buf) struct buf b = BUF_INIT(4096);
	size_t n;

	write_sample(&b);
	n = b.len;
	for (size_t cut = 0; cut < n; cut++)
		assert_false(reads(b.data, cut, MARK, 4));
	assert_false(reads(b.data, n, "test 2", 4));
	assert_false(reads(b.data, n, MARK, 3)); /* no room for the list and its end */
	buf_putc(&b, '\0');
	assert_false(reads(b.data, n + 1, MARK, 4));
	assert_true(reads(b.data, n, MARK, 4));
}

/* Whichever byte is changed, it is refused or read within its bounds. */
static void no_byte_leads_astray(void **state UNUSED)
{
	CLEANUP(buf) struct buf b = BUF_INIT(4096);

	write_sample(&b);
	for (size_t i = 0; i < b.len; i++)
		for (int bit = 0; bit < 8; bit++) {
			b.data[i] = (char)(b.data[i] ^ 1 << bit);
			(void)reads(b.data, b.len, MARK, 8);
			b.data[i] = (char)(b.data[i] ^ 1 << bit);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read_in_place),
		cmocka_unit_test(a_copy_outlives_what_was_read),
		cmocka_unit_test(nothing_else_is_read),
		cmocka_unit_test(no_byte_leads_astray),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
