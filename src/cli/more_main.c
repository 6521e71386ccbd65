/* SPDX-License-Identifier: Apache-2.0 */
/* cli/more_main.c - brig-more: every command, for all of brig that need not start at once. Started
 * by brig with its own words. It knows brig's commands too: help and completion speak of all of
 * them. */
#include "apps/wrap/wrap_agents.h"
#include "base/sys/program.h"
#include "base/text/str.h"
#include "cli/cli_start.h"
#include "daemon/shared/monitor_protocol.h"
#include "daemon/shared/use_main.h"

const struct subcommand *const commands[] = {
	&cmd_run,       &cmd_shell,  &cmd_sh,         &cmd_exec,       &cmd_python,  &cmd_script,
	&cmd_plan,      &cmd_batch,  &cmd_wrap,       &cmd_agent,      &cmd_sandbox, &cmd_daemon,
	&cmd_dashboard, &cmd_init,   &cmd_examples,   &cmd_doctor,     &cmd_config,  &cmd_allow,
	&cmd_bundle,    &cmd_cache,  &cmd_volume,     &cmd_quarantine, &cmd_exposed, &cmd_audit,
	&cmd_image,     &cmd_diff,   &cmd_apply,      &cmd_discard,    &cmd_learn,   &cmd_mcp,
	&cmd_proxy,     &cmd_schema, &cmd_completion, &cmd_version,    &cmd_help,    NULL
};

/* What other tools call it. */
static const struct {
	const char *word, *here;
} elsewhere[] = {
	{ "ps", "brig sandbox list" },
	{ "ls", "brig sandbox list" },
	{ "list", "brig sandbox list" },
	{ "create", "brig sandbox create" },
	{ "start", "brig sandbox create" },
	{ "stop", "brig sandbox stop ID" },
	{ "kill", "brig sandbox stop ID" },
	{ "rm", "brig sandbox delete ID" },
	{ "delete", "brig sandbox delete ID" },
	{ "attach", "brig sandbox exec -t ID -- bash" },
	{ "cp", "brig sandbox cp" },
	{ "logs", "brig sandbox logs ID" },
	{ "build", "brig image build" },
	{ "pull", "brig image" },
	{ "serve", "brig daemon" },
	{ "onboard", "brig init asks and writes the project's settings" },
};

static const char *nearest_command(const char *name)
{
	const char *names[40];
	size_t n = 0;

	for (const struct subcommand *const *c = commands; *c && n < ARRAY_LEN(names) - 1; c++)
		names[n++] = (*c)->name;
	names[n] = NULL;
	return str_nearest(name, names);
}

static void hint_at(const char *name, struct err *e)
{
	static const char *const options[] = { "--version", "--help", NULL };
	const char *near = name[0] == '-' ? str_nearest(name, options) : nearest_command(name);

	for (size_t i = 0; i < ARRAY_LEN(elsewhere); i++)
		if (str_eq(name, elsewhere[i].word)) {
			(void)err_hint(e, "%s; to run a program of that name: brig run -- %s",
				       elsewhere[i].here, name);
			return;
		}
	for (const struct wrap_agent *a = wrap_agents; a->name; a++)
		if (str_eq(name, a->name)) {
			(void)err_hint(e, "brig wrap %s", name);
			return;
		}
	/* A slip of the finger spares the first letter: `brig make` does not mean image. */
	if (near && near[0] == name[0])
		(void)err_hint(e, "did you mean 'brig %s'?", near);
	else if (name[0] == '-')
		(void)err_hint(e, "options stand behind a command: brig run %.60s -- COMMAND",
			       name);
	else
		(void)err_hint(
			e, "brig run -- %.60s ... runs it in a sandbox; brig help lists commands",
			name);
}

int command_unknown(const char *name)
{
	struct err e = { 0 };

	(void)err_set(&e, ERR_USAGE, EINVAL, "unknown %s '%.100s'",
		      name[0] == '-' ? "option" : "command", name);
	hint_at(name, &e);
	error_print(&e);
	return EXIT_BRIG;
}

/* Words that are options, and commands without words for people. */
static const struct subcommand *unlisted(const char *name)
{
	if (str_eq(name, "--version"))
		return &cmd_version;
	if (str_eq(name, "--help") || str_eq(name, "-h") || str_eq(name, "--help=all"))
		return &cmd_help;
	if (str_eq(name, cmd_node.name))
		return &cmd_node;
	return str_eq(name, cmd_far.name) ? &cmd_far : NULL;
}

int command_elsewhere(int argc, char **argv)
{
	const struct subcommand *c;

	if (argc < 2) {
		help_print(false);
		return EXIT_BRIG;
	}
	c = unlisted(argv[1]);
	return c ? c->run(c, argc - 1, argv + 1) : command_unknown(argv[1]);
}

int command_many(char **argv UNUSED, struct spec *s)
{
	struct err e = { 0 };
	int r = batch_repeat(s, s->cli.array, &e);

	if (r >= 0)
		return r;
	error_print(&e);
	return EXIT_BRIG;
}

int main(int argc, char **argv)
{
	if (argc > 1 && str_eq(argv[0], MONITOR_NAME))
		return monitor_main(argc, argv);
	program_is_brig();
	if (argc > 0 && str_eq(argv[0], USE_NAME))
		return use_main(argc, argv);
	return cli_start(argc, argv);
}
