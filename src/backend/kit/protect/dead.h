/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/protect/dead.h - finishes the check of a run whose monitor was killed: a checker
 * does, or the next brig, where that was killed with it.
 *
 * The record of a tree in which nobody writes any more, and which was not brought up to date, is
 * that of a run whose check was never made. Whoever finds it moves only what lies in a place that
 * was empty and is not younger than the last sign of life; whatever came later may be the user's
 * own and is reported, never moved. */
#pragma once

#include "base/files/fd.h"
#include "model/outcome/outcome.h"

/* Finishes what dead runs have left: those of this workspace, whose path is `here`, and some of all
 * others, at a cost that does not grow with their number; NULL: all. The placeholders of their
 * workspaces go with them. */
void dead_sweep(const struct ident *workspace, const char *here);

/* Does a run of this user live, or has what one left in a tree that this path is, lies in or holds
 * not been judged, or not been told? After dead_sweep. */
bool dead_waits(const char *path);

/* Keeps denials for the next run in the workspace to report. */
void told_keep(const struct ident *workspace, const struct outcome *o);
/* What was kept is added to *o; `again`: it stays kept. */
void told_tell(const struct ident *workspace, bool again, struct outcome *o);
/* Waits a moment for whoever still looks at what a run in the workspace has left. */
void told_await(const struct ident *workspace);
