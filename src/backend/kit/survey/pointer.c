/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/survey/pointer.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/text/str.h"

bool pointer_read(int tree, const char *path, char out[POINTER_MAX])
{
	CLEANUP(fd) int fd = fd_open_nolinks(tree, path, O_RDONLY | O_NONBLOCK, FD_BENEATH);
	char text[POINTER_MAX];
	struct stat st;
	ssize_t n = fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_nlink > 1
			    ? -1
			    : read(fd, text, sizeof(text) - 1);

	if (n <= 0 || n == POINTER_MAX - 1) /* no path is as long */
		return false;
	text[n] = '\0';
	while (n && (text[n - 1] == '\n' || text[n - 1] == '\r'))
		text[--n] = '\0';
	if (!str_starts(text, "gitdir: ") || strlen(text) != (size_t)n || str_has_control(text))
		return false;
	(void)snprintf(out, POINTER_MAX, "%s", text + strlen("gitdir: "));
	return true;
}

static int open_at(int tree, const char *folder)
{
	return *folder ? fd_open_nolinks(tree, folder, O_PATH | O_DIRECTORY, FD_BENEATH)
		       : openat(tree, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
}

int pointer_open(int tree, const char *folder, const char *text)
{
	CLEANUP(fd) int at = open_at(tree, folder);

	return at < 0 ? -ENOENT : fd_open_nolinks(at, text, O_PATH, 0);
}

/* As git would, by links and all. */
static bool goal_of(int tree, const char *path, struct stat *ret)
{
	const char *slash = strrchr(path, '/');
	char folder[PATH_MAX], text[POINTER_MAX];
	CLEANUP(fd) int at = -1, fd = -1;
	struct stat st;

	(void)snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - path) : 0, path);
	at = open_at(tree, folder);
	if (at < 0 || fstatat(at, slash ? slash + 1 : path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	if (S_ISLNK(st.st_mode))
		fd = openat(at, slash ? slash + 1 : path, O_PATH | O_CLOEXEC);
	else if (pointer_read(tree, path, text))
		fd = openat(at, text, O_PATH | O_CLOEXEC);
	return fd >= 0 && fstat(fd, ret) == 0;
}

static bool pointer_name_of(const char *path, char out[PATH_MAX])
{
	return snprintf(out, PATH_MAX, "%s/", path) < PATH_MAX;
}

void pointer_put(struct buf *text, int tree, const char *path, const struct stat *st)
{
	char name[PATH_MAX];
	struct stat goal;

	known_put(text, RECORD_PART, path, st);
	if (goal_of(tree, path, &goal) && pointer_name_of(path, name))
		known_put(text, RECORD_PART, name, &goal);
}

enum pointer_leads pointer_leads(const struct known_list *l, int tree, const char *path)
{
	const struct known_thing *k;
	char name[PATH_MAX];
	struct stat goal;

	if (!goal_of(tree, path, &goal))
		return POINTER_NOWHERE;
	k = pointer_name_of(path, name) ? known_find(l, name) : NULL;
	return k && k->was.ident.dev == goal.st_dev && k->was.ident.ino == goal.st_ino
		       ? POINTER_AS_BEFORE
		       : POINTER_ELSEWHERE;
}
