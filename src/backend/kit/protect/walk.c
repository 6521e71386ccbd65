/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/protect/walk.c - one look through the workspace after a run, shallow folders first,
 * for as many folders as the budget has: repositories that appeared or changed where no index
 * leads, and names that are the command's to change but that the user should know of.
 *
 * Nothing was written down before: whatever has a ctime from before the run is as it was. */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "backend/kit/protect/gitdirs.h"
#include "backend/kit/protect/gitsay.h"
#include "backend/kit/protect/protect_internal.h"
#include "backend/kit/protect/protected_names.h"
#include "base/folder.h"
#include "base/str.h"

#define FOLDERS 1024         /* in about five milliseconds */
#define FOLDERS_STRICT 16384 /* when git did not say where it would be led */
#define FOLDERS_GIT 4096     /* inside of all git folders together, */
#define FOLDERS_OWN 16384    /* and where git keeps what is its own, in each that the plan knows */
#define QUEUE_MAX ((size_t)4 << 20)

struct folder_walk {
	struct protect *t;
	struct outcome *o;
	const char *top; /* of the tree */
	const char *git; /* inside of which it goes; NULL: it stays outside of them */
	struct buf gits; /* that were met on the way, NUL after each */
	int tree;
	dev_t dev;
	struct buf queue; /* of folders, NUL after each */
	struct buf later; /* the same, where git writes nothing */
	size_t next;      /* the first that was not looked at */
	size_t left;
	uint64_t unseen;
};

static void tell(struct folder_walk *w, const char *path, const char *reason)
{
	if (w->o)
		outcome_trust(w->o, path, reason);
}

/* Nobody said whether an index leads into this repository, which is as it was: what it names must
 * be, too. */
static void look_at_places(struct folder_walk *w, const char *git)
{
	char host[PATH_MAX], root[PATH_MAX];
	char *slash;

	if (snprintf(host, sizeof(host), "%s/%s", w->top, git) >= (int)sizeof(host))
		return;
	(void)snprintf(root, sizeof(root), "%s", host);
	slash = strrchr(root, '/');
	if (str_eq(slash, "/.git"))
		*slash = '\0';
	if (!protect_places(w->t, w->o, host, root))
		quarantine(w->t, w->o, w->tree, git,
			   "its configuration names other files, and git could not be asked which");
}

/* `part` tells: each git folder of the plan has its own. */
static bool is_known(const struct folder_walk *w, const char *git, const char *part)
{
	char path[PATH_MAX + 16];

	(void)snprintf(path, sizeof(path), "%s/%s", git, part);
	return plan_protects(w->t->plan, w->top, path);
}

/* A git folder outside of the plan. */
static void look_at_repository(struct folder_walk *w, const char *git)
{
	bool fresh = protect_made(w->t, w->tree, git);
	enum protect_move move = PROTECT_STAYED;

	if (is_known(w, git, "config") || is_known(w, git, "commondir") ||
	    protect_worktree_plain(w->tree, git))
		return;
	if (!fresh)
		move = protect_moved(w->t, w->tree, git);
	if (move != PROTECT_STAYED && protect_plain(w->t, w->tree, git))
		move = PROTECT_STAYED;
	if (!fresh && protect_parts_old(w->t, w->tree, git) && move != PROTECT_MOVED) {
		if (move == PROTECT_UNCLEAR)
			tell(w, git, PROTECT_UNCLEAR_REASON);
		if (w->t->strict)
			look_at_places(w, git);
		return;
	}
	if (w->t->strict && fresh)
		quarantine(w->t, w->o, w->tree, git,
			   "a repository made during the run, and git could not be asked");
	else if (w->t->strict || !protect_plain(w->t, w->tree, git))
		protect_tame(w->t, w->o, w->tree, git);
	tell(w, git,
	     fresh ? "a repository made during the run" : "a repository's settings changed");
}

static void look_at_pointer(struct folder_walk *w, const char *path, const struct stat *st)
{
	if (plan_protects(w->t->plan, w->top, path) || !protect_changed(w->t, st))
		return;
	if (w->t->strict)
		quarantine(w->t, w->o, w->tree, path,
			   "it leads git to another folder, and git could not be asked");
	tell(w, path, "made or changed during the run: where the folder's repository is");
}

static void look_at_entry(struct folder_walk *w, int fd, const char *folder,
			  const struct fd_entry *entry)
{
	const char *name = entry->name;
	const struct guarded_name *known;
	char path[PATH_MAX];
	struct stat st;

	if (snprintf(path, sizeof(path), "%s%s%s", folder, *folder ? "/" : "", name) >=
	    (int)sizeof(path))
		return;
	known = name_reported(path);
	if (entry->type != DT_DIR && entry->type != DT_UNKNOWN && !known && !str_eq(name, ".git"))
		return;
	if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	if (known && protect_changed(w->t, &st))
		tell(w, path, known->reason);
	if (str_eq(name, ".git") && *folder) {
		if (S_ISDIR(st.st_mode)) {
			look_at_repository(w, path);
			buf_add(&w->gits, path, strlen(path) + 1);
		} else {
			look_at_pointer(w, path, &st);
		}
		return;
	}
	if (S_ISDIR(st.st_mode) && st.st_dev == w->dev)
		buf_add(&w->queue, path, strlen(path) + 1);
}

/* A git folder of the plan was looked at already; only what git would go on with is of interest. */
static bool is_planned(const struct folder_walk *w, const char *folder)
{
	for (size_t i = 0; i < w->t->plan->git_count; i++)
		if (str_eq(w->t->plan->gits[i].tree, w->t->plan->workspace) &&
		    str_eq(w->t->plan->gits[i].path, folder))
			return true;
	return str_eq(folder, ".git");
}

/* A descriptor or -errno. */
static int open_folder(const struct folder_walk *w, const char *folder)
{
	int fd;

	if (*folder)
		return protect_open(w->tree, folder);
	fd = openat(w->tree, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

typedef void look_fn(struct folder_walk *w, int fd, const char *folder,
		     const struct fd_entry *entry);

/* All of a folder, which may not be open (-errno). Does it have a HEAD? Nothing is a git folder
 * without one. */
static bool look_through(struct folder_walk *w, int fd, const char *folder, look_fn *look)
{
	const struct fd_entry *e;
	bool head = false;
	struct folder d;

	if (fd < 0) {
		w->unseen += fd != -ENOENT && fd != -ELOOP;
		return false;
	}
	folder_begin(&d, fd);
	while ((e = folder_next(&d))) {
		head |= strcasecmp(e->name, "HEAD") == 0;
		look(w, fd, folder, e);
	}
	w->unseen += d.error != 0;
	return head;
}

static void look_at_folder(struct folder_walk *w, const char *folder)
{
	CLEANUP(fd)
	int fd = *folder && is_planned(w, folder) ? -ENOENT /* it has a walk of its own */
						  : open_folder(w, folder);

	if (look_through(w, fd, folder, look_at_entry) && *folder && gitdir_enough(gitdir_look(fd)))
		look_at_repository(w, folder);
}

/* ---- inside of a git folder ---- */

static bool is_fan(const char *name)
{
	return strspn(name, "0123456789abcdef") == 2 && !name[2];
}

/* A folder of objects of the git folder that is walked through: git keeps files in there, and no
 * folder. */
static bool is_fan_path(const struct folder_walk *w, const char *path)
{
	size_t n = strlen(w->git);

	if (n && (strncmp(path, w->git, n) != 0 || path[n] != '/'))
		return false;
	path += n + (n > 0);
	return str_starts(path, "objects/") && is_fan(path + strlen("objects/"));
}

/* The folders at the top of a git folder that git, or its helpers, write to. */
static bool is_gits_own(const char *name)
{
	static const char *const own[] = { "logs",         "refs",         "info",     "objects",
					   "worktrees",    "modules",      "rr-cache", "sequencer",
					   "rebase-merge", "rebase-apply", "lfs",      "reftable" };

	for (size_t i = 0; i < ARRAY_LEN(own); i++)
		if (str_eq(name, own[i]))
			return true;
	return false;
}

/* Came it here since the run began? A folder that was renamed into place brings old links along. */
static bool is_new_here(const struct folder_walk *w, const char *path, const struct stat *st)
{
	char part[PATH_MAX];
	struct stat above;

	if (protect_changed(w->t, st))
		return true;
	(void)snprintf(part, sizeof(part), "%s", path);
	for (char *slash;
	     (slash = strrchr(part, '/')) && (size_t)(slash - part) > strlen(w->git);) {
		*slash = '\0';
		if (fstatat(w->tree, part, &above, AT_SYMLINK_NOFOLLOW) < 0 ||
		    protect_changed(w->t, &above))
			return true;
	}
	return false;
}

/* git makes no link in there, and writes through one: at the next commit, checkout or gc of the
 * user's what it writes would be the command's words, and the file the command's choice. */
static bool take_link(struct folder_walk *w, const char *path, const struct stat *st)
{
	if ((!S_ISLNK(st->st_mode) && !S_ISFIFO(st->st_mode)) || !is_new_here(w, path, st))
		return false;
	quarantine(w->t, w->o, w->tree, path,
		   S_ISLNK(st->st_mode) ? "a link where git writes, made during the run"
					: "a pipe where git writes, made during the run");
	return true;
}

static bool is_looked_at(const struct folder_walk *w, const char *folder,
			 const struct fd_entry *entry)
{
	switch (entry->type) {
	case DT_DIR:
	case DT_UNKNOWN:
		return true;
	case DT_LNK:
	case DT_FIFO:
		return !is_fan_path(w, folder); /* objects are read by their sum */
	default:
		return str_eq(entry->name, ".git") || name_ends_step(entry->name);
	}
}

static void look_at_inner(struct folder_walk *w, int fd, const char *folder,
			  const struct fd_entry *entry)
{
	const char *name = entry->name;
	const struct guarded_name *known;
	char path[PATH_MAX];
	struct stat st;

	if (!is_looked_at(w, folder, entry))
		return;
	if (snprintf(path, sizeof(path), "%s%s%s", folder, *folder ? "/" : "", name) >=
	    (int)sizeof(path)) {
		w->unseen++;
		return;
	}
	if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || take_link(w, path, &st))
		return;
	known = S_ISDIR(st.st_mode) ? NULL : name_reported(path);
	if (known && known->class == NAME_STEP && protect_changed(w->t, &st))
		tell(w, path, known->reason);
	if (str_eq(name, ".git") && !S_ISDIR(st.st_mode)) {
		look_at_pointer(w, path, &st);
	} else if (str_eq(name, ".git")) {
		look_at_repository(w, path);
	} else if (S_ISDIR(st.st_mode) && is_fan_path(w, folder)) {
		quarantine(w->t, w->o, w->tree, path, "a folder where git keeps objects");
	} else if (S_ISDIR(st.st_mode) && st.st_dev == w->dev) {
		/* What came into one of those has changed it. */
		if (!is_fan_path(w, path) || protect_changed(w->t, &st))
			buf_add(str_eq(folder, w->git) && !is_gits_own(name) ? &w->later
									     : &w->queue,
				path, strlen(path) + 1);
	}
}

static void look_inside(struct folder_walk *w, const char *folder)
{
	CLEANUP(fd) int fd = open_folder(w, folder);

	if (look_through(w, fd, folder, look_at_inner) && !str_eq(folder, w->git) &&
	    gitdir_enough(gitdir_look(fd)))
		look_at_repository(w, folder);
}

/* The next folder of the queue; false: there is none, or the budget is spent. */
static bool next_folder(struct folder_walk *w, char folder[PATH_MAX])
{
	if (w->next >= w->queue.len || !w->left)
		return false;
	(void)snprintf(folder, PATH_MAX, "%s", w->queue.data + w->next);
	w->next += strlen(folder) + 1;
	w->left--;
	return true;
}

static bool begin(struct folder_walk *w, const char *top, const char *first)
{
	struct stat st;
	struct err e;

	w->top = top;
	w->tree = protect_tree(w->t, top, &e);
	if (w->tree < 0 || fstat(w->tree, &st) < 0)
		return false;
	w->dev = st.st_dev;
	buf_add(&w->queue, first, strlen(first) + 1);
	return true;
}

static void end(struct folder_walk *w)
{
	for (; w->next < w->queue.len; w->next += strlen(w->queue.data + w->next) + 1)
		w->unseen++;
	w->unseen += w->queue.failed + w->gits.failed;
	if (w->o)
		w->o->unseen_folders += w->unseen;
	buf_done(&w->queue);
	buf_done(&w->later);
}

/* More folders than anybody's git has, so that a link in one of them is not found. */
static void too_many(struct folder_walk *w)
{
	char path[PATH_MAX + 16];

	(void)snprintf(path, sizeof(path), "%s%slogs", w->git, *w->git ? "/" : "");
	quarantine(w->t, w->o, w->tree, path, "more folders than brig looks at");
	if (w->o)
		outcome_deny(w->o, "protected-path", *w->git ? w->git : ".",
			     "more folders in here than brig looks at: look for links before git "
			     "is used");
}

/* First where git writes, for as many folders as `own`; then the rest. Returns what is left of the
 * budget. */
static size_t walk_inside(const struct folder_walk *outer, const char *top, const char *git,
			  size_t own, size_t left)
{
	struct folder_walk w = { .t = outer->t,
				 .o = outer->o,
				 .git = git,
				 .left = own,
				 .queue = BUF_INIT(QUEUE_MAX),
				 .later = BUF_INIT(QUEUE_MAX) };
	char folder[PATH_MAX];

	if (begin(&w, top, git)) {
		while (next_folder(&w, folder))
			look_inside(&w, folder);
		if (w.next < w.queue.len || w.queue.failed)
			too_many(&w);
		buf_add(&w.queue, w.later.data, w.later.len);
		w.queue.failed |= w.later.failed;
		w.left = left;
		while (next_folder(&w, folder))
			look_inside(&w, folder);
	}
	end(&w);
	return w.left;
}

void protect_walk(struct protect *t, struct outcome *o)
{
	struct folder_walk w = { .t = t,
				 .o = o,
				 .left = t->strict ? FOLDERS_STRICT : FOLDERS,
				 .queue = BUF_INIT(QUEUE_MAX),
				 .gits = BUF_INIT(QUEUE_MAX) };
	size_t left = FOLDERS_GIT;
	char folder[PATH_MAX];

	if (begin(&w, t->plan->workspace, ""))
		while (next_folder(&w, folder))
			look_at_folder(&w, folder);
	end(&w);
	for (size_t i = 0; i < t->plan->git_count; i++)
		left = walk_inside(&w, t->plan->gits[i].tree, t->plan->gits[i].path, FOLDERS_OWN,
				   left);
	for (const char *git = NULL; (git = gitsay_next(&w.gits, git));)
		left = walk_inside(&w, t->plan->workspace, git, left, left);
	buf_done(&w.gits);
}
