/* SPDX-License-Identifier: Apache-2.0 */
/* egress/renewing.h - a refresh token that took the place of the one in the user's file, on its way
 * back there.
 *
 * The worker says it in pieces, and reads what strangers send: so the file is the one that the
 * credential came from and asked to be renewed, it holds what it held then (or what was last
 * written), and what is written is of the letters of a token. */
#pragma once

#include "egress/egress_plan.h"
#include "egress/event.h"

struct renewing {
	char value[SECRET_MAX + 1];
	size_t n;
};

/* Takes a piece. With the last one the file is written, and *ev becomes what is told of it: a new
 * token, or a denial that says why the file stays as it is. false: nothing is to be told yet. */
bool renewing_take(struct renewing *r, struct egress_plan *p, struct egress_event *ev);
