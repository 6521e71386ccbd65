/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/tool_login.h - which file of a tool of the caller's holds its login, and what of it is
 * one.
 *
 * Pure. No hooks, commands, plugins, MCP servers or settings, which name programs: what is not
 * known to be a login is left out. */
#pragma once

#include <stddef.h>

#include "base/buf.h"

struct tool_login {
	const char *name;
	const char *file; /* below HOME; NULL: it has no login, or only a cache */
};

/* NULL: there is no such tool. */
const struct tool_login *tool_login_find(const char *name);

/* What of its file is the login; the text, with a NUL behind it, is changed. 0, -ENOMEM, or
 * -EBADMSG: it is no such file. */
int tool_login_take(const struct tool_login *t, char *text, size_t n, struct buf *out);
