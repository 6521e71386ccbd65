/* SPDX-License-Identifier: Apache-2.0 */
/* cli/run/run_parts.h - what "run" and others that run one command share. */
#pragma once

#include "model/outcome/outcome.h"
#include "model/settings/spec.h"

/* A signalfd for what cancels a run. */
int cmd_run_signals(void);
/* Tells the user how it ended and what was denied. */
void cmd_run_say(const struct outcome *o, const struct spec *s);
/* A brig_note_fn; its argument is the spec. */
void cmd_run_note(void *spec, const char *text);
