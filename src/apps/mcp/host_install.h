/* SPDX-License-Identifier: Apache-2.0 */
/* apps/mcp/host_install.h - the programs that start MCP servers, and where they keep the list of
 * them.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>

#include "base/text/buf.h"
#include "base/text/err.h"

struct mcp_host;

const struct mcp_host *host_by_name(const char *name);
const char *host_name(size_t i); /* one after another; NULL: no more */

struct host_change {
	char path[PATH_MAX]; /* the file itself, behind any link */
	char backup[PATH_MAX];
	struct buf entry; /* what is put in */
	bool changes;     /* false: it is so already */
	bool there;       /* the file was there */
	bool restores;    /* it is as it was before brig: no copy is kept any more */
	bool removes;     /* the file was brig's alone, and goes */
};

/* Puts `brig mcp ARG...` into the host's file, or takes it out (args NULL); with dry nothing is
 * written. The file keeps its mode, a link stays one, and what was there is kept beside it. */
int host_install(const struct mcp_host *h, const char *home, const char *config,
		 const char *program, char *const *args, bool dry, struct host_change *ret,
		 struct err *e);
