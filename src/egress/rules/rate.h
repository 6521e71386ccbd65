/* SPDX-License-Identifier: Apache-2.0 */
/* egress/rules/rate.h - how much one run may ask for: requests, bytes, connections, names.
 *
 * Requests are token buckets that hold a minute's worth: N at once, then N a minute. One more than
 * that is given a turn, in order, as long as it comes within RATE_WAIT_MS. Hosts of the groups that
 * brig ships have no rate unless one was explicitly set. Bytes and names are budgets of the whole
 * run. The caller passes the time (milliseconds of a clock that does not jump). One owner, no lock.
 * Memory is bounded by the number of names. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/text/err.h"
#include "egress/rules/host.h"
#include "egress/rules/verdict.h"
#include "model/settings/spec.h"

#define RATE_WAIT_MS 10000

struct rate;

int rate_new(const struct rate_spec *limits, struct rate **ret, struct err *e);
struct rate *rate_free(struct rate *r);
DEFINE_CLEANUP(rate, struct rate *, rate_free)

/* Each takes what it asks for and returns true, or takes nothing, fills *v (EGRESS_LIMIT with
 * retry_after) and returns false. A request may have to wait: v->wait_ms. */
bool rate_name(struct rate *r, const struct host *h,
	       struct egress_verdict *v); /* known ones are free */
bool rate_connect(struct rate *r, struct egress_verdict *v);
void rate_disconnect(struct rate *r);
bool rate_request(struct rate *r, const struct host *h, uint64_t now_ms, struct egress_verdict *v);
bool rate_sent(struct rate *r, uint64_t bytes, struct egress_verdict *v); /* towards the internet */
bool rate_received(struct rate *r, uint64_t bytes,
		   struct egress_verdict *v); /* towards the guest */
