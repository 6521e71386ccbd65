/* SPDX-License-Identifier: Apache-2.0 */
#include "base/files/home.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/files/fd.h"
#include "base/text/num.h"

#define PASSWD "/etc/passwd"
#define PASSWD_MAX ((size_t)1 << 20)
#define DEPTH_MAX 512

/* The nth field of a line of n bytes, with its length; NULL: there are fewer. */
static const char *field(const char *line, size_t n, int nth, size_t *len)
{
	const char *end = line + n;

	for (; nth; nth--) {
		line = memchr(line, ':', (size_t)(end - line));
		if (!line)
			return NULL;
		line++;
	}
	*len = 0;
	while (line + *len < end && line[*len] != ':')
		++*len;
	return line;
}

static bool has_uid(const char *line, size_t n, uid_t uid)
{
	char digits[16];
	uint64_t id;
	size_t len;
	const char *at = field(line, n, 2, &len);

	if (!at || len >= sizeof(digits))
		return false;
	memcpy(digits, at, len);
	digits[len] = '\0';
	return num_count(digits, &id) == 0 && id == uid;
}

int home_find(const char *text, uid_t uid, char *path, size_t n)
{
	for (size_t len; *text; text += len + (text[len] == '\n')) {
		const char *home;
		size_t room;

		len = strcspn(text, "\n");
		if (!has_uid(text, len, uid))
			continue;
		home = field(text, len, 5, &room);
		if (!home || !room || home[0] != '/' || room >= n)
			return -ENOENT;
		memcpy(path, home, room);
		path[room] = '\0';
		return 0;
	}
	return -ENOENT;
}

/* A file that is longer than any machine's own is not read: whoever has one uses a directory. */
int home_listed(uid_t uid, char *path, size_t n)
{
	char small[8192];
	CLEANUP(mem) char *large = NULL;
	ssize_t got = fd_read_file(AT_FDCWD, PASSWD, small, sizeof(small));

	if (got < 0)
		return (int)got;
	if ((size_t)got + 1 < sizeof(small))
		return home_find(small, uid, path, n);
	large = malloc(PASSWD_MAX);
	if (!large)
		return -ENOMEM;
	got = fd_read_file(AT_FDCWD, PASSWD, large, PASSWD_MAX);
	return got < 0 ? (int)got : home_find(large, uid, path, n);
}

/* How far above the folder at `path` the object with that identity is; -1: it is not there. Links
 * in the path are followed, and from there on "..": whatever way leads to it, mounts included. */
static int height(const char *path, const struct ident *what)
{
	CLEANUP(fd) int at = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct ident now = { 0 }, last;
	char up[3 * DEPTH_MAX] = "."; /* then "..", "../..", and so on */
	struct stat st;

	for (int n = 0; at >= 0 && n < DEPTH_MAX; n++) {
		if (n == 1)
			memcpy(up, "..", sizeof(".."));
		else if (n > 1)
			memcpy(up + 3 * n - 4, "/..", sizeof("/.."));
		last = now;
		if (fstatat(at, up, &st, 0) < 0)
			return -1;
		now = ident_of(&st);
		if (ident_same(&now, what))
			return n;
		if (n && ident_same(&now, &last))
			return -1; /* the root is above itself */
	}
	return -1;
}

static enum home_kind home_compare(const char *home, const struct ident *what)
{
	int up = height(home, what);

	return up < 0 ? HOME_APART : up ? HOME_CONTAINS : HOME_ITSELF;
}

enum home_kind home_kind(const char *path, const char *home)
{
	enum home_kind kind = HOME_APART;
	char listed[PATH_MAX];
	struct ident what;
	struct stat st;

	if (stat(path, &st) < 0)
		return HOME_APART;
	what = ident_of(&st);
	if (home)
		kind = home_compare(home, &what);
	if (kind == HOME_APART && home_listed(geteuid(), listed, sizeof(listed)) == 0 &&
	    !(home && strcmp(home, listed) == 0))
		kind = home_compare(listed, &what);
	return kind;
}
