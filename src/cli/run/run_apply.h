/* SPDX-License-Identifier: Apache-2.0 */
/* cli/run/run_apply.h - after a run with an overlay workspace, at a terminal: is it to be applied?
 */
#pragma once

#include "model/outcome/outcome.h"
#include "model/settings/spec.h"

/* Asks where workspace.apply says so, somebody sits at this terminal and there is something to
 * apply; and does what the answer is. *o is told what came of it. Blocks until there is an answer,
 * or a signal. */
void run_apply_ask(const struct spec *s, struct outcome *o);
