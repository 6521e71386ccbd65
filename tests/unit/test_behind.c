/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens behind base64, hex and escapes: found wherever they stand and however the stream is cut.
 */
#include "unit.h"

#include "egress/scan/scan.h"
#include "egress/scan/scan_json.h"

static struct leak_spec leaks = { .scan = true };
static struct scanner *scanner;
static struct egress_verdict v;
static struct err e;
static unsigned told;
static char kind[64];

static void note(void *context UNUSED, const struct scan_hit *hit)
{
	told++;
	(void)snprintf(kind, sizeof(kind), "%s", hit->kind);
}

static void make(bool soft)
{
	struct scan_options o = { .leaks = &leaks, .redact_json = soft, .report = note };

	scanner = scanner_free(scanner);
	told = 0;
	kind[0] = '\0';
	if (scanner_new(&o, &scanner, &e) < 0)
		fail_msg("%s", e.what);
}

static int gone(void **state UNUSED)
{
	leaks.rules = (struct envlist){ 0 };
	scanner = scanner_free(scanner);
	return 0;
}

static bool pass(const char *text, size_t n, size_t step, struct buf *out)
{
	CLEANUP(scan) struct scan *b = NULL;
	CLEANUP(mem) char *copy = malloc(n + 1);
	struct scan_release r;

	assert_non_null(copy);
	memcpy(copy, text, n);
	assert_int_equal(scan_open(scanner, SCAN_OUT, &b, &e), 0);
	for (size_t at = 0;; at += step) {
		size_t take = n - at < step ? n - at : step;

		if (!scan_feed(b, copy + at, take, at + take == n, &r, &v))
			return false;
		if (out) {
			buf_add(out, r.held.p, r.held.n);
			buf_add(out, r.data.p, r.data.n);
		}
		if (at + take == n)
			return true;
	}
}

/* ---- ways to write it ---- */

typedef size_t write_fn(char *out, const char *p, size_t n);

static size_t as_base64(char *out, const char *p, size_t n, const char *more, size_t line)
{
	static const char signs[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
	size_t len = 0, in_line = 0;

	for (size_t bit = 0; bit < 8 * n; bit += 6) {
		unsigned six = 0;

		for (size_t i = bit; i < bit + 6; i++)
			six = six << 1 | (i < 8 * n && (unsigned char)p[i / 8] >> (7 - i % 8) & 1);
		out[len++] = six < 62 ? signs[six] : more[six - 62];
		if (line && ++in_line % line == 0)
			out[len++] = '\n';
	}
	return len;
}

static size_t base64(char *out, const char *p, size_t n)
{
	return as_base64(out, p, n, "+/", 0);
}

static size_t base64_url(char *out, const char *p, size_t n)
{
	return as_base64(out, p, n, "-_", 0);
}

static size_t base64_lines(char *out, const char *p, size_t n)
{
	return as_base64(out, p, n, "+/", 28);
}

#define EACH_AS(name, form)                                                                        \
	static size_t name(char *out, const char *p, size_t n)                                     \
	{                                                                                          \
		size_t len = 0;                                                                    \
                                                                                                   \
		for (size_t i = 0; i < n; i++)                                                     \
			len += (size_t)sprintf(out + len, form, (unsigned char)p[i]);              \
		return len;                                                                        \
	}

EACH_AS(hex, "%02x")
EACH_AS(hex_pairs, "%02X-")
EACH_AS(percent, "%%%02x")
EACH_AS(html, "&#%d;")
EACH_AS(slash_u, "\\u%04x")

static size_t as_it_is(char *out, const char *p, size_t n)
{
	memcpy(out, p, n);
	return n;
}

static write_fn *const writers[] = { base64,  base64_url, base64_lines, hex,     hex_pairs,
				     percent, html,       slash_u,      as_it_is };

/* In two pieces, so that no tool takes this file for a leak. */
static const struct {
	const char *kind, *head, *tail;
} tokens[] = {
	{ "github-token", "ghp_", "aB3dE6gH9jK2mN5pQ8sT" },
	{ "aws-access-key", "AKIA", "Z7Q4M2X9C5V1B8N3" },
	{ "aws-access-key", "aws_secret_access_key=", "k3Jd8sLw/2Qm9Zx+4Vb7Nc1Rt6Yp5Hg0Fu8EiAoX" },
	{ "gitlab-token", "gldt-", "aB3dE6gH9jK2mN5pQ8sT" },
	{ "stripe-live-key", "sk_live_", "aB3dE6gH9jK2mN5pQ8sT" },
	{ "private-key", "-----BEGIN RSA PRIVATE",
	  " KEY-----\nMIIEpAIBAAKCAQEA0Z3VS5JJcds3xfn/\n" },
};

static void is_found(const char *what, const char *text, size_t n, bool all)
{
	static const size_t steps[] = { 1 << 20, 33, 1, 7, 64, 1000 };
	unsigned first = 0;

	for (size_t i = 0; i < (all ? ARRAY_LEN(steps) : 2); i++) {
		make(false);
		if (pass(text, n, steps[i], NULL))
			fail_msg("%s passed in pieces of %zu: %.*s", what, steps[i], (int)n, text);
		assert_string_equal(kind, what);
		assert_true(!i || told == first);
		first = told;
	}
}

static void a_token_is_found_behind_every_writer_and_two(void **state UNUSED)
{
	char plain[256], inner[2048], text[16384];

	for (size_t t = 0; t < ARRAY_LEN(tokens); t++)
		for (size_t a = 0; a < ARRAY_LEN(writers); a++)
			for (size_t b = 0; b < ARRAY_LEN(writers); b++) {
				size_t n, k;

				bool all = writers[a] == as_it_is || writers[b] == as_it_is;

				/* pairs are looked for in the first signs of a run */
				if (!all && (writers[a] == hex_pairs || writers[b] == hex_pairs))
					continue;
				n = (size_t)snprintf(plain, sizeof(plain), "%s%s", tokens[t].head,
						     tokens[t].tail);
				k = writers[a](inner, plain, n);
				n = (size_t)sprintf(text, "{\"some\": [1, 2, 3], \"data\": \"");
				n += writers[b](text + n, inner, k);
				n += (size_t)sprintf(text + n, "\", \"more\": true}\n");
				is_found(tokens[t].kind, text, n, all);
			}
}

static void it_may_stand_in_the_middle_of_a_file(void **state UNUSED)
{
	static const char file[] =
		"# settings of a project\nname = example\nkey = %s%s\nlast = 1\n";
	char plain[256], text[1024];

	for (size_t t = 0; t < ARRAY_LEN(tokens); t++)
		for (size_t w = 0; w < 4; w++) {
			size_t n = (size_t)sprintf(plain, file, tokens[t].head, tokens[t].tail), k;

			k = (size_t)sprintf(text, "x=");
			k += writers[w](text + k, plain, n);
			is_found(tokens[t].kind, text, k, true);
			/* behind a path, in base64 that began elsewhere */
			k = (size_t)sprintf(text, "/v1/data/");
			k += writers[w](text + k, plain, n);
			is_found(tokens[t].kind, text, k, true);
		}
}

static void what_is_no_token_passes(void **state UNUSED)
{
	char text[65536];
	unsigned x = 7;

	for (unsigned round = 0; round < 8; round++) {
		size_t n = 0;

		make(false);
		while (n < sizeof(text) - 1) {
			static const char signs[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrst"
						    "uvwxyz0123456789+/";

			x = x * 1103515245 + 12345;
			text[n] =
				round & 1 ? "0123456789abcdef"[x >> 16 & 15] : signs[x >> 16 & 63];
			if (round & 2 && n % 77 == 76)
				text[n] = '\n';
			if (round & 4 && n % 31 == 0)
				text[n] = '%';
			n++;
		}
		assert_true(pass(text, n, 4096, NULL));
		/* a run of 64 digits is told, and is not stopped */
		assert_true(told == 0 || strcmp(kind, "hex64") == 0);
	}
}

static unsigned chance;

static unsigned some(unsigned most)
{
	chance = chance * 1103515245 + 12345;
	return (chance >> 16) % most;
}

/* Words, and in between what is no text; somewhere a token, whole or cut. */
static size_t some_bytes(char *p, size_t n)
{
	static const char text[] = "abcdefghijklmnopqrstuvwxyz   ,.:;(){}<>!?\n\t";
	unsigned token = some(ARRAY_LEN(tokens) + 1), gaps = 1 + some(40);
	char word[128];
	size_t len, at;

	for (size_t i = 0; i < n; i++)
		p[i] = some(gaps) ? text[some(sizeof(text) - 1)] : (char)(0x80 + some(0x80));
	len = token == ARRAY_LEN(tokens) /* the shortest there is */
		      ? (size_t)sprintf(word, "xox%s", "b-aB3dE6gH9j")
		      : (size_t)sprintf(word, "%s%s", tokens[token].head, tokens[token].tail);
	len -= some(2) * some(4);
	at = some((unsigned)(n - len + 1));
	memcpy(p + at, word, len);
	return n;
}

/* What base64 says is read as if it stood there, though not all of it is read. */
static void it_is_found_wherever_it_is_found_as_it_is(void **state UNUSED)
{
	static const size_t steps[] = { 1 << 20, 31, 64 }, lines[] = { 0, 76, 64, 28 };
	char plain[400], text[1024];
	unsigned stopped = 0, more = 0;

	make(false);
	chance = 11;
	for (unsigned round = 0; round < 6000; round++) {
		size_t n = some_bytes(plain, 130 + some(250)), k;
		bool passes = pass(plain, n, 1 << 20, NULL), also;

		stopped += !passes;
		k = as_base64(text, plain, n, round & 1 ? "+/" : "-_", lines[round / 2 % 4]);
		also = pass(text, k, steps[round % 3], NULL);
		if (!passes && also)
			fail_msg("round %u: it passes in base64: %.*s", round, (int)k, text);
		more += passes && !also;
	}
	assert_in_range(stopped, 2000, 5500);
	assert_true(more < 10); /* the beginning of a line may begin another base64 */
}

/* Manuals have them, packed or not. */
static void samples_are_only_told(void **state UNUSED)
{
	char text[256];
	size_t n = base64(text,
			  "AKIAIOSFODNN7"
			  "EXAMPLE",
			  20);

	make(false);
	assert_true(pass(text, n, 1, NULL));
	assert_int_equal(told, 1);
}

static void a_text_about_tokens_is_none(void **state UNUSED)
{
	static const char said[] = "Authorization: Bearer aB3dE6gH9jK2mN5pQ8sTaB3dE6gH9jK2";
	char text[256];
	size_t n = base64(text, said, strlen(said));

	make(false);
	assert_true(pass(text, n, 1 << 20, NULL));
	assert_int_equal(told, 0);
}

/* In JSON it is taken out where it stands, and the rest stays. */
static void in_json_the_bytes_that_say_it_are_taken_out(void **state UNUSED)
{
	char inner[512], text[1024];
	size_t n, k;

	for (size_t step = 1; step < 300; step += 97)
		for (size_t w = 0; w < 8; w++) {
			struct json_scan *j = NULL;
			struct buf out = BUF_INIT(65536);
			const char *plain = "some text, then ghp_"
					    "aB3dE6gH9jK2mN5pQ8sT and more";

			if (writers[w] == slash_u || writers[w] == base64_lines)
				continue;
			make(true);
			k = writers[w](inner, plain, strlen(plain));
			n = (size_t)sprintf(text, "{\"a\": \"%.*s\", \"b\": 2}", (int)k, inner);
			assert_int_equal(json_scan_open(scanner, true, &j, &e), 0);
			for (size_t at = 0; at < n; at += step) {
				size_t take = n - at < step ? n - at : step;

				if (!json_scan_feed(j, text + at, take, at + take == n, &out, &v))
					fail_msg("writer %zu: %s", w, v.what);
			}
			j = json_scan_close(j);
			assert_int_equal(out.len, n);
			assert_int_equal(told, 1);
			assert_non_null(memmem(out.data, out.len, "[REDACTED]", 10));
			assert_memory_equal(out.data, text, 14);
			assert_memory_equal(out.data + n - 12, text + n - 12, 12);
			make(true);
			assert_true(pass(out.data, n, n, NULL));
			buf_done(&out);
		}
}

static bool head_passes(const char *target, const char *name, const char *value)
{
	struct egress_head h = { .arena = arena_new(65536), .n_fields = name ? 1 : 0 };
	bool ok;

	h.method = egress_text("GET", 3);
	h.target = egress_text(target, strlen(target));
	if (name)
		h.fields[0] = (struct egress_field){ egress_text(name, strlen(name)),
						     egress_text(value, strlen(value)) };
	make(false);
	ok = scan_head(scanner, SCAN_OUT, &h, &v);
	(void)arena_free(h.arena);
	return ok;
}

static void heads_are_read_so_too(void **state UNUSED)
{
	char plain[128], text[2048];

	for (size_t w = 0; w < ARRAY_LEN(writers); w++) {
		size_t n = (size_t)sprintf(plain, "%s%s", tokens[0].head, tokens[0].tail), k;

		if (writers[w] == base64_lines)
			continue;
		k = (size_t)sprintf(text, "/sync?data=");
		k += writers[w](text + k, plain, n);
		text[k] = '\0';
		assert_false(head_passes(text, NULL, NULL));
		assert_false(head_passes("/", "X-Trace", text + 11));
	}
	assert_true(head_passes("/sync?data=bm90aGluZyBvZiBpbnRlcmVzdCBpbiBoZXJlIGF0IGFsbA",
				"X-Trace", "bm90aGluZyBvZiBpbnRlcmVzdCBpbiBoZXJlIGF0IGFsbA"));
}

#define TEST(f) cmocka_unit_test_teardown(f, gone)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_token_is_found_behind_every_writer_and_two),
		TEST(it_may_stand_in_the_middle_of_a_file),
		TEST(what_is_no_token_passes),
		TEST(it_is_found_wherever_it_is_found_as_it_is),
		TEST(samples_are_only_told),
		TEST(a_text_about_tokens_is_none),
		TEST(in_json_the_bytes_that_say_it_are_taken_out),
		TEST(heads_are_read_so_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
