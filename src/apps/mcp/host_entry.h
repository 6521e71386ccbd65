/* SPDX-License-Identifier: Apache-2.0 */
/* apps/mcp/host_entry.h - one entry in the text of another program's settings.
 *
 * The text is not read and written anew: the entry is put in or cut out where it stands, so that
 * everything else, order, blanks and comments included, stays byte for byte. Pure. */
#pragma once

#include "base/text/buf.h"
#include "base/text/err.h"

enum entry_form {
	ENTRY_JSON, /* with comments and commas before a closing bracket, as many editors take it */
	ENTRY_TOML,
};

/* Puts NAME with this value into SECTION, in the place of what is there; both are made if they are
 * not. TOML: the value is the lines of the table. */
int entry_put(enum entry_form form, const char *text, size_t n, const char *section,
	      const char *name, const char *value, struct buf *out, struct err *e);
/* JSON: what SECTION holds. TOML has no section of its own: the table's name is all of it. */
enum entry_section { SECTION_ABSENT, SECTION_EMPTY, SECTION_FULL };
enum entry_section entry_section(const char *text, size_t n, const char *section);
/* JSON: takes out a section that is empty. -ENOENT: there is none. */
int entry_cut_section(const char *text, size_t n, const char *section, struct buf *out);

/* Takes it out. -ENOENT: it is not there. */
int entry_cut(enum entry_form form, const char *text, size_t n, const char *section,
	      const char *name, struct buf *out, struct err *e);
