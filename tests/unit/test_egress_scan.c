/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "egress/scan/scan.h"
#include "egress/scan/scan_json.h"
#include "egress/scan/scrub.h"

#include <zlib.h>

#define VALUE "s3cr3t+Value/with\"odd~bytes"

static struct secret secret = { .name = "API_KEY",
				.value = VALUE,
				.len = sizeof(VALUE) - 1,
				.placeholder = "brig-0123456789abcdefghijklmnopqrstuv" };
static struct leak_spec leaks;
static struct scanner *scanner;
static bool soft;
static struct egress_verdict v;
static struct err e;
static struct unpack_side *unpacker;

struct seen {
	char kinds[512];
	unsigned n;
	struct scan_hit last;
};

static struct seen seen;

static void note(void *context, const struct scan_hit *hit)
{
	struct seen *s = context;

	s->n++;
	s->last = *hit;
	(void)snprintf(s->kinds + strlen(s->kinds), sizeof(s->kinds) - strlen(s->kinds), "%s ",
		       hit->kind);
}

static void make(size_t n_secrets)
{
	struct scan_options o = { .leaks = &leaks,
				  .secrets = &secret,
				  .n_secrets = n_secrets,
				  .redact_json = soft,
				  .report = note,
				  .context = &seen };

	scanner = scanner_free(scanner);
	memset(&seen, 0, sizeof(seen));
	if (scanner_new(&o, &scanner, &e) < 0)
		fail_msg("%s", e.what);
}

static int fresh(void **state UNUSED)
{
	leaks = (struct leak_spec){ .scan = true, .strict = true };
	soft = false;
	make(1);
	return 0;
}

static int gone(void **state UNUSED)
{
	scanner = scanner_free(scanner);
	return 0;
}

/* Feeds the text in pieces of `step` bytes; *out gets what was released. true: it passed. */
static bool pass(enum scan_direction d, const char *text, size_t n, size_t step, struct buf *out)
{
	CLEANUP(scan) struct scan *b = NULL;
	CLEANUP(mem) char *copy = malloc(n + 1);
	struct scan_release r;

	assert_non_null(copy);
	memcpy(copy, text, n);
	assert_int_equal(scan_open(scanner, d, &b, &e), 0);
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

static bool passes(const char *text)
{
	make(1);
	return pass(SCAN_OUT, text, strlen(text), 1 << 20, NULL);
}

/* Spelled in two so that no tool takes this file for a leak. */
static const struct {
	const char *kind, *head, *tail;
} tokens[] = {
	{ "openai-key", "sk-", "aB3dE6gH9jK2mN5pQ8sT" },
	{ "openai-key", "sk-proj-", "aB3dE6gH9j_K2mN5-pQ8sT" },
	{ "anthropic-key", "sk-ant-", "api03-aB3dE6gH9jK2mN5pQ8sT" },
	{ "anthropic-oauth", "sk-ant-oat", "01-aB3dE6gH9jK2mN5pQ8sT" },
	{ "openrouter-key", "sk-or-v1-", "0123456789abcdef0123456789abcdef" },
	{ "groq-key", "gsk_", "aB3dE6gH9jK2mN5pQ8sT" },
	{ "aws-access-key", "AKIA", "Z7Q4M2X9C5V1B8N3" },
	{ "aws-access-key", "ASIA", "Z7Q4M2X9C5V1B8N3" },
	{ "github-token", "ghp_", "aB3dE6gH9jK2mN5p" },
	{ "github-token", "gho_", "aB3dE6gH9jK2mN5pQ8sTvW1xY4zA7bC0dE3f" },
	{ "github-token", "ghs_", "aB3dE6gH9jK2mN5pQ8sT" },
	{ "github-pat", "github_pat_", "11ABCDEFG0aB3dE6gH9jK2_mN5pQ8sT" },
	{ "stripe-live-key", "sk_live_", "aB3dE6gH9jK2mN5pQ8sT" },
	{ "stripe-test-key", "sk_test_", "aB3dE6gH9jK2mN5pQ8sT" },
	{ "nearai-session", "sess_", "aB3dE6gH9jK2mN5pQ8sTaB3dE6gH9jK2" },
	{ "google-key", "AIza", "SyA-aB3dE6gH9jK2mN5pQ8sTuV1wX4yZ7aB" },
	{ "slack-token", "xoxb-", "123456789012-abcdefABCDEF" },
	{ "twilio-key", "SK", "0123456789abcdef0123456789abcdef" },
	{ "sendgrid-key", "SG.",
	  "aB3dE6gH9jK2mN5pQ8sTuV.aB3dE6gH9jK2mN5pQ8sTuVaB3dE6gH9jK2mN5pQ8sTuV" },
	{ "telegram-token", "123456789:A", "AHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw0" },
	{ "private-key", "-----BEGIN RSA PRIVATE",
	  " KEY-----\nMIIEpAIBAAKCAQEA0Z3VS5JJcds3xfn/\n" },
	{ "private-key", "-----BEGIN PRIVATE", " KEY-----\\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\\n" },
	{ "private-key", "-----BEGIN RSA PRIVATE", " KEY-----\r\nProc-Type: 4,ENCRYPTED\r\n" },
	{ "ssh-private-key", "-----BEGIN OPENSSH PRIVATE",
	  " KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbm" },
	{ "ssh-private-key", "-----BEGIN EC PRIVATE", " KEY-----\nMHcCAQEEIIrYSSNQFaA2Hwf1duRSxK" },
	{ "pgp-private-key", "-----BEGIN PGP PRIVATE",
	  " KEY BLOCK-----\n\nlQOYBGPnZ1EBCADHX5cRl9p7v7" },
	{ "placeholder", "icsbx_", "aB3dE6gH9jK2mN5p" },
	{ "placeholder", "brig-", "0a1b2c3d4e5f6g7h8i9j0k1l2m3n4o5p" },
	{ "gitlab-token", "glpat-", "aB3dE6gH9jK2mN5pQ8sT" },
	{ "npm-token", "npm_", "aB3dE6gH9jK2mN5pQ8sTvW1xY4zA7bC0dE3f" },
	{ "pypi-token", "pypi-AgEI", "cHlwaS5vcmcCJGE5YzQwMGVhLTg5ZGQtNDUzZC1iZjVjLWE4ZDE" },
	{ "huggingface-token", "hf_", "aBcDeFgHiJkLmNoPqRsTuVwXyZaBcDeFgH" },
	{ "slack-webhook", "hooks.slack.com/services/",
	  "T01ABCDEF23/B04GHIJKL56/aB3dE6gH9jK2mN5pQ8sTvW1x" },
	{ "discord-webhook", "discord.com/api/webhooks/",
	  "123456789012345678/aB3dE6gH9jK2mN5pQ8sTvW1xY4zA7bC0dE3faB3dE6gH9jK2mN5pQ8sTvW1x" },
	{ "digitalocean-token", "dop_v1_",
	  "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef" },
	{ "shopify-token", "shpat_", "0123456789abcdef0123456789abcdef" },
	{ "age-key", "AGE-SECRET-KEY-1",
	  "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7LQPZRY9X8GF2TVDW0S3JN54KHCE" },
	{ "google-oauth", "ya29.", "aB3dE6gH9jK2mN5pQ8sT" },
	{ "azure-storage-key", "AccountKey=",
	  "aB3dE6gH9jK2mN5pQ8sTvW1xY4zA7bC0dE3faB3dE6gH9jK2mN5pQ8sTvW1xY4zA7bC0dE3faB3dE6gH9jK2mN="
	  "=" },
	{ "vault-token", "hvs.", "aB3dE6gH9jK2mN5pQ8sTvW1x" },
};

#define TOKENS (sizeof(tokens) / sizeof(*tokens))

static void every_kind_is_blocked_in_every_part(void **state UNUSED)
{
	static const char *const around[][2] = {
		{ "", "" }, { "{\"k\": \"", "\"}" }, { "a=", "&b=c" }, { "line\n", "\nline" }
	};

	for (size_t i = 0; i < TOKENS; i++)
		for (size_t k = 0; k < 4; k++) {
			char text[512];

			(void)snprintf(text, sizeof(text), "%s%s%s%s", around[k][0], tokens[i].head,
				       tokens[i].tail, around[k][1]);
			if (passes(text))
				fail_msg("%s passes", text);
			assert_int_equal(v.reason, EGRESS_LEAK);
			if (!strstr(seen.kinds, tokens[i].kind))
				fail_msg("%s is taken for %s", text, seen.kinds);
			assert_null(strstr(v.what, tokens[i].tail));
		}
}

static void an_escape_before_a_token_is_no_part_of_it(void **state UNUSED)
{
	static const char *const before[] = { "log=TOKEN%3D",  "a%20", "a%0a",
					      "{\"a\":\"x\\n", "x\\t", "x\\u000a" };
	static const char *const within[] = { "x", "3D", "n", "u000a" };

	for (size_t i = 0; i < sizeof(before) / sizeof(*before); i++) {
		char text[128];

		(void)snprintf(text, sizeof(text), "%sghp_aB3dE6gH9jK2mN5p", before[i]);
		print_message("%s\n", text);
		assert_false(passes(text));
	}
	for (size_t i = 0; i < sizeof(within) / sizeof(*within); i++) {
		char text[128];

		(void)snprintf(text, sizeof(text), "%sghp_aB3dE6gH9jK2mN5p", within[i]);
		assert_true(passes(text));
	}
}

static void what_only_looks_like_one_passes(void **state UNUSED)
{
	static const char *const benign[] = {
		"task-runner-of-the-desk-lamp disk-usage-report-for-all-machines",
		"sk-fading-circle sk-folding-cube-animation",
		"XAKIAZ7Q4M2X9C5V1B8N3",
		"AKIAZ7Q4M2X9C5V1B8N3LONGER",
		"xghp_aB3dE6gH9jK2mN5p",
		"ghp_short",
		"SKU0123456789abcdef0123456789abcdef",
		"12:34:56 123456789:ABC",
		"-----BEGIN RSA PRIVATE KEY-----\" is how such a file begins",
		"-----BEGIN CERTIFICATE-----\nMIIEpAIBAAKCAQEA0Z3VS5JJcds3xfn/",
		"the bearer of good news, a bearer token",
		"Authorization: yes",
		"123e4567-e89b-12d3-a456-426614174000",
		"sha512-9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08aa",
		"a.eyJub3QiOiJhIGp3dCJ9.x",
		"abc.eyJzdWIiOiIxMjM0NTY3ODkwIn0.abcdefghijkl",
		"npm_config_registry npm_package_version_of_the_thing",
		"s3cr3t+Value/with", /* a part of the known one */
	};

	for (size_t i = 0; i < sizeof(benign) / sizeof(*benign); i++) {
		if (!passes(benign[i]))
			fail_msg("%s is stopped: %s", benign[i], v.what);
		if (seen.n)
			fail_msg("%s is taken for %s", benign[i], seen.kinds);
	}
}

static void samples_from_manuals_are_only_told(void **state UNUSED)
{
	static const char *const samples[] = { "AKIA"
					       "IOSFODNN7EXAMPLE",
					       "ghp_"
					       "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
					       "sk-"
					       "00000000000000000000" };

	for (size_t i = 0; i < 3; i++) {
		assert_true(passes(samples[i]));
		assert_int_equal(seen.n, 1);
		assert_int_equal(seen.last.action, LEAK_WARN);
	}
}

/* --- the known secret in every form --- */

static const char unicode[] =
	"\\u0073\\u0033\\u0063\\u0072\\u0033\\u0074\\u002B\\u0056\\u0061\\u006C\\u0075"
	"\\u0065\\u002F\\u0077\\u0069\\u0074\\u0068\\u0022\\u006F\\u0064\\u0064\\u007E"
	"\\u0062\\u0079\\u0074\\u0065\\u0073";

static const char *const forms[] = {
	VALUE,
	"x" VALUE "y",
	"czNjcjN0K1ZhbHVlL3dpdGgib2RkfmJ5dGVz",     /* alone */
	"QXMzY3IzdCtWYWx1ZS93aXRoIm9kZH5ieXRlc0I=", /* one byte in front */
	"QUFzM2NyM3QrVmFsdWUvd2l0aCJvZGR-Ynl0ZXNC", /* two, for URLs */
	"QUFzM2NyM3QrVmFsdWUvd2l0aCJvZGR+Ynl0ZXNC", /* two */
	"7333637233742b56616c75652f77697468226f64647e6279746573",
	"7333637233742B56616C75652F77697468226F64647E6279746573",
	"%73%33%63%72%33%74%2b%56%61%6c%75%65%2f%77%69%74%68%22%6f%64%64%7e%62%79%74%65%73",
	"s3cr3t%2BValue%2Fwith%22odd~bytes",
	"{\"k\":\"s3cr3t+Value/with\\\"odd~bytes\"}",
	"{\"k\":\"s3cr3t+Value\\/with\\\"odd~bytes\"}",
	unicode,
	"s3cr3t+Value/with&quot;odd~bytes",
	"s3cr3t&#43;Value/with&#34;odd~bytes",
	"s3cr3t+Value&#x2F;with&quot;odd~bytes",
	"s3cr3t&#x2b;Value&#x2F;with&#x22;odd&#x7E;bytes",
	"s3cr3t&#43;Value&#47;with&#34;odd&#126;bytes",
};

#define FORMS (sizeof(forms) / sizeof(*forms))

static void a_known_secret_is_found_in_every_form_and_cut(void **state UNUSED)
{
	for (size_t i = 0; i < FORMS; i++)
		for (size_t step = 1; step < 70; step += step < 8 ? 1 : 13) {
			CLEANUP(buf) struct buf out = BUF_INIT(1 << 20);
			CLEANUP(buf) struct buf text = BUF_INIT(1 << 20);

			make(1);
			for (int k = 0; k < 150; k++)
				buf_puts(&text, "some junk \xff in front ");
			buf_puts(&text, forms[i]);
			buf_puts(&text, " and behind");
			if (pass(SCAN_OUT, text.data, text.len, step, &out))
				fail_msg("%s passes", forms[i]);
			assert_string_equal(seen.kinds, "secret ");
			assert_string_equal(seen.last.name, "API_KEY");
			/* nothing of it has left */
			assert_true(out.len <= 150 * 20);
			assert_null(strstr(v.what, VALUE));
		}
}

static void a_secret_in_two_requests_is_one(void **state UNUSED)
{
	for (size_t cut = 1; cut < sizeof(VALUE) - 1; cut++) {
		make(1);
		assert_true(pass(SCAN_OUT, VALUE, cut, 999, NULL));
		assert_false(pass(SCAN_OUT, &VALUE[cut], sizeof(VALUE) - 1 - cut, 999, NULL));
	}
	make(1);
	for (size_t i = 0; i < sizeof(VALUE) - 2; i++)
		assert_true(pass(SCAN_OUT, &VALUE[i], 1, 1, NULL));
	assert_false(pass(SCAN_OUT, &VALUE[sizeof(VALUE) - 2], 1, 1, NULL));
}

static void a_secret_of_thousands_of_bytes_is_found(void **state UNUSED)
{
	static char value[SECRET_MAX + 1];
	CLEANUP(buf) struct buf text = BUF_INIT(1 << 20);
	struct secret kept = secret;

	for (size_t i = 0; i < SECRET_MAX; i++)
		value[i] = (char)('a' + (i * i + i / 7) % 26);
	secret.value = value;
	secret.len = SECRET_MAX;
	make(1);
	assert_true(pass(SCAN_OUT, value + 1, SECRET_MAX - 1, 1000, NULL));
	for (size_t i = 0; i < SECRET_MAX; i++)
		buf_printf(&text, "%%%02X", (unsigned char)value[i]);
	make(1);
	assert_false(pass(SCAN_OUT, text.data, text.len, 777, NULL));
	make(1);
	assert_false(pass(SCAN_OUT, value, SECRET_MAX, 100, NULL));
	secret.len = SECRET_MIN - 1;
	assert_true(scanner_new(&(struct scan_options){ .leaks = &leaks,
							.secrets = &secret,
							.n_secrets = 1 },
				&scanner, &e) < 0);
	secret = kept;
}

/* --- redaction and chunks --- */

static const char jwt[] = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9."
			  "eyJzdWIiOiIxMjM0NTY3ODkwIn0."
			  "dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U";

static void tokens_are_redacted_in_place(void **state UNUSED)
{
	char text[512], want[512];

	(void)snprintf(text, sizeof(text), "{\"t\": \"%s\", \"n\": 1}", jwt);
	(void)snprintf(want, sizeof(want), "{\"t\": \"[REDACTED]%.*s\", \"n\": 1}",
		       (int)(sizeof(jwt) - 11),
		       "************************************************************"
		       "************************************************************");
	for (size_t step = 1; step < 200; step += step < 5 ? 1 : 17) {
		CLEANUP(buf) struct buf out = BUF_INIT(4096);

		make(1);
		assert_true(pass(SCAN_OUT, text, strlen(text), step, &out));
		assert_string_equal(seen.kinds, "jwt ");
		assert_int_equal(out.len, strlen(text));
		assert_null(strstr(buf_str(&out), "eyJ"));
		assert_null(strstr(buf_str(&out), "R8U"));
		assert_non_null(strstr(buf_str(&out), "\", \"n\": 1}"));
		assert_string_equal(buf_str(&out), want);
	}
}

static void what_is_not_a_secret_leaves_as_it_came(void **state UNUSED)
{
	CLEANUP(buf) struct buf text = BUF_INIT(1 << 20);
	unsigned x = 1;

	for (int i = 0; i < 20000; i++) {
		x = x * 1103515245 + 12345;
		buf_putc(&text, (char)(x >> 16));
	}
	for (size_t step = 1; step < 20000; step = step * 3 + 1) {
		CLEANUP(buf) struct buf out = BUF_INIT(1 << 20);

		make(1);
		assert_true(pass(SCAN_OUT, text.data, text.len, step, &out));
		assert_int_equal(out.len, text.len);
		assert_memory_equal(out.data, text.data, text.len);
	}
}

static void sixty_four_digits_alone_are_told(void **state UNUSED)
{
	static const char hex[] =
		"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
	static const struct {
		const char *before, *after;
		bool told;
	} around[] = { { "", "", true },     { "sha256:", "\n", true }, { "x", "", false },
		       { "", "0", false },   { "0", "", false },        { "", "_", false },
		       { "zzzz ", "", true } };
	char text[256];

	for (size_t i = 0; i < 7; i++)
		for (size_t step = 1; step < 80; step += 7) {
			(void)snprintf(text, sizeof(text), "%s%s%s", around[i].before, hex,
				       around[i].after);
			make(1);
			assert_true(pass(SCAN_OUT, text, strlen(text), step, NULL));
			assert_int_equal(seen.n, around[i].told);
		}
}

static void rules_change_what_is_done(void **state UNUSED)
{
	struct envvar rules[] = { { .name = "github-token", .value = "redact" },
				  { .name = "jwt", .value = "block" },
				  { .name = "hex64", .value = "off" },
				  { .name = "private-key", .value = "redact" } };
	CLEANUP(buf) struct buf out = BUF_INIT(4096);
	char text[] = "k=ghp_"
		      "aB3dE6gH9jK2mN5pQ8;";

	leaks.rules = (struct envlist){ rules, 4 };
	make(0);
	assert_true(pass(SCAN_OUT, text, strlen(text), 4096, &out));
	assert_string_equal(buf_str(&out), "k=[REDACTED]************;");
	assert_false(pass(SCAN_OUT, jwt, strlen(jwt), 4096, NULL));
	/* hiding one line of a key would hide nothing */
	assert_false(pass(SCAN_OUT,
			  "-----BEGIN PRIVATE"
			  " KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC",
			  60, 4096, NULL));
	leaks.scan = false;
	make(1);
	assert_true(pass(SCAN_OUT, jwt, strlen(jwt), 4096, NULL));
	assert_int_equal(seen.n, 0);
	assert_false(pass(SCAN_OUT, VALUE, strlen(VALUE), 4096, NULL));
}

static void an_end_without_bytes_is_an_end(void **state UNUSED)
{
	CLEANUP(scan) struct scan *b = NULL;
	struct scan_release r;
	char text[] = "ghp_aB3d";

	assert_int_equal(scan_open(scanner, SCAN_OUT, &b, &e), 0);
	assert_true(scan_feed(b, text, strlen(text), false, &r, &v));
	assert_true(scan_feed(b, NULL, 0, true, &r, &v));
	assert_int_equal(seen.n, 0);
}

static void what_comes_in_is_told_and_not_held(void **state UNUSED)
{
	CLEANUP(scan) struct scan *b = NULL;
	struct scan_release r;
	char text[] = "data: ghp_"
		      "aB3dE6gH9jK2mN5pQ8\n\n";

	assert_int_equal(scan_open(scanner, SCAN_IN, &b, &e), 0);
	assert_true(scan_feed(b, text, strlen(text), false, &r, &v));
	assert_int_equal(r.data.n, strlen(text));
	assert_string_equal(seen.kinds, "github-token ");
	assert_int_equal(seen.last.action, LEAK_WARN);
	assert_string_equal(seen.last.preview, "ghp_...5pQ8");
}

/* --- heads --- */

static struct egress_head head;

static bool head_passes(const char *target, const char *name, const char *value)
{
	bool ok;

	make(1);
	head = (struct egress_head){ .arena = arena_new(65536) };
	head.method = egress_text("GET", 3);
	head.target = egress_text(target, strlen(target));
	head.fields[0] = (struct egress_field){ egress_text("Accept", 6), egress_text("*/*", 3) };
	head.fields[1] = (struct egress_field){ egress_text(name, strlen(name)),
						egress_text(value, strlen(value)) };
	head.n_fields = 2;
	ok = scan_head(scanner, SCAN_OUT, &head, &v);
	return ok;
}

static void head_done(void)
{
	head.arena = arena_free(head.arena);
}

static void every_part_of_a_head_is_scanned(void **state UNUSED)
{
	static const struct {
		const char *target, *name, *value;
		bool passes;
	} heads[] = {
		{ "/x?y=z", "X-A", "b", true },
		{ "/ghp_"
		  "aB3dE6gH9jK2mN5p",
		  "X-A", "b", false },
		{ "/x?k=ghp_"
		  "aB3dE6gH9jK2mN5p",
		  "X-A", "b", false },
		{ "/x?k=%67hp%5f"
		  "aB3dE6gH9jK2mN5p",
		  "X-A", "b", false },
		{ "/x?k=%2567hp_"
		  "aB3dE6gH9jK2mN5p",
		  "X-A", "b", false },
		{ "/x?k=s3cr3t%2BValue%2fwith%22odd%7ebytes", "X-A", "b", false },
		{ "/x?a=s3cr3t%2BVal&b=ue%2Fwith%22odd~bytes", "X-A", "b", false },
		{ "/",
		  "X-ghp_"
		  "aB3dE6gH9jK2mN5p",
		  "b", false },
		{ "/", "X-A",
		  "ghp_"
		  "aB3dE6gH9jK2mN5p",
		  false },
		{ "/", "Cookie", "a=b; k=" VALUE, false },
		{ "/", "Referer", "https://x/?" VALUE, false },
		{ "/", "Authorization",
		  "token ghp_"
		  "aB3dE6gH9jK2mN5p",
		  false },
		{ "/", "Authorization", "Bearer brig-0a1b2c3d4e5f6g7h8i9j0k1l2m3n4o5p", true },
		{ "/", "Authorization", "Bearer aB3dE6gH9jK2mN5pQ8sTvW1xY4zA7bC0dE3f", true },
		{ "/", "X-A",
		  "icsbx_"
		  "aB3dE6gH9jK2mN5p",
		  false },
	};

	for (size_t i = 0; i < sizeof(heads) / sizeof(*heads); i++) {
		if (head_passes(heads[i].target, heads[i].name, heads[i].value) != heads[i].passes)
			fail_msg("%s %s: %s", heads[i].target, heads[i].name, heads[i].value);
		head_done();
	}
}

static void a_head_is_redacted_in_a_copy(void **state UNUSED)
{
	assert_true(head_passes("/", "X-Note", "Bearer aB3dE6gH9jK2mN5pQ8sTvW1xY4zA7bC0dE3f ok"));
	assert_int_equal(strncmp(head.fields[1].value.p, "[REDACTED]*", 11), 0);
	assert_int_equal(head.fields[1].value.n, 46);
	assert_int_equal(strncmp(head.fields[1].value.p + 43, " ok", 3), 0);
	assert_int_equal(seen.last.action, LEAK_REDACT);
	head_done();
	/* where the program's own token belongs it is told and left alone */
	assert_true(
		head_passes("/", "Authorization", "Bearer aB3dE6gH9jK2mN5pQ8sTvW1xY4zA7bC0dE3f"));
	assert_int_equal(seen.last.action, LEAK_WARN);
	assert_int_equal(strncmp(head.fields[1].value.p, "Bearer aB3", 10), 0);
	head_done();
}

static void host_names_are_scanned_before_anything_is_resolved(void **state UNUSED)
{
	static const char value[] = "abcdef0123456789xyz";
	struct secret kept = secret;
	struct host h;

	secret.value = value;
	secret.len = sizeof(value) - 1;
	make(1);
	assert_int_equal(host_parse(egress_text("api.example.org", 15), &h), HOST_OK);
	assert_true(scan_host(scanner, &h, &v));
	assert_int_equal(host_parse(egress_text("ABCDEF0123456789xyz.t.example.org", 33), &h),
			 HOST_OK);
	assert_false(scan_host(scanner, &h, &v));
	assert_int_equal(v.reason, EGRESS_LEAK);
	make(1);
	assert_int_equal(host_parse(egress_text("abcdef.0123456789xyz.example.org", 32), &h),
			 HOST_OK);
	assert_false(scan_host(scanner, &h, &v));
	make(1);
	assert_int_equal(host_parse(egress_text("abcdef01.example.org", 20), &h), HOST_OK);
	assert_true(scan_host(scanner, &h, &v));
	assert_int_equal(host_parse(egress_text("23456789xyz.example.org", 23), &h), HOST_OK);
	assert_false(scan_host(scanner, &h, &v));
	secret = kept;
}

/* --- JSON --- */

static bool json_pass(const char *text, size_t step, bool redact, struct buf *out)
{
	CLEANUP(json_scan) struct json_scan *j = NULL;
	size_t n = strlen(text);
	bool ok = true;

	make(1);
	assert_int_equal(json_scan_open(scanner, redact, &j, &e), 0);
	for (size_t at = 0; ok; at += step) {
		size_t take = n - at < step ? n - at : step;

		ok = json_scan_feed(j, text + at, take, at + take == n, out, &v);
		if (at + take == n)
			break;
	}
	return ok;
}

struct json_row {
	const char *text, *want; /* NULL: blocked */
};

/* The same, however it is cut. */
static void pass_rows(const struct json_row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++)
		for (size_t step = 1; step < 100; step += step < 9 ? 1 : 23) {
			CLEANUP(buf) struct buf out = BUF_INIT(4096);
			bool ok = json_pass(rows[i].text, step, true, &out);

			if (ok != (rows[i].want != NULL))
				fail_msg("row %zu, step %zu: %s", i, step, rows[i].text);
			if (!rows[i].want)
				assert_int_equal(out.len, 0);
			else
				assert_string_equal(buf_str(&out), rows[i].want);
		}
}

#define STARS "**********"
#define BEARER "Bearer abcdefghijklmnopqrst"
#define HIDDEN "[REDACTED]" STARS "*******"

static void json_is_scanned_as_it_is_read_and_stays_json(void **state UNUSED)
{
	static const struct json_row rows[] = {
		{ "{\"a\": 1, \"b\": [true, null, \"x\\u00e4\\ud83d\\ude00\\n\"]}",
		  "{\"a\": 1, \"b\": [true, null, \"x\\u00e4\\ud83d\\ude00\\n\"]}" },
		{ "{\"a\":\"x\\n" BEARER "\"}", "{\"a\":\"x\\n" HIDDEN "\"}" },
		{ "{\"a\":\"\\t" BEARER "\\n\"}", "{\"a\":\"\\t" HIDDEN "\\n\"}" },
		{ "{\"a\":\"\\u0042earer abcdefghijklmnopqrst\"}",
		  "{\"a\":\"[*****REDACTED]" STARS "*******\"}" },
		{ "{\"a\":\"Bearer abc\\u0064efghijklmn\\/pqrst\"}",
		  "{\"a\":\"[REDACTED]***" STARS STARS "\"}" },
		{ "{\"a\":\"Bearer abcdefghijklmnopqrst\\\\\"}", "{\"a\":\"" HIDDEN "\\\\\"}" },
		{ "{\"Authorization\": \"Basic dXNlcjpwYXNz\"}",
		  "{\"Authorization\": \"Basic [REDACTED]**\"}" },
		{ "\"{\\\"authorization\\\":\\\"Basic dXNlcjpwYXNz\\\"}\"",
		  "\"{\\\"authorization\\\":\\\"Basic [REDACTED]**\\\"}\"" },
		{ "{\"" BEARER "\":2}", "{\"" HIDDEN "\":2}" },
		/* blocked by kind, behind an escape or as one */
		{ "{\"a\":\"\\nghp_aB3dE6gH9jK2mN5pQ8\"}", NULL },
		{ "{\"a\":\"\\u0067hp_aB3dE6gH9jK2mN5pQ8\"}", NULL },
		{ "{\"a\":\"x\\bghp_aB3dE6g\\u00489jK2mN5pQ8\"}", NULL },
		{ "[\"a\", \"\\u0041KIA2345672345672345\"]", NULL },
		/* the known value, in escapes and without, and behind what only looks like one */
		{ "{\"a\":\"\\ns3cr3t+Value\\/with\\\"odd\\u007ebytes\"}", NULL },
		{ "{\"a\":\"\\u0073\\u0033cr3t+Value/with\\u0022odd~bytes\"}", NULL },
		{ "x \\u0073\\u0033cr3t+Value/with\\u0022odd~bytes", NULL },
		/* no JSON at all: as any text */
		{ "say " BEARER " and go", "say " HIDDEN " and go" },
		{ "\\q \\u12 \\", "\\q \\u12 \\" },
	};

	pass_rows(rows, ARRAY_LEN(rows));
}

#define TOKEN "ghp_aB3dE6gH9jK2mN5pQ8"
#define TAKEN "[REDACTED]************"

/* By default the rest of a conversation goes on without what must not leave. */
static void in_json_what_is_blocked_elsewhere_is_taken_out(void **state UNUSED)
{
	static const struct json_row rows[] = {
		{ "{\"a\":\"\\n" TOKEN "\"}", "{\"a\":\"\\n" TAKEN "\"}" },
		{ "{\"a\":\"\\u0067hp_aB3dE6gH9jK2mN5pQ8\"}",
		  "{\"a\":\"[*****REDACTED]************\"}" },
		{ "{\"a\":\"brig-0123456789abcdefghijklmnopqrstuv\"}",
		  "{\"a\":\"[REDACTED]" STARS STARS "*******\"}" },
		/* the known value, as it is, escaped, all escapes, coded */
		{ "{\"a\":\"x s3cr3t+Value/with\\\"odd~bytes y\"}",
		  "{\"a\":\"x [REDACTED]******************"
		  " y\"}" },
		{ "{\"a\":\"\\ns3cr3t+Value\\/with\\\"odd\\u007ebytes\"}",
		  "{\"a\":\"\\n[REDACTED]" STARS STARS "****\"}" },
		{ "[\"czNjcjN0K1ZhbHVlL3dpdGgib2RkfmJ5dGVz\"]",
		  "[\"[REDACTED]" STARS STARS "******\"]" },
		{ "[\"QXMzY3IzdCtWYWx1ZS93aXRoIm9kZH5ieXRlc0I=\"]",
		  "[\"QX[REDACTED]" STARS STARS "*****0I=\"]" },
		/* where it cannot be: a key of many lines, over the end of a string, no string */
		{ "{\"a\":\"-----BEGIN PRIVATE "
		  "KEY-----\\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj\"}",
		  NULL },
		{ "[\"s3cr3t+Value/with\",\"odd~bytes\"]",
		  "[\"s3cr3t+Value/with\",\"odd~bytes\"]" },
		{ "{\"a\":7333637233742b56616c75652f77697468226f64647e6279746573}", NULL },
	};

	soft = true;
	pass_rows(rows, ARRAY_LEN(rows));
}

static void a_written_block_stays_one_and_covered_bodies_are_blocked(void **state UNUSED)
{
	CLEANUP(buf) struct buf out = BUF_INIT(4096);
	struct envvar rule = { .name = "github-token", .value = "block" };

	soft = true;
	assert_false(json_pass("[\"" TOKEN "\"]", 7, false, &out));
	assert_false(json_pass("[\"s3cr3t+Value/with\\\"odd~bytes\"]", 7, false, &out));
	leaks.rules = (struct envlist){ .v = &rule, .n = 1 };
	assert_false(json_pass("[\"" TOKEN "\"]", 7, true, &out));
	assert_int_equal(out.len, 0);
	assert_true(json_pass("[\"AKIA2345672345672345\"]", 7, true, &out));
}

static void what_cannot_be_replaced_in_json_is_blocked(void **state UNUSED)
{
	CLEANUP(buf) struct buf out = BUF_INIT(4096);

	assert_false(json_pass("{\"a\":\"" BEARER "\"}", 7, false, &out)); /* a digest covers it */
	assert_string_equal(seen.kinds, "bearer-token ");
	assert_int_equal(seen.last.action, LEAK_BLOCK);
	assert_int_equal(out.len, 0);
}

/* --- scrubbing --- */

static void scrub_all(struct scrubber *s, const struct codings *c, const char *text, size_t n,
		      size_t step, struct buf *out, unsigned *hits)
{
	CLEANUP(scrub) struct scrub *b = NULL;

	assert_int_equal(scrub_open(s, unpacker, c, &b, &e), 0);
	for (size_t at = 0;; at += step) {
		size_t take = n - at < step ? n - at : step;

		assert_int_equal(scrub_feed(b, text + at, take, at + take == n, out, &e), 0);
		if (at + take == n)
			break;
	}
	*hits = scrub_hits(b);
}

static void every_form_is_scrubbed_whatever_the_chunks(void **state UNUSED)
{
	CLEANUP(scrubber) struct scrubber *s = NULL;

	assert_int_equal(scrubber_new(&secret, 1, false, &s, &e), 0);
	assert_true(scrub_needed(s));
	for (size_t i = 0; i < FORMS; i++)
		for (size_t step = 1; step < 300; step += step < 8 ? 1 : 37) {
			CLEANUP(buf) struct buf out = BUF_INIT(65536);
			char text[1024];
			unsigned hits;

			(void)snprintf(text, sizeof(text), "begin %s middle %s end", forms[i],
				       forms[i]);
			scrub_all(s, NULL, text, strlen(text), step, &out, &hits);
			assert_int_equal(hits, 2);
			assert_int_equal(strncmp(buf_str(&out), "begin ", 6), 0);
			assert_non_null(strstr(buf_str(&out), " middle "));
			assert_non_null(strstr(buf_str(&out), secret.placeholder));
			assert_int_equal(strcmp(buf_str(&out) + out.len - 4, " end"), 0);
			assert_null(strstr(buf_str(&out), forms[i]));
		}
}

static void other_bytes_go_through_unchanged_and_at_once(void **state UNUSED)
{
	CLEANUP(scrubber) struct scrubber *s = NULL;
	CLEANUP(scrub) struct scrub *b = NULL;
	CLEANUP(buf) struct buf out = BUF_INIT(65536);
	char text[] = "data: s3cr3t+Value/with, not the whole\n\n";

	assert_int_equal(scrubber_new(&secret, 1, false, &s, &e), 0);
	assert_int_equal(scrub_open(s, unpacker, NULL, &b, &e), 0);
	assert_int_equal(scrub_feed(b, text, strlen(text), false, &out, &e), 0);
	assert_string_equal(buf_str(&out), text); /* an event is not held back */
	assert_int_equal(scrub_hits(b), 0);
}

/* Where a scrubber with this secret pauses, in a stream that does not hold it: how much is out
 * after each piece. */
static void pauses(const struct secret *kept, const char *text, size_t n, size_t step,
		   struct buf *ret)
{
	CLEANUP(scrubber) struct scrubber *s = NULL;
	CLEANUP(scrub) struct scrub *b = NULL;
	CLEANUP(buf) struct buf out = BUF_INIT(1 << 20);

	assert_int_equal(scrubber_new(kept, 1, false, &s, &e), 0);
	assert_int_equal(scrub_open(s, unpacker, NULL, &b, &e), 0);
	for (size_t at = 0; at < n; at += step) {
		size_t take = n - at < step ? n - at : step;

		assert_int_equal(scrub_feed(b, text + at, take, false, &out, &e), 0);
		buf_printf(ret, "%zu ", out.len);
	}
	assert_int_equal(scrub_feed(b, "", 0, true, &out, &e), 0);
	assert_int_equal(scrub_hits(b), 0);
	assert_memory_equal(out.data, text, n);
}

/* What comes out when must tell nothing of a secret, or it can be read letter by letter. */
static void pauses_do_not_depend_on_the_secret(void **state UNUSED)
{
	static char value[SECRET_MAX + 1], text[90000];
	struct secret kept[] = {
		{ .value = "ghp_N2dmKEepbnBOa1b2c3d4" },
		{ .value = "ghp_N2dmKEepbnB~" },
		{ .value = "0000000000000000" },
		{ .value = "z9/+=&'\"\\<>%?#$!AAAAAAAAAAAAAAA" },
		{ .value = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789_-ABCDEFGHIJKLMNOP" },
		{ .value = value },
	};
	static const char *const lines[] = {
		"data: ghp_N2dmKEepbnBOa1b2c3d\n\n",
		"{\"a\":\"ghp_N2dmKEepbnBOa1\"}\n",
		"ghp_",
		"000000000000000x",
		"Z2hwX04yZG1LRWVwYm5CT2ExYjJj",
		"6768705f4e32646d4b",
		"sk-ant-api03-abc",
		"\r\n",
		"%67%68%70%5f%4e",
		"\xff\x80\x01",
		"\\u0067\\u0068",
		"z9/+=&amp;&#39;",
		"abcdefghij",
	};
	size_t n = 0;

	memset(value, 'q', SECRET_MAX);
	for (unsigned i = 0; n + 4096 < 40000; i++)
		n += (size_t)snprintf(text + n, 4096, "%s%s",
				      lines[(i * i + i / 3) % ARRAY_LEN(lines)],
				      i % 5 == 0   ? " "
				      : i % 7 == 0 ? "\n"
						   : "");
	for (; n + 64 < sizeof(text); n += 8) /* and a run that is longer than what is held */
		memcpy(text + n, "ghp_N2q.", 8);
	for (size_t step = 1; step < 40000; step = step * 3 + 7) {
		CLEANUP(buf) struct buf first = BUF_INIT(2 << 20);

		for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
			CLEANUP(buf) struct buf other = BUF_INIT(2 << 20);

			kept[i].name = "K";
			kept[i].len = strlen(kept[i].value);
			kept[i].placeholder = i % 2 ? "brig-0123456789" : NULL;
			pauses(&kept[i], text, n, step, i ? &other : &first);
			if (i)
				assert_string_equal(buf_str(&first), buf_str(&other));
		}
	}
}

static void what_is_held_back_ends_at_a_blank(void **state UNUSED)
{
	static char text[3 * SCRUB_HOLD];
	CLEANUP(scrubber) struct scrubber *s = NULL, *slow = NULL;
	CLEANUP(scrub) struct scrub *b = NULL, *late = NULL;
	CLEANUP(buf) struct buf out = BUF_INIT(1 << 20), last = BUF_INIT(1 << 20);

	assert_int_equal(scrubber_new(&secret, 1, false, &s, &e), 0);
	assert_int_equal(scrub_open(s, unpacker, NULL, &b, &e), 0);
	assert_int_equal(scrub_feed(b, "{\"a\": 1}\n{\"b\"", 13, false, &out, &e), 0);
	assert_string_equal(buf_str(&out), "{\"a\": 1}\n");
	assert_int_equal(scrub_feed(b, ":2}\n", 4, false, &out, &e), 0);
	assert_string_equal(buf_str(&out), "{\"a\": 1}\n{\"b\":2}\n");
	memset(text, 'x', sizeof(text));
	out.len = 0;
	assert_int_equal(scrub_feed(b, text, sizeof(text), false, &out, &e), 0);
	assert_int_equal(out.len, sizeof(text) - SCRUB_HOLD);
	/* what looks like base64 may go on in the next line; an empty one ends it */
	assert_int_equal(scrub_feed(b, "\n", 1, false, &out, &e), 0);
	assert_int_equal(out.len, sizeof(text) + 1 - SCRUB_HOLD);
	assert_int_equal(scrub_feed(b, "\n", 1, false, &out, &e), 0);
	assert_int_equal(out.len, sizeof(text) + 2);
	/* a value with a blank in it: no byte ends anything */
	assert_int_equal(scrubber_new(&secret, 1, true, &slow, &e), 0);
	assert_int_equal(scrub_open(slow, unpacker, NULL, &late, &e), 0);
	assert_int_equal(scrub_feed(late, "one\n\ntwo\n\n", 10, false, &last, &e), 0);
	assert_int_equal(last.len, 0);
	assert_int_equal(scrub_feed(late, "", 0, true, &last, &e), 0);
	assert_string_equal(buf_str(&last), "one\n\ntwo\n\n");
}

static size_t deflated(const char *text, size_t n, int window, char *out, size_t max)
{
	z_stream z = { 0 };
	size_t len;

	assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY), Z_OK);
	z.next_in = (Bytef *)(uintptr_t)text;
	z.avail_in = (uInt)n;
	z.next_out = (Bytef *)out;
	z.avail_out = (uInt)max;
	assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
	len = max - z.avail_out;
	(void)deflateEnd(&z);
	return len;
}

static void coded_bodies_are_read(void **state UNUSED)
{
	static const struct {
		const char *coding;
		int window;
	} rows[] = { { "gzip", 31 }, { "deflate", 15 }, { "Deflate", -15 } };
	CLEANUP(scrubber) struct scrubber *s = NULL;
	static const char text[] = "before " VALUE " behind";

	assert_int_equal(scrubber_new(&secret, 1, false, &s, &e), 0);
	for (size_t i = 0; i < 3; i++)
		for (size_t step = 1; step < 100; step += 9) {
			CLEANUP(buf) struct buf out = BUF_INIT(65536);
			struct codings c;
			char coded[256];
			size_t n =
				deflated(text, strlen(text), rows[i].window, coded, sizeof(coded));
			unsigned hits;

			assert_int_equal(
				coding_parse(egress_text(rows[i].coding, strlen(rows[i].coding)),
					     &c),
				0);
			scrub_all(s, &c, coded, n, step, &out, &hits);
			assert_int_equal(hits, 1);
			assert_string_equal(buf_str(&out),
					    "before brig-0123456789abcdefghijklmnopqrstuv behind");
		}
}

static void codings_within_codings_and_members_are_read(void **state UNUSED)
{
	CLEANUP(scrubber) struct scrubber *s = NULL;
	CLEANUP(buf) struct buf out = BUF_INIT(65536);
	char one[512], two[512];
	struct codings c;
	unsigned hits;
	size_t n = deflated("a " VALUE, strlen("a " VALUE), 31, one, 256);

	n += deflated(" b", 2, 31, one + n, 256); /* a second member */
	n = deflated(one, n, 15, two, sizeof(two));
	assert_int_equal(scrubber_new(&secret, 1, false, &s, &e), 0);
	assert_int_equal(coding_parse(egress_text("gzip , deflate", 14), &c), 0);
	scrub_all(s, &c, two, n, 3, &out, &hits);
	assert_string_equal(buf_str(&out), "a brig-0123456789abcdefghijklmnopqrstuv b");
}

static void broken_and_swelling_bodies_are_cut(void **state UNUSED)
{
	CLEANUP(scrubber) struct scrubber *s = NULL;
	CLEANUP(mem)
	char *zeros = calloc(1, 32 << 20), *one = malloc(1 << 20), *two = malloc(1 << 20);
	struct codings c;
	size_t n;

	assert_int_equal(scrubber_new(&secret, 1, false, &s, &e), 0);
	assert_true(coding_parse(egress_text("compress", 8), &c) < 0);
	assert_true(coding_parse(egress_text("gzip,gzip,gzip,gzip", 19), &c) < 0);
	assert_int_equal(coding_parse(egress_text("identity", 8), &c), 0);
	assert_int_equal(c.n, 0);
	assert_int_equal(coding_parse(egress_text(NULL, 0), &c), 0);
	assert_int_equal(coding_parse(egress_text("gzip", 4), &c), 0);
	{
		CLEANUP(buf) struct buf out = BUF_INIT(65536);
		CLEANUP(scrub) struct scrub *b = NULL;

		assert_int_equal(scrub_open(s, unpacker, &c, &b, &e), 0);
		assert_int_equal(scrub_feed(b, "not gzip at all", 15, false, &out, &e), -EBADMSG);
	}
	n = deflated(VALUE, strlen(VALUE), 31, one, 1024);
	{
		CLEANUP(buf) struct buf out = BUF_INIT(65536);
		CLEANUP(scrub) struct scrub *b = NULL;

		assert_int_equal(scrub_open(s, unpacker, &c, &b, &e), 0);
		assert_int_equal(scrub_feed(b, one, n - 9, true, &out, &e), -EBADMSG);
	}
	n = deflated(zeros, 32 << 20, 31, one, 1 << 20);
	n = deflated(one, n, 31, two, 1 << 20);
	assert_int_equal(coding_parse(egress_text("gzip, gzip", 10), &c), 0);
	{
		CLEANUP(buf) struct buf out = BUF_INIT((size_t)64 << 20);
		CLEANUP(scrub) struct scrub *b = NULL;

		assert_int_equal(scrub_open(s, unpacker, &c, &b, &e), 0);
		assert_int_equal(scrub_feed(b, two, n, true, &out, &e), -EFBIG);
		assert_true(out.len < (9 << 20));
	}
}

static void texts_of_a_head_are_scrubbed(void **state UNUSED)
{
	CLEANUP(scrubber) struct scrubber *s = NULL;
	CLEANUP(buf) struct buf out = BUF_INIT(65536);
	unsigned hits = 0;

	assert_int_equal(scrubber_new(&secret, 1, false, &s, &e), 0);
	assert_int_equal(scrub_text(s, "echo " VALUE, 5 + strlen(VALUE), &out, &hits, &e), 0);
	assert_int_equal(hits, 1);
	assert_int_equal(scrub_text(s, " plain", 6, &out, &hits, &e), 0);
	assert_int_equal(hits, 1);
	assert_string_equal(buf_str(&out), "echo brig-0123456789abcdefghijklmnopqrstuv plain");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, fresh, gone)

static int begin_all(void **state UNUSED)
{
	return unpack_start(&unpacker, &e);
}

static int end_all(void **state UNUSED)
{
	unpacker = unpack_free(unpacker);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(every_kind_is_blocked_in_every_part),
		TEST(an_escape_before_a_token_is_no_part_of_it),
		TEST(what_only_looks_like_one_passes),
		TEST(samples_from_manuals_are_only_told),
		TEST(a_known_secret_is_found_in_every_form_and_cut),
		TEST(a_secret_in_two_requests_is_one),
		TEST(a_secret_of_thousands_of_bytes_is_found),
		TEST(tokens_are_redacted_in_place),
		TEST(what_is_not_a_secret_leaves_as_it_came),
		TEST(sixty_four_digits_alone_are_told),
		TEST(rules_change_what_is_done),
		TEST(an_end_without_bytes_is_an_end),
		TEST(what_comes_in_is_told_and_not_held),
		TEST(every_part_of_a_head_is_scanned),
		TEST(a_head_is_redacted_in_a_copy),
		TEST(host_names_are_scanned_before_anything_is_resolved),
		TEST(json_is_scanned_as_it_is_read_and_stays_json),
		TEST(what_cannot_be_replaced_in_json_is_blocked),
		TEST(in_json_what_is_blocked_elsewhere_is_taken_out),
		TEST(a_written_block_stays_one_and_covered_bodies_are_blocked),
		TEST(every_form_is_scrubbed_whatever_the_chunks),
		TEST(other_bytes_go_through_unchanged_and_at_once),
		TEST(pauses_do_not_depend_on_the_secret),
		TEST(what_is_held_back_ends_at_a_blank),
		TEST(coded_bodies_are_read),
		TEST(codings_within_codings_and_members_are_read),
		TEST(broken_and_swelling_bodies_are_cut),
		TEST(texts_of_a_head_are_scrubbed),
	};

	return cmocka_run_group_tests(tests, begin_all, end_all);
}
