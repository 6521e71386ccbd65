/* SPDX-License-Identifier: Apache-2.0 */
/* audit/read/entry.h - reads one line of the record, without building a tree.
 *
 * The bytes are as hostile as whoever could write the file: every line is checked as JSON (one
 * object, UTF-8, bounded depth). Nothing is allocated; all texts are slices of the line. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/buf.h"

enum { ENTRY_LINE_MAX = 256 << 10, ENTRY_DEPTH_MAX = 16 };

/* A text inside the line, not terminated. In a string it is what stands between the quotes, escapes
 * and all. p is NULL where the line has no such text. */
struct slice {
	const char *p;
	size_t n;
};

enum pair_kind { PAIR_STRING, PAIR_NUMBER, PAIR_BOOL, PAIR_NULL, PAIR_NESTED };

struct pair {
	struct slice key, value;
	enum pair_kind kind;
};

/* Iterates over the pairs of an object; at and end are borrowed. */
struct pairs {
	const char *at, *end;
	bool begun;
};

/* What every reader asks of a record; the rest is found with the iterator. */
struct entry {
	const char *line; /* borrowed, without the newline */
	size_t len;
	uint64_t seq;
	int64_t time; /* microseconds since 1970 */
	struct slice when, type, run, policy, rule, principal, agent, outcome, host, mac;
};

void pairs_init(struct pairs *it, const char *p, size_t n);
int pairs_next(struct pairs *it, struct pair *ret); /* 1, 0 at the end, -EINVAL */

/* 0, or -EINVAL for a line that is not a record: no object, no seq, no time, no type. */
int entry_read(const char *line, size_t n, struct entry *ret);

/* The value of a key; false where the record has none. */
bool entry_get(const struct entry *en, const char *key, struct pair *ret);

bool slice_eq(struct slice s, const char *text);    /* byte for byte */
bool slice_means(struct slice s, const char *text); /* a string, escapes undone */

/* A string value without its escapes, appended to b; a half of a surrogate pair becomes U+FFFD. */
void slice_decode(struct slice s, struct buf *b);
