/* SPDX-License-Identifier: Apache-2.0 */
/* cli/cmd_image.c - "image": fetches an image ahead of the first run that needs it. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "sandbox/manager.h"

static const char *const verbs[] = { "pull" };

static const char *verb(size_t i)
{
	return i < sizeof(verbs) / sizeof(*verbs) ? verbs[i] : NULL;
}

static int usage(const struct subcommand *c)
{
	struct err e = { 0 };

	(void)err_set(&e, ERR_USAGE, EINVAL, "image takes: pull REF");
	(void)err_hint(&e, "usage: brig %s %s", c->name, c->usage);
	error_print(&e);
	return EXIT_BRIG;
}

static int pull(const char *backend, const char *ref, bool as_json)
{
	CLEANUP(buf) struct buf text = BUF_INIT(4096);
	struct err e = { 0 };
	bool told = false;
	int r = sandbox_pull(backend, ref, progress_note, &told, &e);

	progress_clear();
	if (r < 0) {
		error_print(&e);
		return EXIT_BRIG;
	}
	if (as_json)
		json_quote(&text, ref, strlen(ref));
	(void)printf(as_json ? "{\"image\": %s}\n" : "%s\n", as_json ? buf_str(&text) : ref);
	return 0;
}

static int run(const struct subcommand *c, int argc, char **argv)
{
	const char *ref = NULL, *backend = NULL;
	bool as_json = false;

	if (argc > 1 && (str_eq(argv[1], "--help") || str_eq(argv[1], "-h"))) {
		help_command(c);
		return 0;
	}
	if (argc < 2 || !str_eq(argv[1], verbs[0]))
		return usage(c);
	for (int i = 2; i < argc; i++) {
		if (str_eq(argv[i], "--backend") && argv[i + 1])
			backend = argv[++i];
		else if (str_starts(argv[i], "--backend="))
			backend = argv[i] + strlen("--backend=");
		else if (str_eq(argv[i], "--json"))
			as_json = true;
		else if (str_starts(argv[i], "-") || ref)
			return usage(c);
		else
			ref = argv[i];
	}
	return ref ? pull(backend, ref, as_json) : usage(c);
}

const struct subcommand cmd_image = {
	.name = "image",
	.minor = true,
	.usage = "pull REF [--backend docker] [--json]",
	.help = "fetch a container image ahead of the first run",
	.word = verb,
	.run = run,
};
