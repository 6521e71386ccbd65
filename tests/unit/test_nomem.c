/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_nomem.c - the nth allocation fails, for every n: an error is told, nothing crashes, and
 * under a sanitizer nothing leaks. The linker puts the functions below in malloc's place. */
#include "nomem.h"
#include "unit.h"

#include "audit/log.h"
#include "audit/prune.h"
#include "audit/verify.h"
#include "backend/kit/plan/plan.h"
#include "backend/ssh/ssh.h"
#include "model/files/schema.h"
#include "model/outcome/outcome.h"
#include "model/request/code.h"
#include "model/settings/spec.h"
#include "telemetry/metrics.h"
#include "telemetry/otlp.h"
#include "telemetry/send.h"

#define TRIES_MAX 100000

/* A job that says -ENOMEM when it was told so, and 0 when it did its work. */
typedef int job(void);

static void every_allocation_may_fail(job *work)
{
	for (int mode = 0; mode < 2; mode++)
		for (long n = 0;; n++) {
			int r;

			assert_true(n < TRIES_MAX);
			left = n;
			for_good = mode;
			struck = false;
			r = work();
			left = -1;
			if (!struck) {
				assert_int_equal(r, 0);
				assert_true(n > 0);
				break;
			}
			if (r != 0 && r != -ENOMEM)
				fail_msg("allocation %ld failed, and the answer was %d", n, r);
		}
}

static const struct place here = { .cwd = "/src/project", .home = "/home/me" };

static int fill(struct spec *s, struct err *e)
{
	static const char *const pairs[][2] = {
		{ "workspace.path", "/src/project" },
		{ "mounts", "/src/a:/data:rw" },
		{ "read", "/src/r" },
		{ "write", "/src/w" },
		{ "env.set", "A=1" },
		{ "env.set", "A=2" },
		{ "env.pass", "EDITOR" },
		{ "limits.memory", "64m" },
		{ "policy", "workspace_write" },
		{ "user", "1000" },
	};

	for (size_t i = 0; i < ARRAY_LEN(pairs); i++)
		if (spec_set_key(s, pairs[i][0], pairs[i][1], ORIGIN_FLAG, e) < 0)
			return -e->code;
	return 0;
}

static int make_spec(void)
{
	char *argv[] = { "sh", "-c", "true", NULL };
	CLEANUP(spec) struct spec *copy = NULL;
	struct err e = { 0 };
	CLEANUP(spec) struct spec *s = spec_new(&e);

	if (!s || fill(s, &e) < 0 || spec_set_argv(s, 3, argv, &e) < 0)
		return e.kind == ERR_USAGE && e.code == E2BIG ? -ENOMEM : -e.code;
	copy = spec_clone(s, &e);
	if (!copy || spec_check(s, &here, &e) < 0 || spec_check(copy, &here, &e) < 0)
		return -e.code;
	return 0;
}

static void a_spec_survives_any_allocation_that_fails(void **state UNUSED)
{
	every_allocation_may_fail(make_spec);
}

/* A caller that goes on after an error must find a spec it can still use. */
static int go_on_after_errors(void)
{
	struct err e = { 0 };
	CLEANUP(spec) struct spec *s = spec_new(&e);
	char path[32];
	int r = 0;

	if (!s)
		return -e.code;
	for (int i = 0; i < 40; i++) {
		(void)snprintf(path, sizeof(path), "/src/%d", i);
		if (spec_set_key(s, "read", path, ORIGIN_FLAG, &e) < 0)
			r = -e.code;
		(void)snprintf(path, sizeof(path), "V%d=1", i);
		if (spec_set_key(s, "env.set", path, ORIGIN_FLAG, &e) < 0)
			r = -e.code;
		(void)snprintf(path, sizeof(path), "/src/m:/m/%d", i);
		if (spec_set_key(s, "mounts", path, ORIGIN_FLAG, &e) < 0)
			r = -e.code;
	}
	return spec_check(s, &here, &e) < 0 ? -e.code : r;
}

static void a_spec_can_be_used_after_an_error(void **state UNUSED)
{
	every_allocation_may_fail(go_on_after_errors);
}

static struct spec *planned; /* checked once, with memory */

static int make_plan(void)
{
	CLEANUP(box_plan) struct box_plan *p = NULL;
	CLEANUP(buf) struct buf b = BUF_INIT((size_t)4 << 20);
	struct err e = { 0 };
	struct json j;

	if (box_plan_new(planned, "native", &p, &e) < 0)
		return -e.code;
	json_init(&j, &b, true);
	box_plan_json(p, &j);
	return b.failed ? -ENOMEM : 0;
}

static void a_plan_survives_any_allocation_that_fails(void **state UNUSED)
{
	struct place at = { 0 };
	char top[PATH_MAX];
	char *argv[] = { "true", NULL };
	struct err e;

	enter_scratch(top);
	must(mkdir(".git", 0755) == 0 && mkdir(".git/hooks", 0755) == 0);
	write_text(".git/config", "");
	at.cwd = top;
	planned = spec_new(&e);
	assert_non_null(planned);
	assert_int_equal(spec_set_key(planned, "env.set", "A=1", ORIGIN_FLAG, &e), 0);
	assert_int_equal(spec_set_argv(planned, 1, argv, &e), 0);
	assert_int_equal(spec_check(planned, &at, &e), 0);
	every_allocation_may_fail(make_plan);
	planned = spec_free(planned);
	leave_scratch(top);
}

static int make_remote_plan(void)
{
	CLEANUP(ssh_plan) struct backend_plan *p = NULL;
	CLEANUP(buf) struct buf b = BUF_INIT((size_t)4 << 20);
	struct err e = { 0 };
	struct json j;

	if (ssh_plan(planned, &p, NULL, &e) < 0)
		return -e.code;
	json_init(&j, &b, true);
	ssh_plan_json(p, &j);
	return b.failed ? -ENOMEM : 0;
}

static void a_remote_plan_survives_any_allocation_that_fails(void **state UNUSED)
{
	struct err e;

	planned = spec_new(&e);
	assert_non_null(planned);
	assert_int_equal(spec_set_key(planned, "ssh.host", "box", ORIGIN_FLAG, &e), 0);
	assert_int_equal(spec_set_key(planned, "ssh.remote", "brig", ORIGIN_FLAG, &e), 0);
	assert_int_equal(spec_set_key(planned, "read", "/src/r", ORIGIN_FLAG, &e), 0);
	assert_int_equal(code_set(planned, CODE_PYTHON, "print(1)", 8, NULL, &e), 0);
	assert_int_equal(spec_check(planned, &here, &e), 0);
	every_allocation_may_fail(make_remote_plan);
	planned = spec_free(planned);
}

static int make_outcome(void)
{
	CLEANUP(outcome) struct outcome *o = outcome_new();
	CLEANUP(buf) struct buf b = BUF_INIT((size_t)1 << 20);
	struct json j;
	bool whole;

	if (!o)
		return -ENOMEM;
	o->out.data.max = 100000;
	for (int i = 0; i < 1000; i++)
		buf_puts(&o->out.data, "some output\n");
	for (int i = 0; i < 10; i++)
		outcome_deny(o, "kind", &"0123456789"[i], "reason");
	whole = !o->out.data.failed && o->denial_count == 10;
	if (outcome_denied(o) != 10) /* what has no place is counted */
		return -EINVAL;
	json_init(&j, &b, true);
	outcome_json(o, &j);
	return b.failed || !whole ? -ENOMEM : 0;
}

static void an_outcome_survives_any_allocation_that_fails(void **state UNUSED)
{
	every_allocation_may_fail(make_outcome);
}

static int make_schema(void)
{
	struct buf b = BUF_INIT((size_t)1 << 20);
	CLEANUP(mem) char *text = NULL;
	struct json j;

	json_init(&j, &b, true);
	schema_json(&j, "#");
	text = buf_take(&b);
	return text ? 0 : -ENOMEM;
}

static void the_schema_survives_any_allocation_that_fails(void **state UNUSED)
{
	every_allocation_may_fail(make_schema);
}

static int count_and_read_back(void)
{
	CLEANUP(metrics) struct metrics *m = metrics_new(), *back = metrics_new();
	CLEANUP(buf) struct buf b = BUF_INIT((size_t)1 << 20);
	char kind[16];
	struct err e;

	if (!m || !back)
		return -ENOMEM;
	for (int i = 0; i < 100; i++) {
		(void)snprintf(kind, sizeof(kind), "kind-%d", i);
		metrics_add(m, METRIC_DENIALS, kind, NULL, 1);
	}
	if (metrics_render(m, &b) < 0)
		return -ENOMEM;
	if (metrics_parse(back, buf_str(&b), b.len, &e) < 0)
		return -e.code;
	metrics_merge(back, m);
	b.len = 0;
	return metrics_render(back, &b);
}

static void metrics_survive_any_allocation_that_fails(void **state UNUSED)
{
	every_allocation_may_fail(count_and_read_back);
}

static int make_trace(void)
{
	char *variables[] = { "OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318",
			      "OTEL_EXPORTER_OTLP_HEADERS=a=b,c=d%20e",
			      "OTEL_RESOURCE_ATTRIBUTES=k=v", NULL };
	CLEANUP(arena) struct arena *a = arena_new((size_t)1 << 20);
	CLEANUP(outcome) struct outcome *o = outcome_new();
	CLEANUP(buf) struct buf body = BUF_INIT((size_t)1 << 20);
	CLEANUP(buf) struct buf request = BUF_INIT((size_t)1 << 20);
	struct otlp_times when = { 1, 1, 1 };
	struct err e = { 0 };
	CLEANUP(spec) struct spec *s = spec_new(&e);
	struct send send = { .url = "http://c:4318/" };
	struct otlp t;

	if (!a || !o || !s)
		return -ENOMEM;
	if (otlp_open(a, variables, &t, &e) < 0)
		return -e.code;
	otlp_body(&t, s, o, &when, &body);
	send.body = body.data;
	send.len = body.len;
	if (send_encode(&send, &request, &e) < 0)
		return -e.code;
	return body.failed ? -ENOMEM : 0;
}

static void a_trace_survives_any_allocation_that_fails(void **state UNUSED)
{
	every_allocation_may_fail(make_trace);
}

/* A tail to be taken over, an append, a prune, a verification, a reading. */
static int use_record(struct log *l, struct err *e)
{
	struct prune_options p = { .max_records = 3 };
	struct verify_options v = { .dir = "log", .threads = 1 };
	struct prune_report pruned;
	struct verify_report found;
	struct record x;

	record_init(&x, EVENT_SANDBOX_EXEC);
	record_text(&x, "argv0", "true");
	for (int i = 0; i < 6; i++)
		if (log_append(l, &x, 1, e) < 0)
			return -e->code;
	if (prune(l, &p, &pruned, e) < 0 || verify(&v, &found, e) < 0)
		return -e->code;
	assert_true(found.ok);
	return 0;
}

static int keep_record(void)
{
	struct log_options o = { .dir = "log", .segment_bytes = 700 };
	CLEANUP(log) struct log *l = NULL;
	struct err e = { 0 };

	remove_tree("log"); /* what failed must not be more work for the next */
	if (log_open(&o, &l, &e) < 0)
		return -e.code;
	return use_record(l, &e);
}

static void a_record_survives_any_allocation_that_fails(void **state UNUSED)
{
	struct verify_options v = { .dir = "log", .threads = 1 };
	struct verify_report found;
	char scratch[PATH_MAX];
	struct err e = { 0 };

	enter_scratch(scratch);
	every_allocation_may_fail(keep_record);
	assert_int_equal(verify(&v, &found, &e), 0);
	assert_true(found.ok);
	leave_scratch(scratch);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_spec_survives_any_allocation_that_fails),
	cmocka_unit_test(a_spec_can_be_used_after_an_error),
	cmocka_unit_test(a_plan_survives_any_allocation_that_fails),
	cmocka_unit_test(a_remote_plan_survives_any_allocation_that_fails),
	cmocka_unit_test(an_outcome_survives_any_allocation_that_fails),
	cmocka_unit_test(the_schema_survives_any_allocation_that_fails),
	cmocka_unit_test(metrics_survive_any_allocation_that_fails),
	cmocka_unit_test(a_trace_survives_any_allocation_that_fails),
	cmocka_unit_test(a_record_survives_any_allocation_that_fails),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
