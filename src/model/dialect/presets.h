/* SPDX-License-Identifier: Apache-2.0 */
/* model/dialect/presets.h - InitRunner's `security.preset`: named bundles of settings.
 *
 * Only the preset `sandbox` touches the sandbox. What the others say about requests, prompts and
 * filters is kept as data for the parts of brig that serve them. */
#pragma once

#include <stdbool.h>

#include "base/text/err.h"
#include "model/dialect/dialect.h"
#include "model/settings/spec.h"

struct preset {
	const char *name; /* NULL: what holds when no preset is named */
	unsigned requests_per_minute, burst;
	unsigned prompt_max; /* characters */
	bool block_input, redact_pii, block_output, require_https;
	bool sandbox; /* also asks for a sandbox */
};

const struct preset *preset_none(void);

/* Reads the node `security.preset` and applies its part of the spec, as written by the source.
 * Fields read after it win. A mistyped name is an error with the nearest one. */
int preset_read(struct spec *s, const struct source *src, const struct node *n,
		const struct preset **ret, struct err *e);
