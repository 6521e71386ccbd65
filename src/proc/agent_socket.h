/* SPDX-License-Identifier: Apache-2.0 */
/* proc/agent_socket.h - the socket that stands for the user's ssh-agent inside a sandbox.
 *
 * It is made in there, by init or the gate, in a file system of the sandbox's own; its descriptor
 * goes out to the monitor, and nothing inside keeps one. So no socket of the host's is shown. */
#pragma once

#include <stdbool.h>

#include "base/text/err.h"

/* Inside: listens at that path. A descriptor or -errno. Allocates nothing. */
int agent_socket_make(const char *path, struct err *e);

/* Outside: is it what it should be? */
bool agent_socket_is(int fd);
