/* SPDX-License-Identifier: Apache-2.0 */
/* One event and its line: the form, what is escaped, what is taken out. */
#include "unit.h"

#include "audit/head.h"
#include "audit/record.h"
#include "audit/redact.h"
#include "base/text/str.h"

static struct audit_key key;

static int make_key(void **state UNUSED)
{
	static const unsigned char raw[KEY_SIZE] = { 1, 2, 3 };

	key_init(&key, raw);
	return 0;
}

/* The line of a sandbox.exec with this argv0; freed by the next call. */
static const char *line_of(const char *argv0)
{
	static struct buf b;
	struct buf body = BUF_INIT(1 << 20);
	struct record_link at = { .seq = 7, .time_us = 1767323045678901 };
	unsigned char mac[32];
	struct record r;

	buf_done(&b);
	b = (struct buf)BUF_INIT(1 << 20);
	record_init(&r, EVENT_SANDBOX_EXEC);
	r.principal = "uid:1000";
	record_text(&r, "argv0", argv0);
	record_number(&r, "rc", -1);
	record_micros(&r, "duration_ms", 1500);
	record_bool(&r, "started", true);
	record_body(&r, &key, &body);
	record_line(&at, body.data, body.len, &key, &b, mac);
	buf_done(&body);
	return buf_str(&b);
}

static void a_line_is_what_the_page_says(void **state UNUSED)
{
	const char *text = line_of("true");
	struct line l;
	char zeros[65];

	memset(zeros, '0', 64);
	zeros[64] = '\0';
	assert_non_null(strstr(text, "{\"seq\":7,\"time\":\"2026-01-02T03:04:05.678901Z\","
				     "\"type\":\"sandbox.exec\",\"principal\":\"uid:1000\","
				     "\"argv0\":\"true\",\"rc\":-1,\"duration_ms\":1.500,"
				     "\"started\":true,\"prev\":\"0000"));
	assert_int_equal(line_parse(text, strlen(text) - 1, &l), 0);
	assert_int_equal(l.at.seq, 7);
	assert_int_equal(l.at.time_us, 1767323045678901);
	assert_memory_equal(l.type, "sandbox.exec", l.type_n);
	assert_true(line_genuine(text, &l, &key));
	key.mac.inner.state[0] ^= 1;
	assert_false(line_genuine(text, &l, &key));
	(void)make_key(NULL);
}

static void every_time_reads_back(void **state UNUSED)
{
	char text[RECORD_TIME_SIZE];
	uint64_t us;

	for (uint64_t t = 0; t < 8000000000000000ULL; t += 40000000000123ULL) {
		record_time(t, text);
		assert_int_equal(record_time_parse(text, sizeof(text) - 1, &us), 0);
		assert_int_equal(us, t);
	}
	assert_true(record_time_parse("2026-02-30T00:00:00.000000Z", 27, &us) < 0);
	assert_true(record_time_parse("2026-02-03 00:00:00.000000Z", 27, &us) < 0);
	assert_true(record_time_parse("2026-02-03T00:00:60.000000Z", 27, &us) < 0);
}

static void no_text_makes_a_second_line(void **state UNUSED)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
		{ "a\nb", "a\\nb" },
		{ "\"}\n{\"seq\":8", "\\\"}\\n{\\\"seq\\\":8" },
		{ "back\\slash", "back\\\\slash" },
		{ "\x1b[31mred", "\\u001b[31mred" },
		{ "\x7f", "\\u007f" },
		{ "\xc2\x9b", "\\u009b" },
		{ "a\xe2\x80\xae"
		  "b",
		  "a\\u202eb" },
		{ "\xe2\x81\xa6x\xe2\x81\xa9", "\\u2066x\\u2069" },
		{ "\xe2\x80\x8b", "\\u200b" },
		{ "\xe2\x80\xa8", "\\u2028" },
		{ "\xef\xbb\xbf", "\\ufeff" },
		{ "\xf3\xa0\x81\x81", "\\udb40\\udc41" },
		{ "caf\xc3\xa9", "caf\xc3\xa9" },
		{ "\xff\xfe", "\xef\xbf\xbd\xef\xbf\xbd" },
		{ "\xf0\x9f\x9a\xa2", "\xf0\x9f\x9a\xa2" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const char *text = line_of(cases[i].in);
		char want[128];

		(void)snprintf(want, sizeof(want), "\"argv0\":\"%s\"", cases[i].out);
		if (!strstr(text, want))
			fail_msg("%zu: no %s in %s", i, want, text);
		assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
	}
}

static void a_long_text_is_cut_between_characters(void **state UNUSED)
{
	char in[2001], *text, *end;

	for (int shift = 0; shift < 3; shift++) {
		for (int i = 0; i < 2000; i++)
			in[i] = "\xe2\x82\xac"[(i + shift) % 3];
		in[2000] = '\0';
		text = strstr(line_of(in + (3 - shift) % 3), "argv0\":\"") + 8;
		end = strchr(text, '"');
		assert_true(end - text <= RECORD_TEXT_MAX && end - text > RECORD_TEXT_MAX - 3);
		assert_null(strstr(text, "\xef\xbf\xbd"));
	}
}

/* Put together here, so that no scanner of repositories takes them for real. */
static void every_known_shape_is_taken_out(void **state UNUSED)
{
	static const struct {
		const char *head, *tail;
	} shapes[] = {
		{ "ghp_", "0123456789abcdefghijABCDEFGHIJ012345" },
		{ "gho_", "0123456789abcdefghijABCDEFGHIJ012345" },
		{ "ghs_", "0123456789abcdefghijABCDEFGHIJ012345" },
		{ "github_pat_", "11ABCDEFG0123456789_abcdefghij" },
		{ "xoxb-", "123456789012-abcdefghijkl" },
		{ "xoxp-", "123456789012-abcdefghijkl" },
		{ "AKIA", "ABCDEFGHIJKLMNOP" },
		{ "sk-ant-", "api03-abcdefghijklmnopqrstuvwxyz" },
		{ "sk-", "abcdefghijklmnopqrstuvwxyzABCDEF" },
		{ "sk-proj-", "abcdefghijklmnopqrstuvwxyzABCDEF" },
		{ "sk_live_", "abcdefghijklmnopqrstuvwx" },
		{ "sk_test_", "abcdefghijklmnopqrstuvwx" },
		{ "pk_live_", "abcdefghijklmnopqrstuvwx" },
		{ "rk_live_", "abcdefghijklmnopqrstuvwx" },
		{ "SG.", "abcdefghijklmnopqrstuv.ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789abcdefg" },
		{ "AC", "0123456789abcdef0123456789abcdef" },
		{ "SK", "0123456789abcdef0123456789abcdef" },
		{ "Authorization: Bearer ", "abcdef0123456789" },
		{ "", "123456789:AAabcdefghijklmnopqrstuvwxyzABCDEFG" },
		{ "", "MTIzNDU2Nzg5MDEyMzQ1Njc4.GabcDE.abcdefghijklmnopqrstuvwxyzABCDEFGHIJKL" },
		{ "eyJ", "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJlMTIz" },
		{ "AIza", "abcdefghijklmnopqrstuvwxyz012345678" },
		{ "glpat-", "abcdefghij0123456789" },
		{ "npm_", "abcdefghijklmnopqrstuvwxyz0123456789" },
		{ "hf_", "abcdefghijklmnopqrstuvwxyzABCDEFGH" },
		{ "--password=", "correct-horse" },
		{ "PGPASSWORD=", "hunter2hunter2" },
		{ "api_key: ", "hunter2hunter2" },
		{ "TOKEN: ", "hunterhunter" },
		{ "token: ", "abc-def ghi" },
		{ "\"token\": \"", "abcdef ghijkl" },
		{ "password: ", "correct horse" },
		{ "secret: ", "{correct" },
		{ "TOKEN=", "{host:x}" },
		{ "https://user:", "s3cretpassw0rd@example.org/x" },
		{ "https://example.org/x?", "code=abcdefgh&state=1" },
		{ "-----BEGIN RSA PRIVATE KEY-----\n",
		  "MIIEabcdef\n-----END RSA PRIVATE KEY-----" },
	};

	for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
		static const char *const around[][2] = {
			{ "", "" }, { "curl -H ", " http" }, { "x=", "" }, { "\"", "\"" }
		};

		for (size_t a = 0; a < sizeof(around) / sizeof(*around); a++) {
			char in[256], out[512], inner[16];
			size_t n;

			(void)snprintf(in, sizeof(in), "%s%s%s%s", around[a][0], shapes[i].head,
				       shapes[i].tail, around[a][1]);
			n = redact(&key, in, strlen(in), out, sizeof(out) - 1);
			out[n] = '\0';
			(void)snprintf(inner, sizeof(inner), "%.10s", shapes[i].tail);
			if (strstr(out, inner) || !strstr(out, "[redacted:"))
				fail_msg("'%s' became '%s'", in, out);
			if (!str_ends_nocase(out, around[a][1]))
				fail_msg("'%s' lost its end: '%s'", in, out);
		}
	}
}

static void ordinary_words_stay(void **state UNUSED)
{
	static const char *const words[] = {
		"/usr/bin/python3",
		"sk-learn",
		"node_modules/.bin/tsc",
		"git",
		"a.out",
		"AKIA",
		"0123456789abcdef0123456789abcdef",
		"2026-01-02T03:04:05Z",
		"ghp_short",
		"550e8400-e29b-41d4-a716-446655440000",
		"libfoo.so.1.2.3",
		"tokenizer",
		"C:\\x",
		"caf\xc3\xa9",
		"what?",
		"SKIP",
		"accessible",
		"https://example.org/a/b",
		"credentials: {GITHUB_TOKEN: {host: api.github.com}} binds it",
		"cannot bind TOKEN: the variable is not set",
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		char out[256];
		size_t n = redact(&key, words[i], strlen(words[i]), out, sizeof(out) - 1);

		out[n] = '\0';
		assert_string_equal(out, words[i]);
	}
}

/* What a name says about the text behind it. In doubt it is a secret: what is shown of it at most
 * is the words behind the first, where no quote or brace tells the end. */
static void what_stands_behind_a_name_is_a_secret(void **state UNUSED)
{
	static const struct {
		const char *in, *secret; /* or NULL: stays as it is */
	} cases[] = {
		{ "password: {v:hunter2}", "hunter2" },
		{ "password: {v: hunter2}", "hunter2" },
		{ "password: {from: env}", "from" },
		{ "password: {host: hunter2}", "hunter2" },
		{ "token: {abc:SECRETVALUE99}", "SECRETVALUE99" },
		{ "token: {abc: SECRETVALUE99}", "SECRETVALUE99" },
		{ "token: {host:SECRETVALUE99}", "SECRETVALUE99" },
		{ "token: {\"abc\": \"SECRET}VALUE99\"}", "VALUE99" },
		{ "token: {a: {b: 1}, c: SECRETVALUE99}", "SECRETVALUE99" },
		{ "token: [first1, SECRETVALUE99]", "SECRETVALUE99" },
		{ "password: {a}hunter2", "hunter2" },
		{ "password=[1]{b}hunter2", "hunter2" },
		{ "password=AKIA0123456789ABCDEF!hunter2", "hunter2" },
		{ "client_secret: correct horse battery staple", "correct" },
		{ "client_secret: the horse battery staple", "the horse" },
		{ "client_secret: \"correct horse\"", "horse" },
		{ "password='correct horse'", "horse" },
		{ "{\"password\": \"cor\\\"rect horse\"}", "horse" },
		{ "{\\\"password\\\": \\\"correct\\\"}", "correct" },
		{ "X-Api-Key: abcdefghijk lmnop", "abcdefghijk" },
		{ "X-Api-Key:\tabcdefghijk", "abcdefghijk" },
		{ "API_KEY: no such credential", "no such" },
		{ "token: hunter two", "hunter" },
		{ "token: Not a sentence", "Not" },
		{ "token: the", "the" },
		{ "token: the 2 of them", "the 2" },
		{ "token: thesecret is", "thesecret" },
		{ "TOKEN=the variable", "the" },
		{ "token: \"the variable\"", "variable" },
		{ "private_key: MIIEvQ IBADAN", "MIIEvQ" },
		{ "private_key: a b", "a b" },
		{ "Authorization: Digest abcdefghij", "abcdefghij" },
		{ "Authorization: Negotiate abcdefghij", "abcdefghij" },
		{ "Authorization: is abcdefghij", "abcdefghij" },
		{ "Proxy-Authorization: Basic abcdefghij", "abcdefghij" },
		{ "secret: is that so", "is that" },
		{ "passphrase: the quick brown fox", "the" },
		{ "AWS_SECRET_ACCESS_KEY: for you", "for" },
		{ "credential: swordfish twice", "swordfish" },
		{ "cannot bind TOKEN: the variable is not set", NULL },
		{ "GITHUB_TOKEN: not allowed", NULL },
		{ "OPENAI_API_KEY: not set", NULL },
		{ "sh: 1: OPENAI_API_KEY: parameter not set", NULL },
		{ "bash: line 1: OPENAI_API_KEY: unbound variable\n", NULL },
		{ "cannot bind OPENAI_API_KEY: the variable is not set; set it", NULL },
		{ "(PGPASSWORD: is not set)", NULL },
		{ "AWS_SECRET_ACCESS_KEY: Not set.", NULL },
		{ "OPENAI_API_KEY=not set", "not" },
		{ "OPENAI_API_KEY: not set2", "not" },
		{ "OPENAI_API_KEY: not sethunter2", "not" },
		{ "OPENAI_API_KEY: not set.hunter2", "not" },
		{ "passphrase: not set in stone", "not set" },
		{ "password: is required.hunter2", "is" },
		{ "password: \"not set\"", "not" },
		{ "access_token: was sent to example.org", NULL },
		{ "session_token: has no value", NULL },
		{ "TOKEN: is a placeholder", NULL },
		{ "credential: no such entry", NULL },
		{ "TOKEN: {host: api.example.org}", "example" },
		{ "credentials: {X-TOKEN: {host: a.example.org}}", "example" },
		{ "credentials: {TOKEN: {host:SECRETVALUE99}}", "SECRETVALUE99" },
		{ "credentials: {A_TOKEN: {host: [a.example.org], header: X-Key}}", NULL },
		{ "credentials: {AN_API_KEY: {host: a.example.org}} binds it", NULL },
		{ "tokens: a few words", NULL },
		{ "the token is old", NULL },
		{ "secretary: the one", NULL },
		{ "password", NULL },
		{ "password: ", NULL },
		{ "passwords: {a: b}", NULL },
		{ "key: value", NULL },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const char *in = cases[i].in;
		char out[256];

		out[redact(&key, in, strlen(in), out, sizeof(out) - 1)] = '\0';
		if (cases[i].secret ? strstr(out, cases[i].secret) || !strstr(out, "[redacted:")
				    : strcmp(out, in) != 0)
			fail_msg("'%s' became '%s'", in, out);
	}
}

/* Names in a row whose braces and quotes never end cost no more than any other text. */
static void what_has_no_end_is_cut_somewhere(void **state UNUSED)
{
	static const char *const parts[] = { "token: {", "token: [", "token: \"", "token='{" };
	static char in[1 << 16], out[1 << 20];

	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
		size_t n = 0, m = strlen(parts[i]);

		for (; n + m < sizeof(in); n += m)
			memcpy(in + n, parts[i], m);
		assert_in_range(redact(&key, in, n, out, sizeof(out)), 1, sizeof(out) - 1);
		out[40] = '\0';
		assert_non_null(strstr(out, "[redacted:"));
		memset(in + m, 'x', n - m);
		out[redact(&key, in, n, out, sizeof(out) - 1)] = '\0';
		assert_null(strstr(out, "xxx"));
	}
}

static void fingerprints_tell_secrets_apart(void **state UNUSED)
{
	char a[FINGERPRINT_SIZE], b[FINGERPRINT_SIZE];
	struct audit_key other;
	static const unsigned char raw[KEY_SIZE] = { 9 };

	key_init(&other, raw);
	key_fingerprint(&key, "one", 3, a);
	key_fingerprint(&key, "one", 3, b);
	assert_string_equal(a, b);
	key_fingerprint(&key, "two", 3, b);
	assert_string_not_equal(a, b);
	key_fingerprint(&other, "one", 3, b);
	assert_string_not_equal(a, b);
}

/* A secret across the place where a text is cut must not leave its beginning behind. */
static void a_cut_does_not_bare_a_secret(void **state UNUSED)
{
	for (size_t at = RECORD_TEXT_MAX - 60; at < RECORD_TEXT_MAX + 4; at++) {
		char in[1024];

		memset(in, '.', at);
		(void)snprintf(in + at, sizeof(in) - at, " gh%s",
			       "p_0123456789abcdefghijABCDEFGHIJ0");
		assert_null(strstr(line_of(in), "p_01"));
	}
}

static void a_list_has_its_bounds(void **state UNUSED)
{
	const char *list[200];
	struct buf b = BUF_INIT(1 << 20);
	struct record r;

	for (size_t i = 0; i < 199; i++)
		list[i] = "x";
	list[199] = NULL;
	record_init(&r, EVENT_SANDBOX_CREATE);
	record_list(&r, "argv", list);
	record_body(&r, &key, &b);
	assert_true(b.len < 400);
	assert_non_null(strstr(buf_str(&b), ",\"...\"]"));
	buf_done(&b);
}

static void every_event_has_a_name_and_fields(void **state UNUSED)
{
	for (int i = 0; i < EVENT_COUNT; i++) {
		const struct event_type *t = &event_types[i];

		assert_true(t->name[0] && memchr(t->name, 0, sizeof(t->name)));
		assert_true(t->help[0] && memchr(t->help, 0, sizeof(t->help)));
		assert_true(t->severity >= SEVERITY_INFO && t->ocsf_class);
		assert_true(t->fields[0].name[0]);
		for (size_t f = 0; f < EVENT_FIELDS_MAX; f++)
			assert_non_null(memchr(t->fields[f].name, 0, sizeof(t->fields[f].name)));
	}
}

static void a_head_reads_back_and_nothing_else_does(void **state UNUSED)
{
	struct head h = { .seq = UINT64_MAX,
			  .segment = UINT32_MAX,
			  .offset = UINT64_MAX,
			  .time_us = UINT64_MAX },
		    back;
	char slot[HEAD_SLOT];

	memset(h.mac, 0xa5, sizeof(h.mac));
	head_format(&h, &key, slot);
	assert_int_equal(head_parse(slot, &key, &back), 0);
	assert_memory_equal(&h, &back, sizeof(h));
	for (size_t i = 0; i < HEAD_SLOT; i++) {
		slot[i] ^= 4;
		assert_true(head_parse(slot, &key, &back) < 0);
		slot[i] ^= 4;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_is_what_the_page_says),
		cmocka_unit_test(every_time_reads_back),
		cmocka_unit_test(no_text_makes_a_second_line),
		cmocka_unit_test(a_long_text_is_cut_between_characters),
		cmocka_unit_test(every_known_shape_is_taken_out),
		cmocka_unit_test(ordinary_words_stay),
		cmocka_unit_test(what_stands_behind_a_name_is_a_secret),
		cmocka_unit_test(what_has_no_end_is_cut_somewhere),
		cmocka_unit_test(fingerprints_tell_secrets_apart),
		cmocka_unit_test(a_cut_does_not_bare_a_secret),
		cmocka_unit_test(a_list_has_its_bounds),
		cmocka_unit_test(every_event_has_a_name_and_fields),
		cmocka_unit_test(a_head_reads_back_and_nothing_else_does),
	};

	return cmocka_run_group_tests(tests, make_key, NULL);
}
