/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/use.h - brig-use: what sandboxes use now, by one look at /proc.
 *
 * A program started for one call (errand.h), so that the daemon does not look through /proc. */
#pragma once

#define USE_NAME "brig-use"

/* argv: NAME=PID each, the process that owns the sandbox. Writes one JSON object. */
int use_main(int argc, char **argv);
