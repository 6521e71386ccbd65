/* SPDX-License-Identifier: Apache-2.0 */
/* apps/mcp/mcp_calls.c - requests that take a while: calls of tools, and subscriptions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/mcp/mcp_internal.h"
#include "base/sys/clock.h"
#include "base/text/clean.h"
#include "base/text/str.h"

#define PROGRESS_US 250000 /* between two words about one call */
#ifndef TASK_US
#define TASK_US 3000000 /* then a call becomes a task, for who knows what that is */
#endif

static void unlink_request(struct mcp_request *r)
{
	struct mcp_request **at = &r->peer->requests;

	while (*at != r)
		at = &(*at)->next;
	*at = r->next;
	r->peer->request_count--;
	r->peer = NULL;
}

static struct mcp_request *request_new(const struct mcp_ask *a)
{
	struct mcp_peer *p = a->peer;
	struct mcp_request *r = p->request_count < MCP_REQUESTS_MAX ? calloc(1, sizeof(*r)) : NULL;

	if (!r) {
		mcp_refuse(a, RPC_INTERNAL, "too many requests are under way: wait for some", NULL);
		return NULL;
	}
	*r = (struct mcp_request){ .next = p->requests, .peer = p, .era = a->era };
	memcpy(r->id, a->m->id, sizeof(r->id));
	p->requests = r;
	p->request_count++;
	return r;
}

/* ---- calls ---- */

/* Images as such, other kinds as resources that carry their text: the address names nothing. */
static void put_shown(struct json *j, const struct tool_shown *s, size_t number)
{
	char uri[64];

	json_object(j);
	json_kstr(j, "type", s->image ? "image" : "resource");
	if (!s->image) {
		(void)snprintf(uri, sizeof(uri), "brig:shown/%zu", number);
		json_kobject(j, "resource");
		json_kstr(j, "uri", uri);
	}
	json_kstr(j, "mimeType", s->mime);
	json_key(j, s->image ? "data" : "text");
	json_strn(j, s->data, s->len);
	if (!s->image)
		json_object_end(j);
	json_object_end(j);
}

void mcp_put_result(struct json *j, const struct tool_result *r)
{
	json_karray(j, "content");
	json_object(j);
	json_kstr(j, "type", "text");
	json_key(j, "text");
	json_strn(j, buf_str(&r->text), r->text.len);
	json_object_end(j);
	for (size_t i = 0; i < r->shown_count; i++)
		put_shown(j, &r->shown[i], i + 1);
	json_array_end(j);
	if (r->json.len) {
		json_key(j, "structuredContent");
		json_raw(j, r->json.data, r->json.len);
	}
	json_kbool(j, "isError", r->failed);
}

static void mcp_calls_answer(struct mcp_request *r, const struct tool_result *result)
{
	struct buf b = BUF_INIT(MCP_OUT_MAX);
	struct json j;

	rpc_begin(&j, &b, r->id);
	json_kobject(&j, "result");
	mcp_result_marks(&j, r->era, "complete");
	mcp_put_result(&j, result);
	json_object_end(&j);
	rpc_end(&j);
	if (b.failed || result->text.failed || result->json.failed) {
		buf_done(&b);
		b = (struct buf)BUF_INIT(MCP_OUT_MAX);
		rpc_error(&b, r->id, RPC_INTERNAL, "the result is too large", NULL);
	}
	mcp_send(r->peer, &b, MCP_ANSWER);
	buf_done(&b);
}

static void mcp_calls_on_done(void *arg, const struct tool_result *result)
{
	struct mcp_request *r = arg;

	if (r->late.at)
		loop_at(r->peer->of->loop, &r->late, 0);
	if (r->task)
		task_completed(r->task, result);
	else if (r->peer && !r->dropped)
		mcp_calls_answer(r, result);
	if (r->peer)
		unlink_request(r);
	free(r);
}

static void on_progress(void *arg, uint64_t bytes, const char *line)
{
	struct mcp_request *r = arg;
	uint64_t now = clock_us();
	CLEANUP(buf) struct buf text = BUF_INIT(1024);
	struct buf b = BUF_INIT(8192);
	struct json j;

	if (!r->token[0] || !r->peer || r->dropped || r->task || bytes <= r->progress ||
	    (r->told_us && now - r->told_us < PROGRESS_US))
		return;
	r->progress = bytes;
	r->told_us = now;
	clean_put(&text, line, strlen(line));
	rpc_begin(&j, &b, NULL);
	json_kstr(&j, "method", "notifications/progress");
	json_kobject(&j, "params");
	json_key(&j, "progressToken");
	json_raw(&j, r->token, strlen(r->token));
	json_ku64(&j, "progress", bytes);
	json_kstr(&j, "message", buf_str(&text));
	json_object_end(&j);
	rpc_end(&j);
	mcp_send(r->peer, &b, MCP_PROGRESS);
	buf_done(&b);
}

static void mcp_calls_on_late(struct loop_timer *t, uint64_t now UNUSED)
{
	struct mcp_request *r = CONTAINER_OF(t, struct mcp_request, late);

	task_make(r);
}

void mcp_call_tool(const struct mcp_ask *a)
{
	const char *name = jread_str(a->m->params, "name");
	const struct tool *tool = name ? tools_named(a->peer->of->tools, name) : NULL;
	const struct jread *args = jread_get(a->m->params, "arguments"),
			   *token = jread_get(jread_get(a->m->params, "_meta"), "progressToken");
	struct mcp_server *s = a->peer->of;
	struct tool_listener by = { .progress = on_progress, .done = mcp_calls_on_done };
	struct mcp_request *r;

	if (!tool) {
		mcp_refuse(a, RPC_PARAMS, name ? "Unknown tool" : "name is missing", NULL);
		return;
	}
	if (args && jread_kind(args) == JREAD_NULL)
		args = NULL;
	r = request_new(a);
	if (!r)
		return;
	if (token)
		(void)rpc_id(token, r->token);
	r->late.due = mcp_calls_on_late;
	if (a->tasks)
		loop_at(s->loop, &r->late, clock_us() + TASK_US);
	by.arg = r;
	tool_begin(s->tools, tool, args, &by, &r->call);
}

/* ---- subscriptions: nothing that can be listened for ever changes ---- */

void mcp_listen(const struct mcp_ask *a)
{
	struct buf b = BUF_INIT(4096);
	size_t listens = 0;
	struct json j;

	for (const struct mcp_request *r = a->peer->requests; r; r = r->next)
		listens += !r->call;
	if (listens >= MCP_LISTENS_MAX) {
		mcp_refuse(a, RPC_INTERNAL, "too many subscriptions", NULL);
		return;
	}
	if (jread_kind(jread_get(a->m->params, "notifications")) != JREAD_OBJECT) {
		mcp_refuse(a, RPC_PARAMS, "notifications must be an object", NULL);
		return;
	}
	if (!request_new(a))
		return;
	rpc_begin(&j, &b, NULL);
	json_kstr(&j, "method", "notifications/subscriptions/acknowledged");
	json_kobject(&j, "params");
	json_kobject(&j, "_meta");
	json_key(&j, "io.modelcontextprotocol/subscriptionId");
	json_raw(&j, a->m->id, strlen(a->m->id));
	json_object_end(&j);
	json_key(&j, "notifications");
	json_raw(&j, "{}", 2);
	json_object_end(&j);
	rpc_end(&j);
	mcp_send(a->peer, &b, MCP_NOTICE);
	buf_done(&b);
}

/* ---- ends ---- */

void mcp_request_drop(struct mcp_request *r)
{
	struct mcp_server *s = r->peer->of;

	loop_at(s->loop, &r->late, 0);
	r->dropped = true;
	unlink_request(r);
	if (r->call)
		tool_cancel(r->call);
	else
		free(r);
}

void mcp_cancel(struct mcp_peer *p, const struct jread *params)
{
	char id[RPC_ID_MAX + 8];
	struct mcp_request *r = p->requests;

	if (!rpc_id(jread_get(params, "requestId"), id))
		return;
	while (r && !str_eq(r->id, id))
		r = r->next;
	if (r)
		mcp_request_drop(r);
}
