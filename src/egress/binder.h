/* SPDX-License-Identifier: Apache-2.0 */
/* egress/binder.h - which sessions of a run are with hosts that it may log in to.
 *
 *     ssh says: session S is with the host of key K, which has signed S -> is K one of the run's?
 *     -> a process of its own verifies the signature -> S is bound to K, for the rest of the run
 *
 * A session's identifier is a hash over what both sides chose, so a signature of K's over it is
 * made in a session with K's owner and in no other. Kept are the latest BINDER_SESSIONS. */
#pragma once

#include <stdbool.h>

#include "base/text/cleanup.h"
#include "base/text/err.h"
#include "egress/ssh/agentmsg.h"
#include "model/settings/spec.h"

enum { BINDER_SESSIONS = 64 };

struct binder;

/* *ret stays NULL where no rule of the spec is for SSH. */
int binder_new(const struct spec *s, struct binder **ret, struct err *e);
struct binder *binder_free(struct binder *b); /* ends the process; takes NULL */
DEFINE_CLEANUP(binder, struct binder *, binder_free)

/* Is that key one of a host that the run may reach by SSH? */
bool binder_knows(const struct binder *b, const struct agentmsg_bytes *key);

/* Has it verified. A descriptor that is readable when there is an answer, the binder's; -1: there
 * will be none. One at a time. */
int binder_ask(struct binder *b, const struct agentmsg_bind *m);
bool binder_take(struct binder *b); /* the answer: the session is bound */

/* Is the login for a session that is bound, and to that host where it names one? The host's name;
 * NULL: it is not. */
const char *binder_host(const struct binder *b, const struct agentmsg_login *l);
