/* SPDX-License-Identifier: Apache-2.0 */
/* cli/cmd_mcp.c - "mcp": tools for a model over the Model Context Protocol, on standard input and
 * output; and the entry for it in other programs' settings. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/str.h"
#include "cli/cli.h"
#include "mcp/host_install.h"
#include "mcp/mcp_stdio.h"

static int open_signals(void)
{
	const struct sigaction ignore = { .sa_handler = SIG_IGN };
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGHUP);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	(void)sigaction(SIGPIPE, &ignore, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* 1: help was printed. */
static int prepare(const struct subcommand *c, struct spec *s, int argc, char **argv, struct err *e)
{
	int rest = 0, r;

	for (int i = 1; i < argc; i++)
		if (str_eq(argv[i], "--http") || str_starts(argv[i], "--http="))
			return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP,
					  "leave it out: the host starts brig mcp itself",
					  "MCP over HTTP is not in this version of brig");
	r = options_parse(c, s, argc, argv, &rest, e);
	if (r > 0) {
		(r > 1 ? help_all : help_command)(c);
		return 1;
	}
	if (r < 0 || cli_load(s, e) < 0)
		return -e->code;
	if (rest < argc)
		return err_refuse(e, ERR_USAGE, EINVAL, "brig mcp --help says what it takes",
				  "mcp does not accept '%.100s'", argv[rest]);
	if (s->command.tty || s->cli.json)
		return err_refuse(e, ERR_USAGE, EINVAL, "leave it out", "mcp has no use for --%s",
				  s->command.tty ? "tty" : "json");
	for (size_t i = 0; i < s->notes.n && !s->cli.quiet; i++)
		message_print("brig: note", s->notes.v[i]);
	return 0;
}

static int serve(const struct subcommand *c, int argc, char **argv, struct err *e)
{
	CLEANUP(spec) struct spec *s = spec_new(e);
	CLEANUP(fd) int signals = -1;
	int r;

	if (!s)
		return -e->code;
	r = prepare(c, s, argc, argv, e);
	if (r != 0)
		return r < 0 ? r : 0;
	if (isatty(STDIN_FILENO) && !s->cli.quiet)
		message_print("brig: note", "this is an MCP server: a host starts it and writes to "
					    "its input; Ctrl-D ends it");
	signals = open_signals();
	return mcp_stdio(s, STDIN_FILENO, STDOUT_FILENO, signals, e);
}

/* ---- install and uninstall ---- */

struct mcp_asked {
	const char *host;
	char **rest; /* what brig mcp is to be started with */
	bool dry, quiet, out;
};

static int unknown_host(const char *name, struct err *e)
{
	char list[200] = "one of:";
	size_t n = strlen(list);

	for (size_t i = 0; host_name(i) && n < sizeof(list); i++)
		n += (size_t)snprintf(list + n, sizeof(list) - n, " %s", host_name(i));
	return name ? err_refuse(e, ERR_USAGE, EINVAL, list, "there is no host '%.60s'", name)
		    : err_refuse(e, ERR_USAGE, EINVAL, list, "no host was named");
}

static int read_words(int argc, char **argv, struct mcp_asked *a, struct err *e)
{
	int i = 2;

	a->out = str_eq(argv[1], "uninstall");
	for (; i < argc && !str_eq(argv[i], "--"); i++) {
		if (str_eq(argv[i], "--dry-run"))
			a->dry = true;
		else if (str_eq(argv[i], "--quiet"))
			a->quiet = true;
		else if (argv[i][0] != '-' && !a->host)
			a->host = argv[i];
		else
			return err_refuse(e, ERR_USAGE, EINVAL,
					  "options of the server stand behind --: brig mcp install "
					  "HOST -- --policy readonly",
					  "%s does not accept '%.100s'", argv[1], argv[i]);
	}
	a->rest = i < argc ? argv + i + 1 : argv + argc;
	return a->out && *a->rest
		       ? err_set(e, ERR_USAGE, EINVAL, "uninstall takes no options of the server")
		       : 0;
}

/* What is written is refused by nobody later: the server's own options are read now. */
static int check_words(const struct subcommand *c, char **words, struct err *e)
{
	CLEANUP(spec) struct spec *s = spec_new(e);
	char *argv[130] = { (char[]){ "mcp" } };
	int n = 1, rest = 0, r;

	if (!s)
		return -e->code;
	for (; words[n - 1]; n++) {
		if (n >= 128)
			return err_set(e, ERR_USAGE, E2BIG, "there are too many options");
		argv[n] = words[n - 1];
	}
	r = options_parse(c, s, n, argv, &rest, e);
	if (r < 0)
		return r;
	return r > 0 || rest < n ? err_set(e, ERR_USAGE, EINVAL, "behind -- stand options alone")
				 : 0;
}

static void say_change(const struct mcp_asked *a, const struct host_change *h)
{
	const char *what = a->out ? "entry 'brig' of" : "entry 'brig' in";

	if (a->quiet)
		return;
	if (!h->changes) {
		(void)printf("%s %s: nothing to do\n", what, h->path);
		return;
	}
	(void)printf("%s %s%s\n", what, h->path,
		     !a->dry  ? a->out ? ": removed" : ": written"
		     : a->out ? ": would be removed"
			      : ": would be written");
	if (!a->out)
		(void)printf("  %s\n", buf_str(&h->entry));
	if (h->there)
		(void)printf("  %s %s\n",
			     a->dry ? "before, a copy of the file would be kept in"
				    : "the file as it was is in",
			     h->backup);
}

static int install(const struct subcommand *c, int argc, char **argv, struct err *e)
{
	struct mcp_asked a = { 0 };
	struct host_change done = { 0 };
	const char *config = getenv("XDG_CONFIG_HOME");
	CLEANUP(mem) char *self = realpath("/proc/self/exe", NULL);
	const struct mcp_host *h;
	int r;

	if (read_words(argc, argv, &a, e) < 0)
		return -e->code;
	h = a.host ? host_by_name(a.host) : NULL;
	if (!h)
		return unknown_host(a.host, e);
	if (check_words(c, a.rest, e) < 0)
		return -e->code;
	if (!cli_home() || !self)
		return err_set(e, ERR_USAGE, ENOENT, self ? "HOME is not set" : "brig has no path");
	r = host_install(h, cli_home(), config && config[0] == '/' ? config : NULL, self,
			 a.out ? NULL : a.rest, a.dry, &done, e);
	if (r == 0)
		say_change(&a, &done);
	buf_done(&done.entry);
	return r;
}

static bool is_verb(int argc, char **argv)
{
	return argc > 1 && (str_eq(argv[1], "install") || str_eq(argv[1], "uninstall"));
}

static int run(const struct subcommand *c, int argc, char **argv)
{
	struct err e = { 0 };
	int r;

	if (is_verb(argc, argv) && argc > 2 &&
	    (str_eq(argv[2], "--help") || str_eq(argv[2], "-h"))) {
		help_command(c);
		return 0;
	}
	r = is_verb(argc, argv) ? install(c, argc, argv, &e) : serve(c, argc, argv, &e);
	if (r == 0)
		return 0;
	error_print(&e);
	return EXIT_BRIG;
}

static const char *words(size_t i)
{
	static const char *const list[] = { "install", "uninstall" };

	return i < ARRAY_LEN(list) ? list[i] : NULL;
}

const struct subcommand cmd_mcp = {
	.name = "mcp",
	.usage = "[OPTION...] | install HOST [--dry-run] [-- OPTION...] | uninstall HOST "
		 "[--dry-run]",
	.help = "serve tools to a model over MCP, on standard input and output",
	.about = "The options, and brig's configuration, are what the model's commands may do; "
		 "nothing that the\nmodel says changes them.\n\n"
		 "  install HOST [--dry-run] [-- OPTION...]\n"
		 "                       put an entry for brig into the settings of claude-code, "
		 "claude-desktop,\n"
		 "                       codex, cursor, gemini, opencode, vscode or windsurf; a "
		 "copy of the file is\n"
		 "                       kept. Options behind -- are those of the server\n"
		 "  uninstall HOST [--dry-run]\n"
		 "                       take it out again\n",
	.fields = CMD_RUN,
	.word = words,
	.run = run,
};
