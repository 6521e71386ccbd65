/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "egress/rules/allow.h"
#include "egress/rules/git_request.h"
#include "egress/rules/path.h"
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

static void rule(enum field_id id, const char *text)
{
	if (spec_set(s, id, text, ORIGIN_FLAG, &e) < 0)
		fail_msg("%s", e.what);
	r = egress_rules_free(r);
	if (egress_rules_new(&s->egress, &r, &e) < 0)
		fail_msg("%s", e.what);
}

static bool request(const char *method, const char *target)
{
	struct egress_text host = egress_text("git.example", 11);

	return egress_decide(
		r,
		&(struct egress_request){ .via = EGRESS_VIA_TLS,
					  .host = host,
					  .sni = host,
					  .port = 443,
					  .method = egress_text(method, strlen(method)),
					  .target = egress_text(target, strlen(target)) },
		&v);
}

struct exchange_line {
	const char *method, *target;
};

static const struct exchange_line fetches[] = {
	{ "GET", "/team/tool/info/refs?service=git-upload-pack" },
	{ "GET", "/team/tool.git/info/refs?service=git-upload-pack" },
	{ "POST", "/team/tool/git-upload-pack" },
	{ "POST", "/team/tool.git/git-upload-pack" },
};

static const struct exchange_line pushes[] = {
	{ "GET", "/team/tool/info/refs?service=git-receive-pack" },
	{ "GET", "/team/tool.git/info/refs?service=git-receive-pack" },
	{ "POST", "/team/tool/git-receive-pack" },
	{ "POST", "/team/tool.git/git-receive-pack" },
	{ "POST", "/team/tool.git/info/lfs/objects/batch" },
	{ "PUT", "/team/tool.git/gitlab-lfs/objects/0123/7" },
};

/* A push to some server, and to none that git is sent by. */
static const struct exchange_line spellings[] = {
	{ "POST", "/team/tool.git/GIT-RECEIVE-PACK" },
	{ "POST", "/team/tool.git/git%2Dreceive%2dpack" },
	{ "POST", "/team/tool.git/%67it-receive-pack" },
	{ "POST", "/team/tool.git/git-receive-pack/" },
	{ "POST", "/team/tool.git/git-receive-pack/x" },
	{ "POST", "/team/tool.git/git-receive-pack." },
	{ "POST", "/team/tool.git/git-receive-pack%20" },
	{ "POST", "/team/tool.git/git-receive-pack?" },
	{ "POST", "/team/tool.git/git-receive-pack?a=b" },
	{ "PUT", "/team/tool.git/git-receive-pack" },
	{ "GET", "/team/tool.git/git-receive-pack" },
	{ "POST", "/Team/Tool.GIT/git-receive-pack" },
	{ "GET", "/team/tool.git/info/refs?service=GIT-RECEIVE-PACK" },
	{ "GET", "/team/tool.git/info/refs?service=git%2dreceive%2Dpack" },
	{ "GET", "/team/tool.git/info/refs?service=git%252dreceive-pack" },
	{ "GET", "/team/tool.git/info/refs?service=%25252567it-receive-pack" },
	{ "GET", "/team/tool.git/info/refs?service=%00git-receive-pack" },
	{ "GET", "/team/tool.git/info/refs?a=b&service=git-receive-pack" },
	{ "GET", "/team/tool.git/info/refs?service=git-upload-pack&service=git-receive-pack" },
	{ "GET", "/team/tool.git/info/refs?service=git-receive-pack&service=git-upload-pack" },
	{ "GET", "/team/tool.git/info/refs?service=git-upload-pack;service=git-receive-pack" },
	{ "GET", "/team/tool.git/INFO/refs?%73ervice=git-receive-pack" },
	{ "POST", "/team/tool.git/info/refs?service=git-receive-pack" },
};

/* The old protocol, and Git LFS in other letters. */
static const struct exchange_line by_hand[] = {
	{ "LOCK", "/team/tool.git/refs/heads/main" },
	{ "MKCOL", "/team/tool.git/objects/ab" },
	{ "MOVE", "/team/tool.git/objects/ab/cd" },
	{ "PUT", "/team/tool.git/refs/heads/main" },
	{ "PUT", "/team/tool.git/objects/ab/cdef" },
	{ "PUT", "/team/tool.git/OBJECTS/ab/cdef" },
	{ "DELETE", "/team/tool.git/refs/heads/main" },
	{ "PUT", "/team/tool.git/HEAD" },
	{ "PUT", "/team/tool.git/info/refs" },
	{ "POST", "/team/tool.git/info/LFS/objects/batch" },
};

#define REFUSED(lines)                                                                             \
	for (size_t i = 0; i < ARRAY_LEN(lines); i++)                                              \
		if (request(lines[i].method, lines[i].target))                                     \
	fail_msg("%s %s passes by '%s'", lines[i].method, lines[i].target, v.rule)
#define PASSES(lines)                                                                              \
	for (size_t i = 0; i < ARRAY_LEN(lines); i++)                                              \
		if (!request(lines[i].method, lines[i].target))                                    \
	fail_msg("%s %s: %s", lines[i].method, lines[i].target, v.what)

static void a_rule_for_fetches_lets_nothing_else_through(void **state UNUSED)
{
	static const struct exchange_line others[] = {
		{ "GET", "/team/tool.git/info/refs" },
		{ "GET", "/team/tool.git/info/refs?service=git-upload-archive" },
		{ "GET", "/team/tool.git/info/refs?service=git-upload-pack&a=b" },
		{ "GET", "/team/tool.git/info/refs?service=git-upload-pac%6b" },
		{ "HEAD", "/team/tool.git/info/refs?service=git-upload-pack" },
		{ "GET", "/team/tool.git/HEAD" },
		{ "GET", "/team/tool.git/objects/info/packs" },
		{ "GET", "/team/tool.git/git-upload-pack" },
		{ "POST", "/team/tool.git/git-upload-pack?x" },
		{ "POST", "/team/tool.git/git-upload-archive" },
		{ "POST", "/team/tool/x/git-upload-pack" },
		{ "POST", "/team/tool.git.git/git-upload-pack" },
		{ "POST", "/team/toolx/git-upload-pack" },
		{ "POST", "/Team/tool/git-upload-pack" },
		{ "POST", "/team/git-upload-pack" },
		{ "POST", "/git-upload-pack" },
		{ "GET", "/team/tool" },
		{ "PATCH", "/api/v1/repos/team/tool/git/refs" },
	};

	rule(FIELD_EGRESS_ALLOW, "fetch:git.example/team/tool");
	PASSES(fetches);
	assert_string_equal(v.rule, "fetch:git.example/team/tool");
	assert_true(v.narrow);
	REFUSED(pushes);
	REFUSED(spellings);
	REFUSED(by_hand);
	REFUSED(others);
}

static void a_rule_for_pushes_lets_nothing_else_through(void **state UNUSED)
{
	rule(FIELD_EGRESS_ALLOW, "push:git.example/team/tool.git");
	PASSES(pushes);
	/* The path as every rule sees it: an escaped hyphen is one. */
	assert_true(request("POST", "/team/tool.git/git%2Dreceive%2dpack"));
	REFUSED(fetches);
	for (size_t i = 3; i < ARRAY_LEN(spellings); i++)
		if (request(spellings[i].method, spellings[i].target))
			fail_msg("%s passes", spellings[i].target);
	REFUSED(by_hand);
	rule(FIELD_EGRESS_ALLOW, "fetch:git.example/team/tool.git");
	PASSES(fetches);
	PASSES(pushes);
}

static void a_push_can_be_denied_and_a_fetch_left(void **state UNUSED)
{
	static const struct exchange_line others[] = {
		{ "GET", "/team/tool" },
		{ "GET", "/git/git/blob/main/Documentation/git-receive-pack.txt" },
		{ "PATCH", "/api/v1/repos/team/tool" },
		{ "PUT", "/api/v1/user/starred/team/tool" },
		{ "GET", "/team/tool.git/info/refs" },
		{ "GET", "/team/tool.git/objects/ab/cdef" },
	};

	rule(FIELD_EGRESS_ALLOW, "git.example");
	PASSES(pushes); /* the control */
	PASSES(by_hand);
	rule(FIELD_EGRESS_DENY, "push:git.example");
	PASSES(fetches);
	PASSES(others);
	REFUSED(pushes);
	assert_int_equal(v.reason, EGRESS_DENIED);
	REFUSED(spellings);
	REFUSED(by_hand);
}

static void a_push_is_denied_for_one_repository(void **state UNUSED)
{
	rule(FIELD_EGRESS_ALLOW, "git.example");
	rule(FIELD_EGRESS_DENY, "push:git.example/team/tool");
	REFUSED(pushes);
	REFUSED(spellings);
	REFUSED(by_hand);
	PASSES(fetches);
	assert_true(request("POST", "/team/other.git/git-receive-pack"));
	assert_true(request("POST", "/team/tools/git-receive-pack"));
	assert_true(request("PUT", "/team/tool2.git/refs/heads/main"));
	rule(FIELD_EGRESS_DENY, "push:git.example/team/");
	assert_false(request("POST", "/team/other.git/git-receive-pack"));
	assert_false(request("POST", "/TEAM/other.git/git-receive-pack"));
	assert_true(request("POST", "/else/other.git/git-receive-pack"));
}

static void a_rule_for_a_path_lets_no_push_through(void **state UNUSED)
{
	rule(FIELD_EGRESS_ALLOW, "git.example/team/");
	PASSES(fetches);
	for (size_t i = 0; i < 4; i++)
		assert_false(request(pushes[i].method, pushes[i].target));
	assert_int_equal(v.reason, EGRESS_NOT_ALLOWED);
	assert_string_equal(v.hint, "--allow push:git.example/team/tool");
	REFUSED(spellings);
	rule(FIELD_EGRESS_ALLOW, "push:git.example/team/tool");
	PASSES(pushes);
}

static void a_path_that_names_the_push_lets_it_through(void **state UNUSED)
{
	rule(FIELD_EGRESS_ALLOW, "POST git.example/team/tool.git/git-receive-pack");
	assert_true(request("POST", "/team/tool.git/git-receive-pack"));
	assert_false(request("POST", "/team/tool.git/git-upload-pack"));
}

static void a_prefix_is_all_below_it(void **state UNUSED)
{
	rule(FIELD_EGRESS_ALLOW, "fetch:git.example/team/");
	PASSES(fetches);
	assert_true(request("POST", "/team/sub/tool/git-upload-pack"));
	assert_false(request("POST", "/team/git-upload-pack"));
	assert_false(request("POST", "/other/tool/git-upload-pack"));
	rule(FIELD_EGRESS_ALLOW, "fetch:git.example");
	assert_true(request("POST", "/other/tool/git-upload-pack"));
	assert_false(request("POST", "/other/tool/git-receive-pack"));
}

static void what_cannot_be_kept_is_refused(void **state UNUSED)
{
	static const struct {
		enum field_id id;
		const char *text, *says;
	} lines[] = {
		{ FIELD_EGRESS_DENY, "fetch:git.example/team/tool", "push: alone" },
		{ FIELD_EGRESS_PASSTHROUGH, "push:git.example", "write the host alone" },
		{ FIELD_EGRESS_FIELDS, "fetch:git.example X-Thing", "" },
	};

	for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
		struct spec *fresh_one = spec_new(&e);
		struct egress_rules *rules = NULL;

		assert_non_null(fresh_one);
		if (spec_set(fresh_one, lines[i].id, lines[i].text, ORIGIN_FLAG, &e) == 0)
			assert_true(egress_rules_new(&fresh_one->egress, &rules, &e) < 0);
		assert_non_null(strstr(e.what, lines[i].says));
		fresh_one = spec_free(fresh_one);
	}
	rule(FIELD_EGRESS_ALLOW, "fetch:git.example/team/tool");
	assert_int_equal(spec_set(s, FIELD_EGRESS_PASSTHROUGH, "git.example", ORIGIN_FLAG, &e), 0);
	r = egress_rules_free(r);
	assert_true(egress_rules_new(&s->egress, &r, &e) < 0);
	assert_non_null(strstr(e.what, "not seen"));
}

static void a_host_may_have_such_a_name(void **state UNUSED)
{
	struct rule one;

	assert_int_equal(rule_parse(s->arena, "push:8443", &one, &e), 0);
	assert_int_equal(one.git, RULE_ALL);
	assert_string_equal(one.host, "push");
	assert_int_equal(one.ports[0], 8443);
	assert_int_equal(rule_parse(s->arena, "fetch:80,443/x", &one, &e), 0);
	assert_int_equal(one.git, RULE_ALL);
	assert_int_equal(rule_parse(s->arena, "push:3d.example:8443/a/b.git", &one, &e), 0);
	assert_int_equal(one.git, RULE_PUSH);
	assert_string_equal(one.host, "3d.example");
	assert_int_equal(one.ports[0], 8443);
	assert_string_equal(one.path, "/a/b");
	assert_true(rule_parse(s->arena, "GET push:a.example/b", &one, &e) < 0);
	assert_true(rule_parse(s->arena, "push:", &one, &e) < 0);
	assert_true(rule_parse(s->arena, "push:@git", &one, &e) < 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, fresh, gone)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_rule_for_fetches_lets_nothing_else_through),
		TEST(a_rule_for_pushes_lets_nothing_else_through),
		TEST(a_push_can_be_denied_and_a_fetch_left),
		TEST(a_push_is_denied_for_one_repository),
		TEST(a_rule_for_a_path_lets_no_push_through),
		TEST(a_path_that_names_the_push_lets_it_through),
		TEST(a_prefix_is_all_below_it),
		TEST(what_cannot_be_kept_is_refused),
		TEST(a_host_may_have_such_a_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
