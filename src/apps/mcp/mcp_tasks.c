/* SPDX-License-Identifier: Apache-2.0 */
/* apps/mcp/mcp_tasks.c - calls that take long, for peers that know tasks: answered with an id at
 *once, asked for later.
 *
 *	working -> completed | cancelled | failed -> forgotten (after TASK_TTL_MS, or for want of
 *room)
 *
 * An id is 128 random bits: who has it may ask. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "apps/mcp/mcp_internal.h"
#include "base/bytes/random.h"
#include "base/sys/clock.h"
#include "base/text/str.h"

#define TASK_TTL_MS 3600000
#define TASK_POLL_MS 1000

static void stamp(char out[32])
{
	struct timespec now;
	struct tm tm;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	(void)gmtime_r(&now.tv_sec, &tm);
	(void)strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &tm);
}

void task_free(struct mcp_server *s, struct mcp_task *t)
{
	struct mcp_task **at = &s->tasks;

	while (*at != t)
		at = &(*at)->next;
	*at = t->next;
	s->task_count--;
	buf_done(&t->result);
	free(t);
}

static void forget_old(struct mcp_server *s)
{
	struct mcp_task *oldest = NULL, *next;
	uint64_t now = clock_us();

	for (struct mcp_task *t = s->tasks; t; t = next) {
		next = t->next;
		if (t->until_us && t->until_us < now)
			task_free(s, t);
		else if (t->until_us)
			oldest = t;
	}
	if (s->task_count >= MCP_TASKS_MAX && oldest)
		task_free(s, oldest);
}

static struct mcp_task *task_new(struct mcp_server *s)
{
	struct mcp_task *t;
	struct err e = { 0 };

	forget_old(s);
	t = s->task_count < MCP_TASKS_MAX ? calloc(1, sizeof(*t)) : NULL;
	if (!t || random_hex(t->id, sizeof(t->id), &e) < 0) {
		free(t);
		return NULL;
	}
	t->result = (struct buf)BUF_INIT(MCP_OUT_MAX);
	stamp(t->created);
	stamp(t->updated);
	t->next = s->tasks;
	s->tasks = t;
	s->task_count++;
	return t;
}

static void put_task(struct json *j, const struct mcp_task *t)
{
	static const char *const words[TASK_STATUSES] = { "working", "completed", "cancelled",
							  "failed" };

	json_kstr(j, "taskId", t->id);
	json_kstr(j, "status", words[t->status]);
	json_kstr(j, "createdAt", t->created);
	json_kstr(j, "lastUpdatedAt", t->updated);
	json_ku64(j, "ttlMs", TASK_TTL_MS);
	json_ku64(j, "pollIntervalMs", TASK_POLL_MS);
	if (t->status == TASK_COMPLETED || t->status == TASK_FAILED) {
		json_key(j, t->status == TASK_FAILED ? "error" : "result");
		json_raw(j, buf_str(&t->result), t->result.len);
	}
}

void task_make(struct mcp_request *r)
{
	struct mcp_task *t = task_new(r->peer->of);
	struct buf b = BUF_INIT(4096);
	struct mcp_peer *p = r->peer;
	struct mcp_request **at = &p->requests;
	struct json j;

	if (!t)
		return; /* it goes on as it is */
	t->call = r->call;
	r->task = t;
	rpc_begin(&j, &b, r->id);
	json_kobject(&j, "result");
	mcp_result_marks(&j, r->era, "task");
	put_task(&j, t);
	json_object_end(&j);
	rpc_end(&j);
	/* It is the server's now: its id is free, and its peer may leave. */
	while (*at != r)
		at = &(*at)->next;
	*at = r->next;
	p->request_count--;
	r->peer = NULL;
	mcp_send(p, &b, MCP_ANSWER);
	buf_done(&b);
}

static void keep_result(struct mcp_task *t, const struct tool_result *r)
{
	struct json j;

	json_init(&j, &t->result, false);
	json_object(&j);
	mcp_result_marks(&j, ERA_MODERN, "complete");
	mcp_put_result(&j, r);
	json_object_end(&j);
}

/* What is no JSON as a whole is no result: as an answer it would have been an error, too. */
static void keep_error(struct mcp_task *t)
{
	struct json j;

	buf_done(&t->result);
	t->result = (struct buf)BUF_INIT(MCP_OUT_MAX);
	t->status = TASK_FAILED;
	json_init(&j, &t->result, false);
	json_object(&j);
	json_key(&j, "code");
	json_i64(&j, RPC_INTERNAL);
	json_kstr(&j, "message", "the result is too large");
	json_object_end(&j);
}

void task_completed(struct mcp_task *t, const struct tool_result *r)
{
	t->call = NULL;
	t->status = r->cancelled ? TASK_CANCELLED : TASK_COMPLETED;
	t->until_us = clock_us() + (uint64_t)TASK_TTL_MS * 1000;
	stamp(t->updated);
	keep_result(t, r);
	if (t->result.failed || r->text.failed || r->json.failed)
		keep_error(t);
}

/* The task that the request names; NULL: it was refused. */
static struct mcp_task *asked_for(const struct mcp_ask *a)
{
	static const char need[] =
		"{\"requiredCapabilities\":{\"extensions\":{\"" MCP_TASKS "\":{}}}}";
	const char *id = jread_str(a->m->params, "taskId");

	if (!a->tasks) {
		mcp_refuse(a, RPC_CAPABILITY, "the client has not declared " MCP_TASKS, need);
		return NULL;
	}
	for (struct mcp_task *t = a->peer->of->tasks; id && t; t = t->next)
		if (str_eq(t->id, id))
			return t;
	mcp_refuse(a, RPC_PARAMS, id ? "there is no such task" : "taskId is missing", NULL);
	return NULL;
}

void mcp_task_get(const struct mcp_ask *a)
{
	const struct mcp_task *t = asked_for(a);
	struct json j;
	struct buf b;

	if (!t)
		return;
	mcp_result(a, &j, &b);
	put_task(&j, t);
	mcp_result_end(a, &j, &b);
}

static void acknowledge(const struct mcp_ask *a)
{
	struct json j;
	struct buf b;

	mcp_result(a, &j, &b);
	mcp_result_end(a, &j, &b);
}

void mcp_task_cancel(const struct mcp_ask *a)
{
	struct mcp_task *t = asked_for(a);

	if (!t)
		return;
	if (t->call)
		tool_cancel(t->call);
	acknowledge(a);
}

/* No task of ours ever asks for anything: what comes is nothing that was asked for. */
void mcp_task_update(const struct mcp_ask *a)
{
	if (asked_for(a))
		acknowledge(a);
}
