/* SPDX-License-Identifier: Apache-2.0 */
#include "model/files/trust.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>

#include "base/bytes/sha256.h"
#include "base/files/fd.h"
#include "base/files/state.h"
#include "base/text/buf.h"
#include "base/text/str.h"

#define LIST "trusted"
#define LIST_NEW "trusted.new"
#define LIST_MAX ((size_t)4 << 20)

/* The whole list; empty when there is none yet. */
static int trust_load(int dir, struct buf *ret)
{
	CLEANUP(fd) int fd = openat(dir, LIST, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	char chunk[4096];
	ssize_t n;

	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	while ((n = read(fd, chunk, sizeof(chunk))) > 0)
		buf_add(ret, chunk, (size_t)n);
	return n < 0 ? -errno : ret->failed ? -EFBIG : 0;
}

/* The line at *p without its end, moved over; the path behind the digest, or NULL for no such line.
 */
static const char *trust_next_line(char **p)
{
	char *line = *p, *end = strchr(line, '\n');

	*p = end ? end + 1 : line + strlen(line);
	if (end)
		*end = '\0';
	return strlen(line) > SHA256_HEX + 1 && line[SHA256_HEX - 1] == ' ' ? line + SHA256_HEX + 1
									    : NULL;
}

/* Is it on the list, with this digest or (NULL) with any? */
static bool trust_listed(const char *path, const char *digest)
{
	CLEANUP(buf) struct buf list = BUF_INIT(LIST_MAX);
	CLEANUP(fd) int dir = -1;

	dir = state_find(".", NULL, 0);
	if (dir < 0 || trust_load(dir, &list) < 0 || !list.len)
		return false;
	for (char *p = list.data; *p;) {
		const char *line = p, *at = trust_next_line(&p);

		if (at && str_eq(at, path) &&
		    (!digest || strncmp(line, digest, SHA256_HEX - 1) == 0))
			return true;
	}
	return false;
}

bool trust_has(const char *path, const char *data, size_t n)
{
	char digest[SHA256_HEX];

	sha256_of(data, n, digest);
	return trust_listed(path, digest);
}

bool trust_had(const char *path)
{
	return trust_listed(path, NULL);
}

int trust_hint(const char *what, const char *path, struct err *e)
{
	CLEANUP(buf) struct buf word = BUF_INIT(4 * PATH_MAX);

	buf_put_word(&word, path);
	if (word.len > sizeof(e->hint) - 80)
		return err_hint(e, "read %s, then trust it as it is now: brig allow FILE", what);
	return err_hint(e, "read %s, then trust it as it is now: brig allow %s", what,
			buf_str(&word));
}

/* Written beside and moved over: a reader sees the old list or the new one. */
static int save(int dir, const struct buf *list, struct err *e)
{
	CLEANUP(fd)
	int fd = openat(dir, LIST_NEW, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return err_sys(e, "cannot write the list of trusted files");
	if (list->failed)
		return err_set(e, ERR_INTERNAL, EFBIG, "the list of trusted files is full");
	if (fd_write_all(fd, buf_str(list), list->len) < 0 || fsync(fd) < 0 ||
	    renameat(dir, LIST_NEW, dir, LIST) < 0)
		return err_sys(e, "cannot write the list of trusted files");
	return 0;
}

/* Rewrites the list without `path`, then with `line` when there is one. Returns how many lines
 * went.
 */
static int rewrite(const char *path, const char *digest, struct err *e)
{
	CLEANUP(buf) struct buf old = BUF_INIT(LIST_MAX);
	CLEANUP(buf) struct buf list = BUF_INIT(LIST_MAX);
	CLEANUP(fd) int dir = state_open(".", NULL, 0, e);
	int gone = 0, r;

	if (dir < 0)
		return -e->code;
	(void)flock(dir, LOCK_EX);
	r = trust_load(dir, &old);
	if (r < 0)
		return err_errno(e, r, "cannot read the list of trusted files");
	for (char *p = old.len ? old.data : NULL; p && *p;) {
		const char *line = p, *at = trust_next_line(&p);

		if (at && str_eq(at, path))
			gone++;
		else
			buf_printf(&list, "%s\n", line);
	}
	if (digest)
		buf_printf(&list, "%s  %s\n", digest, path);
	if (!digest && !gone)
		return 0;
	return save(dir, &list, e) < 0 ? -e->code : gone;
}

int trust_add(const char *path, const char *data, size_t n, struct err *e)
{
	char digest[SHA256_HEX];
	int r;

	if (str_has_control(path))
		return err_set(e, ERR_USAGE, EINVAL, "a path with a control character");
	sha256_of(data, n, digest);
	r = rewrite(path, digest, e);
	return r < 0 ? r : 0;
}

int trust_remove(const char *path, struct err *e)
{
	int r = rewrite(path, NULL, e);

	return r > 0 ? 1 : r;
}
