/* SPDX-License-Identifier: Apache-2.0 */
/* cli/apps/cmd_agent.c - "agent": a conversation with a role's model, whose tools run in sandboxes.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/sys/signals.h"
#include "base/sys/wait.h"
#include "base/text/num.h"
#include "base/text/str.h"
#include "cli/apps/agent_show.h"
#include "cli/cli.h"
#include "cli/own_options.h"
#include "model/dialect/credentials.h"
#include "model/dialect/dialect.h"

#define PROMPT_MAX ((size_t)8 << 20)

enum { EXIT_AGENT = 1, EXIT_INTERRUPTED = 130 };

/* Options that are this command's alone. */
enum agent_option {
	OWN_PROMPT,
	OWN_MODEL,
	OWN_URL,
	OWN_TURNS,
	OWN_TOKENS,
	OWN_COST,
	OWN_PRICE,
	OWN_COUNT
};

static const char *const own_names[OWN_COUNT] = {
	[OWN_PROMPT] = "--prompt",   [OWN_MODEL] = "--model",       [OWN_URL] = "--base-url",
	[OWN_TURNS] = "--max-turns", [OWN_TOKENS] = "--max-tokens", [OWN_COST] = "--max-cost",
	[OWN_PRICE] = "--price",
};

struct agent {
	const char *own[OWN_COUNT];
	const char *resume; /* "": the last one; NULL: not asked for */
	bool yes;
	struct spec *spec;
	struct agent_show show;
	struct chat_history history;
	struct chat_line *line;
	struct tools *tools;
	struct loop *loop;
	struct chat *chat;
	struct chat_prices prices;
	char folder[PATH_MAX];
	int signals;
	bool interactive;
};

/* ---- options ---- */

/* 1: it was one of ours; *at is moved over its value. */
static int cmd_agent_own_option(void *arg, int argc, char **argv, int *at, struct err *e)
{
	struct agent *a = arg;
	const char *word = argv[*at];

	if (str_eq(word, "--yes"))
		return a->yes = true, 1;
	if (str_eq(word, "--resume") || str_starts(word, "--resume="))
		return a->resume = word[8] ? word + 9 : "", 1;
	for (int i = 0; i < OWN_COUNT; i++) {
		const struct own_option o = { "agent", own_names[i],
					      i == OWN_PROMPT ? "-p" : NULL };
		int r = own_option_value(&o, argc, argv, at, &a->own[i], e);

		if (r)
			return r;
	}
	return 0;
}

static int cmd_agent_number(const char *text, const char *name, bool decimal, uint64_t *ret,
			    struct err *e)
{
	if (text && (decimal ? num_milli(text, ret) : num_count(text, ret)) < 0)
		return err_set(e, ERR_USAGE, EINVAL, "%s '%.40s' is not a number", name, text);
	if (text && !*ret)
		return err_set(e, ERR_USAGE, EINVAL, "%s must be above 0", name);
	return 0;
}

static int read_price(struct agent *a, struct err *e)
{
	const char *text = a->own[OWN_PRICE], *colon = text ? strchr(text, ':') : NULL;
	char in[32];

	if (!text)
		return 0;
	(void)snprintf(in, sizeof(in), "%.*s", colon ? (int)(colon - text) : 0, text);
	if (!colon || num_milli(in, &a->prices.in) < 0 ||
	    num_milli(colon + 1, &a->prices.out) < 0 || a->prices.in > 100000000 ||
	    a->prices.out > 100000000)
		return err_refuse(e, ERR_USAGE, EINVAL, "such as --price 2.50:10",
				  "--price '%.40s' is not IN:OUT", text);
	return 0;
}

/* What the command line says is stronger than the role. */
static int override(struct agent *a, struct err *e)
{
	struct chat_spec *c = &a->spec->chat;

	if (a->own[OWN_MODEL])
		c->name = a->own[OWN_MODEL];
	if (a->own[OWN_URL])
		c->base_url = a->own[OWN_URL];
	c->url_given = a->own[OWN_URL] != NULL;
	if (cmd_agent_number(a->own[OWN_TURNS], "--max-turns", false, &c->requests, e) < 0 ||
	    cmd_agent_number(a->own[OWN_TOKENS], "--max-tokens", false, &c->tokens, e) < 0 ||
	    cmd_agent_number(a->own[OWN_COST], "--max-cost", true, &c->cost, e) < 0)
		return -e->code;
	return read_price(a, e);
}

/* They are for the way to the model, too, which is there where the sandboxes have no network. */
static void keep_way(struct spec *s)
{
	static const enum field_id ids[] = { FIELD_EGRESS_RESOLVE, FIELD_EGRESS_ROOTS,
					     FIELD_EGRESS_UPSTREAM_PROXY,
					     FIELD_EGRESS_UPSTREAM_LOGIN, FIELD_EGRESS_DIRECT };

	for (size_t i = 0; i < ARRAY_LEN(ids); i++)
		if (s->origin[ids[i]] == ORIGIN_FLAG)
			s->origin[ids[i]] = ORIGIN_USER;
}

/* 1: help was printed. */
static int cmd_agent_prepare(struct agent *a, const struct subcommand *c, int argc, char **argv,
			     struct err *e)
{
	struct spec *s = a->spec;
	int rest = 0, r;

	if (own_options_take(&argc, argv, cmd_agent_own_option, a, e) < 0)
		return -e->code;
	r = options_parse(c, s, argc, argv, &rest, e);
	if (r > 0) {
		(r > 1 ? help_all : help_command)(c);
		return 1;
	}
	if (r < 0)
		return r;
	if (!argv[rest] || argv[rest + 1] || s->cli.config)
		return err_refuse(e, ERR_USAGE, EINVAL,
				  "brig agent ROLE -p 'What to do'; another conversation than "
				  "the last is --resume=ID",
				  "agent takes one file of a role");
	if (cli_role(s, argv[rest], e) < 0)
		return -e->code;
	if (cli_load(s, e) < 0)
		return -e->code;
	if (s->dialect_used != DIALECT_INITRUNNER)
		return err_refuse(e, ERR_CONFIG, EINVAL,
				  "it begins with 'apiVersion: initrunner/v1' and has spec.model",
				  "'%.100s' is not a role", argv[rest]);
	if (s->command.tty)
		return err_refuse(e, ERR_USAGE, EINVAL, "leave it out",
				  "agent has no use for --tty");
	keep_way(s);
	return override(a, e);
}

/* ---- what is needed ---- */

static int cmd_agent_open_signals(struct err *e)
{
	int fd = signals_open(SIGNALS_END);

	signals_ignore_pipe();
	return fd < 0 ? err_sys(e, "no descriptor for signals") : fd;
}

static void cmd_agent_on_note(void *arg, const char *text)
{
	const struct agent *a = arg;

	if (!a->show.quiet && !a->show.json)
		message_log(PRIORITY_WARNING, "brig", text);
}

/* The model's key is the loop's alone: what runs in a sandbox has no use of it. Where it was the
 * only one that was granted, none is: an empty list of grants would be all of them. */
static void keep_key_away(struct spec *s, const char *key)
{
	size_t kept = 0, granted = 0;

	for (size_t i = 0; i < s->use_credentials.n; i++)
		if (!key || !str_eq(s->use_credentials.v[i], key))
			s->use_credentials.v[granted++] = s->use_credentials.v[i];
	for (size_t i = 0; i < s->credentials.n && (granted || !s->use_credentials.n); i++)
		if (!key || !str_eq(s->credentials.v[i].name, key))
			s->credentials.v[kept++] = s->credentials.v[i];
	s->credentials.n = kept;
	s->use_credentials.n = granted;
}

/* What was agreed to: by trusting the role; or by --base-url, to whose server a stranger's role
 * says which variable is sent. */
static void say_key(const struct agent *a, const char *key)
{
	const struct spec *s = a->spec;
	bool agreed = a->own[OWN_URL] ? s->chat.key && !s->config_trusted : s->config_trusted;
	char text[512];

	if (!key || !s->chat.base_url || a->show.quiet || !agreed ||
	    credential_find(&s->credentials, key))
		return;
	(void)snprintf(text, sizeof(text), "the role has %.60s sent to %.300s", key,
		       s->chat.base_url);
	message_print("brig: note", text);
}

static bool wants_tools(const struct spec *s)
{
	return s->chat.shell || s->chat.python || s->command.code.script_count;
}

static void say_notes(const struct agent *a)
{
	const struct spec *s = a->spec;
	char text[128];

	if (a->show.quiet)
		return;
	for (size_t i = 0; i < s->notes.n; i++)
		message_print("brig: note", s->notes.v[i]);
	for (size_t i = 0; i < s->chat.other.n; i++) {
		(void)snprintf(text, sizeof(text), "the role's tool '%.60s' is not served by brig",
			       s->chat.other.v[i]);
		message_print("brig: note", text);
	}
}

/* 1: there is no sandbox, and that was said. */
static int open_tools(struct agent *a, struct err *e)
{
	if (!wants_tools(a->spec))
		return 0;
	if (loop_new(&a->loop, e) < 0)
		return -e->code;
	if (tools_new(a->loop, a->spec, NULL, &a->tools, e) == 0 && tools_probe(a->tools, e) == 0)
		return 0;
	if (e->kind != ERR_UNAVAILABLE)
		return -e->code;
	agent_panel(fields[FIELD_BACKEND].words[a->spec->backend], e);
	return 1;
}

static int open_all(struct agent *a, struct err *e)
{
	struct chat_with w;
	int r;

	if (chat_line_open(a->spec, cmd_agent_on_note, a, &a->line, e) < 0)
		return -e->code;
	say_key(a, chat_line_key(a->line));
	keep_key_away(a->spec, chat_line_key(a->line));
	r = open_tools(a, e);
	if (r != 0)
		return r;
	if (history_init(&a->history, a->spec->config_file, a->folder, e) < 0 ||
	    (a->resume && history_load(&a->history, *a->resume ? a->resume : NULL, e) < 0))
		return -e->code;
	w = (struct chat_with){ .spec = a->spec,
				.line = a->line,
				.tools = a->tools,
				.loop = a->loop,
				.history = &a->history,
				.prices = a->prices,
				.signals = a->signals,
				.to = agent_listener(&a->show) };
	return chat_new(&w, &a->chat, e);
}

/* ---- prompts ---- */

/* What was said of signals so far is forgotten; true: one of them ends us. */
static bool must_end(int signals)
{
	struct signalfd_siginfo x;
	bool end = false;

	while (read(signals, &x, sizeof(x)) == sizeof(x))
		end |= x.ssi_signo != SIGINT;
	return end;
}

/* A line, or with `all` everything, of standard input. 1: there is none; -EINTR */
static int read_input(struct agent *a, bool all, struct buf *b, struct err *e)
{
	struct pollfd w[] = { { .fd = STDIN_FILENO, .events = POLLIN },
			      { .fd = a->signals, .events = POLLIN } };
	char c[4096];

	for (;;) {
		ssize_t n;

		if (wait_any(w, ARRAY_LEN(w), 0) < 0)
			return err_sys(e, "cannot wait for input");
		if (w[1].revents)
			return err_set(e, ERR_USAGE, EINTR, "interrupted");
		if (!w[0].revents)
			continue;
		n = read(STDIN_FILENO, c, all ? sizeof(c) : 1);
		if (n < 0 && errno != EINTR)
			return err_sys(e, "cannot read the prompt");
		if (n == 0)
			return all || b->len ? 0 : 1;
		if (n > 0)
			buf_add(b, c, (size_t)n);
		if (b->failed)
			return err_set(e, ERR_USAGE, E2BIG, "the prompt is too long");
		if (!all && c[0] == '\n')
			return b->len--, b->data[b->len] = '\0', 0;
	}
}

static bool cmd_agent_is_blank(const char *s)
{
	return !s[strspn(s, " \t\r\n")];
}

/* One prompt; an error of it is told, and is the end of it alone. */
static int cmd_agent_say(struct agent *a, const char *prompt, struct err *e)
{
	int r;

	if (memchr(prompt, '\0', strlen(prompt) + 1) == prompt || cmd_agent_is_blank(prompt))
		return err_refuse(e, ERR_USAGE, EINVAL, "brig agent ROLE -p 'What to do'",
				  "the prompt is empty");
	r = chat_say(a->chat, prompt, e);
	if (a->show.open)
		agent_listener(&a->show).answered(&a->show);
	return r;
}

static int cmd_agent_tell(struct agent *a, int r, struct err *e)
{
	const struct chat_report *report = a->chat ? chat_report(a->chat) : NULL;

	if (a->show.json)
		agent_object(&a->show, a->spec, &a->history, report, r < 0 ? e : NULL);
	if (r < 0) {
		error_print(e);
		return e->code == EINTR                                ? EXIT_INTERRUPTED
		       : e->kind == ERR_USAGE || e->kind == ERR_CONFIG ? EXIT_BRIG
								       : EXIT_AGENT;
	}
	if (report && report->stopped[0]) {
		message_log(PRIORITY_WARNING, "brig: stopped", report->stopped);
		return EXIT_AGENT;
	}
	return 0;
}

static int once(struct agent *a, struct err *e)
{
	CLEANUP(buf) struct buf b = BUF_INIT(PROMPT_MAX);
	const char *prompt = a->own[OWN_PROMPT];
	int r;

	if (!prompt || str_eq(prompt, "-")) {
		if (read_input(a, true, &b, e) < 0)
			return cmd_agent_tell(a, -e->code, e);
		prompt = buf_str(&b);
		if (strlen(prompt) != b.len)
			return cmd_agent_tell(
				a, err_set(e, ERR_USAGE, EINVAL, "the prompt is no text"), e);
	}
	r = cmd_agent_say(a, prompt, e);
	return cmd_agent_tell(a, r, e);
}

/* Line by line, until the input ends. Ctrl-C ends an answer, or at the prompt all of it. */
static int interact(struct agent *a)
{
	int status = 0;

	if (!a->show.quiet)
		message_print("brig: note", "Ctrl-C ends an answer, Ctrl-D the conversation");
	for (;;) {
		CLEANUP(buf) struct buf b = BUF_INIT(PROMPT_MAX);
		struct err e = { 0 };
		int r;

		(void)fputs("> ", stderr);
		r = read_input(a, false, &b, &e);
		if (r != 0) {
			(void)fputs("\n", stderr);
			return r == -EINTR ? EXIT_INTERRUPTED
			       : r < 0     ? cmd_agent_tell(a, r, &e)
					   : status;
		}
		if (cmd_agent_is_blank(buf_str(&b)))
			continue;
		r = cmd_agent_say(a, buf_str(&b), &e);
		status = cmd_agent_tell(a, r, &e);
		if (r == -EINTR && must_end(a->signals))
			return status;
	}
}

/* ---- the command ---- */

static int converse(struct agent *a)
{
	struct err e = { 0 };
	int r = open_all(a, &e), status;

	if (r > 0) {
		if (a->show.json)
			agent_object(&a->show, a->spec, NULL, NULL, &e);
		return EXIT_AGENT;
	}
	if (r < 0)
		return cmd_agent_tell(a, r, &e);
	say_notes(a);
	status = a->interactive ? interact(a) : once(a, &e);
	if (a->history.n && !a->show.quiet && !a->show.json) {
		char text[160];

		(void)snprintf(text, sizeof(text), "--resume=%s goes on with this conversation",
			       a->history.id);
		message_print("brig: note", text);
	}
	return status;
}

static int cmd_agent_run(const struct subcommand *c, int argc, char **argv)
{
	struct agent a = { .signals = -1 };
	struct err e = { 0 };
	int r;

	a.spec = spec_new(&e);
	r = a.spec ? cmd_agent_prepare(&a, c, argc, argv, &e) : -e.code;
	if (r > 0)
		return (void)spec_free(a.spec), 0;
	if (r == 0 && (cli_here(a.folder, &e) < 0 || (a.signals = cmd_agent_open_signals(&e)) < 0))
		r = -e.code;
	if (r < 0) {
		error_print(&e);
		(void)spec_free(a.spec);
		return EXIT_BRIG;
	}
	agent_show_init(&a.show, a.spec->cli.json, a.spec->cli.quiet, a.yes);
	a.interactive = !a.own[OWN_PROMPT] && isatty(STDIN_FILENO) && !a.show.json;
	r = converse(&a);
	(void)chat_free(a.chat);
	(void)tools_free(a.tools);
	(void)loop_free(a.loop);
	(void)chat_line_close(a.line);
	history_done(&a.history);
	agent_show_done(&a.show);
	(void)spec_free(a.spec);
	return r;
}

static const char *cmd_agent_words(size_t i)
{
	static const char *const list[] = { "--prompt",   "--resume",    "--model",
					    "--base-url", "--max-turns", "--max-tokens",
					    "--max-cost", "--price",     "--yes" };

	return i < ARRAY_LEN(list) ? list[i] : NULL;
}

const struct subcommand cmd_agent = {
	.name = "agent",
	.usage = "ROLE [-p PROMPT] [--resume[=ID]] [OPTION...]",
	.help = "let a role's model work, with the role's tools in sandboxes",
	.about =
		"ROLE is an InitRunner role, or the name of an installed bundle: spec.model names\n"
		"the model, spec.tools what it may call, spec.guardrails its bounds. The API key\n"
		"goes to that server alone, through the door. Without -p, prompts are lines of a\n"
		"terminal, or all of the input.\n"
		"\n"
		"  -p, --prompt TEXT    what to do; - reads standard input\n"
		"  --resume[=ID]        go on with a conversation: the last one here, or that one\n"
		"  --model NAME         another model than the role's\n"
		"  --base-url URL       another OpenAI-compatible endpoint\n"
		"  --max-turns N        requests to the model for one prompt\n"
		"  --max-tokens N       tokens of one prompt, both ways\n"
		"  --max-cost USD       needs --price\n"
		"  --price IN:OUT       USD for a million tokens of requests and of answers\n"
		"  --yes                agree to all commands where the role wants somebody "
		"asked\n",
	.exits = "0; 1 a bound was reached, the server failed, or no sandbox works;\n"
		 "125 brig refused before anything was asked; 130 interrupted",
	.letters = "p",
	.fields = CMD_RUN,
	.permute = true,
	.word = cmd_agent_words,
	.run = cmd_agent_run,
};
