/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/event_log.h - what happened to sandboxes: numbered, kept on disk, told to who listens.
 *
 * One counter per daemon, which goes on after a restart. An event is on disk before anybody hears
 * of it. Listeners belong to a tenant and hear of its sandboxes alone. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct events;

struct event_note {
	const char *type; /* "sandbox.ready" ... */
	const char *tenant;
	const char *sandbox, *exec, *companion; /* ids and a name; NULL: none */
	const char *reason;                     /* one word; NULL: none */
	const char *data;                       /* a JSON object; NULL: {} */
};

/* Returns the number it was given; 0: it could not be written, and nobody has heard of it. */
uint64_t events_add(struct events *ev, const struct event_note *n);
