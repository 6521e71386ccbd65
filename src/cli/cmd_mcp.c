/* SPDX-License-Identifier: Apache-2.0 */
/* cli/cmd_mcp.c - "mcp": tools for a model over the Model Context Protocol, on standard input and
 * output. */
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/str.h"
#include "cli/cli.h"
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
	int rest = 0, r = options_parse(c, s, argc, argv, &rest, e);

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
	int r = s ? prepare(c, s, argc, argv, e) : -e->code;

	if (r != 0)
		return r < 0 ? r : 0;
	if (isatty(STDIN_FILENO) && !s->cli.quiet)
		message_print("brig: note", "this is an MCP server: a host starts it and writes to "
					    "its input; Ctrl-D ends it");
	signals = open_signals();
	return mcp_stdio(s, STDIN_FILENO, STDOUT_FILENO, signals, e);
}

static int run(const struct subcommand *c, int argc, char **argv)
{
	struct err e = { 0 };

	if (serve(c, argc, argv, &e) == 0)
		return 0;
	error_print(&e);
	return EXIT_BRIG;
}

const struct subcommand cmd_mcp = {
	.name = "mcp",
	.usage = "[OPTION...]",
	.help = "serve tools to a model over MCP, on standard input and output",
	.about = "The options, and brig's configuration, are what the model's commands may do; "
		 "nothing that the\nmodel says changes them.\n",
	.fields = CMD_RUN,
	.run = run,
};
