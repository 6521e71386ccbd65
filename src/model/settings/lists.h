/* SPDX-License-Identifier: Apache-2.0 */
/* model/settings/lists.h - the lists that settings are made of, and who wrote one. Plain data. */
#pragma once

#include <stddef.h>

/* Who wrote a setting; later ones win. A dialect's defaults are defaults, not requests. */
enum origin {
	ORIGIN_DEFAULT,
	ORIGIN_DIALECT, /* the documented default of the dialect a file is written in */
	ORIGIN_SYSTEM,  /* /etc/brig/config.yaml */
	ORIGIN_USER,    /* $XDG_CONFIG_HOME/brig/config.yaml */
	ORIGIN_PROJECT, /* .brig.yaml of the workspace: may only tighten until it is trusted */
	ORIGIN_FILE,    /* --config */
	ORIGIN_ENVIRONMENT,
	ORIGIN_API,
	ORIGIN_FLAG,
	ORIGIN_LINE, /* of a batch: may only tighten what all of the others say */
	ORIGIN_COUNT
};

struct strlist {
	const char **v;
	size_t n;
};

struct envvar {
	const char *name;
	const char *value;
	enum origin by; /* who wrote it; maps are merged name by name, the stronger origin wins */
};

struct envlist {
	struct envvar *v;
	size_t n;
};

/* Who wrote each element of a list that all layers add to. */
struct originlist {
	enum origin *v;
	size_t n;
};
