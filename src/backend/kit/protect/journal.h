/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/protect/journal.h - which placeholders the runs in a workspace hold.
 *
 * Files of brig's, each for some of all workspaces and locked for every change. A line is a
 * workspace and the path of a tree and that of a placeholder in it, with tabs between. Every run
 * holds a shared lock on one byte of the file, chosen by
 * its workspace, for as long as it lives: where that byte can be locked exclusively the lines
 * belong to runs that have ended, however many there were. */
#pragma once

#include <stdbool.h>

#include "base/files/fd.h"
#include "base/text/cleanup.h"
#include "base/text/err.h"

struct journal;

/* Takes the lock and reads the journal of a workspace. `claim` is what journal_claim gave, which
 * ends here, or -1. */
int journal_open(const struct ident *workspace, int claim, struct journal **ret, struct err *e);
struct journal *journal_free(struct journal *j); /* unlocks; takes NULL */
DEFINE_CLEANUP(journal, struct journal *, journal_free)

bool journal_shared(const struct journal *j); /* do other runs live in this workspace? */

/* Is this name a placeholder, of a live run or of one that has ended? */
bool journal_named(const struct journal *j, const char *tree, const char *path);

/* Adds a name, which counts once it is claimed. */
void journal_add(struct journal *j, const char *tree, const char *path);
/* Writes down what was added; returns the descriptor that holds it for as long as it is open. */
int journal_claim(struct journal *j, struct err *e);

/* A descriptor for journal_hold, which holds nothing yet. Cannot be written to. -errno. */
int journal_holder(const struct ident *workspace);

/* Makes `holder` a second one of what `claim` holds, for a process that has it open and may outlive
 * this one: the lines stay until both are closed. 0 or -errno. */
int journal_hold(const struct ident *workspace, int claim, int holder);

/* A holder that no death ends: the lines stay until journal_let_go of the same id. For somebody
 * else who was asked to make mounts there and goes on whoever dies. 0 or -errno. */
int journal_keep(const struct ident *workspace, const char *id);
void journal_let_go(const char *id); /* nothing when it was not kept */

/* journal_shared without the lock, which all that begin or end want. */
bool journal_held(const struct ident *workspace);

/* Removes all placeholders and forgets them, unless another run lives. */
void journal_clean(struct journal *j);
