/* SPDX-License-Identifier: Apache-2.0 */
/* cli/bundle/cmd_bundle.c - "bundle": what it takes, and the way to the program that does it.
 *
 * zlib and TLS would make every `brig run` start later; so they are brig-bundle's. */
#include <stdio.h>

#include "base/sys/program.h"
#include "base/text/str.h"
#include "cli/bundle/bundle_words.h"
#include "cli/cli.h"

static void print_command(enum bundle_command id)
{
	const struct bundle_word *w = &bundle_commands[id];

	(void)printf("usage: brig bundle %s %s\n\n%s\n", w->name, w->usage, w->help);
	if (id != BUNDLE_SCHEMA)
		(void)printf("\noptions:\n");
	for (int i = 0; i < BUNDLE_OPTIONS; i++) {
		const struct bundle_option *o = &bundle_options[i];
		char head[64];

		if (!(o->commands & 1U << id))
			continue;
		(void)snprintf(head, sizeof(head), "%s%s%s%s%s", o->alias ? o->alias : "",
			       o->alias ? ", " : "", o->name, o->arg ? " " : "",
			       o->arg ? o->arg : "");
		(void)printf("  %-22s%s\n", head, o->help);
	}
}

static void cmd_bundle_more(bool all UNUSED)
{
	(void)printf("\ncommands:\n");
	for (int i = 0; i < BUNDLE_COMMANDS; i++)
		(void)printf("  %-12s%s\n", bundle_commands[i].name, bundle_commands[i].help);
	(void)printf(
		"\nREF is HOST[:PORT]/REPOSITORY[:TAG]. Options: brig bundle COMMAND --help\n");
}

static int help(const struct subcommand *c, const char *word)
{
	for (int i = 0; i < BUNDLE_COMMANDS; i++)
		if (str_eq(word, bundle_commands[i].name)) {
			print_command((enum bundle_command)i);
			return 0;
		}
	help_command(c);
	return 0;
}

static int bundle(const struct subcommand *c, int argc, char **argv)
{
	struct err e = { 0 };

	if (argc < 2)
		return help(c, "");
	for (int i = 1; i < argc; i++)
		if (str_eq(argv[i], "--help") || str_eq(argv[i], "-h"))
			return help(c, argv[1]);
	argv[0] = (char[]){ "brig-bundle" };
	(void)program_become("brig-bundle", argv, &e);
	error_print(&e);
	return EXIT_BRIG;
}

/* Commands, then options. */
static const char *cmd_bundle_word(size_t i)
{
	if (i < BUNDLE_COMMANDS)
		return bundle_commands[i].name;
	i -= BUNDLE_COMMANDS;
	return i < BUNDLE_OPTIONS ? bundle_options[i].name : NULL;
}

const struct subcommand cmd_bundle = {
	.name = "bundle",
	.usage = "COMMAND [OPTION...]",
	.help = "pack, install, push and pull roles with their files",
	.more = cmd_bundle_more,
	.word = cmd_bundle_word,
	.exits = "0; 125 it was refused, or could not be done",
	.run = bundle,
};
