/* SPDX-License-Identifier: Apache-2.0 */
/* egress/names/resolve.h - names of the internet to addresses, asked only for names that were let
 * through.
 *
 * A resolver of our own: it reads resolv.conf and hosts once, before the lockdown, and needs
 * no file, no search list and no library after it. Bounded in time (three tries of two seconds over
 * the servers in turn) and in what it keeps. An answer that UDP cut is asked for once more over
 * TCP; where that fails, it counts with the addresses it has. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/sys/loop.h"
#include "base/text/cleanup.h"
#include "base/text/err.h"
#include "egress/rules/addr.h"
#include "egress/rules/host.h"

enum { RESOLVE_MAX = 16 };

struct resolver;
struct lookup;

int resolver_new(struct loop *loop, struct resolver **ret, struct err *e);
struct resolver *resolver_free(struct resolver *r);
DEFINE_CLEANUP(resolver, struct resolver *, resolver_free)

/* n is 0 when there is no address; the list is borrowed for the call. */
typedef void lookup_fn(void *arg, const struct addr *v, size_t n);

/* What the hosts file says of a name; 0: nothing. */
size_t resolver_known(const struct resolver *r, const struct host *h, struct addr v[RESOLVE_MAX]);

/* Never calls done before it has returned. NULL without a server, memory or sockets. */
struct lookup *resolver_ask(struct resolver *r, const struct host *h, lookup_fn *done, void *arg);
struct lookup *lookup_cancel(struct lookup *l); /* takes NULL; done is not called any more */

void resolver_tick(struct resolver *r, uint64_t now_us);
bool resolver_busy(const struct resolver *r); /* something is being asked */

/* A non-blocking socket to a server's port 53: SOCK_DGRAM or SOCK_STREAM, the latter on its way. */
int resolver_connect(const struct addr *server, int type);

/* For tests: the texts of both files. */
void resolver_read(struct resolver *r, const char *resolv_conf, const char *hosts);
