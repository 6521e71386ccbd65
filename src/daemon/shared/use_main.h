/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/shared/use_main.h - brig-use: what sandboxes use now.
 *
 * A program started for one call (subprocess.h), so that the daemon does not look through /proc. */
#pragma once

#define USE_NAME "brig-use"

/* argv: NAME=TOPS each, where its processes begin (proc/use.h). Writes one JSON object. */
int use_main(int argc, char **argv);
