/* SPDX-License-Identifier: Apache-2.0 */
/* cli/cmd_completion.c - "completion": scripts for bash, zsh and fish, written from the tables. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "cli/cli.h"

static void words(const char *const *w)
{
	for (; *w; w++)
		(void)printf("%s%s", *w, w[1] ? " " : "");
}

/* The words of a command that has a table of its own. */
static void own_words(const struct subcommand *c, const char *before)
{
	const char *w;

	for (size_t i = 0; (w = c->word(i)); i++)
		(void)printf("%s%s", before, w);
}

static bool is_path(const struct field *f)
{
	return f->type == FIELD_T_PATH || f->type == FIELD_T_PATHS || f->type == FIELD_T_MOUNTS ||
	       f == &fields[FIELD_CONFIG];
}

/* Options where one begins; else its own words, or any command. */
static void bash_command(const struct subcommand *c)
{
	if (c->word && !c->fields) {
		(void)printf("\t%s) COMPREPLY=($(compgen -W '--help", c->name);
		own_words(c, " ");
		(void)printf("' -- \"$cur\")) ;;\n");
	}
	if (!c->fields)
		return;
	(void)printf("\t%s) [[ $cur == -* ]] && COMPREPLY=($(compgen -W '--help --set", c->name);
	if (c->word)
		own_words(c, " ");
	for (int i = 0; i < FIELD_COUNT; i++)
		if (fields[i].flag && subcommand_takes(c, &fields[i]))
			(void)printf(" --%s", fields[i].flag);
	(void)printf("' -- \"$cur\")) || COMPREPLY=($(compgen %s", c->word ? "-W '" : "-c -f");
	if (c->word)
		own_words(c, " ");
	(void)printf("%s -- \"$cur\")) ;;\n", c->word ? "'" : "");
}

static void bash(void)
{
	(void)printf("_brig() {\n\tlocal cur=${COMP_WORDS[COMP_CWORD]} "
		     "prev=${COMP_WORDS[COMP_CWORD-1]}\n"
		     "\tCOMPREPLY=()\n\tif [ \"$COMP_CWORD\" -eq 1 ]; "
		     "then\n\t\tCOMPREPLY=($(compgen -W '");
	for (const struct subcommand *const *c = commands; *c; c++)
		(void)printf("%s ", (*c)->name);
	(void)printf("' -- \"$cur\"))\n\t\treturn\n\tfi\n\tcase $prev in\n");
	for (int i = 0; i < FIELD_COUNT; i++) {
		const struct field *f = &fields[i];

		if (!f->flag || f->alone || (!f->words && !is_path(f)))
			continue;
		(void)printf("\t--%s) COMPREPLY=($(compgen ", f->flag);
		if (f->words) {
			(void)printf("-W '");
			words(f->words);
			(void)printf("'");
		} else {
			(void)printf("-f");
		}
		(void)printf(" -- \"$cur\")); return ;;\n");
	}
	(void)printf("\tesac\n\tcase ${COMP_WORDS[1]} in\n");
	for (const struct subcommand *const *c = commands; *c; c++)
		bash_command(*c);
	(void)printf("\tesac\n}\ncomplete -o default -F _brig brig\n");
}

/* Quotes and brackets mean something to both shells; the help texts are kept free of them, except
 * '. */
static void quoted(const char *s)
{
	for (; *s; s++) {
		if (strchr("'[]:", *s))
			(void)printf("%s", *s == '\'' ? "'\\''" : "");
		else
			(void)putchar(*s);
	}
}

static void zsh(void)
{
	(void)printf(
		"#compdef brig\n_brig() {\n\tif (( CURRENT == 2 )); then\n\t\tlocal -a names=(\n");
	for (const struct subcommand *const *c = commands; *c; c++) {
		(void)printf("\t\t\t'%s:", (*c)->name);
		quoted((*c)->help);
		(void)printf("'\n");
	}
	(void)printf("\t\t)\n\t\t_describe command names\n\t\treturn\n\tfi\n\tcase $words[2] in\n");
	for (const struct subcommand *const *c = commands; *c; c++) {
		if ((*c)->word && !(*c)->fields) {
			(void)printf("\t%s) compadd -- --help", (*c)->name);
			own_words(*c, " ");
			(void)printf(" || _files ;;\n");
		}
		if (!(*c)->fields)
			continue;
		(void)printf("\t%s) ", (*c)->name);
		if ((*c)->word) {
			(void)printf("compadd --");
			own_words(*c, " ");
			(void)printf("; ");
		}
		(void)printf("_arguments '--help' '*--set=:setting:'");
		for (int i = 0; i < FIELD_COUNT; i++) {
			const struct field *f = &fields[i];

			if (!f->flag || !subcommand_takes(*c, f))
				continue;
			(void)printf(" \\\n\t\t'%s--%s%s[", field_repeats(f) ? "*" : "", f->flag,
				     f->alone ? "=-"
				     : f->arg ? "="
					      : "");
			quoted(f->help);
			(void)printf("]%s", f->alone ? ":" : "");
			if (f->words) {
				(void)printf(":%s:(", f->flag);
				words(f->words);
				(void)printf(")");
			} else if (f->arg) {
				(void)printf(":%s:%s", f->flag, is_path(f) ? "_files" : "");
			}
			(void)printf("'");
		}
		(void)printf(" '*::command:_normal' ;;\n");
	}
	(void)printf("\tesac\n}\n_brig \"$@\"\n");
}

static void fish(void)
{
	(void)printf("complete -c brig -f\n");
	for (const struct subcommand *const *c = commands; *c; c++) {
		(void)printf("complete -c brig -n __fish_use_subcommand -a %s -d '", (*c)->name);
		quoted((*c)->help);
		(void)printf("'\n");
	}
	for (const struct subcommand *const *c = commands; *c; c++) {
		if ((*c)->word) {
			(void)printf(
				"complete -c brig -n '__fish_seen_subcommand_from %s' -a '--help",
				(*c)->name);
			own_words(*c, " ");
			(void)printf("'\n");
		}
		for (int i = 0; i < FIELD_COUNT && (*c)->fields; i++) {
			const struct field *f = &fields[i];

			if (!f->flag || !subcommand_takes(*c, f))
				continue;
			(void)printf("complete -c brig -n '__fish_seen_subcommand_from %s' -l %s%s",
				     (*c)->name, f->flag, f->arg && !f->alone ? " -r" : "");
			if (f->words) {
				(void)printf(" -a '");
				words(f->words);
				(void)printf("'");
			}
			(void)printf("%s -d '", is_path(f) ? " -F" : "");
			quoted(f->help);
			(void)printf("'\n");
		}
	}
}

static int completion(const struct subcommand *c, int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*print)(void);
	} shells[] = { { "bash", bash }, { "zsh", zsh }, { "fish", fish } };

	for (size_t i = 0; argc == 2 && i < ARRAY_LEN(shells); i++)
		if (str_eq(argv[1], shells[i].name)) {
			shells[i].print();
			return 0;
		}
	if (argc == 2 && str_eq(argv[1], "--help")) {
		help_command(c);
		return 0;
	}
	message_print("brig", "completion: name one shell: bash, zsh or fish");
	message_print("hint", "source <(brig completion bash)");
	return EXIT_BRIG;
}

const struct subcommand cmd_completion = {
	.name = "completion",
	.usage = "bash|zsh|fish",
	.help = "print a completion script for a shell",
	.run = completion,
};
