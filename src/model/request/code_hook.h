/* SPDX-License-Identifier: Apache-2.0 */
/* model/request/code_hook.h - a tripwire inside the interpreter: Python's own audit events (PEP
 * 578), looked at by a hook that is installed before the code begins.
 *
 * It holds nothing that the sandbox does not hold: code that knows of it gets around it. It tells
 * honest code, and the model that wrote it, what its user did not want. */
#pragma once

#include "base/text/arena.h"
#include "base/text/err.h"
#include "model/settings/command.h"

/* The program for `python3 -c`: its first argument is the file to run, the others are the file's
 * own. Lives in the arena. */
int code_hook_program(struct arena *a, const struct code_hooks *h, const char **ret, struct err *e);
