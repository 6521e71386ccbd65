/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/plan/plan_programs.c - programs that the user runs by name, in a tree that the
 * command may change.
 *
 * Nothing is refused: whoever lends a folder of tools may mean it. Folders of the caller's PATH are
 * compared by where they really are, and so are the goals of links in them, which is how pipx and
 * its kin put programs there. */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/kit/plan/plan_internal.h"
#include "base/files/folder.h"
#include "model/settings/paths.h"

#define LINKS_MAX 4096 /* looked at, in all folders together */

/* Does a link in that folder lead into the tree? */
static bool link_leads(const char *folder, const char *tree, unsigned *links)
{
	CLEANUP(fd) int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char path[PATH_MAX], real[PATH_MAX];
	const struct fd_entry *en;
	struct folder d;

	if (fd < 0)
		return false;
	folder_begin(&d, fd);
	while (*links && (en = folder_next(&d))) {
		if (en->type != DT_LNK && en->type != DT_UNKNOWN)
			continue;
		(*links)--;
		if (snprintf(path, sizeof(path), "%s/%s", folder, en->name) < (int)sizeof(path) &&
		    realpath(path, real) && path_under(real, tree))
			return true;
	}
	return false;
}

/* The tree is the folder, lies around it, or is a file in it. */
static bool programs_holds(const char *folder, const char *tree, unsigned *links)
{
	struct stat st;

	if (path_under(folder, tree) || link_leads(folder, tree, links))
		return true;
	return path_under(tree, folder) && stat(tree, &st) == 0 && S_ISREG(st.st_mode);
}

int plan_programs(struct box_plan *p, const char *flag, const char *src, struct err *e)
{
	char tree[PATH_MAX], entry[PATH_MAX], folder[PATH_MAX];
	const char *path = getenv("PATH"), *note;
	unsigned links = LINKS_MAX;

	if (!path || !realpath(src, tree))
		return 0;
	for (size_t n; *path; path += n + (path[n] == ':')) {
		n = strcspn(path, ":");
		if (!n || path[0] != '/' || n >= sizeof(entry))
			continue;
		(void)snprintf(entry, sizeof(entry), "%.*s", (int)n, path);
		if (!realpath(entry, folder) || !programs_holds(folder, tree, &links))
			continue;
		note = arena_printf(p->arena,
				    "--%s '%s' can be changed inside, and programs that you run "
				    "are there (PATH has '%s'): the command can replace them; "
				    "--home keep keeps caches apart from yours",
				    flag, src, entry);
		if (!note)
			return err_nomem(e);
		plan_note(p, note);
		return 0;
	}
	return 0;
}
