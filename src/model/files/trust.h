/* SPDX-License-Identifier: Apache-2.0 */
/* model/files/trust.h - which project files may loosen: `brig allow` names them, one exact content
 * each.
 *
 * The list is the file "trusted" in brig's state folder: a SHA-256 and a path a line, as sha256sum
 * writes them. A changed file is a file nobody has trusted yet. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/text/err.h"
#include "model/settings/spec.h"

bool trust_has(const char *path, const char *data, size_t n); /* false also without a list */
bool trust_had(const char *path); /* with whatever content: of one that is not trusted as it is,
				   * that it has changed since */
/* Adds the line that trusts it, as one to paste; `what` is to be read before. -e->code. */
int trust_hint(const char *what, const char *path, struct err *e);
int trust_add(const char *path, const char *data, size_t n, struct err *e);
int trust_remove(const char *path, struct err *e); /* 1: it was there; 0: it was not */

/* Called for each setting that the layer `by` has loosened; of a map for each entry. What it
 * returns ends the walk unless it is 0. */
typedef int loosened_fn(void *arg, enum field_id id, const struct envvar *entry);
int tighten_each(const struct spec *before, const struct spec *after, enum origin by,
		 loosened_fn *fn, void *arg);

/* Refuses what a file nobody trusts has loosened. `before` is the spec as the other layers left it,
 * `after` the same with the file read as the layer `by`; only what the file itself decides is
 * compared. `why` says why the file counts as a stranger's; NULL: because it is the project's. */
int tighten_check(const struct spec *before, const struct spec *after, enum origin by,
		  const char *path, const struct err *why, struct err *e);

/* Takes into `s` what tightens of `with`, which is the same with a file read as the layer `by`: 1,
 * or 0 where nothing does. Entries of maps stay out: they are no limit. */
int tighten_take(struct spec *s, const struct spec *with, enum origin by, struct err *e);
