/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/plan/ids.h - user and group ids of a sandbox that root started.
 *
 * A range of 65,536 ids that no account and no subordinate range uses, locked for the life of the
 * sandbox, so that two sandboxes never share an id. Trees that root owns are shown through idmapped
 * mounts: on disk they stay root's, inside they are the command's. */
#pragma once

#include <stdint.h>

#include "backend/kit/plan/plan.h"
#include "base/text/cleanup.h"
#include "base/text/err.h"

struct ids;

int ids_take(struct ids **ret, struct err *e);
struct ids *ids_free(struct ids *i); /* gives the range back; takes NULL */
DEFINE_CLEANUP(ids, struct ids *, ids_free)
uint32_t ids_base(const struct ids *i);

/* A detached copy of the tree in which its owner on disk appears as host ids uid and gid. The
 * process that it takes is killed, and waited for at once or, if `later` is given, by ids_settle.
 * Returns a descriptor or -errno with *e set. */
int ids_map_tree(const struct prepared_tree *t, uint32_t uid, uint32_t gid, struct ids *later,
		 struct err *e);
void ids_settle(struct ids *i); /* takes NULL */

/* Is [first, first + 65536) free of the ranges in text, a file in the form of /etc/subuid? Exposed
 * for the tests. */
bool ids_range_free(const char *subid_text, uint32_t first);
