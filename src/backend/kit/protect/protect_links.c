/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/protect/protect_links.c - where the gitlinks of an index lead git.
 *
 * git status looks into every repository that the index names as a submodule, by that one's own
 * configuration and hooks, and from there on into the next. So a repository that is new behind such
 * a path goes, whether the index named it before the run or does so now; one that was there stays
 * with what it had. What git itself cannot read plainly may lead anywhere and is moved away. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "backend/kit/protect/git_reader.h"
#include "backend/kit/protect/gitdirs.h"
#include "backend/kit/protect/gitsay.h"
#include "backend/kit/protect/protect_internal.h"
#include "base/str.h"
#include "model/paths.h"

#define DEPTH_MAX 4

/* What an index named when the run began. */
struct seen_index {
	bool there, known;
	struct stamp stamp;
	struct buf links;        /* if known */
	struct reader_copy copy; /* if not: of the file */
};

void protect_links_begin(struct protect *t)
{
	t->seen = calloc(t->plan->index_count, sizeof(*t->seen));
	for (size_t i = 0; t->seen && i < t->plan->index_count; i++) {
		struct seen_index *s = &t->seen[i];
		CLEANUP(fd)
		int dir =
			fd_open_nolinks(AT_FDCWD, t->plan->indexes[i].git, O_PATH | O_DIRECTORY, 0);
		struct stat st;

		*s = (struct seen_index){ .links = BUF_INIT(READER_ANSWER_MAX),
					  .copy = READER_COPY_NONE };
		if (dir < 0 || fstatat(dir, "index", &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		s->there = true;
		s->stamp = stamp_of(&st);
		s->known = reader_known(READER_INDEX, &s->stamp, &s->links);
		if (!s->known)
			(void)reader_copy(READER_INDEX, dir, "index", &s->copy);
	}
}

int protect_links_recall(struct protect *t, size_t i, const struct stamp *was)
{
	struct seen_index *s;

	if (!t->seen)
		t->seen = calloc(t->plan->index_count, sizeof(*t->seen));
	if (!t->seen)
		return -ENOMEM;
	s = &t->seen[i];
	*s = (struct seen_index){ .links = BUF_INIT(READER_ANSWER_MAX), .copy = READER_COPY_NONE };
	s->there = was;
	if (!was)
		return 0;
	s->stamp = *was;
	s->known = reader_known(READER_INDEX, was, &s->links);
	return 0;
}

const struct stamp *protect_links_seen(const struct protect *t, size_t i)
{
	return t->seen && t->seen[i].there ? &t->seen[i].stamp : NULL;
}

void protect_links_done(struct protect *t)
{
	for (size_t i = 0; t->seen && i < t->plan->index_count; i++) {
		buf_done(&t->seen[i].links);
		reader_copy_done(&t->seen[i].copy);
	}
	free(t->seen);
}

/* What it does not know of an index it does not guess. */
void protect_links_forget(struct protect *t)
{
	for (size_t i = 0; t->seen && i < t->plan->index_count; i++)
		t->seen[i].copy.fd = -1;
}

/* One index, and what is known of it. */
struct links {
	struct protect *t;
	struct outcome *o;
	const struct watched_index *at;
	int depth;
	bool before; /* it is known what it named before */
	struct buf was, is;
};

static void object_format(struct protect *t, const char *config, char out[16])
{
	CLEANUP(buf) struct buf facts = BUF_INIT(READER_ANSWER_MAX);
	const char *path = config;
	int tree = protect_tree_of(t, &path);

	(void)snprintf(out, 16, "sha1");
	if (tree < 0 || protect_config_facts(t, tree, path, "config", &facts) != READER_PLAIN)
		return;
	if (gitsay_has(&facts, "format=sha256"))
		(void)snprintf(out, 16, "sha256");
}

static enum reader_said ask(struct links *l, const struct reader_copy *copy, struct buf *ret)
{
	char format[16];

	if (copy->fd < 0)
		return READER_NOBODY;
	object_format(l->t, l->at->config, format);
	return reader_ask(READER_INDEX, copy, format, &l->t->asker, ret);
}

/* The index leads to what should not be there, and that, or the index itself, goes. */
static void move_index(struct links *l, const char *why)
{
	char index[PATH_MAX];
	const char *path = index, *git = l->at->git;
	struct lead lead;
	int tree;

	(void)snprintf(index, sizeof(index), "%s/index", l->at->git);
	tree = protect_tree_of(l->t, &path);
	lead = (struct lead){ .tree = protect_tree_of(l->t, &git), .git = git };
	if (tree >= 0)
		quarantine_lead(l->t, l->o, tree, path, why, lead.tree >= 0 ? &lead : NULL);
}

static void move_repository(struct links *l, int tree, const char *path, const char *why)
{
	char index[PATH_MAX];
	const char *in = index, *git = l->at->git;
	struct lead lead;
	int index_tree;

	(void)snprintf(index, sizeof(index), "%s/index", l->at->git);
	index_tree = protect_tree_of(l->t, &in);
	lead = (struct lead){ .tree = index_tree, .index = in, .git = git };
	if (protect_tree_of(l->t, &lead.git) != index_tree)
		lead.git = NULL;
	quarantine_lead(l->t, l->o, tree, path, why, index_tree >= 0 ? &lead : NULL);
}

/* Nobody wrote down what a repository was like: then its parts must be older than the run, and it
 * stood where it stands, or has nothing that could do harm. Where that cannot be told it is the
 * user's, who is told. */
static bool looks_old(const struct links *l, int tree, const char *git)
{
	enum protect_move move;

	if (protect_made(l->t, tree, git) || !protect_parts_old(l->t, tree, git))
		return false;
	move = protect_moved(l->t, tree, git);
	if (move == PROTECT_STAYED || protect_plain(l->t, tree, git))
		return true;
	if (move == PROTECT_UNCLEAR && l->o)
		outcome_trust(l->o, git, PROTECT_UNCLEAR_REASON);
	return move == PROTECT_UNCLEAR;
}

/* Was it there before, with the parts it has now? The plan knows, or its times tell. */
static bool is_old(const struct links *l, int tree, const char *path, const struct stat *st)
{
	char part[PATH_MAX + 16];

	(void)snprintf(part, sizeof(part), "%s/config", path);
	if (plan_protects(l->t->plan, l->t->plan->workspace, S_ISDIR(st->st_mode) ? part : path))
		return !S_ISDIR(st->st_mode) || !protect_made(l->t, tree, path);
	return S_ISDIR(st->st_mode) ? looks_old(l, tree, path) : !protect_changed(l->t, st);
}

static void look_into(struct links *l);

/* The next index on the way, unless it has its own turn. Behind a link that is fresh, so are all of
 * its own. */
static void go_on(struct links *l, const char *git, const char *root, bool fresh)
{
	const struct watched_index at = { .git = git, .root = root, .config = git };
	struct links next = { .t = l->t,
			      .o = l->o,
			      .at = &at,
			      .depth = l->depth + 1,
			      .was = BUF_INIT(READER_ANSWER_MAX),
			      .is = BUF_INIT(READER_ANSWER_MAX) };
	struct reader_copy copy = READER_COPY_NONE;
	CLEANUP(fd) int dir = -1;
	enum reader_said said;
	struct stat st;

	for (size_t i = 0; i < l->t->plan->index_count; i++)
		if (str_eq(l->t->plan->indexes[i].git, git))
			return;
	dir = fd_open_nolinks(AT_FDCWD, git, O_PATH | O_DIRECTORY, 0);
	if (dir < 0 || fstatat(dir, "index", &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	next.before = !fresh && !protect_changed(l->t, &st);
	said = l->depth == DEPTH_MAX || reader_copy(READER_INDEX, dir, "index", &copy) < 0
		       ? READER_HOSTILE
		       : ask(&next, &copy, &next.is);
	l->t->strict |= said != READER_PLAIN;
	if (said == READER_HOSTILE && !next.before)
		move_index(&next, "an index that git does not read plainly");
	else if (next.before)
		buf_add(&next.was, next.is.data, next.is.len);
	look_into(&next);
	reader_copy_done(&copy);
	buf_done(&next.was);
	buf_done(&next.is);
}

/* One line that was there before the run: where the repository of a `.git` file lies. */
static const char *pointed_to(int tree, const char *path, const char *root, struct arena *arena)
{
	CLEANUP(fd) int fd = fd_open_nolinks(tree, path, O_RDONLY | O_NONBLOCK, FD_BENEATH);
	struct place at = { .cwd = root };
	char text[PATH_MAX];
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	const char *git;
	struct err e;

	if (n <= 0)
		return NULL;
	text[n] = '\0';
	text[strcspn(text, "\n")] = '\0';
	if (!str_starts(text, "gitdir: ") || str_has_control(text) ||
	    path_resolve(arena, &at, text + strlen("gitdir: "), &git, &e) < 0)
		return NULL;
	return git;
}

/* A repository of the workspace that the plan did not protect has nothing but plain parts, or the
 * path became a submodule's with it. */
static bool is_fit(struct links *l, int tree, const char *git)
{
	char part[PATH_MAX + 16];

	(void)snprintf(part, sizeof(part), "%s/config", git);
	return plan_protects(l->t->plan, l->t->plan->workspace, part) ||
	       protect_plain(l->t, tree, git);
}

/* One that the plan did not know: what its configuration names was not covered. */
static bool is_faithful(struct links *l, const char *git, const char *in, const char *root)
{
	char part[PATH_MAX + 16];

	(void)snprintf(part, sizeof(part), "%s/config", in);
	return plan_protects(l->t->plan, l->t->plan->workspace, part) ||
	       protect_places(l->t, l->o, git, root);
}

static void old_repository(struct links *l, int tree, const char *path, const struct stat *st,
			   const char *root, bool fresh)
{
	CLEANUP(arena) struct arena *arena = arena_new(1 << 16);
	const char *git = !arena                 ? NULL
			  : S_ISDIR(st->st_mode) ? arena_printf(arena, "%s/.git", root)
						 : pointed_to(tree, path, root, arena);
	const char *in = git;
	int where = git ? protect_tree_of(l->t, &in) : -1;

	if (where >= 0 && (fresh ? !is_fit(l, where, in) : !is_faithful(l, git, in, root))) {
		move_repository(l, tree, path,
				fresh ? "the index began to name it during the run, and it has "
					"more than plain settings"
				      : "git does not say which files its configuration names");
		return;
	}
	if (where >= 0)
		go_on(l, git, root, fresh);
}

/* `fresh`: named since the run began. */
static void look_at_link(struct links *l, const char *link, bool fresh)
{
	char host[PATH_MAX], root[PATH_MAX];
	const char *path = host;
	struct stat st, through;
	int tree, parent;
	CLEANUP(fd) int opened = -1;
	const char *name;

	if (snprintf(root, sizeof(root), "%s/%s", l->at->root, link) >= (int)sizeof(root) ||
	    snprintf(host, sizeof(host), "%s/.git", root) >= (int)sizeof(host)) {
		move_index(l, "it names a path that is longer than brig can look at");
		return;
	}
	if (!path_under(host, l->t->plan->workspace))
		return; /* out of the command's reach */
	tree = protect_tree_of(l->t, &path);
	if (tree < 0 ||
	    str_eq(path, ".git")) /* the workspace is the submodule: looked at already */
		return;
	parent = protect_parent(tree, path, &name, &opened);
	if (parent == -ELOOP && fstatat(tree, path, &through, 0) == 0)
		move_index(l, "a link lies on the way to a submodule that it names");
	if (parent < 0 || fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	if (!is_old(l, tree, path, &st) || (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode)))
		move_repository(
			l, tree, path,
			"a repository made or changed during the run where git's index names "
			"a submodule; on the host, empty its folder and run git submodule "
			"update --init");
	else
		old_repository(l, tree, path, &st, root,
			       fresh || (S_ISREG(st.st_mode) &&
					 protect_moved(l->t, tree, path) != PROTECT_STAYED));
}

static void look_into(struct links *l)
{
	for (const char *link = NULL; (link = gitsay_next(&l->is, link));)
		look_at_link(l, link, l->before ? !gitsay_has(&l->was, link) : true);
	for (const char *link = NULL; (link = gitsay_next(&l->was, link));)
		if (!gitsay_has(&l->is, link))
			look_at_link(l, link, false);
}

/* What it named before the run. */
static void ask_before(struct links *l, const struct seen_index *s)
{
	l->before = true;
	if (!s->there)
		return;
	if (s->known)
		buf_add(&l->was, s->links.data, s->links.len);
	else
		l->before = ask(l, &s->copy, &l->was) == READER_PLAIN;
	l->t->strict |= !l->before;
}

/* What it names now. */
static void ask_now(struct links *l, const struct seen_index *s)
{
	struct reader_copy copy = READER_COPY_NONE;
	enum reader_said said = READER_PLAIN;
	CLEANUP(fd) int dir = fd_open_nolinks(AT_FDCWD, l->at->git, O_PATH | O_DIRECTORY, 0);
	struct stamp now = { 0 };
	struct stat st;

	if (dir < 0 || fstatat(dir, "index", &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	now = stamp_of(&st);
	if (s->there && stamp_same(&now, &s->stamp) && !s->copy.halves) {
		buf_add(&l->is, l->was.data, l->was.len);
		return;
	}
	said = reader_copy(READER_INDEX, dir, "index", &copy) < 0 ? READER_HOSTILE
								  : ask(l, &copy, &l->is);
	l->t->strict |= said != READER_PLAIN;
	if (said == READER_HOSTILE && !(s->there && stamp_same(&now, &s->stamp)))
		move_index(l, "an index that git does not read plainly");
	reader_copy_done(&copy);
}

void protect_links(struct protect *t, struct outcome *o)
{
	for (size_t i = 0; t->seen && i < t->plan->index_count; i++) {
		struct links l = { .t = t,
				   .o = o,
				   .at = &t->plan->indexes[i],
				   .was = BUF_INIT(READER_ANSWER_MAX),
				   .is = BUF_INIT(READER_ANSWER_MAX) };

		ask_before(&l, &t->seen[i]);
		ask_now(&l, &t->seen[i]);
		look_into(&l);
		buf_done(&l.was);
		buf_done(&l.is);
	}
}
