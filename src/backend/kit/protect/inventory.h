/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/protect/inventory.h - what a run's protected names were when it began, written down
 * so that another process can finish the check.
 *
 * One file per run, STATE/runs/ID, locked for as long as the monitor or its survivor lives, from
 * before the first placeholder on, touched every second while something runs (the beat). A file
 * that nobody has locked belongs to a run whose check was never made: whoever finds it moves only
 * what lies in a place that was empty and is not younger than the last beat; whatever came later
 * may be the user's own and is reported, never moved. */
#pragma once

#include "base/err.h"
#include "base/fd.h"
#include "model/outcome.h"

struct protect;

int inventory_open(struct protect *t, struct err *e); /* before anything is placed */
int inventory_fill(struct protect *t, struct err *e); /* before the command may act */
void inventory_beat(struct protect *t);
void inventory_touch(struct protect *t); /* all that was made until now was judged */

/* The check is done. What an earlier run left to be reported is added to *o, unless it is NULL. */
void inventory_close(struct protect *t, struct outcome *o);

/* Keeps it for the next run in the workspace to report. */
void inventory_keep(const struct protect *t, const struct outcome *o);

/* Finishes what dead runs have left: those of this workspace and some of all others, at a cost that
 * does not grow with their number; NULL: all. The placeholders of their workspaces go with them. */
void inventory_sweep(const struct ident *workspace);
