/* SPDX-License-Identifier: Apache-2.0 */
#include "base/files/state.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/bytes/random.h"
#include "base/files/fd.h"
#include "base/text/cleanup.h"

#define IN_HOME "/.local/state/brig"
#define CACHE_IN_HOME "/.cache/brig"
#define DATA_IN_HOME "/.local/share/brig"
#define FOLDER (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

static int make_parents(const char *path)
{
	char part[PATH_MAX];

	for (const char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
		(void)snprintf(part, sizeof(part), "%.*s", (int)(at - path), path);
		if (mkdir(part, 0700) < 0 && errno != EEXIST)
			return -errno;
	}
	return mkdir(path, 0700) < 0 && errno != EEXIST ? -errno : 0;
}

/* Opens a folder, making it, and what is above it, only when it is not there. */
static int open_made(const char *path, int flags)
{
	int fd = open(path, FOLDER | flags);

	if (fd < 0 && errno == ENOENT && make_parents(path) == 0)
		fd = open(path, FOLDER | flags);
	return fd;
}

static bool ours(const struct stat *st, mode_t closed)
{
	return S_ISDIR(st->st_mode) && st->st_uid == geteuid() && !(st->st_mode & closed);
}

/* A folder of our own, or nothing: where others may write, anybody may have been there first.
 * `path` has the base and gets the folder below it. */
static int try_base(const char *sub, bool make, char *path, size_t n)
{
	CLEANUP(fd) int fd = make ? open_made(path, O_PATH) : open(path, FOLDER | O_PATH);
	size_t len = strlen(path);
	struct stat st;
	int below;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -1;
	errno = EACCES;
	if (!ours(&st, 022) || snprintf(path + len, n - len, "/%s", sub) >= (int)(n - len))
		return -1;
	below = openat(fd, sub, FOLDER);
	return below < 0 && errno == ENOENT && make ? open_made(path, 0) : below;
}

/* brig's folder below a base that a variable names, if it names one. */
static int state_below(const char *base, const char *rest, char *path, size_t n)
{
	int len = base && base[0] == '/' ? snprintf(path, n, "%s%s", base, rest) : -1;

	return len >= 0 && (size_t)len < n ? 0 : -ENOENT;
}

/* Where it belongs by the variables. */
static int first_choice(char *path, size_t n)
{
	const char *xdg = getenv("XDG_STATE_HOME");

	if (xdg && xdg[0] == '/')
		return state_below(xdg, "/brig", path, n);
	if (geteuid() == 0)
		return state_below(STATE_OF_ROOT, "", path, n);
	return state_below(getenv("HOME"), IN_HOME, path, n);
}

/* The same for what can be had again. */
static int usual_cache(char *path, size_t n)
{
	return geteuid() == 0 ? state_below(CACHE_OF_ROOT, "", path, n)
			      : state_below(getenv("HOME"), CACHE_IN_HOME, path, n);
}

static int cache_choice(char *path, size_t n)
{
	const char *xdg = getenv("XDG_CACHE_HOME");

	return xdg && xdg[0] == '/' ? state_below(xdg, "/brig", path, n) : usual_cache(path, n);
}

int state_place(int which, const char *listed, char *path, size_t n)
{
	char base[32];

	switch (which) {
	case 0:
		return first_choice(path, n);
	case STATE_SECOND:
		return state_below(getenv("XDG_RUNTIME_DIR"), "/brig", path, n);
	case 2:
		return geteuid() == 0 ? state_below(STATE_OF_ROOT, "", path, n)
				      : state_below(getenv("HOME"), IN_HOME, path, n);
	case STATE_LISTED:
		return state_below(listed, IN_HOME, path, n);
	case 4:
		(void)snprintf(base, sizeof(base), "/run/user/%u", geteuid());
		return state_below(base, "/brig", path, n);
	case STATE_CACHE:
		return cache_choice(path, n);
	case 6:
		return usual_cache(path, n);
	case 7:
		return state_below(listed, CACHE_IN_HOME, path, n);
	default:
		return -ENOENT;
	}
}

/* What the session gave this user alone; a folder that others may enter is not what it should be.
 */
static bool second_is_private(void)
{
	const char *run = getenv("XDG_RUNTIME_DIR");
	struct stat st;

	return run && stat(run, &st) == 0 && ours(&st, 077);
}

/* What says nothing about the place: the next one would be taken for the first by mistake. */
static bool out_of_means(int code)
{
	return code == EMFILE || code == ENFILE || code == ENOMEM;
}

/* The first choice, else the second; -1 when it is (or can be made) in neither. A run comes here
 * more than once: one buffer, so that no page of the stack is touched for the other place. */
static int try_all(const char *sub, bool make, char *path, size_t n)
{
	for (int which = 0; which <= STATE_SECOND; which++) {
		int fd;

		if (state_place(which, NULL, path, n) < 0 ||
		    (which == STATE_SECOND && !second_is_private()))
			continue;
		fd = try_base(sub, make, path, n);
		if (fd >= 0 || out_of_means(errno))
			return fd;
	}
	errno = EACCES;
	return -1;
}

int state_open(const char *sub, char *path, size_t n, struct err *e)
{
	char own[PATH_MAX];
	int fd = try_all(sub, true, path ? path : own, path ? n : sizeof(own));

	if (fd >= 0)
		return fd;
	if (out_of_means(errno))
		return err_sys(e, "cannot open the folder of brig's own state");
	return err_refuse(
		e, ERR_UNAVAILABLE, EACCES,
		"set XDG_STATE_HOME to a folder of your own that nobody else can write to",
		"no folder for brig's own state can be made");
}

int state_find(const char *sub, char *path, size_t n)
{
	char own[PATH_MAX];

	return try_all(sub, false, path ? path : own, path ? n : sizeof(own));
}

#define INSTANCE "instance"

/* Made once; of two that come first the kernel takes one. */
static int make_instance(int folder, struct err *e)
{
	char text[STATE_INSTANCE], draft[64];
	CLEANUP(fd) int fd = -1;
	int r;

	if (random_hex(text, sizeof(text), e) < 0)
		return -e->code;
	(void)snprintf(draft, sizeof(draft), INSTANCE ".%d", getpid());
	fd = openat(folder, draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	r = fd < 0 ? -errno : fd_write_all(fd, text, strlen(text));
	if (r == 0 && linkat(folder, draft, folder, INSTANCE, 0) < 0 && errno != EEXIST)
		r = -errno;
	(void)unlinkat(folder, draft, 0);
	return r < 0 ? err_errno(e, r, "cannot name this state folder") : 0;
}

int state_instance(int folder, char instance[STATE_INSTANCE], struct err *e)
{
	const ssize_t whole = STATE_INSTANCE - 1;
	char text[STATE_INSTANCE + 1];

	if (fd_read_file(folder, INSTANCE, text, sizeof(text)) != whole) {
		if (make_instance(folder, e) < 0)
			return -e->code;
		if (fd_read_file(folder, INSTANCE, text, sizeof(text)) != whole)
			return err_set(e, ERR_INTERNAL, EIO,
				       "cannot read this state folder's name");
	}
	memcpy(instance, text, STATE_INSTANCE);
	return 0;
}

int state_find_at(int which, const char *listed, const char *sub)
{
	char path[PATH_MAX];

	errno = ENOENT;
	return state_place(which, listed, path, sizeof(path)) < 0
		       ? -1
		       : try_base(sub, false, path, sizeof(path));
}

bool state_displaced(char *path, size_t n)
{
	CLEANUP(fd) int used = try_all(".", true, path, n);
	char first[PATH_MAX];
	size_t len;

	if (used < 0)
		return false;
	if (state_place(0, NULL, first, sizeof(first)) < 0)
		return true;
	len = strlen(first);
	return strncmp(path, first, len) != 0 || strcmp(path + len, "/.") != 0;
}

static int try_cache(const char *sub, bool make, char *path, size_t n)
{
	struct stat st;
	int fd;

	path[0] = '\0';
	errno = ENOENT;
	fd = cache_choice(path, n) < 0 ? -1 : try_base(sub, make, path, n);
	if (fd >= 0 && (fstat(fd, &st) < 0 || !ours(&st, 077))) {
		(void)fd_close(fd);
		errno = EACCES;
		return -1;
	}
	return fd;
}

int cache_open(const char *sub, char *path, size_t n, struct err *e)
{
	int fd = try_cache(sub, true, path, n), why = errno;

	if (fd >= 0)
		return fd;
	if (out_of_means(why))
		return err_sys(e, "cannot open brig's cache folder");
	return err_refuse(
		e, ERR_UNAVAILABLE, why,
		"set XDG_CACHE_HOME to a folder of your own that nobody else can write to; "
		"'brig' in it must be no link, and nobody else's",
		"brig's cache folder '%.200s' is not available", path);
}

int cache_find(const char *sub, char *path, size_t n)
{
	return try_cache(sub, false, path, n);
}

static int data_base(char *path, size_t n)
{
	const char *xdg = getenv("XDG_DATA_HOME");

	path[0] = '\0';
	if (xdg && xdg[0] == '/')
		return state_below(xdg, "/brig", path, n);
	return geteuid() == 0 ? state_below("/var/lib", "/brig-data", path, n)
			      : state_below(getenv("HOME"), DATA_IN_HOME, path, n);
}

/* Whoever is inside of root's sandboxes is another user, who has to pass through. */
static void open_to_others(const char *path)
{
	if (geteuid() == 0 && mkdir(path, 0755) == 0)
		(void)chmod(path, 0755);
}

int data_place(const char *sub, char *path, size_t n)
{
	size_t len;

	if (data_base(path, n) < 0)
		return -ENOENT;
	len = strlen(path);
	return snprintf(path + len, n - len, "/%s", sub) < (int)(n - len) ? 0 : -ENOENT;
}

int data_open(const char *sub, char *path, size_t n, struct err *e)
{
	int fd = -1;

	char below_it[PATH_MAX];

	errno = ENOENT;
	if (data_base(path, n) == 0 && data_place(sub, below_it, sizeof(below_it)) == 0) {
		open_to_others(path);
		open_to_others(below_it);
		fd = try_base(sub, true, path, n);
	}
	if (fd >= 0)
		return fd;
	return err_refuse(
		e, ERR_UNAVAILABLE, errno,
		"set XDG_DATA_HOME to a folder of your own that nobody else can write to; "
		"'brig' in it must be no link, and nobody else's",
		"brig's data folder '%.200s' is not available", path);
}
