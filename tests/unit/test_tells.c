/* SPDX-License-Identifier: Apache-2.0 */
/* What a stream tells whoever may put a text of their choice into it and watch: how many bytes
 * leave with each piece, in what order, what is reported, and in `make soak` how long it takes. The
 * same text is looked at beside the value that it nearly holds and beside one that it has nothing
 * of; all of the value in it is the control. */
#include "unit.h"

#include <time.h>

#include "egress/scan/scan.h"
#include "egress/scan/scrub.h"

enum { TEXT_MAX = 1 << 17, WRITTEN_MAX = 2048, PIECES_MAX = 4096, SHOWN = 15 };

static struct err e;
static const struct leak_spec leaks = { .scan = true };

/* Of twenty characters and of forty, each beside another of its length. */
static const char *const values[][2] = {
	{ "zq8Gk2vTn41Lw0bYd7Rm", "Xf5jHc9eQa6rNs1oKp3u" },
	{ "zq8Gk2vTn41Lw0bYd7RmpX3sJ6uHc9eQa5rNf1oK", "Mt4Wd8yVb2Zg7Ei0Us6CxhL9nRk3Fa1JqTo5Pv4B" },
};

/* ---- ways to write it ---- */

static size_t tells_base64(char *out, const char *p, size_t n, size_t skip)
{
	static const char signs[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	char all[256] = "ab";
	size_t len = 0;

	memcpy(all + skip, p, n);
	n += skip;
	for (size_t bit = 0; bit + 6 <= 8 * n; bit += 6) {
		unsigned six = 0;

		for (size_t i = bit; i < bit + 6; i++)
			six = six << 1 | ((unsigned char)all[i / 8] >> (7 - i % 8) & 1);
		out[len++] = signs[six];
	}
	return len;
}

typedef size_t write_fn(char *out, const char *p, size_t n);

#define EACH_AS(name, form)                                                                        \
	static size_t name(char *out, const char *p, size_t n)                                     \
	{                                                                                          \
		size_t len = 0;                                                                    \
                                                                                                   \
		for (size_t i = 0; i < n; i++)                                                     \
			len += (size_t)sprintf(out + len, form, (unsigned char)p[i]);              \
		return len;                                                                        \
	}

EACH_AS(as_it_is, "%c")
EACH_AS(small_hex, "%02x")
EACH_AS(large_hex, "%02X")
EACH_AS(percent, "%%%02X")
EACH_AS(slash_u, "\\u%04x")
EACH_AS(html, "&#%d;")
EACH_AS(percent_twice, "%%25%02X")
EACH_AS(quoted, "=%02X")

static write_fn *const forms[] = { as_it_is, small_hex, large_hex,     percent,
				   slash_u,  html,      percent_twice, quoted };

enum { WAYS = 3 + ARRAY_LEN(forms) };

static size_t written(char *out, unsigned way, const char *p, size_t n)
{
	return way < 3 ? tells_base64(out, p, n, way) : forms[way - 3](out, p, n);
}

/* ---- what is seen ---- */

struct seen {
	size_t sizes[2 * PIECES_MAX];
	size_t n;
	unsigned told, hits;
	bool passes;
};

static void tally(void *context, const struct scan_hit *hit UNUSED)
{
	++*(unsigned *)context;
}

static void look_scrubbed(const char *value, const char *text, size_t n, size_t piece,
			  struct seen *ret)
{
	struct secret kept = {
		.name = "K", .value = value, .len = strlen(value), .placeholder = "brig-#"
	};
	CLEANUP(scrubber) struct scrubber *s = NULL;
	CLEANUP(scrub) struct scrub *b = NULL;
	struct buf out = BUF_INIT((size_t)2 * TEXT_MAX);

	assert_int_equal(scrubber_new(&kept, 1, false, &s, &e), 0);
	assert_int_equal(scrub_open(s, NULL, NULL, &b, &e), 0);
	for (size_t at = 0; at < n; at += piece) {
		size_t take = n - at < piece ? n - at : piece;

		assert_int_equal(scrub_feed(b, text + at, take, at + take == n, &out, &e), 0);
		ret->sizes[ret->n++] = out.len;
	}
	ret->hits = scrub_hits(b);
	b = scrub_close(b);
	buf_done(&out);
}

static void look_scanned(const char *value, char *text, size_t n, size_t piece, struct seen *ret)
{
	struct secret kept = { .name = "K", .value = value, .len = strlen(value) };
	struct scan_options o = { .leaks = &leaks, .secrets = &kept, .n_secrets = 1 };
	CLEANUP(scanner) struct scanner *s = NULL;
	CLEANUP(scan) struct scan *b = NULL;
	struct egress_verdict v = { 0 };
	struct scan_release r;

	o.report = tally;
	o.context = &ret->told;
	assert_int_equal(scanner_new(&o, &s, &e), 0);
	assert_int_equal(scan_open(s, SCAN_OUT, &b, &e), 0);
	ret->passes = true;
	for (size_t at = 0; at < n && ret->passes; at += piece) {
		size_t take = n - at < piece ? n - at : piece;

		ret->passes = scan_feed(b, text + at, take, at + take == n, &r, &v);
		ret->sizes[ret->n++] = r.held.n + r.data.n;
	}
	b = scan_close(b);
}

static bool same(const char *a, const char *b, char *text, size_t n, size_t piece)
{
	static struct seen x, y;

	memset(&x, 0, sizeof(x));
	memset(&y, 0, sizeof(y));
	look_scrubbed(a, text, n, piece, &x);
	look_scrubbed(b, text, n, piece, &y);
	look_scanned(a, text, n, piece, &x);
	look_scanned(b, text, n, piece, &y);
	return memcmp(&x, &y, sizeof(x)) == 0;
}

/* ---- texts of theirs ---- */

/* Many times, with what lines and fields have around it. */
static size_t filled(char *text, const char *p, size_t n, size_t most)
{
	size_t len = 0, i = 0;

	while (len + n + 32 < most)
		len += (size_t)sprintf(text + len, i++ % 3 ? "\"a\": \"%.*s\",\n" : "x %.*s y",
				       (int)n, p);
	return len;
}

/* Guesses that are as near as the threat model lets them be. */
enum { GUESSES = 6 };

static size_t guess(char *out, unsigned which, const char *value)
{
	size_t n = strlen(value);

	memcpy(out, value, n);
	switch (which) {
	case 0: /* the last character is wrong, in what of it no neighbour shares */
		out[n - 1] ^= 0x10;
		return n;
	case 1: /* one in the middle of the last sixteen */
		out[n - 8] ^= 2;
		return n;
	case 2: /* the first of them */
		out[n - SHOWN - 1] ^= 1;
		return n;
	case 3: /* all but the last */
		return n - 1;
	case 4: /* its beginning */
		return n / 2;
	default: /* its end, one character less than shows */
		memcpy(out, value + n - SHOWN, SHOWN);
		return SHOWN;
	}
}

static void nothing_that_can_be_seen_tells_of_a_value_that_is_nearly_there(void **state UNUSED)
{
	static const size_t pieces[] = { 1 << 20, 100, 1 };
	static char text[TEXT_MAX];
	char near[64], form[WRITTEN_MAX];

	for (size_t k = 0; k < ARRAY_LEN(values); k++)
		for (unsigned way = 0; way < WAYS; way++)
			for (unsigned g = 0; g < GUESSES; g++) {
				size_t n = written(form, way, near, guess(near, g, values[k][0]));
				size_t piece = pieces[(way + g) % ARRAY_LEN(pieces)];
				size_t len = filled(text, form, n, piece == 1 ? 2500 : 9000);

				if (!same(values[k][0], values[k][1], text, len, piece))
					fail_msg("value %zu, way %u, guess %u", k, way, g);
			}
}

/* The control: what is there is seen. */
static void a_value_that_is_there_is_seen(void **state UNUSED)
{
	static char text[TEXT_MAX];
	char form[WRITTEN_MAX];

	for (size_t k = 0; k < ARRAY_LEN(values); k++)
		for (unsigned way = 0; way < WAYS; way++) {
			size_t n = written(form, way, values[k][0], strlen(values[k][0]));
			size_t len = filled(text, form, n, 9000);

			if (same(values[k][0], values[k][1], text, len, 1 << 20))
				fail_msg("value %zu, way %u is not found", k, way);
		}
}

/* ---- time ---- */

static double cpu(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double time_of(struct scrubber *s, const char *text, size_t n, struct buf *out)
{
	double from = cpu();

	for (int i = 0; i < 4; i++) {
		struct scrub *b = NULL;

		assert_int_equal(scrub_open(s, NULL, NULL, &b, &e), 0);
		out->len = 0;
		assert_int_equal(scrub_feed(b, text, n, true, out, &e), 0);
		b = scrub_close(b);
	}
	return cpu() - from;
}

/* Beside two values in turns, of each the quickest; whose tables lie where is chance, so both ways
 * round. */
static double ratio(const char *const pair[2], const char *text, size_t n)
{
	struct scrubber *s[2] = { NULL, NULL };
	struct buf out = BUF_INIT((size_t)2 * TEXT_MAX);
	double best[2] = { 1e9, 1e9 };

	for (int i = 0; i < 2; i++) {
		struct secret kept = {
			.name = "K", .value = pair[i], .len = strlen(pair[i]), .placeholder = "#"
		};

		assert_int_equal(scrubber_new(&kept, 1, false, &s[i], &e), 0);
	}
	for (int round = 0; round < 150; round++)
		for (int i = 0; i < 2; i++) {
			double t = time_of(s[i], text, n, &out);

			best[i] = t < best[i] ? t : best[i];
		}
	for (int i = 0; i < 2; i++)
		s[i] = scrubber_free(s[i]);
	buf_done(&out);
	return best[0] / best[1];
}

/* By the clock, so of no use on a busy machine. What is told here is what an attacker could tell
 * by a hundred and fifty tries of half a MiB each. */
static void nor_does_the_time(void **state UNUSED)
{
	static char text[TEXT_MAX];
	char near[64], form[WRITTEN_MAX];
	double worst = 0;

	for (size_t k = 0; k < ARRAY_LEN(values); k++) {
		for (unsigned way = 0; way < WAYS; way++)
			for (unsigned g = 0; g < GUESSES; g++) {
				size_t n = written(form, way, near, guess(near, g, values[k][0]));
				size_t len = filled(text, form, n, TEXT_MAX);
				double r = ratio(values[k], text, len) - 1;

				print_message("value %zu, way %u, guess %u: %+.4f\n", k, way, g, r);
				r = r < 0 ? -r : r;
				worst = r > worst ? r : worst;
			}
		(void)filled(text, form, written(form, 3, values[k][0], strlen(values[k][0])),
			     TEXT_MAX);
		print_message("value %zu, all of it: %+.4f\n", k,
			      ratio(values[k], text, strlen(text)) - 1);
	}
	print_message("worst: %.4f\n", worst);
	assert_true(worst < 0.03);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_that_can_be_seen_tells_of_a_value_that_is_nearly_there),
		cmocka_unit_test(a_value_that_is_there_is_seen),
	};
	const struct CMUnitTest soak[] = { cmocka_unit_test(nor_does_the_time) };

	return getenv("BRIG_SOAK") ? cmocka_run_group_tests(soak, NULL, NULL)
				   : cmocka_run_group_tests(tests, NULL, NULL);
}
