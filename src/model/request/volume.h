/* SPDX-License-Identifier: Apache-2.0 */
/* model/request/volume.h - `--volume NAME:PATH[:ro]` and `--cache NAME`: folders of brig's own
 * that outlive a run, by name. Pure. */
#pragma once

#include "model/known/tool_caches.h"
#include "model/settings/spec.h"

enum { VOLUME_NAME_MAX = 64, VOLUMES_MAX = 32 };

struct volume {
	char name[VOLUME_NAME_MAX + 1];
	const char *target; /* in the spec's arena, or in its text */
	bool read_only;
	const struct tool_cache *tool; /* it is a cache; NULL: a volume */
};

/* How many a spec asks for: first its caches, then its volumes. */
size_t volumes_of(const struct spec *s);
/* The i-th of them. */
int volume_of(const struct spec *s, size_t i, struct volume *ret, struct err *e);

bool volume_is_name(const char *text);
