/* SPDX-License-Identifier: Apache-2.0 */
/* model/files/config_word.h - one file of settings, and how far its word goes.
 *
 * A file that a guest may have written (base/files/exposed.h: this run or an earlier one could
 * write it, or a name on the way to it) is a stranger's, like a project's own: it may only tighten
 * until `brig allow` has shown its exact bytes. One of a foreign dialect, whose defaults and tools
 * have no direction, is refused until then. And whoever allowed it: it cannot ask for a run on the
 * host.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/text/buf.h"
#include "base/text/err.h"
#include "model/files/config.h"

struct config_word {
	const char *path; /* absolute, as it was opened; links may lead there */
	const struct buf *data;
	bool project; /* a stranger's wherever it lies; its path is remembered (settings_used.h) */
	bool named;   /* by --config: so is this one's, and its dialect may not change */
	bool pipe;    /* ... unless it is one */
};

/* Reads it into the spec as the layer src->origin. */
int config_take_word(struct spec *s, const struct config_place *at, const struct config_word *w,
		     enum dialect named, struct source *src, enum dialect *was, struct err *e);
