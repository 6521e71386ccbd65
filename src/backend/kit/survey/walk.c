/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/survey/walk.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "backend/kit/survey/gitdirs.h"
#include "backend/kit/survey/protected_names.h"
#include "backend/kit/survey/reach.h"
#include "backend/kit/survey/seen.h"
#include "base/files/folder.h"
#include "base/text/str.h"
#include "git/gitsay.h"

#define EACH_KNOWN                                                                                 \
	16384            /* folders in each git folder that is known, where git writes; the rest   \
			  */
#define ALL_KNOWN 262144 /* of all of them together */
#define QUEUE_MAX ((size_t)16 << 20)

/* How an entry is noted: a folder to go on with, something to be looked at, or not at all. */
enum noted_as { IS_FOLDER = 'd', MAY_BE = '?', IS_NONE = 0 };

/* Folders that are still to be looked at, shallow ones first. */
struct walk_queue {
	struct git_walk *w;
	const char *git;         /* inside of which it goes; NULL: outside of all */
	struct buf queue, later; /* NUL after each; later: in a git folder, where git writes not */
	size_t next, *left;
};

/* What of a folder's entries is of interest. */
struct noted {
	struct buf names; /* IS_FOLDER or MAY_BE, and a name */
	unsigned parts;
	bool quiet; /* seen.h: nothing else is in there that counts */
};

static bool is_git_name(const char *name)
{
	return strcasecmp(name, ".git") == 0;
}

static unsigned part_of(const char *name)
{
	for (size_t i = 0; i < GIT_NAMES; i++)
		if (strcasecmp(name, git_names[i]) == 0)
			return 1U << i;
	return 0;
}

static bool walk_join(char out[PATH_MAX], const char *folder, const char *name)
{
	return snprintf(out, PATH_MAX, "%s%s%s", folder, *folder ? "/" : "", name) < PATH_MAX;
}

static bool is_fan(const char *name)
{
	return strspn(name, "0123456789abcdef") == 2 && !name[2];
}

/* A folder of objects of the git folder that is looked through. */
static bool is_fan_path(const struct walk_queue *s, const char *path)
{
	size_t n = s->git ? strlen(s->git) : 0;

	if (!s->git || (n && (strncmp(path, s->git, n) != 0 || path[n] != '/')))
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

static bool is_told(const char *folder, const char *name)
{
	char path[PATH_MAX];

	return !walk_join(path, folder, name) || name_reported(path);
}

/* `told`: it is a name that is told of. */
static enum noted_as noted_as(const struct walk_queue *s, const char *folder,
			      const struct fd_entry *e, bool told)
{
	bool fan = is_fan_path(s, folder); /* objects are read by their sum */

	if (e->type == DT_DIR && !is_git_name(e->name) &&
	    (s->git ? !fan && !is_fan(e->name) : s->w->no_names || !told))
		return IS_FOLDER; /* of which nothing is to be known but what is in it */
	if (e->type == DT_DIR || e->type == DT_UNKNOWN || is_git_name(e->name))
		return MAY_BE;
	if (!s->git && s->w->no_names)
		return IS_NONE;
	if (e->type == DT_LNK || e->type == DT_FIFO)
		return fan ? IS_NONE : MAY_BE;
	return told || (s->git && name_ends_step(e->name)) ? MAY_BE : IS_NONE;
}

static bool is_ascii(const char *name)
{
	for (; *name; name++)
		if (*name & 0x80)
			return false;
	return true;
}

/* Where a file system takes other signs for letters (a long s, one that nobody sees), the kernel is
 * asked whether something answers to a name that no entry has. */
static void ask_for_names(int fd, bool git, struct noted *n)
{
	struct stat st;

	n->parts |= gitdir_look(fd);
	if (git || fstatat(fd, ".git", &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	n->quiet = false;
	buf_putc(&n->names, MAY_BE);
	buf_add(&n->names, ".git", sizeof(".git"));
}

/* false: not all of it could be read. */
static bool note_entries(const struct walk_queue *s, int fd, const char *folder, struct noted *n)
{
	bool git = false, ascii = true;
	const struct fd_entry *e;
	struct folder d;

	folder_begin(&d, fd);
	while ((e = folder_next(&d))) {
		bool told = !s->git && (n->quiet || !s->w->no_names) && is_told(folder, e->name);
		enum noted_as as = noted_as(s, folder, e, told);

		n->parts |= part_of(e->name);
		git = git || is_git_name(e->name);
		ascii = ascii && is_ascii(e->name);
		/* To any walk, also where names do not count to this one. */
		n->quiet &= !told && (as == IS_FOLDER || (as == IS_NONE && e->type == DT_REG));
		if (as != IS_NONE) {
			buf_putc(&n->names, (char)as);
			buf_add(&n->names, e->name, strlen(e->name) + 1);
		}
	}
	if (!ascii)
		ask_for_names(fd, git, n);
	return !d.error && !n->names.failed;
}

static bool is_listed(const struct git_walk *w, const char *git)
{
	const struct known_thing *k = known_find(w->known, git);

	return k && known_is_git(k);
}

static void push(struct walk_queue *s, const char *folder, const char *name, const char *path)
{
	bool later = s->git && str_eq(folder, s->git) && !is_gits_own(name);

	buf_add(later ? &s->later : &s->queue, path, strlen(path) + 1);
}

/* Folders of objects have no folders in them, which most file systems tell by a number. */
static void met_folder(struct walk_queue *s, const char *folder, const char *name, const char *path,
		       const struct stat *st)
{
	if (is_git_name(name))
		buf_add(&s->w->gits, path, strlen(path) + 1);
	else if (is_fan_path(s, folder))
		s->w->on_thing(s->w, WALK_STRAY, s->git, path, st);
	else if (!is_fan_path(s, path) || st->st_nlink != 2)
		push(s, folder, name, path);
}

/* `noted` is one of struct noted's. */
static void met(struct walk_queue *s, int fd, const char *folder, const char *noted)
{
	const char *name = noted + 1;
	char path[PATH_MAX];
	struct stat st;

	if (!walk_join(path, folder, name)) {
		s->w->unseen++;
		s->w->more = true;
		return;
	}
	if (*noted == IS_FOLDER) {
		push(s, folder, name, path);
		return;
	}
	if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	if (S_ISDIR(st.st_mode) && !s->git && !s->w->no_names && name_reported(path))
		s->w->on_thing(s->w, WALK_NAME, NULL, path, &st);
	if (S_ISDIR(st.st_mode))
		met_folder(s, folder, name, path, &st);
	else if (is_git_name(name))
		s->w->on_thing(s->w, WALK_POINTER, s->git, path, &st);
	else if (s->git && (S_ISLNK(st.st_mode) || S_ISFIFO(st.st_mode)))
		s->w->on_thing(s->w, WALK_WRITTEN, s->git, path, &st);
	else
		s->w->on_thing(s->w, s->git ? WALK_STEP : WALK_NAME, s->git, path, &st);
}

/* Goes on with what an earlier walk found in it. false: it is to be listed. */
static bool look_as_seen(struct walk_queue *s, const char *folder)
{
	const char *names;
	char path[PATH_MAX];
	struct stat st;

	if (!seen_has(s->w->seen, folder, s->git) ||
	    fstatat(s->w->tree, folder, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	names = seen_names(s->w->seen, folder, s->git, &st);
	for (const char *n = names; n && *n; n += strlen(n) + 1)
		if (walk_join(path, folder, n + 1))
			push(s, folder, n + 1, path);
	return names;
}

/* A folder that is a git folder itself has its own turn; the tree is looked through all the same,
 * and so is what git does not take for one yet. */
static void walk_look_at(struct walk_queue *s, const char *folder)
{
	bool own = s->git && str_eq(folder, s->git), whole;
	bool keep = !own && *folder && seen_wants(s->w->seen);
	struct noted n = { .names = BUF_INIT(QUEUE_MAX), .quiet = keep };
	CLEANUP(fd) int fd = reach_open(s->w->tree, folder);
	struct stat st;

	if (fd < 0) {
		s->w->unseen += fd != -ENOENT && fd != -ELOOP && fd != -ENOTDIR;
		return;
	}
	keep = keep && fstat(fd, &st) == 0;
	whole = note_entries(s, fd, folder, &n);
	s->w->unseen += !whole;
	if (keep && whole && n.quiet && !gitdir_enough(n.parts))
		seen_put(s->w->seen, folder, s->git, &st, &n.names);
	if (own || (gitdir_enough(n.parts) && !gitdir_obeyed(n.parts)) ||
	    (!*folder && gitdir_obeyed(n.parts)))
		s->w->on_git(s->w, fd, folder, n.parts);
	if (!own && *folder && gitdir_obeyed(n.parts))
		buf_add(&s->w->gits, folder, strlen(folder) + 1);
	else
		for (const char *name = NULL; (name = gitsay_next(&n.names, name));)
			met(s, fd, folder, name);
	buf_done(&n.names);
}

/* Until the queue or the budget is empty. */
static bool look_through(struct walk_queue *s)
{
	char folder[PATH_MAX];

	for (; s->next < s->queue.len && *s->left; --*s->left) {
		(void)snprintf(folder, sizeof(folder), "%s", s->queue.data + s->next);
		s->next += strlen(folder) + 1;
		if ((s->git && str_eq(folder, s->git)) || !look_as_seen(s, folder))
			walk_look_at(s, folder);
	}
	return s->next >= s->queue.len && !s->queue.failed;
}

static void count_unseen(struct walk_queue *s)
{
	for (; s->next < s->queue.len; s->next += strlen(s->queue.data + s->next) + 1)
		s->w->unseen++;
	s->w->unseen += s->queue.failed;
}

static void search(struct git_walk *w, const char *git, size_t *left, size_t *rest)
{
	struct walk_queue s = { .w = w,
				.git = git,
				.queue = BUF_INIT(QUEUE_MAX),
				.later = BUF_INIT(QUEUE_MAX),
				.left = left };
	const char *first = git ? git : "";
	bool all;

	buf_add(&s.queue, first, strlen(first) + 1);
	all = look_through(&s);
	s.left = rest;
	if (s.later.len)
		buf_add(&s.queue, s.later.data, s.later.len);
	s.queue.failed |= s.later.failed;
	all &= look_through(&s);
	count_unseen(&s);
	if (!all)
		w->on_more(w, first);
	buf_done(&s.queue);
	buf_done(&s.later);
}

static void search_known(struct git_walk *w, const char *git)
{
	size_t own = w->known_left < EACH_KNOWN ? w->known_left : EACH_KNOWN, left = own;
	size_t rest = own;

	search(w, git, &left, &rest);
	w->known_left -= own - (left < rest ? left : rest);
}

/* Those that are not known, and those that are met in them. */
static void search_met(struct git_walk *w)
{
	char git[PATH_MAX];

	for (size_t next = 0; next < w->gits.len;) {
		(void)snprintf(git, sizeof(git), "%s", w->gits.data + next);
		next += strlen(git) + 1;
		if (!is_listed(w, git))
			search(w, git, &w->inside, &w->inside);
	}
	w->more |= w->gits.failed;
	buf_done(&w->gits);
	w->gits = (struct buf)WALK_GITS;
}

void walk_tree(struct git_walk *w)
{
	w->known_left = ALL_KNOWN;
	seen_begin(w->seen);
	for (size_t i = 0; i < w->known->n; i++)
		if (known_is_git(&w->known->v[i]) && *w->known->v[i].path)
			search_known(w, w->known->v[i].path);
	/* A tree that is a git folder itself is looked through as one. */
	search(w, is_listed(w, "") ? "" : NULL, &w->outside, &w->outside);
	search_met(w);
	if (w->more)
		w->on_more(w, "");
}

void walk_one(struct git_walk *w, const char *git)
{
	search(w, git, &w->inside, &w->inside);
	search_met(w);
}
