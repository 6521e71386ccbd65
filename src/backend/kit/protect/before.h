/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/protect/before.h - what is noted of a workspace before a run, so that the report can
 * say by shape what is new: names at the top that begin with a dot, which no table has to know, and
 * commits that bring what no command may make as a file.
 *
 * Told, and never taken away. A few files are read into memory and compared as they are; what is in
 * them only git knows, in its sandbox. */
#pragma once

#include "backend/kit/protect/protect_internal.h"

/* NULL: there is nothing to be noted, or no memory for it, which is told afterwards. */
struct before *before_take(struct protect *t);
/* Tells what has changed since then, and notes it for the next time. */
void before_tell(struct protect *t, struct outcome *o);
struct before *before_free(struct before *b);
