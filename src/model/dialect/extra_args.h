/* SPDX-License-Identifier: Apache-2.0 */
/* model/dialect/extra_args.h - which flags of `docker run` a file may add: an allow-list.
 *
 * Understands --flag=value, --flag value, glued short forms (-lname=x), abbreviations (refused),
 * repeated flags (the last counts) and bare words (refused: the first of them would become the
 * image). An allowed flag may replace a default by another finite value, never by "unlimited"
 * (--pids-limit=-1,
 * --memory-swap=-1, --oom-kill-disable, --tmpfs with exec). Flags with a field of their own name
 * it. */
#pragma once

#include "base/text/err.h"
#include "model/settings/spec.h"

enum extra_args_style { EXTRA_ARGS_BRIG, EXTRA_ARGS_INITRUNNER, EXTRA_ARGS_RLM };

/* One allowed flag, taken apart; `api` names the Engine API field it becomes. */
struct extra_arg {
	const char *flag, *value, *api;
};

/* Checks the whole list. With `out` (room for args->n) the flags come back taken apart, repeated
 * ones resolved, *n of them. The error is of kind ERR_POLICY and names the flag; under RLM its text
 * is exactly "Docker extra arg '--privileged' is blocked by sandbox policy." */
int extra_args_check(const struct strlist *args, enum extra_args_style style, struct extra_arg *out,
		     size_t *n, struct err *e);
