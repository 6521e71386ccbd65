/* SPDX-License-Identifier: Apache-2.0 */
/* model/dialect/foreign.h - what the readers of the foreign dialects share: values spelled their
 * way.
 *
 * Every function that takes a node puts "FILE:LINE:COLUMN: key: " in front of its error. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes/yaml.h"
#include "base/text/err.h"
#include "model/dialect/dialect.h"
#include "model/settings/spec.h"

/* spec_set with text that is not the node's own: the dialect spells the value otherwise. */
int foreign_set(struct spec *s, const struct source *src, enum field_id id, const struct node *n,
		const char *text, struct err *e);

/* Writes a limit as "none", which no text can say; a stronger origin's value stays. */
void foreign_unlimited(struct spec *s, enum field_id id, enum origin by);

/* A whole number in digits, from 1 (or 0) to max. `what` completes "is not a whole number of ...".
 */
int foreign_whole(const struct source *src, const struct node *n, uint64_t min, uint64_t max,
		  const char *what, uint64_t *ret, struct err *e);

/* The word of the NULL-terminated list that the node says, in any case; else the nearest is named.
 */
int foreign_word(const struct source *src, const struct node *n, const char *const *words,
		 const char **ret, struct err *e);

/* A reference such as host:5000/path/name:tag@sha256:...: the characters only, and no flag. */
int foreign_image(const struct source *src, const struct node *n, struct err *e);

/* A list of scalars as strings of the spec's arena. Empty elements are refused; null is empty. */
int foreign_strings(struct spec *s, const struct source *src, const struct node *n,
		    struct strlist *ret, struct err *e);

/* Refuses, by text alone, a host path that no sandbox of a foreign file is shown: system roots and
 * sockets of container engines in either mode, what lies below system roots for writing. */
int foreign_source(const struct source *src, const struct node *n, const char *path, bool writable,
		   struct err *e);

/* Something to tell that is no error. */
int foreign_note(struct spec *s, struct err *e, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
