/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/protect/survey.h - the git folders of a tree before a run: what the record has, and
 * what the user has made since.
 *
 * The first time the whole tree is looked through; later the folders that are known, and a few from
 * the top on. Where another run writes there, or the last one was never judged, the record stands:
 * what came since then is to be judged. Changes nothing. */
#pragma once

#include "backend/kit/protect/git_record.h"

struct survey {
	struct ident ident;
	bool fresh; /* what is there now, nobody writes; otherwise what the record says */
	struct known_list known;
	uint64_t unseen; /* folders that the first look left out */
};

/* `tree` is open at `ident`, and may be O_PATH. */
int survey_take(int tree, const struct ident *ident, struct survey *ret, struct err *e);
