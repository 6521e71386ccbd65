/* SPDX-License-Identifier: Apache-2.0 */
/* base/bytes/jread.h - reads JSON that somebody else wrote, strictly, into a tree.
 *
 * Refused: duplicate keys, text that is not UTF-8, a NUL inside a string, bytes behind the value,
 * nesting beyond 2048. What is asked for and not there, or of another type, is NULL or the given
 * default: an answer of a peer is a hint, never a promise. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/buf.h"
#include "base/text/cleanup.h"
#include "base/text/err.h"

struct jread; /* a value of the tree; borrowed from its root */

int jread_parse(const char *p, size_t n, struct jread **ret, struct err *e);
struct jread *jread_free(struct jread *root); /* takes NULL */
DEFINE_CLEANUP(jread, struct jread *, jread_free)

/* Before anything is built of it: does it go at most so deep, and hold at most so many values,
 * whatever else is wrong with it? A byte of text may become sixty of a tree. */
bool jread_within(const char *p, size_t n, unsigned depth, unsigned values);

enum jread_kind {
	JREAD_NONE,
	JREAD_NULL,
	JREAD_BOOL,
	JREAD_INT,
	JREAD_REAL,
	JREAD_STRING,
	JREAD_ARRAY,
	JREAD_OBJECT
};

enum jread_kind jread_kind(const struct jread *v);      /* JREAD_NONE: v is NULL */
void jread_write(const struct jread *v, struct buf *b); /* the value as text, in one line */

/* Members of an object. `v` may be NULL, so that calls can be nested. */
const struct jread *jread_get(const struct jread *v, const char *key);
const char *jread_str(const struct jread *v, const char *key); /* NULL: none */
int64_t jread_int(const struct jread *v, const char *key, int64_t otherwise);
bool jread_bool(const struct jread *v, const char *key);

/* A value as text again, in one line; free() it. NULL: no memory. */
char *jread_dump(const struct jread *v);
/* Takes a member out of an object that is the caller's own. */
void jread_drop(const struct jread *v, const char *key);

/* Elements of an array; the text of one that is a string. */
size_t jread_count(const struct jread *v);
const struct jread *jread_at(const struct jread *v, size_t i);
const char *jread_text(const struct jread *v);

/* Keys of an object, in the order they were written: for (it = jread_first(v); it; ...). */
void *jread_first(const struct jread *v);
void *jread_next(const struct jread *v, void *it);
const char *jread_key(void *it);
const struct jread *jread_value(void *it);
