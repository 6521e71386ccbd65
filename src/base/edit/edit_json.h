/* SPDX-License-Identifier: Apache-2.0 */
/* base/edit/edit_json.h - where a member stands in a text of JSON, with comments and commas before
 * a closing bracket, as many editors take it. Pure. */
#pragma once

#include "base/edit/edit.h"

/* An object, and one member of it. */
struct edit_member {
	struct edit_span object;     /* from '{' to behind '}' */
	struct edit_span key, value; /* value.to 0: the member is not there */
	struct edit_span last;       /* the last member, key to value; to 0: there is none */
	size_t before;               /* the comma before the member; SIZE_MAX: none */
	size_t comma;                /* behind the comma after the last member; 0: none */
	size_t after;                /* behind the comma after the member; 0: none */
};

size_t edit_json_blank(const struct edit_text *t, size_t at); /* behind blanks and comments */

/* Finds a member of the object that begins at `at`. */
int edit_json_find(const struct edit_text *t, size_t at, const char *name, struct edit_member *ret,
		   struct err *e);
int edit_json_malformed(struct err *e); /* the error of edit_json_find */

bool edit_json_empty(const struct edit_text *t, const struct edit_member *o); /* not a comment */

/* One more member, which o has not found. */
void edit_json_add(const struct edit_text *t, const struct edit_member *o, const char *name,
		   const char *value, struct buf *out);
/* Without it, and the comma that it had; an object that had nothing else is "{}" again. */
void edit_json_cut(const struct edit_text *t, const struct edit_member *o, struct buf *out);
