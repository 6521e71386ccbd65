/* SPDX-License-Identifier: Apache-2.0 */
/* cli/cmd_completion.c - "completion": scripts for bash, zsh and fish, written from the tables. */
#include <stdio.h>
#include <string.h>

#include "base/text/str.h"
#include "cli/cli.h"
#include "model/known/services.h"
#include "model/settings/groups.h"

static void completion_words(const char *const *w)
{
	for (; *w; w++)
		(void)printf("%s%s", *w, w[1] ? " " : "");
}

/* Everything a command takes besides settings: its own words, and what its texts name as an option.
 * */
struct own {
	const char *v[96];
	size_t n;
	char room[1024];
	size_t used;
};

static void own_add(struct own *o, const char *word, size_t n)
{
	for (size_t i = 0; i < o->n; i++)
		if (strlen(o->v[i]) == n && strncmp(o->v[i], word, n) == 0)
			return;
	if (o->n == ARRAY_LEN(o->v) || o->used + n + 1 > sizeof(o->room))
		return;
	o->v[o->n++] = o->room + o->used;
	(void)memcpy(o->room + o->used, word, n);
	o->room[o->used + n] = 0;
	o->used += n + 1;
}

/* Options that a text names; those of others ("brig run --help") are not its own. */
static void own_from(struct own *o, const char *text)
{
	for (; text && *text; text++) {
		size_t n = strspn(text, "-abcdefghijklmnopqrstuvwxyz");

		if (str_starts(text, "brig ")) {
			text += strcspn(text, ";,.\n") - 1;
			continue;
		}
		if (n > 2 && str_starts(text, "--") && text[2] != '-')
			own_add(o, text, n);
		if (n > 1)
			text += n - 1;
	}
}

static void own_words(const struct subcommand *c, struct own *o)
{
	const char *w;

	*o = (struct own){ 0 };
	for (size_t i = 0; c->word && (w = c->word(i)); i++)
		own_add(o, w, strlen(w));
	own_from(o, c->usage);
	own_from(o, c->about);
	own_add(o, "--help", strlen("--help"));
}

static void own_print(const struct own *o, const char *before)
{
	for (size_t i = 0; i < o->n; i++)
		(void)printf("%s%s", before, o->v[i]);
}

/* What may come behind a word. */
static void behind_print(const struct subcommand *c, const char *word, const char *before)
{
	const char *w;

	for (size_t i = 0; (w = c->word_behind(word, i)); i++)
		(void)printf("%s%s", i ? " " : before, w);
}

static bool has_behind(const struct subcommand *c, const char *word)
{
	return c->word_behind && c->word_behind(word, 0);
}

/* Then a folder may come in their place. */
static bool only_options(const struct subcommand *c, const char *word)
{
	const char *w;

	for (size_t i = 0; (w = c->word_behind(word, i)); i++)
		if (w[0] != '-')
			return false;
	return true;
}

static bool has_box(const struct subcommand *c, const char *word)
{
	return c->box_behind && c->box_behind(word);
}

/* Ids and names of sandboxes, which others may have chosen: only letters that mean nothing to a
 * shell. A daemon that does not run is not started. */
#define BOXES                                                                                      \
	"command brig sandbox list 2> /dev/null | "                                                \
	"awk \"NR > 1 { for (i = 1; i < 3; i++) if (\\$i ~ /^[A-Za-z0-9][A-Za-z0-9._-]*\\$/) "     \
	"print \\$i }\""

static void setting_words(void)
{
	for (int i = 0; i < FIELD_COUNT; i++)
		if (fields[i].key && fields[i].honoured)
			(void)printf(" %s=", fields[i].key);
}

/* Groups of hosts, and services that keys are for: nothing else is known of what these take. */
static bool takes_known(const struct field *f)
{
	return f == &fields[FIELD_EGRESS_ALLOW] || f == &fields[FIELD_CREDENTIAL];
}

static void known_words(const struct field *f)
{
	for (size_t i = 0; f == &fields[FIELD_EGRESS_ALLOW] && i < GROUP_COUNT; i++)
		(void)printf("%s@%s", i ? " " : "", groups[i].name);
	/* The rows of a service, one for each of its variables, stand together. */
	for (size_t i = 0; f == &fields[FIELD_CREDENTIAL] && services[i].name; i++)
		if (!i || !str_eq(services[i].name, services[i - 1].name))
			(void)printf("%s%s", i ? " " : "", services[i].name);
}

static bool is_path(const struct field *f)
{
	return f->type == FIELD_T_PATH || f->type == FIELD_T_PATHS || f->type == FIELD_T_MOUNTS ||
	       f == &fields[FIELD_CONFIG];
}

static bool takes(const struct subcommand *c, const struct field *f)
{
	return f->flag && f->honoured && subcommand_takes(c, f);
}

/* Options where one begins; else its own words, or any command. */
static void bash_command(const struct subcommand *c)
{
	struct own o;
	bool folder;

	own_words(c, &o);
	(void)printf("\t%s) words='", c->name);
	own_print(&o, " ");
	for (int i = 0; i < FIELD_COUNT; i++)
		if (takes(c, &fields[i]))
			(void)printf(" --%s", fields[i].flag);
	if (c->fields)
		(void)printf(" --set");
	(void)printf("'%s", c->fields && !c->word ? "; any=1" : "");
	for (size_t i = 0; i < o.n; i++) {
		if (has_box(c, o.v[i]))
			(void)printf("; [[ $prev != %s ]] || words=$(_brig_boxes)", o.v[i]);
		if (!has_behind(c, o.v[i]))
			continue;
		folder = only_options(c, o.v[i]);
		(void)printf("; [[ $prev != %s ]] || %s'", o.v[i],
			     folder ? "{ _brig_files -d -W " : "words=");
		behind_print(c, o.v[i], "");
		(void)printf(folder ? "'; return; }" : "'");
	}
	(void)printf(" ;;\n");
}

/* "@" ends a word for bash, and what follows it is then all that is completed. */
static void bash_known(const struct field *f)
{
	(void)printf("\t--%s) COMPREPLY=($(compgen -W '", f->flag);
	known_words(f);
	(void)printf("' -- \"${at:+@}$cur\")); [[ ! $at ]] || COMPREPLY=(\"${COMPREPLY[@]#@}\"); "
		     "return ;;\n");
}

static void bash_values(const struct field *f)
{
	if (!f->flag || f->alone)
		return;
	if (takes_known(f)) {
		bash_known(f);
		return;
	}
	if (f->words) {
		(void)printf("\t--%s) COMPREPLY=($(compgen -W '", f->flag);
		completion_words(f->words);
		(void)printf("' -- \"$cur\")); return ;;\n");
	} else if (is_path(f)) {
		(void)printf("\t--%s) _brig_files -f; return ;;\n", f->flag);
	}
}

/* Names are a guest's: they are taken line by line, never split or expanded, and readline quotes
 * what it inserts (-o filenames). */
static const char bash_files[] =
	"_brig_files() {\n\tmapfile -t COMPREPLY < <(compgen \"$@\" -- \"$cur\")\n"
	"\tcompopt -o filenames 2> /dev/null\n}\n"
	"_brig_boxes() {\n\t" BOXES "\n}\n";

/* Behind -- stands a command; for mcp install options of its own. */
static const char bash_behind[] =
	"\tlocal word\n\tfor word in \"${COMP_WORDS[@]:2:COMP_CWORD-2}\"; do\n"
	"\t\t[[ $word == -- && ${COMP_WORDS[1]} != mcp ]] || continue\n"
	"\t\t_brig_files -c -f\n\t\treturn\n\tdone\n";

/* Who has not begun an option gets none, unless there is nothing else. */
static const char bash_words[] =
	"\tif [[ $cur != -* ]]; then\n\t\tlocal plain=\n"
	"\t\tfor word in $words; do [[ $word == -* ]] || plain+=\" $word\"; done\n"
	"\t\twords=${plain:-$words}\n\tfi\n";

static void bash(void)
{
	(void)printf("%s", bash_files);
	(void)printf("_brig() {\n\tlocal cur=${COMP_WORDS[COMP_CWORD]} "
		     "prev=${COMP_WORDS[COMP_CWORD-1]} words= any= at=\n"
		     "\tif [[ $cur == @ && $COMP_WORDBREAKS == *@* ]]; then cur= at=1\n"
		     "\telif [[ $prev == @ ]]; then prev=${COMP_WORDS[COMP_CWORD-2]} at=1\n\tfi\n"
		     "\tCOMPREPLY=()\n\tif [ \"$COMP_CWORD\" -eq 1 ]; "
		     "then\n\t\tCOMPREPLY=($(compgen -W '");
	for (const struct subcommand *const *c = commands; *c; c++)
		(void)printf("%s ", (*c)->name);
	(void)printf("' -- \"$cur\"))\n\t\treturn\n\tfi\n%s\tcase $prev in\n", bash_behind);
	for (int i = 0; i < FIELD_COUNT; i++)
		bash_values(&fields[i]);
	(void)printf("\t--set) COMPREPLY=($(compgen -W '");
	setting_words();
	(void)printf("' -- \"$cur\")); compopt -o nospace 2> /dev/null; return ;;\n");
	(void)printf("\tesac\n\tcase ${COMP_WORDS[1]} in\n");
	for (const struct subcommand *const *c = commands; *c; c++)
		bash_command(*c);
	(void)printf("\tesac\n%s", bash_words);
	(void)printf("\tif [[ $any && $cur != -* ]]; then _brig_files -c -f\n"
		     "\telse COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n\tfi\n"
		     "}\ncomplete -o default -F _brig brig\n");
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

static void zsh_option(const struct field *f)
{
	(void)printf(" \\\n\t\t'%s--%s%s[", field_repeats(f) ? "*" : "", f->flag,
		     f->alone ? "=-"
		     : f->arg ? "="
			      : "");
	quoted(f->help);
	(void)printf("]%s", f->alone ? ":" : "");
	if (f->words) {
		(void)printf(":%s:(", f->flag);
		completion_words(f->words);
		(void)printf(")");
	} else if (takes_known(f)) {
		(void)printf(":%s:(", f->flag);
		known_words(f);
		(void)printf(")");
	} else if (f->arg) {
		(void)printf(":%s:%s", f->flag, is_path(f) ? "_files" : "");
	}
	(void)printf("'");
}

static bool is_field(const struct subcommand *c, const char *option)
{
	for (int i = 0; i < FIELD_COUNT; i++)
		if (takes(c, &fields[i]) && str_eq(fields[i].flag, option + strlen("--")))
			return true;
	return str_eq(option, "--set");
}

/* Its own options, and what may stand where none does: its own words, else a command with words. */
static void zsh_own(const struct subcommand *c, const struct own *o)
{
	const char *before = " '*:word:(";
	bool any = false;

	for (size_t i = 0; i < o->n; i++)
		if (str_starts(o->v[i], "--") && !is_field(c, o->v[i]))
			(void)printf(" '*%s'", o->v[i]);
	for (size_t i = 0; i < o->n; i++)
		if (o->v[i][0] != '-') {
			(void)printf("%s%s", before, o->v[i]);
			before = " ";
			any = true;
		}
	(void)printf("%s", any ? ")'" : c->word ? " '*:file:_files'" : " '*::command:_normal'");
}

static void zsh_command(const struct subcommand *c)
{
	struct own o;

	own_words(c, &o);
	(void)printf("\t%s) ", c->name);
	for (size_t i = 0; i < o.n; i++)
		if (has_box(c, o.v[i]))
			(void)printf("[[ $words[CURRENT-1] != %s ]] || { compadd -- "
				     "${(f)\"$(_brig_boxes)\"}; return }; ",
				     o.v[i]);
	for (size_t i = 0; i < o.n; i++)
		if (has_behind(c, o.v[i])) {
			(void)printf("[[ $words[CURRENT-1] != %s ]] || { compadd --", o.v[i]);
			behind_print(c, o.v[i], " ");
			(void)printf("; return }; ");
		}
	if (!c->fields) {
		(void)printf("compadd --");
		own_print(&o, " ");
		(void)printf("; _files ;;\n");
		return;
	}
	/* For _arguments the command is what brig is to a shell: the word before its own. */
	(void)printf(
		"shift words; (( CURRENT-- )); _arguments -S '*--set=:setting:_brig_settings'");
	for (int i = 0; i < FIELD_COUNT; i++)
		if (takes(c, &fields[i]))
			zsh_option(&fields[i]);
	zsh_own(c, &o);
	(void)printf(" ;;\n");
}

/* Behind -- stands a command; for mcp install options of its own. */
static const char zsh_behind[] =
	"\tlocal at=$words[(i)--]\n"
	"\tif (( at < CURRENT )) && [[ $words[2] != mcp ]]; then\n"
	"\t\tshift $at words; (( CURRENT -= at )); _normal; return\n\tfi\n";

static void zsh(void)
{
	(void)printf("#compdef brig\n_brig_boxes() {\n\t" BOXES
		     "\n}\n_brig_settings() {\n\tcompadd -S '' --");
	setting_words();
	(void)printf("\n}\n_brig() {\n\tif (( CURRENT == 2 )); then\n\t\tlocal -a names=(\n");
	for (const struct subcommand *const *c = commands; *c; c++) {
		(void)printf("\t\t\t'%s:", (*c)->name);
		quoted((*c)->help);
		(void)printf("'\n");
	}
	(void)printf(
		"\t\t)\n\t\t_describe command names\n\t\treturn\n\tfi\n%s\tcase $words[2] in\n",
		zsh_behind);
	for (const struct subcommand *const *c = commands; *c; c++)
		zsh_command(*c);
	(void)printf("\tesac\n}\n_brig \"$@\"\n");
}

static void fish_option(const struct subcommand *c, const struct field *f)
{
	(void)printf("complete -c brig -n '__fish_seen_subcommand_from %s' -l %s%s", c->name,
		     f->flag, f->arg && !f->alone ? " -r" : "");
	if (f->letter && !(c->letters && strchr(c->letters, f->letter)))
		(void)printf(" -s %c", f->letter);
	if (f->words) {
		(void)printf(" -a '");
		completion_words(f->words);
		(void)printf("'");
	} else if (takes_known(f)) {
		(void)printf(" -a '");
		known_words(f);
		(void)printf("'");
	}
	(void)printf("%s -d '", is_path(f) ? " -F" : "");
	quoted(f->help);
	(void)printf("'\n");
}

static void fish(void)
{
	(void)printf("function __brig_boxes\n\t" BOXES
		     "\nend\nfunction __brig_settings\n\tprintf '%%s\\n'");
	setting_words();
	(void)printf("\nend\ncomplete -c brig -f\n");
	for (const struct subcommand *const *c = commands; *c; c++) {
		(void)printf("complete -c brig -n __fish_use_subcommand -a %s -d '", (*c)->name);
		quoted((*c)->help);
		(void)printf("'\n");
	}
	for (const struct subcommand *const *c = commands; *c; c++) {
		struct own o;

		own_words(*c, &o);
		(void)printf("complete -c brig -n '__fish_seen_subcommand_from %s' -a '",
			     (*c)->name);
		own_print(&o, " ");
		(void)printf("'\n");
		if ((*c)->fields)
			(void)printf("complete -c brig -n '__fish_seen_subcommand_from %s' -l set "
				     "-r -a '(__brig_settings)'\n",
				     (*c)->name);
		for (size_t i = 0; i < o.n; i++)
			if (has_box(*c, o.v[i]))
				(void)printf(
					"complete -c brig -n '__fish_seen_subcommand_from %s; "
					"and __fish_seen_subcommand_from %s' -a '(__brig_boxes)'\n",
					(*c)->name, o.v[i]);
		for (size_t i = 0; i < o.n; i++)
			if (has_behind(*c, o.v[i])) {
				(void)printf("complete -c brig -n '__fish_seen_subcommand_from %s; "
					     "and __fish_seen_subcommand_from %s' -a '",
					     (*c)->name, o.v[i]);
				behind_print(*c, o.v[i], "");
				(void)printf("'\n");
			}
		for (int i = 0; i < FIELD_COUNT; i++)
			if (takes(*c, &fields[i]))
				fish_option(*c, &fields[i]);
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

static const char *completion_word(size_t i)
{
	static const char *const list[] = { "bash", "zsh", "fish" };

	return i < ARRAY_LEN(list) ? list[i] : NULL;
}

const struct subcommand cmd_completion = {
	.name = "completion",
	.minor = true,
	.usage = "bash|zsh|fish",
	.help = "print a completion script for a shell",
	.word = completion_word,
	.run = completion,
};
