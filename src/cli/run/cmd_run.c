/* SPDX-License-Identifier: Apache-2.0 */
/* cli/run/cmd_run.c - "run", "exec", "python", "script" and "plan": one command in a fresh sandbox,
 * or what that would mean. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "base/sys/signals.h"
#include "base/text/buf.h"
#include "base/text/num.h"
#include "base/text/str.h"
#include "cli/cli.h"
#include "cli/run/denials.h"
#include "cli/run/near_program.h"
#include "cli/run/run_apply.h"
#include "cli/run/run_parts.h"
#include "cli/run/terminal.h"
#include "cli/settings/config_allow.h"
#include "model/request/code.h"
#include "sandbox/manager.h"
#include "sandbox/image_use.h"
#include "sandbox/recorder.h"

struct ctx {
	brig_manager *manager;
	brig_request *request;
};

static void ctx_done(struct ctx *x)
{
	brig_request_free(x->request);
	brig_manager_free(x->manager);
}

static int ctx_init(struct ctx *x, struct err *e)
{
	x->manager = brig_manager_new();
	x->request = x->manager ? brig_request_new(x->manager) : NULL;
	return x->request ? 0 : err_nomem(e);
}

static void print_json(const brig_result *r)
{
	char *text = brig_result_json(r);

	if (text)
		(void)fputs(text, stdout);
	free(text);
	(void)fflush(stdout);
}

/* For whoever started this brig, e.g. another brig. */
static void report(const struct spec *s, const struct outcome *o)
{
	struct buf b = BUF_INIT((size_t)1 << 30);
	struct json j;

	if (!s->cli.report_fd)
		return;
	json_init(&j, &b, true);
	outcome_json(o, &j);
	buf_putc(&b, '\n');
	if (!b.failed)
		(void)fd_write_all((int)s->cli.report_fd, b.data, b.len);
	buf_done(&b);
}

/* Refused before there was a request to run: the same object, so that --json always prints one. */
static int cmd_run_refused(const struct err *e, const struct spec *s, bool json)
{
	struct outcome *o = json || (s && s->cli.report_fd) ? outcome_new() : NULL;
	struct buf b = BUF_INIT((size_t)1 << 20);
	struct json j;

	if (!s || !s->cli.report_fd)
		error_print(e);
	if (!o)
		return EXIT_BRIG;
	o->kind = OUTCOME_REFUSED;
	o->error = *e;
	if (s)
		report(s, o);
	if (json) {
		json_init(&j, &b, true);
		outcome_json(o, &j);
		(void)printf("%s\n", buf_str(&b));
		buf_done(&b);
	}
	(void)outcome_free(o);
	return EXIT_BRIG;
}

static bool wants_json(int argc, char **argv)
{
	for (int i = 1; i < argc && !str_eq(argv[i], "--"); i++)
		if (str_eq(argv[i], "--json"))
			return true;
	return false;
}

static int cmd_run_usage(const struct subcommand *c, const char *what, struct err *e)
{
	(void)err_set(e, ERR_USAGE, EINVAL, "%s", what);
	return err_hint(e, "usage: brig %s %s", c->name, c->usage);
}

/* The positional words of python and script. */
static int prepare_code(const struct subcommand *c, brig_request *q, int n, char **words,
			struct err *e)
{
	struct spec *s = request_spec(q);
	const char *given = s->command.code.given;

	if (!given && n < 1)
		return cmd_run_usage(c, "no code was given", e);
	if (c->code == CODE_SCRIPT && n > 1)
		return cmd_run_usage(c, "script takes one file", e);
	if (given ? request_code(q, c->code, given, strlen(given), NULL, e) < 0
		  : request_code_file(q, c->code, words[0], e) < 0)
		return -e->code;
	for (int i = given ? 0 : 1; i < n; i++)
		if (code_add_arg(s, words[i], e) < 0)
			return -e->code;
	return 0;
}

/* The line that was typed, with the second opt-in. Code was taken out of the arguments when it was
 * read; a line that does not fit into a hint is nobody's to copy. */
static const char *again(const struct subcommand *c, struct spec *s, char *const *argv)
{
	CLEANUP(buf) struct buf line = BUF_INIT(200);

	buf_printf(&line, "brig %s --i-know-this-is-not-a-sandbox", c->name);
	for (int i = 1; argv[i] && !s->command.code.given; i++) {
		buf_putc(&line, ' ');
		buf_put_word(&line, argv[i]);
	}
	return line.failed || s->command.code.given ? NULL : arena_strdup(s->arena, buf_str(&line));
}

/* The caller's own shell where the host's programs are shown, else the one that is everywhere. */
static int shell_argv(struct spec *s, struct err *e)
{
	static const char *const known[] = { "bash", "zsh", "fish", "dash", "ksh", NULL };
	const char *own = getenv("SHELL"), *name = own ? strrchr(own, '/') : NULL;
	char path[32] = "/bin/sh";

	for (size_t i = 0; name && known[i]; i++) {
		char at[32];

		(void)snprintf(at, sizeof(at), "/usr/bin/%s", known[i]);
		if (str_eq(name + 1, known[i]) && access(at, X_OK) == 0)
			(void)snprintf(path, sizeof(path), "%s", at);
	}
	if (spec_other_programs(s))
		(void)snprintf(path, sizeof(path), "/bin/sh");
	return spec_set_argv(s, 1, (char *[]){ path }, e);
}

/* Every word is the shell's own, options included: nothing of them is read here. As somebody's
 * $SHELL it gets lines that are written for bash. */
static int sh_argv(struct spec *s, int argc, char **argv, struct err *e)
{
	char bash[] = "/usr/bin/bash", sh[] = "/bin/sh";
	char **words = arena_copy_array(s->arena, argv, (size_t)argc + 1, sizeof(*argv));

	if (!words)
		return err_nomem(e);
	words[0] = !spec_other_programs(s) && access(bash, X_OK) == 0 ? bash : sh;
	return spec_set_argv(s, argc, words, e);
}

static bool is_among(const char *word, const char *const *list)
{
	while (*list && !str_eq(*list, word))
		list++;
	return *list;
}

/* What nobody starts at a terminal but to type into it: editors and the like in any case, others
 * without a script or words of their own. */
static bool is_typed_into(const char *const *argv)
{
	static const char *const always[] = { "vi",   "vim",    "nvim", "nano", "emacs",
					      "less", "more",   "view", "top",  "htop",
					      "tmux", "screen", NULL };
	static const char *const alone[] = { "sh",   "bash",    "dash",    "zsh",    "fish",
					     "ksh",  "node",    "python3", "python", "irb",
					     "psql", "sqlite3", "gdb",     "mysql",  "ipython",
					     "ghci", NULL };
	static const char *const still[] = { "-i", "-l", "--login", NULL };
	const char *slash = strrchr(argv[0], '/'), *name = slash ? slash + 1 : argv[0];

	if (is_among(name, always))
		return true;
	for (const char *const *a = argv + 1; *a; a++)
		if (!is_among(*a, still))
			return false;
	return is_among(name, alone);
}

/* Without it a shell on the caller's terminal would be mute. */
static void lend_terminal(struct spec *s)
{
	if (!spec_wrote(s, FIELD_TTY) && !s->cli.json && !s->cli.array && !spec_over_ssh(s) &&
	    s->command.argv && is_typed_into(s->command.argv) && terminal_is_ours())
		s->command.tty = true;
}

static int settle_terminal(const struct subcommand *c, struct spec *s, struct err *e)
{
	if ((c == &cmd_shell || c == &cmd_sh) && !spec_wrote(s, FIELD_TTY))
		s->command.tty = !s->cli.json && !spec_over_ssh(s) && terminal_is_ours();
	if (s->command.tty && s->cli.json)
		return err_refuse(e, ERR_USAGE, EINVAL,
				  "--json captures the output, --tty shows it: leave one "
				  "out",
				  "--tty and --json exclude each other");
	s->command.unattended = s->command.tty && !isatty(STDIN_FILENO);
	/* Whoever is there ends it, and a server is there until somebody does. */
	if (!spec_wrote(s, FIELD_TIMEOUT) && (s->ports.n || (!s->cli.json && isatty(STDIN_FILENO))))
		s->command.timeout = 0;
	return 0;
}

static int sh_help(int argc, char **argv)
{
	return argc == 2 && str_eq(argv[1], "--help");
}

/* Options, the layers below them, then the command; 1 when help was printed. */
static int cmd_run_prepare(const struct subcommand *c, brig_request *q, int argc, char **argv,
			   struct err *e)
{
	struct spec *s = request_spec(q);
	/* As typed: what is parsed is moved about. */
	char **typed = arena_copy_array(s->arena, argv, (size_t)argc + 1, sizeof(*argv));
	int rest = 0,
	    r = c == &cmd_sh ? sh_help(argc, argv) : options_parse(c, s, argc, argv, &rest, e);

	if (r > 0) {
		(r > 1 ? help_all : help_command)(c);
		return 1;
	}
	if (r < 0 || cli_load(s, e) < 0 || settle_terminal(c, s, e) < 0)
		return -e->code;
	if (c == &cmd_sh)
		return sh_argv(s, argc, argv, e);
	while (argv[argc])
		argc++;
	if (typed && !s->full_access_ok && spec_on_host(s))
		s->again = again(c, s, typed);
	if (c->permute)
		for (argc = rest; argv[argc];)
			argc++;
	if (c->code)
		return prepare_code(c, q, argc - rest, argv + rest, e);
	if (c == &cmd_shell)
		return rest < argc ? err_refuse(e, ERR_USAGE, EINVAL,
						"brig exec \"COMMAND LINE\", or brig run -- ...",
						"shell takes no command")
				   : shell_argv(s, e);
	if (rest >= argc && c == &cmd_run && s->image && image_is_here(s->image))
		return image_use_command(s, e);
	if (rest >= argc)
		return cmd_run_usage(c, "no command was given", e);
	if (!c->permute) {
		if (spec_set_argv(s, argc - rest, argv + rest, e) < 0)
			return -e->code;
		if (c == &cmd_run)
			lend_terminal(s);
		return 0;
	}
	if (argc - rest != 1)
		return err_refuse(e, ERR_USAGE, EINVAL, "put it in quotes, or use: brig run -- ...",
				  "%s takes one command line, not %d words", c->name, argc - rest);
	return spec_set_argv(
		s, 4,
		(char *[]){ (char[]){ "/bin/sh" }, (char[]){ "-c" }, (char[]){ "--" }, argv[rest] },
		e);
}

static void say_limit(const struct outcome *o, const struct spec *s)
{
	char text[32], said[128];

	switch (o->kind) {
	case OUTCOME_TIMEOUT:
		num_duration_text(o->timeout_ms, text, sizeof(text));
		if (!outcome_timeout_text(o, said, sizeof(said)))
			(void)snprintf(said, sizeof(said), "Command timed out: it ran for %s",
				       text);
		message_log(PRIORITY_WARNING, "brig", said);
		message_print(
			"hint",
			s->command.unattended
				? "its terminal has nobody who types: leave --tty out, or start "
				  "brig at a terminal"
			: s->network == NETWORK_NONE
				? "raise the limit with --timeout, or see whether it waits for "
				  "something: it had no network (--allow HOST or @GROUP opens one)"
				: "raise the limit with --timeout, or see whether it waits for "
				  "something");
		break;
	case OUTCOME_OOM:
		num_size_text(s->limits.memory, text, sizeof(text));
		(void)snprintf(said, sizeof(said), "out of memory: the run used more than %s",
			       text);
		message_log(PRIORITY_WARNING, "brig", said);
		message_print("hint", "raise it with --memory");
		break;
	case OUTCOME_LIMIT:
		message_log(PRIORITY_WARNING, "brig",
			    o->limits_hit & (1U << LIMIT_DISK)
				    ? "the run went over its limit of disk writes"
				    : "the run went over its limit of processes");
		message_print("hint", o->limits_hit & (1U << LIMIT_DISK) ? "raise it with --disk"
									 : "raise it with --pids");
		break;
	default:
		break;
	}
}

/* brig's words begin a line of their own, below whatever the command has painted. */
static void fresh_line(const struct outcome *o)
{
	bool moved = o->out.moved || o->err.moved;

	if (!isatty(STDERR_FILENO) || !(moved || o->out.mid_line || o->err.mid_line))
		return;
	(void)fputs(moved ? "\r\n\033[J" : "\r\n", stderr);
}

static bool has_words(const struct outcome *o, const struct spec *s)
{
	return o->error.code || o->kind == OUTCOME_TIMEOUT || o->kind == OUTCOME_OOM ||
	       o->kind == OUTCOME_LIMIT ||
	       (!s->cli.quiet &&
		(outcome_denied(o) || o->trust_count || o->hint_count || o->asked_count ||
		 o->layer_changed || (!s->cli.json && (o->out.truncated || o->err.truncated))));
}

static void cmd_run_say_error(const struct outcome *o, const struct spec *s)
{
	const char *name = s->command.argv ? s->command.argv[0] : NULL;
	struct err said = o->error;
	char near[64];

	if (said.kind == ERR_NOT_FOUND && str_starts(said.hint, "correct the name") && name &&
	    !strchr(name, '/') && !spec_other_programs(s) && near_program(name, near, sizeof(near)))
		(void)snprintf(said.hint, sizeof(said.hint),
			       "did you mean '%s'? If not, show what holds it: --read FOLDER",
			       near);
	error_print(&said);
}

void cmd_run_say(const struct outcome *o, const struct spec *s)
{
	if (has_words(o, s))
		fresh_line(o);
	if (o->error.code)
		cmd_run_say_error(o, s);
	else
		say_limit(o, s);
	if (s->cli.quiet)
		return;
	denials_say(o, s->audit.agent);
	if (!s->cli.json && (o->out.truncated || o->err.truncated))
		message_log(PRIORITY_WARNING, "brig", "output was cut at the output limit");
}

static bool output_lost(const struct outcome *o)
{
	const struct {
		const char *name;
		int error;
	} streams[] = { { "output", o->out.lost }, { "error output", o->err.lost } };
	bool any = false;

	for (size_t i = 0; i < ARRAY_LEN(streams); i++) {
		struct err e = { 0 };

		if (!streams[i].error)
			continue;
		errno = streams[i].error;
		(void)err_sys(&e, "the command's %s is not complete: it cannot be written",
			      streams[i].name);
		(void)err_hint(&e, "make room where it goes and run it again");
		error_print(&e);
		any = true;
	}
	return any;
}

void cmd_run_note(void *spec, const char *text)
{
	const struct spec *s = spec;

	if (!s->cli.quiet)
		message_print("brig: note", text);
}

int cmd_run_signals(void)
{
	static const int taken[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH };
	struct sigaction now;
	sigset_t set;

	(void)sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_LEN(taken); i++)
		/* What the caller had ignored, as nohup does, stays ignored. */
		if (sigaction(taken[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
			(void)sigaddset(&set, taken[i]);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	signals_ignore_pipe();
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int on_always(void *arg UNUSED, const char *rule, bool writes, struct buf *diff,
		     struct err *e)
{
	return config_allow(
		&(struct config_allow){ .rule = rule, .dry_run = !writes, .diff = diff }, e);
}

static int execute(struct ctx *x)
{
	CLEANUP(fd) int asks = -1;
	struct spec *s = request_spec(x->request);
	struct terminal t = { 0 };
	brig_result *r = NULL;
	struct brig_error be;
	/* A script's body is what its interpreter reads. */
	int status, in = s->command.code.kind == CODE_SCRIPT ? -1 : 0;

	if (s->cli.json)
		brig_request_stdio(x->request, in, -1, -1);
	else
		brig_request_stdio(x->request, in, 1, 2);
	brig_request_on_note(x->request, cmd_run_note, s);
	request_signals(x->request, cmd_run_signals());
	if (s->egress.ask) {
		asks = terminal_open();
		request_asks(x->request, asks, on_always);
	}
	if (s->command.tty)
		terminal_raw(&t);
	(void)brig_execute(x->request, &r, &be);
	terminal_restore(&t);
	if (!r) {
		message_print("brig", be.what);
		return EXIT_BRIG;
	}
	run_apply_ask(s, result_outcome(r));
	if (!s->cli.report_fd) /* else whoever reads the report says it */
		cmd_run_say(result_outcome(r), s);
	if (s->cli.json)
		print_json(r);
	report(s, result_outcome(r));
	status = brig_result_exit_code(r);
	if (output_lost(result_outcome(r)) && status == 0)
		status = EXIT_BRIG; /* what was asked for is not all there */
	brig_result_free(r);
	return status;
}

static int show_plan(struct ctx *x)
{
	struct brig_error be;
	char *json = NULL;

	if (brig_request_plan(x->request, &json, &be) < 0) {
		message_print("brig", be.what);
		if (be.hint[0])
			message_print("hint", be.hint);
		return EXIT_BRIG;
	}
	(void)printf("%s\n", json);
	free(json);
	return 0;
}

static void say_notes(struct spec *s)
{
	for (size_t i = 0; i < s->notes.n; i++)
		cmd_run_note(s, s->notes.v[i]);
}

static int cmd_run_run(const struct subcommand *c, int argc, char **argv)
{
	struct ctx x = { 0 };
	struct err e = { 0 }, unrecorded = { 0 }; /* it is refused with or without a record */
	bool json = c != &cmd_sh && wants_json(argc, argv), many;
	int r = ctx_init(&x, &e);

	if (r == 0)
		r = cmd_run_prepare(c, x.request, argc, argv, &e);
	many = r == 0 && request_spec(x.request)->cli.array;
	if (r == 0 && !many)
		say_notes(request_spec(x.request));
	if (r < 0 && x.request && c != &cmd_plan)
		(void)recorder_refused(request_spec(x.request), c->name, &e, &unrecorded);
	if (r < 0)
		r = cmd_run_refused(&e, x.request ? request_spec(x.request) : NULL, json);
	else if (r > 0)
		r = 0;
	else
		r = many             ? command_many(argv, request_spec(x.request))
		    : c == &cmd_plan ? show_plan(&x)
				     : execute(&x);
	ctx_done(&x);
	return r;
}

const struct subcommand cmd_run = {
	.name = "run",
	.usage = "[OPTION...] [--] COMMAND [ARG...]",
	.help = "run one command in a fresh sandbox; its streams pass through",
	.fields = CMD_RUN | CMD_ARRAY,
	.run = cmd_run_run,
};

const struct subcommand cmd_shell = {
	.name = "shell",
	.usage = "[OPTION...]",
	.help = "start a shell in a fresh sandbox",
	.fields = CMD_RUN,
	.run = cmd_run_run,
};

const struct subcommand cmd_sh = {
	.name = "sh",
	.minor = true,
	.usage = "[-c LINE | FILE] [ARG...]",
	.help = "be a shell whose commands run in fresh sandboxes, for $SHELL",
	.about = "For $SHELL, as brig-sh or brig-bash. All words are those of bash (of sh, where\n"
		 "there is none). Settings come from files and BRIG_* variables alone.\n",
	.run = cmd_run_run,
};

const struct subcommand cmd_exec = {
	.name = "exec",
	.usage = "[OPTION...] \"COMMAND LINE\"",
	.help = "run a command line with sh -c; options may stand on either side",
	.fields = CMD_EXEC,
	.permute = true,
	.run = cmd_run_run,
};

const struct subcommand cmd_python = {
	.name = "python",
	.usage = "[OPTION...] (FILE | - | -c CODE) [ARG...]",
	.help = "run Python code, shown inside as a read-only file",
	.fields = CMD_PYTHON,
	.permute = true,
	.code = CODE_PYTHON,
	.run = cmd_run_run,
};

const struct subcommand cmd_script = {
	.name = "script",
	.usage = "[OPTION...] [--param NAME=VALUE]... (FILE | -)",
	.help = "feed a script to an interpreter; parameters become variables",
	.fields = CMD_SCRIPT,
	.permute = true,
	.code = CODE_SCRIPT,
	.run = cmd_run_run,
};

const struct subcommand cmd_plan = {
	.name = "plan",
	.minor = true,
	.usage = "[OPTION...] [--] COMMAND [ARG...]",
	.help = "print what run would do, as JSON, and run nothing",
	.fields = CMD_PLAN,
	.run = cmd_run_run,
};
