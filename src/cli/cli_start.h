/* SPDX-License-Identifier: Apache-2.0 */
/* cli/cli_start.h - from main to a command, in a program that has a table of them. */
#pragma once

#include "cli/cli.h"

/* Finds the command in this program's `commands` and runs it; the exit status. */
int cli_start(int argc, char **argv);

/* Each program's own: no command of its table was asked for, or none at all. The exit status. */
int command_elsewhere(int argc, char **argv);
