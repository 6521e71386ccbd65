/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/ports/publish.h - ports of a sandbox on the host's loopback.
 *
 * The listening sockets are brig's, and stay on the host. A connection is answered by a second one,
 * made with a socket of the sandbox's own network (proc/lend.h), and bytes go from one to the other
 * (conduit.h). Bounded: connections, what waits to be accepted, and what is on its way. */
#pragma once

#include "base/text/cleanup.h"
#include "base/text/err.h"
#include "model/outcome/outcome.h"
#include "model/settings/spec.h"
#include "proc/lend.h"

struct publish;

enum { PUBLISH_CONNECTIONS = 128 }; /* at a time, of all ports together */

/* Opens the listening sockets; refuses where one is taken. Nothing is accepted yet. */
int publish_open(const struct spec *s, struct publish **ret, struct err *e);
struct publish *publish_free(struct publish *p); /* breaks off what is open; takes NULL */
DEFINE_CLEANUP(publish, struct publish *, publish_free)

/* The n-th port; false: there are no more. */
bool publish_nth(const struct publish *p, size_t n, struct published *ret);

/* As backend.lend, for the job behind arg. */
typedef int publish_lend_fn(void *arg, struct lent *ret);
void publish_start(struct publish *p, publish_lend_fn *lend, void *arg);

int publish_fd(struct publish *p); /* readable: publish_turn has something to do; -1: none */
void publish_turn(struct publish *p);
void publish_lent(struct publish *p); /* sockets may be at hand */

/* The sandbox has ended: no more connections; those there are get its last bytes. */
void publish_end(struct publish *p);
bool publish_done(const struct publish *p); /* nothing is left to be passed on; true for NULL */
