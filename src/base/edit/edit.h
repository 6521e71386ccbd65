/* SPDX-License-Identifier: Apache-2.0 */
/* base/edit/edit.h - somebody's text, changed where something stands: every other byte stays.
 *
 * A finder (edit_json.h, edit_toml.h, edit_yaml.h) says where that is; whoever changes the text
 * copies what is before and behind it. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/text/arena.h"
#include "base/text/buf.h"
#include "base/text/err.h"

struct edit_text {
	const char *p;
	size_t n;
	size_t *start; /* of each line, and one behind the last; of edit_lines, else NULL */
	size_t lines;
};

struct edit_span {
	size_t from, to;
};

/* Finds its lines, which live in the arena. */
int edit_lines(struct arena *a, const char *p, size_t n, struct edit_text *ret, struct err *e);
size_t edit_line(const struct edit_text *t, size_t number); /* its place, from 1; else the end */
const char *edit_newline(const struct edit_text *t);        /* as its first line has it */

/* Text that stands so far, then `s` in the place of a span, then the rest. */
void edit_replace(const struct edit_text *t, struct edit_span at, const char *s, size_t n,
		  struct buf *out);
void edit_pad(struct buf *out, size_t n); /* so many blanks */

/* The difference, as `diff -u` has it, of a text into which `lines` lines came before line `at`. */
void edit_diff(const char *name, const struct edit_text *after, size_t at, size_t lines,
	       struct buf *out);
