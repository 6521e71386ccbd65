/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/net/members.h - the network of a sandbox and its companions: a namespace between them
 * that routes from one to the other and nowhere else.
 *
 *     member 1: 198.19.254.1 ══ veth ══ m1 ┐
 *     member 2: 198.19.254.2 ══ veth ══ m2 ┴ router: one route per member, and no other
 *
 * The router has no device but these, so there is nothing beyond it. A packet must come from the
 * address of the member whose cable it came by, and go to one of them. There is no IPv6. No bridge
 * device and no packet filter takes part.
 *
 * The router's namespace has no process in it: it lives as long as the descriptor that speaks for
 * it. Each namespace belongs to a user namespace of its own, all of them made by the caller, who
 * has a say in each of them for that reason and needs no privilege. */
#pragma once

#include "base/text/err.h"

enum { MEMBERS_MAX = 32 };

/* Makes the router: a routing socket, and two for questions about names, which nobody answers yet.
 * All are the caller's. */
enum { MEMBERS_ROUTES, MEMBERS_PACKETS, MEMBERS_STREAMS, MEMBERS_SOCKETS };
int members_open(int ret[MEMBERS_SOCKETS], struct err *e);

/* Lays the cable of the nth member, from 0 on, whose routing socket is `member`. The kernel is
 * asked whether anything else could be reached by it. */
int members_join(int router, int member, unsigned n, struct err *e);
