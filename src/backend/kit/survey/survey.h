/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/survey/survey.h - the git folders of a tree before a run: what the record has, and
 * what the user has made since.
 *
 * Taken by the walk that judges afterwards, with the same budgets. Where another run writes there,
 * or the last one was never judged, the record stands: what came since then is to be judged.
 * Changes nothing. */
#pragma once

#include "backend/kit/survey/git_record.h"

struct survey {
	struct ident ident;
	bool fresh; /* what is there now, nobody writes; otherwise what the record says */
	struct known_list known;
	struct seen_folders *seen; /* which the walk afterwards need not list again, or NULL */
	bool partial;              /* there were more folders than are looked at */
};

/* `tree` is open at `ident`, and may be O_PATH. */
int survey_take(int tree, const struct ident *ident, struct survey *ret, struct err *e);
