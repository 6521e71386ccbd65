/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kubernetes/copy_back.h - a folder of plain files, as a pod left its workspace, compared
 * with the workspace here; what differs is taken over, except what programs on this host obey. */
#pragma once

#include <stdint.h>

#include "backend/kubernetes/copies.h"

struct copy_back {
	int work, stage;      /* folders, borrowed */
	const char *not_home; /* a name directly in it that stays as it is here; NULL: none */
	const struct box_plan *obeyed; /* what is protected in it, by its own path; NULL: nothing */
	int list;                      /* of changes: a JSON object a line */
	int64_t since;                 /* what was changed here after that is the user's */
	unsigned repository;           /* in how many we are: nothing there is taken over */
	struct outcome *outcome;
	struct copies_count *count;
};

int copy_back(struct copy_back *h, struct err *e);
