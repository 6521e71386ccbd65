/* SPDX-License-Identifier: Apache-2.0 */
/* apps/mcp/host_toml.h - one table in the text of a TOML file. Pure. */
#pragma once

#include "base/text/buf.h"
#include "base/text/err.h"

/* Puts these lines into the table [SECTION.NAME], in the place of what is there, or cuts it out
 * with its own tables below (value NULL; -ENOENT: it is not there). Refused where the entry is
 * written in another way, which a second one would contradict. */
int toml_change(const char *text, size_t n, const char *section, const char *name,
		const char *value, struct buf *out, struct err *e);
