/* SPDX-License-Identifier: Apache-2.0 */
/* cli/sandbox/sandbox_logs.c - the commands of a sandbox: which there are, what they wrote, how to
 * end one.
 */
#include <stdio.h>
#include <string.h>

#include "base/bytes/json.h"
#include "base/sys/clock.h"
#include "base/text/str.h"
#include "cli/run/terminal.h"
#include "cli/sandbox/follow.h"
#include "cli/sandbox/sandbox_cli.h"

#define EVENT_MAX ((size_t)16 << 20)
#define QUIET_US                                                                                   \
	150000 /* a running command that says nothing for so long has said what there is           \
		*/

/* ---- what they wrote ---- */

struct exec_log {
	const char *ref, *exec;
	bool wait, json;
	struct follow from;
	struct terminal_writer to;
};

static int log_target(const struct exec_log *l, char target[256], struct err *e)
{
	char more[96];

	(void)snprintf(more, sizeof(more), "/execs/%s/stream?from=%llu", l->exec,
		       (unsigned long long)l->from.next);
	return sandbox_target_of(target, l->ref, more, e);
}

static int on_log(struct exec_log *l, struct err *e)
{
	const struct sse *s = &l->from.sse;
	CLEANUP(jread) struct jread *v = NULL;
	CLEANUP(mem) char *data = NULL;
	const char *from = NULL;
	bool output = str_starts(s->type, "std");
	ssize_t n = 1;

	if (output && jread_parse(buf_str(&s->data), s->data.len, &v, e) < 0)
		return -e->code;
	if (output)
		n = follow_output(&l->from, v, &data, &from, e);
	if (n < 0)
		return (int)n;
	if (l->json && n)
		(void)printf("{\"exec\":\"%s\",\"type\":\"%s\",\"data\":%s}\n", l->exec, s->type,
			     buf_str(&s->data));
	else if (output && n)
		(void)terminal_write(&l->to, str_eq(s->type, "stderr") ? 2 : 1, from, (size_t)n);
	return 0;
}

static int log_again(struct exec_log *l, struct err *e)
{
	struct err unused = { 0 };
	char target[256];

	if (!e->code)
		(void)err_set(e, ERR_UNAVAILABLE, EPIPE, "the daemon has ended the stream");
	return log_target(l, target, &unused) < 0 ? -e->code : follow_again(&l->from, target, e);
}

static int follow_log(struct exec_log *l, struct err *e)
{
	int r = 0;

	while (r == 0 && !l->from.ended) {
		r = follow_event(&l->from, l->wait ? 0 : clock_us() + QUIET_US, e);
		if (r > 0)
			r = on_log(l, e);
		else if (follow_broken(&l->from, r))
			r = log_again(l, e);
	}
	return r;
}

/* Of a command that still runs: what it has written, or with --follow to its end. */
static int one_log(const char *ref, const char *exec, bool wait, bool json, struct err *e)
{
	struct exec_log l = { .ref = ref, .exec = exec, .wait = wait, .json = json };
	CLEANUP(daemon_client) struct daemon_client *d = NULL;
	struct daemon_question q = { .method = "GET" };
	char target[256];
	int r;

	q.target = target;
	r = log_target(&l, target, e);
	if (r == 0)
		r = daemon_client_open(false, &d, e);
	if (r == 0)
		r = daemon_client_stream(d, &q, e);
	if (r < 0)
		return r;
	terminal_writer_begin(&l.to, false);
	follow_begin(&l.from, d, EVENT_MAX);
	r = follow_log(&l, e);
	terminal_writer_end(&l.to);
	follow_done(&l.from);
	if (r == -EAGAIN)
		err_clear(e);
	return r == -EAGAIN ? 0 : r;
}

static int no_command(const char *exec, struct err *e)
{
	return err_refuse(e, ERR_USAGE, ENOENT, "brig sandbox execs ID shows those that there are",
			  "there is no command '%.60s'", exec);
}

/* What brig has noted of the sandbox goes to standard error: it is none of its commands' output. */
int verb_logs(struct daemon_client *d, const struct sandbox_asked *a, struct err *e)
{
	const char *only = a->rest_count > 1 ? a->rest[1] : NULL;
	CLEANUP(jread) struct jread *v = NULL;
	const struct jread *execs;
	char target[256];
	bool found = false;
	int r = 0;

	if (sandbox_target_of(target, a->rest[0], "/execs", e) < 0 ||
	    sandbox_ask(d, "GET", target, NULL, &v, e) < 0)
		return -e->code;
	if (!only && !a->json && !a->quiet)
		sandbox_tell_notes(d, a->rest[0], NULL);
	execs = jread_get(v, "execs");
	for (size_t i = 0; i < jread_count(execs) && r == 0; i++) {
		const char *id = jread_str(jread_at(execs, i), "id");
		const char *state = jread_str(jread_at(execs, i), "state");

		if (!id || (only && !str_eq(only, id)))
			continue;
		found = true;
		r = one_log(a->rest[0], id, a->follow || !state || !str_eq(state, "running"),
			    a->json, e);
	}
	return r == 0 && only && !found ? no_command(only, e) : r;
}

/* ---- commands ---- */

static void print_exec(const struct jread *v)
{
	CLEANUP(buf) struct buf b = BUF_INIT((size_t)64 << 10);
	const struct jread *argv = jread_get(v, "argv"), *result = jread_get(v, "result");
	const char *outcome = jread_str(result, "outcome"), *context = jread_str(v, "context");
	char status[24] = "-";

	if (outcome && str_eq(outcome, "exited"))
		(void)snprintf(status, sizeof(status), "%lld",
			       (long long)jread_int(result, "exit_code", 0));
	sandbox_put_cell(&b, jread_str(v, "id"), 31);
	sandbox_put_cell(&b, jread_str(v, "state"), 9);
	sandbox_put_cell(&b, outcome && *status == '-' ? outcome : status, 11);
	for (size_t i = 0; i < jread_count(argv); i++) {
		sandbox_put_cell(&b, i ? " " : "", 0);
		sandbox_put_cell(&b, jread_text(jread_at(argv, i)), 0);
	}
	if (context) {
		sandbox_put_cell(&b, "code in the context ", 0);
		sandbox_put_cell(&b, context, 0);
	}
	(void)printf("%s\n", buf_str(&b));
}

int verb_execs(struct daemon_client *d, const struct sandbox_asked *a, struct err *e)
{
	CLEANUP(jread) struct jread *v = NULL;
	const struct jread *execs;
	char target[256];

	if (sandbox_target_of(target, a->rest[0], "/execs", e) < 0 ||
	    sandbox_ask(d, "GET", target, NULL, &v, e) < 0)
		return -e->code;
	if (a->json) {
		sandbox_print_json(v);
		return 0;
	}
	execs = jread_get(v, "execs");
	if (jread_count(execs))
		(void)printf("%-31s%-9s%-11s%s\n", "EXEC", "STATE", "STATUS", "COMMAND");
	for (size_t i = 0; i < jread_count(execs); i++)
		print_exec(jread_at(execs, i));
	return 0;
}

static int cancel_one(struct daemon_client *d, const struct sandbox_asked *a, const char *exec,
		      struct err *e)
{
	CLEANUP(buf) struct buf body = BUF_INIT(256);
	char target[256], more[96];
	struct json j;

	if (strlen(exec) > 60 ||
	    strspn(exec, "abcdefghijklmnopqrstuvwxyz0123456789_") != strlen(exec))
		return no_command(exec, e);
	(void)snprintf(more, sizeof(more), "/execs/%s/%s", exec, a->signal ? "signal" : "cancel");
	if (sandbox_target_of(target, a->rest[0], more, e) < 0)
		return -e->code;
	json_init(&j, &body, false);
	json_object(&j);
	if (a->signal)
		json_kstr(&j, "signal", a->signal);
	json_object_end(&j);
	return sandbox_ask(d, "POST", target, a->signal ? &body : NULL, NULL, e);
}

/* One that fails keeps none of the others from it. */
int verb_cancel(struct daemon_client *d, const struct sandbox_asked *a, struct err *e)
{
	int r = 0;

	for (int i = 1; i < a->rest_count; i++) {
		struct err one = { 0 };

		if (cancel_one(d, a, a->rest[i], &one) == 0) {
			if (!a->quiet && !a->json)
				(void)printf("%s\n", a->rest[i]);
			continue;
		}
		if (r < 0)
			error_print(e);
		*e = one;
		r = -e->code;
	}
	return r;
}
