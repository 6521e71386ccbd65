/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/explain.h - why a command may have failed, when the reason is brig.
 *
 * No kernel event tells of a file that could not be opened or a name that was not found. What is
 * left is what the command said last. It is hostile: it is searched for brig's own phrases and
 * names, and whatever it says brings out one of a few fixed lines that name no way around a
 * protection. Nothing of it is repeated but the path of something below /etc, /var/lib or
 * /var/cache that is root's and that everybody on the host may read. */
#pragma once

#include "model/outcome/outcome.h"
#include "model/settings/spec.h"

/* Is this path, relative to the workspace, one that no command may change, because programs on the
 * host obey it? */
bool explain_protects(const char *path);

/* Adds lines to outcome.hints when the command failed; `said` is the end of its error output. */
void explain(const struct spec *s, const char *said, size_t n, struct outcome *o);
