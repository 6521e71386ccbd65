/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "egress/scan/scan.h"
#include "egress/scan/scrub.h"
#include "egress/oauth/oauth.h"
#include "egress/oauth/oauth_internal.h"
#include "model/known/login_file.h"

#define VALUE "rt-value-8Kq2vZx0Lw41"
#define TOKEN "At0ken-Wq7Zx9Lm3Kp5Rt1"
#define HOLDER "brig-0000000000000000000000000000000b"
#define LOGIN "brig-0000000000000000000000000000000a"

static const char *urls[] = { "https://login.example.org/token" };
static const char *hosts[] = { "login.example.org" }, *api[] = { "api.example.org" };
static const char *paths[] = { "/token" };
static const struct login_file way = { .token_urls = { urls, 1 } };
static struct credential_spec specs[] = {
	{ .name = "ACME",
	  .hosts = { hosts, 1 },
	  .slot = SLOT_BASIC,
	  .field = "",
	  .prefix = "",
	  .paths = { paths, 1 },
	  .login = &way },
	{ .name = "ACME", .hosts = { api, 1 }, .field = "Authorization", .prefix = "Bearer " },
};
static const struct credentiallist list = { specs, 2 };
static const struct secret secrets[] = {
	{ .name = "ACME", .value = VALUE, .len = sizeof(VALUE) - 1, .placeholder = LOGIN },
	{ .name = "ACME", .value = "madeupmadeup123456", .len = 18, .placeholder = HOLDER },
};
static struct creds *creds;
static struct oauth *oauth;
static struct oauth_news news;
static struct buf out, said;
static struct err e;

static int fresh(void **state UNUSED)
{
	memset(&e, 0, sizeof(e));
	out = (struct buf)BUF_INIT(OAUTH_ANSWER_MAX * 2);
	said = (struct buf)BUF_INIT(OAUTH_ANSWER_MAX * 2);
	return creds_new(&list, secrets, false, &creds, &e) < 0 ||
			       oauth_new(&list, secrets, creds, &oauth, &e) < 0
		       ? -1
		       : 0;
}

static int gone(void **state UNUSED)
{
	oauth = oauth_free(oauth);
	creds = creds_free(creds);
	buf_done(&out);
	buf_done(&said);
	return 0;
}

static int answer(const char *text)
{
	out.len = 0;
	return oauth_answer(oauth, 0, 1000, egress_text(text, strlen(text)), &out, &news, &e);
}

static void an_endpoint_is_one_path_of_one_host_over_tls(void **state UNUSED)
{
	static const struct {
		const char *host, *target;
		uint16_t port;
		bool tls;
		int is;
	} rows[] = {
		{ "login.example.org", "/token", 443, true, 0 },
		{ "login.example.org", "/token?a=b", 443, true, 0 },
		{ "login.example.org", "/%74oken", 443, true, 0 },
		{ "login.example.org", "/t%6Fken?a", 443, true, 0 },
		{ "login.example.org", "/token2", 443, true, OAUTH_NONE },
		{ "login.example.org", "/to/ken", 443, true, OAUTH_NONE },
		{ "login.example.org", "/token/more", 443, true, OAUTH_NONE },
		{ "login.example.org", "/", 443, true, OAUTH_NONE },
		{ "login.example.org", "*", 443, true, OAUTH_NONE },
		{ "login.example.org", "/api/a%2Fb;c//d", 443, true, OAUTH_NONE },
		{ "login.example.org", "/token/", 443, true, OAUTH_ODD },
		{ "login.example.org", "/Token", 443, true, OAUTH_ODD },
		{ "login.example.org", "//token", 443, true, OAUTH_ODD },
		{ "login.example.org", "/./token", 443, true, OAUTH_ODD },
		{ "login.example.org", "/a/../token", 443, true, OAUTH_ODD },
		{ "login.example.org", "/a/%2e%2E/token", 443, true, OAUTH_ODD },
		{ "login.example.org", "/a/..;x/token", 443, true, OAUTH_ODD },
		{ "login.example.org", "/token;x", 443, true, OAUTH_ODD },
		{ "login.example.org", "/token%3Fx", 443, true, OAUTH_ODD },
		{ "login.example.org", "/%2574oken", 443, true, OAUTH_ODD },
		{ "login.example.org", "/%2ftoken", 443, true, OAUTH_ODD },
		{ "login.example.org", "/\\token", 443, true, OAUTH_ODD },
		{ "login.example.org", "/token%00", 443, true, OAUTH_ODD },
		{ "login.example.org", "/token.json", 443, true, OAUTH_ODD },
		{ "login.example.org", "/token%20", 443, true, OAUTH_ODD },
		{ "login.example.org", "/token", 8443, true, OAUTH_ODD },
		{ "login.example.org", "/token", 443, false, OAUTH_ODD },
		{ "api.example.org", "/token", 443, true, OAUTH_NONE },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct host h;
		struct cred_target to = { .host = &h,
					  .port = rows[i].port,
					  .verified = rows[i].tls };

		assert_int_equal(host_parse(egress_text(rows[i].host, strlen(rows[i].host)), &h),
				 HOST_OK);
		assert_int_equal(
			oauth_endpoint(oauth, &to,
				       egress_text(rows[i].target, strlen(rows[i].target))),
			rows[i].is);
	}
}

static void bodies(const char *text, const char *sent, const char *own)
{
	uint64_t used;

	(void)gone(NULL);
	assert_int_equal(fresh(NULL), 0);
	assert_true(oauth_body(oauth, 0, egress_text(text, strlen(text)), &out, &said, &used));
	assert_string_equal(buf_str(&out), sent);
	assert_string_equal(buf_str(&said), own);
	assert_int_equal(used, strstr(sent, VALUE) != NULL);
}

static void a_placeholder_becomes_its_value_where_a_secret_belongs(void **state UNUSED)
{
	bodies("a=b&refresh_token=" LOGIN "&c", "a=b&refresh_token=" VALUE "&c",
	       "a=b&refresh_token=&c");
	bodies("client_secret=" LOGIN, "client_secret=" VALUE, "client_secret=");
	bodies("state=" LOGIN, "state=" LOGIN, "state=" LOGIN);
	bodies("refresh_token=x" LOGIN, "refresh_token=x" LOGIN, "refresh_token=x" LOGIN);
	bodies("code_verifier=" LOGIN, "code_verifier=" LOGIN, "code_verifier=" LOGIN);
	bodies("refresh_token=" HOLDER, "refresh_token=" HOLDER, "refresh_token=" HOLDER);
	bodies("{\"refreshToken\": \"" LOGIN "\", \"n\": 1}",
	       "{\"refreshToken\":\"" VALUE "\",\"n\":1}", "{\"refreshToken\":\"\",\"n\":1}");
	bodies("{\"a\":{\"token\":\"" LOGIN "\"}}", "{\"a\":{\"token\":\"" LOGIN "\"}}",
	       "{\"a\":{\"token\":\"" LOGIN "\"}}");
	bodies("", "", "");
}

static void what_an_answer_brings_is_known_and_hidden(void **state UNUSED)
{
	const struct secret *all;
	size_t n;

	assert_int_equal(answer("{\"access_token\":\"" TOKEN "\",\"expires_in\":9}"), 0);
	assert_int_equal(news.n, 1);
	assert_null(strstr(buf_str(&out), TOKEN));
	all = oauth_secrets(oauth, &n);
	assert_int_equal(n, 3);
	assert_string_equal(all[2].value, TOKEN);
	assert_non_null(strstr(buf_str(&out), all[2].placeholder));
	/* the same again is nothing new */
	assert_int_equal(answer("access_token=" TOKEN "&refresh_token=" VALUE), 0);
	assert_int_equal(news.n, 0);
	assert_non_null(strstr(buf_str(&out), all[2].placeholder));
	assert_non_null(strstr(buf_str(&out), LOGIN));
	assert_int_equal(answer("{\"refresh_token\":\"" TOKEN "2\"}"), 0);
	assert_non_null(news.renews);
}

static void what_cannot_be_kept_apart_is_refused(void **state UNUSED)
{
	static const char *const bad[] = {
		"{\"access_token\":\"short\"}",
		"{\"access_token\":\"application/json\"}",
		"{\"access_token\":\"aaaaaaaaaaaaaaaaaaa1\"}",
		"{\"id_token\":\"two words 1234567890 Ab\"}",
		"{\"access_token\":\"x" LOGIN "\"}",
		"{\"x\":[{\"my_token\":\"s3\"}]}",
		"{\"access_token\":\"" TOKEN "\",\"access_token\":\"" TOKEN "\"}",
		"<html>",
		"access_token",
		"{\"a\":",
		"[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]",
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (answer(bad[i]) >= 0)
			fail_msg("%s became %s", bad[i], buf_str(&out));
}

static void what_only_speaks_of_tokens_passes(void **state UNUSED)
{
	const char *text = "{\"token_type\":\"Bearer\",\"token_use\":\"access\",\"expires_in\":5,"
			   "\"refresh_token_expires_in\":\"15897600\",\"token_endpoint\":"
			   "\"https://login.example.org/token\",\"scope\":\"a b\"}";

	assert_int_equal(answer(text), 0);
	assert_string_equal(buf_str(&out), text);
	assert_int_equal(news.n, 0);
}

static void those_that_have_expired_make_room(void **state UNUSED)
{
	char text[128];
	size_t n;

	for (int i = 0; i < OAUTH_MAX + 3; i++) {
		(void)snprintf(text, sizeof(text),
			       "{\"access_token\":\"%s%03d\",\"expires_in\":%d}", TOKEN, i,
			       i < 3 ? 1 : 5000);
		out.len = 0;
		assert_int_equal(oauth_answer(oauth, 0, 1000 + i, egress_text(text, strlen(text)),
					      &out, &news, &e),
				 0);
	}
	(void)oauth_secrets(oauth, &n);
	assert_int_equal(n, 2 + OAUTH_MAX);
	assert_true(answer("{\"access_token\":\"" TOKEN "xyz\"}") < 0);
}

static void an_open_answer_learns_of_a_new_secret_at_once(void **state UNUSED)
{
	CLEANUP(scrubber) struct scrubber *s = NULL;
	static const char more[] = "lue-8Kq2vZx0Lw41\n" TOKEN " and " VALUE;
	struct scrub *b = NULL;
	const struct secret *all;
	char want[256];
	size_t n;

	assert_int_equal(scrubber_new(secrets, 2, false, &s, &e), 0);
	assert_int_equal(scrub_open(s, NULL, NULL, &b, &e), 0);
	assert_int_equal(scrub_feed(b, "begun rt-va", 11, false, &out, &e), 0);
	assert_int_equal(answer("access_token=" TOKEN), 0);
	out.len = 0;
	all = oauth_secrets(oauth, &n);
	assert_int_equal(scrubber_renew(&s, all, n, &e), 0);
	/* What was held is of the old table, and what follows of both. */
	assert_int_equal(scrub_feed(b, more, strlen(more), true, &out, &e), 0);
	(void)snprintf(want, sizeof(want), "%s\n%s and %s", LOGIN, all[2].placeholder, LOGIN);
	assert_string_equal(buf_str(&out), want);
	b = scrub_close(b);
}

static void requests_know_a_new_secret_and_what_went_before(void **state UNUSED)
{
	CLEANUP(scanner) struct scanner *s = NULL;
	static const struct leak_spec leaks = { .scan = true };
	const struct scan_options o = { .leaks = &leaks, .secrets = secrets, .n_secrets = 2 };
	struct scan *open = NULL, *later = NULL;
	struct scan_release r;
	struct egress_verdict v;
	const struct secret *all;
	char first[] = "At0ken-Wq7Zx", rest[] = "9Lm3Kp5Rt1", old[] = VALUE;
	size_t n;

	assert_int_equal(scanner_new(&o, &s, &e), 0);
	assert_int_equal(scan_open(s, SCAN_OUT, &open, &e), 0);
	assert_true(scan_feed(open, first, strlen(first), true, &r, &v));
	open = scan_close(open);
	assert_int_equal(scan_open(s, SCAN_OUT, &open, &e), 0);
	assert_int_equal(answer("access_token=" TOKEN), 0);
	all = oauth_secrets(oauth, &n);
	assert_int_equal(scanner_renew(&s, all, n, &e), 0);
	assert_int_equal(scan_open(s, SCAN_OUT, &later, &e), 0);
	assert_false(scan_feed(later, rest, strlen(rest), true, &r, &v)); /* its first half went */
	assert_false(scan_feed(open, old, strlen(old), true, &r, &v));    /* it has its own table */
	open = scan_close(open);
	later = scan_close(later);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup_teardown(an_endpoint_is_one_path_of_one_host_over_tls, fresh, gone),
	cmocka_unit_test_setup_teardown(a_placeholder_becomes_its_value_where_a_secret_belongs,
					fresh, gone),
	cmocka_unit_test_setup_teardown(what_an_answer_brings_is_known_and_hidden, fresh, gone),
	cmocka_unit_test_setup_teardown(what_cannot_be_kept_apart_is_refused, fresh, gone),
	cmocka_unit_test_setup_teardown(what_only_speaks_of_tokens_passes, fresh, gone),
	cmocka_unit_test_setup_teardown(those_that_have_expired_make_room, fresh, gone),
	cmocka_unit_test_setup_teardown(an_open_answer_learns_of_a_new_secret_at_once, fresh, gone),
	cmocka_unit_test_setup_teardown(requests_know_a_new_secret_and_what_went_before, fresh,
					gone),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
