/* SPDX-License-Identifier: Apache-2.0 */
/* apps/mcp/mcp_http.h - an MCP server over HTTP ("streamable HTTP"), at /mcp.
 *
 * The daemon's server reads the calls; each of them shows a token, also on loopback. A token's name
 * is a tenant: it has sandboxes, tasks and sessions of its own, and knows of nobody else's. */
#pragma once

#include "apps/toolset/tools.h"
#include "base/text/err.h"
#include "model/settings/spec.h"

struct mcp_http_options {
	const char *listen;         /* ADDR:PORT, on loopback */
	const char *token_file;     /* of daemon/api/tokens.h; NULL: one token is made, and told */
	struct tools_daemon daemon; /* its tenant is not looked at: each token has its own */
	int signals;                /* a signalfd: its end; or -1 */
	/* Where it listens, and the token that was made ("": none was). */
	void (*listens)(const char *url, const char *token);
};

int mcp_http(const struct spec *s, const struct mcp_http_options *o, struct err *e);

/* The daemon's tenant for the sandboxes of one of these tokens ("": of nobody in particular): the
 * same settings and the same name have the same one, whenever they are served. */
enum { MCP_TENANT_SIZE = 32 };
void mcp_tenant(const struct tools_daemon *d, const char *name, char out[MCP_TENANT_SIZE]);
