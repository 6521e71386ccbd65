/* SPDX-License-Identifier: Apache-2.0 */
/* cli/main.c - brig: finds the command and runs it. */
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/num.h"
#include "base/str.h"
#include "cli/cli.h"
#include "daemon/monitor_protocol.h"
#include "daemon/use.h"
#include "doctor/attack.h"
#include "sandbox/manager.h"

#define HEAP_ROOM (256 * 1024)

const struct subcommand *const commands[] = {
	&cmd_run,       &cmd_shell,      &cmd_sh,       &cmd_exec,   &cmd_python,  &cmd_script,
	&cmd_plan,      &cmd_batch,      &cmd_wrap,     &cmd_agent,  &cmd_sandbox, &cmd_daemon,
	&cmd_dashboard, &cmd_init,       &cmd_examples, &cmd_doctor, &cmd_config,  &cmd_allow,
	&cmd_bundle,    &cmd_cache,      &cmd_audit,    &cmd_image,  &cmd_mcp,     &cmd_proxy,
	&cmd_schema,    &cmd_completion, &cmd_version,  &cmd_help,   NULL
};

const struct subcommand *command_by_name(const char *name)
{
	for (const struct subcommand *const *c = commands; *c; c++)
		if (str_eq((*c)->name, name))
			return *c;
	return NULL;
}

int command_unknown(const char *name)
{
	const char *names[40];
	const char *near;
	struct err e = { 0 };
	size_t n = 0;

	for (const struct subcommand *const *c = commands; *c && n < ARRAY_LEN(names) - 1; c++)
		names[n++] = (*c)->name;
	names[n] = NULL;
	near = str_nearest(name, names);
	(void)err_set(&e, ERR_USAGE, EINVAL, "unknown command '%.100s'", name);
	/* A slip of the finger spares the first letter: `brig make` does not mean image. */
	if (near && near[0] == name[0])
		(void)err_hint(&e, "did you mean 'brig %s'?", near);
	else
		(void)err_hint(
			&e, "brig run -- %.60s ... runs it in a sandbox; brig help lists commands",
			name);
	error_print(&e);
	return EXIT_BRIG;
}

/* What was printed must be somewhere: on a full disk nothing succeeds. */
static int printed(int status)
{
	struct err e = { 0 };

	errno = 0;
	if (fflush(stdout) == 0 && !ferror(stdout))
		return status;
	if (errno)
		(void)err_sys(&e, "cannot write to standard output");
	else /* an earlier attempt failed, and what it said is gone */
		(void)err_set(&e, ERR_INTERNAL, EIO, "cannot write to standard output");
	(void)err_hint(&e, "see whether there is space where it goes, and a reader");
	error_print(&e);
	return EXIT_BRIG;
}

/* Tells the library that the running program is brig (backend/bwrap/bwrap_program.c). */
extern const char brig_is_this_program[];
const char brig_is_this_program[] = "brig";

/* Other names of this program: `brigd` means `brig daemon`, `brig-sh` means `brig sh`, for whoever
 * wants one word, and so does `brig-bash`, for those who take no $SHELL without "bash" in its name.
 * A login shell has a hyphen in front. */
static const struct subcommand *by_its_name(const char *called)
{
	const char *slash = called ? strrchr(called, '/') : NULL;
	const char *name = slash ? slash + 1 : called;

	if (!name)
		return NULL;
	if (str_eq(name, "brigd"))
		return &cmd_daemon;
	name += *name == '-';
	return str_eq(name, "brig-sh") || str_eq(name, "brig-bash") ? &cmd_sh : NULL;
}

int main(int argc, char **argv)
{
	const struct sigaction ignore = { .sa_handler = SIG_IGN };
	const struct subcommand *c;
	uint64_t letter;

	if (argc == 3 && str_eq(argv[1], "_inside") && num_count(argv[2], &letter) == 0)
		sandbox_inside((int)letter);

	if (argc > 1 && str_eq(argv[0], MONITOR_NAME))
		return monitor_main(argc, argv);
	if (argc > 0 && str_eq(argv[0], USE_NAME))
		return use_main(argc, argv);
	if (argc > 2 && str_eq(argv[1], "_attack"))
		return attack_inside(argc - 2, argv + 2);
	if (fd_ensure_stdio() < 0)
		return EXIT_BRIG;
	/* Room for a whole run at once, never given back in the middle of it. */
	(void)mallopt(M_TOP_PAD, HEAP_ROOM);
	(void)mallopt(M_TRIM_THRESHOLD, 2 * HEAP_ROOM);
	/* A caller's limit on file sizes is an error with words, not the end of us; the command
	 * has the signal back. */
	(void)sigaction(SIGXFSZ, &ignore, NULL);
	c = by_its_name(argv[0]);
	if (c)
		return printed(c->run(c, argc, argv));
	if (argc < 2) {
		help_print(false);
		return EXIT_BRIG;
	}
	c = str_eq(argv[1], cmd_hold.name)     ? &cmd_hold
	    : str_eq(argv[1], cmd_attach.name) ? &cmd_attach
	    : str_eq(argv[1], cmd_node.name)   ? &cmd_node
					       : command_by_name(argv[1]);
	if (str_eq(argv[1], "--version"))
		c = &cmd_version;
	if (str_eq(argv[1], "--help") || str_eq(argv[1], "-h") || str_eq(argv[1], "--help=all"))
		c = &cmd_help;
	if (c && argc == 3 && str_eq(argv[2], "--help=all") && c != &cmd_sh) {
		help_all(c);
		return printed(0);
	}
	return c ? printed(c->run(c, argc - 1, argv + 1)) : command_unknown(argv[1]);
}
