/* SPDX-License-Identifier: Apache-2.0 */
/* workspace/apply_guard.h - which changes no apply makes unless they are named: those that programs
 * on the host obey (docs/design/protect.md). */
#pragma once

#include "workspace/change.h"

struct guard_says {
	/* How much of the path has to be named: whoever names that, or what is below it, means it.
	 * 0: it need not be. */
	size_t at;
	const char *reason;   /* why; NULL with at 0 */
	const char *reported; /* it is applied, and worth a look; NULL: it is not */
};

struct guard_says guard_change(const struct change *c);

/* apply_obeyed.c, not pure: sets `obeyed` of the changes at what the workspace's own settings and
 * links lead to, as they are now: the names that a direct run would find protected. Where that
 * cannot be told, of all. May ask git. */
void guard_obeyed(const char *workspace, struct change_list *l);
