/* SPDX-License-Identifier: Apache-2.0 */
/* cli/cmd_misc.c - "version", "schema" and "help". */
#include <stdio.h>

#include "base/text/buf.h"
#include "base/text/str.h"
#include "brig.h"
#include "cli/cli.h"
#include "model/files/schema.h"

static int asked_help(const struct subcommand *c, int argc, char **argv)
{
	struct err e = { 0 };

	if (argc > 1 && (str_eq(argv[1], "--help") || str_eq(argv[1], "-h"))) {
		help_command(c);
		return 0;
	}
	if (argc > 1) {
		(void)err_set(&e, ERR_USAGE, EINVAL, "%s does not accept '%.100s'", c->name,
			      argv[1]);
		(void)err_hint(&e, "usage: brig %s", c->name);
		error_print(&e);
		return EXIT_BRIG;
	}
	return -1;
}

static int version(const struct subcommand *c, int argc, char **argv)
{
	const bool as_json = argc == 2 && str_eq(argv[1], "--json");
	int r = as_json ? -1 : asked_help(c, argc, argv);

	if (r >= 0)
		return r;
	if (as_json)
		(void)printf("{\"version\":\"%s\"}\n", brig_version());
	else
		(void)printf("brig %s\n", brig_version());
	return 0;
}

static int schema(const struct subcommand *c, int argc, char **argv)
{
	struct buf b = BUF_INIT((size_t)1 << 20);
	struct json j;
	int r = asked_help(c, argc, argv);

	if (r >= 0)
		return r;
	json_init(&j, &b, true);
	schema_json(&j, "#");
	(void)printf("%s\n", buf_str(&b));
	buf_done(&b);
	return 0;
}

static int help(const struct subcommand *c UNUSED, int argc, char **argv)
{
	const struct subcommand *about = argc > 1 ? command_by_name(argv[1]) : NULL;

	if (argc > 1 && argv[1][0] != '-' && !about)
		return command_unknown(argv[1]);
	if (about)
		(argc > 2 && str_eq(argv[2], "all") ? help_all : help_command)(about);
	else
		help_print(str_eq(argv[0], "--help=all") || (argc > 1 && str_eq(argv[1], "--all")));
	return 0;
}

static const char *cmd_misc_word(size_t i)
{
	return commands[i] ? commands[i]->name : NULL;
}

const struct subcommand cmd_version = { .name = "version",
					.usage = "[--json]",
					.help = "print the version",
					.minor = true,
					.run = version };
const struct subcommand cmd_schema = { .name = "schema",
				       .minor = true,
				       .usage = "",
				       .help = "print the JSON Schema of all settings",
				       .run = schema };
const struct subcommand cmd_help = { .name = "help",
				     .minor = true,
				     .usage = "[COMMAND [all] | --all]",
				     .help = "print this, or more about one command",
				     .word = cmd_misc_word,
				     .run = help };
