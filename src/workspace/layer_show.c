/* SPDX-License-Identifier: Apache-2.0 */
/* workspace/layer_show.c - one change as text, in the confined process: what git and patch read. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files/fd.h"
#include "workspace/layer_look_internal.h"
#include "workspace/textdiff.h"

#define FILE_FLAGS (O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)

int look_open(int top, const char *path, int flags)
{
	int dir = top, fd = -1;

	for (const char *at = path; *at;) {
		size_t n = strcspn(at, "/");
		char name[NAME_MAX + 1];

		if (!n || n > NAME_MAX)
			fd = -1;
		else {
			memcpy(name, at, n);
			name[n] = '\0';
			fd = openat(dir, name,
				    at[n] ? O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC
					  : flags);
		}
		if (dir != top)
			(void)fd_close(dir);
		if (fd < 0)
			return errno ? -errno : -ENOENT;
		dir = fd;
		at += n + (at[n] != '\0');
	}
	return fd;
}

/* One side of a change, as bytes: those of a file, or where a link leads. */
struct side_bytes {
	char *data; /* the caller frees it */
	size_t len;
	bool large;
};

static int side_link(int top, const char *path, struct side_bytes *ret)
{
	const char *slash = strrchr(path, '/');
	char above[PATH_MAX];
	CLEANUP(fd) int fd = -1;
	ssize_t n;

	(void)snprintf(above, sizeof(above), "%.*s", slash ? (int)(slash - path) : 0, path);
	fd = slash ? look_open(top, above, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
	if (slash && fd < 0)
		return fd;
	ret->data = calloc(1, PATH_MAX);
	if (!ret->data)
		return -ENOMEM;
	n = readlinkat(slash ? fd : top, slash ? slash + 1 : path, ret->data, PATH_MAX);
	ret->len = n > 0 ? (size_t)n : 0;
	return n < 0 ? -errno : 0;
}

static int side_read(int top, const char *path, const struct change_was *w, struct side_bytes *ret)
{
	CLEANUP(fd) int fd = -1;
	ssize_t n;

	*ret = (struct side_bytes){ 0 };
	if (S_ISLNK(w->mode))
		return side_link(top, path, ret);
	if (!S_ISREG(w->mode))
		return 0;
	ret->large = w->size > TEXTDIFF_BYTES;
	if (ret->large)
		return 0;
	fd = look_open(top, path, FILE_FLAGS);
	if (fd < 0)
		return fd;
	ret->data = malloc(TEXTDIFF_BYTES + 1);
	if (!ret->data)
		return -ENOMEM;
	while ((n = pread(fd, ret->data + ret->len, TEXTDIFF_BYTES + 1 - ret->len,
			  (off_t)ret->len)) > 0)
		ret->len += (size_t)n;
	ret->large = ret->len > TEXTDIFF_BYTES;
	return n < 0 ? -errno : 0;
}

/* ---- names ---- */

static bool plain_name(const char *p)
{
	for (; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f || *p == '"' || *p == '\\')
			return false;
	return true;
}

/* As git quotes them: no name can look like a line of its own. */
static void put_name(struct buf *out, const char *prefix, const char *path)
{
	if (plain_name(path)) {
		buf_puts(out, prefix);
		buf_puts(out, path);
		return;
	}
	buf_putc(out, '"');
	buf_puts(out, prefix);
	for (const char *p = path; *p; p++) {
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			buf_printf(out, "\\%03o", (unsigned)(unsigned char)*p);
		else if (*p == '"' || *p == '\\')
			buf_printf(out, "\\%c", *p);
		else
			buf_putc(out, *p);
	}
	buf_putc(out, '"');
}

static void put_side(struct buf *out, const char *mark, const char *prefix, const char *path,
		     bool there)
{
	buf_puts(out, mark);
	if (there)
		put_name(out, prefix, path);
	else
		buf_puts(out, "/dev/null");
	buf_puts(out, there && strchr(path, ' ') ? "\t\n" : "\n");
}

static unsigned git_mode(uint64_t mode)
{
	return S_ISLNK(mode) ? 0120000 : 0100000 | (unsigned)(mode & 0777);
}

/* ---- one change ---- */

static void put_head(struct buf *out, const struct change *c, bool before, bool after)
{
	buf_puts(out, "diff --git ");
	put_name(out, "a/", c->path);
	buf_putc(out, ' ');
	put_name(out, "b/", c->path);
	buf_putc(out, '\n');
	if (!before)
		buf_printf(out, "new file mode %o\n", git_mode(c->now.mode));
	else if (!after)
		buf_printf(out, "deleted file mode %o\n", git_mode(c->was.mode));
	else if ((c->now.mode ^ c->was.mode) & 0777)
		buf_printf(out, "old mode %o\nnew mode %o\n", git_mode(c->was.mode),
			   git_mode(c->now.mode));
}

static void put_body(struct buf *out, const struct change *c, bool before, bool after,
		     const struct buf *hunks)
{
	if (c->text == CHANGE_COUNTED && !hunks->len)
		return;
	if (c->text == CHANGE_COUNTED) {
		put_side(out, "--- ", "a/", c->path, before);
		put_side(out, "+++ ", "b/", c->path, after);
		buf_add(out, hunks->data, hunks->len);
		return;
	}
	buf_puts(out, c->text == CHANGE_BINARY ? "Binary files " : "Large files ");
	put_name(out, "a/", before ? c->path : "dev/null");
	buf_puts(out, " and ");
	put_name(out, "b/", after ? c->path : "dev/null");
	buf_puts(out, " differ\n");
}

/* Both sides, or one of a change of the type. */
static int show_sides(const struct look_want *w, struct change *c, bool before, bool after,
		      struct buf *out)
{
	static const enum change_text texts[] = { [TEXTDIFF_TEXT] = CHANGE_COUNTED,
						  [TEXTDIFF_BINARY] = CHANGE_BINARY,
						  [TEXTDIFF_LARGE] = CHANGE_LARGE };
	struct side_bytes a = { 0 }, b = { 0 };
	struct buf hunks = BUF_INIT(8 * (size_t)TEXTDIFF_BYTES);
	struct textdiff_count count = { 0, 0 };
	int r = before ? side_read(w->workspace, c->path, &c->was, &a) : 0;

	if (r == 0 && after)
		r = side_read(w->upper, c->path, &c->now, &b);
	if (r == 0)
		r = a.large || b.large ? TEXTDIFF_LARGE
				       : textdiff((struct textdiff_side){ a.data, a.len },
						  (struct textdiff_side){ b.data, b.len },
						  out ? &hunks : NULL, &count);
	if (r >= 0) {
		c->text = texts[r];
		c->added += count.added;
		c->removed += count.removed;
	}
	if (r >= 0 && out) {
		put_head(out, c, before, after);
		put_body(out, c, before, after, &hunks);
	}
	free(a.data);
	free(b.data);
	buf_done(&hunks);
	return r < 0 ? r : 0;
}

static void show_line(struct buf *out, const struct change *c, const char *what)
{
	if (!out)
		return;
	buf_puts(out, "Only told: ");
	put_name(out, "", c->path);
	buf_printf(out, " is %s\n", what);
}

static bool has_bytes(uint64_t mode)
{
	return S_ISREG(mode) || S_ISLNK(mode);
}

int look_show(const struct look_want *w, struct change *c, struct buf *out)
{
	const bool before = has_bytes(c->was.mode), after = has_bytes(c->now.mode);
	int r = 0;

	if (c->kind == CHANGE_OTHER) {
		show_line(out, c,
			  before || after || S_ISDIR(c->now.mode)
				  ? "closed: it cannot be read, and is never applied"
				  : "a socket, pipe or device, which is never applied");
		return 0;
	}
	if (S_ISDIR(c->now.mode))
		show_line(out, c,
			  c->kind == CHANGE_MODE ? "a folder with another mode" : "a new folder");
	else if (!after && S_ISDIR(c->was.mode))
		show_line(out, c, "a folder that was removed, with all that is in it");
	if (c->kind == CHANGE_TYPE || !before || !after) {
		if (before)
			r = show_sides(w, c, true, false, out);
		if (r == 0 && after)
			r = show_sides(w, c, false, true, out);
		return r;
	}
	return show_sides(w, c, true, true, out);
}
