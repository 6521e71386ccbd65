/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/survey/covered.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "backend/kit/survey/gitdirs.h"
#include "base/files/folder.h"
#include "base/text/cleanup.h"
#include "base/text/str.h"

#define DEPTH_MAX 12

static bool is_left_out(const struct covered_look *l, const char *folder, const struct fd_entry *e)
{
	if (str_eq(folder, ".git/hooks"))
		return gitdir_is_sample(e->type, e->name);
	return l->git && str_ends_nocase(folder, "/objects") &&
	       (str_eq(e->name, "pack") ||
		(strspn(e->name, "0123456789abcdef") == 2 && !e->name[2]));
}

static int look_in(struct covered_look *l, const char *folder, int depth)
{
	CLEANUP(fd) int fd = fd_open_nolinks(l->tree, folder, O_RDONLY | O_DIRECTORY, FD_BENEATH);
	const struct fd_entry *en;
	char path[PATH_MAX];
	struct folder d;
	struct stat st;
	int r = 0;

	folder_begin(&d, fd);
	while (fd >= 0 && r == 0 && l->left > 0 && (en = folder_next(&d))) {
		if (is_left_out(l, folder, en) ||
		    snprintf(path, sizeof(path), "%s/%s", folder, en->name) >= (int)sizeof(path) ||
		    fstatat(fd, en->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		l->left--;
		r = l->each(l->ctx, path, &st);
		l->deep |= S_ISDIR(st.st_mode) && depth == DEPTH_MAX;
		if (r == 0 && S_ISDIR(st.st_mode) && depth < DEPTH_MAX)
			r = look_in(l, path, depth + 1);
	}
	return r;
}

int covered_look(struct covered_look *l, const char *folder)
{
	return look_in(l, folder, 1);
}
