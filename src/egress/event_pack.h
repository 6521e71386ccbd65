/* SPDX-License-Identifier: Apache-2.0 */
/* egress/event_pack.h - an event on its way from worker to monitor: its numbers, and of its texts
 * what there is of them.
 *
 * Pure. Who reads them knows that they come from the process that reads hostile bytes: an event
 * whose lengths do not add up, or in which a text has no room, is none. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "egress/event.h"

enum {
	EVENT_PACKED_MAX = 1792, /* no event is larger */
	EGRESS_PACKET = 16384,   /* a packet holds whole ones, at most so many bytes */
};

size_t event_pack(const struct egress_event *ev, char out[EVENT_PACKED_MAX]); /* its length */

/* The length of the event at p; 0: not all of it is there. -EBADMSG: it cannot become one. */
ssize_t event_size(const char *p, size_t n);
/* The same, and the event. */
ssize_t event_unpack(const char *p, size_t n, struct egress_event *ret);
/* How many of n bytes, which are whole events, fit into a packet. */
size_t event_packet(const char *p, size_t n);

/* Where it was to go, as far as that is known: HOST:PORT, or a part of it; "": nothing of it is. */
void event_target(const struct egress_event *ev, char *out, size_t n);
/* Was it let out as a tunnel into which nobody looks: a name of egress.passthrough, SSH, the
 * service of the host? */
bool event_is_uninspected(const struct egress_event *ev);
