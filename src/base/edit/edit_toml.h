/* SPDX-License-Identifier: Apache-2.0 */
/* base/edit/edit_toml.h - one table in a text of TOML. Pure. */
#pragma once

#include "base/edit/edit.h"

/* Puts these lines into the table [SECTION.NAME], in the place of what is there, or cuts it out
 * with its own tables below (value NULL; -ENOENT: it is not there). Refused where the entry is
 * written in another way, which a second one would contradict. */
int edit_toml_table(const struct edit_text *in, const char *section, const char *name,
		    const char *value, struct buf *out, struct err *e);
