/* SPDX-License-Identifier: Apache-2.0 */
/* base/text/clean.h - text that others chose, made fit for a terminal.
 *
 * Names, hosts and paths may have been chosen inside the sandbox. What comes out is UTF-8 without
 * control characters (C0, DEL, C1) and without the invisible ones that reorder or hide text. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/text/buf.h"

/* Whether the valid UTF-8 character of n bytes at p may be shown as it is. */
bool clean_shows(const char *p, size_t n);

void clean_put(struct buf *b, const char *p, size_t n); /* each bad one becomes '?' */

/* The inside of a JSON string, already escaped by its writer: each bad character becomes an escape
 * of the same meaning, bytes that are not UTF-8 become U+FFFD. */
void clean_put_json(struct buf *b, const char *p, size_t n);
