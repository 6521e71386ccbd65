/* SPDX-License-Identifier: Apache-2.0 */
/* cli/help.c - help, from the tables: what a first user needs on one screen, all of it by section.
 */
#include <stdio.h>
#include <string.h>

#include "base/text/str.h"
#include "cli/cli.h"

enum {
	COLUMN = 34,
	WIDTH = 80,
	SCREEN = 23,       /* and a line for the next prompt */
	ROWS = SCREEN - 8, /* of commands with a text; the rest are named in two lines */
};

/* What comes first, in few words; as many as a screen has room for. */
static const struct {
	enum field_id id;
	const char *brief;
} first[] = {
	{ FIELD_CODE, "the code itself, instead of a file" },
	{ FIELD_INTERPRETER, "what runs it; python3, or /bin/sh for scripts" },
	{ FIELD_PARAM, "becomes a variable in upper case" },
	{ FIELD_EGRESS_PORT, "port to listen on; 0 chooses one" },
	{ FIELD_WORKDIR, "folder that it may change (the current one)" },
	{ FIELD_READ, "show something at its own path, read-only" },
	{ FIELD_WRITE, "the same, writable" },
	{ FIELD_MOUNT, "show it at another place, read-only or :rw" },
	{ FIELD_EGRESS_ALLOW, "let this host through; @npm, @pypi: groups" },
	{ FIELD_CREDENTIAL, "a key that the door inserts: a placeholder" },
	{ FIELD_ENV, "set a variable, or pass yours on" },
	{ FIELD_POLICY, "readonly, workspace_write or full_access" },
	{ FIELD_TIMEOUT, "end it after 30s, 1h30m, none (10m)" },
	{ FIELD_MEMORY, "of all processes together (2g)" },
	{ FIELD_BACKEND, "auto, native, bwrap, docker, ssh, slurm, none" },
	{ FIELD_JSON, "print the result as one JSON object" },
	{ FIELD_CONFIG, "settings from a file, of five dialects" },
	{ FIELD_PORTS, "show its port on the host's loopback" },
	{ FIELD_TTY, "a terminal of its own" },
	{ FIELD_NETWORK, "none, proxy, bridge or host" },
	{ FIELD_IMAGE, "container image (backend docker)" },
};

/* By the beginning of a setting's name; what none of them takes comes first. */
static const struct {
	const char *title;
	const char *starts[8];
} sections[] = {
	{ "limits", { "limits.", "gpu", NULL } },
	{ "network",
	  { "network", "egress.", "leaks.", "credentials", "use_credentials", "ports", NULL } },
	{ "containers", { "docker.", "image", "runtime", "labels", NULL } },
	{ "another host", { "ssh.", NULL } },
	{ "a cluster", { "slurm.", "kubernetes.", NULL } },
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

/* Words from column `at` on; further lines begin at `indent`. */
static void flow(const char *text, size_t at, size_t indent)
{
	while (*text) {
		size_t n = strcspn(text, " ");

		if (at > indent && at + 1 + n > WIDTH) {
			(void)printf("\n%*s", (int)indent, "");
			at = indent;
		} else if (at > indent) {
			(void)putchar(' ');
			at++;
		}
		(void)printf("%.*s", (int)n, text);
		at += n;
		text += n + strspn(text + n, " ");
	}
	(void)putchar('\n');
}

void help_entry(const char *head, const char *text)
{
	(void)printf("  %-*s", COLUMN - 2, head);
	if (strlen(head) > COLUMN - 3)
		(void)printf("\n%*s", COLUMN, "");
	flow(text, COLUMN, COLUMN);
}

/* NULL for `brief`: all there is to say about it. */
static void line(const struct subcommand *c, const struct field *f, const char *brief)
{
	const bool told = f->fallback && (f->type != FIELD_T_BOOL || !f->flag);
	char head[80], text[640], letter[8] = "";

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
	if (brief)
		(void)snprintf(text, sizeof(text), "%s", brief);
	else
		(void)snprintf(text, sizeof(text), "%s%s%s%s%s", f->help, told ? " (" : "",
			       told ? f->fallback : "", told ? ")" : "",
			       field_repeats(f) ? "; repeatable" : "");
	help_entry(head, text);
}

bool subcommand_takes(const struct subcommand *c, const struct field *f)
{
	for (const char *const *w = c->useless; w && *w; w++)
		if (f->flag && str_eq(f->flag, *w))
			return false;
	return f->commands & c->fields;
}

static bool help_listed(const struct subcommand *c, const struct field *f)
{
	return subcommand_takes(c, f) && f->honoured;
}

static void all_options(const struct subcommand *c)
{
	for (size_t at = 0; at <= sizeof(sections) / sizeof(*sections); at++) {
		bool begun = false;

		for (int i = 0; i < FIELD_COUNT; i++) {
			if (!help_listed(c, &fields[i]) || section_of(&fields[i]) != at)
				continue;
			if (!begun)
				(void)printf("\n%s:\n", at ? sections[at - 1].title : "sandbox");
			begun = true;
			line(c, &fields[i], NULL);
		}
		if (at == 0)
			help_entry("--set KEY=VALUE",
				   "any setting by its name in configuration; repeatable");
	}
}

/* Lines that a text takes. */
static size_t lines_of(const char *text)
{
	size_t n = 0;

	for (; text && *text; text++)
		n += *text == '\n';
	return n;
}

/* One that says much about itself leaves those of run to their own page. */
static void first_options(const struct subcommand *c, size_t room)
{
	size_t shown = 0;

	if (c->about && c->fields & CMD_RUN) {
		(void)printf("\nIt takes the options of run, too: brig run --help\n");
		return;
	}
	(void)printf("\n");
	for (size_t i = 0; i < ARRAY_LEN(first) && shown < room; i++)
		if (fields[first[i].id].flag && help_listed(c, &fields[first[i].id])) {
			line(c, &fields[first[i].id], first[i].brief);
			shown++;
		}
}

static void exit_status(const struct subcommand *c, bool all)
{
	(void)printf("exit status: %s\n",
		     c->exits ? c->exits
		     : all    ? "the command's own; 124 time limit; 125 brig failed or refused;\n"
				"126 not executable; 127 not found; 128+N ended by signal N (137 "
				"also for memory)"
			      : "its own; 124 time; 125 brig; 126, 127 not started; 128+N "
				"signal");
}

void help_usage(const char *above, const struct subcommand *c)
{
	int n = printf("usage: brig %s%s%s", above ? above : "", above ? " " : "", c->name);

	flow(c->usage, n > 0 ? (size_t)n : 0, strlen("usage: brig "));
}

static void print_help(const struct subcommand *c, bool all)
{
	const size_t used = 7 + lines_of(c->about) + lines_of(c->exits);

	help_usage(NULL, c);
	(void)printf("\n%s\n", c->help);
	if (c->about)
		(void)printf("\n%s", c->about);
	if (c->more)
		c->more(all);
	if (!c->fields || (c->verbs && !all)) {
		if (c->exits)
			(void)printf("\nexit status: %s\n", c->exits);
		return;
	}
	if (all)
		all_options(c);
	else
		first_options(c, used < SCREEN ? SCREEN - used : 0);
	if (!c->about || all)
		(void)printf("\n");
	if (!all)
		(void)printf("All, by section: brig %s --help=all; man brig-%s\n", c->name,
			     c->name);
	exit_status(c, all);
}

void help_command(const struct subcommand *c)
{
	print_help(c, false);
}

void help_all(const struct subcommand *c)
{
	print_help(c, true);
}

void help_print(bool all)
{
	char rest[512] = "";
	size_t shown = 0, used = 0;

	(void)printf("usage: brig COMMAND [OPTION...]\n\n"
		     "Runs an agent's commands where they can do their work and no harm.\n\n");
	for (const struct subcommand *const *c = commands; *c; c++)
		if (all || (!(*c)->minor && shown < ROWS)) {
			(void)printf("  %-11s %s\n", (*c)->name, (*c)->help);
			shown++;
		} else if (used < sizeof(rest)) {
			int n = snprintf(rest + used, sizeof(rest) - used, "%s ", (*c)->name);

			used += n > 0 ? (size_t)n : 0;
		}
	if (all)
		return;
	(void)printf("  %-12s", "also");
	flow(rest, 14, 14);
	(void)printf("\nbrig COMMAND --help says more, brig --help=all names every command.\n");
}
