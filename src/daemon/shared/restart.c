/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/shared/restart.h"

#include <stddef.h>

#include "base/text/cleanup.h"
#include "base/text/str.h"

bool restart_is_failure(const char *reason)
{
	/* Asked for, or a bound that it would only meet again. */
	static const char *const wanted[] = { "",          "stopped", "idle",
					      "expired",   "disk",    "host-session-ended",
					      "crash-loop" };

	for (size_t i = 0; i < ARRAY_LEN(wanted); i++)
		if (str_eq(reason, wanted[i]))
			return false;
	return true;
}

uint64_t restart_after(struct restart *r, uint64_t started, uint64_t now)
{
	uint64_t wait = RESTART_FIRST_US;

	if (started && now >= started + RESTART_WELL_US)
		r->down = r->tries = 0;
	if (!r->down)
		r->down = now;
	if (now >= r->down + RESTART_BOUND_US)
		return UINT64_MAX;
	for (uint64_t i = 0; i < r->tries && wait < RESTART_LONGEST_US; i++)
		wait *= 2;
	r->tries++;
	return wait < RESTART_LONGEST_US ? wait : RESTART_LONGEST_US;
}
