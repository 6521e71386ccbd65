/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/client/summon.h - starts a daemon for this user, when a client finds none. */
#pragma once

#include "base/text/err.h"

/* Returns when it takes calls; -EBUSY: another one is there or on its way. It has nothing of the
 * caller's: its own session, "/" as its folder, no stream, a short environment. */
int daemon_summon(struct err *e);
