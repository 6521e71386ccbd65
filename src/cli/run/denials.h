/* SPDX-License-Identifier: Apache-2.0 */
/* cli/run/denials.h - what a command was denied, as lines for a person. */
#pragma once

#include "model/outcome/outcome.h"

#define DENIALS_SAID 64 /* of each class, on stderr; the result has all */

/* All that a person is told of a command that has ended, of whichever sandbox: what was denied,
 * files to look at, names asked for in vain, hints. Of denials a part of each class: the result and
 * the record have more. `agent`: hosts that it asks on every run are in one line
 * (apps/wrap/wrap_agents.h); may be NULL. */
void denials_say(const struct outcome *o, const char *agent);
