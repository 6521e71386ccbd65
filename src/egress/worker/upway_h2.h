/* SPDX-License-Identifier: Apache-2.0 */
/* egress/worker/upway_h2.h - HTTP/2 with hosts: connections that the requests of one session of the
 * guest share, and no other session: what one request sends shapes how the next is written.
 *
 * A host is asked for HTTP/2 only here; one that speaks HTTP/1 is known as such from then on. */
#pragma once

#include "egress/worker/worker.h"

struct shares;   /* a session's connections */
struct upway_h2; /* one request's place on one of them */

struct shares *shares_new(struct worker *k);
/* Those that used them have left. */
struct shares *shares_free(struct shares *s);
void shares_tick(struct shares *s, uint64_t now);

/* A connection that is there, on its way, or new. NULL: the host is known to speak HTTP/1, or there
 * is no memory. `fresh`: none that was used before. */
struct upway_h2 *upway_h2_join(struct shares *s, const struct egress_verdict *v, bool fresh,
			       upstream_fn *stirs, void *owner);
struct upstream *upway_h2_upstream(const struct upway_h2 *w); /* borrowed */
void upway_h2_step(struct upway_h2 *w);                       /* as upstream_step */
/* Once that is open. NULL: the host speaks HTTP/1. */
struct upway *upway_h2_way(struct upway_h2 *w);
void upway_h2_leave(struct upway_h2 *w); /* before there is a way */
/* The host speaks HTTP/1: the first who leaves it so has the connection, the others NULL. */
struct upstream *upway_h2_take(struct upway_h2 *w);
