/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/plan/plan_search.c - looks through folders of the host, shallow ones first, for what
 * is neither file nor folder. What is mounted below is another tree. */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "backend/kit/plan/plan_internal.h"
#include "base/files/folder.h"
#include "base/text/buf.h"
#include "base/text/str.h"

#define QUEUE_MAX ((size_t)4 << 20)

static bool is_mount_point(const struct folder_search *s, const char *real)
{
	for (size_t i = 0; i < s->mounts->n; i++)
		if (str_eq(s->mounts->v[i].point, real))
			return true;
	return false;
}

/* A folder of a tree: `rest` is its path below the top. */
static bool plan_search_below(const struct where *top, const char *rest, struct where *ret,
			      char path[PATH_MAX], char real[PATH_MAX])
{
	*ret = (struct where){ .dev = top->dev, .path = path, .real = real };
	return snprintf(path, PATH_MAX, "%s%s", str_eq(top->path, "/") && *rest ? "" : top->path,
			rest) < PATH_MAX &&
	       snprintf(real, PATH_MAX, "%s%s", str_eq(top->real, "/") && *rest ? "" : top->real,
			rest) < PATH_MAX;
}

static int plan_search_look_at(struct folder_search *s, const struct where *folder, int fd,
			       const struct fd_entry *en, struct buf *queue, const char *rest,
			       struct err *e)
{
	struct stat st;

	if (en->type == DT_REG || en->type == DT_LNK || (en->type == DT_DIR && !queue))
		return 0;
	if (en->type != DT_DIR && fstatat(fd, en->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	if (en->type == DT_DIR || S_ISDIR(st.st_mode)) {
		if (queue) {
			buf_puts(queue, rest);
			buf_putc(queue, '/');
			buf_add(queue, en->name, strlen(en->name) + 1);
		}
		return 0;
	}
	return s->found(s->ctx, folder, en->name, &st, e);
}

/* 1: enough. */
static int one_folder(struct folder_search *s, const struct where *folder, struct buf *queue,
		      const char *rest, struct err *e)
{
	CLEANUP(fd)
	int fd = fd_open_nolinks(AT_FDCWD, folder->real, O_RDONLY | O_DIRECTORY | O_NONBLOCK, 0);
	const struct fd_entry *en;
	struct folder d;
	int r = 0;

	if (fd < 0) {
		/* What we may not even enter is closed to the command, too. */
		s->unseen += faccessat(AT_FDCWD, folder->real, X_OK, AT_EACCESS) == 0;
		return 0;
	}
	folder_begin(&d, fd);
	for (; r == 0 && s->entries && (en = folder_next(&d)); s->entries--)
		r = plan_search_look_at(s, folder, fd, en, queue, rest, e);
	s->unseen += !s->entries || d.error;
	return r;
}

int search_folder(struct folder_search *s, const struct where *folder, struct err *e)
{
	return one_folder(s, folder, NULL, "", e);
}

int search_tree(struct folder_search *s, const struct where *top, struct err *e)
{
	CLEANUP(buf) struct buf queue = BUF_INIT(QUEUE_MAX);
	char path[PATH_MAX], real[PATH_MAX], rest[PATH_MAX];
	size_t next = 0;
	int r = 0;

	buf_add(&queue, "", 1);
	while (r == 0 && next < queue.len && s->folders && s->entries) {
		struct where folder;
		size_t n = strlen(queue.data + next);

		if (n >= sizeof(rest)) {
			s->unseen++;
			next += n + 1;
			continue;
		}
		memcpy(rest, queue.data + next, n + 1); /* the queue may move */
		next += n + 1;
		if (!plan_search_below(top, rest, &folder, path, real)) {
			s->unseen++;
			continue;
		}
		if (n && is_mount_point(s, real))
			continue;
		s->folders--;
		r = one_folder(s, &folder, &queue, rest, e);
	}
	for (; r == 0 && next < queue.len; next += strlen(queue.data + next) + 1)
		s->unseen++;
	s->unseen += queue.failed;
	return r;
}
