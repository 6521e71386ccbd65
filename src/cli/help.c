/* SPDX-License-Identifier: Apache-2.0 */
/* cli/help.c - help, from the tables: what a first user needs on one screen, all of it by section.
 */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "cli/cli.h"

#define COLUMN 34

static const enum field_id first[] = {
	FIELD_WORKDIR,      FIELD_READ,    FIELD_WRITE,       FIELD_MOUNT,  FIELD_NETWORK,
	FIELD_EGRESS_ALLOW, FIELD_PORTS,   FIELD_CREDENTIAL,  FIELD_ENV,    FIELD_ENV_PASS,
	FIELD_POLICY,       FIELD_TIMEOUT, FIELD_MEMORY,      FIELD_PIDS,   FIELD_BACKEND,
	FIELD_IMAGE,        FIELD_TTY,     FIELD_JSON,        FIELD_CONFIG, FIELD_CODE,
	FIELD_INTERPRETER,  FIELD_PARAM,   FIELD_EGRESS_PORT,
};

/* By the beginning of a setting's name; what none of them takes comes first. */
static const struct {
	const char *title;
	const char *starts[8];
} sections[] = {
	{ "limits", { "limits.", NULL } },
	{ "network",
	  { "network", "egress.", "leaks.", "credentials", "use_credentials", "ports", NULL } },
	{ "containers", { "docker.", "image", "runtime", "gpus", "labels", NULL } },
	{ "another host", { "ssh.", NULL } },
	{ "record", { "audit.", "metrics.", "no-audit", NULL } },
};

static size_t section_of(const struct field *f)
{
	const char *name = f->key ? f->key : f->flag;

	for (size_t i = 0; i < sizeof(sections) / sizeof(*sections); i++)
		for (size_t j = 0; sections[i].starts[j]; j++)
			if (str_starts(name, sections[i].starts[j]))
				return i + 1;
	return 0;
}

static void line(const struct subcommand *c, const struct field *f)
{
	char head[80], letter[8] = "";

	if (f->letter && !(c->letters && strchr(c->letters, f->letter)))
		(void)snprintf(letter, sizeof(letter), "-%c, ", f->letter);
	if (f->flag)
		(void)snprintf(head, sizeof(head), "%s--%s%s%s%s", letter, f->flag,
			       f->alone ? "[="
			       : f->arg ? " "
					: "",
			       f->arg ? f->arg : "", f->alone ? "]" : "");
	else if (f->arg || f->type == FIELD_T_BOOL)
		(void)snprintf(head, sizeof(head), "--set %s=%s", f->key, f->arg ? f->arg : "BOOL");
	else
		(void)snprintf(head, sizeof(head), "%s: in a file", f->key);
	(void)printf("  %-*s%s%s", COLUMN - 2, head, strlen(head) > COLUMN - 3 ? " " : "", f->help);
	if (f->fallback && (f->type != FIELD_T_BOOL || !f->flag))
		(void)printf(" (%s)", f->fallback);
	(void)printf("%s\n", field_repeats(f) ? "; repeatable" : "");
}

static void set_line(const char *text)
{
	(void)printf("  %-*s%s\n", COLUMN - 2, "--set KEY=VALUE", text);
}

bool subcommand_takes(const struct subcommand *c, const struct field *f)
{
	for (const char *const *w = c->useless; w && *w; w++)
		if (f->flag && str_eq(f->flag, *w))
			return false;
	return f->commands & c->fields;
}

static bool listed(const struct subcommand *c, const struct field *f)
{
	return subcommand_takes(c, f) && f->honoured;
}

static void all_options(const struct subcommand *c)
{
	for (size_t at = 0; at <= sizeof(sections) / sizeof(*sections); at++) {
		bool begun = false;

		for (int i = 0; i < FIELD_COUNT; i++) {
			if (!listed(c, &fields[i]) || section_of(&fields[i]) != at)
				continue;
			if (!begun)
				(void)printf("\n%s:\n", at ? sections[at - 1].title : "sandbox");
			begun = true;
			line(c, &fields[i]);
		}
		if (at == 0)
			set_line("any setting by its name in configuration; repeatable");
	}
}

static void first_options(const struct subcommand *c)
{
	(void)printf("\noptions:\n");
	for (size_t i = 0; i < sizeof(first) / sizeof(*first); i++)
		if (fields[first[i]].flag && listed(c, &fields[first[i]]))
			line(c, &fields[first[i]]);
	set_line("any other setting; repeatable");
	(void)printf("\nbrig %s --help=all lists every option and setting\n", c->name);
}

static void print_help(const struct subcommand *c, bool all)
{
	(void)printf("usage: brig %s%s%s\n\n%s\n", c->name, c->usage[0] ? " " : "", c->usage,
		     c->help);
	if (c->about)
		(void)printf("\n%s", c->about);
	if (!c->fields)
		return;
	if (all)
		all_options(c);
	else
		first_options(c);
	(void)printf("\nexit status: %s\n",
		     c->exits ? c->exits
			      : "the command's own; 124 time limit; 125 brig failed before the "
				"command ran;\n"
				"126 not executable; 127 not found; 128+N ended by signal N (137 "
				"also for memory)");
}

void help_command(const struct subcommand *c)
{
	print_help(c, false);
}

void help_all(const struct subcommand *c)
{
	print_help(c, true);
}

void help_print(void)
{
	(void)printf("usage: brig COMMAND [OPTION...]\n\n"
		     "Runs an agent's commands where they can do their work and no harm.\n\n");
	for (const struct subcommand *const *c = commands; *c; c++)
		(void)printf("  brig %-11s %s\n", (*c)->name, (*c)->help);
	(void)printf("\n`brig COMMAND --help` says more.\n");
}
