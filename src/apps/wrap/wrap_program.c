/* SPDX-License-Identifier: Apache-2.0 */
#include "apps/wrap/wrap_program.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/exposed.h"
#include "base/text/str.h"
#include "model/settings/paths.h"

static bool is_program(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* The system's programs are inside. */
static bool wrap_program_is_shown(const char *path)
{
	static const char *const places[] = { "/usr/", "/bin/", "/sbin/" };

	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++)
		if (str_starts(path, places[i]))
			return true;
	return false;
}

/* VENV/bin/NAME, which needs what lies beside it. */
static bool venv_of(const char *path, char *out, size_t n)
{
	const char *slash = strrchr(path, '/');
	char mark[PATH_MAX];
	size_t len = (size_t)(slash - path);

	if (len <= 4 || strncmp(slash - 4, "/bin", 4) != 0 ||
	    snprintf(mark, sizeof(mark), "%.*s/pyvenv.cfg", (int)(len - 4), path) >=
		    (int)sizeof(mark) ||
	    access(mark, F_OK) < 0)
		return false;
	(void)snprintf(out, n, "%.*s", (int)(len - 4), path);
	return true;
}

static void what_to_show(struct wrap_program *p)
{
	static const char mark[] = "/node_modules/";
	const char *at = strstr(p->path, mark);

	p->show[0] = '\0';
	if (wrap_program_is_shown(p->path))
		return;
	if (at)
		(void)snprintf(p->show, sizeof(p->show), "%.*s",
			       (int)(at - p->path) + (int)sizeof(mark) - 2, p->path);
	else if (!venv_of(p->path, p->show, sizeof(p->show)))
		memcpy(p->show, p->path, sizeof(p->show));
}

/* `at` is the name in PATH. */
static bool is_guests(const char *at, const struct wrap_program *p)
{
	char cwd[PATH_MAX];
	const char *const also[] = { cwd, NULL };
	struct err why;

	if (!p->show[0])
		return false;
	return !getcwd(cwd, sizeof(cwd)) ||
	       (!path_under(p->show, cwd) && exposed_path(at, also, 0, &why));
}

int wrap_program_find(const char *name, struct wrap_program *ret)
{
	const char *path = getenv("PATH");
	char at[PATH_MAX];

	for (size_t n; path && *path; path += n + (path[n] == ':')) {
		n = strcspn(path, ":");
		if (path[0] != '/' ||
		    snprintf(at, sizeof(at), "%.*s/%s", (int)n, path, name) >= (int)sizeof(at) ||
		    !is_program(at) || !realpath(at, ret->path))
			continue;
		what_to_show(ret);
		if (!is_guests(at, ret))
			return 0;
	}
	return -ENOENT;
}
