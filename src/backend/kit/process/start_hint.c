/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/process/start_hint.c - a command that was not found: what its user may do. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/kit/process/start_internal.h"
#include "base/files/home.h"
#include "base/text/str.h"

/* How much of a path to show: its folder of n bytes, or the file alone where that is a folder of
 * the system or somebody's home. */
static size_t part_to_show(const char *path, size_t n)
{
	char folder[PATH_MAX];
	const char *home = getenv("HOME");

	if (snprintf(folder, sizeof(folder), "%.*s", (int)n, path) >= (int)sizeof(folder))
		return strlen(path);
	return n && strchr(path + 1, '/') != path + n && home_kind(folder, home) == HOME_APART
		       ? n
		       : strlen(path);
}

/* Is the folder, the first n bytes of path, above HOME, HOME itself, or ~/.local, where keyrings
 * and brig's own state are beside the programs? */
static bool holds_more(const char *path, size_t n)
{
	const char *home = getenv("HOME");
	size_t len = home ? strlen(home) : 0;

	return home && (strncmp(home, path, n) == 0 ||
			(n == len + strlen("/.local") && strncmp(home, path, len) == 0 &&
			 strncmp(path + len, "/.local", strlen("/.local")) == 0));
}

/* A program at path, in its folder of n bytes: what to show so that it is found, and what it is a
 * link to as well, with all packages beside it if it is one of node's; never all of the home
 * folder. */
static void hint_at_program(const char *path, size_t n, struct err *e)
{
	static const char packages[] = "/node_modules/";
	const char *slash, *at;
	char real[PATH_MAX];
	size_t same = 0;

	if (plan_is_toolchain(path)) {
		(void)err_hint(e, "on the host it is '%s'; --toolchains shows it inside", path);
		return;
	}
	slash = realpath(path, real) ? strrchr(real, '/') : NULL;
	for (size_t i = 0; slash && i <= n && path[i] == real[i]; i++)
		if (path[i] == '/')
			same = i;
	if (!slash || same == n)
		(void)err_hint(e, "on the host it is '%s'; --read %.*s shows it inside", path,
			       (int)part_to_show(path, n), path);
	else if (same && !holds_more(path, same))
		(void)err_hint(e, "on the host it is '%s'; --read %.*s shows it inside", path,
			       (int)same, path);
	else {
		at = strstr(real, packages);
		if (at)
			slash = at + strlen(packages) - 1;
		(void)err_hint(e, "on the host it is '%s'; --read %.*s --read %.*s shows it inside",
			       path, (int)n, path, (int)(slash - real), real);
	}
}

void start_hint(const char *const *argv, const char *set_path, struct err *e)
{
	const char *name = argv[0];
	const char *path = !*name || strchr(name, '/') ? NULL : getenv("PATH");
	char full[PATH_MAX];

	if (str_eq(name, "sudo") || str_eq(name, "doas") || str_eq(name, "pkexec")) {
		(void)err_hint(e, "nobody becomes root inside: install what is needed on the host, "
				  "or run in an image that has it");
		return;
	}
	if (!argv[1] && strpbrk(name, " |;&<>$")) {
		(void)err_hint(e, "a whole command line is for the shell: brig exec '...'");
		return;
	}
	if (name[0] == '/' && access(name, X_OK) == 0 && strlen(name) < sizeof(full)) {
		hint_at_program(name, (size_t)(strrchr(name, '/') - name), e);
		return;
	}
	for (size_t n; path && *path; path += n + (path[n] == ':')) {
		n = strcspn(path, ":");
		if (!n || path[0] != '/' ||
		    snprintf(full, sizeof(full), "%.*s/%s", (int)n, path, name) >=
			    (int)sizeof(full))
			continue;
		if (access(full, X_OK) == 0) {
			if (set_path)
				(void)err_hint(e,
					       "on the host it is '%.200s'; PATH is set to "
					       "'%.100s' inside",
					       full, set_path);
			else
				hint_at_program(full, n, e);
			return;
		}
	}
}
