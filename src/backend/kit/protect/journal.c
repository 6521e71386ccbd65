/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/protect/journal.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "backend/kit/protect/placeholder.h"
#include "base/buf.h"
#include "base/state.h"
#include "base/str.h"

#define TEXT_MAX ((size_t)1 << 20)
#define FOLDER "workspaces"
#define FILES 64 /* so that a run among a thousand reads, locks and waits for a few */
#define NAME_ROOM 16
#define KEPT "kept" /* a folder of empty files, WORKSPACE.ID; gone when it has none */
#define KEPT_TRIES 10
#define WORKSPACE_ROOM 48

struct journal {
	int folder, file;
	bool claimed; /* the file is the caller's now */
	bool shared;
	char workspace[WORKSPACE_ROOM]; /* how its lines begin */
	struct buf all, lines;          /* all there is; ours, without their beginning */
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
	buf_done(&j->all);
	buf_done(&j->lines);
	free(j);
	return NULL;
}

static uint64_t number_of(const char *workspace)
{
	uint64_t h = 1469598103934665603U;

	for (; *workspace; workspace++)
		h = (h ^ (unsigned char)*workspace) * 1099511628211U;
	return h;
}

/* Where a workspace's byte is. Two that meet there wait for each other's last run, no more. */
static off_t byte_of(const char *workspace)
{
	return (off_t)(number_of(workspace) >> 2);
}

static void name_file(unsigned number, char out[NAME_ROOM])
{
	(void)snprintf(out, NAME_ROOM, "journal.%02x", number % FILES);
}

static int open_file(int folder, const char *workspace, int flags)
{
	char name[NAME_ROOM];

	name_file((unsigned)number_of(workspace), name);
	return openat(folder, name, flags | O_NOFOLLOW | O_CLOEXEC, 0600);
}

static int lock_byte(int file, const char *workspace, short how)
{
	struct flock l = { .l_type = how, .l_start = byte_of(workspace), .l_len = 1 };

	return fcntl(file, F_OFD_SETLK, &l);
}

static void name_workspace(const struct ident *workspace, char out[WORKSPACE_ROOM])
{
	(void)snprintf(out, WORKSPACE_ROOM, "%llx-%llx\t", (unsigned long long)workspace->dev,
		       (unsigned long long)workspace->ino);
}

/* Calls fn for every file that keeps something; true as soon as that is. */
static bool any_kept(int folder, bool (*fn)(int dir, const char *name, const char *arg),
		     const char *arg)
{
	int dir = openat(folder, KEPT, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = dir < 0 ? NULL : fdopendir(dir);
	bool found = false;

	for (struct dirent *e; d && !found && (e = readdir(d));)
		found = fn(dir, e->d_name, arg);
	if (d)
		(void)closedir(d);
	else
		(void)fd_close(dir);
	return found;
}

static bool keeps(int dir, const char *name, const char *workspace)
{
	size_t n = strlen(workspace) - 1; /* without its tab */

	(void)dir;
	return strncmp(name, workspace, n) == 0 && name[n] == '.';
}

static bool remove_kept(int dir, const char *name, const char *id)
{
	const char *dot = strrchr(name, '.');

	return dot && str_eq(dot + 1, id) && unlinkat(dir, name, 0) == 0;
}

/* Puts each line into the one buffer or the other. */
static int split(const struct journal *j, struct buf *ours, struct buf *others)
{
	size_t start = strlen(j->workspace);
	const char *at = buf_str(&j->all);

	for (size_t n; *at; at += n) {
		n = strcspn(at, "\n");
		n += at[n] == '\n';
		if (strncmp(at, j->workspace, start) == 0)
			buf_add(ours, at + start, n - start);
		else if (others)
			buf_add(others, at, n);
	}
	return ours->failed || (others && others->failed) ? -ENOMEM : 0;
}

/* Both descriptors belong to the journal from here on. */
static int open_workspace(int folder, const char *workspace, int claim, struct journal **ret)
{
	CLEANUP(journal) struct journal *j = calloc(1, sizeof(*j));
	int r;

	if (!j) {
		(void)fd_close(folder);
		(void)fd_close(claim);
		return -ENOMEM;
	}
	*j = (struct journal){ .folder = folder,
			       .file = claim,
			       .all = BUF_INIT(TEXT_MAX),
			       .lines = BUF_INIT(TEXT_MAX) };
	(void)snprintf(j->workspace, sizeof(j->workspace), "%s", workspace);
	if (j->file < 0)
		j->file = open_file(folder, workspace, O_RDWR | O_CREAT);
	if (j->file < 0 || flock(j->file, LOCK_EX) < 0)
		return -errno;
	j->shared = lock_byte(j->file, j->workspace, F_WRLCK) < 0 ||
		    any_kept(folder, keeps, j->workspace);
	r = buf_read_file(&j->all, j->file);
	if (r == 0)
		r = split(j, &j->lines, NULL);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(j);
	return 0;
}

static int open_folder(struct err *e)
{
	return state_open(FOLDER, NULL, 0, e);
}

int journal_open(const struct ident *workspace, int claim, struct journal **ret, struct err *e)
{
	int folder = open_folder(e), r;
	char text[WORKSPACE_ROOM];

	if (folder < 0) {
		(void)fd_close(claim);
		return -e->code;
	}
	name_workspace(workspace, text);
	r = open_workspace(folder, text, claim, ret);
	return r < 0 ? err_errno(e, r, "cannot open the journal of the workspace") : 0;
}

int journal_folder(const struct journal *j)
{
	return j->folder;
}

bool journal_shared(const struct journal *j)
{
	return j->shared;
}

static bool listed(const struct buf *lines, const char *line)
{
	const char *at = buf_str(lines);
	size_t n = strlen(line);

	for (; (at = strstr(at, line)); at += n)
		if (at == lines->data || at[-1] == '\n')
			return true;
	return false;
}

bool journal_named(const struct journal *j, const char *tree, const char *path)
{
	char line[PATH_MAX * 2];

	(void)snprintf(line, sizeof(line), "%s\t%s\n", tree, path);
	return listed(&j->lines, line);
}

int journal_claim(struct journal *j, const char *text, struct err *e)
{
	CLEANUP(buf) struct buf add = BUF_INIT(TEXT_MAX);
	int r = 0;

	for (size_t n; *text; text += n) {
		CLEANUP(buf) struct buf line = BUF_INIT(TEXT_MAX);

		n = strcspn(text, "\n") + 1;
		buf_printf(&line, "%s%.*s", j->workspace, (int)n, text);
		if (!listed(&j->all, buf_str(&line)))
			buf_add(&add, line.data, line.len);
		add.failed |= line.failed;
	}
	if (add.failed)
		return err_nomem(e);
	if (lock_byte(j->file, j->workspace, F_RDLCK) < 0 || lseek(j->file, 0, SEEK_END) < 0)
		return err_sys(e, "cannot lock the journal of the workspace");
	r = fd_write_all(j->file, buf_str(&add), add.len);
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
	CLEANUP(fd) int folder = open_folder(&e);
	char text[WORKSPACE_ROOM];
	int fd;

	name_workspace(workspace, text);
	fd = folder < 0 ? -1 : open_file(folder, text, O_RDONLY | O_CREAT);
	return folder < 0 ? -e.code : fd < 0 ? -errno : fd;
}

int journal_hold(const struct ident *workspace, int claim, int holder)
{
	char text[WORKSPACE_ROOM];
	struct stat one, other;

	name_workspace(workspace, text);
	if (fstat(claim, &one) < 0 || fstat(holder, &other) < 0)
		return -errno;
	if (one.st_dev != other.st_dev || one.st_ino != other.st_ino)
		return -ESTALE;
	return lock_byte(holder, text, F_RDLCK) < 0 ? -errno : 0;
}

/* The folder may go while we look at it: somebody else has just let go of the last one. */
int journal_keep(const struct ident *workspace, const char *id)
{
	char text[WORKSPACE_ROOM], name[WORKSPACE_ROOM + 64];
	struct err e;
	CLEANUP(fd) int folder = open_folder(&e);
	CLEANUP(fd) int fd = -1;

	if (folder < 0)
		return -e.code;
	name_workspace(workspace, text);
	(void)snprintf(name, sizeof(name), KEPT "/%.*s.%.40s", (int)strlen(text) - 1, text, id);
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
	CLEANUP(fd) int folder = state_find(FOLDER, NULL, 0);

	if (folder >= 0 && any_kept(folder, remove_kept, id))
		(void)unlinkat(folder, KEPT, AT_REMOVEDIR);
}

/* Only ever what is empty goes: whatever has content is not ours. */
static void remove_placeholder(int tree, char *path)
{
	char *slash = strrchr(path, '/');
	CLEANUP(fd) int dir = -1;

	if (!slash) {
		(void)placeholder_take(tree, path);
		return;
	}
	*slash = '\0';
	dir = fd_open_nolinks(tree, path, O_PATH | O_DIRECTORY, FD_BENEATH);
	if (dir >= 0)
		(void)placeholder_take(dir, slash + 1);
}

static void remove_all(const struct journal *j)
{
	CLEANUP(mem) char *copy = strdup(buf_str(&j->lines));
	CLEANUP(fd) int tree = -1;
	char *at = copy, *line, *open_path = NULL;

	while (copy && (line = strsep(&at, "\n"))) {
		char *path = strchr(line, '\t');

		if (!path)
			continue;
		*path++ = '\0';
		if (!open_path || !str_eq(open_path, line)) {
			(void)fd_close(tree);
			tree = fd_open_nolinks(AT_FDCWD, line, O_PATH | O_DIRECTORY, 0);
			open_path = line;
		}
		if (tree >= 0)
			remove_placeholder(tree, path);
	}
}

/* What a writer that dies in here leaves twice does no harm. */
void journal_clean(struct journal *j)
{
	CLEANUP(buf) struct buf left = BUF_INIT(TEXT_MAX), ours = BUF_INIT(TEXT_MAX);

	if (!j->lines.len || j->shared)
		return;
	remove_all(j);
	if (split(j, &ours, &left) < 0)
		return;
	if (!left.len || pwrite(j->file, left.data, left.len, 0) == (ssize_t)left.len)
		(void)!ftruncate(j->file, (off_t)left.len);
	/* A claim that follows writes what is not there. */
	buf_done(&j->all);
	j->all = left;
	left = (struct buf)BUF_INIT(TEXT_MAX);
	buf_done(&j->lines);
}

bool journal_held(const struct ident *workspace)
{
	CLEANUP(fd) int folder = state_find(FOLDER, NULL, 0);
	CLEANUP(fd) int file = -1;
	char text[WORKSPACE_ROOM];
	struct flock l = { .l_type = F_WRLCK, .l_len = 1 };

	name_workspace(workspace, text);
	l.l_start = byte_of(text);
	file = folder < 0 ? -1 : open_file(folder, text, O_RDONLY);
	return (file >= 0 && fcntl(file, F_OFD_GETLK, &l) == 0 && l.l_type != F_UNLCK) ||
	       (folder >= 0 && any_kept(folder, keeps, text));
}
