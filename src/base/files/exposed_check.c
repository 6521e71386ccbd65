/* SPDX-License-Identifier: Apache-2.0 */
/* base/files/exposed_check.c - refuse what guests may have written, with the reason and the way
 * out; first of all brig's own folders. */
#include "base/files/exposed.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "base/files/home.h"
#include "base/files/state.h"
#include "base/text/str.h"

void exposed_hint(const char *hint, const struct err *why, struct err *e)
{
	char first[sizeof(e->hint)];
	bool room = strlen(hint) + strlen(why->hint) + 3 < sizeof(first);

	(void)snprintf(first, sizeof(first), "%s", hint); /* it may be that of *e */
	if (why->hint[0] && room)
		(void)err_hint(e, "%s; %s", first, why->hint);
	else
		(void)err_hint(e, "%s", first);
}

int exposed_check(const char *what, const char *path, const char *const *also, unsigned flags,
		  struct err *e)
{
	struct err why = { 0 };

	if (!exposed_path(path, also, flags, &why))
		return 0;
	if (why.code == ENOMEM)
		return err_nomem(e);
	(void)err_set(e, ERR_POLICY, EPERM, "%.60s '%.120s' is not used: %.180s", what, path,
		      why.what);
	exposed_hint("keep it in a folder that no sandbox may write, such as ~/.config", &why, e);
	return -e->code;
}

/* Is it where every run's guards look, whatever the variables are? */
static bool is_usual(const char *path, const char *listed)
{
	static const int usual[] = { STATE_LISTED, 4, 7 };
	char place[PATH_MAX];

	for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]); i++)
		if (state_place(usual[i], listed, place, sizeof(place)) == 0 && str_eq(path, place))
			return true;
	return geteuid() == 0 && (str_eq(path, STATE_OF_ROOT) || str_eq(path, CACHE_OF_ROOT));
}

int exposed_check_own(struct err *e)
{
	static const struct {
		int which;
		const char *variable;
	} own[] = { { 0, "XDG_STATE_HOME" },
		    { STATE_SECOND, "XDG_RUNTIME_DIR" },
		    { STATE_CACHE, "XDG_CACHE_HOME" } };
	char home[PATH_MAX], path[PATH_MAX];
	const char *listed = home_listed(geteuid(), home, sizeof(home)) == 0 ? home : NULL;

	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
		struct err why = { 0 };

		if (state_place(own[i].which, NULL, path, sizeof(path)) < 0 ||
		    is_usual(path, listed) || !exposed_path(path, NULL, EXPOSED_REACHED, &why))
			continue;
		if (why.code == ENOMEM)
			return err_nomem(e);
		(void)err_set(e, ERR_POLICY, EPERM,
			      "brig's own folder '%.120s' is not used: %.200s", path, why.what);
		return err_hint(e, "let %s name a folder that no sandbox may write, or unset it",
				own[i].variable);
	}
	return 0;
}

/* Whether there is a link is asked of the kernel, and then of the whole path: what is a folder at
 * one look may be a guest's link at the next. */
int exposed_open(const char *path, int flags, struct err *e)
{
	struct err why = { 0 };
	int fd;

	flags |= O_CLOEXEC | (flags & O_PATH ? 0 : O_NONBLOCK | O_NOCTTY);
	fd = fd_open_nolinks(AT_FDCWD, path, flags, 0);
	if (fd == -ELOOP && !exposed_path(path, NULL, 0, &why)) {
		fd = open(path, flags);
		fd = fd < 0 ? -errno : fd;
	} else if (fd == -ELOOP) {
		(void)err_set(e, ERR_POLICY, ELOOP,
			      "'%.150s' is, or passes through, a symbolic link that commands in "
			      "sandboxes may have made",
			      path);
		exposed_hint("name what it leads to, if that is meant", &why, e);
		return -e->code;
	}
	return fd < 0 ? err_errno(e, fd, "cannot open '%.200s'", path) : fd;
}
