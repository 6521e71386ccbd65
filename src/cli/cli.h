/* SPDX-License-Identifier: Apache-2.0 */
/* cli/cli.h - the command table and what its commands share. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/text/err.h"
#include "model/settings/spec.h"

enum { EXIT_BRIG = 125 }; /* brig itself failed, before the command ran */

struct subcommand {
	const char *name, *usage, *help;
	const char *about;      /* more lines for its own --help; may be NULL */
	void (*more)(bool all); /* prints what its own tables say below that; may be NULL */
	const char *exits;      /* its exit status; NULL: that of the command it runs */
	const char *letters; /* short options of its own, which no setting has here; may be NULL */
	unsigned fields;     /* CMD_* whose settings it takes; 0: none */
	const char *const *useless; /* ... but for these flags; NULL-terminated, may be NULL */
	bool verbs;          /* its first word is a command of its own; settings are for some */
	bool minor;          /* in the list of commands its name alone is said */
	bool permute;        /* options may follow the positional argument */
	enum code_kind code; /* what its positional argument is; CODE_NONE: a command */
	/* Words it takes besides, for completion: one after another, NULL when there is none. */
	const char *(*word)(size_t i);
	/* What may come behind one of them, in the same way; may be NULL. */
	const char *(*word_behind)(const char *word, size_t i);
	/* Does a sandbox come behind this one? May be NULL. */
	bool (*box_behind)(const char *word);
	/* argv[0] is the command's name. Returns the exit status. */
	int (*run)(const struct subcommand *c, int argc, char **argv);
};

extern const struct subcommand *const commands[]; /* NULL-terminated */
extern const struct subcommand cmd_run, cmd_shell, cmd_sh, cmd_exec, cmd_python, cmd_script,
	cmd_plan, cmd_batch, cmd_wrap, cmd_agent, cmd_sandbox, cmd_daemon, cmd_dashboard,
	cmd_doctor, cmd_config, cmd_allow, cmd_init, cmd_learn, cmd_examples, cmd_bundle, cmd_cache,
	cmd_volume, cmd_quarantine, cmd_exposed, cmd_audit, cmd_image, cmd_mcp, cmd_proxy,
	cmd_schema, cmd_completion, cmd_version, cmd_help, cmd_diff, cmd_apply, cmd_discard;
extern const struct subcommand cmd_far, cmd_node; /* not in the table: no words for people */

bool subcommand_takes(const struct subcommand *c, const struct field *f); /* for who lists them */
const struct subcommand *command_by_name(const char *name);
/* A word that the command has no use for: refused, with the nearest of its own. */
int command_refuses(const struct subcommand *c, const char *word, struct err *e);
int command_unknown(const char *name); /* says so, with the nearest one; the exit status */

/* Fills the spec from the options in argv; *rest is the first word that is not one. With permute,
 * positional words are moved to the end and options behind them are taken too. Returns 1 when help
 * was asked for, 2 when all of it. */
int options_parse(const struct subcommand *c, struct spec *s, int argc, char **argv, int *rest,
		  struct err *e);

/* The one option at argv[*at], for a command that has others of its own; *at moves over its value.
 * 1 and 2 as above. */
int options_one(const struct subcommand *c, struct spec *s, int argc, char **argv, int *at,
		struct err *e);

/* The options in a NULL-terminated list, up to the first word that is none, for whoever starts them
 * in another folder: paths in them become absolute. New words are in the arena. */
int options_absolute(struct arena *arena, const struct place *at, char **words, struct err *e);

/* One "KEY=VALUE" of --set. */
int options_set(struct spec *s, const char *text, struct err *e);

/* All layers of settings below the flags, from where this process stands (load.c). */
int cli_load(struct spec *s, struct err *e);
/* The role of an installed bundle: 0; 1: the word is a file or a path. One that is both is refused,
 * and so is a name that is neither. */
int cli_bundle(const char *word, char path[PATH_MAX], struct err *e);
/* The file of a role: one that is there, or that of an installed bundle (NAME, NAME@VERSION). It
 * becomes the spec's --config. */
int cli_role(struct spec *s, const char *word, struct err *e);
/* The same for a reader of the record: a project's file that is refused is left out, and *project
 * says why. Else whoever may write there could keep others from reading what it did. */
int cli_load_reader(struct spec *s, struct err *project, struct err *e);
const char *cli_home(void); /* $HOME where it is a path; else NULL */
int cli_here(char cwd[PATH_MAX], struct err *e);

void help_print(bool all); /* the commands; all: a line for each */
/* "usage: ..."; above: the command that this one belongs to, or NULL. */
void help_usage(const char *above, const struct subcommand *c);
void help_entry(const char *head, const char *text); /* in two columns */
void help_command(const struct subcommand *c);
void help_all(const struct subcommand *c); /* with every setting, by section */

/* As syslog numbers them. */
enum priority { PRIORITY_ERROR = 3, PRIORITY_WARNING, PRIORITY_NOTICE, PRIORITY_INFO };

/* One line on stderr, control bytes replaced. message_print knows the priority by the head: "hint"
 * and "brig: note" have their own, anything else is an error. */
void message_log(enum priority level, const char *head, const char *text);
void message_print(const char *head, const char *text);
/* The same for an answer, on stdout. */
void message_answer(const char *head, const char *text);
void error_print(const struct err *e);

/* Trusts exactly these bytes of the project's file at path; on the record before it counts. */
int allow_bytes(const struct spec *s, const char *path, const char *data, size_t n, struct err *e);

/* The command of the spec many times, by the batch engine: "N" or "N%JOBS" as --array has it. The
 * exit status, or an error. */
int batch_repeat(struct spec *s, const char *array, struct err *e);
/* The same for run, whose words argv has, behind the program's name. The exit status. */
int command_many(char **argv, struct spec *s);
/* `sandbox diff` and `sandbox apply`, with their words: brig-more's. */
int command_changes(int argc, char **argv);
