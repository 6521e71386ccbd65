/* SPDX-License-Identifier: Apache-2.0 */
/* apps/toolset/tool_far_context.c - run_python with `context` in sandboxes that are the daemon's.
 *
 *	exec -> its answer                    of `sandbox`, or of the context's own: context-NAME
 *	exec -> not there -> list [-> delete what has ended] -> create -> exec -> its answer
 *
 * The daemon keeps contexts; nothing about one is kept here. Its own sandbox goes when nobody has
 * called for half an hour. */
#include <stdio.h>
#include <string.h>

#include "apps/toolset/tools_internal.h"
#include "base/text/str.h"

#define OWN "context-"
#define OWN_LIST "/v1/sandboxes?label=brig.mcp=context&limit=100"
#define LIST_MAX (16 * ASK_BODY_MAX)

/* ---- what it shows ---- */

static void take_new(struct tool_call *c, const struct jread *v)
{
	const char *why = jread_str(v, "why");

	buf_printf(&c->plain,
		   "[the context had ended (%.160s): this is a new one, and what was in it is "
		   "lost]\n",
		   why ? why : "nobody knows why");
}

/* An error is on stderr, too. */
void far_shown(struct tool_call *c, const struct jread *v)
{
	const char *type = jread_str(v, "type");
	struct interp_answer a = { .type = INTERP_SHOW };

	if (type && str_eq(type, "new"))
		take_new(c, v);
	if (!type || (!str_eq(type, "value") && !str_eq(type, "display")))
		return;
	a.value = str_eq(type, "value");
	for (int m = 0; m < MIME_COUNT; m++)
		a.data[m] = jread_str(jread_get(v, "data"), interp_mime_name((enum interp_mime)m));
	shown_add(c, &a);
}

static void ended(struct tool_call *c, const struct outcome *o)
{
	result_run(c, o);
	if (o->kind == OUTCOME_TIMEOUT && !o->error.code)
		buf_puts(&c->result.text, CONTEXT_INTERRUPTED);
	call_end(c);
}

/* ---- a sandbox of its own ---- */

static void on_made(void *arg, const struct err *e)
{
	struct tool_call *c = arg;
	struct err own = { 0 };

	if (!far_opened(c, e))
		return;
	if (far_start(c, &own) < 0)
		call_fail(c, &own);
}

static void tool_far_context_make(struct tool_call *c)
{
	struct err e = { 0 };

	(void)snprintf(c->far.path, sizeof(c->far.path), "%s", c->far.ref);
	if (far_open(c, c->far.path, "context", "\"idle_ttl\":\"30m\",\"cleanup_ttl\":\"24h\"",
		     on_made, &e) < 0)
		call_fail(c, &e);
}

static void tool_far_context_on_gone(void *arg, const struct err *e)
{
	struct tool_call *c = arg;

	if (e->code && c->far.ask.status != 404)
		call_fail(c, e);
	else
		tool_far_context_make(c);
}

/* How many there are, and whether one has the name of this. */
static size_t tool_far_context_look(const struct jread *list, const char *name, bool *there)
{
	for (size_t i = 0; i < jread_count(list); i++) {
		const char *other = jread_str(jread_at(list, i), "name");

		*there |= other && str_eq(other, name);
	}
	return jread_count(list);
}

static void on_listed(void *arg, const struct err *e)
{
	struct tool_call *c = arg;
	CLEANUP(jread) struct jread *v = e->code ? NULL : far_answer(c);
	struct err own = *e;
	bool there = false;
	size_t n =
		own.code ? 0 : tool_far_context_look(jread_get(v, "sandboxes"), c->far.ref, &there);

	if (!own.code && !there && n >= CONTEXTS_MAX)
		(void)err_refuse(&own, ERR_USAGE, EAGAIN,
				 "use one of them, with restart: true if its variables may go",
				 "there are %d contexts already", CONTEXTS_MAX);
	if (own.code) {
		call_fail(c, &own);
	} else if (!there) {
		tool_far_context_make(c);
	} else {
		buf_puts(&c->plain, "[the sandbox of this context had ended: this is a new one, "
				    "and what was in it is lost]\n");
		if (far_leave(c, tool_far_context_on_gone) < 0)
			tool_far_context_make(c);
	}
}

bool far_context_missing(struct tool_call *c)
{
	const struct daemon_question q = { .method = "GET", .target = OWN_LIST };
	struct err e = { 0 };

	if (!c->far.makes_own || c->cancelled ||
	    (c->far.ask.status != 404 && c->far.ask.status != 409))
		return false;
	c->far.makes_own = c->far.runs = false;
	if (far_ask(c, &q, LIST_MAX, on_listed, &e) < 0)
		call_fail(c, &e);
	return true;
}

/* ---- a call ---- */

static int tool_far_context_find(struct tool_call *c, const struct jread *args, const char *name,
				 struct err *e)
{
	if (far_ref(c, args, e) < 0)
		return -e->code;
	if (c->far.ref[0])
		return 0;
	if (strlen(OWN) + strlen(name) >= FAR_REF_SIZE)
		return err_set(e, ERR_USAGE, EINVAL, "the name of a context is too long");
	(void)snprintf(c->far.ref, sizeof(c->far.ref), OWN "%s", name);
	c->far.makes_own = true;
	return 0;
}

int far_context(struct tool_call *c, const struct jread *args, const char *name, const char *code,
		bool again, struct err *e)
{
	struct json *j = &c->far.json;

	if (tool_far_context_find(c, args, name, e) < 0)
		return -e->code;
	c->far.body = (struct buf)BUF_INIT(2 * ASK_BODY_MAX);
	json_init(j, &c->far.body, false);
	json_object(j);
	json_kstr(j, "code", code);
	json_kstr(j, "context", name);
	if (args_there(args, "args"))
		json_kvalue(j, "args", jread_get(args, "args"));
	json_kbool(j, "restart", again);
	far_timeout(c);
	json_object_end(j);
	c->far.code = true;
	c->ended = ended;
	return far_start(c, e);
}
