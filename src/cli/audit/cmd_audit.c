/* SPDX-License-Identifier: Apache-2.0 */
/* cli/audit/cmd_audit.c - "audit": what it takes, and the way to the program that does it.
 *
 * The readers bring SQLite, which would make every `brig run` start later; so they are brig-audit.
 */
#include <stdio.h>

#include "base/sys/program.h"
#include "base/text/str.h"
#include "cli/audit/words.h"
#include "cli/cli.h"

static void print_option(const struct audit_option *o)
{
	char head[64];

	(void)snprintf(head, sizeof(head), "%s%s%s%s%s", o->name, o->alias ? ", " : "",
		       o->alias ? o->alias : "", o->arg ? " " : "", o->arg ? o->arg : "");
	help_entry(head, o->help);
}

static void print_command(enum audit_command id)
{
	const struct audit_word *w = &audit_commands[id];

	(void)printf("usage: brig audit %s %s\n\n%s\n", w->name, w->usage, w->help);
	if (w->alias)
		(void)printf("Also called %s.\n", w->alias);
	(void)printf("\noptions:\n");
	for (int i = 0; i < AUDIT_OPTIONS; i++)
		if (audit_options[i].commands & 1U << id)
			print_option(&audit_options[i]);
}

static void cmd_audit_more(bool all UNUSED)
{
	(void)printf("\ncommands:\n");
	for (int i = 0; i < AUDIT_COMMANDS; i++)
		(void)printf("  %-18s%s\n", audit_commands[i].name, audit_commands[i].help);
	(void)printf("\nAlone it does what `brig audit list` does. Options: brig audit COMMAND "
		     "--help\n");
}

static int help(const struct subcommand *c, const char *word)
{
	for (int i = 0; i < AUDIT_COMMANDS; i++)
		if (str_eq(word, audit_commands[i].name) ||
		    (audit_commands[i].alias && str_eq(word, audit_commands[i].alias))) {
			print_command((enum audit_command)i);
			return 0;
		}
	help_command(c);
	return 0;
}

static int audit(const struct subcommand *c, int argc, char **argv)
{
	struct err e = { 0 };

	for (int i = 1; i < argc; i++)
		if (str_eq(argv[i], "--help") || str_eq(argv[i], "-h"))
			return help(c, argv[1]);
	argv[0] = (char[]){ "brig-audit" };
	(void)program_become("brig-audit", argv, &e);
	error_print(&e);
	return EXIT_BRIG;
}

/* Commands, then options. */
static const char *cmd_audit_word(size_t i)
{
	if (i < AUDIT_COMMANDS)
		return audit_commands[i].name;
	i -= AUDIT_COMMANDS;
	return i < AUDIT_OPTIONS ? audit_options[i].name : NULL;
}

static const char *word_behind(const char *before, size_t i)
{
	return i == 0 && str_eq(before, "show") ? "last" : NULL;
}

const struct subcommand cmd_audit = {
	.name = "audit",
	.usage = "[COMMAND [OPTION...]]",
	.help = "show what ran, who asked, what was denied; verify the record",
	.more = cmd_audit_more,
	.word = cmd_audit_word,
	.word_behind = word_behind,
	.run = audit,
};
