/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_vtfilter.c - the terminal filter against known attacks, at every place a read may cut
 * them. The invariants for arbitrary bytes are the fuzz target's; they are tried here with noise.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../fuzz/fuzz_vtfilter.c"

#define NOISE_ROUNDS 3000
#define NOISE_BYTES 400

struct sample {
	const char *in, *out;
};

/* Filters in two calls, cut at `at`. */
static size_t filter_cut(const char *in, size_t n, size_t at, char *out)
{
	struct vtfilter f;
	size_t done;

	vtfilter_init(&f);
	done = vtfilter_run(&f, in, at, out);
	done += vtfilter_run(&f, in + at, n - at, out + done);
	return done + vtfilter_flush(&f, out + done);
}

static void expect(const struct sample *samples, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct sample *s = &samples[i];
		size_t n = strlen(s->in);
		char out[1024];

		assert_true(n + 2 * VTFILTER_SLACK < sizeof(out));
		for (size_t at = 0; at <= n; at++) {
			out[filter_cut(s->in, n, at, out)] = '\0';
			assert_string_equal(out, s->out);
		}
		out[filter_in_steps(s->in, n, 1, out)] = '\0';
		assert_string_equal(out, s->out);
		out[filter_cut(s->out, strlen(s->out), 0, out)] = '\0';
		assert_string_equal(out, s->out);
	}
}
#define EXPECT(samples) expect((samples), sizeof(samples) / sizeof(*(samples)))

static void text_colour_and_cursor_pass(void **state)
{
	static const struct sample samples[] = {
		{ "plain text\r\n\ttab\b\a\f", "plain text\r\n\ttab\b\a\f" },
		{ "gr\xc3\xbc\xc3\x9f"
		  "e \xe2\x9c\x93 \xf0\x9f\x9a\xa2",
		  "gr\xc3\xbc\xc3\x9f"
		  "e \xe2\x9c\x93 \xf0\x9f\x9a\xa2" },
		{ "\x1b[1;31mred\x1b[0m\x1b[m", "\x1b[1;31mred\x1b[0m\x1b[m" },
		{ "\x1b[38;5;208mx\x1b[4:3mx", "\x1b[38;5;208mx\x1b[4:3mx\x1b[0m" },
		{ "50%\r\x1b[K51%\x1b[2A\x1b[10;20H\x1b[2J\x1b[3G",
		  "50%\r\x1b[K51%\x1b[2A\x1b[10;20H\x1b[2J\x1b[3G" },
		{ "\x1b[?25lbusy\x1b[?25h", "\x1b[?25lbusy\x1b[?25h" },
		{ "\xc2\xa0\xdf\xbf\xe0\xa0\x80\xef\xbf\xbd\xf4\x8f\xbf\xbf",
		  "\xc2\xa0\xdf\xbf\xe0\xa0\x80\xef\xbf\xbd\xf4\x8f\xbf\xbf" },
	};

	(void)state;
	EXPECT(samples);
}

/* Whoever speaks next must not speak in the command's colours, nor to a hidden cursor. */
static void what_the_command_left_on_is_undone(void **state)
{
	static const struct sample samples[] = {
		{ "a\x1b[8m", "a\x1b[8m\x1b[0m" },
		{ "a\x1b[8m\x1b[30;40mb", "a\x1b[8m\x1b[30;40mb\x1b[0m" },
		{ "a\x1b[0;8m", "a\x1b[0;8m\x1b[0m" },
		{ "a\x1b[8m\x1b[0m", "a\x1b[8m\x1b[0m" },
		{ "a\x1b[8m\x1b[", "a\x1b[8m\x1b[0m" },
		{ "a\x1b[8m\x1b[0", "a\x1b[8m\x1b[0m" },
		{ "a\x1b[8m\x1b]0;t", "a\x1b[8m\x1b[0m" },
		{ "a\x1b[8m\xc3", "a\x1b[8m?\x1b[0m" },
		{ "\x1b[?25la", "\x1b[?25la\x1b[?25h" },
		{ "\x1b[?25l\x1b[8m", "\x1b[?25l\x1b[8m\x1b[0m\x1b[?25h" },
		{ "\x1b[8m\x1b[?25l\x1b[m\x1b[?25ha", "\x1b[8m\x1b[?25l\x1b[m\x1b[?25ha" },
	};

	(void)state;
	EXPECT(samples);
}

static void where_the_cursor_is_left_is_known(void **state)
{
	static const struct {
		const char *in;
		bool mid_line, moved;
	} samples[] = {
		{ "a\n", false, false },         { "a", true, false },
		{ "a\n\x1b[31m", false, false }, { "a\nb\r", true, false },
		{ "a\n\x1b[A", false, true },    { "\xc3\xbc", true, false },
		{ "a\n\x1b[2J", false, true },   { "", false, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(samples) / sizeof(*samples); i++) {
		struct vtfilter f;
		char out[256];

		vtfilter_init(&f);
		(void)vtfilter_run(&f, samples[i].in, strlen(samples[i].in), out);
		(void)vtfilter_flush(&f, out);
		assert_int_equal(f.mid_line, samples[i].mid_line);
		assert_int_equal(f.moved, samples[i].moved);
	}
}

static void clipboard_links_and_titles_are_dropped_whole(void **state)
{
	static const struct sample samples[] = {
		{ "a\x1b]52;c;cm0gLXJmIC8=\ab", "ab" },
		{ "a\x1b]52;c;cm0gLXJmIC8=\x1b\\b", "ab" },
		{ "a\x1b]52;c;cm0gLXJmIC8=\x9c"
		  "b",
		  "ab" },
		{ "a\x1b]2;t\xc3\xa9\xe2\x9c\x9ct\xc2\x9c"
		  "b",
		  "ab" },
		{ "\x1b]8;;http://evil.test/\x1b\\click\x1b]8;;\x1b\\", "click" },
		{ "a\x1b]0;title\ab\x1bktitle\x1b\\c", "abc" },
		{ "a\x1bP+q544e\x1b\\b\x1bP$qm\x1b\\c", "abc" },
		{ "a\x1b_Gi=1;AAAA\x1b\\b\x1b^pm\x1b\\c\x1bXsos\x1b\\d", "abcd" },
		{ "a\x1b]0;x\x1b[31mred", "a\x1b[31mred\x1b[0m" },
		{ "a\x1b]0;x\x1b]0;y\ab", "ab" },
		{ "a\x1b]0;cancelled\x18"
		  "b\x1bPz\x1a"
		  "c",
		  "abc" },
		{ "a\x1b]never ends", "a" },
	};

	(void)state;
	EXPECT(samples);
}

static void reports_and_modes_are_dropped(void **state)
{
	static const struct sample samples[] = {
		{ "a\x1b[6nb\x1b[5nc\x1b[cd\x1b[>ce\x1b[=cf", "abcdef" },
		{ "a\x1b[21tb\x1b[20tc\x1b[8;50;100td", "abcd" },
		{ "a\x1b[200~b\x1b[201~c", "abc" },
		{ "a\x1b[?1049hb\x1b[?2004hc\x1b[?1000hd\x1b[?25;1049he", "abcde" },
		{ "a\x1b[>4;2mb\x1b[?4mc", "abc" },
		{ "a\x1b[1$xb\x1b[ qc\x1b[!pd\x1b[4ie", "abcde" },
		{ "a\x1b[3Jb\x1b[;3Jc\x1b[03Jd", "abcd" },
		{ "a\x1b[Sb\x1b[Tc\x1b[2;5rd\x1b[sf", "abcdf" },
		{ "a\x1b["
		  "1000000000000000000000000000000000000000000000000000000000000000000000000mb",
		  "ab" },
		{ "\x1b[38;2;255;128;255;48;2;1;2;3mb",
		  "\x1b[38;2;255;128;255;48;2;1;2;3mb\x1b[0m" },
		{ "a\x1b[3\n1mb", "a\n1mb" },
		{ "a\x1b[3\x1b[4mb", "a\x1b[4mb\x1b[0m" },
	};

	(void)state;
	EXPECT(samples);
}

static void other_controls_are_dropped(void **state)
{
	static const struct sample samples[] = {
		{ "a\x05"
		  "b\x0e"
		  "c\x0f"
		  "d\x7f"
		  "e\x0b"
		  "f\x1c",
		  "abcdef" },
		{ "a\x1b"
		  "cb\x1b(0c\x1b)Bd\x1b#8e\x1b%Gf\x1b=g\x1b"
		  "7h",
		  "abcdefgh" },
		{ "a\x1bNb\x1bOc\x1b\\d\x1b\x1b\x1b", "abcd" },
		{ "a\x1b\n\x1b\xc3\xa9", "a\n\xc3\xa9" },
		{ "a\x9b"
		  "31mb\x9d"
		  "0;t\ac\x85"
		  "d\x90"
		  "e",
		  "a31mb0;t\acde" },
		{ "a\xc2\x9b"
		  "31mb\xc2\x85"
		  "c",
		  "a31mbc" },
	};
	char out[32];

	(void)state;
	EXPECT(samples);
	assert_int_equal(filter_cut("a\0b", 3, 1, out), 2);
	assert_memory_equal(out, "ab", 2);
}

static void bidi_overrides_are_dropped_and_marks_stay(void **state)
{
	static const struct sample samples[] = {
		{ "a\xe2\x80\xaa\xe2\x80\xab\xe2\x80\xac\xe2\x80\xad\xe2\x80\xae"
		  "b",
		  "ab" },
		{ "a\xe2\x81\xa6\xe2\x81\xa7\xe2\x81\xa8\xe2\x81\xa9"
		  "b",
		  "ab" },
		{ "\xe2\x80\xa9\xe2\x80\xaf\xe2\x81\xa5\xe2\x81\xaa",
		  "\xe2\x80\xa9\xe2\x80\xaf\xe2\x81\xa5\xe2\x81\xaa" },
		{ "\xe2\x80\x8f\xd7\x90", "\xe2\x80\x8f\xd7\x90" },
	};

	(void)state;
	EXPECT(samples);
}

static void each_byte_that_is_not_utf8_becomes_a_question_mark(void **state)
{
	static const struct sample samples[] = {
		{ "a\xff"
		  "b\xa0"
		  "c\xc0"
		  "d\xf5",
		  "a?b?c?d?" },
		{ "a\xe2\x9c"
		  "b\xf0\x9f\x9a",
		  "a??b???" },
		{ "\xed\xa0\x80|\xe0\x80\x9b|\xf4\x90\x80\x80|", "???|???|????|" },
		{ "\xe2\x80\x1b[31m\xc3\x1b]0;t\a\xc3", "??\x1b[31m??\x1b[0m" },
		{ "\xe2\x9d"
		  "52;c;text",
		  "??52;c;text" },
		{ "\xe2\xe2\x9c\x93", "?\xe2\x9c\x93" },
	};

	(void)state;
	EXPECT(samples);
}

static void a_character_waits_for_its_last_byte(void **state)
{
	struct vtfilter f;
	char out[32];

	(void)state;
	vtfilter_init(&f);
	assert_int_equal(vtfilter_run(&f, "a\xe2\x9c", 3, out), 1);
	assert_int_equal(vtfilter_run(&f, "\x93", 1, out), 3);
	assert_memory_equal(out, "\xe2\x9c\x93", 3);
	assert_int_equal(vtfilter_run(&f, "\xf0\x9f\x9a", 3, out), 0);
	assert_int_equal(vtfilter_flush(&f, out), 3);
	assert_memory_equal(out, "???", 3);
	assert_int_equal(vtfilter_run(&f, "\x1b[3", 3, out), 0);
	assert_int_equal(vtfilter_flush(&f, out), 0);
	assert_int_equal(vtfilter_run(&f, "1m", 2, out), 2);
}

static void a_string_without_end_is_given_up(void **state)
{
	size_t n = (size_t)200 * 1024;
	char *in = malloc(n), *out = malloc(n + VTFILTER_SLACK);
	size_t got;

	(void)state;
	assert_true(in && out);
	memset(in, 'x', n);
	memcpy(in, "\x1b]0;", 4);
	got = filter_cut(in, n, 3, out);
	assert_true(got > n / 2 && got < n);
	memcpy(in, "\x1b[", 2);
	memset(in + 2, '1', n - 2);
	got = filter_cut(in, n, 3, out);
	assert_true(got > n / 2 && got < n);
	free(in);
	free(out);
}

/* Random bytes, half of them from an alphabet that makes sequences likely. */
static void noise_never_gets_anything_unsafe_out(void **state)
{
	static const char likely[] = "\x1b\x1b\x1b[[[]P_^X\\\a;?0123mKJHhlnctk \xc2\x9b\x9c\xe2"
				     "\x80\xae\x81\xa6\xf0\x9f\x18\n";
	uint8_t data[NOISE_BYTES];
	uint32_t x = 2463534242;

	(void)state;
	for (int round = 0; round < NOISE_ROUNDS; round++) {
		for (size_t i = 0; i < sizeof(data); i++) {
			x ^= x << 13;
			x ^= x >> 17;
			x ^= x << 5;
			data[i] = x & 0x100 ? (uint8_t)(x >> 16)
					    : (uint8_t)likely[(x >> 16) % (sizeof(likely) - 1)];
		}
		assert_int_equal(LLVMFuzzerTestOneInput(data, sizeof(data)), 0);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_colour_and_cursor_pass),
		cmocka_unit_test(what_the_command_left_on_is_undone),
		cmocka_unit_test(where_the_cursor_is_left_is_known),
		cmocka_unit_test(clipboard_links_and_titles_are_dropped_whole),
		cmocka_unit_test(reports_and_modes_are_dropped),
		cmocka_unit_test(other_controls_are_dropped),
		cmocka_unit_test(bidi_overrides_are_dropped_and_marks_stay),
		cmocka_unit_test(each_byte_that_is_not_utf8_becomes_a_question_mark),
		cmocka_unit_test(a_character_waits_for_its_last_byte),
		cmocka_unit_test(a_string_without_end_is_given_up),
		cmocka_unit_test(noise_never_gets_anything_unsafe_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
