/* SPDX-License-Identifier: Apache-2.0 */
/* model/dialect/companions.h - services beside a sandbox, as they are written.
 *
 * Pure: what a companion is and where it will be. Who starts them is the daemon's monitor. */
#pragma once

#include "model/dialect/dialect.h"
#include "model/settings/spec.h"

#define COMPANIONS_MAX 16

/* What an entry of `companions` may hold; for its reader and for the schema. */
enum companion_shape {
	COMPANION_TEXT,
	COMPANION_TEXTS,
	COMPANION_PAIRS,
	COMPANION_NETWORK,
	COMPANION_HEALTH,
	COMPANION_LIMITS,
};

struct companion_key {
	const char *name, *help;
	enum companion_shape shape;
};

/* Each ended by one without a name. */
extern const struct companion_key companion_keys[];
extern const struct companion_key companion_health_keys[], companion_limit_keys[];

/* The map `companions` of brig.yaml. */
int companions_read(struct spec *s, const struct source *src, const struct node *map,
		    struct err *e);

/* CMD PROGRAM ARG..., CMD-SHELL LINE, or NONE; `n` is where it is written. */
int companion_check_test(const struct source *src, const struct node *n, const struct strlist *test,
			 struct err *e);

/* Is there a check to be made? */
bool companion_is_checked(const struct companion_spec *c);

/* What can be told without starting anything: that this version can run them as they stand. Do
 * they run in containers, or as programs of this machine? */
int companions_check(const struct spec *s, bool containers, struct err *e);

/* Fills s->members: the sandbox itself first, then its companions in their order. */
int companions_place(struct spec *s, struct err *e);
