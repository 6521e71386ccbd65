/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_otlp.c - the OTEL_* variables, trace context, sampling, and the JSON of a trace. */
#include "unit.h"

#include "base/text/url.h"
#include "jsoncheck.h"
#include "telemetry/otlp.h"
#include "telemetry/send.h"

#define PARENT "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
#define ENDPOINT "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318"

struct opened {
	struct arena *arena;
	struct otlp t;
	struct err e;
	int r;
};

static void opened_done(struct opened *o)
{
	o->arena = arena_free(o->arena);
}

static struct opened with(const char *a, const char *b, const char *c)
{
	const char *const variables[] = { a, b, c, NULL };
	struct opened o = { .arena = arena_new((size_t)1 << 20) };

	o.r = otlp_open(o.arena, (char *const *)(uintptr_t)variables, &o.t, &o.e);
	return o;
}

static void nothing_is_sent_unless_asked_for(void **state UNUSED)
{
	static const char *const sets[][3] = {
		{ "PATH=/bin" },
		{ "OTEL_SERVICE_NAME=x", "TRACEPARENT=" PARENT },
		{ "OTEL_EXPORTER_OTLP_ENDPOINT=" },
		{ ENDPOINT, "OTEL_SDK_DISABLED=TRUE" },
		{ ENDPOINT, "OTEL_TRACES_EXPORTER=none" },
	};

	for (size_t i = 0; i < ARRAY_LEN(sets); i++) {
		struct opened o = with(sets[i][0], sets[i][1], sets[i][2]);

		assert_int_equal(o.r, 0);
		opened_done(&o);
	}
}

static void addresses_are_built_as_the_specification_says(void **state UNUSED)
{
	static const struct {
		const char *a, *b, *url;
	} all[] = {
		{ "OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318", NULL, "http://c:4318/v1/traces" },
		{ "OTEL_EXPORTER_OTLP_ENDPOINT=http://c/x/", NULL, "http://c/x/v1/traces" },
		{ "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=https://c/y", NULL, "https://c/y" },
		{ "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=https://c/y", ENDPOINT, "https://c/y" },
		{ "OTEL_TRACES_EXPORTER=otlp", NULL, "http://localhost:4318/v1/traces" },
	};

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		struct opened o = with(all[i].a, all[i].b, NULL);

		assert_int_equal(o.r, 1);
		assert_string_equal(o.t.url, all[i].url);
		opened_done(&o);
	}
}

static void what_brig_does_not_know_is_said(void **state UNUSED)
{
	static const struct {
		const char *variable, *said;
	} all[] = {
		{ "OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "OTEL_EXPORTER_OTLP_PROTOCOL 'grpc'" },
		{ "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf",
		  "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL" },
		{ "OTEL_TRACES_EXPORTER=zipkin", "zipkin" },
		{ "OTEL_EXPORTER_OTLP_TIMEOUT=soon", "OTEL_EXPORTER_OTLP_TIMEOUT" },
		{ "OTEL_EXPORTER_OTLP_TIMEOUT=0", "OTEL_EXPORTER_OTLP_TIMEOUT" },
		{ "OTEL_EXPORTER_OTLP_HEADERS=a", "OTEL_EXPORTER_OTLP_HEADERS" },
		{ "OTEL_RESOURCE_ATTRIBUTES=a=%zz", "OTEL_RESOURCE_ATTRIBUTES" },
		{ "OTEL_EXPORTER_OTLP_CLIENT_KEY=/k.pem", "OTEL_EXPORTER_OTLP_CLIENT_KEY" },
		{ "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=ftp://x", "TRACES_ENDPOINT" },
	};

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		struct opened o = with(ENDPOINT, all[i].variable, NULL);

		assert_true(o.r < 0);
		assert_non_null(strstr(o.e.what, all[i].said));
		opened_done(&o);
	}
}

static void headers_are_decoded(void **state UNUSED)
{
	CLEANUP(arena) struct arena *a = arena_new((size_t)64 << 10);
	struct otlp_pairs p;
	struct err e;

	assert_int_equal(otlp_headers_parse(a, "api-key=a%20b, x = y%2Cz%3d ,,n=", &p, &e), 0);
	assert_int_equal(p.n, 3);
	assert_string_equal(p.v[0].name, "api-key");
	assert_string_equal(p.v[0].value, "a b");
	assert_string_equal(p.v[1].name, "x");
	assert_string_equal(p.v[1].value, "y,z=");
	assert_string_equal(p.v[2].value, "");
}

static void headers_that_would_change_the_request_are_refused(void **state UNUSED)
{
	static const char *const wrong[] = {
		"a=b%0d%0aHost: evil",
		"a=%0a",
		"a=%00",
		"a b=c",
		"a:=c",
		"host=evil",
		"Content-Length=1",
		"a=b%",
		"a=%1",
		"=x",
		"transfer-encoding=chunked",
		"x",
		"connection=close",
		"a%0a=b",
		"a=\x7f",
	};
	CLEANUP(arena) struct arena *a = arena_new((size_t)64 << 10);

	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		struct otlp_pairs p = { 0 };
		struct err e;

		assert_int_equal(otlp_headers_parse(a, wrong[i], &p, &e), -EINVAL);
		assert_int_equal(p.n, 0);
		assert_null(strstr(e.what, "evil")); /* it may be a secret */
	}
}

static void a_parent_is_taken_or_ignored(void **state UNUSED)
{
	static const struct {
		const char *text;
		bool valid, sampled;
	} all[] = {
		{ PARENT, true, true },
		{ "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", true, false },
		{ "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-03", true, true },
		{ "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more", true, true },
		{ "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01more", false, false },
		{ PARENT "-more", false, false },
		{ PARENT " ", false, false },
		{ "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", false, false },
		{ "00-00000000000000000000000000000000-b7ad6b7169203331-01", false, false },
		{ "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", false, false },
		{ "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01", false, false },
		{ "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0", false, false },
		{ "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0g", false, false },
		{ "0-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01x", false, false },
		{ "", false, false },
	};

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		struct otlp_parent p = { 0 };

		assert_int_equal(otlp_parent_parse(all[i].text, &p), all[i].valid);
		assert_int_equal(p.sampled, all[i].sampled);
	}
}

static void the_run_goes_on_with_its_parents_trace(void **state UNUSED)
{
	struct opened o = with(ENDPOINT, "TRACEPARENT=" PARENT, "TRACESTATE=vendor=1");
	char mine[TRACEPARENT_SIZE];

	assert_int_equal(o.r, 1);
	otlp_traceparent(&o.t, mine);
	assert_memory_equal(mine, PARENT, 36);               /* the same trace */
	assert_memory_not_equal(mine + 36, &PARENT[36], 16); /* a span of its own */
	assert_string_equal(mine + 52, "-01");
	assert_string_equal(o.t.parent.state, "vendor=1");
	opened_done(&o);
	o = with(ENDPOINT, "TRACEPARENT=nonsense", "TRACESTATE=vendor=1");
	assert_false(o.t.parent.there);
	assert_null(o.t.parent.state);
	opened_done(&o);
}

static void the_sampler_decides(void **state UNUSED)
{
	static const char not_sampled[] =
		"TRACEPARENT=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
	static const struct {
		const char *sampler, *parent;
		bool sampled;
	} all[] = {
		{ NULL, NULL, true },
		{ NULL, not_sampled, false },
		{ "OTEL_TRACES_SAMPLER=always_on", not_sampled, true },
		{ "OTEL_TRACES_SAMPLER=always_off", "TRACEPARENT=" PARENT, false },
		{ "OTEL_TRACES_SAMPLER=parentbased_always_off", "TRACEPARENT=" PARENT, true },
		{ "OTEL_TRACES_SAMPLER=parentbased_always_off", "X=", false },
		{ "OTEL_TRACES_SAMPLER=parentbased_always_on", not_sampled, false },
		{ "OTEL_TRACES_SAMPLER=traceidratio", not_sampled, true },
		{ "OTEL_TRACES_SAMPLER=something_new", "X=", true },
	};

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		struct opened o =
			with(ENDPOINT, all[i].sampler ? all[i].sampler : "X=", all[i].parent);

		assert_int_equal(o.r, 1);
		assert_int_equal(o.t.sampled, all[i].sampled);
		assert_int_equal(o.t.warning != NULL, i == ARRAY_LEN(all) - 1);
		opened_done(&o);
	}
}

static void a_ratio_takes_its_part_of_the_traces(void **state UNUSED)
{
	static const struct {
		const char *arg;
		unsigned char highest; /* byte 8 of the trace id: at most this is sampled */
		bool at, above;
	} all[] = {
		{ "OTEL_TRACES_SAMPLER_ARG=0.5", 0x7f, true, false },
		{ "OTEL_TRACES_SAMPLER_ARG=0.25", 0x3f, true, false },
		{ "OTEL_TRACES_SAMPLER_ARG=1", 0xfe, true, true },
		{ "OTEL_TRACES_SAMPLER_ARG=1.0", 0xfe, true, true },
		{ "OTEL_TRACES_SAMPLER_ARG=0", 0, false, false },
		{ "OTEL_TRACES_SAMPLER_ARG=0.000000000000001", 0, false, false },
	};

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		struct opened o = with(ENDPOINT, "OTEL_TRACES_SAMPLER=traceidratio", all[i].arg);

		assert_null(o.t.warning);
		memset(o.t.trace, 0xff, sizeof(o.t.trace));
		o.t.trace[8] = all[i].highest;
		assert_int_equal(otlp_decide(&o.t), all[i].at);
		o.t.trace[8]++;
		memset(o.t.trace + 9, 0, 7);
		assert_int_equal(otlp_decide(&o.t), all[i].above);
		opened_done(&o);
	}
	for (int i = 0; i < 3; i++) {
		static const char *const wrong[] = { "OTEL_TRACES_SAMPLER_ARG=1.5",
						     "OTEL_TRACES_SAMPLER_ARG=-1",
						     "OTEL_TRACES_SAMPLER_ARG=0.5x" };
		struct opened o = with(ENDPOINT, "OTEL_TRACES_SAMPLER=traceidratio", wrong[i]);

		assert_non_null(o.t.warning);
		opened_done(&o);
	}
}

/* ---- the body; that it is what a collector takes is tests/run's to show ---- */

static char *body_of(struct opened *t, const struct spec *s, const struct outcome *o,
		     const struct otlp_times *when)
{
	struct buf b = BUF_INIT((size_t)1 << 20);

	otlp_body(&t->t, s, o, when, &b);
	assert_false(b.failed);
	assert_true(json_is_valid(buf_str(&b), b.len));
	return buf_take(&b);
}

static size_t count_of(const char *text, const char *part)
{
	size_t n = 0;

	for (const char *at = strstr(text, part); at; at = strstr(at + 1, part))
		n++;
	return n;
}

static void holds(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("no '%s' in: %s", part, text);
}

static void a_run_is_one_span_and_its_phases_below_it(void **state UNUSED)
{
	struct opened t = with(ENDPOINT, "TRACEPARENT=" PARENT,
			       "OTEL_RESOURCE_ATTRIBUTES=team=a%2Fb,service.name=agent");
	const struct otlp_times when = { .wall_us = 1700000000000000, .began = 50, .done = 950 };
	CLEANUP(outcome) struct outcome *o = outcome_new();
	struct err e;
	CLEANUP(spec) struct spec *s = spec_new(&e);
	CLEANUP(mem) char *body = NULL;
	char *argv[] = { (char[]){ "/usr/bin/curl" }, (char[]){ "--user=me:hunter2" } };
	char child[64], own[TRACEPARENT_SIZE];

	assert_int_equal(spec_set_argv(s, 2, argv, &e), 0);
	o->kind = OUTCOME_TIMEOUT;
	o->backend = "native";
	o->phases = (struct phases){ .planned = 150, .started = 250, .ended = 850 };
	body = body_of(&t, s, o, &when);
	otlp_traceparent(&t.t, own);
	(void)snprintf(child, sizeof(child), "\"parentSpanId\":\"%.16s\"", own + 36);
	assert_int_equal(count_of(body, "\"traceId\":\"0af7651916cd43dd8448eb211c80319c\""), 5);
	assert_int_equal(
		count_of(body, "\"parentSpanId\":\"b7ad6b7169203331\",\"name\":\"brig run\""), 1);
	assert_int_equal(count_of(body, child), 4);
#define SPAN(name, from, to)                                                                       \
	"\"name\":\"" name "\",\"kind\":1,\"startTimeUnixNano\":\"1700000000000" from              \
	"\",\"endTimeUnixNano\":\"1700000000000" to "\""
	holds(body, SPAN("brig run", "000000", "900000"));
	holds(body, SPAN("plan", "000000", "100000"));
	holds(body, SPAN("setup", "100000", "200000"));
	holds(body, SPAN("run", "200000", "800000"));
	holds(body, SPAN("finish", "800000", "900000"));
	holds(body, "{\"key\":\"brig.outcome\",\"value\":{\"stringValue\":\"timeout\"}}");
	holds(body, "{\"key\":\"process.executable.name\",\"value\":{\"stringValue\":\"curl\"}}");
	holds(body, "{\"key\":\"process.exit.code\",\"value\":{\"intValue\":\"124\"}}");
	holds(body, "\"status\":{\"code\":2,\"message\":\"timeout\"}");
	holds(body, "{\"key\":\"service.name\",\"value\":{\"stringValue\":\"agent\"}}");
	holds(body, "{\"key\":\"team\",\"value\":{\"stringValue\":\"a/b\"}}");
	assert_int_equal(count_of(body, "service.name"), 1);
	assert_null(strstr(body, "hunter2"));
	assert_null(strstr(body, "/usr/bin"));
	opened_done(&t);
}

static void a_refused_run_ends_in_the_phase_that_refused(void **state UNUSED)
{
	struct opened t = with(ENDPOINT, NULL, NULL);
	const struct otlp_times when = { .wall_us = 1000, .began = 50, .done = 950 };
	CLEANUP(outcome) struct outcome *o = outcome_new();
	struct err e;
	CLEANUP(spec) struct spec *s = spec_new(&e);
	CLEANUP(mem) char *body = NULL;

	o->kind = OUTCOME_REFUSED;
	(void)err_set(&o->error, ERR_POLICY, EPERM, "no");
	body = body_of(&t, s, o, &when);
	assert_int_equal(count_of(body, "\"traceId\""), 2);
	assert_int_equal(count_of(body, "\"parentSpanId\""), 1);
	assert_int_equal(count_of(body, "\"endTimeUnixNano\":\"1900000\""), 2);
	holds(body, "{\"key\":\"error.type\",\"value\":{\"stringValue\":\"policy\"}}");
	opened_done(&t);
}

/* ---- what brig-send gets ---- */

static void a_request_with_a_line_too_many_is_refused(void **state UNUSED)
{
	const char *const broken[] = { "X: a\r\nHost: evil", NULL }, *const empty[] = { "", NULL };
	CLEANUP(buf) struct buf b = BUF_INIT((size_t)1 << 20);
	struct send all[] = { { .url = "http://c/", .headers = broken },
			      { .url = "http://c/", .headers = empty },
			      { .url = "http://c/\nx" },
			      { .url = "gopher://c/" },
			      { .url = "http://c/", .len = SEND_BODY_MAX + 1 } };
	struct err e;

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		assert_true(send_encode(&all[i], &b, &e) < 0);
}

static void addresses_are_read_strictly(void **state UNUSED)
{
	static const struct {
		const char *text, *host, *authority, *target;
		int port;
		bool tls;
	} good[] = {
		{ "http://localhost", "localhost", "localhost", "/", 80, false },
		{ "HTTPS://Example.org/a?b=c", "Example.org", "Example.org", "/a?b=c", 443, true },
		{ "https://h:4318/x", "h", "h:4318", "/x", 4318, true },
		{ "http://[::1]:8080/", "::1", "[::1]:8080", "/", 8080, false },
		{ "http://127.0.0.1:80/", "127.0.0.1", "127.0.0.1", "/", 80, false },
	};
	static const char *const wrong[] = {
		"",
		"ftp://x/",
		"http://",
		"http:///x",
		"http://h:0/",
		"http://h:",
		"http://h:65536/",
		"http://h:8x/",
		"http://u:p@h/",
		"http://h/#f",
		"http://h/ ",
		"http://h\\x/",
		"http://[::1",
		"http://h?q",
		"http://h/\xc3\xa9",
	};
	struct url u;
	struct err e;

	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		assert_int_equal(url_parse(good[i].text, &u, &e), 0);
		assert_string_equal(u.host, good[i].host);
		assert_string_equal(u.authority, good[i].authority);
		assert_string_equal(u.target, good[i].target);
		assert_int_equal(u.port, good[i].port);
		assert_int_equal(u.tls, good[i].tls);
	}
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
		assert_int_equal(url_parse(wrong[i], &u, &e), -EINVAL);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(nothing_is_sent_unless_asked_for),
	cmocka_unit_test(addresses_are_built_as_the_specification_says),
	cmocka_unit_test(what_brig_does_not_know_is_said),
	cmocka_unit_test(headers_are_decoded),
	cmocka_unit_test(headers_that_would_change_the_request_are_refused),
	cmocka_unit_test(a_parent_is_taken_or_ignored),
	cmocka_unit_test(the_run_goes_on_with_its_parents_trace),
	cmocka_unit_test(the_sampler_decides),
	cmocka_unit_test(a_ratio_takes_its_part_of_the_traces),
	cmocka_unit_test(a_run_is_one_span_and_its_phases_below_it),
	cmocka_unit_test(a_refused_run_ends_in_the_phase_that_refused),
	cmocka_unit_test(a_request_with_a_line_too_many_is_refused),
	cmocka_unit_test(addresses_are_read_strictly),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
