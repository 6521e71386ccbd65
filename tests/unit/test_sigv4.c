/* SPDX-License-Identifier: Apache-2.0 */
/* AWS Signature Version 4: what AWS has published as examples, and what is refused. */
#include "unit.h"

#include "egress/credential/cred.h"
#include "egress/credential/sigv4.h"
#include "egress/egress_plan.h"
#include "model/dialect/credentials.h"
#include "model/dialect/dialect.h"

#define EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define S3_ID "AKIAIOSFODNN7EXAMPLE"
#define S3_SECRET "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
#define IAM_SECRET "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
#define TOKEN "IQoJb3JpZ2luX2VjEXAMPLE/TOKEN+of/a/session=="

static struct spec *s;
static struct egress_plan *plan;
static struct creds *creds;
static struct egress_head head;
static struct egress_verdict v;
static struct err e;

static char *environment[] = { "AWS_ACCESS_KEY_ID=" S3_ID, "AWS_SECRET_ACCESS_KEY=" S3_SECRET,
			       "AWS_SESSION_TOKEN=" TOKEN, NULL };

static int fresh(void **state UNUSED)
{
	memset(&e, 0, sizeof(e));
	memset(&v, 0, sizeof(v));
	s = spec_new(&e);
	head.arena = arena_new(1 << 20);
	head.n_fields = 0;
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

static struct egress_text text(const char *p)
{
	return egress_text(p, strlen(p));
}

static void field(const char *name, const char *value)
{
	head.fields[head.n_fields++] = (struct egress_field){ text(name), text(value) };
}

static void request(const char *method, const char *target)
{
	head.method = text(method);
	head.target = text(target);
	head.n_fields = 0;
}

/* --- the published examples --- */

static void signs_as(const char *host, const char *authorization, const char *date,
		     const char *secret, const char *payload, const char *want)
{
	CLEANUP(buf) struct buf list = BUF_INIT(4096);
	struct sigv4_claim claim;
	struct egress_text name;
	char got[SIGV4_DIGITS + 1];
	struct sigv4 g = { 0 };
	const char *why;

	assert_int_equal(sigv4_parse(text(authorization), &claim), SIGV4_CLAIM);
	assert_true(sigv4_date(text(date), claim.date, 0));
	why = sigv4_begin(
		&g,
		&(struct sigv4_request){
			.head = &head, .host = text(host), .claim = &claim, .date = text(date) },
		secret, strlen(secret), &list, &name);
	assert_null(why);
	sigv4_finish(&g, payload, got);
	assert_string_equal(got, want);
}

#define AUTH(id, scope, fields)                                                                    \
	"AWS4-HMAC-SHA256 Credential=" id "/" scope "/aws4_request, SignedHeaders=" fields         \
	", Signature=" EMPTY
#define S3_AUTH(fields) AUTH(S3_ID, "20130524/us-east-1/s3", fields)
#define S3_HOST "examplebucket.s3.amazonaws.com"
#define S3_DATE "20130524T000000Z"

static void the_examples_of_iam_come_out_as_published(void **state UNUSED)
{
	request("GET", "/?Action=ListUsers&Version=2010-05-08");
	field("Content-Type", "application/x-www-form-urlencoded; charset=utf-8");
	field("X-Amz-Date", "20150830T123600Z");
	signs_as("iam.amazonaws.com",
		 AUTH("AKIDEXAMPLE", "20150830/us-east-1/iam", "content-type;host;x-amz-date"),
		 "20150830T123600Z", IAM_SECRET, EMPTY,
		 "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7");
	/* get-vanilla of the test suite. */
	request("GET", "/");
	field("X-Amz-Date", "20150830T123600Z");
	signs_as("example.amazonaws.com",
		 AUTH("AKIDEXAMPLE", "20150830/us-east-1/service", "host;x-amz-date"),
		 "20150830T123600Z", IAM_SECRET, EMPTY,
		 "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31");
	/* get-vanilla-query-order-key-case. */
	request("GET", "/?Param2=value2&Param1=value1");
	field("X-Amz-Date", "20150830T123600Z");
	signs_as("example.amazonaws.com",
		 AUTH("AKIDEXAMPLE", "20150830/us-east-1/service", "host;x-amz-date"),
		 "20150830T123600Z", IAM_SECRET, EMPTY,
		 "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500");
}

static void the_examples_of_s3_come_out_as_published(void **state UNUSED)
{
	request("GET", "/test.txt");
	field("Range", "bytes=0-9");
	field("x-amz-content-sha256", EMPTY);
	field("x-amz-date", S3_DATE);
	signs_as(S3_HOST, S3_AUTH("host;range;x-amz-content-sha256;x-amz-date"), S3_DATE, S3_SECRET,
		 EMPTY, "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
	request("PUT", "/test%24file.text");
	field("Date", "Fri, 24 May 2013 00:00:00 GMT");
	field("x-amz-date", S3_DATE);
	field("x-amz-storage-class", "REDUCED_REDUNDANCY");
	field("x-amz-content-sha256",
	      "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072");
	signs_as(S3_HOST, S3_AUTH("date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class"),
		 S3_DATE, S3_SECRET,
		 "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
		 "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
	request("GET", "/?lifecycle");
	field("x-amz-content-sha256", EMPTY);
	field("x-amz-date", S3_DATE);
	signs_as(S3_HOST, S3_AUTH("host;x-amz-content-sha256;x-amz-date"), S3_DATE, S3_SECRET,
		 EMPTY, "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
	request("GET", "/?max-keys=2&prefix=J");
	field("x-amz-content-sha256", EMPTY);
	field("x-amz-date", S3_DATE);
	signs_as(S3_HOST, S3_AUTH("host;x-amz-content-sha256;x-amz-date"), S3_DATE, S3_SECRET,
		 EMPTY, "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

/* --- Authorization, hosts --- */

static enum sigv4_kind parsed(const char *value)
{
	struct sigv4_claim c;

	return sigv4_parse(text(value), &c);
}

static void an_authorization_is_read_strictly(void **state UNUSED)
{
	static const char *const broken[] = {
		AUTH("ID", "20130524/us-east-1/s3", "x-amz-date"),      /* no host */
		AUTH("ID", "20130524/us-east-1/s3", "host;host"),       /* twice */
		AUTH("ID", "20130524/us-east-1/s3", "Host;x-amz-date"), /* not in small letters */
		AUTH("ID", "20130524/us-east-1/s3", "host;"),
		AUTH("ID", "20130524/us-east-1/s3", ""),
		AUTH("ID", "2013052/us-east-1/s3", "host"),
		AUTH("ID", "20130524//s3", "host"),
		AUTH("ID", "20130524/us-east-1/s3/iam", "host"),
		AUTH("ID", "20130524/us\teast/s3", "host"),
		AUTH("I/D", "20130524/us-east-1/s3", "host"),
		AUTH("ID", "20130524/us-east-1/s3", "host") ", Signature=" EMPTY,
		AUTH("ID", "20130524/us-east-1/s3", "host") ", Credential=x",
		"AWS4-HMAC-SHA256",
		"AWS4-HMAC-SHA256 Credential=ID/20130524/us-east-1/s3/aws4_request",
		"aws4-hmac-sha256 x",
		"AWS4-HMAC-SHA512 x",
	};

	assert_int_equal(parsed(AUTH("ID", "20130524/us-east-1/s3", "host")), SIGV4_CLAIM);
	assert_int_equal(parsed("  AWS4-HMAC-SHA256  SignedHeaders=host;x-amz-date,Signature=" EMPTY
				",Credential=ID/20130524/r/s3/aws4_request "),
			 SIGV4_CLAIM);
	for (size_t i = 0; i < ARRAY_LEN(broken); i++)
		if (parsed(broken[i]) != SIGV4_BROKEN)
			fail_msg("'%s' is read", broken[i]);
	assert_int_equal(parsed("AWS4-ECDSA-P256-SHA256 Credential=ID"), SIGV4_ASYMMETRIC);
	assert_int_equal(parsed("Bearer x"), SIGV4_NONE);
	assert_int_equal(parsed(""), SIGV4_NONE);
}

static bool fits(const char *name, const char *region, const char *service)
{
	struct sigv4_claim c = { .region = text(region), .service = text(service) };
	struct host h;
	char want[128];

	assert_int_equal(host_parse(text(name), &h), HOST_OK);
	assert_true(sigv4_is_aws(&h));
	return sigv4_fits(&c, &h, want);
}

static void a_scope_is_that_of_its_host(void **state UNUSED)
{
	static const char *const good[][3] = {
		{ "s3.us-east-1.amazonaws.com", "us-east-1", "s3" },
		{ "a.b.s3.dualstack.eu-west-3.amazonaws.com", "eu-west-3", "s3" },
		{ "bucket.s3.amazonaws.com", "eu-west-3", "s3" },
		{ "bucket.s3-us-west-2.amazonaws.com", "us-west-2", "s3" },
		{ "s3.cn-north-1.amazonaws.com.cn", "cn-north-1", "s3" },
		{ "sts.amazonaws.com", "us-east-1", "sts" },
		{ "sts-fips.us-gov-west-1.amazonaws.com", "us-gov-west-1", "sts" },
		{ "bedrock-runtime.us-east-1.amazonaws.com", "us-east-1", "bedrock" },
		{ "api.ecr.us-east-2.amazonaws.com", "us-east-2", "ecr" },
		{ "email.us-east-1.amazonaws.com", "us-east-1", "ses" },
		{ "x1.execute-api.us-east-1.amazonaws.com", "us-east-1", "execute-api" },
		{ "search-a-b.us-east-1.es.amazonaws.com", "us-east-1", "es" },
		{ "lambda.us-east-1.api.aws", "us-east-1", "lambda" },
		{ "runtime-v2-lex.us-east-1.amazonaws.com", "us-east-1", "lex" },
	};
	static const char *const bad[][3] = {
		{ "s3.us-east-1.amazonaws.com", "us-west-2", "s3" },
		{ "s3.us-east-1.amazonaws.com", "us-east-1", "iam" },
		{ "iam.s3.us-east-1.amazonaws.com", "us-east-1", "iam" }, /* a bucket's name */
		{ "iam.s3.amazonaws.com", "us-east-1", "iam" },
		{ "sts.us-west-2.s3.us-east-1.amazonaws.com", "us-west-2", "sts" },
		{ "sts.amazonaws.com", "us-west-2", "sts" },
		{ "iam.amazonaws.com", "us-east-1", "sts" },
		{ "x1.execute-api.us-east-1.amazonaws.com", "us-east-1", "sts" },
		{ "s3.us-east-1.amazonaws.com", "us-east-1", "s" },
		{ "s3.us-east-1.amazonaws.com", "us-east-1", "s3express" },
	};
	struct host h;

	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		if (!fits(good[i][0], good[i][1], good[i][2]))
			fail_msg("%s is not %s", good[i][0], good[i][2]);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (fits(bad[i][0], bad[i][1], bad[i][2]))
			fail_msg("%s is %s", bad[i][0], bad[i][2]);
	assert_int_equal(host_parse(text("s3.amazonaws.com.evil.example.org"), &h), HOST_OK);
	assert_false(sigv4_is_aws(&h));
	assert_int_equal(host_parse(text("xamazonaws.com"), &h), HOST_OK);
	assert_false(sigv4_is_aws(&h));
}

static void a_time_is_now(void **state UNUSED)
{
	int64_t now = 1440938160; /* 2015-08-30 12:36:00 */
	struct egress_text day = text("20150830");

	assert_true(sigv4_date(text("20150830T123600Z"), day, now));
	assert_true(sigv4_date(text("20150830T124000Z"), day, now));
	assert_false(sigv4_date(text("20150830T133600Z"), day, now));
	assert_false(sigv4_date(text("20150829T123600Z"), day, now));
	assert_false(sigv4_date(text("20150830T1236xxZ"), day, 0));
	assert_false(sigv4_date(text("20150830"), day, 0));
	assert_true(sigv4_date(text("20150830T233600Z"), day, 0));
}

/* --- behind a plan --- */

static void make(void)
{
	assert_int_equal(spec_set(s, FIELD_CREDENTIAL, "aws", ORIGIN_FLAG, &e), 0);
	if (egress_plan_new(s, environment, &plan, &e) < 0 ||
	    creds_new(&plan->credentials, plan->secrets, false, &creds, &e) < 0)
		fail_msg("%s", e.what);
	assert_int_equal(plan->credentials.n, 3);
}

static const char *authorization(const char *scope, const char *names)
{
	return arena_printf(head.arena,
			    "AWS4-HMAC-SHA256 Credential=%s/%s/aws4_request, SignedHeaders=%s, "
			    "Signature=" EMPTY,
			    plan->secrets[0].placeholder, scope, names);
}

static struct sigv4 sign;

static bool sent_with(const char *name, bool has_body)
{
	struct cred_target to = {
		.port = 443, .verified = true, .has_body = has_body, .signing = &sign
	};
	struct host h;
	uint64_t used;

	sign = (struct sigv4){ 0 };
	assert_int_equal(host_parse(text(name), &h), HOST_OK);
	to.host = &h;
	return cred_apply(creds, &to, &head, &used, &v);
}

static void ordinary(void)
{
	request("GET", "/test.txt");
	field("Authorization",
	      authorization("20130524/us-east-1/s3",
			    "host;x-amz-content-sha256;x-amz-date;x-amz-security-token"));
	field("x-amz-content-sha256", EMPTY);
	field("x-amz-date", S3_DATE);
	field("X-Amz-Security-Token", plan->secrets[2].placeholder);
}

static void refused(const char *host, const char *what)
{
	assert_false(sent_with(host, false));
	assert_int_equal(v.reason, EGRESS_CREDENTIAL_MISUSE);
	if (!strstr(v.what, what))
		fail_msg("'%s' does not say '%s'", v.what, what);
	assert_null(strstr(v.what, S3_SECRET));
}

static void a_request_is_signed_anew(void **state UNUSED)
{
	struct egress_field *f;

	make();
	ordinary();
	assert_true(sent_with(S3_HOST, false));
	f = head_field(&head, "authorization");
	assert_non_null(memmem(f->value.p, f->value.n, S3_ID "/20130524/us-east-1/s3/", 43));
	assert_null(memmem(f->value.p, f->value.n, EMPTY, 64));
	f = head_field(&head, "x-amz-security-token");
	assert_int_equal(f->value.n, strlen(TOKEN));
	/* What nobody signed is no way in: the door signs every X-Amz- field that goes. */
	ordinary();
	field("X-Amz-Acl", "public-read");
	assert_true(sent_with(S3_HOST, false));
	f = head_field(&head, "authorization");
	assert_non_null(memmem(f->value.p, f->value.n, ";x-amz-date;", 12));
	assert_non_null(memmem(f->value.p, f->value.n, "host;x-amz-acl;", 15));
}

static void a_body_without_a_hash_waits(void **state UNUSED)
{
	make();
	request("POST", "/");
	field("Authorization", authorization("20130524/us-east-1/sts", "host;x-amz-date"));
	field("x-amz-date", S3_DATE);
	assert_true(sent_with("sts.amazonaws.com", true));
	assert_true(sign.waits);
	assert_int_equal(memcmp(sign.place, "00000000", 8), 0);
	/* Control: without a body there is nothing to wait for. */
	request("GET", "/");
	field("Authorization", authorization("20130524/us-east-1/sts", "host;x-amz-date"));
	field("x-amz-date", S3_DATE);
	assert_true(sent_with("sts.amazonaws.com", false));
	assert_false(sign.waits);
}

static void what_is_not_for_the_host_is_refused(void **state UNUSED)
{
	make();
	ordinary();
	refused("iam.amazonaws.com", "signed for s3");
	ordinary();
	refused("s3.eu-west-3.amazonaws.com", "us-east-1");
	/* Nothing is bound to other names: there the placeholder is a misuse. */
	ordinary();
	refused("s3.amazonaws.com.evil.example.org", "placeholder");
	ordinary();
	head.fields[0].value = text(S3_AUTH("host;x-amz-date"));
	refused(S3_HOST, "something else");
	ordinary();
	head.fields[0].value = text("Bearer abc");
	refused(S3_HOST, "something else");
	ordinary();
	head.fields[3].value = text("FwoGZXIvYXdzEXAMPLE");
	refused(S3_HOST, "something else");
}

static void what_cannot_be_signed_is_refused_by_name(void **state UNUSED)
{
	static const struct {
		const char *payload, *what;
	} payloads[] = { { "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "signed one by one" },
			 { "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER", "signed one by one" },
			 { "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD", "signed one by one" },
			 { "x", "neither a hash" } };
	static const char *const pass[] = { "UNSIGNED-PAYLOAD",
					    "STREAMING-UNSIGNED-PAYLOAD-TRAILER" };

	make();
	for (size_t i = 0; i < ARRAY_LEN(payloads); i++) {
		ordinary();
		head.fields[1].value = text(payloads[i].payload);
		refused(S3_HOST, payloads[i].what);
	}
	for (size_t i = 0; i < ARRAY_LEN(pass); i++) {
		ordinary();
		head.fields[1].value = text(pass[i]);
		assert_true(sent_with(S3_HOST, true));
		assert_false(sign.waits);
	}
	ordinary();
	head.target = text("/test.txt?x-amz-signatur%65=abc");
	refused(S3_HOST, "presigned");
	ordinary();
	head.fields[0].value = text("AWS4-ECDSA-P256-SHA256 Credential=x");
	refused(S3_HOST, "SigV4A");
	ordinary();
	field("Authorization", "AWS4-HMAC-SHA256 x");
	refused(S3_HOST, "two fields");
	ordinary();
	field("X-Amz-Date", S3_DATE);
	refused(S3_HOST, "twice");
	ordinary();
	head.fields[0].value = text(authorization("20130524/us-east-1/s3", "x-amz-date"));
	refused(S3_HOST, "cannot read");
	ordinary();
	head.fields[2].value = text("20130525T000000Z");
	refused(S3_HOST, "not now");
}

static void half_a_key_is_none(void **state UNUSED)
{
	char *half[] = { "AWS_ACCESS_KEY_ID=" S3_ID, NULL };

	assert_int_equal(spec_set(s, FIELD_CREDENTIAL, "AWS_ACCESS_KEY_ID", ORIGIN_FLAG, &e), 0);
	assert_true(egress_plan_new(s, half, &plan, &e) < 0);
	if (!strstr(e.what, "the secret that belongs to it is not set"))
		fail_msg("%s", e.what);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup_teardown(the_examples_of_iam_come_out_as_published, fresh, gone),
	cmocka_unit_test_setup_teardown(the_examples_of_s3_come_out_as_published, fresh, gone),
	cmocka_unit_test(an_authorization_is_read_strictly),
	cmocka_unit_test(a_scope_is_that_of_its_host),
	cmocka_unit_test(a_time_is_now),
	cmocka_unit_test_setup_teardown(a_request_is_signed_anew, fresh, gone),
	cmocka_unit_test_setup_teardown(a_body_without_a_hash_waits, fresh, gone),
	cmocka_unit_test_setup_teardown(what_is_not_for_the_host_is_refused, fresh, gone),
	cmocka_unit_test_setup_teardown(what_cannot_be_signed_is_refused_by_name, fresh, gone),
	cmocka_unit_test_setup_teardown(half_a_key_is_none, fresh, gone),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
