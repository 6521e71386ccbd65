/* SPDX-License-Identifier: Apache-2.0 */
/* cli/run/cmd_proxy.c - "proxy": the door alone, on a port of loopback. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/files/fd.h"
#include "base/files/output.h"
#include "base/sys/signals.h"
#include "cli/cli.h"
#include "sandbox/proxy.h"

struct proxy_asked {
	const char *file; /* for the authority; NULL: stdout */
	bool quiet;
};

static int write_authority(const char *path, const char *pem, struct err *e)
{
	struct output to;
	int r;

	if (output_open(path, 0644, &to, e) < 0)
		return -e->code;
	r = fd_write_all(to.fd, pem, strlen(pem));
	if (r == 0)
		return output_keep(&to, e);
	output_drop(&to);
	return err_errno(e, r, "cannot write '%s'", path);
}

static int ready(void *arg, uint16_t port, const char *authority, struct err *e)
{
	const struct proxy_asked *a = arg;

	if (a->file && write_authority(a->file, authority, e) < 0)
		return -e->code;
	(void)printf("http://127.0.0.1:%u\n%s", port, a->file ? "" : authority);
	(void)fflush(stdout);
	return 0;
}

static void denied(void *arg, const char *text)
{
	const struct proxy_asked *a = arg;

	if (!a->quiet)
		message_log(PRIORITY_WARNING, "brig", text);
}

static int cmd_proxy_prepare(const struct subcommand *c, struct spec *s, int argc, char **argv,
			     struct proxy_asked *a, struct err *e)
{
	char *const self[] = { (char[]){ "proxy" } };
	const char *home = cli_home();
	char cwd[PATH_MAX];
	struct place at = { .cwd = cwd, .home = home };
	int rest = 0, r = options_parse(c, s, argc, argv, &rest, e);

	if (r > 0) {
		(r > 1 ? help_all : help_command)(c);
		return 1;
	}
	if (r < 0 || cli_load(s, e) < 0 || cli_here(cwd, e) < 0)
		return -e->code;
	if (argc - rest > 1)
		return err_refuse(e, ERR_USAGE, EINVAL, "usage: brig proxy [OPTION...] [FILE]",
				  "proxy takes one file, not %d words", argc - rest);
	a->file = rest < argc ? argv[rest] : NULL;
	a->quiet = s->cli.quiet;
	if (spec_set_argv(s, 1, self, e) < 0)
		return -e->code;
	return spec_check(s, &at, e);
}

static int cmd_proxy_run(const struct subcommand *c, int argc, char **argv)
{
	struct err e = { 0 };
	CLEANUP(spec) struct spec *s = spec_new(&e);
	CLEANUP(outcome) struct outcome *o = outcome_new();
	CLEANUP(fd) int signals = signals_open(SIGNALS_END);
	struct proxy_asked a = { 0 };
	int r = s && o ? cmd_proxy_prepare(c, s, argc, argv, &a, &e) : err_nomem(&e);

	if (r == 0)
		r = proxy_run(s, environ, -1, signals, ready, denied, &a, o, &e);
	if (r < 0)
		error_print(&e);
	return r < 0 ? EXIT_BRIG : 0;
}

const struct subcommand cmd_proxy = {
	.name = "proxy",
	.minor = true,
	.usage = "[OPTION...] [FILE]",
	.help = "run the filtering proxy alone, on loopback",
	.about = "Prints its address, writes the certificate that clients must trust to FILE (or\n"
		 "prints it), and serves HTTP CONNECT, plain HTTP and SOCKS5 until interrupted.\n"
		 "Only what uses the proxy is held.\n",
	.exits = "0 interrupted; 125 brig failed or refused",
	.fields = CMD_PROXY,
	.run = cmd_proxy_run,
};
