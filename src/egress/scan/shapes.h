/* SPDX-License-Identifier: Apache-2.0 */
/* egress/scan/shapes.h - what tokens look like: a literal to find fast, then what must follow.
 *
 * Pure. A literal is only a candidate; shape_check decides with the bytes around it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "model/settings/leaks.h"

/* Further than this behind a literal no check looks, nor further back than SHAPE_BACK. */
#define SHAPE_AHEAD 192
#define SHAPE_BACK 512

enum shape_found {
	SHAPE_NO,
	SHAPE_YES,
	SHAPE_SAMPLE, /* of that form, but a documented example or a filler: worth a warning */
	SHAPE_MORE,   /* cannot be told before more bytes come */
};

/* The bytes around a literal: p is its first byte. */
struct shape_view {
	const char *p;
	size_t before, after; /* readable in front of p, and from p on */
	bool begins, ends;    /* the stream begins at p - before, ends at p + after */
};

struct shape_range {
	size_t back, ahead; /* the token: p - back up to p + ahead; more of it may follow */
	size_t skip;        /* of these, what stands in front and is no secret */
	enum leak_kind kind;
};

struct shape;
typedef enum shape_found shape_fn(const struct shape *s, const struct shape_view *v,
				  struct shape_range *r);

struct shape {
	enum leak_kind kind; /* or the first of those the check tells apart */
	const char *literal;
	bool caseless;
	unsigned char class; /* of the bytes that follow */
	unsigned char min;   /* so many at least */
	bool exact;          /* and no more */
	bool inside;         /* may stand within a word */
	shape_fn *check;     /* NULL: the plain one */
};

extern const struct shape shapes[];
extern const size_t shapes_count;

enum shape_found shape_check(const struct shape *s, const struct shape_view *v,
			     struct shape_range *r);
/* May the literal stand at p, with so many bytes in front of it? An escape there is a sign of its
 * own, whatever letters it is written with. */
bool shape_may_stand(const struct shape *s, const char *p, size_t before);
/* May this byte continue a token of this shape that has begun? */
bool shape_continues(const struct shape *s, char c);
/* A key of many lines: hiding its first one would hide nothing. */
bool shape_is_block(enum leak_kind kind);
