/* SPDX-License-Identifier: Apache-2.0 */
/* egress/seek/lines.h - known secrets in base64 that is broken into lines.
 *
 * Whole files are written so, and nothing else of them is an escape: lines are joined and searched
 * without the place of every byte. Nothing is remembered from one call to the next. */
#pragma once

#include "egress/seek/view.h"

struct base64_lines;

/* So much around the end of a line is looked at; the search is borrowed. */
int lines_new(struct arena *a, struct seek *s, size_t reach, struct base64_lines **ret,
	      struct err *e);
void lines_wipe(struct base64_lines *l);

/* Names what goes on across the end of a line and ends in data. false when fn said stop. */
bool lines_feed(struct base64_lines *l, const struct seek_text *t, view_fn *fn, void *context);
