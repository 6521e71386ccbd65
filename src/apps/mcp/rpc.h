/* SPDX-License-Identifier: Apache-2.0 */
/* apps/mcp/rpc.h - JSON-RPC 2.0 as MCP uses it: one message, read strictly; and answers to it.
 *
 * Bounds: RPC_MESSAGE_MAX bytes, RPC_DEPTH levels, RPC_VALUES values (which take far more room than
 * their text), ids of RPC_ID_MAX bytes. There are no batches.
 * What cannot be answered by its id is answered without one. */
#pragma once

#include "base/bytes/jread.h"
#include "base/bytes/json.h"
#include "base/text/buf.h"

#define RPC_MESSAGE_MAX ((size_t)16 << 20)

enum { RPC_DEPTH = 64, RPC_VALUES = 1 << 16, RPC_ID_MAX = 256 };

enum rpc_code {
	RPC_PARSE = -32700,
	RPC_REQUEST = -32600,
	RPC_METHOD = -32601,
	RPC_PARAMS = -32602,
	RPC_INTERNAL = -32603,
	RPC_SESSION = -32001,
	RPC_HEADER = -32020,
	RPC_CAPABILITY = -32021,
	RPC_VERSION = -32022,
};

enum rpc_kind { RPC_IS_REQUEST, RPC_IS_NOTIFICATION, RPC_IS_RESPONSE };

struct rpc_message {
	enum rpc_kind kind;
	struct jread *root;         /* owned */
	char id[RPC_ID_MAX + 8];    /* as JSON; "" when it has none */
	const char *method;         /* borrowed from root; NULL for a response */
	const struct jread *params; /* an object, or NULL */
};

/* 0, or the code with which it is to be refused; id is filled as far as it was read. */
int rpc_parse(const char *p, size_t n, struct rpc_message *ret, const char **why);
void rpc_done(struct rpc_message *m);
static inline void cleanup_rpc(struct rpc_message *m)
{
	rpc_done(m);
}

/* An id or a token as JSON: a string or a whole number. false: neither, or too long. */
bool rpc_id(const struct jread *v, char out[RPC_ID_MAX + 8]);

/* One message around what is written between the two: "result", then its value. */
void rpc_begin(struct json *j, struct buf *out, const char *id);
void rpc_end(struct json *j);
void rpc_error(struct buf *out, const char *id, int code, const char *text, const char *data);
