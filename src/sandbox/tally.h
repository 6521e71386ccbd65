/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/tally.h - the door's decisions on their way to the record: each kind once, then sums.
 *
 * A kind is what one would want to tell apart: type, method, name, port, rule, credential, status,
 * reason. The first of each is written; the following are summed, with their bytes, and a sum is
 * due after a second, then two, four, up to an hour, and at the end. So neither a flood of one kind
 * nor one of many kinds fills a disk, and none hides another: every rule and every reason has
 * places of its own, and beyond them sums by method. Times are given, in microseconds that do not
 * run backwards. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "audit/events.h"
#include "base/text/cleanup.h"
#include "egress/event.h"

enum {
	TALLY_PLACES = 256, /* names, ports and so on of one rule or reason */
	TALLY_MOST = 4096,  /* kinds of a run in all */
};

struct tally;

struct tally *tally_new(void);
struct tally *tally_free(struct tally *t);
DEFINE_CLEANUP(tally, struct tally *, tally_free)

/* true: write this one. false: it was summed. */
bool tally_take(struct tally *t, enum event type, const struct egress_event *ev, uint64_t now_us);

/* What was summed: `like` has the texts and numbers they have in common, and their bytes in all. */
struct tally_sum {
	enum event type;
	struct egress_event like;
	uint64_t count, first, last;
};

/* The next sum that is due, all of them if `end`. To be called until it says false. */
bool tally_next(struct tally *t, uint64_t now_us, bool end, struct tally_sum *ret);
