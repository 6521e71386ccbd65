/* SPDX-License-Identifier: Apache-2.0 */
/* apps/toolset/tools.c - calls: begun, ended, told.
 *
 *	begun -> its run, or its file operations -> over -> told and freed
 *
 * `over` may be reached in any function, so telling waits for the loop: a timer that is due. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "apps/toolset/tools_internal.h"
#include "base/sys/clock.h"
#include "base/text/str.h"
#include "sandbox/manager.h"

#define TEXT_MAX ((size_t)64 << 20)

const struct tool *tools_at(const struct tools *t, size_t i)
{
	size_t n = 0;

	while (tool_table[n].name)
		n++;
	if (i < n)
		return &tool_table[i];
	return i - n < t->script_count ? &t->scripts[i - n] : NULL;
}

const struct tool *tools_named(const struct tools *t, const char *name)
{
	const struct tool *tool = NULL;

	for (size_t i = 0; (tool = tools_at(t, i)); i++)
		if (str_eq(tool->name, name))
			break;
	return tool;
}

static void call_free(struct tool_call *c)
{
	brig_result *r = NULL;
	struct brig_error unused;

	loop_at(c->of->loop, &c->end, 0);
	if (c->run) {
		brig_request_cancel(c->request);
		(void)loop_want(c->of->loop, &c->w, 0);
		if (c->box)
			box_end_run(c->box, c->request, c->run, &r);
		else
			(void)brig_run_finish(c->run, &r, &unused);
		brig_result_free(r);
	}
	brig_request_free(c->request);
	file_done(&c->file, c->of->loop);
	if (c->own_box)
		box_close(c->box, NULL);
	far_done(c);
	contexts_forget(c);
	shown_done(c);
	(void)outcome_free(c->o);
	free(c->denied);
	buf_done(&c->body);
	buf_done(&c->result.text);
	buf_done(&c->result.json);
	buf_done(&c->result.denials);
	free(c);
}

static void unlink_call(struct tool_call *c)
{
	*c->at = c->next;
	if (c->next)
		c->next->at = c->at;
	c->of->call_count--;
}

/* Before anybody is told: what it has written may be taken away again. */
static void leave_box(struct tool_call *c)
{
	CLEANUP(outcome) struct outcome *left = c->own_box ? outcome_new() : NULL;

	if (!c->own_box)
		return;
	box_close(c->box, left);
	c->own_box = false;
	if (left && left->denial_count) {
		c->result.text.len = 0;
		buf_puts(&c->result.text, "Error: what was written did not stay.");
		result_denied(c, left);
		c->result.failed = true;
		c->result.json.len = 0;
	}
}

static void tools_tell(struct tool_call *c)
{
	unlink_call(c);
	c->result.cancelled = c->cancelled;
	c->by.done(c->by.arg, &c->result);
	call_free(c);
}

static void on_left(void *arg, const struct err *e UNUSED)
{
	tools_tell(arg);
}

static void tools_on_end(struct loop_timer *t, uint64_t now UNUSED)
{
	struct tool_call *c = CONTAINER_OF(t, struct tool_call, end);

	leave_box(c);
	if (!c->far.own || far_leave(c, on_left) < 0)
		tools_tell(c);
}

void call_end(struct tool_call *c)
{
	if (c->over)
		return;
	c->over = true;
	loop_at(c->of->loop, &c->end, clock_us());
}

void call_fail(struct tool_call *c, const struct err *e)
{
	c->result.failed = true;
	c->result.json.len = 0;
	buf_printf(&c->result.text, "Error: %s%s%s", e->what, e->hint[0] ? "\nHint: " : "",
		   e->hint);
	if (e->kind == ERR_POLICY || e->kind == ERR_UNAVAILABLE)
		buf_puts(&c->result.text,
			 "\nOnly the user can change what is allowed, in brig's configuration or "
			 "its options.");
	call_end(c);
}

/* Is there any sandbox that these settings allow? */
static int tools_check(const struct spec *s, struct tools *facts, struct err *e)
{
	const char *backend;
	enum spec_fault why;
	char cwd[PATH_MAX];
	const char *home = getenv("HOME");
	struct place at = { .cwd = cwd, .home = home && home[0] == '/' ? home : NULL };
	CLEANUP(spec) struct spec *x = spec_clone(s, e);

	if (!x)
		return -e->code;
	if (!getcwd(cwd, sizeof(cwd)) || cwd[0] != '/')
		return err_sys(e, "the current folder is gone");
	if (spec_check(x, &at, e) < 0)
		return -e->code;
	facts->reach_out = x->network != NETWORK_NONE;
	facts->fleeting = x->private_workspace || x->no_workspace;
	return spec_backend(x, &backend, &why, e);
}

int tools_new(struct loop *l, const struct spec *s, const struct tools_daemon *d,
	      struct tools **ret, struct err *e)
{
	struct tools facts = { .loop = l }, *t;

	if (tools_check(s, &facts, e) < 0)
		return -e->code;
	t = calloc(1, sizeof(*t));
	if (!t)
		return err_nomem(e);
	*t = facts;
	if (d)
		t->daemon = *d;
	t->spec = spec_clone(s, e);
	if (!t->spec || scripts_new(t, e) < 0) {
		(void)spec_free(t->spec);
		free(t);
		return -e->code;
	}
	*ret = t;
	return 0;
}

int tools_probe(struct tools *t, struct err *e)
{
	struct tool_box *b = NULL;

	if (box_open(t, NULL, &b, e) < 0)
		return -e->code;
	box_close(b, NULL);
	return 0;
}

struct tools *tools_free(struct tools *t)
{
	if (!t)
		return NULL;
	/* All at once: each takes as long as its processes do. */
	for (struct tool_call *c = t->calls; c; c = c->next)
		if (c->run)
			brig_request_cancel(c->request);
	while (t->calls) {
		struct tool_call *c = t->calls;

		unlink_call(c);
		c->result.cancelled = c->result.failed = true;
		c->by.done(c->by.arg, &c->result);
		call_free(c);
	}
	far_settle(t);
	contexts_free(t);
	while (t->boxes)
		box_close(t->boxes, NULL);
	(void)spec_free(t->spec);
	free(t);
	return NULL;
}

bool tools_fleeting(const struct tools *t)
{
	return t->fleeting;
}

bool tools_reach_out(const struct tools *t)
{
	return t->reach_out;
}

void tool_begin(struct tools *t, const struct tool *tool, const struct jread *args,
		const struct tool_listener *by, struct tool_call **at)
{
	const struct tool_result none = { .failed = true };
	struct tool_call *c = calloc(1, sizeof(*c));
	struct err e = { 0 };

	*at = c;
	if (!c) {
		by->done(by->arg, &none);
		return;
	}
	*c = (struct tool_call){ .end.due = tools_on_end,
				 .of = t,
				 .next = t->calls,
				 .at = &t->calls,
				 .tool = tool,
				 .by = *by,
				 .file = { .answers.fd = -1, .data.fd = -1, .word = -1 },
				 .body = BUF_INIT(2 * TOOL_FILE_MAX),
				 .plain = BUF_INIT(TEXT_MAX),
				 .result = { .text = BUF_INIT(TEXT_MAX),
					     .json = BUF_INIT(TEXT_MAX),
					     .denials = BUF_INIT(TEXT_MAX) } };
	if (t->calls)
		t->calls->at = &c->next;
	t->calls = c;
	t->call_count++;
	if (t->call_count > TOOLS_CALLS_MAX)
		(void)err_refuse(&e, ERR_USAGE, EAGAIN, "wait until some have ended",
				 "%d calls are under way already", TOOLS_CALLS_MAX);
	else if (args_check(args, tool->input, &e) == 0)
		(void)tool->begin(c, args, &e);
	if (e.code)
		call_fail(c, &e);
}

void tool_cancel(struct tool_call *c)
{
	if (c->over || c->cancelled)
		return;
	c->cancelled = true;
	if (c->run) {
		brig_request_cancel(c->request);
		return;
	}
	if (c->context) {
		contexts_cancel(c);
		return;
	}
	if (far_cancel(c))
		return;
	file_cancel(c);
	c->result.failed = true;
	buf_puts(&c->result.text, "cancelled");
	call_end(c);
}
