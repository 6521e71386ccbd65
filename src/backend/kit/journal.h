/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/journal.h - which run holds which placeholder, one folder per workspace.
 *
 * The folder has a file `lock`, taken for every change, and one file per run, locked by that run
 * for as long as it lives. A line is a tree's path, a tab, and the path of a placeholder in it. */
#pragma once

#include <stdbool.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"

struct journal;

/* Takes the lock and reads the other journals of a workspace. */
int journal_open(const struct ident *workspace, struct journal **ret, struct err *e);
struct journal *journal_free(struct journal *j); /* unlocks; takes NULL */
DEFINE_CLEANUP(journal, struct journal *, journal_free)

/* Is this name a placeholder of another run that lives? */
bool journal_held(const struct journal *j, const char *tree, const char *path);

/* ... or of one that is no more, or is just ending: what it left is still a placeholder. */
bool journal_named(const struct journal *j, const char *tree, const char *path);

/* Writes this run's journal; returns its locked descriptor. Closing it ends the claim: what it
 * names is then removed by the next journal_clean, ours or another run's. */
int journal_write(struct journal *j, const char *id, const char *text, struct err *e);

/* Removes the placeholders of runs that are no more, unless a living one needs them, and forgets
 * them. */
void journal_clean(struct journal *j);

/* Removes an empty folder, or an empty file without any permission: whatever else stands at the
 * name is not ours. */
void placeholder_remove(int dir, const char *name);

/* journal_clean for every workspace that has a journal. */
void journal_sweep(void);
