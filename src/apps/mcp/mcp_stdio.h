/* SPDX-License-Identifier: Apache-2.0 */
/* apps/mcp/mcp_stdio.h - an MCP server on two descriptors: one message a line. */
#pragma once

#include "apps/toolset/tools.h"
#include "base/text/err.h"
#include "model/settings/spec.h"

/* Serves until the input ends, nobody reads the output, or a signal comes (of the signalfd, or -1).
 * Calls that are under way then are ended with everything they have started. */
int mcp_stdio(const struct spec *s, const struct tools_daemon *d, int in, int out, int signals,
	      struct err *e);
