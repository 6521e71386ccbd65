/* SPDX-License-Identifier: Apache-2.0 */
/* egress/members_named.h - the resolver of a sandbox's own network: brig-egress answers, at two
 * sockets in the members' router, for the names of the sandbox and its companions.
 *
 * It asks nobody: any other name does not exist. Where the process is gone no name is answered, and
 * nothing else changes. */
#pragma once

#include "base/text/err.h"
#include "egress/resolving.h"
#include "model/settings/spec.h"

/* Of a network with members; both sockets stay the caller's to close. */
int members_named_start(struct resolving *r, int packets, int streams, const struct memberlist *l,
			struct err *e);

/* Lines "ADDRESS NAME" in a file without a name, for the worker to read; the caller's. */
int members_named_file(const struct memberlist *l, struct err *e);

/* names/members_serve.c: what brig-egress does when it is started with this word. Packets come at
 * 3, streams at 4; 5 has the names. */
#define MEMBERS_WORD "members"
int members_main(void);
