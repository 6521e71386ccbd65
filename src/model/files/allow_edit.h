/* SPDX-License-Identifier: Apache-2.0 */
/* model/files/allow_edit.h - one more rule in `egress.allow` of a brig.yaml, every other byte as it
 * was.
 *
 * Lines are put in by where the reader says that things stand; then the new text is read, and is
 * taken only if it means the old one and this rule. What is written in another form (`[a, b]`) is
 * refused, never rewritten. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/text/buf.h"
#include "base/text/err.h"

struct allow_edit {
	bool listed;      /* the text has such a list already */
	bool there;       /* the rule is in it: nothing to do */
	size_t at, lines; /* so many lines came before line `at`, from 1 */
};

/* `name` is what errors call the file. The rule is as rule_parse takes it. */
int allow_edit(const char *name, const char *text, size_t n, const char *rule, struct buf *out,
	       struct allow_edit *ret, struct err *e);

/* The difference, as `diff -u` has it; nothing where there is none. */
int allow_edit_diff(const char *name, const char *after, size_t n, const struct allow_edit *x,
		    struct buf *out, struct err *e);
