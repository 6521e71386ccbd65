/* SPDX-License-Identifier: Apache-2.0 */
/* model/known/tool_caches.h - tools that keep what they have fetched or built, and the variables
 * that lead them to a cache of brig's own (`--cache NAME`). Data alone. */
#pragma once

enum { TOOL_CACHE_VARIABLES = 2 };
#define TOOL_CACHES_PLACE "/var/cache/brig" /* inside; each is below it, by its name */

struct tool_cache {
	const char *name;
	struct {
		const char *name;
		const char *value; /* %s: where the cache is */
	} variables[TOOL_CACHE_VARIABLES + 1];
};

extern const struct tool_cache tool_caches[]; /* ended by one without a name */

const struct tool_cache *tool_cache_find(const char *name); /* NULL: none */
