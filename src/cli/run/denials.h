/* SPDX-License-Identifier: Apache-2.0 */
/* cli/run/denials.h - what was denied, as lines for a person. */
#pragma once

#include "model/outcome/outcome.h"

#define DENIALS_SAID 64 /* of each class, on stderr; the result has all */

/* One denial; nothing where texts tell it in other words. Was it told here? */
bool denial_say(const struct denial *d);

/* A part of each class: the result and the record have more. `agent`: hosts that it asks on every
 * run are in one line (apps/wrap/wrap_agents.h); may be NULL. */
void denials_say(const struct outcome *o, const char *agent);
