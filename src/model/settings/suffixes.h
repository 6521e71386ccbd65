/* SPDX-License-Identifier: Apache-2.0 */
/* model/settings/suffixes.h - names under which anybody can have one: the Public Suffix List, and a
 * few that are not in it. The table is made at build time (tools/gen-suffixes). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

extern const char suffix_table[];
extern const size_t suffix_table_size;

/* Does a wildcard below this name, in small letters, cover names that anybody can have? It does
 * where the name is such a suffix, or lies above one. */
bool suffix_is_anybodys(const char *name);
