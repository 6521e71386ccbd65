/* SPDX-License-Identifier: Apache-2.0 */
/* model/dialect/extra_args_table.h - the flags of `docker run` that a file may add; for
 * extra_args.c alone.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/dialect/extra_args.h"

struct allowed {
	const char *flag, *api; /* the second is a path in the body of the API's container create */
	bool (*valid)(const struct allowed *a, const char *value);
	uint64_t min, max;
	const char *takes; /* for the hint */
	const char *key;   /* what ends the name inside a value that may be repeated by name */
	unsigned styles;   /* bits of enum extra_args_style */
	char letter;       /* its short form; 0: none */
	bool alone;        /* takes no token after it */
};

extern const struct allowed extra_args_table[];
extern const size_t extra_args_rows;
