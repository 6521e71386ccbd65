/* SPDX-License-Identifier: Apache-2.0 */
/* cli/load.c - the settings that hold where this process stands. */
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/cli.h"
#include "model/bundles.h"
#include "model/config.h"

const char *cli_home(void)
{
	const char *h = getenv("HOME");

	return h && h[0] == '/' ? h : NULL;
}

int cli_here(char cwd[PATH_MAX], struct err *e)
{
	if (!getcwd(cwd, PATH_MAX) || cwd[0] != '/') {
		(void)err_sys(e, "the current folder is gone");
		return err_hint(e, "change to one that exists: cd \"$HOME\"");
	}
	return 0;
}

int cli_bundle(const char *word, char path[PATH_MAX], struct err *e)
{
	int r = bundle_role(word, path, e);

	if (r <= 0 || strchr(word, '/') || access(word, F_OK) == 0)
		return r;
	return err_refuse(e, ERR_USAGE, ENOENT,
			  "name a file that is there, or a bundle that brig bundle list shows",
			  "there is no file '%.200s', and no bundle of that name is installed",
			  word);
}

int cli_role(struct spec *s, const char *word, struct err *e)
{
	char path[PATH_MAX];
	int r = cli_bundle(word, path, e);

	if (r < 0)
		return r;
	s->cli.config = arena_strdup(s->arena, r == 0 ? path : word);
	return s->cli.config ? 0 : err_nomem(e);
}

int cli_load_reader(struct spec *s, struct err *project, struct err *e)
{
	char cwd[PATH_MAX];
	struct config_place at = { .cwd = cwd,
				   .home = cli_home(),
				   .file = s->cli.config,
				   .dialect = s->cli.dialect,
				   .environ = environ,
				   .project = project };

	return cli_here(cwd, e) < 0 ? -e->code : config_load(s, &at, e);
}

int cli_load(struct spec *s, struct err *e)
{
	return cli_load_reader(s, NULL, e);
}
