/* SPDX-License-Identifier: Apache-2.0 */
/* apps/toolset/tool_far_boxes.c - sandboxes and files of the daemon's: create_sandbox,
 * list_sandboxes, delete_sandbox, and the operations that the file tools are made of.
 *
 * Nothing is kept here about a sandbox: the daemon knows those of the tenant, also after this
 * process has been started anew. A label tells those that were asked for from those of one call. */
#include <stdio.h>
#include <string.h>

#include "apps/toolset/tools_internal.h"
#include "base/text/str.h"
#include "base/text/url.h"

#define KEPT "?label=brig.mcp=kept&limit=100"
#define TARGET_MAX ((size_t)3 * TOOL_PATH_MAX + 256)

int far_ask(struct tool_call *c, const struct daemon_question *q, size_t max,
	    void (*done)(void *arg, const struct err *e), struct err *e)
{
	const char *give = c->far.ask.give;
	size_t n = c->far.ask.give_len;

	ask_end(&c->far.ask);
	buf_done(&c->far.ask.got);
	c->far.ask = (struct tool_ask){
		.got = BUF_INIT(max), .give = give, .give_len = n, .done = done, .arg = c
	};
	return ask_begin(&c->far.ask, c->of->loop, c->of->daemon.tenant, q, e);
}

struct jread *far_answer(struct tool_call *c)
{
	struct jread *v = NULL;
	struct err unused;

	(void)jread_parse(buf_str(&c->far.ask.got), c->far.ask.got.len, &v, &unused);
	return v;
}

/* ---- making one ---- */

int far_open(struct tool_call *c, const char *name, const char *label, const char *lives,
	     void (*done)(void *arg, const struct err *e), struct err *e)
{
	const struct tools_daemon *d = &c->of->daemon;
	CLEANUP(buf) struct buf b = BUF_INIT(2 * ASK_BODY_MAX);
	struct daemon_question q = { .method = "POST",
				     .target = "/v1/sandboxes?wait=true",
				     .fds = d->secrets,
				     .fd_count = d->secret_count };

	buf_puts(&b, "{\"spec\":");
	buf_add(&b, d->spec, d->spec_len);
	buf_printf(&b, ",\"labels\":{\"brig.mcp\":\"%s\"},%s", label, lives);
	if (name)
		buf_printf(&b, ",\"name\":\"%s\"", name);
	buf_putc(&b, '}');
	q.body = buf_str(&b);
	q.body_len = b.len;
	c->far.waits = true;
	return far_ask(c, &q, ASK_BODY_MAX, done, e);
}

/* Who asked for it does not want it any more: it goes with the call. */
static void unwanted(struct tool_call *c)
{
	c->far.own = c->far.ref[0] != '\0';
	c->result.failed = true;
	buf_puts(&c->result.text, "cancelled");
	call_end(c);
}

bool far_opened(struct tool_call *c, const struct err *e)
{
	CLEANUP(jread) struct jread *v = e->code ? NULL : far_answer(c);
	const char *id = jread_str(v, "id"), *state = jread_str(v, "state"),
		   *why = jread_str(v, "reason");
	struct err failed = *e;

	c->far.waits = false;
	if (id && far_ref_ok(id))
		(void)snprintf(c->far.ref, sizeof(c->far.ref), "%s", id);
	if (c->cancelled) {
		unwanted(c);
		return false;
	}
	if (id && state && str_eq(state, "ready"))
		return true;
	if (!failed.code)
		(void)err_refuse(&failed, ERR_UNAVAILABLE, ECHILD,
				 "the user sees more with brig sandbox logs",
				 "sandbox '%.40s' did not start: %.60s", id ? id : "?",
				 why ? why : "no reason was given");
	call_fail(c, &failed);
	return false;
}

static void put_box(struct json *j, const char *id, const char *name, bool ready)
{
	json_object(j);
	json_kstr(j, "sandbox", id);
	if (name && *name)
		json_kstr(j, "name", name);
	json_kstr(j, "state", ready ? "ready" : "ended");
	json_object_end(j);
}

void far_made(struct tool_call *c)
{
	c->of->making -= c->far.makes;
	c->of->made += c->far.makes;
	c->far.makes = false;
}

static void on_created(void *arg, const struct err *e)
{
	struct tool_call *c = arg;
	struct json j;

	far_made(c);
	if (!far_opened(c, e))
		return;
	json_init(&j, &c->result.json, false);
	put_box(&j, c->far.ref, c->path, true);
	buf_printf(&c->result.text,
		   "Sandbox %s is ready. Pass it as `sandbox`; it ends with delete_sandbox, or "
		   "when it was not used for an hour.",
		   c->path[0] ? c->path : c->far.ref);
	call_end(c);
}

/* How many there may be, by a list that others were not on yet: those that are being made, and
 * those that were made since it was asked for. */
static size_t count_boxes(const struct tool_call *c, const struct jread *list)
{
	size_t n = jread_count(list), pending = 0,
	       others = c->of->making + (c->of->made - c->far.made_before);

	for (size_t i = 0; i < n; i++) {
		const char *state = jread_str(jread_at(list, i), "state");

		pending += state && str_eq(state, "pending");
	}
	return n - pending + (pending > others ? pending : others);
}

static void on_counted(void *arg, const struct err *e)
{
	struct tool_call *c = arg;
	CLEANUP(jread) struct jread *v = e->code ? NULL : far_answer(c);
	struct err own = *e;

	if (!own.code && count_boxes(c, jread_get(v, "sandboxes")) >= TOOLS_BOXES_MAX)
		(void)err_refuse(&own, ERR_USAGE, EAGAIN, "delete_sandbox makes room",
				 "there are %d sandboxes already", TOOLS_BOXES_MAX);
	if (!own.code) {
		c->far.makes = true;
		c->of->making++;
		(void)far_open(c, c->path[0] ? c->path : NULL, "kept",
			       "\"idle_ttl\":\"1h\",\"cleanup_ttl\":\"1m\"", on_created, &own);
	}
	if (own.code)
		call_fail(c, &own);
}

int far_create(struct tool_call *c, const char *name, struct err *e)
{
	const struct daemon_question q = { .method = "GET", .target = "/v1/sandboxes" KEPT };

	(void)snprintf(c->path, sizeof(c->path), "%s", name ? name : "");
	c->far.made_before = c->of->made;
	return far_ask(c, &q, 16 * ASK_BODY_MAX, on_counted, e);
}

/* ---- those there are ---- */

static void on_listed(void *arg, const struct err *e)
{
	struct tool_call *c = arg;
	CLEANUP(jread) struct jread *v = e->code ? NULL : far_answer(c);
	const struct jread *list = jread_get(v, "sandboxes");
	struct json j;

	if (e->code) {
		call_fail(c, e);
		return;
	}
	json_init(&j, &c->result.json, false);
	json_object(&j);
	json_karray(&j, "sandboxes");
	for (size_t i = 0; i < jread_count(list); i++) {
		const struct jread *b = jread_at(list, i);
		const char *id = jread_str(b, "id"), *name = jread_str(b, "name"),
			   *state = jread_str(b, "state");
		bool ready = state && str_eq(state, "ready");

		if (!id)
			continue;
		put_box(&j, id, name, ready);
		buf_printf(&c->result.text, "%s%s%s%s\n", id, name ? " " : "", name ? name : "",
			   ready ? "" : " (ended)");
	}
	json_array_end(&j);
	json_object_end(&j);
	if (!c->result.text.len)
		buf_puts(&c->result.text, "(none)");
	call_end(c);
}

int far_list(struct tool_call *c, struct err *e)
{
	const struct daemon_question q = { .method = "GET", .target = "/v1/sandboxes" KEPT };

	return far_ask(c, &q, 16 * ASK_BODY_MAX, on_listed, e);
}

static void on_deleted(void *arg, const struct err *e)
{
	struct tool_call *c = arg;
	struct json j;

	if (e->code) {
		call_fail(c, e);
		return;
	}
	json_init(&j, &c->result.json, false);
	json_object(&j);
	json_kstr(&j, "deleted", c->far.ref);
	json_object_end(&j);
	buf_puts(&c->result.text, "Deleted, with everything that ran in it.");
	call_end(c);
}

int far_delete(struct tool_call *c, const struct jread *args, struct err *e)
{
	struct daemon_question q = { .method = "DELETE" };
	char target[96];

	if (far_ref(c, args, e) < 0)
		return -e->code;
	(void)snprintf(target, sizeof(target), "/v1/sandboxes/%s", c->far.ref);
	q.target = target;
	return far_ask(c, &q, ASK_BODY_MAX, on_deleted, e);
}

/* ---- files ---- */

static void on_file(void *arg, const struct err *e)
{
	struct tool_call *c = arg;

	/* Whatever is wrong with the folder is wrong with the file, too. */
	if (e->code && c->far.verb != FILE_MKDIR && e->code != EFBIG) {
		call_fail(c, e);
		return;
	}
	buf_done(&c->file.got);
	c->file.got = c->far.ask.got;
	c->far.ask.got = (struct buf)BUF_INIT(ASK_BODY_MAX);
	c->far.next(c, e->code == EFBIG ? EFBIG : 0);
}

static int file_send(struct tool_call *c, struct err *e)
{
	CLEANUP(buf) struct buf target = BUF_INIT(TARGET_MAX);
	CLEANUP(buf) struct buf body = BUF_INIT(TARGET_MAX);
	const bool list = c->far.verb == FILE_LIST, mkdir = c->far.verb == FILE_MKDIR,
		   write = c->far.verb == FILE_WRITE;
	struct daemon_question q = { .method = mkdir ? "POST" : write ? "PUT" : "GET" };

	buf_printf(&target, "/v1/sandboxes/%s/files%s%s", c->far.ref, list ? "/list" : "",
		   mkdir ? "/mkdir" : "?path=");
	c->far.ask.give = write ? buf_str(&c->body) : NULL;
	c->far.ask.give_len = write ? c->body.len : 0;
	if (mkdir) {
		struct json j;

		json_init(&j, &body, false);
		json_object(&j);
		json_kstr(&j, "path", c->far.path);
		json_kbool(&j, "parents", true);
		json_object_end(&j);
		q.body = buf_str(&body);
		q.body_len = body.len;
	} else {
		url_put_escaped(&target, c->far.path);
	}
	q.target = buf_str(&target);
	return far_ask(c, &q, TOOL_FILE_MAX, on_file, e);
}

static void on_own(void *arg, const struct err *e)
{
	struct tool_call *c = arg;
	struct err own = { 0 };
	bool ready;

	ready = far_opened(c, e);
	c->far.own = c->far.ref[0] != '\0';
	if (ready && file_send(c, &own) < 0)
		call_fail(c, &own);
}

int far_file(struct tool_call *c, const struct file_order *o, file_next_fn *next, struct err *e)
{
	c->far.verb = o->verb;
	c->far.next = next;
	(void)snprintf(c->far.path, sizeof(c->far.path), "%s", o->path);
	if (c->far.ref[0])
		return file_send(c, e);
	/* Should this process end before it is deleted, its times delete it. */
	return far_open(c, NULL, "call",
			"\"idle_ttl\":\"60s\",\"ttl\":\"15m\",\"cleanup_ttl\":\"1s\"", on_own, e);
}
