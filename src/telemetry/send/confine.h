/* SPDX-License-Identifier: Apache-2.0 */
/* telemetry/send/confine.h - what is left of this process before it reads a byte from the network.
 */
#pragma once

#include <stdint.h>

/* No new file, program or core; no tracer; connections to that port alone. Landlock gives what this
 * kernel's version of it can; the trusted certificates stay readable, since OpenSSL reads a hashed
 * folder of them one by one. Best effort: it guards against a hole in the parsers, not against
 * brig. */
void confine(uint16_t port);
