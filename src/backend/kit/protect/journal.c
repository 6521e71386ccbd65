/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/protect/journal.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "backend/kit/protect/protect_internal.h"
#include "backend/kit/survey/placeholder.h"
#include "base/files/folder.h"
#include "base/files/state.h"
#include "base/text/str.h"

#define TEXT_MAX ((size_t)1 << 20)
#define FOLDER "workspaces"
#define FILES 64    /* so that a run among a thousand reads, locks and waits for a few */
#define KEPT "kept" /* a folder of empty files, WORKSPACE.ID; gone when it has none */
#define KEPT_TRIES 10

struct journal {
	int folder, file;
	bool claimed; /* the file is the caller's now */
	bool shared;
	char workspace[RECORD_NAME_SIZE]; /* how its lines begin, before a tab */
	struct buf lines;                 /* of all workspaces in the file */
	size_t written;                   /* of them; the rest is added by a claim */
};

struct journal *journal_free(struct journal *j)
{
	if (!j)
		return NULL;
	if (j->claimed)
		(void)flock(j->file, LOCK_UN);
	else
		(void)fd_close(j->file);
	(void)fd_close(j->folder);
	buf_done(&j->lines);
	free(j);
	return NULL;
}

static int journal_open_file(int folder, const char *workspace, int flags)
{
	char name[16];

	(void)snprintf(name, sizeof(name), "journal.%02x",
		       (unsigned)mem_hash(0, workspace, strlen(workspace)) % FILES);
	return openat(folder, name, flags | O_NOFOLLOW | O_CLOEXEC, 0600);
}

/* Of a workspace's byte. Two that meet there wait for each other's last run, no more. */
static int journal_lock(int file, const char *workspace, int how, short *type)
{
	struct flock l = { .l_type = *type,
			   .l_start = (off_t)(mem_hash(0, workspace, strlen(workspace)) >> 2),
			   .l_len = 1 };
	int r = fcntl(file, how, &l) < 0 ? -errno : 0;

	*type = l.l_type;
	return r;
}

/* Is there a file that keeps something for the workspace? */
static bool journal_is_kept(int folder, const char *workspace)
{
	CLEANUP(fd)
	int dir = openat(folder, KEPT, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	const struct fd_entry *e;
	struct folder f;

	folder_begin(&f, dir);
	while (dir >= 0 && (e = folder_next(&f)))
		if (str_starts(e->name, workspace) && e->name[strlen(workspace)] == '.')
			return true;
	return false;
}

int journal_open(const struct ident *workspace, int claim, struct journal **ret, struct err *e)
{
	CLEANUP(journal) struct journal *j = calloc(1, sizeof(*j));
	short all = F_WRLCK;
	int r;

	if (!j) {
		(void)fd_close(claim);
		return err_nomem(e);
	}
	*j = (struct journal){ .file = claim, .lines = BUF_INIT(TEXT_MAX) };
	record_name(workspace, j->workspace);
	j->folder = state_open(FOLDER, NULL, 0, e);
	if (j->folder < 0)
		return -e->code;
	if (j->file < 0)
		j->file = journal_open_file(j->folder, j->workspace, O_RDWR | O_CREAT);
	r = j->file < 0 || flock(j->file, LOCK_EX) < 0 ? -errno : buf_read_file(&j->lines, j->file);
	if (r < 0)
		return err_errno(e, r, "cannot open the journal of the workspace");
	j->written = j->lines.len;
	j->shared = journal_lock(j->file, j->workspace, F_OFD_SETLK, &all) < 0 ||
		    journal_is_kept(j->folder, j->workspace);
	*ret = TAKE_PTR(j);
	return 0;
}

bool journal_shared(const struct journal *j)
{
	return j->shared;
}

static void journal_put_line(const struct journal *j, const char *tree, const char *path,
			     char out[2 * PATH_MAX])
{
	(void)snprintf(out, 2 * PATH_MAX, "%s\t%s\t%s\n", j->workspace, tree, path);
}

bool journal_named(const struct journal *j, const char *tree, const char *path)
{
	const char *at = buf_str(&j->lines);
	char line[2 * PATH_MAX];

	journal_put_line(j, tree, path, line);
	for (; (at = strstr(at, line)); at += strlen(line))
		if (at == j->lines.data || at[-1] == '\n')
			return true;
	return false;
}

void journal_add(struct journal *j, const char *tree, const char *path)
{
	char line[2 * PATH_MAX];

	if (journal_named(j, tree, path))
		return;
	journal_put_line(j, tree, path, line);
	buf_puts(&j->lines, line);
}

int journal_claim(struct journal *j, struct err *e)
{
	short life = F_RDLCK;
	int r;

	if (j->lines.failed)
		return err_nomem(e);
	if (journal_lock(j->file, j->workspace, F_OFD_SETLK, &life) < 0 ||
	    lseek(j->file, 0, SEEK_END) < 0)
		return err_sys(e, "cannot lock the journal of the workspace");
	r = fd_write_all(j->file, buf_str(&j->lines) + j->written, j->lines.len - j->written);
	if (r < 0) {
		(void)err_errno(e, r, "cannot write the journal of the workspace");
		return err_hint(e, "make room where brig keeps its state; brig doctor "
				   "names the folder");
	}
	j->claimed = true;
	return j->file;
}

int journal_holder(const struct ident *workspace)
{
	struct err e;
	CLEANUP(fd) int folder = state_open(FOLDER, NULL, 0, &e);
	char name[RECORD_NAME_SIZE];
	int fd;

	record_name(workspace, name);
	fd = folder < 0 ? -1 : journal_open_file(folder, name, O_RDONLY | O_CREAT);
	return folder < 0 ? -e.code : fd < 0 ? -errno : fd;
}

int journal_hold(const struct ident *workspace, int claim, int holder)
{
	char name[RECORD_NAME_SIZE];
	short life = F_RDLCK;
	struct stat one, other;

	if (fstat(claim, &one) < 0 || fstat(holder, &other) < 0)
		return -errno;
	if (one.st_dev != other.st_dev || one.st_ino != other.st_ino)
		return -ESTALE;
	record_name(workspace, name);
	return journal_lock(holder, name, F_OFD_SETLK, &life);
}

/* The folder may go while we look at it: somebody else has just let go of the last one. */
int journal_keep(const struct ident *workspace, const char *id)
{
	char record[RECORD_NAME_SIZE], name[RECORD_NAME_SIZE + 64];
	struct err e;
	CLEANUP(fd) int folder = state_open(FOLDER, NULL, 0, &e);
	CLEANUP(fd) int fd = -1;

	if (folder < 0)
		return -e.code;
	record_name(workspace, record);
	(void)snprintf(name, sizeof(name), KEPT "/%s.%.40s", record, id);
	for (int i = 0; fd < 0 && i < KEPT_TRIES; i++) {
		if (mkdirat(folder, KEPT, 0700) < 0 && errno != EEXIST)
			return -errno;
		fd = openat(folder, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (fd < 0 && errno != ENOENT)
			return -errno;
	}
	return fd < 0 ? -EAGAIN : 0;
}

void journal_let_go(const char *id)
{
	CLEANUP(fd) int folder = state_find(FOLDER "/" KEPT, NULL, 0);
	const struct fd_entry *e;
	struct folder f;

	folder_begin(&f, folder);
	while (folder >= 0 && (e = folder_next(&f))) {
		const char *dot = strrchr(e->name, '.');

		if (dot && str_eq(dot + 1, id) && unlinkat(folder, e->name, 0) == 0)
			break;
	}
	if (folder >= 0)
		(void)unlinkat(folder, "../" KEPT, AT_REMOVEDIR);
}

/* Only ever what is empty goes: whatever has content is not ours. */
static void remove_placeholder(const char *tree_path, const char *path)
{
	CLEANUP(fd) int tree = fd_open_nolinks(AT_FDCWD, tree_path, O_PATH | O_DIRECTORY, 0);
	CLEANUP(name_parent) struct name_parent at = protect_parent(tree, path);

	if (at.dir >= 0)
		(void)placeholder_take(at.dir, at.name);
}

/* What a writer that dies in here leaves twice does no harm. */
void journal_clean(struct journal *j)
{
	CLEANUP(buf) struct buf left = BUF_INIT(TEXT_MAX);
	size_t own = strlen(j->workspace);
	bool any = false;

	if (j->shared)
		return;
	for (char *at = j->lines.data, *line; (line = strsep(&at, "\n"));) {
		char *path = strrchr(line, '\t');

		if (!str_starts(line, j->workspace) || line[own] != '\t') {
			buf_printf(&left, "%s%s", line, at ? "\n" : "");
			continue;
		}
		any = true;
		*path++ = '\0';
		if (path > line + own + 1)
			remove_placeholder(line + own + 1, path);
	}
	if (any && !left.failed &&
	    pwrite(j->file, buf_str(&left), left.len, 0) == (ssize_t)left.len)
		(void)!ftruncate(j->file, (off_t)left.len);
	/* A claim that follows writes what is not there. */
	buf_done(&j->lines);
	j->written = left.len;
	j->lines = left;
	left = (struct buf)BUF_INIT(TEXT_MAX);
}

bool journal_held(const struct ident *workspace)
{
	CLEANUP(fd) int folder = state_find(FOLDER, NULL, 0), file = -1;
	char name[RECORD_NAME_SIZE];
	short all = F_WRLCK;

	record_name(workspace, name);
	file = folder < 0 ? -1 : journal_open_file(folder, name, O_RDONLY);
	return (file >= 0 && journal_lock(file, name, F_OFD_GETLK, &all) == 0 && all != F_UNLCK) ||
	       (folder >= 0 && journal_is_kept(folder, name));
}
