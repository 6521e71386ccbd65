/* SPDX-License-Identifier: Apache-2.0 */
/* cli/sandbox/cmd_sandbox.c - "sandbox": long-lived sandboxes, as a client of the daemon. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/str.h"
#include "cli/own_options.h"
#include "cli/sandbox/sandbox_cli.h"

#define BODY_MAX ((size_t)4 << 20)
#define EVENT_MAX ((size_t)16 << 20)
#define QUIET_US                                                                                   \
	150000 /* a running command that says nothing for so long has said what there is           \
		*/

/* Which options a verb takes. */
enum {
	OPT_NAME = 1,
	OPT_LABEL = 2,
	OPT_TIMES = 4,
	OPT_WAIT = 8,
	OPT_EXEC = 16,
	OPT_FOLLOW = 32,
	OPT_GRACE = 64,
	OPT_DRY = 128,
	OPT_STATE = 256,
	OPT_LIMIT = 512,
	OPT_FILES = 1024,
	OPT_SIGNAL = 2048,
	OPT_CHANGES = 4096, /* all words are for another command */
};

struct sandbox_verb_row {
	const char *name, *usage, *help;
	unsigned options;
	int min, max; /* words behind it; max -1: any number */
	verb_fn *run; /* NULL: exec, which has a status of its own */
};

/* ---- the table ---- */

static const struct sandbox_verb_row verbs[] = {
	{ "create",
	  "[OPTION OF run...] [--name NAME] [--label K=V]... [--ttl TIME] [--idle-ttl TIME] "
	  "[--cleanup-ttl TIME] [--restart no|on-failure] [--no-wait]",
	  "make one, print its id when it is ready", OPT_NAME | OPT_LABEL | OPT_TIMES | OPT_WAIT, 0,
	  -1, verb_create },
	{ "list", "[--label K=V]... [--state STATE]", "those there are", OPT_LABEL | OPT_STATE, 0,
	  0, verb_list },
	{ "get", "ID", "one of them: its state and its settings", 0, 1, 1, verb_get },
	{ "exec", "ID [-t] [-e K[=V]] [--cwd DIR] [--timeout TIME] [-d] -- COMMAND [ARG...]",
	  "run a command in it, as brig run does", OPT_EXEC, 2, -1, NULL },
	{ "logs", "ID [EXEC] [--follow]", "what its commands wrote", OPT_FOLLOW, 1, 2, verb_logs },
	{ "execs", "ID", "its commands, how they ended", 0, 1, 1, verb_execs },
	{ "cancel", "ID EXEC... [--signal NAME]", "end a command and all that it started",
	  OPT_SIGNAL, 2, -1, verb_cancel },
	{ "events", "[ID] [--follow] [--since SEQ]", "what happened, one JSON object a line",
	  OPT_FOLLOW, 0, 1, verb_events },
	{ "diff", "ID [OPTION OF diff...] [PATH...]",
	  "what it has changed in its overlay workspace; apply takes that over", OPT_CHANGES, 1, -1,
	  NULL },
	{ "apply", "ID [OPTION OF apply...] [PATH...]", "put what it has changed into the folder",
	  OPT_CHANGES, 1, -1, NULL },
	{ "pause", "ID...", "let its processes stand still", 0, 1, -1, verb_pause },
	{ "resume", "ID...", "continue it, or start it again", 0, 1, -1, verb_resume },
	{ "stop", "ID... [--grace TIME]", "end its processes; HOME and /tmp stay", OPT_GRACE, 1, -1,
	  verb_stop },
	{ "delete", "ID... | --label K=V", "remove it", OPT_LABEL, 0, -1, verb_delete },
	{ "update", "ID [--name NAME] [--label K=V]... [--ttl TIME] [--idle-ttl TIME]",
	  "change its name, labels or times", OPT_NAME | OPT_LABEL | OPT_TIMES, 1, 1, verb_update },
	{ "cp", "[--limit SIZE] SRC DST      (one of them ID:PATH; - is a tar)",
	  "copy files and folders in or out", OPT_LIMIT, 2, 2, verb_cp },
	{ "files", "list|stat|mkdir|remove|watch ID:PATH [-r] | move ID:PATH TO [--force]",
	  "list, stat, mkdir, remove, watch or move", OPT_FILES, 2, 3, verb_files },
	{ "prune", "[--dry-run]", "delete those that stopped or failed", OPT_DRY | OPT_LABEL, 0, 0,
	  verb_prune },
};

/* ---- options ---- */

/* A row without a text is another form of the one before it. */
static const struct {
	const char *option, *arg, *help;
	unsigned needs;
	size_t text;        /* where its value goes; 0: it has none */
	size_t list, count; /* where values are collected */
	size_t flag;
} options[] = {
#define AT(m) offsetof(struct sandbox_asked, m)
#define TEXT(o, n, m, a, h)                                                                        \
	{                                                                                          \
		o, a, h, n, AT(m) + 1, 0, 0, 0                                                     \
	}
#define LIST(o, n, m, c, a, h)                                                                     \
	{                                                                                          \
		o, a, h, n, 0, AT(m) + 1, AT(c), 0                                                 \
	}
#define FLAG(o, n, m, h)                                                                           \
	{                                                                                          \
		o, NULL, h, n, 0, 0, 0, AT(m) + 1                                                  \
	}
	TEXT("--name", OPT_NAME, name, "NAME", "works wherever an id does"),
	LIST("--label", OPT_LABEL, labels, label_count, "K=V",
	     "marks a sandbox, or selects those marked"),
	TEXT("--ttl", OPT_TIMES, ttl, "TIME", "deleted this long after it was made"),
	TEXT("--idle-ttl", OPT_TIMES, idle_ttl, "TIME",
	     "stopped when nothing ran for so long (10m; 0: never)"),
	TEXT("--cleanup-ttl", OPT_WAIT, cleanup_ttl, "TIME",
	     "deleted so long after it has ended (360h; 0: never)"),
	TEXT("--restart", OPT_WAIT, restart, "NAME",
	     "no or on-failure: begin it again when it ends by itself"),
	FLAG("--no-wait", OPT_WAIT, no_wait, "print the id at once"),
	TEXT("--grace", OPT_GRACE, grace, "TIME",
	     "what its processes have from SIGTERM to SIGKILL (5s)"),
	FLAG("--tty", OPT_EXEC, tty, "a terminal of its own"),
	FLAG("-t", OPT_EXEC, tty, NULL),
	LIST("--env", OPT_EXEC, env, env_count, "K[=V]",
	     "a variable of this command; a name alone takes yours"),
	LIST("-e", OPT_EXEC, env, env_count, "K[=V]", NULL),
	TEXT("--cwd", OPT_EXEC, cwd, "DIR", "its folder inside (the workspace)"),
	TEXT("--timeout", OPT_EXEC, timeout, "TIME", "end the command after this long"),
	FLAG("--detach", OPT_EXEC, detach, "print the command's id and do not wait"),
	FLAG("-d", OPT_EXEC, detach, NULL),
	FLAG("--follow", OPT_FOLLOW, follow, "go on as more comes"),
	FLAG("-f", OPT_FOLLOW, follow, NULL),
	TEXT("--since", OPT_FOLLOW, since, "SEQ", "events after this number"),
	TEXT("--state", OPT_STATE, state, "STATE",
	     "those in this state: ready, paused, stopped, failed..."),
	TEXT("--limit", OPT_LIMIT, limit, "SIZE", "most that comes out of the sandbox (16g)"),
	TEXT("--signal", OPT_SIGNAL, signal, "NAME", "send it this in place of an end: INT, USR1"),
	FLAG("--dry-run", OPT_DRY, dry_run, "say which, delete nothing"),
	FLAG("--recursive", OPT_FILES, recursive, "make folders above, remove all below"),
	FLAG("-r", OPT_FILES, recursive, NULL),
	FLAG("--force", OPT_FILES, force, "replace what is there"),
	FLAG("--json", 0, json, "answer in JSON"),
	FLAG("--quiet", 0, quiet, "no notes on stderr"),
	FLAG("--help", 0, help, "print this"),
	FLAG("-h", 0, help, NULL),
#undef AT
#undef TEXT
#undef LIST
#undef FLAG
};

static int set_value(struct sandbox_asked *a, size_t i, const char *value, struct err *e)
{
	const char **list = (const char **)((char *)a + options[i].list - 1);
	size_t *count = (size_t *)((char *)a + options[i].count);

	if (options[i].text) {
		*(const char **)((char *)a + options[i].text - 1) = value;
		return 1;
	}
	if (*count == SANDBOX_WORDS_MAX)
		return err_set(e, ERR_USAGE, E2BIG, "too many times '%s'", options[i].option);
	list[(*count)++] = value;
	return 1;
}

/* 1: it was one of ours; 0: it was not. */
static int cmd_sandbox_own_option(const struct sandbox_verb_row *v, struct sandbox_asked *a,
				  int argc, char **argv, int *at, struct err *e)
{
	for (size_t i = 0; i < ARRAY_LEN(options); i++) {
		size_t n = strlen(options[i].option);
		const char *value = argv[*at][n] == '=' ? argv[*at] + n + 1 : NULL;

		if (strncmp(argv[*at], options[i].option, n) != 0 || (argv[*at][n] && !value) ||
		    (options[i].needs && !(options[i].needs & v->options)))
			continue;
		if (options[i].flag) {
			*(bool *)((char *)a + options[i].flag - 1) = true;
			return 1;
		}
		if (!value && !own_option_follows(argc, argv, *at))
			return err_refuse(e, ERR_USAGE, EINVAL,
					  "brig sandbox COMMAND --help says which",
					  "option '%s' needs a value", options[i].option);
		return set_value(a, i, value ? value : argv[++*at], e);
	}
	return 0;
}

/* create hands on what it does not know: these are options of a run. */
static int cmd_sandbox_parse(const struct sandbox_verb_row *v, int argc, char **argv,
			     struct sandbox_asked *a, struct err *e)
{
	bool own = str_eq(v->name, "create"), last = false;
	int kept = 2, at = 2;

	for (; at < argc; at++) {
		bool option = !last && argv[at][0] == '-' && argv[at][1];
		int r;

		if (!last && str_eq(argv[at], "--")) {
			last = true;
			if (!own)
				continue;
		}
		r = option && !last ? cmd_sandbox_own_option(v, a, argc, argv, &at, e) : 0;
		if (r < 0)
			return r;
		if (r)
			continue;
		if (option && !last && !own && !str_eq(argv[at], "-i"))
			return err_refuse(e, ERR_USAGE, EINVAL,
					  "brig sandbox COMMAND --help lists its options",
					  "sandbox %s does not accept '%.60s'", v->name, argv[at]);
		if (option && !last && !own)
			continue;
		argv[kept++] = argv[at];
		/* What follows the sandbox's name without an option is the command. */
		if (!option && v->options & OPT_EXEC && kept > 3)
			last = true;
	}
	argv[kept] = NULL;
	a->rest = argv + 2;
	a->rest_count = kept - 2;
	if (!a->help && (a->rest_count < v->min || (v->max >= 0 && a->rest_count > v->max)))
		return err_refuse(e, ERR_USAGE, EINVAL,
				  "brig sandbox COMMAND --help lists its options",
				  "usage: brig sandbox %s %s", v->name, v->usage);
	return 0;
}

/* Words of other tools, which are near to none of ours, or to a wrong one. */
static const char *said_elsewhere(const char *name)
{
	static const struct {
		const char *word, *verb;
	} words[] = {
		{ "show", "get" },     { "inspect", "get" },   { "info", "get" },
		{ "status", "get" },   { "ls", "list" },       { "ps", "list" },
		{ "rm", "delete" },    { "remove", "delete" }, { "destroy", "delete" },
		{ "start", "resume" }, { "run", "exec" },      { "shell", "exec" },
		{ "kill", "cancel" },  { "new", "create" },    { "rename", "update" },
	};

	for (size_t i = 0; name && i < ARRAY_LEN(words); i++)
		if (str_eq(words[i].word, name))
			return words[i].verb;
	return NULL;
}

static const struct sandbox_verb_row *verb_by_name(const char *name, struct err *e)
{
	const char *names[ARRAY_LEN(verbs) + 1] = { 0 }, *near;

	for (size_t i = 0; name && i < ARRAY_LEN(verbs); i++) {
		if (str_eq(verbs[i].name, name))
			return &verbs[i];
		names[i] = verbs[i].name;
	}
	near = said_elsewhere(name);
	if (name && !near)
		near = str_nearest(name, names);
	if (name)
		(void)err_set(e, ERR_USAGE, EINVAL, "sandbox does not accept '%.60s'", name);
	else
		(void)err_set(e, ERR_USAGE, EINVAL, "sandbox needs to know what to do");
	if (near)
		(void)err_hint(e, "did you mean 'brig sandbox %s'?", near);
	else
		(void)err_hint(e, "brig sandbox --help lists what it can do");
	return NULL;
}

/* ---- help ---- */

static void help_verb(const struct subcommand *c, const struct sandbox_verb_row *v)
{
	const struct subcommand one = { .name = v->name, .usage = v->usage, .help = v->help };
	char head[64];

	help_usage(c->name, &one);
	(void)printf("\n%s\n\noptions:\n", v->help);
	for (size_t i = 0; i < ARRAY_LEN(options); i++) {
		const char *letter = i + 1 < ARRAY_LEN(options) && !options[i + 1].help
					     ? options[i + 1].option
					     : NULL;

		if (!options[i].help || (options[i].needs && !(options[i].needs & v->options)))
			continue;
		(void)snprintf(head, sizeof(head), "%s%s%s%s%s", letter ? letter : "",
			       letter ? ", " : "", options[i].option, options[i].arg ? " " : "",
			       options[i].arg ? options[i].arg : "");
		(void)printf("  %-22s%s\n", head, options[i].help);
	}
	if (str_eq(v->name, "create"))
		(void)printf("\nIt takes the options of run, too: brig run --help\n");
}

static void cmd_sandbox_more(bool all)
{
	(void)printf("\n");
	for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
		if (all || !str_eq(verbs[i].name, "apply")) /* the line before speaks of it */
			(void)printf("  %-10s%s\n", verbs[i].name, verbs[i].help);
	(void)printf(
		"\nOptions: brig sandbox COMMAND --help; man brig-sandbox. Each takes --json.\n");
}

static int sandbox(const struct subcommand *c, int argc, char **argv)
{
	CLEANUP(daemon_client) struct daemon_client *d = NULL;
	struct sandbox_asked a = { 0 };
	const struct sandbox_verb_row *v;
	struct err e = { 0 };
	int r;

	if (argc > 1 && (str_eq(argv[1], "--help") || str_eq(argv[1], "-h"))) {
		help_command(c);
		return 0;
	}
	v = verb_by_name(argc > 1 ? argv[1] : NULL, &e);
	if (!v) {
		error_print(&e);
		return EXIT_BRIG;
	}
	if (v->options & OPT_CHANGES && argc > 2 && argv[2][0] != '-')
		return command_changes(argc, argv);
	r = cmd_sandbox_parse(v, argc, argv, &a, &e);
	if (r == 0 && a.help) {
		help_verb(c, v);
		return 0;
	}
	if (r == 0)
		r = daemon_client_open(true, &d, &e);
	if (r == 0 && !v->run) {
		r = sandbox_exec(d, a.rest[0], &a, &e);
		if (!e.code)
			return r;
	} else if (r == 0) {
		r = v->run(d, &a, &e);
	}
	if (r == 0)
		return 0;
	error_print(&e);
	return EXIT_BRIG;
}

static const char *cmd_sandbox_word(size_t i)
{
	if (i < ARRAY_LEN(verbs))
		return verbs[i].name;
	i -= ARRAY_LEN(verbs);
	return i < ARRAY_LEN(options) ? options[i].option : NULL;
}

static bool box_behind(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
		if (str_eq(verbs[i].name, name))
			return verbs[i].usage && (str_starts(verbs[i].usage, "ID") ||
						  str_starts(verbs[i].usage, "[ID]"));
	return false;
}

const struct subcommand cmd_sandbox = {
	.name = "sandbox",
	.usage = "COMMAND [OPTION...] [ID]",
	.help = "long-lived sandboxes: create one, run many commands in it",
	.fields = CMD_RUN,
	.more = cmd_sandbox_more,
	.verbs = true,
	.word = cmd_sandbox_word,
	.box_behind = box_behind,
	.run = sandbox,
};
