/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "egress/credential/cred.h"
#include "egress/egress_plan.h"
#include "model/dialect/credentials.h"
#include "model/dialect/dialect.h"
#include "model/settings/spec_lists.h"

#define VALUE "real+token/42-long"
#define OTHER "other-value-9-long"

static struct spec *s;
static struct egress_plan *plan;
static struct creds *creds;
static struct egress_head head;
static struct egress_verdict v;
static uint64_t used;
static struct err e;

static char *environment[] = { "GITHUB_TOKEN=" VALUE,
			       "GH=" VALUE,
			       "OTHER=" OTHER,
			       "SHORT=123456789012345",
			       "LINES=two\nlines of one value",
			       "BLANK=one blank in its middle",
			       NULL };

static void read_yaml(const char *text)
{
	const struct source src = {
		.name = "f.yaml", .folder = "/proj", .origin = ORIGIN_FILE, .trusted = true
	};
	struct node *root;

	if (yaml_parse(s->arena, "f.yaml", text, strlen(text), &root, &e) < 0 ||
	    brig_read(s, &src, root, &e) < 0)
		fail_msg("%s", e.what);
}

static int fresh(void **state UNUSED)
{
	memset(&e, 0, sizeof(e));
	s = spec_new(&e);
	head.arena = arena_new(1 << 20);
	return s && head.arena ? 0 : -1;
}

static int gone(void **state UNUSED)
{
	creds = creds_free(creds);
	plan = egress_plan_free(plan);
	s = spec_free(s);
	head.arena = arena_free(head.arena);
	return 0;
}

static void make(const char *yaml)
{
	read_yaml(yaml);
	if (egress_plan_new(s, environment, &plan, &e) < 0 ||
	    creds_new(&plan->credentials, plan->secrets, plan->bind_names, &creds, &e) < 0)
		fail_msg("%s", e.what);
}

static const char *placeholder(size_t i)
{
	return plan->secrets[i].placeholder;
}

static struct egress_text __attribute__((format(printf, 1, 2))) text(const char *fmt, ...)
{
	va_list ap;
	char *p;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&p, fmt, ap);
	va_end(ap);
	assert_true(n >= 0);
	fmt = arena_strdup(head.arena, p);
	free(p);
	return egress_text(fmt, strlen(fmt));
}

static void request(const char *method, struct egress_text target)
{
	head.method = egress_text(method, strlen(method));
	head.target = target;
	head.n_fields = 0;
}

static void field(const char *name, struct egress_text value)
{
	head.fields[head.n_fields++] =
		(struct egress_field){ egress_text(name, strlen(name)), value };
}

static bool send_to(const char *name, uint16_t port, bool verified)
{
	struct host h;
	struct cred_target to = { .host = &h, .port = port, .verified = verified };

	assert_int_equal(host_parse(egress_text(name, strlen(name)), &h), HOST_OK);
	return cred_apply(creds, &to, &head, &used, &v);
}

static bool sent(const char *name)
{
	return send_to(name, 443, true);
}

static void is(struct egress_text t, const char *want)
{
	if (t.n != strlen(want) || memcmp(t.p, want, t.n) != 0)
		fail_msg("'%.*s' is not '%s'", (int)t.n, t.p, want);
}

static void misused(const char *name)
{
	assert_false(sent(name));
	assert_int_equal(v.reason, EGRESS_CREDENTIAL_MISUSE);
	assert_null(strstr(v.what, VALUE));
	assert_null(strstr(v.hint, VALUE));
}

static const char bearer[] = "credentials: {GITHUB_TOKEN: {host: api.example.org}}\n";

static void a_placeholder_is_random_and_has_one_shape(void **state UNUSED)
{
	char a[CRED_PLACEHOLDER_LEN + 1], b[CRED_PLACEHOLDER_LEN + 1];

	assert_int_equal(cred_placeholder(a, &e), 0);
	assert_int_equal(cred_placeholder(b, &e), 0);
	assert_string_not_equal(a, b);
	assert_true(cred_is_placeholder(egress_text(a, strlen(a))));
	assert_false(cred_is_placeholder(egress_text(a, strlen(a) - 1)));
	assert_int_equal(strncmp(a, "brig-", 5), 0);
}

static void a_bearer_token_is_put_in_its_slot(void **state UNUSED)
{
	static const char *const forms[][2] = {
		{ "Bearer %s", "Bearer " VALUE },
		{ "bearer %s", "Bearer " VALUE },
		{ "%s", "Bearer " VALUE },
		{ "token %s", "token " VALUE },
	};

	make(bearer);
	for (size_t i = 0; i < 4; i++)
		for (int k = 0; k < 3; k++) {
			const char *names[] = { placeholder(0), "{GITHUB_TOKEN}",
						"%7bGITHUB_TOKEN%7D" };
			char value[128];

			(void)snprintf(value, sizeof(value), "%.*s%s",
				       (int)strcspn(forms[i][0], "%"), forms[i][0], names[k]);
			request("GET", text("/user"));
			field("Accept", text("*/*"));
			field("AUTHORIZATION", text("%s", value));
			if (!sent("api.example.org"))
				fail_msg("%s: %s", value, v.what);
			is(head.fields[1].value, forms[i][1]);
			is(head.fields[0].value, "*/*");
			assert_int_equal(used, 1);
		}
}

static void a_token_in_basic_is_replaced_for_git(void **state UNUSED)
{
	make("credentials:\n"
	     "  GITHUB_TOKEN: {host: git.example.org}\n"
	     "  OTHER: {host: reg.example.org, basic: me}\n");
	/* the placeholders are random, so the pair is encoded here */
	for (int k = 0; k < 2; k++) {
		static const char signs[] =
			"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
		char plain[128], coded[256];
		size_t n = (size_t)snprintf(plain, sizeof(plain), "%s:%s",
					    k ? "you" : "x-access-token", placeholder((size_t)k)),
		       at = 0;

		for (size_t i = 0; i < n; i += 3) {
			unsigned w = (unsigned)plain[i] << 16 |
				     (i + 1 < n ? (unsigned)plain[i + 1] << 8 : 0) |
				     (i + 2 < n ? (unsigned)plain[i + 2] : 0);

			coded[at++] = signs[w >> 18];
			coded[at++] = signs[w >> 12 & 63];
			coded[at++] = i + 1 < n ? signs[w >> 6 & 63] : '=';
			coded[at++] = i + 2 < n ? signs[w & 63] : '=';
		}
		coded[at] = '\0';
		request("GET", text("/r.git/info/refs?service=git-upload-pack"));
		field("Authorization", text("Basic %s", coded));
		assert_true(sent(k ? "reg.example.org" : "git.example.org"));
		is(head.fields[0].value, k ? "Basic bWU6b3RoZXItdmFsdWUtOS1sb25n"
					   : "Basic eC1hY2Nlc3MtdG9rZW46cmVhbCt0b2tlbi80Mi1sb25n");
		request("GET", text("/"));
		field("Authorization", text("Basic %s", coded));
		misused("elsewhere.example.org");
	}
}

static void headers_queries_and_cookies_are_slots(void **state UNUSED)
{
	make("credentials:\n"
	     "  A: {host: a.example, header: X-Key, from: {env: GH}}\n"
	     "  B: {host: a.example, query: key, from: {env: GH}}\n"
	     "  C: {host: a.example, cookie: session, from: {env: OTHER}}\n");
	request("GET", text("/x?a=b&key=%s&c", placeholder(1)));
	field("x-key", text("%s", placeholder(0)));
	field("Cookie", text("a=b; session=%s; c=d", placeholder(2)));
	assert_true(sent("a.example"));
	is(head.target, "/x?a=b&key=real%2Btoken%2F42-long&c");
	is(head.fields[0].value, VALUE);
	is(head.fields[1].value, "session=" OTHER);
	assert_int_equal(used, 7);
}

static void the_name_in_braces_works_in_the_parameters_that_are_named(void **state UNUSED)
{
	make("credentials:\n  GITHUB_TOKEN: {host: api.example.org, header: Authorization, query: "
	     "[access_token, key, seen]}\n");
	request("GET", text("/user?access_token={GITHUB_TOKEN}"));
	assert_true(sent("api.example.org"));
	is(head.target, "/user?access_token=real%2Btoken%2F42-long");
	request("GET", text("/user?access_token=%%7BGITHUB_TOKEN%%7D&x=1"));
	assert_true(sent("api.example.org"));
	is(head.target, "/user?access_token=real%2Btoken%2F42-long&x=1");
	request("GET", text("/user?key=%s", placeholder(0)));
	assert_true(sent("api.example.org"));
	/* what else such a parameter holds is the guest's, where it is not named like a key */
	request("GET", text("/user?seen=mine&page_token=2&keys=3&key="));
	assert_true(sent("api.example.org"));
	assert_int_equal(used, 0);
	request("GET", text("/user?key=mine"));
	misused("api.example.org");
	/* neither another one, nor another spelling, nor a part of it, nor twice, nor the path */
	for (int i = 0; i < 8; i++) {
		static const char *const targets[] = {
			"/user?q={GITHUB_TOKEN}",
			"/user?KEY={GITHUB_TOKEN}",
			"/user?%6bey={GITHUB_TOKEN}",
			"/user?key=a{GITHUB_TOKEN}",
			"/user?key={GITHUB_TOKEN}b",
			"/user?{GITHUB_TOKEN}",
			"/user?key={GITHUB_TOKEN}&key={GITHUB_TOKEN}",
			"/bot{GITHUB_TOKEN}/x"
		};

		request("GET", egress_text(targets[i], strlen(targets[i])));
		misused("api.example.org");
	}
}

static void a_header_credential_has_no_place_in_the_query(void **state UNUSED)
{
	make(bearer);
	for (int i = 0; i < 4; i++) {
		static const char *const targets[] = { "/user?access_token={GITHUB_TOKEN}",
						       "/user?a=1&q=%7bGITHUB_TOKEN%7D",
						       "/?{GITHUB_TOKEN}", "/?a={GITHUB_TOKEN}x" };

		request("GET", egress_text(targets[i], strlen(targets[i])));
		misused("api.example.org");
	}
	for (int i = 0; i < 3; i++) {
		static const char *const names[] = { "Author_ization", "Authorization_",
						     "X-Authorization" };

		request("GET", text("/user"));
		field(names[i], text("Bearer %s", placeholder(0)));
		misused("api.example.org");
	}
}

static void the_path_is_a_place_where_declared(void **state UNUSED)
{
	make("credentials: {T: {host: a.example, also: path, from: {env: OTHER}}}\n");
	request("GET", text("/bot{T}/send?x=1"));
	assert_true(sent("a.example"));
	is(head.target, "/bot" OTHER "/send?x=1");
	request("GET", text("/bot{T}/send?x=%%7bT%%7d"));
	misused("a.example");
}

static void nothing_is_added_to_a_request_without_placeholder(void **state UNUSED)
{
	make(bearer);
	request("GET", text("/user"));
	field("Accept", text("*/*"));
	assert_true(sent("api.example.org"));
	assert_int_equal(head.n_fields, 1);
	assert_int_equal(used, 0);
	is(head.target, "/user");
}

static void another_value_in_the_slot_is_refused(void **state UNUSED)
{
	make("credentials:\n"
	     "  A: {host: a.example, from: {env: GH}}\n"
	     "  B: {host: b.example, query: key, from: {env: GH}}\n"
	     "  C: {host: c.example, cookie: s, from: {env: GH}}\n");
	request("GET", text("/"));
	field("Authorization", text("Bearer my-own"));
	misused("a.example");
	request("GET", text("/"));
	field("Authorization", text("Bearer %s", placeholder(0)));
	field("authorization", text("Bearer my-own"));
	misused("a.example");
	request("GET", text("/"));
	field("Authorization", text("Bearer %s", placeholder(0)));
	field("Authorization", text("Bearer %s", placeholder(0)));
	misused("a.example");
	request("GET", text("/?key=mine"));
	misused("b.example");
	request("GET", text("/?key=%s&key=%s", placeholder(1), placeholder(1)));
	misused("b.example");
	request("GET", text("/"));
	field("Cookie", text("s=mine"));
	misused("c.example");
}

/* A further slot of the same host is no place for a key of somebody else's. */
static void a_bound_host_takes_no_key_but_the_runs_own(void **state UNUSED)
{
	static const char *const keys[] = {
		"Authorization", "authorization", "X-API-Key",     "JOB-TOKEN",
		"Deploy-Token",  "X-Auth-Key",    "Api-Key",       "X-Amz-Security-Token",
		"X-Vault-Token", "Cookie2",       "Client_Secret", "X-Ms-Authorization-Auxiliary",
	};
	static const char *const others[] = { "Accept",          "X-CSRF-Token",
					      "Idempotency-Key", "OpenAI-Organization",
					      "X-Request-Id",    "Keywords" };
	static const char *const targets[] = {
		"/?key=x",           "/?a=1&private_token=x", "/?PRIVATE%5ftoken=x",
		"/?api-key=x",       "/?a=1;api_key=x",       "/?access_token[]=x",
		"/?sig=x",           "/?%61ccess_token=x",    "/?X-Amz-Signature=x",
		"/?b=2&job.token=x",
	};
	static const char *const free_targets[] = {
		"/?pageToken=x",     "/?key=",      "/?continuation-token=x",
		"/?keys=1&tokens=2", "/?q=key%3Dx", "/key=x?a"
	};

	make("credentials: {GITLAB: {host: 'git.example:8443', header: PRIVATE-TOKEN, from: {env: "
	     "OTHER}}}\n");
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		request("GET", text("/"));
		field(keys[i], text("some-other-key"));
		misused("git.example");
		assert_non_null(strstr(v.hint, keys[i]));
		/* at another host it is nobody's business */
		assert_true(sent("other.example"));
		head.fields[0].value.n = 0;
		assert_true(sent("git.example"));
	}
	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		request("GET", text("/"));
		field(others[i], text("some-other-text"));
		assert_true(send_to("git.example", 8443, true));
	}
	for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
		request("POST", egress_text(targets[i], strlen(targets[i])));
		misused("git.example");
		assert_true(sent("other.example"));
	}
	for (size_t i = 0; i < ARRAY_LEN(free_targets); i++) {
		request("POST", egress_text(free_targets[i], strlen(free_targets[i])));
		assert_true(send_to("git.example", 8443, true));
		is(head.target, free_targets[i]);
	}
}

static void a_login_in_a_cookie_is_forgotten_at_a_bound_host(void **state UNUSED)
{
	static const char *const rows[][2] = {
		{ "session=mine", NULL },
		{ "a; =b; session=mine;", NULL },
		{ "__cf_bm=1.2-3; session=mine", "__cf_bm=1.2-3" },
		{ "session=mine; _cfuvid=x; token=y; AWSALB=z", "_cfuvid=x; AWSALB=z" },
	};

	make(bearer);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		request("GET", text("/"));
		field("Cookie", text("%s", rows[i][0]));
		field("Accept", text("*/*"));
		assert_true(sent("other.example"));
		is(head.fields[0].value, rows[i][0]);
		assert_true(sent("api.example.org"));
		assert_int_equal(head.n_fields, rows[i][1] ? 2 : 1);
		if (rows[i][1])
			is(head.fields[0].value, rows[i][1]);
		is(head.fields[head.n_fields - 1].value, "*/*");
	}
}

static void another_key_passes_where_a_setting_says_so(void **state UNUSED)
{
	static const char *const wrong[] = {
		"api.example.org",       "api.example.org ",      "api.example.org a b",  " X-Key",
		"api.example.org:443 X", "GET api.example.org X", "api.example.org/x X",  "@npm X",
		"api.example.org X*Y",   "api.example.org ?",     "api.example.org ?key*"
	};
	struct strlist l = { 0 };

	make("credentials: {GITHUB_TOKEN: {host: api.example.org}, OTHER: {host: "
	     "b.example.org, header: X-Key}}\n"
	     "egress: {other_keys: ['api.example.org x-job-token', '*.example.org ?sig', "
	     "'b.example.org Cookie']}\n");
	assert_int_equal(creds_other_keys(creds, &plan->egress.other_keys, &e), 0);
	request("GET", text("/?sig=1"));
	field("X-Job-Token", text("mine"));
	assert_true(sent("api.example.org"));
	misused("b.example.org");
	request("GET", text("/?sig=1"));
	field("Cookie", text("session=mine"));
	assert_true(sent("b.example.org"));
	is(head.fields[0].value, "session=mine");
	request("GET", text("/?key=1"));
	misused("api.example.org");
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		l = (struct strlist){ 0 };
		assert_int_equal(list_add_string(s->arena, &l, wrong[i], &e), 0);
		if (creds_other_keys(creds, &l, &e) == 0)
			fail_msg("'%s' was taken", wrong[i]);
	}
}

static void a_placeholder_anywhere_else_is_a_misuse(void **state UNUSED)
{
	make("credentials:\n"
	     "  A: {host: 'a.example:8443', from: {env: GH}}\n"
	     "  B: {host: b.example, from: {env: OTHER}}\n");
	for (int i = 0; i < 8; i++) {
		request("GET", i == 0 ? text("/?x=%s", placeholder(0)) : text("/"));
		if (i == 1)
			field("X-Other", text("%s", placeholder(0)));
		if (i == 2)
			field("Authorization", text("Bearer %s", placeholder(0)));
		if (i == 3)
			field("X-Note", text("see {A}"));
		if (i == 4)
			head.target = text("/%%7ba%%7d%%7BA%%7D");
		if (i == 5)
			field(placeholder(0), text("x"));
		if (i == 6)
			field("X", text("brig-0a1b2c3d4e5f6g7h8i9j0k1l2m3n4o5p"));
		if (i == 7)
			field("Cookie", text("a=%s", placeholder(0)));
		misused("c.example");
		assert_int_equal(used, 0);
	}
	/* a credential of another host in this host's slot */
	request("GET", text("/"));
	field("Authorization", text("Bearer %s", placeholder(0)));
	misused("b.example");
	/* its own host, but another port, a name below it, or no verified TLS */
	for (int i = 0; i < 3; i++) {
		request("GET", text("/"));
		field("Authorization", text("Bearer %s", placeholder(0)));
		assert_false(i == 0   ? send_to("a.example", 443, true)
			     : i == 1 ? send_to("x.a.example", 8443, true)
				      : send_to("a.example", 8443, false));
		assert_int_equal(v.reason, EGRESS_CREDENTIAL_MISUSE);
		assert_null(memmem(head.fields[0].value.p, head.fields[0].value.n, VALUE,
				   strlen(VALUE)));
	}
	request("GET", text("/"));
	field("Authorization", text("Bearer %s", placeholder(0)));
	assert_true(send_to("A.example.", 8443, true));
}

static void methods_and_paths_bind_it(void **state UNUSED)
{
	make("credentials: {A: {host: a.example, methods: [GET], paths: [/repos/], from: {env: "
	     "GH}}}\n");
	static const struct {
		const char *method, *target;
		bool passes;
	} rows[] = {
		{ "GET", "/repos/x", true },        { "GET", "/%72epos/x?y", true },
		{ "DELETE", "/repos/x", false },    { "GET", "/user/keys", false },
		{ "GET", "/repos/../user", false }, { "GET", "/repos/%2e%2e/user", false },
		{ "GET", "/repos%2fx", false },     { "OPTIONS", "*", false },
	};

	for (size_t i = 0; i < 8; i++) {
		request(rows[i].method, text("%s", rows[i].target));
		field("Authorization", text("Bearer %s", placeholder(0)));
		if (rows[i].passes)
			assert_true(sent("a.example"));
		else
			misused("a.example");
	}
	request("GET", text("/repos/x"));
	field("Authorization", text("Bearer %s", placeholder(0)));
	field("Max-Forwards", text("0"));
	misused("a.example");
}

static void an_unbound_name_is_told_how_to_bind_it(void **state UNUSED)
{
	make(bearer);
	request("GET", text("/?k={STRANGE_KEY}"));
	assert_true(sent("b.example")); /* in brig's own dialect braces are braces */
	creds = creds_free(creds);
	assert_int_equal(creds_new(&plan->credentials, plan->secrets, true, &creds, &e), 0);
	misused("b.example");
	assert_non_null(strstr(v.hint, "credentials: {STRANGE_KEY: {host: b.example}}"));
	request("GET", text("/?k=%%7BSTRANGE_KEY%%7D"));
	misused("b.example");
	request("GET", text("/?k={id}&j={\"a\":1}"));
	assert_true(sent("b.example"));
}

static void a_refusal_names_the_way_out(void **state UNUSED)
{
	make("credentials: {GITHUB_TOKEN: {host: [api.example.org, 'api.example.org:8443']}}\n");
	for (size_t i = 0; i < 4; i++) {
		static const struct {
			const char *target, *host;
			uint16_t port;
			bool verified;
			const char *hint;
		} cases[] = {
			{ "/?k={GITHUB_TOKEN}", "b.example", 443, true,
			  "{host: b.example}} binds" },
			{ "/?k={GITHUB_TOKEN}", "b.example", 8443, true,
			  "{host: b.example:8443}} binds" },
			{ "/?k={GITHUB_TOKEN}", "api.example.org", 8443, true, "another place" },
			{ "/?k={GITHUB_TOKEN}", "api.example.org", 8443, false, "verified TLS" },
		};

		request("GET", text("%s", cases[i].target));
		assert_false(send_to(cases[i].host, cases[i].port, cases[i].verified));
		assert_int_equal(v.reason, EGRESS_CREDENTIAL_MISUSE);
		if (!strstr(v.hint, cases[i].hint))
			fail_msg("'%s' does not say '%s'", v.hint, cases[i].hint);
	}
}

static void a_bound_name_without_a_value_says_so(void **state UNUSED)
{
	const char *names[] = { "OTHER_KEY", "OPENAI_API_KEY" };
	struct strlist lacking = { .v = names, .n = 2 };

	make(bearer);
	creds = creds_free(creds);
	assert_int_equal(creds_new(&plan->credentials, plan->secrets, true, &creds, &e), 0);
	creds_lacking(creds, &lacking);
	request("GET", text("/?k={OPENAI_API_KEY}"));
	misused("b.example");
	assert_non_null(strstr(v.what, "'OPENAI_API_KEY' is bound, but this run has no value"));
	assert_non_null(strstr(v.hint, "set OPENAI_API_KEY"));
	request("GET", text("/?k={OPENAI_API_KEYS}"));
	misused("b.example");
	assert_non_null(strstr(v.hint, "binds it"));
}

static void values_that_cannot_be_sent_are_refused(void **state UNUSED)
{
	static const char *const bad[][2] = {
		{ "credentials: {SHORT: {host: a.example}}\n", "has 15 bytes, not 16" },
		{ "credentials: {LINES: {host: a.example, streaming: delayed}}\n",
		  "cannot stand in its place" },
		{ "credentials: {BLANK: {host: a.example}}\n", "has a blank in it" },
		{ "credentials: {MISSING: {host: a.example}}\n", "variable 'MISSING' is not set" },
		{ "credentials: {A: {host: a.example, from: {file: /nonexistent}}}\n",
		  "cannot open" },
		{ "credentials: {A: {host: a.example, from: {file: /dev/null}}}\n",
		  "is not a file" },
		{ "credentials: {A: {host: a.example, from: {command: ['false']}}}\n", "failed" },
		{ "credentials: {A: {host: a.example, from: {command: ['yes']}}}\n",
		  "longer than" },
		{ "credentials: {A: {host: a.example, from: {command: [/nonexistent]}}}\n",
		  "there is no program" },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		s = spec_free(s);
		s = spec_new(&e);
		read_yaml(bad[i][0]);
		assert_true(egress_plan_new(s, environment, &plan, &e) < 0);
		if (!strstr(e.what, bad[i][1]))
			fail_msg("'%s' does not say '%s'", e.what, bad[i][1]);
	}
}

static void files_and_commands_give_values(void **state UNUSED)
{
	char path[] = "/tmp/brig-cred-XXXXXX", yaml[256];
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, VALUE "\n", sizeof(VALUE)), sizeof(VALUE));
	(void)snprintf(yaml, sizeof(yaml),
		       "credentials:\n  A: {host: a.example, from: {file: %s}}\n"
		       "  B: {host: a.example, header: X, from: {command: [printf, '%%s\\n', 'a"
		       "$(b)c;d-and-more']}}\n",
		       path);
	make(yaml);
	assert_int_equal(plan->secrets[0].len, strlen(VALUE));
	assert_memory_equal(plan->secrets[0].value, VALUE, strlen(VALUE));
	assert_int_equal(plan->secrets[1].len, 17);
	assert_memory_equal(plan->secrets[1].value, "a$(b)c;d-and-more", 17); /* no shell */
	assert_int_equal(fchmod(fd, 0666), 0);
	plan = egress_plan_free(plan);
	assert_true(egress_plan_new(s, environment, &plan, &e) < 0);
	assert_non_null(strstr(e.what, "can be written by others"));
	(void)close(fd);
	(void)unlink(path);
}

static void only_named_credentials_are_granted(void **state UNUSED)
{
	read_yaml("credentials:\n"
		  "  A: {host: a.example, from: {env: GH}}\n"
		  "  B: {host: b.example, from: {env: MISSING}}\n");
	assert_int_equal(spec_set(s, FIELD_CREDENTIAL, "A", ORIGIN_FLAG, &e), 0);
	assert_int_equal(spec_set(s, FIELD_CREDENTIAL, "GITHUB_TOKEN", ORIGIN_FLAG, &e), 0);
	assert_int_equal(egress_plan_new(s, environment, &plan, &e), 0);
	assert_int_equal(plan->credentials.n, 2);
	assert_string_equal(plan->credentials.v[1].hosts.v[0], "api.github.com");
	plan = egress_plan_free(plan);
	assert_int_equal(spec_set(s, FIELD_CREDENTIAL, "NOBODY", ORIGIN_FLAG, &e), 0);
	assert_true(egress_plan_new(s, environment, &plan, &e) < 0);
	assert_non_null(strstr(e.what, "no credential 'NOBODY'"));
}

static void ironclaw_binds_the_well_known_names_that_are_set(void **state UNUSED)
{
	assert_int_equal(credentials_add_known(s, &e), 0);
	s->dialect_used = DIALECT_IRONCLAW;
	assert_true(s->credentials.n > 5);
	assert_int_equal(egress_plan_new(s, environment, &plan, &e), 0);
	assert_int_equal(plan->credentials.n, 1);
	assert_string_equal(plan->credentials.v[0].name, "GITHUB_TOKEN");
	assert_true(plan->bind_names);
}

static void a_plan_crosses_a_pipe(void **state UNUSED)
{
	CLEANUP(buf) struct buf one = BUF_INIT(65536), two = BUF_INIT(65536);
	CLEANUP(egress_plan) struct egress_plan *back = NULL;

	make("egress:\n"
	     "  allow: ['GET a.example/x', '@pypi']\n"
	     "  deny: [evil.example]\n"
	     "  groups: [git]\n"
	     "  resolve: {a.example: 10.0.0.1}\n"
	     "  rate: {total: 7}\n"
	     "  upstream_proxy: http://proxy.example:3128\n"
	     "  upstream_login: P\n"
	     "leaks: {rules: {jwt: block}}\n"
	     "credentials: {A: {host: [a.example, 'b.example:8443'], methods: [GET], paths: [/x], "
	     "from: {env: GH}}, P: {host: proxy.example, basic: me, from: {env: OTHER}}}\n");
	assert_int_equal(egress_plan_write(plan, &one, &e), 0);
	assert_int_equal(egress_plan_read(one.data, one.len, &back, &e), 0);
	assert_int_equal(egress_plan_write(back, &two, &e), 0);
	assert_int_equal(one.len, two.len);
	assert_memory_equal(one.data, two.data, one.len);
	assert_string_equal(back->secrets[0].placeholder, placeholder(0));
	assert_memory_equal(back->secrets[0].value, VALUE, strlen(VALUE));
	assert_int_equal(back->egress.rate.total, 7);
	assert_string_equal(back->credentials.v[0].hosts.v[1], "b.example:8443");
	assert_int_equal(back->credentials.n, 1); /* the proxy's login is no command's */
	assert_string_equal(back->login.name, "me");
	assert_int_equal(back->login.len, strlen(OTHER));
	assert_memory_equal(back->login.value, OTHER, strlen(OTHER));
	for (size_t n = 0; n < one.len; n++) {
		struct egress_plan *cut = NULL;

		assert_true(egress_plan_read(one.data, n, &cut, &e) < 0);
	}
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, fresh, gone)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_placeholder_is_random_and_has_one_shape),
		TEST(a_bearer_token_is_put_in_its_slot),
		TEST(a_token_in_basic_is_replaced_for_git),
		TEST(headers_queries_and_cookies_are_slots),
		TEST(the_name_in_braces_works_in_the_parameters_that_are_named),
		TEST(a_header_credential_has_no_place_in_the_query),
		TEST(the_path_is_a_place_where_declared),
		TEST(nothing_is_added_to_a_request_without_placeholder),
		TEST(another_value_in_the_slot_is_refused),
		TEST(a_bound_host_takes_no_key_but_the_runs_own),
		TEST(a_login_in_a_cookie_is_forgotten_at_a_bound_host),
		TEST(another_key_passes_where_a_setting_says_so),
		TEST(a_placeholder_anywhere_else_is_a_misuse),
		TEST(methods_and_paths_bind_it),
		TEST(an_unbound_name_is_told_how_to_bind_it),
		TEST(a_refusal_names_the_way_out),
		TEST(a_bound_name_without_a_value_says_so),
		TEST(values_that_cannot_be_sent_are_refused),
		TEST(files_and_commands_give_values),
		TEST(only_named_credentials_are_granted),
		TEST(ironclaw_binds_the_well_known_names_that_are_set),
		TEST(a_plan_crosses_a_pipe),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
