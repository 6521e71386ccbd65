/* SPDX-License-Identifier: Apache-2.0 */
/* http/tcp_listen.h - a listening socket for ADDR:PORT, [ADDR]:PORT or localhost:PORT. */
#pragma once

#include <stdbool.h>

#include "base/text/err.h"

enum { TCP_AUTHORITY = 80 };

/* The socket, non-blocking, or -errno. `far`: what to do instead where that is not loopback,
 * because what is said there is in clear; NULL: it may be anywhere. `authority`: what its callers
 * name as Host, with the port that was found for port 0. */
int tcp_listen(const char *text, const char *far, char authority[TCP_AUTHORITY], struct err *e);
