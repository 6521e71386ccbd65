/* SPDX-License-Identifier: Apache-2.0 */
/* audit/read/filter.h - which records somebody asked for. Pure.
 *
 * The filter decides; the index only finds candidates for it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "audit/read/entry.h"
#include "base/text/err.h"

enum { FILTER_TYPES_MAX = 32 };

struct filter {
	const char *types[FILTER_TYPES_MAX]; /* "limit.hit", "egress.*"; none: all */
	size_t type_count;
	bool security; /* only what somebody who looks for trouble wants, unless a type is named */
	const char *run;  /* id or the beginning of one, in lower case */
	const char *host; /* a name, or "*.name" for those below it */
	const char *outcome, *principal, *agent;
	int64_t since, until; /* microseconds since 1970, both included; 0: open */
	uint64_t limit;       /* the newest so many; 0: all */
};

bool filter_match(const struct filter *f, const struct entry *en);
bool filter_match_type(const struct filter *f, struct slice type);

/* Adds a type or a pattern of types; text is borrowed. */
int filter_add_type(struct filter *f, const char *text, struct err *e);
int filter_set_run(struct filter *f, const char *text, struct err *e);
