/* SPDX-License-Identifier: Apache-2.0 */
/* model/command.h - what is run in a sandbox that is there already. Plain data, borrowed. */
#pragma once

#include <stdint.h>

struct command {
	const char *const *argv;
	const char *const *env; /* NAME=VALUE, in place of the sandbox's own of that name */
	const char *cwd;        /* inside; NULL: where the sandbox's first command would begin */
	uint64_t timeout; /* in milliseconds, for whoever must end it if brig cannot; 0: none */
};
