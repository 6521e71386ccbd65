/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/api/route_subprocess.c - routes whose answer another program finds: the record, the
 * doctor, what sandboxes use, what it takes to allow a host. */
#include <stdio.h>
#include <string.h>

#include "base/files/claim.h"
#include "base/text/num.h"
#include "base/text/str.h"
#include "daemon/api/subprocess.h"
#include "daemon/shared/sandbox_id.h"
#include "daemon/shared/use_main.h"

#define TEXTS ((size_t)128 << 10)
#define VALUE_MAX 512
#define TYPES_MAX 8
#define USE_MAX 100
#define RECORDS 100
#define RECORDS_MAX 500
#define SECONDS 30
#define DOCTOR_SECONDS 90

/* Words of a program, each with its text here. */
struct subprocess_words {
	const char *v[SUBPROCESS_WORDS + 1];
	size_t n, used;
	char text[TEXTS];
	bool full;
};

__attribute__((format(printf, 2, 3))) static void word(struct subprocess_words *w,
						       const char *format, ...)
{
	size_t left = sizeof(w->text) - w->used;
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(w->text + w->used, left, format, ap);
	va_end(ap);
	if (w->n == SUBPROCESS_WORDS || n < 0 || (size_t)n >= left) {
		w->full = true;
		return;
	}
	w->v[w->n++] = w->text + w->used;
	w->used += (size_t)n + 1;
}

static void route_subprocess_refuse(struct http_call *c, enum problem p, const char *what)
{
	struct err e;

	(void)problem_say(p, &e, "%s", what);
	http_problem(c, p, &e);
}

/* false: it was answered. */
static bool owners(struct http_call *c)
{
	if (api_is_owner(c))
		return true;
	route_subprocess_refuse(c, PROBLEM_FORBIDDEN,
				"this is about the owner's machine, and the owner's to ask");
	return false;
}

/* ---- the record ---- */

static enum problem put_option(const struct http_call *c, const char *name,
			       struct subprocess_words *w, struct err *e)
{
	char value[VALUE_MAX];

	for (size_t i = 0; i < TYPES_MAX; i++) {
		int r = http_param_nth(c, name, i, value, sizeof(value));

		if (r == -ENOENT)
			return PROBLEM_NONE;
		if (r <= 0)
			return problem_say(PROBLEM_INVALID, e, "'%s' is malformed", name);
		word(w, "--%s=%s", name, value);
	}
	return problem_say(PROBLEM_INVALID, e, "'%s' is there too often", name);
}

static enum problem put_limit(const struct http_call *c, struct subprocess_words *w, struct err *e)
{
	char value[VALUE_MAX];
	uint64_t n = RECORDS;
	int r = http_param(c, "limit", value, sizeof(value));

	if (r != -ENOENT && (r < 0 || num_count(value, &n) < 0 || !n || n > RECORDS_MAX))
		return problem_say(PROBLEM_INVALID, e, "'limit' is a number from 1 to %d",
				   RECORDS_MAX);
	word(w, "--limit=%llu", (unsigned long long)n);
	return PROBLEM_NONE;
}

/* Whose records: the owner's are all; a tenant's are those of one of its sandboxes. */
static enum problem put_sandbox(struct api *a, const struct http_call *c,
				struct subprocess_words *w, struct err *e)
{
	char value[VALUE_MAX];
	struct sandbox_known known = { .run = "" };
	int r = http_param(c, "sandbox", value, sizeof(value));
	enum problem p;

	if (r == -ENOENT && api_is_owner(c))
		return put_option(c, "run", w, e);
	if (r == -ENOENT)
		return problem_say(PROBLEM_FORBIDDEN, e, "name one of your sandboxes as 'sandbox'");
	if (r <= 0 || http_param(c, "run", value, 1) != -ENOENT)
		return problem_say(PROBLEM_INVALID, e, "'sandbox' is malformed, or beside 'run'");
	p = sandboxes_known_as(a->boxes, c->caller->tenant, value, &known, e);
	if (p != PROBLEM_NONE)
		return p;
	if (!known.run[0])
		return problem_say(PROBLEM_SANDBOX_NOT_READY, e, "'%.60s' was never open", value);
	word(w, "--run=%s", known.run);
	return PROBLEM_NONE;
}

static const char *const follow_options[] = { "type", "host", NULL };
static const char *const list_options[] = { "type",      "host",  "outcome", "agent",
					    "principal", "since", "until",   NULL };

static void ask_record(struct api *a, struct http_call *c, bool follow)
{
	struct subprocess_words w = { .n = 0 };
	const char *const *options = follow ? follow_options : list_options;
	struct err e = { 0 };
	enum problem p;

	word(&w, "brig-audit");
	word(&w, "%s", follow ? "tail" : "list");
	word(&w, "--json");
	p = put_sandbox(a, c, &w, &e);
	if (p == PROBLEM_NONE)
		p = put_limit(c, &w, &e);
	for (size_t i = 0; p == PROBLEM_NONE && options[i]; i++)
		p = put_option(c, options[i], &w, &e);
	if (p == PROBLEM_NONE && w.full)
		p = problem_say(PROBLEM_TOO_LARGE, &e, "that is too much to ask for");
	if (p != PROBLEM_NONE) {
		http_problem(c, p, &e);
		return;
	}
	subprocess_run(a, c,
		       &(struct subprocess_asked){ .program = "brig-audit",
						   .argv = w.v,
						   .head = "{\"records\":",
						   .tail = "}",
						   .seconds = follow ? 0 : SECONDS,
						   .follow = follow,
						   .event = "record" });
}

void serve_audit(struct api *a, struct http_call *c, const struct jread *body UNUSED)
{
	ask_record(a, c, false);
}

void serve_audit_follow(struct api *a, struct http_call *c, const struct jread *body UNUSED)
{
	ask_record(a, c, true);
}

void serve_runs(struct api *a, struct http_call *c, const struct jread *body UNUSED)
{
	struct subprocess_words w = { .n = 0 };
	struct err e = { 0 };
	enum problem p;
	char live[8] = "";
	int r;

	if (!owners(c))
		return;
	word(&w, "brig-audit");
	word(&w, "runs");
	word(&w, "--json");
	p = put_limit(c, &w, &e);
	if (p == PROBLEM_NONE)
		p = put_option(c, "run", &w, &e);
	if (p == PROBLEM_NONE)
		p = put_option(c, "within", &w, &e);
	r = http_param(c, "live", live, sizeof(live));
	if (p == PROBLEM_NONE && r != -ENOENT && !str_eq(live, "true") && !str_eq(live, "false"))
		p = problem_say(PROBLEM_INVALID, &e, "'live' is true or false");
	if (str_eq(live, "true"))
		word(&w, "--live");
	if (p == PROBLEM_NONE && w.full)
		p = problem_say(PROBLEM_TOO_LARGE, &e, "that is too much to ask for");
	if (p != PROBLEM_NONE) {
		http_problem(c, p, &e);
		return;
	}
	subprocess_run(a, c,
		       &(struct subprocess_asked){ .program = "brig-audit",
						   .argv = w.v,
						   .head = "{\"runs\":",
						   .tail = "}",
						   .seconds = SECONDS });
}

/* ---- the machine ---- */

void serve_doctor(struct api *a, struct http_call *c, const struct jread *body UNUSED)
{
	static const char *const argv[] = { "brig", "doctor", "--json", NULL };

	if (owners(c))
		subprocess_run(a, c,
			       &(struct subprocess_asked){
				       .argv = argv, .seconds = DOCTOR_SECONDS, .most = 1 });
}

void serve_use(struct api *a, struct http_call *c, const struct jread *body UNUSED)
{
	struct subprocess_words w = { .n = 0 };
	struct sandbox_known known;
	char value[VALUE_MAX];
	struct err e = { 0 };
	int r = 0;

	word(&w, USE_NAME);
	for (size_t i = 0; i < USE_MAX; i++) {
		r = http_param_nth(c, "sandbox", i, value, SANDBOX_ID_SIZE);
		if (r < 0)
			break;
		if (sandboxes_known_as(a->boxes, c->caller->tenant, value, &known, &e) ==
		    PROBLEM_NONE)
			word(&w, "%s=%s", value, known.processes);
	}
	if ((r < 0 && r != -ENOENT) || w.full) {
		route_subprocess_refuse(c, PROBLEM_INVALID,
					"'sandbox' is malformed, or there too often");
		return;
	}
	subprocess_run(a, c, &(struct subprocess_asked){ .argv = w.v, .seconds = SECONDS });
}

/* ---- what a run changed ---- */

static bool is_run_id(const char *text)
{
	return claim_is_id(text) || id_is(SANDBOX_ID, text);
}

static void changes(struct api *a, struct http_call *c, const char *verb, const char *option)
{
	const char *run = c->parts[0];
	const char *argv[] = { "brig", verb, "--json", option ? option : run, option ? run : NULL,
			       NULL };

	if (!owners(c))
		return;
	if (!is_run_id(run))
		route_subprocess_refuse(c, PROBLEM_INVALID, "that is no run's id");
	else
		subprocess_run(a, c,
			       &(struct subprocess_asked){ .argv = argv, .seconds = SECONDS });
}

void serve_changes(struct api *a, struct http_call *c, const struct jread *body UNUSED)
{
	changes(a, c, "diff", "--text");
}

static void changes_meant(struct api *a, struct http_call *c, const struct jread *body,
			  const char *verb)
{
	const char *run = jread_str(body, "run");

	if (!run || !str_eq(run, c->parts[0]))
		route_subprocess_refuse(c, PROBLEM_INVALID, "'run' is not the run");
	else
		changes(a, c, verb, NULL);
}

void serve_changes_apply(struct api *a, struct http_call *c, const struct jread *body)
{
	changes_meant(a, c, body, "apply");
}

void serve_changes_discard(struct api *a, struct http_call *c, const struct jread *body)
{
	changes_meant(a, c, body, "discard");
}

/* ---- a host that was refused ---- */

static void policy(struct api *a, struct http_call *c, const char *rule, bool apply)
{
	const char *argv[] = { "brig",
			       "config",
			       "allow",
			       "--json",
			       apply ? "--" : "--dry-run",
			       apply ? rule : "--",
			       apply ? NULL : rule,
			       NULL };

	subprocess_run(a, c, &(struct subprocess_asked){ .argv = argv, .seconds = SECONDS });
}

void serve_policy(struct api *a, struct http_call *c, const struct jread *body UNUSED)
{
	char rule[VALUE_MAX];

	if (!owners(c))
		return;
	if (http_param(c, "rule", rule, sizeof(rule)) <= 0)
		route_subprocess_refuse(c, PROBLEM_INVALID, "'rule' is missing or malformed");
	else
		policy(a, c, rule, false);
}

void serve_policy_apply(struct api *a, struct http_call *c, const struct jread *body)
{
	const char *rule = jread_str(body, "rule"), *typed = jread_str(body, "typed");

	if (!owners(c))
		return;
	if (!rule || !typed || !*rule || !str_eq(rule, typed))
		route_subprocess_refuse(c, PROBLEM_INVALID, "what was typed is not the rule");
	else
		policy(a, c, rule, true);
}
