/* SPDX-License-Identifier: Apache-2.0 */
/* cli/run/cmd_node.c - "_node": what Slurm starts on a node for a brig elsewhere
 * (docs/design/slurm.md). Not for people: no help, no options. */
#include <stdio.h>

#include "base/text/str.h"
#include "cli/cli.h"
#include "far/node/node.h"

static int probe(void)
{
	char line[512];

	node_probe(line, sizeof(line));
	(void)printf("%s\n", line);
	return 0;
}

static int where(const char *path)
{
	char line[256];

	node_where(path, line, sizeof(line));
	(void)printf("%s\n", line);
	return 0;
}

static int cmd_node_run(const struct subcommand *c UNUSED, int argc, char **argv)
{
	if (argc == 1)
		return node_serve(NULL);
	if (argc == 2 && str_eq(argv[1], "probe"))
		return probe();
	if (argc == 3 && str_eq(argv[1], "where"))
		return where(argv[2]);
	if (argc == 2 && argv[1][0] == '/')
		return node_serve(argv[1]);
	/* A job script is executed as "#!brig _node": its own path, then its words. */
	if (argc == 4 && str_eq(argv[2], "task"))
		return node_task(argv[3]);
	message_print("brig", "'_node' is for another brig to start");
	return EXIT_BRIG;
}

const struct subcommand cmd_node = { .name = "_node", .usage = "", .run = cmd_node_run };
