/* SPDX-License-Identifier: Apache-2.0 */
/* apps/mcp/mcp_internal.h - what the files of the server share. */
#pragma once

#include "apps/mcp/mcp_server.h"
#include "apps/mcp/rpc.h"
#include "apps/toolset/tools.h"

#define MCP_MODERN "2026-07-28"
#define MCP_LEGACY "2025-11-25"
#define MCP_TASKS "io.modelcontextprotocol/tasks"
#define MCP_OUT_MAX ((size_t)256 << 20)

enum { MCP_TASKS_MAX = 64, MCP_LISTENS_MAX = 16, MCP_REQUESTS_MAX = 128 };

enum mcp_era { ERA_NONE, ERA_LEGACY, ERA_MODERN };

/* A request that is not answered yet: a call of a tool, or a subscription. */
struct mcp_request {
	struct mcp_request *next;
	struct mcp_peer *peer; /* NULL: it has left */
	enum mcp_era era;
	char id[RPC_ID_MAX + 8];
	char token[RPC_ID_MAX + 8]; /* of progress; "": none is wanted */
	uint64_t progress, told_us;
	struct loop_timer late; /* then it becomes a task */
	struct tool_call *call; /* NULL: a subscription, or over */
	struct mcp_task *task;  /* what it has become; NULL: nothing */
	bool dropped;           /* nobody waits for its answer */
};

enum mcp_status { TASK_WORKING, TASK_COMPLETED, TASK_CANCELLED, TASK_FAILED, TASK_STATUSES };

struct mcp_task {
	struct mcp_task *next;
	char id[33];
	enum mcp_status status;
	char created[32], updated[32];
	uint64_t until_us; /* then it is forgotten; 0: it works */
	struct tool_call *call;
	struct buf result; /* as JSON, once it is completed; an error, if it has failed */
};

struct mcp_peer {
	struct mcp_peer *next;
	struct mcp_server *of;
	mcp_say_fn *say;
	void *arg;
	bool initialized;
	bool elicits; /* it asks its person, if it is asked to */
	struct mcp_request *requests;
	size_t request_count;
};

struct mcp_server {
	struct loop *loop;
	struct tools *tools;
	struct mcp_peer *peers;
	struct mcp_task *tasks; /* the newest first */
	size_t task_count;
	uint32_t answering; /* the question whose answer is being heard; 0: none */
};

/* One message, as it is answered. */
struct mcp_ask {
	struct mcp_peer *peer;
	const struct rpc_message *m;
	enum mcp_era era;
	bool tasks; /* the caller knows what a task is */
};

enum mcp_kind { MCP_ANSWER, MCP_NOTICE, MCP_PROGRESS };

void mcp_send(struct mcp_peer *p, struct buf *b, enum mcp_kind kind); /* and empties it */
void mcp_refuse(const struct mcp_ask *a, int code, const char *text, const char *data);

/* A result between these two, with what every one of the modern era has. */
void mcp_result(const struct mcp_ask *a, struct json *j, struct buf *b);
void mcp_result_end(const struct mcp_ask *a, struct json *j, struct buf *b);
/* Further members of a result of that era. */
void mcp_result_marks(struct json *j, enum mcp_era era, const char *type);

/* mcp_calls.c */
void mcp_call_tool(const struct mcp_ask *a);
void mcp_listen(const struct mcp_ask *a);
void mcp_cancel(struct mcp_peer *p, const struct jread *params);
void mcp_request_drop(struct mcp_request *r); /* nobody waits for it any more */

/* mcp_elicit.c */
void mcp_elicit_begin(struct mcp_peer *p, const struct jread *capabilities);
void mcp_elicited(struct mcp_peer *p, const struct rpc_message *m); /* its answer */

/* mcp_tasks.c */
/* A request whose call goes on becomes a task, and is answered with it. */
void task_make(struct mcp_request *r);
void task_completed(struct mcp_task *t, const struct tool_result *r);
void task_free(struct mcp_server *s, struct mcp_task *t);
void mcp_task_get(const struct mcp_ask *a);
void mcp_task_cancel(const struct mcp_ask *a);
void mcp_task_update(const struct mcp_ask *a);
/* The members of a call's result, without the object around them. */
void mcp_put_result(struct json *j, const struct tool_result *r);
