/* SPDX-License-Identifier: Apache-2.0 */
/* cli/sandbox/sandbox_changes.c - what a long-lived sandbox with an overlay workspace has changed:
 * shown, or applied, while it stands still.
 *
 * One that runs is paused meanwhile. A child does the work, so that whatever ends it, the sandbox
 * goes on. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text/str.h"
#include "cli/sandbox/sandbox_cli.h"
#include "proc/spawn.h"

/* In the child: `brig apply ID ...`, as if that had been said. */
static int speak(const struct subcommand *c, const char *id, int argc, char **argv)
{
	char **words = calloc((size_t)argc + 1, sizeof(*words));
	char name[32], box[64];

	if (!words)
		return EXIT_BRIG;
	(void)snprintf(name, sizeof(name), "%s", c->name);
	(void)snprintf(box, sizeof(box), "%s", id);
	words[0] = name;
	words[1] = box;
	for (int i = 3; i < argc; i++)
		words[i - 1] = argv[i];
	return c->run(c, argc - 1, words);
}

static int in_child(const struct subcommand *c, const char *id, int argc, char **argv)
{
	const struct sigaction ignore = { .sa_handler = SIG_IGN };
	struct sigaction before[2];
	pid_t pid;
	int status;

	(void)fflush(stdout);
	(void)sigaction(SIGINT, &ignore, &before[0]);
	(void)sigaction(SIGHUP, &ignore, &before[1]);
	pid = proc_fork(NULL);
	if (pid == 0) {
		(void)sigaction(SIGINT, &before[0], NULL);
		(void)sigaction(SIGHUP, &before[1], NULL);
		proc_unblock_signals();
		status = speak(c, id, argc, argv);
		(void)fflush(stdout);
		_exit(status);
	}
	status = pid < 0 ? -1 : proc_wait(pid);
	(void)sigaction(SIGINT, &before[0], NULL);
	(void)sigaction(SIGHUP, &before[1], NULL);
	if (status < 0)
		return EXIT_BRIG;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int act_at(struct daemon_client *d, const char *id, const char *more, struct err *e)
{
	CLEANUP(jread) struct jread *v = NULL;
	char target[256];

	return sandbox_target_of(target, id, more, e) < 0
		       ? -e->code
		       : sandbox_ask(d, "POST", target, NULL, &v, e);
}

static int with_it_still(const struct subcommand *c, const char *ref, int argc, char **argv,
			 int *status, struct err *e)
{
	CLEANUP(daemon_client) struct daemon_client *d = NULL;
	CLEANUP(jread) struct jread *v = NULL;
	char target[256], id[64];
	bool runs;

	if (daemon_client_open(true, &d, e) < 0)
		return -e->code;
	if (!daemon_client_local(d))
		return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP, "run it where the daemon runs",
				  "sandbox %s needs the daemon of this machine", c->name);
	if (sandbox_target_of(target, ref, "", e) < 0 ||
	    sandbox_ask(d, "GET", target, NULL, &v, e) < 0)
		return -e->code;
	(void)snprintf(id, sizeof(id), "%s", jread_str(v, "id") ? jread_str(v, "id") : "");
	runs = jread_str(v, "state") && str_eq(jread_str(v, "state"), "ready");
	if (runs && act_at(d, id, "/pause", e) < 0)
		return -e->code;
	*status = in_child(c, id, argc, argv);
	return runs ? act_at(d, id, "/resume", e) : 0;
}

int command_changes(int argc, char **argv)
{
	const struct subcommand *c = str_eq(argv[1], cmd_diff.name) ? &cmd_diff : &cmd_apply;
	struct err e = { 0 };
	int status = EXIT_BRIG;

	if (with_it_still(c, argv[2], argc, argv, &status, &e) == 0)
		return status;
	error_print(&e);
	return EXIT_BRIG;
}
