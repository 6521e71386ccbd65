/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/protect/commits.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "backend/kit/protect/gitsay.h"
#include "backend/kit/protect/protected_names.h"
#include "base/folder.h"
#include "base/str.h"

#define FILES_MAX 4096
#define DEPTH_MAX 12
#define TOLD_MAX 16

/* ---- refs ---- */

void refs_done(struct refs *r)
{
	buf_done(&r->names);
	buf_done(&r->text);
}

static bool same(const struct buf *a, const struct buf *b)
{
	return a->len == b->len && (!a->len || memcmp(a->data, b->data, a->len) == 0);
}

bool refs_same(const struct refs *a, const struct refs *b)
{
	return same(&a->names, &b->names) && same(&a->text, &b->text);
}

struct refs_walk {
	struct refs *to;
	unsigned left;
};

/* A file that is not there, or is none, says nothing: git follows no link among its refs but HEAD,
 * which would be one of old. */
static bool add_file(struct refs_walk *w, int folder, const char *name)
{
	CLEANUP(fd)
	int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	size_t before = w->to->text.len;
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return true;
	if (!w->left--)
		return false;
	r = buf_read_file(&w->to->text, fd);
	buf_printf(&w->to->names, "%s %zu", name, w->to->text.len - before);
	buf_putc(&w->to->names, '\0');
	buf_putc(&w->to->text, '\n');
	return r == 0 && !w->to->text.failed && !w->to->names.failed;
}

/* `only`: the name of the files that count, one folder down; NULL: all. */
static bool add_folder(struct refs_walk *w, int above, const char *name, const char *only,
		       unsigned depth)
{
	CLEANUP(fd)
	int fd = openat(above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	const struct fd_entry *e;
	struct folder d;
	bool ok = depth < DEPTH_MAX;

	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR || errno == ELOOP;
	folder_begin(&d, fd);
	while (ok && (e = folder_next(&d))) {
		struct stat st;
		bool folder =
			e->type == DT_DIR || (e->type == DT_UNKNOWN &&
					      fstatat(fd, e->name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
					      S_ISDIR(st.st_mode));

		if (folder && (!only || !depth))
			ok = add_folder(w, fd, e->name, only, depth + 1);
		else if (!folder && (!only || (depth && str_eq(e->name, only))))
			ok = add_file(w, fd, e->name);
	}
	return ok && !d.error;
}

bool refs_read(int git, struct refs *ret)
{
	struct refs_walk w = { .to = ret, .left = FILES_MAX };

	return add_file(&w, git, "HEAD") && add_file(&w, git, "packed-refs") &&
	       add_folder(&w, git, "refs", NULL, 0) &&
	       add_folder(&w, git, "worktrees", "HEAD", 0) &&
	       add_folder(&w, git, "reftable", NULL, 0);
}

/* ---- commits ---- */

struct brought {
	struct outcome *o;
	const char *git;
	char commit[72];  /* whose names come */
	struct buf paths; /* that were told, NUL after each */
	unsigned told;
};

static bool is_id(const char *s)
{
	size_t n = strspn(s, "0123456789abcdef");

	return (n == 40 || n == 64) && !s[n];
}

static void on_record(void *arg, const char *record)
{
	struct brought *b = arg;
	const struct guarded_name *g;
	char reason[256];

	if (str_eq(record, "/missing")) {
		outcome_trust(b->o, b->git, "a ref names a commit that is not there");
		return;
	}
	if (str_eq(record, "/replace")) {
		outcome_trust(b->o, b->git,
			      "refs/replace: git shows other objects in place of some");
		return;
	}
	if (is_id(record)) {
		(void)snprintf(b->commit, sizeof(b->commit), "%s", record);
		return;
	}
	g = name_forbidden(record);
	if (!g || gitsay_has(&b->paths, record))
		return;
	if (b->told++ >= TOLD_MAX) {
		b->o->trust_more++;
		return;
	}
	buf_add(&b->paths, record, strlen(record) + 1);
	(void)snprintf(reason, sizeof(reason), "in commit %.12s: %s", b->commit, g->reason);
	outcome_trust(b->o, record, reason);
}

static int both(const struct refs *was, const struct refs *is)
{
	int fd = memfd_create("brig-refs", MFD_CLOEXEC);

	if (fd >= 0 && (fd_write_all(fd, buf_str(&was->text), was->text.len) < 0 ||
			fd_write_all(fd, buf_str(&is->text), is->text.len) < 0))
		fd = fd_close(fd);
	return fd;
}

void commits_tell(const char *git, const char *name, const struct refs *was, const struct refs *is,
		  struct reader_asker *who, struct outcome *o)
{
	struct brought b = { .o = o, .git = name, .paths = BUF_INIT(1 << 20) };
	CLEANUP(fd) int input = both(was, is);
	enum reader_said said = READER_NOBODY;
	char size[32];

	(void)snprintf(size, sizeof(size), "%zu", was->text.len);
	if (input >= 0)
		said = reader_repository(READER_COMMITS, git, size, input, who, on_record, &b);
	if (said == READER_NOBODY)
		outcome_trust(o, name,
			      "refs changed, and there is no git to say what commits bring");
	else if (said == READER_HOSTILE)
		outcome_deny(
			o, "protected-path", name,
			"git did not say which files the new commits bring: look at them before "
			"they are checked out");
	buf_done(&b.paths);
}
