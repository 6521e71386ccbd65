/* SPDX-License-Identifier: Apache-2.0 */
/* cli/main.c - brig: what is to start fast. Every other command is brig-more's (more_main.c).
 *
 * A start pays for each page of tables that the program has, whether it looks at them or not: they
 * hold addresses, which are made anew at every start (docs/design/programs.md). */
#include "base/sys/program.h"
#include "cli/cli_start.h"

#define MORE "brig-more"

const struct subcommand *const commands[] = { &cmd_run,    &cmd_shell,  &cmd_sh,    &cmd_exec,
					      &cmd_python, &cmd_script, &cmd_plan,  &cmd_sandbox,
					      &cmd_doctor, &cmd_bundle, &cmd_audit, NULL };

/* The same words, and the same name: what it prints is brig's. */
int command_elsewhere(int argc UNUSED, char **argv)
{
	struct err e = { 0 };

	(void)program_become(MORE, argv, &e);
	error_print(&e);
	return EXIT_BRIG;
}

/* They are brig-more's, who reads the same words again. */
int command_many(char **argv, struct spec *s UNUSED)
{
	return command_elsewhere(0, argv - 1);
}

int command_changes(int argc UNUSED, char **argv)
{
	return command_elsewhere(0, argv - 1);
}

int main(int argc, char **argv)
{
	return cli_start(argc, argv);
}
