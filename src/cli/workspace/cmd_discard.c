/* SPDX-License-Identifier: Apache-2.0 */
/* cli/workspace/cmd_discard.c - "discard": throws away what a run with an overlay workspace wrote.
 */
#include <stdio.h>

#include "base/text/str.h"
#include "cli/workspace/changes_cli.h"

static int discard_one(struct changes_asked *a, bool json, struct err *e)
{
	struct layer l = LAYER_NONE;
	char id[CLAIM_ID + 1];
	int workspace = -1, r;

	/* Its workspace may be gone: what a killed apply took goes back only where it is not. */
	r = changes_open(a, LAYER_ALONE, &l, &workspace, e);
	(void)fd_close(workspace);
	if (r < 0 && a->run && !str_eq(a->run, "last") && e->code != EBUSY)
		r = layer_open(a->run, NULL, LAYER_ALONE, &l, e);
	if (r < 0)
		return r;
	(void)snprintf(id, sizeof(id), "%s", l.about.id);
	if (layer_drop(&l, e) < 0)
		return -e->code;
	(void)printf(json ? "{\"schema\": 1, \"discarded\": \"%s\"}\n"
			  : "discarded what run %s wrote\n",
		     id);
	return 0;
}

static int discard(const struct subcommand *c, int argc, char **argv)
{
	struct changes_asked a = { 0 };
	struct err e = { 0 };
	bool json = false;
	int r = 0;

	for (int i = 1; r == 0 && i < argc; i++) {
		if (str_eq(argv[i], "--help") || str_eq(argv[i], "-h")) {
			help_command(c);
			return 0;
		}
		if (str_eq(argv[i], "--json")) {
			json = true;
			continue;
		}
		r = argv[i][0] == '-' ? command_refuses(c, argv[i], &e)
				      : changes_word(&a, argv[i], &e);
	}
	if (r == 0 && a.path_count)
		r = err_refuse(&e, ERR_USAGE, EINVAL, "brig discard, or brig discard RUN",
			       "'%.100s' is no run's id", a.paths[0]);
	if (r == 0 && discard_one(&a, json, &e) == 0)
		return 0;
	error_print(&e);
	return EXIT_BRIG;
}

static const char *cmd_discard_word(size_t i)
{
	return i == 0 ? "last" : NULL;
}

const struct subcommand cmd_discard = {
	.name = "discard",
	.usage = "[--json] [RUN | last]",
	.help = "throw away what a run with --workspace overlay wrote",
	.about = "  RUN               a run's id, or the beginning of it; else the last run\n"
		 "                    of this folder, or of one above. The workspace is not\n"
		 "                    touched, and what was applied before stays\n"
		 "  --json            the result as JSON\n",
	.exits = "0, or 125 if it failed",
	.word = cmd_discard_word,
	.run = discard,
};
