/* SPDX-License-Identifier: Apache-2.0 */
/* apps/mcp/mcp_server.c - messages, by era and method.
 *
 *	peer:     new -> initialized (older era only) -> gone
 *	request:  heard -> refused | answered | under way -> answered, dropped or a task */
#include "apps/mcp/mcp_server.h"

#include <stdlib.h>
#include <string.h>

#include "apps/mcp/mcp_internal.h"
#include "base/text/str.h"

#define META "io.modelcontextprotocol/"
#define INSTRUCTIONS                                                                               \
	"Commands, code and files of the workspace, in sandboxes. A call without `sandbox` has "   \
	"one "                                                                                     \
	"of its own; the workspace is shared by all. What is denied is told with the setting "     \
	"that "                                                                                    \
	"would allow it; settings are the user's, and no tool changes them."

#define FLEETING                                                                                   \
	" There is no folder of the user's: the workspace is empty and gone when its sandbox "     \
	"ends. "                                                                                   \
	"To keep files between calls create a sandbox; for the user's files the user starts brig " \
	"mcp "                                                                                     \
	"with --workdir FOLDER."

static const char *const legacy_versions[] = { MCP_LEGACY, "2025-06-18", "2025-03-26",
					       "2024-11-05" };

/* ---- answers ---- */

static void mcp_server_deliver(struct mcp_peer *p, struct buf *b, enum mcp_kind kind, int code)
{
	const struct mcp_said s = { .p = b->data,
				    .n = b->len,
				    .answer = kind == MCP_ANSWER,
				    .weak = kind == MCP_PROGRESS,
				    .code = code };

	if (!b->failed && b->len)
		p->say(p->arg, &s);
	buf_done(b);
	*b = (struct buf)BUF_INIT(MCP_OUT_MAX);
}

void mcp_send(struct mcp_peer *p, struct buf *b, enum mcp_kind kind)
{
	mcp_server_deliver(p, b, kind, 0);
}

void mcp_refuse(const struct mcp_ask *a, int code, const char *text, const char *data)
{
	struct buf b = BUF_INIT(1 << 16);

	rpc_error(&b, a->m->id, code, text, data);
	mcp_server_deliver(a->peer, &b, MCP_ANSWER, code);
	buf_done(&b);
}

static void put_self(struct json *j)
{
	json_object(j);
	json_kstr(j, "name", "brig");
	json_kstr(j, "title", "brig sandbox");
	json_kstr(j, "version", BRIG_VERSION);
	json_object_end(j);
}

void mcp_result_marks(struct json *j, enum mcp_era era, const char *type)
{
	if (era != ERA_MODERN)
		return;
	json_kstr(j, "resultType", type);
	json_kobject(j, "_meta");
	json_key(j, META "serverInfo");
	put_self(j);
	json_object_end(j);
}

void mcp_result(const struct mcp_ask *a, struct json *j, struct buf *b)
{
	*b = (struct buf)BUF_INIT(MCP_OUT_MAX);
	rpc_begin(j, b, a->m->id);
	json_kobject(j, "result");
	mcp_result_marks(j, a->era, "complete");
}

void mcp_result_end(const struct mcp_ask *a, struct json *j, struct buf *b)
{
	json_object_end(j);
	rpc_end(j);
	mcp_send(a->peer, b, MCP_ANSWER);
	buf_done(b);
}

/* ---- methods ---- */

static void put_versions(struct json *j)
{
	json_array(j);
	json_str(j, MCP_MODERN);
	json_str(j, MCP_LEGACY);
	json_array_end(j);
}

static const char *instructions(const struct mcp_ask *a)
{
	return tools_fleeting(a->peer->of->tools) ? INSTRUCTIONS FLEETING : INSTRUCTIONS;
}

static void initialize(const struct mcp_ask *a)
{
	const char *asked = jread_str(a->m->params, "protocolVersion"), *version = MCP_LEGACY;
	struct json j;
	struct buf b;

	for (size_t i = 0; asked && i < ARRAY_LEN(legacy_versions); i++)
		if (str_eq(asked, legacy_versions[i]))
			version = legacy_versions[i];
	if (!asked) {
		mcp_refuse(a, RPC_PARAMS, "protocolVersion is missing", NULL);
		return;
	}
	a->peer->initialized = true;
	mcp_elicit_begin(a->peer, jread_get(a->m->params, "capabilities"));
	mcp_result(a, &j, &b);
	json_kstr(&j, "protocolVersion", version);
	json_key(&j, "capabilities");
	json_raw(&j, "{\"tools\":{}}", strlen("{\"tools\":{}}"));
	json_key(&j, "serverInfo");
	put_self(&j);
	json_kstr(&j, "instructions", instructions(a));
	mcp_result_end(a, &j, &b);
}

static void discover(const struct mcp_ask *a)
{
	static const char can[] = "{\"tools\":{},\"extensions\":{\"" MCP_TASKS "\":{}}}";
	struct json j;
	struct buf b;

	mcp_result(a, &j, &b);
	json_key(&j, "supportedVersions");
	put_versions(&j);
	json_key(&j, "capabilities");
	json_raw(&j, can, strlen(can));
	json_kstr(&j, "instructions", instructions(a));
	json_ku64(&j, "ttlMs", 3600000);
	json_kstr(&j, "cacheScope", "public");
	mcp_result_end(a, &j, &b);
}

static void ping(const struct mcp_ask *a)
{
	struct json j;
	struct buf b;

	mcp_result(a, &j, &b);
	mcp_result_end(a, &j, &b);
}

static void put_tool(struct json *j, const struct tool *t, bool reach_out)
{
	json_object(j);
	json_kstr(j, "name", t->name);
	json_kstr(j, "title", t->title);
	json_kstr(j, "description", t->about);
	json_key(j, "inputSchema");
	tool_schema(j, t->input);
	json_key(j, "outputSchema");
	tool_schema(j, t->output);
	json_kobject(j, "annotations");
	json_kbool(j, "readOnlyHint", t->reads);
	json_kbool(j, "destructiveHint", !t->keeps);
	json_kbool(j, "openWorldHint", t->runs && reach_out);
	json_object_end(j);
	json_object_end(j);
}

static void list_tools(const struct mcp_ask *a)
{
	const struct tool *t;
	struct json j;
	struct buf b;

	if (jread_get(a->m->params, "cursor")) {
		mcp_refuse(a, RPC_PARAMS, "there is one page of tools: no cursor leads on", NULL);
		return;
	}
	mcp_result(a, &j, &b);
	json_karray(&j, "tools");
	for (size_t i = 0; (t = tools_at(a->peer->of->tools, i)); i++)
		put_tool(&j, t, tools_reach_out(a->peer->of->tools));
	json_array_end(&j);
	if (a->era == ERA_MODERN) {
		json_ku64(&j, "ttlMs", 3600000);
		json_kstr(&j, "cacheScope", "public");
	}
	mcp_result_end(a, &j, &b);
}

enum { IN_LEGACY = 1, IN_MODERN = 2 };

static const struct {
	const char *name;
	unsigned eras;
	void (*serve)(const struct mcp_ask *a);
} methods[] = {
	{ "initialize", IN_LEGACY, initialize },
	{ "ping", IN_LEGACY, ping },
	{ "tools/list", IN_LEGACY | IN_MODERN, list_tools },
	{ "tools/call", IN_LEGACY | IN_MODERN, mcp_call_tool },
	{ "server/discover", IN_MODERN, discover },
	{ "subscriptions/listen", IN_MODERN, mcp_listen },
	{ "tasks/get", IN_MODERN, mcp_task_get },
	{ "tasks/update", IN_MODERN, mcp_task_update },
	{ "tasks/cancel", IN_MODERN, mcp_task_cancel },
};

/* ---- requests ---- */

/* What every request of the modern era says of itself. false: it was refused. */
static bool read_meta(struct mcp_ask *a, const struct jread *meta)
{
	const struct jread *version = jread_get(meta, META "protocolVersion"),
			   *can = jread_get(meta, META "clientCapabilities");
	CLEANUP(buf) struct buf data = BUF_INIT(4096);
	struct json j;

	if (!jread_text(version) || jread_kind(can) != JREAD_OBJECT) {
		mcp_refuse(a, RPC_PARAMS,
			   "_meta needs " META "protocolVersion and " META "clientCapabilities",
			   NULL);
		return false;
	}
	if (!str_eq(jread_text(version), MCP_MODERN)) {
		json_init(&j, &data, false);
		json_object(&j);
		json_key(&j, "supported");
		put_versions(&j);
		json_kstr(&j, "requested", jread_text(version));
		json_object_end(&j);
		mcp_refuse(a, RPC_VERSION, "Unsupported protocol version",
			   data.failed ? NULL : buf_str(&data));
		return false;
	}
	a->era = ERA_MODERN;
	a->tasks = jread_get(jread_get(can, "extensions"), MCP_TASKS) != NULL;
	return true;
}

static bool is_modern(const struct jread *meta)
{
	return jread_get(meta, META "protocolVersion") ||
	       jread_get(meta, META "clientCapabilities");
}

static void mcp_server_serve(struct mcp_ask *a)
{
	const struct jread *meta = jread_get(a->m->params, "_meta");
	size_t i = 0;

	a->era = ERA_LEGACY;
	while (i < ARRAY_LEN(methods) && !str_eq(methods[i].name, a->m->method))
		i++;
	if (is_modern(meta) || (i < ARRAY_LEN(methods) && methods[i].eras == IN_MODERN)) {
		if (!read_meta(a, meta))
			return;
	} else if (!a->peer->initialized && i < ARRAY_LEN(methods) && i > 1) {
		mcp_refuse(a, RPC_PARAMS,
			   "say initialize first, or put " META "protocolVersion and " META
			   "clientCapabilities into _meta",
			   NULL);
		return;
	}
	if (i == ARRAY_LEN(methods) ||
	    !(methods[i].eras & (a->era == ERA_MODERN ? IN_MODERN : IN_LEGACY)))
		mcp_refuse(a, RPC_METHOD, "Method not found", NULL);
	else
		methods[i].serve(a);
}

static bool is_under_way(const struct mcp_peer *p, const char *id)
{
	for (const struct mcp_request *r = p->requests; r; r = r->next)
		if (str_eq(r->id, id))
			return true;
	return false;
}

void mcp_take(struct mcp_peer *p, const struct rpc_message *m)
{
	struct mcp_ask a = { .peer = p, .m = m };

	if (m->kind == RPC_IS_REQUEST && is_under_way(p, m->id))
		mcp_refuse(&a, RPC_REQUEST, "a request of this id is under way", NULL);
	else if (m->kind == RPC_IS_REQUEST)
		mcp_server_serve(&a);
	else if (m->kind == RPC_IS_NOTIFICATION && str_eq(m->method, "notifications/cancelled"))
		mcp_cancel(p, m->params);
	else if (m->kind == RPC_IS_RESPONSE)
		mcp_elicited(p, m);
}

void mcp_hear(struct mcp_peer *p, const char *data, size_t n)
{
	CLEANUP(rpc) struct rpc_message m = { 0 };
	struct mcp_ask a = { .peer = p, .m = &m };
	const char *why = NULL;
	int code = rpc_parse(data, n, &m, &why);

	if (code)
		mcp_refuse(&a, code, why, NULL);
	else
		mcp_take(p, &m);
}

/* ---- life ---- */

int mcp_new(struct loop *l, const struct spec *s, const struct tools_daemon *d,
	    struct mcp_server **ret, struct err *e)
{
	struct mcp_server *x = calloc(1, sizeof(*x));

	if (!x)
		return err_nomem(e);
	x->loop = l;
	if (tools_new(l, s, d, &x->tools, e) < 0) {
		free(x);
		return -e->code;
	}
	*ret = x;
	return 0;
}

struct mcp_server *mcp_free(struct mcp_server *s)
{
	if (!s)
		return NULL;
	while (s->peers)
		(void)mcp_peer_free(s->peers);
	s->tools = tools_free(s->tools);
	while (s->tasks)
		task_free(s, s->tasks);
	free(s);
	return NULL;
}

struct mcp_peer *mcp_peer_new(struct mcp_server *s, mcp_say_fn *say, void *arg)
{
	struct mcp_peer *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	*p = (struct mcp_peer){ .next = s->peers, .of = s, .say = say, .arg = arg };
	s->peers = p;
	return p;
}

void mcp_peer_greeted(struct mcp_peer *p)
{
	p->initialized = true;
}

struct mcp_peer *mcp_peer_free(struct mcp_peer *p)
{
	struct mcp_peer **at;

	if (!p)
		return NULL;
	at = &p->of->peers;
	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	while (p->requests)
		mcp_request_drop(p->requests);
	free(p);
	return NULL;
}

size_t mcp_under_way(const struct mcp_peer *p)
{
	return p->request_count;
}
