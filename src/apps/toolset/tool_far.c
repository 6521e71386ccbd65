/* SPDX-License-Identifier: Apache-2.0 */
/* apps/toolset/tool_far.c - commands in sandboxes that are the daemon's.
 *
 * A call is written down as the body of one question while its arguments are read:
 *
 *	far_request -> far_env, far_argv, far_input, in any order -> far_start
 *
 * Without `sandbox` that is POST /v1/run: the daemon makes a sandbox for it, which goes with the
 * answer or with this connection. Else it is an exec, which would run on: it is cancelled by name.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/toolset/tools_internal.h"
#include "base/bytes/base64.h"
#include "base/sys/clock.h"
#include "base/text/str.h"

#define STREAM_MAX ((size_t)64 << 20)

bool far_ref_ok(const char *ref)
{
	size_t n = strlen(ref);

	return n && n < FAR_REF_SIZE &&
	       strspn(ref, "abcdefghijklmnopqrstuvwxyz0123456789._-") == n && ref[0] != '.';
}

int far_ref(struct tool_call *c, const struct jread *args, struct err *e)
{
	const char *ref = NULL;

	if (args_text(args, "sandbox", 256, &ref, e) < 0)
		return -e->code;
	if (ref && !far_ref_ok(ref))
		return err_refuse(e, ERR_USAGE, ENOENT, "list_sandboxes shows those there are",
				  "there is no sandbox '%.80s'", ref);
	(void)snprintf(c->far.ref, sizeof(c->far.ref), "%s", ref ? ref : "");
	return 0;
}

/* ---- what is asked for ---- */

int far_request(struct tool_call *c, const struct jread *args, struct err *e)
{
	const struct tools_daemon *d = &c->of->daemon;

	if (far_ref(c, args, e) < 0)
		return -e->code;
	c->far.body = (struct buf)BUF_INIT(2 * ASK_BODY_MAX);
	json_init(&c->far.json, &c->far.body, false);
	json_object(&c->far.json);
	if (c->far.ref[0])
		return 0;
	json_key(&c->far.json, "spec");
	json_raw(&c->far.json, d->spec, d->spec_len);
	return 0;
}

void far_timeout(struct tool_call *c)
{
	char text[32];

	(void)snprintf(text, sizeof(text), "%llums", (unsigned long long)c->timeout_ms);
	json_kstr(&c->far.json, "timeout", text);
}

void far_argv(struct tool_call *c, const char *const *argv)
{
	json_kstrs(&c->far.json, "argv", argv);
}

void far_input(struct tool_call *c, const char *text)
{
	json_kstr(&c->far.json, "stdin", text);
}

/* The first opens the object of them; far_env_end ends it. */
void far_env(struct tool_call *c, const char *name, const char *value)
{
	if (!c->far.in_env) {
		json_kobject(&c->far.json, "env");
	}
	c->far.in_env = true;
	json_kstr(&c->far.json, name, value);
}

void far_env_end(struct tool_call *c)
{
	if (c->far.in_env)
		json_object_end(&c->far.json);
	c->far.in_env = false;
}

/* ---- questions that nobody waits for ---- */

struct dropped {
	struct tool_ask ask; /* first */
	struct tools *of;
};

static void dropped_free(struct dropped *d)
{
	struct tool_ask **at = &d->of->asks;

	while (*at && *at != &d->ask)
		at = &(*at)->next;
	if (*at)
		*at = d->ask.next;
	ask_end(&d->ask);
	buf_done(&d->ask.got);
	free(d);
}

static void dropped_done(void *arg, const struct err *e UNUSED)
{
	dropped_free(arg);
}

/* Nobody waits for it. */
static void far_drop(struct tools *t, const char *method, const char *target)
{
	const struct daemon_question q = { .method = method, .target = target };
	struct dropped *d = calloc(1, sizeof(*d));
	struct err e = { 0 };

	if (!d)
		return;
	*d = (struct dropped){ .ask = { .got = BUF_INIT(ASK_BODY_MAX),
					.done = dropped_done,
					.arg = d,
					.next = t->asks },
			       .of = t };
	t->asks = &d->ask;
	if (ask_begin(&d->ask, t->loop, t->daemon.tenant, &q, &e) < 0)
		dropped_free(d);
}

void far_settle(struct tools *t)
{
	for (struct tool_ask *a = t->asks; a; a = a->next)
		ask_wait(a);
	while (t->asks)
		dropped_free((struct dropped *)t->asks);
}

/* ---- a command ---- */

static void end_exec(struct tool_call *c)
{
	char target[160];

	(void)snprintf(target, sizeof(target), "/v1/sandboxes/%s/execs/%s/cancel", c->far.ref,
		       c->far.exec);
	far_drop(c->of, "POST", target);
}

static void take_output(struct tool_call *c, int stream, const struct jread *v)
{
	struct outcome *o = c->far.o;
	struct buf *to = stream == 2 ? &o->err.data : &o->out.data;
	const char *text = jread_str(v, "data");
	size_t n = text ? strlen(text) : 0;
	CLEANUP(mem) char *bytes = n ? malloc(n) : NULL;
	ssize_t got = bytes ? base64_read(text, n, bytes, n) : -1;

	if (got <= 0)
		return;
	buf_add(to, bytes, (size_t)got);
	call_output(c, stream, bytes, (size_t)got);
}

static void tool_far_on_event(void *arg, const struct sse *s)
{
	CLEANUP(jread) struct jread *v = NULL;
	struct tool_call *c = arg;
	struct err e = { 0 };
	const char *id;

	if (jread_parse(buf_str(&s->data), s->data.len, &v, &e) < 0)
		return;
	if (str_eq(s->type, "stdout") || str_eq(s->type, "stderr")) {
		take_output(c, s->type[3] == 'e' ? 2 : 1, v);
	} else if (str_eq(s->type, "shown")) {
		far_shown(c, v);
	} else if (str_eq(s->type, "end")) {
		c->far.ended = outcome_read(v, c->far.o, &e) == 0;
	} else if (str_eq(s->type, "start") && (id = jread_str(v, "exec")) && far_ref_ok(id)) {
		(void)snprintf(c->far.exec, sizeof(c->far.exec), "%s", id);
		if (c->cancelled && c->far.ref[0])
			end_exec(c);
	}
}

static void tool_far_on_done(void *arg, const struct err *e)
{
	struct tool_call *c = arg;
	struct outcome *o = c->far.o;
	struct err lost = { 0 };

	if (e->code && far_context_missing(c))
		return;
	if (e->code || !c->far.ended) {
		(void)err_set(&lost, ERR_UNAVAILABLE, ECONNRESET,
			      "the daemon ended before the command did");
		call_fail(c, e->code ? e : &lost);
		return;
	}
	o->duration_us = clock_us() - c->far.began;
	o->dialect = c->of->spec->dialect_used;
	o->timeout_ms = c->timeout_ms;
	c->ended(c, o);
}

int far_start(struct tool_call *c, struct err *e)
{
	const struct tools_daemon *d = &c->of->daemon;
	struct daemon_question q = { .method = "POST", .target = "/v1/run" };
	char target[128];

	if (!c->far.code) /* else it is whole, and may be sent twice */
		json_object_end(&c->far.json);
	if (c->far.body.failed)
		return err_refuse(e, ERR_USAGE, E2BIG, "write a file first, and read it inside",
				  "a command with its input is at most 1 MiB here");
	c->far.o = outcome_free(c->far.o);
	c->far.o = outcome_new();
	if (!c->far.o)
		return err_nomem(e);
	c->far.o->out.data = (struct buf)BUF_INIT(STREAM_MAX);
	c->far.o->err.data = (struct buf)BUF_INIT(STREAM_MAX);
	c->far.began = clock_us();
	q.body = buf_str(&c->far.body);
	q.body_len = c->far.body.len;
	if (c->far.ref[0]) {
		(void)snprintf(target, sizeof(target), "/v1/sandboxes/%s/exec", c->far.ref);
		q.target = target;
	} else {
		q.fds = d->secrets;
		q.fd_count = d->secret_count;
	}
	buf_done(&c->far.ask.got);
	c->far.ask = (struct tool_ask){ .got = BUF_INIT(ASK_BODY_MAX),
					.events = true,
					.event = tool_far_on_event,
					.done = tool_far_on_done,
					.arg = c };
	c->far.runs = true;
	return ask_begin(&c->far.ask, c->of->loop, d->tenant, &q, e);
}

/* ---- ends ---- */

bool far_cancel(struct tool_call *c)
{
	/* An exec says itself that it was ended. */
	if (c->far.runs && c->far.ref[0]) {
		if (c->far.exec[0])
			end_exec(c);
		return c->far.ask.client != NULL;
	}
	/* One that is being made can be deleted only when its name is known. */
	if (c->far.waits && c->far.ask.client)
		return true;
	ask_end(&c->far.ask);
	return false;
}

int far_leave(struct tool_call *c, void (*done)(void *arg, const struct err *e))
{
	struct daemon_question q = { .method = "DELETE" };
	struct err unused = { 0 };
	char target[96];

	(void)snprintf(target, sizeof(target), "/v1/sandboxes/%s", c->far.ref);
	q.target = target;
	c->far.own = false;
	ask_end(&c->far.ask);
	buf_done(&c->far.ask.got);
	c->far.ask = (struct tool_ask){ .got = BUF_INIT(ASK_BODY_MAX), .done = done, .arg = c };
	return ask_begin(&c->far.ask, c->of->loop, c->of->daemon.tenant, &q, &unused);
}

void far_done(struct tool_call *c)
{
	char target[96];

	far_made(c);
	if (c->far.own) {
		(void)snprintf(target, sizeof(target), "/v1/sandboxes/%s", c->far.ref);
		far_drop(c->of, "DELETE", target);
	}
	if (c->far.ask.client && c->far.runs && c->far.ref[0] && c->far.exec[0])
		end_exec(c);
	ask_end(&c->far.ask);
	buf_done(&c->far.ask.got);
	buf_done(&c->far.body);
	c->far.o = outcome_free(c->far.o);
}
