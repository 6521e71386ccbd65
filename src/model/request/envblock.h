/* SPDX-License-Identifier: Apache-2.0 */
/* model/request/envblock.h - the variables of a command while a plan is made: each name once. */
#pragma once

#include "model/settings/spec.h"

struct envblock {
	struct arena *arena; /* of the plan, which the texts are in */
	const char **v;      /* the plan's, with room for all and a NULL */
	size_t n;
};

/* Takes the place of one of the same name. */
int envblock_put(struct envblock *b, const char *name, const char *value, struct err *e);

/* What a command has of the caller's unasked. */
int envblock_put_callers(struct envblock *b, struct err *e);

/* Without a network a second try is only waiting: npm goes on for more than a minute. And with a
 * fresh HOME every `npm test` would ask for a newer npm, as it does once a week outside. */
int envblock_put_quiet(struct envblock *b, const struct spec *s, struct err *e);

/* Leads tools to their caches. */
int envblock_put_caches(struct envblock *b, const struct spec *s, struct err *e);

/* What the spec names, last: variables of the caller's, then its own. *path becomes the PATH that
 * it sets, where the command's code is to obey that. */
int envblock_put_asked(struct envblock *b, const struct spec *s, const char **path, struct err *e);
