/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/protect.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "backend/kit/gitconfig.h"
#include "backend/kit/journal.h"
#include "backend/kit/placeholder.h"
#include "base/buf.h"
#include "base/state.h"
#include "base/str.h"

#define JOURNAL_MAX ((size_t)1 << 20)
#define MOUNTS_MAX ((size_t)4 << 20)
#define TREES_MAX 2 /* the workspace and a worktree's git folder */
#define CONFIG_MAX 65536
#define REDIRECT "commondir"

struct tree {
	const char *path;
	int fd;
	const char *redirect; /* the file that must not appear; NULL: no git folder */
	bool closed;          /* opened again for the look afterwards */
	mode_t mode;          /* to be given back */
};

struct protect {
	struct box_plan *plan;
	const char *id;
	int claim; /* our journal */
	struct tree trees[TREES_MAX];
	size_t tree_count;
	bool *placeholder; /* one per protected name */
	unsigned bare;       /* what of a bare repository was at the top: bits of bare_parts */
	struct ident *cover; /* what each covered name was when the run began */
	unsigned moved;      /* into quarantine */
};

/* What makes git take a folder for a bare repository. */
static const char *const bare_parts[] = { "HEAD", "objects", "refs", REDIRECT };

struct protect *protect_free(struct protect *t)
{
	if (!t)
		return NULL;
	(void)fd_close(t->claim);
	for (size_t i = 0; i < t->tree_count; i++)
		(void)fd_close(t->trees[i].fd);
	free(t->placeholder);
	free(t->cover);
	free(t);
	return NULL;
}

static int tree_fd(struct protect *t, const char *path, struct err *e)
{
	int fd;

	for (size_t i = 0; i < t->tree_count; i++)
		if (str_eq(t->trees[i].path, path))
			return t->trees[i].fd;
	if (t->tree_count == TREES_MAX)
		return err_set(e, ERR_INTERNAL, E2BIG, "too many protected trees");
	fd = fd_open_nolinks(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0);
	if (fd < 0)
		return errno = -fd, err_sys(e, "cannot open '%s'", path);
	t->trees[t->tree_count++] = (struct tree){ .path = path, .fd = fd };
	return fd;
}

/* The folder a name lies in, and its last component; negative when the way there is gone or a link.
 * *opened is it too, or -1 when it is the tree itself: the caller's to close. */
static int parent_of(int tree, const char *path, const char **name, int *opened)
{
	const char *slash = strrchr(path, '/');
	char dir[PATH_MAX];

	*opened = -1;
	*name = slash ? slash + 1 : path;
	if (!slash)
		return tree;
	(void)snprintf(dir, sizeof(dir), "%.*s", (int)(slash - path), path);
	return *opened = fd_open_nolinks(tree, dir, O_RDONLY | O_DIRECTORY, FD_BENEATH);
}

/* Decides for one name whether it is ours to hold. A name that cannot be made needs no cover. */
static int hold(struct protect *t, struct journal *j, struct spares *s, size_t i, struct err *e)
{
	struct protected_name *n = &t->plan->protected[i];
	int tree = tree_fd(t, n->tree, e), dir, r;
	CLEANUP(fd) int opened = -1;
	const char *name;

	if (tree < 0)
		return -e->code;
	dir = parent_of(tree, n->path, &name, &opened);
	r = dir < 0   ? -ENOENT
	    : n->file ? placeholder_file(dir, name)
		      : placeholder_put(s, dir, name);
	if (r == 0) {
		t->placeholder[i] = true;
		return 0;
	}
	if (r == -EEXIST) {
		t->placeholder[i] = journal_named(j, n->tree, n->path);
		return 0;
	}
	if (n->file)
		return errno = -r, err_sys(e, "the code has no place to appear at '%s'", n->inside),
		       err_hint(e, "--set code.path=/code/_run.py needs none in the workspace");
	t->plan->ops[n->op].skip = true;
	return 0;
}

/* What stands at a name now; all zero and false when nothing does. */
static bool look_at(struct protect *t, size_t i, struct ident *ret)
{
	const struct protected_name *n = &t->plan->protected[i];
	struct stat st;
	struct err e;
	int tree = tree_fd(t, n->tree, &e);
	bool there = tree >= 0 && fstatat(tree, n->path, &st, AT_SYMLINK_NOFOLLOW) == 0;

	*ret = there ? ident_of(&st) : (struct ident){ 0 };
	return there;
}

/* What may be made is written down before it is. */
static int claim(struct protect *t, struct journal *j, struct err *e)
{
	CLEANUP(buf) struct buf text = BUF_INIT(JOURNAL_MAX);

	for (size_t i = 0; i < t->plan->protected_count; i++) {
		const struct protected_name *n = &t->plan->protected[i];
		struct ident now;

		/* The plan looked before the lock was taken: placeholders may have come and gone
		 * since. */
		if (n->covered && (!look_at(t, i, &now) || journal_named(j, n->tree, n->path)))
			buf_printf(&text, "%s\t%s\n", n->tree, n->path);
	}
	if (text.failed)
		return err_nomem(e);
	t->claim = journal_claim(j, buf_str(&text), e);
	return t->claim < 0 ? -e->code : 0;
}

/* The git folders, the workspace's own and the shared one of a worktree, in which the redirecting
 * file must not appear. */
static void find_git(struct protect *t)
{
	for (size_t i = 0; i < t->tree_count; i++) {
		bool own = str_eq(t->trees[i].path, t->plan->workspace);
		struct stat st;

		if (fstatat(t->trees[i].fd, own ? ".git" : ".", &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    S_ISDIR(st.st_mode))
			t->trees[i].redirect = own ? ".git/" REDIRECT : REDIRECT;
	}
}

static unsigned bare_look(int tree)
{
	unsigned seen = 0;
	struct stat st;

	for (size_t i = 0; i < ARRAY_LEN(bare_parts); i++)
		if (fstatat(tree, bare_parts[i], &st, AT_SYMLINK_NOFOLLOW) == 0)
			seen |= 1U << i;
	return seen;
}

static int hold_all(struct protect *t, struct journal *j, struct err *e)
{
	CLEANUP(spares) struct spares s = SPARES_INIT(journal_folder(j));

	for (size_t i = 0; i < t->plan->protected_count; i++) {
		if (!t->plan->protected[i].covered)
			continue;
		if (hold(t, j, &s, i, e) < 0)
			return -e->code;
		(void)look_at(t, i, &t->cover[i]);
	}
	return 0;
}

static int begin(struct protect *t, struct err *e)
{
	CLEANUP(journal) struct journal *j = NULL;
	int workspace;

	if (journal_open(&t->plan->workspace_ident, -1, &j, e) < 0)
		return -e->code;
	journal_clean(j);
	if (claim(t, j, e) < 0 || hold_all(t, j, e) < 0)
		return -e->code;
	workspace = tree_fd(t, t->plan->workspace, e);
	if (workspace < 0)
		return -e->code;
	t->bare = bare_look(workspace);
	find_git(t);
	return 0;
}

int protect_begin(struct box_plan *p, const char *id, struct protect **ret, struct err *e)
{
	CLEANUP(protect) struct protect *t = NULL;

	if (!p->protected_count)
		return 0;
	t = calloc(1, sizeof(*t));
	if (t) {
		t->placeholder = calloc(p->protected_count, sizeof(*t->placeholder));
		t->cover = calloc(p->protected_count, sizeof(*t->cover));
	}
	if (!t || !t->placeholder || !t->cover)
		return err_nomem(e);
	t->plan = p;
	t->id = id;
	t->claim = -1;
	if (begin(t, e) < 0) {
		protect_end(t, false, NULL);
		return err_wrap(e, "protected names");
	}
	*ret = TAKE_PTR(t);
	return 0;
}

/* As mountinfo writes a path. */
static void escaped(const char *path, char *out, size_t n)
{
	size_t at = 0;

	out[at++] = ' ';
	for (; *path && at + 6 < n; path++) {
		if (strchr(" \t\n\\", *path))
			at += (size_t)snprintf(out + at, n - at, "\\%03o", (unsigned char)*path);
		else
			out[at++] = *path;
	}
	out[at++] = ' ';
	out[at] = '\0';
}

bool protect_covers_hold(const struct protect *t, int mountinfo)
{
	CLEANUP(buf) struct buf list = BUF_INIT(MOUNTS_MAX);
	char text[8192], path[PATH_MAX];
	ssize_t n;

	if (lseek(mountinfo, 0, SEEK_SET) < 0)
		return false;
	while ((n = read(mountinfo, text, sizeof(text))) > 0)
		buf_add(&list, text, (size_t)n);
	if (n < 0 || list.failed)
		return false;
	for (size_t i = 0; i < t->plan->protected_count; i++) {
		const struct protected_name *p = &t->plan->protected[i];

		if (!p->covered || t->plan->ops[p->op].skip)
			continue;
		escaped(p->inside, path, sizeof(path));
		if (!strstr(buf_str(&list), path))
			return false;
	}
	return true;
}

/* Moves a name out of the tree: into brig's state folder, or, on another file system, aside. */
static void quarantine(struct protect *t, struct outcome *o, int tree, const char *path,
		       const char *why)
{
	char folder[PATH_MAX], to[96], place[PATH_MAX + 128], reason[PATH_MAX + 256];
	const char *name;
	struct err e;
	CLEANUP(fd) int opened = -1;
	CLEANUP(fd) int state = state_open("quarantine", folder, sizeof(folder), &e);
	int dir = parent_of(tree, path, &name, &opened);
	bool moved;

	(void)snprintf(to, sizeof(to), "%s-%u", t->id, t->moved++);
	(void)snprintf(place, sizeof(place), "%s/%s", folder, to);
	moved = dir >= 0 && state >= 0 && renameat(dir, name, state, to) == 0;
	if (!moved && dir >= 0) {
		(void)snprintf(to, sizeof(to), ".brig-quarantine-%s-%u", t->id, t->moved);
		(void)snprintf(place, sizeof(place), "%s", to);
		moved = renameat(dir, name, tree, to) == 0;
	}
	(void)snprintf(reason, sizeof(reason), "%s; %s %s", why,
		       moved ? "moved to" : "could not be moved to", place);
	if (o)
		outcome_deny(o, "protected-path", path, reason);
}

static bool names_in_place(struct protect *t)
{
	for (size_t i = 0; i < t->plan->protected_count; i++) {
		const struct protected_name *n = &t->plan->protected[i];
		struct ident now;

		if (!n->covered || t->plan->ops[n->op].skip)
			continue;
		/* The command may have closed its own folder; that moves nothing. */
		if (!look_at(t, i, &now) ? errno != EACCES : !ident_same(&now, &t->cover[i]))
			return false;
	}
	return true;
}

enum protect_news protect_news(struct protect *t, struct outcome *o)
{
	enum protect_news found = PROTECT_QUIET;
	struct stat st;

	for (size_t i = 0; i < t->tree_count; i++) {
		const struct tree *tree = &t->trees[i];

		if (!tree->redirect ||
		    fstatat(tree->fd, tree->redirect, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		quarantine(t, o, tree->fd, tree->redirect, "made during the run");
		found = PROTECT_TAMPERED;
	}
	return found == PROTECT_QUIET && !names_in_place(t) ? PROTECT_LOST : found;
}

static void look_after(struct protect *t, struct outcome *o, size_t i, bool cover_lost,
		       const struct journal *j, struct spares *s)
{
	const struct protected_name *n = &t->plan->protected[i];
	struct err e;
	int tree = tree_fd(t, n->tree, &e), dir;
	CLEANUP(fd) int opened = -1;
	const char *name;
	struct ident now;
	struct stat st;

	if (tree < 0)
		return;
	dir = parent_of(tree, n->path, &name, &opened);
	if (n->file) { /* what is under the code was never in reach */
		if (dir >= 0 && t->placeholder[i] && !journal_shared(j))
			placeholder_file_take(dir, name);
		return;
	}
	if (dir < 0 || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	if (t->placeholder[i]) {
		bool ours = journal_shared(j) ? placeholder_is(dir, name)
					      : placeholder_take(s, dir, name);

		if (!ours)
			quarantine(t, o, tree, n->path, "made during the run");
		return;
	}
	now = ident_of(&st);
	if (!n->existed && !n->covered) {
		quarantine(t, o, tree, n->path, "made during the run");
		return;
	}
	if ((!n->covered || cover_lost) && n->existed &&
	    (!ident_same(&now, &n->ident) || st.st_ctim.tv_sec != n->ctime.tv_sec ||
	     st.st_ctim.tv_nsec != n->ctime.tv_nsec))
		quarantine(t, o, tree, n->path, "changed during the run");
}

static void new_hooks(struct protect *t, struct outcome *o, int tree)
{
	int fd = fd_open_nolinks(tree, ".git/hooks", O_RDONLY | O_DIRECTORY, FD_BENEATH);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	char path[PATH_MAX];

	if (fd == -ELOOP)
		quarantine(t, o, tree, ".git/hooks", "a link made during the run");
	for (struct dirent *e; d && (e = readdir(d));) {
		if (str_eq(e->d_name, ".") || str_eq(e->d_name, "..") ||
		    str_ends_nocase(e->d_name, ".sample"))
			continue;
		(void)snprintf(path, sizeof(path), ".git/hooks/%s", e->d_name);
		quarantine(t, o, tree, path, "a hook made during the run");
	}
	if (d)
		(void)closedir(d);
}

/* HEAD, and the rest of it here or elsewhere. */
static bool bare_enough(unsigned parts)
{
	return (parts & 1) && ((parts & 6) == 6 || (parts & 8));
}

/* git takes a folder that looks like a bare repository for one: whatever made it so goes. */
static void new_bare(struct protect *t, struct outcome *o, int tree)
{
	unsigned now = bare_look(tree);

	if (!bare_enough(now) || bare_enough(t->bare))
		return;
	for (size_t i = 0; i < ARRAY_LEN(bare_parts); i++)
		if (now & ~t->bare & (1U << i))
			quarantine(t, o, tree, bare_parts[i],
				   "it made the folder look like a bare repository");
}

/* A repository that was made inside: its objects are welcome, what it would run on the host is not.
 */
static void new_repository(struct protect *t, struct outcome *o, int tree)
{
	static const char *const files[] = { ".git/" REDIRECT, ".git/config.worktree" };
	struct stat st;

	if (!t->plan->git_absent)
		return;
	if (fstatat(tree, ".git", &st, AT_SYMLINK_NOFOLLOW) < 0) {
		new_bare(t, o, tree);
		return;
	}
	if (!S_ISDIR(st.st_mode)) {
		quarantine(t, o, tree, ".git", "not a folder, made during the run");
		return;
	}
	new_hooks(t, o, tree);
	for (size_t i = 0; i < ARRAY_LEN(files); i++)
		if (fstatat(tree, files[i], &st, AT_SYMLINK_NOFOLLOW) == 0)
			quarantine(t, o, tree, files[i], "made during the run");
	if (!gitconfig_harmless(tree, ".git/config"))
		quarantine(t, o, tree, ".git/config",
			   "made during the run with more than plain settings");
}

/* The command may have taken the owner's rights from a folder; brig needs them for a moment. */
static void open_trees(struct protect *t)
{
	struct stat st;

	for (size_t i = 0; i < t->tree_count; i++) {
		bool closed = fstat(t->trees[i].fd, &st) == 0 && (st.st_mode & 0700) != 0700;

		t->trees[i].mode = closed ? st.st_mode & 07777 : 0;
		t->trees[i].closed =
			closed && fchmod(t->trees[i].fd, (st.st_mode & 07777) | 0700) == 0;
	}
}

static void close_trees(struct protect *t)
{
	for (size_t i = 0; i < t->tree_count; i++)
		if (t->trees[i].closed)
			(void)fchmod(t->trees[i].fd, t->trees[i].mode);
}

int protect_holder(const struct box_plan *p, int *ret)
{
	int fd = p->protected_count ? journal_holder() : -1;

	*ret = fd < 0 ? -1 : fd;
	return p->protected_count && fd < 0 ? fd : 0;
}

int protect_hold(const struct protect *t, int holder)
{
	return t ? journal_hold(&t->plan->workspace_ident, t->claim, holder) : 0;
}

int protect_let_go(int hold)
{
	struct flock all = { .l_type = F_UNLCK };

	if (hold >= 0)
		(void)fcntl(hold, F_OFD_SETLK, &all);
	return fd_close(hold);
}

void protect_end(struct protect *t, bool cover_lost, struct outcome *o)
{
	CLEANUP(spares) struct spares spares = SPARES_INIT(-1);
	CLEANUP(journal) struct journal *j = NULL;
	struct err e;
	int workspace;

	if (journal_open(&t->plan->workspace_ident, TAKE_FD(t->claim), &j, &e) < 0)
		return;
	spares.folder = journal_folder(j);
	open_trees(t);
	for (size_t i = 0; i < t->plan->protected_count; i++)
		look_after(t, o, i, cover_lost, j, &spares);
	workspace = tree_fd(t, t->plan->workspace, &e);
	if (workspace >= 0)
		new_repository(t, o, workspace);
	journal_clean(j);
	close_trees(t);
}
