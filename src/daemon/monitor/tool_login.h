/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/monitor/tool_login.h - which file of a tool of the caller's holds its login, and what of
 * it is one.
 *
 * Pure. No hooks, commands, plugins, MCP servers or settings, which name programs: what is not
 * known to be a login is left out. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/text/buf.h"

struct tool_login {
	const char *name;
	const char *file; /* below HOME; NULL: it has no login, or only a cache */
};

/* NULL: there is no such tool. */
const struct tool_login *tool_login_find(const char *name);

/* What of its file is the login; the text, with a NUL behind it, is changed. 0, -ENOMEM, or
 * -EBADMSG: it is no such file. */
int tool_login_take(const struct tool_login *t, char *text, size_t n, struct buf *out);

/* Can using it renew it, so that the one that the host has is no longer good? */
bool tool_login_renews(const struct tool_login *t);
/* The host's file with what was renewed inside: of the tokens and times that the host's file has,
 * those that differ. No member is added, and a value is taken only if it can be nothing but a token
 * or a time. 1: it is in *out; 0: nothing was renewed; -EPERM: it is another account's; -EBADMSG:
 * one of them is no such file; -ENOMEM. */
int tool_login_renew(const struct tool_login *t, const char *host, size_t n, const char *inside,
		     size_t m, struct buf *out);
