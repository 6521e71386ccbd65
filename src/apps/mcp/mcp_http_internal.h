/* SPDX-License-Identifier: Apache-2.0 */
/* apps/mcp/mcp_http_internal.h - what the files of the HTTP side share. */
#pragma once

#include "apps/mcp/mcp_http.h"
#include "apps/mcp/mcp_internal.h"
#include "daemon/api/tokens.h"
#include "http/http.h"

enum { MCP_SESSIONS_MAX = 64, MCP_TENANTS_MAX = 64 };

/* Of the older era: what `initialize` has made. */
struct mcp_session {
	struct mcp_session *next;
	char id[33];
	uint64_t used_us;
	size_t exchanges;
};

struct mcp_tenant {
	struct mcp_tenant *next;
	char name[TENANT_SIZE], own[MCP_TENANT_SIZE];
	struct mcp_server *server;
	struct mcp_session *sessions;
	size_t session_count;
};

/* One POST that is being answered. It has a peer of its own: who leaves takes what it has started
 * along.
 *
 *	heard -> answered (JSON) | streaming (events) -> over -> freed, by the loop */
struct mcp_exchange {
	struct loop_timer late; /* first; opens the stream, then frees it */
	struct mcp_exchange *next, **at;
	struct mcp_http *of;
	struct http_call *call; /* NULL: it was answered, or the caller has left */
	struct mcp_tenant *tenant;
	struct mcp_session *session; /* NULL: of the new era */
	struct mcp_peer *peer;
	bool takes_events, streaming, over;
	char fields[64]; /* further ones of the answer */
};

struct mcp_http {
	struct loop_watch signals; /* first */
	struct loop_timer revoke;
	struct loop *loop;
	struct http_server *http;
	struct tokens *tokens;
	const struct spec *spec;
	struct tools_daemon daemon;
	struct mcp_tenant *tenants;
	size_t tenant_count;
	struct mcp_exchange *exchanges;
};

/* ---- mcp_exchange.c ---- */

/* NULL: it was answered. */
struct mcp_exchange *exchange_new(struct mcp_http *h, struct http_call *c, struct mcp_tenant *t,
				  struct mcp_session *s);
void exchange_free(struct mcp_exchange *x);
/* Its request was cancelled by another: nobody is waiting for an answer. */
void exchange_drop(struct mcp_exchange *x);
/* One answer, without an exchange: an error of JSON-RPC. `id` as of rpc_message. */
void exchange_refuse(struct http_call *c, int status, const char *id, int code, const char *text,
		     const char *data);

/* ---- mcp_session.c ---- */

struct mcp_session *session_new(struct mcp_tenant *t, struct err *e);
struct mcp_session *session_find(struct mcp_tenant *t, struct http1_text id);
void session_free(struct mcp_tenant *t, struct mcp_session *s);
struct mcp_tenant *tenant_of(struct mcp_http *h, const char *name, struct err *e);
void tenants_free(struct mcp_http *h);

/* ---- mcp_headers.c: pure ---- */

/* Does a field say the same as the body? It may be written as "=?base64?...?=". */
bool header_says(struct http1_text field, const char *text);
/* 0, or the code with which a request of the new era is refused; *why then says why. */
int headers_check(const struct http1_request *head, const struct rpc_message *m, const char **why);
bool version_known(struct http1_text t);
