/* SPDX-License-Identifier: Apache-2.0 */
/* apps/mcp/mcp_headers.c - what a request of the new era says twice: in its fields, for whoever
 * routes it, and in its body. Both must say the same. */
#include <string.h>

#include "apps/mcp/mcp_http_internal.h"
#include "base/bytes/base64.h"
#include "base/text/str.h"

#define META_VERSION "io.modelcontextprotocol/protocolVersion"

bool version_known(struct http1_text t)
{
	static const char *const known[] = { MCP_MODERN, MCP_LEGACY, "2025-06-18", "2025-03-26",
					     "2024-11-05" };

	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (t.n == strlen(known[i]) && memcmp(t.p, known[i], t.n) == 0)
			return true;
	return false;
}

bool header_says(struct http1_text t, const char *text)
{
	static const char head[] = "=?base64?", tail[] = "?=";
	const size_t h = sizeof(head) - 1, e = sizeof(tail) - 1;
	char plain[1024];
	ssize_t n;

	if (!t.p)
		return false;
	if (t.n < h + e || memcmp(t.p, head, h) != 0 || memcmp(t.p + t.n - e, tail, e) != 0)
		return t.n == strlen(text) && memcmp(t.p, text, t.n) == 0;
	n = base64_read(t.p + h, t.n - h - e, plain, sizeof(plain));
	return n >= 0 && (size_t)n == strlen(text) && memcmp(plain, text, (size_t)n) == 0;
}

static struct http1_text only(const struct http1_request *head, const char *name)
{
	struct http1_text found = { NULL, 0 };

	if (http1_count(head->fields, head->n_fields, name) != 1)
		return found;
	for (size_t i = 0; i < head->n_fields; i++)
		if (http1_text_is(head->fields[i].name, name))
			found = head->fields[i].value;
	return found;
}

/* What Mcp-Name repeats of this method's parameters; NULL: nothing. */
static const char *mcp_headers_named(const struct rpc_message *m)
{
	static const struct {
		const char *method, *param;
	} rows[] = {
		{ "tools/call", "name" },     { "prompts/get", "name" },
		{ "resources/read", "uri" },  { "tasks/get", "taskId" },
		{ "tasks/update", "taskId" }, { "tasks/cancel", "taskId" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (str_eq(rows[i].method, m->method))
			return jread_str(m->params, rows[i].param);
	return NULL;
}

int headers_check(const struct http1_request *head, const struct rpc_message *m, const char **why)
{
	const char *version = jread_str(jread_get(m->params, "_meta"), META_VERSION),
		   *name = mcp_headers_named(m);

	/* What is missing in the body is told as that. */
	if (!version)
		return 0;
	if (!header_says(only(head, "MCP-Protocol-Version"), version))
		*why = "Header mismatch: MCP-Protocol-Version is not what _meta says";
	else if (!header_says(only(head, "Mcp-Method"), m->method))
		*why = "Header mismatch: Mcp-Method is not the method";
	else if (name && !header_says(only(head, "Mcp-Name"), name))
		*why = "Header mismatch: Mcp-Name is not what the parameters name";
	return *why ? RPC_HEADER : 0;
}
