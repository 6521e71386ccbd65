/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/survey/made.h - whose a repository is: its files have the user's id either way. */
#pragma once

#include <stdbool.h>

#include "backend/kit/survey/git_record.h"

/* Did a run make that git folder, by the list of the tree? So it stays unless the user has changed
 * it since; `tree` is open, or -1 where that cannot be told from what runs do now. */
bool made_still(const struct known_list *was, int tree, const char *git);

/* Was the `.git` of that folder (absolute, without links) made by a command, by the records of all
 * trees that it lies in? One that came while commands still write there is taken for theirs. */
bool made_by_run(const char *folder);
