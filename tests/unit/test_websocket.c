/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of a client, as the door reads them, and what it writes; those of a server are in
 * test_kube.c. */
#include "unit.h"

#include "wire/websocket.h"

static const unsigned char mask[4] = { 0x37, 0xfa, 0x21, 0x3d };

/* Reads it `step` bytes at a time: data between < and >, control as [kind]. */
static bool reads(const char *bytes, size_t n, size_t step, struct buf *out)
{
	struct ws_reader r = { .masked = true };
	char copy[70100];

	assert_true(n <= sizeof(copy));
	memcpy(copy, bytes, n);
	for (size_t at = 0; at < n;) {
		size_t show = n - at < step ? n - at : step;
		struct ws_piece piece;
		ssize_t took = ws_read(&r, copy + at, show, &piece);

		if (took < 0)
			return false;
		assert_true(took > 0 && (size_t)took <= show);
		at += (size_t)took;
		if (piece.begins)
			buf_puts(out, piece.type == WS_TEXT ? "t<" : "b<");
		if (piece.kind != WS_NOTHING && piece.kind != WS_DATA)
			buf_printf(out, "[%d ", (int)piece.kind);
		if (piece.n)
			buf_add(out, piece.p, piece.n);
		if (piece.kind != WS_NOTHING && piece.kind != WS_DATA)
			buf_putc(out, ']');
		if (piece.ends)
			buf_putc(out, '>');
	}
	return true;
}

static void says(const char *bytes, size_t n, const char *want)
{
	for (size_t step = 1; step <= n; step++) {
		CLEANUP(buf) struct buf out = BUF_INIT(4096);

		assert_true(reads(bytes, n, step, &out));
		assert_string_equal(buf_str(&out), want);
	}
}

static void the_example_of_the_rfc_is_read_however_it_is_cut(void **state UNUSED)
{
	says("\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58", 11, "t<Hello>");
}

static void a_message_is_one_over_fragments_and_control(void **state UNUSED)
{
	CLEANUP(buf) struct buf b = BUF_INIT(4096);

	ws_put_frame(&b, WS_TEXT, false, "one", 3, mask);
	ws_put_frame(&b, WS_PING, true, "p", 1, mask);
	ws_put_frame(&b, WS_MORE, false, NULL, 0, mask);
	ws_put_frame(&b, WS_MORE, true, "two", 3, mask);
	ws_put_frame(&b, WS_BINARY, true, NULL, 0, mask);
	says(b.data, b.len, "t<one[2 p]two>b<>");
}

static void what_is_no_frame_of_a_client_is_refused(void **state UNUSED)
{
	static const struct {
		const char *p;
		size_t n;
	} bad[] = {
		{ "\x81\x05Hello", 7 },                         /* not masked */
		{ "\xc1\x80\0\0\0\0", 6 },                      /* compressed */
		{ "\xa1\x80\0\0\0\0", 6 },                      /* reserved bits */
		{ "\x91\x80\0\0\0\0", 6 },                      /* and codes */
		{ "\x83\x80\0\0\0\0", 6 },                      /* more of them */
		{ "\x8b\x80\0\0\0\0", 6 },                      /* of control */
		{ "\x80\x80\0\0\0\0", 6 },                      /* goes on with nothing */
		{ "\x09\x80\0\0\0\0", 6 },                      /* control in pieces */
		{ "\x89\xfe\0\x7e\0\0\0\0", 8 },                /* too long for it */
		{ "\x81\xfe\0\x01\0\0\0\0a", 9 },               /* not the shortest length */
		{ "\x82\xff\0\0\0\0\0\0\xff\xff\0\0\0\0", 14 }, /* likewise */
		{ "\x82\xff\x80\0\0\0\0\0\0\0\0\0\0\0", 14 },   /* beyond what a length can be */
		{ "\x88\x81\0\0\0\0x", 7 },                     /* half of a code */
		{ "\x01\x80\0\0\0\0\x01\x80\0\0\0\0", 12 },     /* a second beginning */
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		for (size_t step = 1; step <= bad[i].n; step++) {
			CLEANUP(buf) struct buf out = BUF_INIT(4096);

			if (reads(bad[i].p, bad[i].n, step, &out))
				fail_msg("frame %zu is read", i);
		}
}

static void a_server_writes_without_a_mask(void **state UNUSED)
{
	CLEANUP(buf) struct buf b = BUF_INIT(80000), out = BUF_INIT(80000);
	static char much[70000];

	ws_put_frame(&b, WS_TEXT, true, "Hello", 5, NULL);
	assert_int_equal(b.len, 7);
	assert_memory_equal(b.data, "\x81\x05Hello", 7);
	assert_false(reads(b.data, b.len, b.len, &out));
	b.len = 0;
	memset(much, 'x', sizeof(much));
	ws_put_frame(&b, WS_BINARY, true, much, sizeof(much), mask);
	assert_int_equal(b.len, sizeof(much) + 14);
	assert_true(reads(b.data, b.len, 1000, &out));
	assert_int_equal(out.len, sizeof(much) + 3);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(the_example_of_the_rfc_is_read_however_it_is_cut),
	cmocka_unit_test(a_message_is_one_over_fragments_and_control),
	cmocka_unit_test(what_is_no_frame_of_a_client_is_refused),
	cmocka_unit_test(a_server_writes_without_a_mask),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
