/* SPDX-License-Identifier: Apache-2.0 */
/* cli/run/cmd_far.c - "_far": what a brig on another host starts here (docs/design/ssh-open.md).
 * Not for people: no help, no options. */
#include <fcntl.h>

#include "cli/cli.h"
#include "far/serve/far_serve.h"

static int cmd_far_run(const struct subcommand *c UNUSED, int argc, char **argv UNUSED)
{
	const struct far_line line = { .from = fcntl(0, F_DUPFD_CLOEXEC, 3),
				       .to = fcntl(1, F_DUPFD_CLOEXEC, 3),
				       .load = cli_load };

	if (argc == 1)
		return far_serve(&line);
	message_print("brig", "'_far' is for another brig to start");
	return EXIT_BRIG;
}

const struct subcommand cmd_far = { .name = "_far", .usage = "", .run = cmd_far_run };
