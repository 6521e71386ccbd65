/* SPDX-License-Identifier: Apache-2.0 */
/* wire/tcp.h - a TCP connection to one of a name's addresses. */
#pragma once

#include <netdb.h>
#include <stdint.h>

#include "wire/client.h"

/* Asks the system's resolver, which blocks and knows no deadline. freeaddrinfo(*ret). */
int tcp_resolve(const char *host, uint16_t port, struct addrinfo **ret, struct err *e);

/* Tries the addresses in turn until the deadline (clock_us); none gets more than half of what is
 * left but the last. A connected, non-blocking socket or -errno of the last try. */
int tcp_connect(const struct addrinfo *list, uint64_t deadline, struct err *e);
