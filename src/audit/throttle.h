/* SPDX-License-Identifier: Apache-2.0 */
/* audit/throttle.h - keeps a guest that is denied a million times from filling the disk.
 *
 * The first of its kind is written; the same within a second are counted, and one log.summary says
 * how many there were; then within two seconds, four, up to an hour. Kinds are told apart by what
 * was asked for. Each type has places of its own, so that a flood of one cannot hide another: 256
 * kinds, of which 16 may be about one target, and 1,000 records, then one every ten seconds. What
 * finds no place is counted by its type. Nothing is dropped without a count.
 * Not thread-safe; times are given, in microseconds that do not run backwards. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "audit/record.h"
#include "base/cleanup.h"

struct throttle;

struct throttle *throttle_new(void);
struct throttle *throttle_free(struct throttle *t);
DEFINE_CLEANUP(throttle, struct throttle *, throttle_free)

/* true: write this one. false: it was counted. */
bool throttle_admit(struct throttle *t, const struct record *r, uint64_t now_us);
/* The same for records of which no two are alike: only their number a second counts. */
bool throttle_each(struct throttle *t, const struct record *r, uint64_t now_us);

/* The next summary that is due (all of them if `end`): true and a record that borrows from the
 * throttle until the next call. To be called until it says false. */
bool throttle_summary(struct throttle *t, uint64_t now_us, bool end, struct record *ret);
