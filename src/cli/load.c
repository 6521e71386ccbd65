/* SPDX-License-Identifier: Apache-2.0 */
/* cli/load.c - the settings that hold where this process stands. */
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/exposed.h"
#include "base/text/buf.h"
#include "base/text/cleanup.h"
#include "base/text/str.h"
#include "cli/cli.h"
#include "model/dialect/foreign.h"
#include "model/files/bundles.h"
#include "model/files/config.h"

#define INSIDE "/workspace"

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

/* The shell has come here by a link, and shows its name: one that a guest may have made could lead
 * a run that is meant for a folder of the project to any other of the user's. */
static int check_way(const char *cwd, struct err *e)
{
	CLEANUP(buf) struct buf word = BUF_INIT(4 * PATH_MAX);
	const char *way = getenv("PWD");
	struct stat here, there;
	struct err why = { 0 }, step = { 0 };

	if (!way || way[0] != '/' || str_eq(way, cwd) || stat(way, &there) < 0 ||
	    stat(".", &here) < 0 || here.st_ino != there.st_ino || here.st_dev != there.st_dev ||
	    !exposed_path(way, NULL, EXPOSED_LINKS, &why))
		return 0;
	(void)err_set(e, ERR_POLICY, EPERM, "'%.120s' leads here by a link: %.200s", way, why.what);
	buf_put_word(&word, cwd);
	(void)err_hint(&step, "if this is the folder that you mean: cd %s", buf_str(&word));
	exposed_hint(step.hint, &why, e);
	return -e->code;
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

	if (cli_here(cwd, e) < 0 || (!s->workdir && check_way(cwd, e) < 0))
		return -e->code;
	return config_load(s, &at, e);
}

/* What the folder is called inside, where this host has none of that name: pages of other systems
 * write --workdir /workspace and mean the folder one stands in. */
static int mean_inside(struct spec *s, struct err *e)
{
	char cwd[PATH_MAX];
	struct stat st;

	if (s->origin[FIELD_WORKDIR] != ORIGIN_FLAG || !s->workdir || !str_eq(s->workdir, INSIDE) ||
	    lstat(INSIDE, &st) == 0)
		return 0;
	if (cli_here(cwd, e) < 0 || check_way(cwd, e) < 0)
		return -e->code;
	s->workdir = arena_strdup(s->arena, cwd);
	if (!s->workdir)
		return err_nomem(e);
	return foreign_note(s, e, INSIDE " is what the folder is called inside: it is '%s' here",
			    cwd);
}

int cli_load(struct spec *s, struct err *e)
{
	int r = cli_load_reader(s, NULL, e);

	return r < 0 ? r : mean_inside(s, e);
}
