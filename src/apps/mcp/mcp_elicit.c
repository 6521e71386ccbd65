/* SPDX-License-Identifier: Apache-2.0 */
/* apps/mcp/mcp_elicit.c - a name that no rule allows is asked about by the host
 * (elicitation/create).
 *
 * For hosts of the older era that said they can: only there a server has requests of its own. The
 * model is not asked, and cannot answer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/mcp/mcp_internal.h"
#include "base/text/str.h"

#define MARK "brig-ask-"
#define BY "the person at the MCP host"

static struct mcp_peer *host(struct mcp_server *s)
{
	struct mcp_peer *p = s->peers;

	while (p && !p->elicits)
		p = p->next;
	return p;
}

static void put_schema(struct json *j)
{
	static const char schema[] =
		"{\"type\":\"object\",\"properties\":{\"answer\":{\"type\":\"string\",\"title\":"
		"\"May it be reached?\",\"enum\":[\"no\",\"once\",\"run\"],\"enumNames\":[\"no\","
		"\"this connection alone\",\"until the sandbox "
		"ends\"]}},\"required\":[\"answer\"]}";

	json_key(j, "requestedSchema");
	json_raw(j, schema, sizeof(schema) - 1);
}

static void on_asked(void *arg, uint32_t handle, const char *name, uint16_t port)
{
	struct mcp_server *s = arg;
	struct mcp_peer *p = host(s);
	struct buf b = BUF_INIT(8192);
	char id[48], text[512];
	struct json j;

	if (!p) {
		tools_answer(s->tools, handle, RUN_ANSWER_NOBODY, "nobody: the host has left");
		return;
	}
	(void)snprintf(id, sizeof(id), "\"" MARK "%u\"", handle);
	(void)snprintf(
		text, sizeof(text),
		"brig: no rule allows the host %s (port %u), which a command in a sandbox wants "
		"to reach. May it? Without an answer within a minute it may not.",
		name, port);
	rpc_begin(&j, &b, id);
	json_kstr(&j, "method", "elicitation/create");
	json_kobject(&j, "params");
	json_kstr(&j, "message", text);
	put_schema(&j);
	json_object_end(&j);
	rpc_end(&j);
	mcp_send(p, &b, MCP_NOTICE);
	buf_done(&b);
}

/* Answered, by the host too, or late: a host that still shows it need not. */
static void mcp_elicit_on_closed(void *arg, uint32_t handle)
{
	struct mcp_server *s = arg;
	struct mcp_peer *p = host(s);
	struct buf b = BUF_INIT(1024);
	char id[32];
	struct json j;

	if (!p || s->answering == handle)
		return;
	(void)snprintf(id, sizeof(id), MARK "%u", handle);
	rpc_begin(&j, &b, NULL);
	json_kstr(&j, "method", "notifications/cancelled");
	json_kobject(&j, "params");
	json_kstr(&j, "requestId", id);
	json_object_end(&j);
	rpc_end(&j);
	mcp_send(p, &b, MCP_NOTICE);
	buf_done(&b);
}

void mcp_elicit_begin(struct mcp_peer *p, const struct jread *capabilities)
{
	const struct tools_asks by = { .arg = p->of,
				       .asked = on_asked,
				       .closed = mcp_elicit_on_closed };

	p->elicits = jread_kind(jread_get(capabilities, "elicitation")) == JREAD_OBJECT;
	if (p->elicits)
		tools_ask_by(p->of->tools, &by);
}

void mcp_elicited(struct mcp_peer *p, const struct rpc_message *m)
{
	const struct jread *result = jread_get(m->root, "result"),
			   *content = jread_get(result, "content");
	const char *action = jread_str(result, "action"), *answer = jread_str(content, "answer");
	const char *digits = m->id + 1 + strlen(MARK);
	enum run_answer a = RUN_ANSWER_NO;
	unsigned long handle;

	if (!p->elicits || !str_starts(m->id, "\"" MARK))
		return;
	handle = strtoul(digits, NULL, 10);
	if (action && answer && str_eq(action, "accept"))
		a = str_eq(answer, "once")  ? RUN_ANSWER_ONCE
		    : str_eq(answer, "run") ? RUN_ANSWER_RUN
					    : RUN_ANSWER_NO;
	p->of->answering = (uint32_t)handle;
	tools_answer(p->of->tools, (uint32_t)handle, a, BY);
	p->of->answering = 0;
}
