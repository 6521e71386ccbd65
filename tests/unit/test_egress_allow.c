/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "egress/rules/allow.h"
#include "egress/rules/rate.h"
#include "model/settings/rule.h"

static struct spec *s;
static struct egress_rules *r;
static struct egress_verdict v;
static struct err e;

static int fresh(void **state UNUSED)
{
	memset(&e, 0, sizeof(e));
	s = spec_new(&e);
	return s ? 0 : -1;
}

static int gone(void **state UNUSED)
{
	r = egress_rules_free(r);
	s = spec_free(s);
	return 0;
}

static void set(enum field_id id, const char *text)
{
	if (spec_set(s, id, text, ORIGIN_FLAG, &e) < 0)
		fail_msg("%s", e.what);
}

static void allow(const char *text)
{
	set(FIELD_EGRESS_ALLOW, text);
}

static void compile(void)
{
	r = egress_rules_free(r);
	if (egress_rules_new(&s->egress, &r, &e) < 0)
		fail_msg("%s", e.what);
}

static struct egress_text t(const char *text)
{
	return egress_text(text, text ? strlen(text) : 0);
}

/* The same question through every transport must get the same answer about the name. */
static bool tunnel(const char *host, uint16_t port)
{
	return egress_decide(
		r,
		&(struct egress_request){ .via = EGRESS_VIA_TUNNEL, .host = t(host), .port = port },
		&v);
}

static bool tls(const char *connected, const char *sni, const char *host)
{
	return egress_decide(r,
			     &(struct egress_request){ .via = EGRESS_VIA_TLS,
						       .host = t(host),
						       .tunnel = t(connected),
						       .sni = t(sni),
						       .port = 443 },
			     &v);
}

static bool request_via(enum egress_via via, const char *method, const char *host, uint16_t port,
			const char *target)
{
	return egress_decide(
		r,
		&(struct egress_request){ .via = via,
					  .host = t(host),
					  .sni = via == EGRESS_VIA_TLS ? t(host) : t(NULL),
					  .port = port,
					  .method = t(method),
					  .target = t(target) },
		&v);
}

static bool request(const char *method, const char *host, const char *target)
{
	return request_via(EGRESS_VIA_TLS, method, host, 443, target);
}

static void an_empty_list_denies_all(void **state UNUSED)
{
	compile();
	assert_false(tunnel("example.org", 443));
	assert_int_equal(v.reason, EGRESS_NOT_ALLOWED);
	assert_string_equal(v.what, "Host not in allowlist: example.org");
	assert_string_equal(v.hint, "--allow example.org");
	assert_int_equal(egress_reason_status(v.reason), 403);
}

static void the_hint_is_the_line_that_would_allow_it(void **state UNUSED)
{
	static const char *const wanted[] = { "a.example", "b.example" };

	for (size_t i = 0; i < 2; i++) {
		compile();
		assert_false(tunnel(wanted[i], i ? 8443 : 443));
		assert_int_equal(strncmp(v.hint, "--allow ", 8), 0);
		allow(v.hint + 8);
		compile();
		assert_true(tunnel(wanted[i], i ? 8443 : 443));
	}
}

static void the_hint_for_a_request_would_allow_it_too(void **state UNUSED)
{
	char rule[sizeof(v.hint)];

	allow("GET a.example/repos/");
	compile();
	assert_false(request("POST", "a.example", "/user/keys?x=y"));
	assert_string_equal(v.what,
			    "Host not in allowlist for this request: POST a.example/user/keys");
	assert_string_equal(v.hint, "--allow 'POST a.example/user/keys'");
	memcpy(rule, v.hint + 9, strlen(v.hint + 9) + 1);
	rule[strlen(rule) - 1] = '\0';
	allow(rule);
	compile();
	assert_true(request("POST", "a.example", "/user/keys?x=y"));
}

static void names_match_label_by_label(void **state UNUSED)
{
	allow("example.com");
	allow("*.example.org");
	compile();
	assert_true(tunnel("example.com", 443));
	assert_string_equal(v.rule, "example.com");
	assert_true(tunnel("EXAMPLE.com.", 443));
	assert_true(tunnel("a.b.example.org", 443));
	assert_string_equal(v.rule, "*.example.org");
	assert_false(tunnel("example.org", 443));
	assert_false(tunnel("www.example.com", 443));
	assert_false(tunnel("evilexample.com", 443));
	assert_false(tunnel("example.com.evil.net", 443));
	assert_false(tunnel("example.com@evil.net", 443));
	assert_int_equal(v.reason, EGRESS_BAD_REQUEST);
	assert_false(tunnel("127.0.0.1", 443));
	assert_int_equal(v.reason, EGRESS_NOT_ALLOWED);
	assert_false(tunnel("2130706433", 443));
	assert_false(tunnel("[::1]", 443));
}

static void the_port_is_part_of_the_rule(void **state UNUSED)
{
	allow("a.example");
	allow("b.example:80,8443");
	compile();
	assert_true(tunnel("a.example", 443));
	assert_false(tunnel("a.example", 80));
	assert_false(tunnel("a.example", 22));
	assert_string_equal(v.hint, "--allow ssh:a.example");
	assert_false(tunnel("b.example", 443));
	assert_true(tunnel("b.example", 8443));
	assert_false(tunnel("b.example", 0));
}

static void deny_beats_allow(void **state UNUSED)
{
	allow("*.example.org");
	allow("a.example");
	set(FIELD_EGRESS_DENY, "bad.example.org");
	set(FIELD_EGRESS_DENY, "POST a.example/admin");
	compile();
	assert_true(tunnel("good.example.org", 443));
	assert_false(tunnel("bad.example.org", 443));
	assert_int_equal(v.reason, EGRESS_DENIED);
	assert_string_equal(v.rule, "bad.example.org");
	assert_false(tunnel("bad.example.org", 8443)); /* at any port */
	assert_int_equal(v.reason, EGRESS_DENIED);
	assert_true(tunnel("a.example", 443));
	assert_true(request("GET", "a.example", "/admin"));
	assert_false(request("POST", "a.example", "/admin/x"));
	assert_int_equal(v.reason, EGRESS_DENIED);
	assert_false(request("POST", "a.example", "/x/%2e%2e/admin"));
	assert_int_equal(v.reason, EGRESS_BAD_REQUEST);
}

static void groups_hold_their_hosts(void **state UNUSED)
{
	allow("@pypi");
	set(FIELD_EGRESS_GROUPS, "git");
	compile();
	assert_true(tunnel("pypi.org", 443));
	assert_string_equal(v.rule, "@pypi");
	assert_true(tunnel("x.pythonhosted.org", 443));
	assert_true(tunnel("api.github.com", 443));
	assert_string_equal(v.rule, "@git");
	assert_false(tunnel("crates.io", 443));
}

static void methods_and_paths_are_part_of_the_rule(void **state UNUSED)
{
	allow("GET,HEAD a.example/v1/");
	allow("b.example");
	compile();
	assert_true(tunnel("a.example", 443)); /* as far as can be told yet */
	assert_true(request("GET", "a.example", "/v1/x?y"));
	assert_true(request("HEAD", "a.example", "/v1/"));
	assert_true(request("GET", "a.example", "/%76%31/x"));
	assert_false(request("POST", "a.example", "/v1/x"));
	assert_false(request("GET", "a.example", "/v2"));
	assert_false(request("GET", "a.example", "/v1"));
	assert_int_equal(v.reason, EGRESS_NOT_ALLOWED);
	assert_false(request("GET", "a.example", "/v1/../v2"));
	assert_int_equal(v.reason, EGRESS_BAD_REQUEST);
	assert_false(request("GET", "a.example", "/v1/..%2fv2"));
	assert_int_equal(v.reason, EGRESS_BAD_REQUEST);
	/* where no rule looks at paths, odd ones are the server's own business */
	assert_true(request("GET", "b.example", "/@scope%2fname"));
	assert_true(request("GET", "b.example", "/a/../b"));
	assert_false(request("GET", "b.example", "/a b"));
	assert_false(request("GET", "b.example", "b"));
	assert_false(request("get", "b.example", "/"));
	assert_false(request("TRACE", "b.example", "/"));
	assert_false(request("CONNECT", "b.example", "/"));
	assert_true(request("OPTIONS", "b.example", "*"));
	assert_false(request("GET", "b.example", "*"));
	assert_int_equal(v.reason, EGRESS_BAD_REQUEST);
}

static void one_name_in_every_layer(void **state UNUSED)
{
	allow("a.example");
	allow("b.example");
	compile();
	assert_true(tls("a.example", "a.example", "a.example"));
	assert_true(tls("A.example.", "a.EXAMPLE", "a.example"));
	assert_true(tls(NULL, "a.example", "a.example"));
	assert_false(tls("a.example", "b.example", "a.example"));
	assert_int_equal(v.reason, EGRESS_TLS_MISMATCH);
	assert_false(tls("a.example", "a.example", "b.example"));
	assert_int_equal(v.reason, EGRESS_TLS_MISMATCH);
	assert_false(tls("b.example", "a.example", "a.example"));
	assert_int_equal(v.reason, EGRESS_TLS_MISMATCH);
	assert_false(tls("a.example", NULL, "a.example"));
	assert_int_equal(v.reason, EGRESS_TLS_MISMATCH);
	assert_int_equal(egress_reason_status(v.reason), 421);
}

static void plain_http_is_refused_unless_permitted(void **state UNUSED)
{
	allow("a.example");
	allow("b.example:80");
	compile();
	assert_false(request_via(EGRESS_VIA_HTTP, "GET", "a.example", 80, "/"));
	assert_string_equal(v.what, "plain HTTP to a.example is refused");
	assert_false(request_via(EGRESS_VIA_HTTP, "GET", "b.example", 80, "/"));
	assert_string_equal(v.what, "plain HTTP to b.example is refused");
	assert_false(request_via(EGRESS_VIA_HTTP, "GET", "c.example", 80, "/"));
	assert_string_equal(v.what, "Host not in allowlist: c.example:80");
	assert_string_equal(v.hint, "--allow c.example, and https:// in its address");
	set(FIELD_EGRESS_HTTPS_ONLY, "false");
	compile();
	assert_false(request_via(EGRESS_VIA_HTTP, "GET", "a.example", 80, "/"));
	assert_true(request_via(EGRESS_VIA_HTTP, "GET", "b.example", 80, "/"));
	assert_false(egress_decide(r,
				   &(struct egress_request){ .via = EGRESS_VIA_OTHER,
							     .host = t("b.example"),
							     .port = 80 },
				   &v));
}

static void this_machine_is_closed_but_for_one_port(void **state UNUSED)
{
	allow("host.brig.internal:22");
	set(FIELD_EGRESS_HOST_SERVICE, "5432");
	compile();
	assert_false(tunnel("localhost", 443));
	assert_false(tunnel("a.localhost", 443));
	assert_false(tunnel("printer.local", 443));
	assert_false(tunnel("host.brig.internal", 22));
	assert_int_equal(v.reason, EGRESS_PRIVATE_ADDRESS);
	assert_true(tunnel("host.brig.internal", 5432));
	assert_true(v.host_service && v.pinned && v.pin_port == 5432);
	assert_int_equal(addr_class(&v.pin), ADDR_LOOPBACK);
	assert_true(egress_decide(r,
				  &(struct egress_request){ .via = EGRESS_VIA_OTHER,
							    .host = t("host.brig.internal"),
							    .port = 5432 },
				  &v));
}

static void a_pin_opens_one_name_and_no_metadata(void **state UNUSED)
{
	allow("git.corp.example");
	allow("web.corp.example:80");
	set(FIELD_EGRESS_RESOLVE, "git.corp.example=10.0.0.5:8443");
	set(FIELD_EGRESS_RESOLVE, "web.corp.example=127.0.0.1");
	compile();
	assert_true(tunnel("git.corp.example", 443));
	assert_true(v.pinned && v.pin_port == 8443);
	assert_int_equal(addr_class(&v.pin), ADDR_PRIVATE);
	assert_false(tunnel("other.corp.example", 443));
	/* loopback is exempt from https_only */
	assert_true(request_via(EGRESS_VIA_HTTP, "GET", "web.corp.example", 80, "/"));
	assert_int_equal(v.pin_port, 80);
	set(FIELD_EGRESS_RESOLVE, "meta.example=169.254.169.254");
	assert_true(egress_rules_new(&s->egress, &r, &e) < 0);
	assert_non_null(strstr(e.what, "cloud metadata"));
}

/* While brig learns: what a person could be asked about passes, and nothing else. */
static void learning_opens_public_names_alone(void **state UNUSED)
{
	set(FIELD_EGRESS_DENY, "closed.example");
	s->egress.learn = true;
	compile();
	assert_true(tunnel("any.example", 443) && tunnel("any.example", 8443));
	assert_string_equal(v.rule, EGRESS_LEARNS);
	assert_true(request("DELETE", "any.example", "/x"));
	assert_false(tunnel("closed.example", 443));
	assert_int_equal(v.reason, EGRESS_DENIED);
	assert_false(tunnel("10.0.0.1", 443));
	assert_false(tunnel("printer.local", 443));
	assert_false(tunnel("localhost", 443));
	assert_int_equal(v.reason, EGRESS_PRIVATE_ADDRESS);
	assert_false(request_via(EGRESS_VIA_HTTP, "GET", "any.example", 80, "/"));
	assert_false(request_via(EGRESS_VIA_OTHER, NULL, "any.example", 22, NULL));
}

static void an_address_is_refused_with_advice_that_fits(void **state UNUSED)
{
	allow("a.example");
	compile();
	assert_false(tunnel("93.184.216.34", 443));
	assert_non_null(strstr(v.hint, "egress.resolve"));
	assert_false(tunnel("169.254.169.254", 80));
	assert_non_null(strstr(v.hint, "--credential"));
	assert_null(strstr(v.hint, "egress.resolve"));
}

static void answers_that_are_not_public_are_dropped(void **state UNUSED)
{
	static const char *const closed[] = { "127.0.0.1",      "10.0.0.1", "169.254.169.254",
					      "::ffff:1.1.1.1", "fd00::1",  "198.18.0.1" };
	struct addr own, a;

	assert_int_equal(addr_parse("93.184.216.34", 13, &own), 0);
	allow("a.example");
	compile();
	assert_true(tunnel("a.example", 443));
	for (size_t i = 0; i < 6; i++) {
		assert_int_equal(addr_parse(closed[i], strlen(closed[i]), &a), 0);
		assert_false(egress_address(&a, &own, 1, &v));
		assert_int_equal(v.reason, EGRESS_PRIVATE_ADDRESS);
	}
	assert_false(egress_address(&own, &own, 1, &v));
	v.reason = EGRESS_OK;
	assert_int_equal(addr_parse("1.1.1.1", 7, &a), 0);
	assert_true(egress_address(&a, &own, 1, &v));
}

static bool passes(const char *host, const char *name)
{
	struct host h;

	assert_int_equal(host_parse(egress_text(host, strlen(host)), &h), HOST_OK);
	return egress_field_passes(r, &h, egress_text(name, strlen(name)));
}

static void fields_pass_by_their_names(void **state UNUSED)
{
	static const char *const common[] = {
		"Accept",      "accept-language",    "CONTENT-TYPE",   "If",
		"If-Match",    "x-stainless-lang",   "anthropic-beta", "Git-Protocol",
		"npm-command", "x-amz-meta-project", "x-goog-api-key", "Sec-Fetch-Mode",
		"OpenAI-Beta", "x-amz-date",         "traceparent",    "originator",
	};
	static const char *const others[] = {
		"x-ms-rename-source",
		"X-Symlink-Target",
		"X-Object-Manifest",
		"Content-Location",
		"Link",
		"Slug",
		"X-Method",
		"Request-Uri",
		"X-Bz-File-Name",
		"Dropbox-API-Arg",
		"X-Amz-Target",
		"accep",
		"acceptor",
		"",
		"x-amz-",
		"Upload-Metadata",
	};

	set(FIELD_EGRESS_FIELDS, "a.example X-Tenant");
	set(FIELD_EGRESS_FIELDS, "*.b.example X-Acme-*");
	compile();
	for (size_t i = 0; i < ARRAY_LEN(common); i++)
		assert_true(passes("a.example", common[i]));
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		if (passes("a.example", others[i]))
			fail_msg("'%s' passed", others[i]);
	assert_true(passes("a.example", "x-tenant"));
	assert_false(passes("a.example", "x-tenant-2"));
	assert_false(passes("b.example", "x-acme-1"));
	assert_true(passes("x.b.example", "x-acme-1"));
	assert_false(passes("x.b.example", "x-tenant"));
}

static void passthrough_excludes_rules_about_requests(void **state UNUSED)
{
	allow("*.example.org");
	set(FIELD_EGRESS_PASSTHROUGH, "pinned.example.org");
	compile();
	assert_true(tls(NULL, "pinned.example.org", "pinned.example.org"));
	assert_true(v.passthrough);
	assert_true(tls(NULL, "a.example.org", "a.example.org"));
	assert_false(v.passthrough);
	allow("GET pinned.example.org/x");
	assert_true(egress_rules_new(&s->egress, &r, &e) < 0);
	assert_non_null(strstr(e.what, "about requests"));
}

static void wildcards_for_anybody_are_refused(void **state UNUSED)
{
	static const char *const wide[] = {
		/* of the list, with its "*", in A-labels, and above one of them */
		"*.github.io", "*.co.uk", "*.kobe.jp", "*.a.ck", "*.xn--55qx5d.cn", "*.a.run.app",
		"*.deno.dev", "*.supabase.co", "*.S3.Amazonaws.com", "*.fastly.net",
		/* of brig's own, at any depth */
		"*.nip.io", "*.oast.fun", "*.webhook.site", "*.blob.core.windows.net",
		"*.s3.us-east-1.amazonaws.com", "*.lambda-url.us-east-1.on.aws",
		"*.x.cloudapp.azure.com"
	};

	for (size_t i = 0; i < ARRAY_LEN(wide); i++) {
		s = spec_free(s);
		s = spec_new(&e);
		allow(wide[i]);
		assert_true(egress_rules_new(&s->egress, &r, &e) < 0);
		assert_true(spec_check(s, &(struct place){ .cwd = "/srv/x" }, &e) < 0);
		assert_non_null(strstr(e.what, "anybody"));
	}
	allow("me.github.io");
}

/* Its control: a name of somebody's own, an exception of the list, what merely ends alike. */
static void wildcards_for_somebody_are_taken(void **state UNUSED)
{
	static const char *const own[] = { "*.me.github.io",   "*.example.co.uk", "*.city.kobe.jp",
					   "*.www.ck",         "*.example.org",   "*.notgithub.io",
					   "*.xamazonaws.com", "*.crates.io",     "*.github.com",
					   "*.example.test",   "*.me.hf.space" };

	for (size_t i = 0; i < ARRAY_LEN(own); i++)
		allow(own[i]);
	compile();
}

static void a_denial_is_told_in_json(void **state UNUSED)
{
	CLEANUP(buf) struct buf b = BUF_INIT(4096);

	compile();
	assert_false(tunnel("exa\"m\x01ple.org", 443));
	verdict_json(&v, &b);
	assert_non_null(strstr(buf_str(&b), "\"reason\":\"bad-request\""));
	assert_null(strchr(buf_str(&b), 1));
	buf_done(&b);
	b = (struct buf)BUF_INIT(4096);
	assert_false(tunnel("example.org", 8443));
	verdict_json(&v, &b);
	assert_string_equal(buf_str(&b),
			    "{\"error\":\"Host not in allowlist: example.org:8443; --allow "
			    "example.org:8443\",\"reason\":\"not-allowed\",\"what\":\"Host not in "
			    "allowlist: example.org:8443\",\"hint\":\"--allow "
			    "example.org:8443\",\"host\":\"example.org\",\"port\":8443,\"rule\":"
			    "null}\n");
}

/* --- limits --- */

static struct host name(const char *text)
{
	struct host h;

	assert_int_equal(host_parse(t(text), &h), HOST_OK);
	return h;
}

static void requests_a_minute_are_counted_by_host_and_in_all(void **state UNUSED)
{
	struct rate_spec limits = { .domain = 3, .total = 5 };
	CLEANUP(rate) struct rate *rate = NULL;
	struct host a = name("a.example"), b = name("b.example");

	assert_int_equal(rate_new(&limits, &rate, &e), 0);
	for (int i = 0; i < 3; i++)
		assert_true(rate_request(rate, &a, 1000, &v));
	assert_false(rate_request(rate, &a, 1000, &v));
	assert_int_equal(v.reason, EGRESS_LIMIT);
	assert_int_equal(v.retry_after, 20);
	assert_int_equal(egress_reason_status(v.reason), 429);
	assert_true(rate_request(rate, &b, 1000, &v));
	assert_true(rate_request(rate, &b, 1000, &v));
	assert_false(rate_request(rate, &b, 1000, &v)); /* five in all */
	assert_int_equal(v.retry_after, 12);
	assert_false(rate_request(rate, &a, 10999, &v));
	assert_true(rate_request(rate, &b, 13000, &v));
	assert_false(rate_request(rate, &a, 500, &v)); /* a clock that goes back gives nothing */
	assert_true(rate_request(rate, &a, 21000 + 12000, &v));
	assert_int_equal(v.wait_ms, 0);
}

static void one_more_than_that_is_given_its_turn(void **state UNUSED)
{
	struct rate_spec limits = { .domain = 60, .total = 1000 };
	CLEANUP(rate) struct rate *rate = NULL;
	struct host a = name("a.example"), b = name("b.example");

	assert_int_equal(rate_new(&limits, &rate, &e), 0);
	for (uint32_t i = 0; i < 70; i++) {
		v = (struct egress_verdict){ 0 };
		assert_true(rate_request(rate, &a, 5000, &v));
		assert_int_equal(v.wait_ms, i < 60 ? 0 : (i - 59) * 1000);
	}
	assert_false(rate_request(rate, &a, 5000, &v));
	assert_int_equal(v.retry_after, 11);
	v = (struct egress_verdict){ 0 };
	assert_true(rate_request(rate, &b, 5000, &v)); /* others do not wait for it */
	assert_int_equal(v.wait_ms, 0);
	assert_true(rate_request(rate, &a, 8000, &v)); /* behind those who were given theirs */
	assert_int_equal(v.wait_ms, 8000);
	assert_true(rate_request(rate, &a, 200000, &v));
	assert_int_equal(v.wait_ms, 0);
}

static void the_shipped_groups_have_a_rate_only_where_one_is_written(void **state UNUSED)
{
	struct rate_spec limits = {
		.domain = 2, .total = 3, .spare_domain = true, .spare_total = true
	};
	struct host npm = name("any.npmjs.org"), like = name("npmjs.org.example");

	for (int spare = 1; spare >= 0; spare--) {
		CLEANUP(rate) struct rate *rate = NULL;
		int passed = 0;

		limits.spare_domain = limits.spare_total = spare;
		assert_int_equal(rate_new(&limits, &rate, &e), 0);
		for (int i = 0; i < 1000; i++)
			passed += rate_request(rate, &npm, 1000, &v);
		assert_int_equal(passed, spare ? 1000 : 2);
		for (int i = passed = 0; i < 1000; i++)
			passed += rate_request(rate, &like, 1000, &v);
		assert_int_equal(passed, spare ? 2 : 1);
	}
}

static void looking_often_loses_nothing(void **state UNUSED)
{
	struct rate_spec limits = { .domain = 7 };
	CLEANUP(rate) struct rate *rate = NULL;
	struct host a = name("a.example");
	unsigned passed = 0;

	assert_int_equal(rate_new(&limits, &rate, &e), 0);
	for (uint64_t ms = 0; ms < 600000; ms += 7)
		passed += rate_request(rate, &a, ms, &v);
	assert_in_range(passed, 77, 79); /* 7 at once, 7 a minute for ten, and whose turn comes */
}

static void names_connections_and_bytes_have_budgets(void **state UNUSED)
{
	struct rate_spec limits = {
		.names = 2, .connections = 1, .bytes_out = 100, .bytes_in = 10
	};
	CLEANUP(rate) struct rate *rate = NULL;
	struct host a = name("a.example"), b = name("b.example"), c = name("c.example");

	assert_int_equal(rate_new(&limits, &rate, &e), 0);
	assert_true(rate_name(rate, &a, &v) && rate_name(rate, &b, &v) && rate_name(rate, &a, &v));
	assert_false(rate_name(rate, &c, &v));
	assert_false(rate_request(rate, &c, 0, &v));
	assert_true(rate_connect(rate, &v));
	assert_false(rate_connect(rate, &v));
	rate_disconnect(rate);
	assert_true(rate_connect(rate, &v));
	assert_true(rate_sent(rate, 60, &v));
	assert_false(rate_sent(rate, 41, &v));
	assert_true(rate_sent(rate, 40, &v));
	assert_false(rate_sent(rate, 1, &v));
	assert_false(rate_received(rate, UINT64_MAX, &v));
	assert_true(rate_received(rate, 10, &v));
	assert_int_equal(v.reason, EGRESS_LIMIT);
}

static void a_thousand_names_are_found_again(void **state UNUSED)
{
	struct rate_spec limits = { .names = 1000 };
	CLEANUP(rate) struct rate *rate = NULL;
	char text[32];

	assert_int_equal(rate_new(&limits, &rate, &e), 0);
	for (int round = 0; round < 2; round++)
		for (int i = 0; i < 1000; i++) {
			struct host h;

			(void)snprintf(text, sizeof(text), "n%d.example", i);
			h = name(text);
			assert_true(rate_name(rate, &h, &v));
		}
}

static bool opens(const char *host, const char *target)
{
	struct egress_request q = { .via = EGRESS_VIA_TLS,
				    .host = t(host),
				    .sni = t(host),
				    .port = 443,
				    .method = t("GET"),
				    .target = t(target),
				    .websocket = true };

	return egress_decide(r, &q, &v);
}

static void a_websocket_needs_a_rule_of_its_own(void **state UNUSED)
{
	allow("api.example.org");
	allow("ws:chat.example.org/v1/");
	compile();
	assert_true(request("GET", "api.example.org", "/v1/x"));
	assert_false(opens("api.example.org", "/v1/x"));
	assert_string_equal(v.hint, "--allow ws:api.example.org/v1/x");
	assert_false(v.askable);
	/* While brig learns no rule names the host, and a rule for the host alone would not do. */
	assert_false(opens("other.example.org", "/v1/x"));
	assert_string_equal(v.hint, "--allow ws:other.example.org/v1/x");
	assert_false(v.askable);
	assert_true(opens("chat.example.org", "/v1/x"));
	assert_false(opens("chat.example.org", "/v2/x"));
	assert_false(request("GET", "chat.example.org", "/v1/x"));
	set(FIELD_EGRESS_DENY, "chat.example.org/v1/private");
	compile();
	assert_false(opens("chat.example.org", "/v1/private"));
	assert_true(opens("chat.example.org", "/v1/x"));
}

static void a_tunnel_for_ssh_is_that_and_nothing_else(void **state UNUSED)
{
	allow("ssh:git.example.org");
	allow("*.example.org:22");
	allow("ssh:odd.example.net:443");
	allow("odd.example.net");
	allow("web.example.net");
	compile();
	assert_true(egress_has_ssh(r));
	assert_true(tunnel("git.example.org", 22) && v.ssh);
	assert_string_equal(v.rule, "ssh:git.example.org");
	assert_true(tunnel("other.example.org", 22) && !v.ssh);
	assert_true(tunnel("odd.example.net", 443) && v.ssh);
	assert_true(tunnel("web.example.net", 443) && !v.ssh);
	assert_false(tunnel("git.example.org", 443));
	assert_false(tunnel("sub.git.example.net", 22));
	assert_string_equal(v.hint, "--allow ssh:sub.git.example.net");
	/* What opens TLS or sends a request is allowed by the other rule, or not at all. */
	assert_true(request("GET", "odd.example.net", "/") && !v.ssh);
	assert_false(request_via(EGRESS_VIA_HTTP, "GET", "git.example.org", 22, "/"));
	set(FIELD_EGRESS_DENY, "git.example.org");
	compile();
	assert_false(tunnel("git.example.org", 22));
	assert_int_equal(v.reason, EGRESS_DENIED);
}

static void rules_that_no_tunnel_could_keep_are_refused(void **state UNUSED)
{
	static const char *const bad[] = { "ssh:git.example.org/team",
					   "GET ssh:git.example.org",
					   "ssh:*.example.org",
					   "ssh:git.example.org:0",
					   "ssh:",
					   "ssh:10.0.0.1" };
	struct strlist l = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (list_add_rule(s->arena, &l, bad[i], &e) == 0)
			fail_msg("%s", bad[i]);
	assert_int_equal(list_add_rule(s->arena, &l, "ssh:22", &e), 0); /* a host of that name */
	allow("ssh:git.example.org");
	allow("GET git.example.org:22/x");
	assert_true(egress_rules_new(&s->egress, &r, &e) < 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, fresh, gone)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_empty_list_denies_all),
		TEST(a_websocket_needs_a_rule_of_its_own),
		TEST(a_tunnel_for_ssh_is_that_and_nothing_else),
		TEST(rules_that_no_tunnel_could_keep_are_refused),
		TEST(the_hint_is_the_line_that_would_allow_it),
		TEST(the_hint_for_a_request_would_allow_it_too),
		TEST(names_match_label_by_label),
		TEST(the_port_is_part_of_the_rule),
		TEST(deny_beats_allow),
		TEST(groups_hold_their_hosts),
		TEST(methods_and_paths_are_part_of_the_rule),
		TEST(one_name_in_every_layer),
		TEST(plain_http_is_refused_unless_permitted),
		TEST(this_machine_is_closed_but_for_one_port),
		TEST(a_pin_opens_one_name_and_no_metadata),
		TEST(learning_opens_public_names_alone),
		TEST(an_address_is_refused_with_advice_that_fits),
		TEST(answers_that_are_not_public_are_dropped),
		TEST(fields_pass_by_their_names),
		TEST(passthrough_excludes_rules_about_requests),
		TEST(wildcards_for_anybody_are_refused),
		TEST(wildcards_for_somebody_are_taken),
		TEST(a_denial_is_told_in_json),
		TEST(requests_a_minute_are_counted_by_host_and_in_all),
		TEST(one_more_than_that_is_given_its_turn),
		TEST(the_shipped_groups_have_a_rate_only_where_one_is_written),
		TEST(looking_often_loses_nothing),
		TEST(names_connections_and_bytes_have_budgets),
		TEST(a_thousand_names_are_found_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
