/* SPDX-License-Identifier: Apache-2.0 */
/* cli/apps/cmd_wrap.c - "wrap": a coding agent in a sandbox. It makes a line of `brig run`, and
 * runs that. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "apps/wrap/wrap_branch.h"
#include "apps/wrap/wrap_line.h"
#include "base/text/buf.h"
#include "base/text/str.h"
#include "cli/apps/wrap_list.h"
#include "cli/cli.h"
#include "cli/own_options.h"
#include "cli/run/terminal.h"
#include "model/dialect/credentials.h"
#include "model/known/agent_files.h"
#include "model/known/login_file.h"
#include "model/settings/paths.h"
#include "model/settings/spec_lists.h"

#define LINE_LONGEST ((size_t)1 << 20)

struct wrapping {
	struct spec *spec; /* the options, then all settings; only looked at */
	struct wrap_asked asked;
	const char *branch; /* NULL: none */
	bool list, dry, help, help_all;
};

/* One of its own options at argv[*at]; false: it is one of run's. */
static bool cmd_wrap_own_option(struct wrapping *w, int argc, char **argv, int *at)
{
	const char *word = argv[*at];

	if (str_eq(word, "--list"))
		w->list = true;
	else if (str_eq(word, "--dry-run"))
		w->dry = true;
	else if (str_starts(word, "--branch="))
		w->branch = word + strlen("--branch=");
	else if (str_eq(word, "--branch") && own_option_follows(argc, argv, *at))
		w->branch = argv[++*at];
	else
		return false;
	return true;
}

/* Nobody else's words are taken; but whoever puts brig's own behind the name should hear of it. */
static void note_late_options(const struct wrapping *w)
{
	static const char *const ours[] = { "--allow", "--branch", "--credential", "--dry-run" };
	char text[256];

	for (char *const *word = w->asked.words; *word && !str_eq(*word, "--"); word++)
		for (size_t i = 0; i < ARRAY_LEN(ours); i++) {
			if (!str_eq(*word, ours[i]))
				continue;
			(void)snprintf(
				text, sizeof(text),
				"'%s' goes to %s: options of brig stand before the name, as in "
				"brig wrap %s%s %s",
				ours[i], w->asked.agent->title, ours[i],
				i < ARRAY_LEN(ours) - 1 ? " ..." : "", w->asked.agent->name);
			message_print("brig: note", text);
		}
}

static const char *nearest_agent(const char *word)
{
	const char *names[16] = { NULL };

	for (size_t i = 0; i + 1 < ARRAY_LEN(names) && wrap_agents[i].name; i++)
		names[i] = wrap_agents[i].name;
	return str_nearest(word, names);
}

/* Options, then whom. What follows is for the agent, whatever it looks like. */
static int cmd_wrap_parse(const struct subcommand *c, struct wrapping *w, int argc, char **argv,
			  struct err *e)
{
	struct arena *arena = w->spec->arena;
	int at = 1;

	for (; at < argc && argv[at][0] == '-' && argv[at][1] && !str_eq(argv[at], "--"); at++) {
		int first = at, r;

		if (cmd_wrap_own_option(w, argc, argv, &at))
			continue;
		if (str_eq(argv[at], "--branch"))
			return err_refuse(e, ERR_USAGE, EINVAL, "--branch NAME",
					  "option '--branch' needs a value");
		r = options_one(c, w->spec, argc, argv, &at, e);
		if (r < 0)
			return r;
		w->help |= r > 0;
		w->help_all |= r > 1;
		for (int i = first; i <= at && r == 0; i++)
			if (list_add_string(arena, &w->asked.options, argv[i], e) < 0)
				return -e->code;
	}
	w->asked.words = argv + (at < argc ? at + 1 : argc);
	if (w->list || w->help)
		return 0;
	if (at >= argc || (str_eq(argv[at], "--") && at + 1 >= argc))
		return err_refuse(e, ERR_USAGE, EINVAL,
				  "brig wrap " AGENTS_LISTED
				  "or -- COMMAND; --list says what each gets",
				  "no agent was named");
	if (str_eq(argv[at], "--"))
		return 0;
	w->asked.agent = wrap_agent_find(argv[at]);
	if (w->asked.agent) {
		note_late_options(w);
		return 0;
	}
	(void)err_set(e, ERR_USAGE, EINVAL, "'%.60s' is no agent that brig knows", argv[at]);
	if (nearest_agent(argv[at]))
		return err_hint(e, "did you mean 'brig wrap %s'?", nearest_agent(argv[at]));
	return err_hint(e, AGENTS_LISTED "or anything else: brig wrap [OPTION...] -- %.60s",
			argv[at]);
}

static int find_program(struct wrapping *w, struct wrap_program *p, struct err *e)
{
	const struct wrap_agent *a = w->asked.agent;
	const char *name = a ? a->name : w->asked.words[0];
	char cwd[PATH_MAX];

	if (!name || strchr(name, '/') || spec_other_programs(w->spec) || spec_over_ssh(w->spec))
		return 0;
	if (wrap_program_find(name, p) < 0) {
		if (!a)
			return 0; /* run says so, and what helps */
		return err_refuse(e, ERR_CONFIG, ENOENT, a->install,
				  "%s is not installed: there is no '%s' in your PATH that "
				  "no sandbox could have put there",
				  a->title, a->name);
	}
	/* A single file may be one of many names, and a toolchain's: run finds those. */
	if (!a && str_eq(p->show, p->path))
		return 0;
	w->asked.program = p;
	/* In the workspace it is shown anyway; to show it again would make it read-only. */
	if (!w->branch && getcwd(cwd, sizeof(cwd)) && path_under(p->show, cwd))
		p->show[0] = '\0';
	if (!a && !p->show[0])
		w->asked.program = NULL;
	return 0;
}

static char **argv_of(struct arena *a, const struct strlist *words)
{
	char **argv = arena_alloc(a, (words->n + 2) * sizeof(*argv));

	if (!argv)
		return NULL;
	argv[0] = arena_strdup(a, "run");
	for (size_t i = 0; i < words->n; i++)
		argv[i + 1] = arena_strdup(a, words->v[i]);
	return argv;
}

static int run_line(struct arena *a, const struct strlist *words, struct err *e)
{
	char **argv = argv_of(a, words);

	return argv ? cmd_run.run(&cmd_run, (int)words->n + 1, argv) : err_nomem(e);
}

static void print_line(const struct strlist *words)
{
	CLEANUP(buf) struct buf b = BUF_INIT(LINE_LONGEST);

	buf_puts(&b, "brig run");
	for (size_t i = 0; i < words->n; i++) {
		buf_putc(&b, ' ');
		buf_put_word(&b, words->v[i]);
	}
	(void)printf("%s\n", buf_str(&b));
}

/* The work tree, new or found again; in a dry run the line that would make it. */
static int make_branch(struct wrapping *w, struct wrap_branch *b, struct err *e)
{
	struct strlist words = { 0 };
	char cwd[PATH_MAX];

	if (spec_wrote(w->spec, FIELD_WORKDIR))
		return err_refuse(e, ERR_USAGE, EINVAL, "start it in the repository instead",
				  "--branch and --workdir exclude each other");
	if (cli_here(cwd, e) < 0 || wrap_branch_find(cwd, w->branch, b, e) < 0)
		return -e->code;
	w->asked.workdir = b->folder;
	if (b->there)
		return wrap_branch_check(b, e);
	if (wrap_branch_look(b, e) < 0 || wrap_branch_line(w->spec->arena, b, &words, e) < 0)
		return -e->code;
	if (w->dry) {
		print_line(&words);
		return 0;
	}
	if (wrap_branch_place(b, e) < 0)
		return -e->code;
	if (run_line(w->spec->arena, &words, e) != 0)
		return err_refuse(e, ERR_CONFIG, ECHILD,
				  "git has said why above; another name makes a new branch",
				  "no work tree was made for branch '%s'", b->name);
	return wrap_branch_check(b, e);
}

static void say_branch(const struct wrapping *w, const struct wrap_branch *b)
{
	CLEANUP(buf) struct buf text = BUF_INIT(4 * PATH_MAX);

	if (!w->branch || w->dry || w->spec->cli.quiet)
		return;
	buf_printf(&text, "its work is on branch '%s' in ", b->name);
	buf_put_word(&text, b->folder);
	buf_printf(&text, "; to take it over: git merge %s", b->name);
	wrap_branch_merge(b, &text);
	buf_puts(&text, "; to end it: git worktree remove ");
	buf_put_word(&text, b->folder);
	/* It rewrites the configuration that all runs in this repository have covered. */
	buf_printf(&text, " && git branch -d %s, when no other agent works in this repository",
		   b->name);
	message_print("brig: note", buf_str(&text));
}

/* A login that the agent would have renewed ends with its token. */
static void cmd_wrap_say_end(const struct wrapping *w)
{
	const struct wrap_agent *a = w->asked.agent;
	const char *key = a ? wrap_first_key(a, w->spec) : NULL, *value = key ? getenv(key) : NULL;
	struct credential_spec known;
	char text[256], at[64];
	struct tm tm;
	time_t end;

	if (!key || (value && *value) || w->spec->cli.quiet ||
	    w->spec->origin[FIELD_CREDENTIAL] == ORIGIN_FLAG ||
	    credential_find(&w->spec->credentials, key) ||
	    !credential_known(w->spec->arena, key, &known) || !known.login)
		return;
	end = (time_t)login_file_end(known.login, getenv("HOME"));
	if (!end || !localtime_r(&end, &tm) || !strftime(at, sizeof(at), "%F %H:%M", &tm))
		return;
	(void)snprintf(text, sizeof(text),
		       "the login of '~/%s' ends at %s: a run does not renew it, and %s then says "
		       "that it has to log in",
		       known.login->file, at, a->title);
	message_print("brig: note", text);
}

/* The line names what is missing. */
static void say_keyless(const struct wrapping *w)
{
	const struct wrap_agent *a = w->asked.agent;
	struct err e = { 0 };

	if (!a || w->spec->origin[FIELD_CREDENTIAL] == ORIGIN_FLAG || wrap_first_key(a, w->spec))
		return;
	(void)wrap_no_key(a, &e);
	message_print("brig: note", e.what);
	message_print("hint", e.hint);
}

/* It is typed again, or kept in a script: somewhere else. */
static int make_absolute(const struct wrapping *w, struct strlist *words, struct err *e)
{
	char **v = arena_alloc(w->spec->arena, (words->n + 1) * sizeof(*v));
	char cwd[PATH_MAX];
	const struct place here = { .cwd = cwd, .home = cli_home() };

	if (!v)
		return err_nomem(e);
	memcpy(v, words->v, words->n * sizeof(*v));
	words->v = (const char **)v;
	return cli_here(cwd, e) < 0 || words->n < 2
		       ? -e->code
		       : options_absolute(w->spec->arena, &here, v + 2, e);
}

static int go(struct wrapping *w, struct err *e)
{
	struct wrap_program program;
	struct wrap_branch branch;
	struct strlist words = { 0 };
	int status;

	w->asked.spec = w->spec;
	w->asked.dry = w->dry;
	w->asked.terminal = !spec_wrote(w->spec, FIELD_TTY) && !w->spec->cli.json &&
			    !spec_over_ssh(w->spec) && terminal_is_ours();
	/* Whether it can run at all is asked before anything is made. */
	if (find_program(w, &program, e) < 0 ||
	    wrap_line_make(w->spec->arena, &w->asked, &words, e) < 0 ||
	    (w->branch && make_branch(w, &branch, e) < 0) ||
	    wrap_line_make(w->spec->arena, &w->asked, &words, e) < 0)
		return -e->code;
	if (w->dry && make_absolute(w, &words, e) < 0)
		return -e->code;
	if (w->dry) {
		print_line(&words);
		say_keyless(w);
		return 0;
	}
	cmd_wrap_say_end(w);
	status = run_line(w->spec->arena, &words, e);
	say_branch(w, &branch);
	return status;
}

static int wrap(const struct subcommand *c, int argc, char **argv)
{
	CLEANUP(spec) struct spec *spec = NULL;
	struct wrapping w = { 0 };
	struct err e = { 0 };
	int r;

	spec = spec_new(&e);
	w.spec = spec;
	r = spec ? cmd_wrap_parse(c, &w, argc, argv, &e) : -e.code;
	if (r == 0 && w.help) {
		(w.help_all ? help_all : help_command)(c);
		return 0;
	}
	if (r == 0)
		r = cli_load(spec, &e);
	if (r == 0 && w.list) {
		wrap_list_print(spec, spec->cli.json);
		return 0;
	}
	if (r == 0)
		r = go(&w, &e);
	if (r >= 0)
		return r;
	error_print(&e);
	return EXIT_BRIG;
}

static const char *cmd_wrap_word(size_t i)
{
	static const char *const own[] = { "--branch", "--dry-run", "--list" };

	if (i < ARRAY_LEN(own))
		return own[i];
	return wrap_agents[i - ARRAY_LEN(own)].name;
}

const struct subcommand cmd_wrap = {
	.name = "wrap",
	.usage = "[OPTION...] (" AGENTS_CHOICE "-- COMMAND) [ARG...]",
	.help = "run a coding agent in a sandbox, its key as a placeholder",
	.about = "  --branch NAME     in a git work tree of its own, REPOSITORY.worktrees/NAME\n"
		 "  --dry-run         print the line of brig run that it stands for\n"
		 "  --list [--json]   say what each agent gets, and why\n"
		 "\n"
		 "All options come before the agent's name; what follows it is the agent's own.\n"
		 "An agent has no time limit, a HOME kept for the project, and its vendor's "
		 "hosts.\n",
	.fields = CMD_RUN,
	.word = cmd_wrap_word,
	.run = wrap,
};
