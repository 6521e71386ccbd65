/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/protect/judge.c - every git folder of a tree after a run, against the record.
 *
 * What is in the record as it is now stays. Everything else is judged by its contents alone,
 * whoever made it and whenever: what git would run or be led by goes to quarantine, and what is
 * plain stays. What a configuration says is asked of git itself (git_reader.h); where nobody
 * answers it counts as hostile. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "backend/kit/protect/protect_internal.h"
#include "backend/kit/survey/gitdirs.h"
#include "backend/kit/survey/placeholder.h"
#include "backend/kit/survey/pointer.h"
#include "backend/kit/survey/protected_names.h"
#include "backend/kit/survey/walk.h"
#include "base/text/str.h"
#include "git/gitsay.h"
#include "model/settings/paths.h"

#define HOOKS_EACH 64 /* are moved one by one */

struct judge {
	struct protect *t;
	const struct tree *tree;
	struct buf *text; /* of the next record */
	bool made;        /* by a run: something that was put there */
	bool partial;     /* not all was looked at */
};

/* One git folder while its parts are judged. */
struct judged {
	struct judge *j;
	const char *git;
	bool known;    /* the user's */
	bool believed; /* what it has, by its stamps */
	bool worktree; /* lies where git puts a worktree's */
	bool hooks;    /* are gone as a whole */
	size_t moved;
};

static bool is_known(const struct judge *j, const char *path)
{
	return known_find(&j->tree->known, path);
}

/* Neither it nor a folder that it is in: by the name of one of those it came from elsewhere. */
static bool is_untouched(const struct judge *j, const char *path)
{
	char part[PATH_MAX];
	struct stat st;

	for (size_t n = 0; path_grow(path, &n, part);)
		if (fstatat(j->tree->fd, part, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    protect_changed(j->t, &st))
			return false;
	return true;
}

/* Nobody looked there before the command: it may well be the user's, and nothing has changed since.
 * A command can bring it about with a great many folders, so it is told as loudly. */
static bool is_spared(const struct judge *j, const char *git, const char *path)
{
	if (!known_partial(&j->tree->known) || is_known(j, path) || (git && is_known(j, git)) ||
	    !is_untouched(j, path))
		return false;
	protect_deny(j->t, j->tree, path,
		     "lies where brig did not look before the run, for there were too many "
		     "folders; it stays: look at it before git is used there");
	return true;
}

/* ---- pointers ---- */

/* The host's path of what a text in `folder` of the tree names, by its letters. */
static bool judge_resolve(const struct judge *j, const char *folder, const char *text,
			  char out[PATH_MAX])
{
	CLEANUP(arena) struct arena *arena = arena_new(1 << 16);
	char cwd[PATH_MAX];
	struct place at = { .cwd = cwd };
	const char *host;
	struct err e;

	if (!arena || snprintf(cwd, sizeof(cwd), "%s%s%s", j->tree->path, *folder ? "/" : "",
			       folder) >= (int)sizeof(cwd))
		return false;
	return path_resolve(arena, &at, text, &host, &e) == 0 &&
	       snprintf(out, PATH_MAX, "%s", host) < PATH_MAX;
}

/* By a link, and by `..` behind one, it would lead elsewhere than its letters say; git writes none
 * that does. What is missing is asked for again after each run. */
static bool leads_straight(const struct judge *j, const char *folder, const char *text)
{
	CLEANUP(fd) int fd = pointer_open(j->tree->fd, folder, text);

	return fd >= 0 || fd == -ENOENT;
}

static void folder_of(const char *path, char out[PATH_MAX])
{
	const char *slash = strrchr(path, '/');

	(void)snprintf(out, PATH_MAX, "%.*s", slash ? (int)(slash - path) : 0, path);
}

/* Does the line of a `.git` file lead into a tree of the run's? *straight: without a link. */
static bool leads_in(const struct judge *j, const char *path, bool *straight)
{
	char text[POINTER_MAX], folder[PATH_MAX], host[PATH_MAX];
	const char *at = host;

	folder_of(path, folder);
	if (!pointer_read(j->tree->fd, path, text) || !judge_resolve(j, folder, text, host))
		return false;
	*straight = leads_straight(j, folder, text);
	return protect_tree_of(j->t, &at);
}

static const char *pointer_fault(const struct judge *j, const char *path, const struct stat *st)
{
	char text[POINTER_MAX];
	bool straight;

	if (!strchr(path, '/'))
		return "not a folder, made or changed during the run";
	if (!S_ISREG(st->st_mode) || !pointer_read(j->tree->fd, path, text))
		return "neither a git folder nor a line that leads to one";
	if (!leads_in(j, path, &straight) || !straight)
		return "made or changed during the run, and leads git out of the workspace";
	return NULL;
}

/* Programs of the user's that write to it write elsewhere. */
static bool leads_out(const struct judge *j, const char *path)
{
	char to[PATH_MAX], folder[PATH_MAX], host[PATH_MAX];
	ssize_t n = readlinkat(j->tree->fd, path, to, sizeof(to) - 1);

	if (n <= 0)
		return false;
	to[n] = '\0';
	folder_of(path, folder);
	return judge_resolve(j, folder, to, host) && !path_under(host, j->tree->path);
}

/* What leads nowhere yet by a link in the tree may lead to something tomorrow, when nobody looks
 * here; by its letters alone it is asked for again. */
static bool may_lead_later(const struct judge *j, const char *path, const struct stat *st)
{
	bool straight = false;

	return S_ISLNK(st->st_mode) ? !leads_out(j, path)
				    : leads_in(j, path, &straight) && !straight;
}

/* The line is as it was; what it leads to may be another since. */
static const char *known_fault(const struct judge *j, const char *path, const struct stat *st)
{
	enum pointer_leads leads = pointer_leads(&j->tree->known, j->tree->fd, path);

	if (leads == POINTER_AS_BEFORE || !pointer_fault(j, path, st) ||
	    (leads == POINTER_NOWHERE && !may_lead_later(j, path, st)))
		return NULL;
	return "leads git elsewhere than before the run";
}

static void judge_pointer(struct judge *j, const char *path, const struct stat *st)
{
	const char *fault = known_same(&j->tree->known, path, st) ? known_fault(j, path, st)
								  : pointer_fault(j, path, st);

	if (S_ISSOCK(st->st_mode)) /* a placeholder */
		return;
	if (fault) {
		if (!is_spared(j, NULL, path))
			quarantine(j->t, j->tree, path, fault);
		return;
	}
	if (!is_known(j, path))
		protect_trust(j->t, j->tree, path,
			      "made during the run: where the folder's repository is");
	pointer_put(j->text, j->tree->fd, path, st);
}

/* ---- what a configuration says ---- */

/* A submodule's names its working tree, whose `.git` names it in return. */
static bool tree_fits(const struct judged *g, const char *value)
{
	char host[PATH_MAX], own[PATH_MAX], back[PATH_MAX], text[POINTER_MAX], pointer[PATH_MAX];
	const struct judge *j = g->j;
	const char *path = host;

	if (!judge_resolve(j, g->git, value, host) || !judge_resolve(j, g->git, ".", own) ||
	    protect_tree_of(j->t, &path) != j->tree ||
	    snprintf(pointer, sizeof(pointer), "%s/.git", path) >= (int)sizeof(pointer))
		return false;
	return leads_straight(j, g->git, value) && pointer_read(j->tree->fd, pointer, text) &&
	       judge_resolve(j, path, text, back) && leads_straight(j, path, text) &&
	       str_eq(back, own);
}

/* By a second name it could be written later; git reads no folder. */
static bool config_plain(struct judged *g, const char *path, const struct stat *st)
{
	CLEANUP(buf) struct buf facts = BUF_INIT(READER_ANSWER_MAX);
	struct judge *j = g->j;

	if (S_ISDIR(st->st_mode))
		return true;
	if (!S_ISREG(st->st_mode) || st->st_nlink > 1 ||
	    protect_config_facts(j->t, j->tree->fd, path, &facts) != READER_PLAIN ||
	    !gitsay_has(&facts, "plain"))
		return false;
	for (const char *fact = NULL; (fact = gitsay_next(&facts, fact));)
		if (str_starts(fact, "worktree=") && !tree_fits(g, strchr(fact, '=') + 1))
			return false;
	return true;
}

/* ---- parts ---- */

/* As git makes it: the shared folder is two above, byte for byte. */
static bool common_plain(const struct judged *g, const char *path)
{
	static const char wanted[] = "../..\n";
	char text[sizeof(wanted)];
	CLEANUP(fd) int fd = -1;
	struct stat st;

	if (!g->worktree)
		return false;
	fd = fd_open_nolinks(g->j->tree->fd, path, O_RDONLY | O_NONBLOCK, FD_BENEATH);
	return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 1 &&
	       pread(fd, text, sizeof(text), 0) == sizeof(wanted) - 1 &&
	       memcmp(text, wanted, sizeof(wanted) - 1) == 0;
}

static bool part_plain(struct judged *g, const struct git_part *part, const char *path,
		       const struct stat *st)
{
	switch (part->kind) {
	case GIT_PART_HOOKS: /* git runs no sample */
		return str_ends_nocase(path, ".sample") && !S_ISDIR(st->st_mode);
	case GIT_PART_CONFIG:
		return config_plain(g, path, st);
	case GIT_PART_COMMON:
		return common_plain(g, path);
	case GIT_PART_BACK:
		return S_ISREG(st->st_mode) && st->st_nlink == 1;
	case GIT_PART_LIST:
	case GIT_PART_FILE:
		break;
	}
	return false;
}

static void move_part(struct judged *g, const char *path, const char *why)
{
	g->moved++;
	quarantine_of(g->j->t, g->j->tree, path, why, *g->git ? g->git : NULL);
}

/* A folder of hooks that nobody's work is in goes in one piece, as one of addresses always does. */
static void take_part(struct judged *g, const struct git_part *part, const char *path)
{
	const char *why = is_known(g->j, path) ? "changed during the run" : "made during the run";
	char whole[PATH_MAX];

	if (part->kind == GIT_PART_LIST ||
	    (part->kind == GIT_PART_HOOKS && (!g->known || g->moved > HOOKS_EACH))) {
		(void)snprintf(whole, sizeof(whole), "%s%s%s", g->git, *g->git ? "/" : "",
			       part->name);
		g->hooks |= part->kind == GIT_PART_HOOKS;
		move_part(g, whole,
			  part->kind == GIT_PART_HOOKS
				  ? "hooks made during the run"
				  : "addresses for git that were made or changed during the run");
		return;
	}
	move_part(g, path,
		  part->kind == GIT_PART_CONFIG ? "made or changed during the run, with more than "
						  "plain settings"
						: why);
}

/* What the plan protects was compared already, and stays where it may. */
static bool is_planned(const struct judge *j, const char *path)
{
	return is_known(j, path) && (plan_protects(j->t->plan, j->tree->path, path) ||
				     known_name(&j->tree->known, path));
}

static void judge_part(void *ctx, const struct git_part *part, const char *path,
		       const struct stat *st)
{
	struct judged *g = ctx;
	struct judge *j = g->j;

	if (S_ISSOCK(st->st_mode) || (part->kind == GIT_PART_HOOKS && g->hooks))
		return;
	if (!(g->believed && (known_same(&j->tree->known, path, st) || is_planned(j, path))) &&
	    !part_plain(g, part, path, st)) {
		if (!is_spared(j, g->git, path))
			take_part(g, part, path);
		return;
	}
	known_put(j->text, RECORD_PART, path, st);
}

/* ---- git folders ---- */

/* `GIT/worktrees/NAME` of a git folder, and nothing else. */
static bool is_worktrees(const struct judge *j, const char *git)
{
	char above[PATH_MAX], common[PATH_MAX];
	CLEANUP(fd) int fd = -1;

	folder_of(git, above);
	folder_of(above, common);
	if (!str_eq(above, "worktrees") && !str_ends_nocase(above, "/worktrees"))
		return false;
	fd = reach_open(j->tree->fd, common);
	return fd >= 0 && (gitdir_named(common) || gitdir_obeyed(gitdir_look(fd)));
}

/* git takes the tree itself for a bare repository, unless its `.git` is good, which the command may
 * have seen to: whatever made it so goes. */
static void judge_top(struct judge *j)
{
	struct stat st;

	for (size_t i = 0; i < GIT_NAMES; i++)
		if (fstatat(j->tree->fd, git_names[i], &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    !is_known(j, git_names[i]))
			quarantine(j->t, j->tree, git_names[i],
				   "it made the folder look like a bare repository");
}

static void on_git(struct git_walk *w, int fd, const char *git, unsigned parts)
{
	struct judge *j = w->ctx;
	const struct known_thing *k = known_find(&j->tree->known, git);
	bool listed = gitdir_obeyed(parts) || gitdir_named(git);
	struct judged g = { .j = j,
			    .git = git,
			    .known = k && k->kind == RECORD_GIT,
			    .believed = !k || k->kind != RECORD_MADE };
	struct stat st;

	if (fstat(fd, &st) < 0)
		return;
	if (!*git && (!k || k->kind == RECORD_PART)) {
		if (gitdir_obeyed(parts))
			judge_top(j);
		return;
	}
	g.worktree = is_worktrees(j, git);
	gitdir_parts(j->tree->fd, git, judge_part, &g);
	if (!listed)
		return;
	if (k && g.known && k->was.ident.ino == st.st_ino && k->was.ident.dev == st.st_dev) {
		known_put(j->text, RECORD_GIT, git, &st);
		return;
	}
	known_put(j->text, RECORD_MADE, git, &st);
	j->made = true;
	if (!k && !str_eq(git, ".git") && !strstr(git, ".git/"))
		protect_trust(j->t, j->tree, git, "a repository made during the run");
}

/* Who copies the whole tree copies the placeholders, which inside are files that say nothing. */
static bool is_copy(const struct judge *j, const struct guarded_name *g, const char *path,
		    const struct stat *st)
{
	size_t n = strlen(path);

	return g->class == NAME_HELD && n > g->len && path[n - g->len - 1] == '/' &&
	       str_eq(path + n - g->len, g->name) && placeholder_copied(j->tree->fd, path, st);
}

static void judge_name(struct judge *j, const char *path, const struct stat *st)
{
	const struct guarded_name *known = name_reported(path);

	if (!protect_tells(j->t, st))
		return;
	if (known && is_copy(j, known, path, st))
		return;
	if (known)
		protect_trust(j->t, j->tree, path, known->reason);
	else if (S_ISLNK(st->st_mode) && leads_out(j, path))
		protect_trust(j->t, j->tree, path,
			      "a link that leads out of the workspace: what writes to it writes "
			      "there");
}

static void judge_written(struct judge *j, const char *git, const char *path, const struct stat *st)
{
	const struct known_thing *k = known_find(&j->tree->known, git);

	if (k && k->kind == RECORD_GIT && known_same(&j->tree->known, path, st)) {
		known_put(j->text, RECORD_PART, path, st);
		return;
	}
	if (is_spared(j, k && k->kind == RECORD_GIT ? NULL : git, path))
		return;
	quarantine(j->t, j->tree, path,
		   S_ISLNK(st->st_mode) ? "a link where git writes, made during the run"
					: "a pipe where git writes, made during the run");
}

static void on_thing(struct git_walk *w, enum walk_what what, const char *git, const char *path,
		     const struct stat *st)
{
	struct judge *j = w->ctx;

	switch (what) {
	case WALK_POINTER:
		judge_pointer(j, path, st);
		break;
	case WALK_WRITTEN:
		judge_written(j, git, path, st);
		break;
	case WALK_STRAY:
		if (!is_spared(j, git, path))
			quarantine(j->t, j->tree, path, "a folder where git keeps objects");
		break;
	case WALK_NAME:
		judge_name(j, path, st);
		break;
	case WALK_STEP:
		if (protect_tells(j->t, st) && name_reported(path))
			protect_trust(j->t, j->tree, path, name_reported(path)->reason);
		break;
	}
}

/* More than anybody has, so that something in there is not found. Where git writes most goes. */
static void on_more(struct git_walk *w, const char *git)
{
	struct judge *j = w->ctx;
	char path[PATH_MAX + 16];

	j->partial = true;
	if (*git && !known_partial(&j->tree->known)) {
		(void)snprintf(path, sizeof(path), "%s/logs", git);
		quarantine(j->t, j->tree, path, "more folders than brig looks at");
	}
	protect_deny(j->t, j->tree, *git ? git : ".",
		     *git ? "more folders in here than brig looks at: look for links before git "
			    "is used"
			  : "more folders than brig looks at: there may be repositories in the "
			    "rest that a command made; look before git is used there");
}

static struct git_walk walk_of(struct judge *j)
{
	const char *own = j->t->plan->workspace;

	/* Of other trees nothing is told but what git obeys. */
	return (struct git_walk){ .tree = j->tree->fd,
				  .no_names = !own || !str_eq(j->tree->path, own),
				  .known = &j->tree->known,
				  .outside = WALK_OUTSIDE,
				  .inside = WALK_INSIDE,
				  .seen = j->tree->seen,
				  .on_git = on_git,
				  .on_thing = on_thing,
				  .on_more = on_more,
				  .ctx = j,
				  .gits = WALK_GITS };
}

bool judge_tree(struct protect *t, const struct tree *tree, struct buf *text)
{
	struct judge j = { .t = t, .tree = tree, .text = text };
	struct git_walk w = walk_of(&j);
	struct stat st;

	walk_tree(&w);
	if (j.partial || known_partial(&tree->known))
		known_put_partial(text);
	t->o->unseen_folders += w.unseen;
	for (size_t i = 0; i < GIT_NAMES; i++)
		if (fstatat(tree->fd, git_names[i], &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    is_known(&j, git_names[i]))
			known_put(text, RECORD_PART, git_names[i], &st);
	return j.made;
}

void judge_made(struct protect *t, const struct tree *tree, struct buf *text)
{
	struct judge j = { .t = t, .tree = tree, .text = text };
	struct git_walk w = walk_of(&j);

	for (size_t i = 0; i < tree->known.n; i++) {
		const struct known_thing *k = &tree->known.v[i];
		struct stat st;

		if (k->kind == RECORD_MADE)
			walk_one(&w, k->path);
		else if (str_ends_nocase(k->path, "/")) /* a goal */
			known_keep(text, k);
		else if (fstatat(tree->fd, *k->path ? k->path : ".", &st, AT_SYMLINK_NOFOLLOW) == 0)
			known_put(text, k->kind, k->path, &st);
	}
}
