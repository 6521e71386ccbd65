/* SPDX-License-Identifier: Apache-2.0 */
/* cli/workspace/changes_cli.h - what diff, apply and discard share: which layer, which paths, and
 * how changes are shown. */
#pragma once

#include "cli/cli.h"
#include "workspace/apply.h"

enum { CHANGES_PATHS_MAX = 1024 };

/* [RUN] [PATH...]: a first word of hexadecimal digits, or "last", is a run. */
struct changes_asked {
	const char *run; /* "last" where none was said */
	const char *paths[CHANGES_PATHS_MAX];
	size_t path_count;
};

/* One more word that is no option. */
int changes_word(struct changes_asked *a, char *word, struct err *e);

/* The layer that is meant, and its workspace. What a killed apply left there is undone before. A
 * layer that a run has is refused. */
int changes_open(const struct changes_asked *a, enum layer_hold hold, struct layer *l,
		 int *workspace, struct err *e);

/* Notes of each path that was asked for and that no change of the list is at, or below. */
void changes_tell_unchanged(const struct changes_asked *a, const struct change_list *list);

/* On stdout as unified text; a terminal gets nothing that it would obey. */
int changes_print_text(const struct look_want *w, struct err *e);
/* One line: what, where, and what is to be said of it. */
void changes_put_line(struct buf *b, const struct change *c);
