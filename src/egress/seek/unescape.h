/* SPDX-License-Identifier: Apache-2.0 */
/* egress/seek/unescape.h - what an escape stands for, one at a time.
 *
 * Pure. Which bytes are an escape follows from at most UNESCAPE_BACK bytes before them and
 * UNESCAPE_MOST from their first on. What writers of URLs, JSON, HTML, mail, programs and base64 do
 * is known here and nowhere else. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define UNESCAPE_MOST 13 /* bytes of the longest escape, or that say that there is none */
#define UNESCAPE_BACK 16

enum unescape_kind {
	/* %XX, \uXXXX, \xXX, \/ and its like, &#N; &#xN; &name;, and the NUL bytes of UTF-16 */
	UNESCAPE_SIGNS,
	/* =XX and =, the line's end: what follows `=` in a query is the same signs */
	UNESCAPE_QUOTED,
	/* the end of a line in base64: UNESCAPE_BACK of its signs before, one behind */
	UNESCAPE_LINES,
	UNESCAPE_KINDS
};

enum unescape_found {
	UNESCAPE_NONE, /* the first byte stands for itself */
	UNESCAPE_ONE,
	UNESCAPE_MORE, /* what comes next decides */
};

struct unescaped {
	size_t took; /* bytes of the text, at least one */
	size_t n;    /* that many they stand for; none: they are only left out */
	char p[4];
};

/* What stands at p[at] of p[0..n)? Nothing follows when it is the `last`. */
enum unescape_found unescape_one(enum unescape_kind k, const char *p, size_t at, size_t n,
				 bool last, struct unescaped *ret);

/* Can an escape of the kind begin with the byte? */
bool unescape_begins(enum unescape_kind k, char c);
