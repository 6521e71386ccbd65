/* SPDX-License-Identifier: Apache-2.0 */
/* egress/seek/wake.h - the escapes that are worth reading a text twice.
 *
 * Pure. In bytes that are no text the sign of an escape means nothing: one counts when there is
 * text before it or behind, which every form has on one side of each of its escapes. */
#pragma once

#include "egress/seek/unescape.h"

struct wake_text {
	const char *p;
	size_t n;
	bool last; /* nothing follows */
};

/* The first escape of the kind from i on; n: none, the last *lag bytes are undecided. */
size_t wake_first(enum unescape_kind k, const struct wake_text *x, size_t i, size_t *lag);
/* The first of signs or quoted, below `to` or in all of the text; else where to go on, or n. */
size_t wake_near(const struct wake_text *x, size_t i, size_t to, size_t *lag);
size_t wake_far(const struct wake_text *x, size_t i, size_t *lag);

/* The next byte from i on with which an escape of the kind can begin. */
size_t wake_sign(enum unescape_kind k, const char *p, size_t i, size_t n);
