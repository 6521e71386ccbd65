/* SPDX-License-Identifier: Apache-2.0 */
/* egress/names/ask_tcp.h - one question to a name server over TCP: for answers that UDP had to
 * cut. */
#pragma once

#include <stdint.h>

#include "base/sys/loop.h"
#include "egress/rules/addr.h"
#include "wire/dns.h"

struct ask_tcp;

/* The answer, borrowed for the call; NULL: none came. The ask is over and must be freed. */
typedef void ask_tcp_fn(void *arg, const struct dns_answer *a);

/* NULL without memory, sockets or random bytes. `name` must outlive it. Waits for ever: how long is
 * the caller's to say. Never calls done before it has returned. */
struct ask_tcp *ask_tcp_new(struct loop *loop, const struct addr *server, const char *name,
			    uint16_t type, ask_tcp_fn *done, void *arg);
struct ask_tcp *ask_tcp_free(struct ask_tcp *t); /* takes NULL */
