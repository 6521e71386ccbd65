/* SPDX-License-Identifier: Apache-2.0 */
/* base/bytes/yaml.h - YAML as a strict tree that remembers where everything stood.
 *
 * Refused, with line and column: anchors, aliases, tags, merge keys, duplicate keys, keys that are
 * not plain text, directives, more than one document, more than 64 levels, more than 65,536 values,
 * more than 4,096 keys in one map, more than 1 MiB, bytes that are not UTF-8 and NUL, and the bare
 * words of YAML 1.1 that other readers take for booleans (yes, no, on, off, y, n in any case)
 * unless they are quoted. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/text/arena.h"
#include "base/text/err.h"

enum node_kind { NODE_NULL, NODE_SCALAR, NODE_LIST, NODE_MAP };

struct node {
	enum node_kind kind;
	int line, column;          /* where the value begins, from 1 */
	const char *key;           /* of a map's member; NULL otherwise */
	int key_line, key_column;  /* where the key stands; 0 without one */
	const char *text;          /* of a scalar; NUL-free */
	bool quoted;               /* a quoted scalar is text, whatever it looks like */
	struct node *first, *next; /* children of a list or map, in order; the next sibling */
	size_t count;              /* of children */
};

/* Parses n bytes. `name` is what errors call the file; nodes live in the arena. An empty document
 * gives a NODE_NULL. */
int yaml_parse(struct arena *a, const char *name, const char *data, size_t n, struct node **ret,
	       struct err *e);

const struct node *node_get(const struct node *map,
			    const char *key); /* NULL when absent or not a map */

/* Do they mean the same, in the same order? `but`, unless NULL, is a node of a's for which fn is
 * asked instead. Depth is bounded by the reader. */
typedef bool node_same_fn(const void *arg, const struct node *a, const struct node *b);
bool node_same(const struct node *a, const struct node *b, const struct node *but, node_same_fn *fn,
	       const void *arg);

/* A scalar that reads as true or false; -EINVAL otherwise (kind ERR_CONFIG, position included). */
int node_bool(const char *name, const struct node *n, bool *ret, struct err *e);
const char *node_kind_name(enum node_kind k);

/* err_set with "NAME:LINE:COLUMN: " in front; kind ERR_CONFIG. The second points at the key. */
int node_error(const char *name, const struct node *n, struct err *e, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
int node_key_error(const char *name, const struct node *n, struct err *e, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
