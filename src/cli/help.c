/* SPDX-License-Identifier: Apache-2.0 */
/* cli/help.c - help, from the tables. */
#include <stdio.h>

#include "cli/cli.h"

#define COLUMN 34

static void option_line(const struct field *f)
{
	char head[64];

	(void)snprintf(head, sizeof(head), "%s--%s%s%s", f->letter == 'c' ? "-c, " : "", f->flag,
		       f->arg ? " " : "", f->arg ? f->arg : "");
	(void)printf("  %-*s%s", COLUMN - 2, head, f->help);
	if (f->fallback && f->type != FIELD_T_BOOL)
		(void)printf(" (%s)", f->fallback);
	(void)printf("%s\n", field_repeats(f) ? "; repeatable" : "");
}

void help_command(const struct command *c)
{
	(void)printf("usage: brig %s%s%s\n\n%s\n", c->name, c->usage[0] ? " " : "", c->usage,
		     c->help);
	if (c->about)
		(void)printf("\n%s", c->about);
	if (!c->fields)
		return;
	(void)printf("\noptions:\n");
	for (int i = 0; i < FIELD_COUNT; i++)
		if (fields[i].flag && fields[i].commands & c->fields)
			option_line(&fields[i]);
	(void)printf("  %-*sany setting by its name in configuration; repeatable\n", COLUMN - 2,
		     "--set KEY=VALUE");
	(void)printf("\nsettings without an option of their own, for --set:\n");
	for (int i = 0; i < FIELD_COUNT; i++)
		if (!fields[i].flag)
			(void)printf("  %-*s%s (%s)\n", COLUMN - 2, fields[i].key, fields[i].help,
				     fields[i].fallback ? fields[i].fallback : "");
	(void)printf("\nexit status: the command's own; 124 time limit; 125 brig failed before the "
		     "command ran;\n"
		     "126 not executable; 127 not found; 128+N ended by signal N (137 also for "
		     "memory)\n");
}

void help_print(void)
{
	(void)printf("usage: brig COMMAND [OPTION...]\n\n"
		     "Runs what an agent wants to run where it can do its work and no harm.\n\n");
	for (const struct command *const *c = commands; *c; c++)
		(void)printf("  brig %-11s %s\n", (*c)->name, (*c)->help);
	(void)printf("\n`brig COMMAND --help` says more.\n");
}
