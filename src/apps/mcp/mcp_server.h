/* SPDX-License-Identifier: Apache-2.0 */
/* apps/mcp/mcp_server.h - an MCP server without a transport: messages in, messages out.
 *
 * Dual-era. A request whose _meta names a protocol version is served by itself (2026-07-28); an
 * `initialize` makes its peer one of the older kind (2025-11-25 and before). A peer is whoever is
 * at the other end; it has requests of its own under way, and nobody else's. */
#pragma once

#include "apps/mcp/rpc.h"
#include "apps/toolset/tools.h"
#include "base/sys/loop.h"
#include "base/text/buf.h"
#include "base/text/cleanup.h"
#include "base/text/err.h"
#include "model/settings/spec.h"

struct mcp_server;
struct mcp_peer;

/* One whole message, in one line without its end. Nothing is returned: who cannot take more drops
 * the peer. */
struct mcp_said {
	const char *p;
	size_t n;
	bool answer; /* to a request of this peer; else a notification */
	bool weak;   /* it may be left out where others wait */
	int code;    /* of an answer that is an error; 0: it is none */
};
typedef void mcp_say_fn(void *arg, const struct mcp_said *s);

/* `d`: sandboxes are the daemon's; NULL: they are this process's. */
int mcp_new(struct loop *l, const struct spec *s, const struct tools_daemon *d,
	    struct mcp_server **ret, struct err *e);
struct mcp_server *mcp_free(struct mcp_server *s); /* ends every call and sandbox */
DEFINE_CLEANUP(mcp, struct mcp_server *, mcp_free)

struct mcp_peer *mcp_peer_new(struct mcp_server *s, mcp_say_fn *say,
			      void *arg); /* NULL: no memory */
/* Its calls are ended, and it hears of nothing more. Takes NULL. */
struct mcp_peer *mcp_peer_free(struct mcp_peer *p);
void mcp_peer_greeted(struct mcp_peer *p); /* it is of the older kind, and said so elsewhere */
void mcp_hear(struct mcp_peer *p, const char *data, size_t n);
void mcp_take(struct mcp_peer *p, const struct rpc_message *m); /* the same, read already */
size_t mcp_under_way(const struct mcp_peer *p); /* requests that are not answered yet */
