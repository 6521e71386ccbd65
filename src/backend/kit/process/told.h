/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/process/told.h - changes that an earlier command of an open sandbox was told of.
 *
 * Everything is judged by what was there when the sandbox began, after each command anew: a change
 * that was told is told again only if the file has changed since then. */
#pragma once

#include "base/files/fd.h"
#include "model/outcome/outcome.h"

struct told_list {
	struct told *v;
	size_t n;
};

void told_done(struct told_list *l);

/* Leaves out of the outcome's trust changes, from the one with this number on, those that were told
 * before and are as they were; the others count as told. `workspace` is where their paths begin. */
void told_filter(struct told_list *l, const char *workspace, struct outcome *o, size_t from);
