/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/protect/before.c - what is noted of a workspace before a run, so that the report can
 * say by shape what is new: names at the top that begin with a dot, which no table has to know, and
 * commits that bring what no command may make as a file.
 *
 * Told, and never taken away. A few files are read into memory and compared as they are; what is in
 * them only git knows, in its sandbox. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "backend/kit/protect/protect_internal.h"
#include "backend/kit/survey/protected_names.h"
#include "base/files/folder.h"
#include "base/text/str.h"
#include "git/gitsay.h"

#define DOTS_MAX ((size_t)16 << 10) /* some thousand names, each looked for in the other list */
#define REFS_MAX ((size_t)16 << 20)
#define REF_FILES_MAX 4096
#define REF_DEPTH_MAX 12
#define TOLD_MAX 16 /* names of one repository's new commits */

struct before {
	struct buf dots;  /* names at the top, NUL after each */
	struct buf *refs; /* the bytes of those of each git folder that the plan knows */
	size_t count;
};

struct before *before_free(struct before *b)
{
	if (!b)
		return NULL;
	buf_done(&b->dots);
	for (size_t i = 0; i < b->count; i++)
		buf_done(&b->refs[i]);
	free(b->refs);
	free(b);
	return NULL;
}

/* ---- names that begin with a dot ---- */

/* What everyday work makes, and what nothing obeys: lists of what to leave out, caches, reports,
 * build results, what editors keep while a file is open. Whatever is not here is told. */
static bool is_everyday(const char *name)
{
	static const char *const ends[] = { "ignore", "cache", ".swp", ".swo", ".swx", "~" };
	static const char *const begins[] = { ".coverage", ".nfs", ".#", ".brig-", ".fuse_hidden" };
	/* clang-format off */
	static const char *const whole[] = {
		".git", ".gitkeep", ".venv", ".tox", ".nox", ".eggs", ".nyc_output", ".next", ".nuxt",
		".DS_Store", ".ipynb_checkpoints",
	};
	/* clang-format on */

	for (size_t i = 0; i < ARRAY_LEN(ends); i++)
		if (str_ends_nocase(name, ends[i]))
			return true;
	for (size_t i = 0; i < ARRAY_LEN(begins); i++)
		if (str_starts(name, begins[i]))
			return true;
	for (size_t i = 0; i < ARRAY_LEN(whole); i++)
		if (str_eq(name, whole[i]))
			return true;
	return false;
}

/* false: the folder could not be read to its end. */
static bool list_dots(int top, struct buf *ret)
{
	CLEANUP(fd) int fd = openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct fd_entry *e;
	struct folder d;

	if (fd < 0)
		return false;
	folder_begin(&d, fd);
	while ((e = folder_next(&d)))
		if (e->name[0] == '.')
			buf_add(ret, e->name, strlen(e->name) + 1);
	return !d.error && !ret->failed;
}

static void tell_dots(struct protect *t, int top)
{
	struct before *b = t->before;
	struct buf now = BUF_INIT(DOTS_MAX);

	if (!list_dots(top, &now))
		outcome_deny(t->o, "protected-path", ".",
			     "more names begin with a dot than brig looks at");
	for (const char *name = NULL; (name = gitsay_next(&now, name));)
		if (!gitsay_has(&b->dots, name) && !is_everyday(name) && !name_forbidden(name) &&
		    !name_reported(name))
			outcome_trust(
				t->o, name,
				"made during the run: begins with a dot, as what programs obey "
				"does");
	buf_done(&b->dots);
	b->dots = now;
}

/* ---- what no command may make as a file, carried as a commit ----
 *
 * Whatever a ref says is checked out one day: by the user, or by brig. */

struct brought {
	struct outcome *o;
	const char *git;
	char commit[72];  /* whose names come */
	struct buf paths; /* that were told, NUL after each */
	unsigned told;
};

static bool before_is_id(const char *s)
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
	if (before_is_id(record)) {
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

static int both(const struct buf *was, const struct buf *is)
{
	int fd = memfd_create("brig-refs", MFD_CLOEXEC);

	if (fd >= 0 && (fd_write_all(fd, buf_str(was), was->len) < 0 ||
			fd_write_all(fd, buf_str(is), is->len) < 0))
		fd = fd_close(fd);
	return fd;
}

/* Tells the forbidden names that commits between the two bring, with the commit that does. `git` is
 * a path of the host's, `name` what it is called in the report. */
static void tell_commits(const char *git, const char *name, const struct buf *was,
			 const struct buf *is, struct reader_asker *who, struct outcome *o)
{
	struct brought b = { .o = o, .git = name, .paths = BUF_INIT(1 << 20) };
	CLEANUP(fd) int input = both(was, is);
	enum reader_said said = READER_NOBODY;
	char size[32];

	(void)snprintf(size, sizeof(size), "%zu", was->len);
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

/* ---- refs ---- */

/* The first of the files of one git folder stands for it; NULL: another did. */
static const char *git_of(const struct protect *t, size_t i)
{
	const struct git_config *c = t->plan->configs;

	for (size_t k = 0; k < i; k++)
		if (str_eq(c[k].git, c[i].git))
			return NULL;
	return c[i].git;
}

struct refs_walk {
	struct buf *to;
	unsigned left;
};

/* Its name and size, after a blank, so that it is no commit's, and its bytes, whatever they say. A
 * file that is not there, or is none, says nothing: git follows no link among its refs but HEAD,
 * which would be one of old. */
static bool before_add_file(struct refs_walk *w, int folder, const char *name)
{
	CLEANUP(fd)
	int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return true;
	if (!w->left--)
		return false;
	buf_printf(w->to, " %s %lld\n", name, (long long)st.st_size);
	r = buf_read_file(w->to, fd);
	buf_putc(w->to, '\n');
	return r == 0 && !w->to->failed;
}

/* `only`: the name of the files that count, one folder down; NULL: all. */
static bool add_folder(struct refs_walk *w, int above, const char *name, const char *only,
		       unsigned depth)
{
	CLEANUP(fd)
	int fd = openat(above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	const struct fd_entry *e;
	struct folder d;
	bool ok = depth < REF_DEPTH_MAX;

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
			ok = before_add_file(w, fd, e->name);
	}
	return ok && !d.error;
}

/* false: there are more than brig looks at, or not in that way. */
static bool read_refs(const char *path, struct buf *ret)
{
	CLEANUP(fd) int git = fd_open_nolinks(AT_FDCWD, path, O_PATH | O_DIRECTORY, 0);
	struct refs_walk w = { .to = ret, .left = REF_FILES_MAX };

	return git < 0 ||
	       (before_add_file(&w, git, "HEAD") && before_add_file(&w, git, "packed-refs") &&
		add_folder(&w, git, "refs", NULL, 0) &&
		add_folder(&w, git, "worktrees", "HEAD", 0) &&
		add_folder(&w, git, "reftable", NULL, 0));
}

static void take_refs(struct protect *t, struct before *b)
{
	b->refs = calloc(t->plan->config_count ? t->plan->config_count : 1, sizeof(*b->refs));
	for (size_t i = 0; b->refs && i < t->plan->config_count; i++, b->count++) {
		b->refs[i] = (struct buf)BUF_INIT(REFS_MAX);
		if (git_of(t, i))
			(void)read_refs(git_of(t, i), &b->refs[i]); /* told afterwards */
	}
}

static bool before_same(const struct buf *a, const struct buf *b)
{
	return a->len == b->len && (!a->len || memcmp(a->data, b->data, a->len) == 0);
}

static void tell_refs(struct protect *t)
{
	for (size_t i = 0; i < t->before->count; i++) {
		const char *git = git_of(t, i), *name = git;
		struct buf now = BUF_INIT(REFS_MAX);

		if (!git)
			continue;
		(void)protect_tree_of(t, &name);
		if (!read_refs(git, &now))
			outcome_deny(t->o, "protected-path", name, "more refs than brig looks at");
		else if (now.len && !before_same(&t->before->refs[i], &now))
			tell_commits(git, name, &t->before->refs[i], &now, &t->asker, t->o);
		buf_done(&t->before->refs[i]);
		t->before->refs[i] = now;
	}
}

/* ---- all of it ---- */

struct before *before_take(struct protect *t)
{
	struct before *b = t->writable ? calloc(1, sizeof(*b)) : NULL;

	if (!b)
		return NULL;
	b->dots = (struct buf)BUF_INIT(DOTS_MAX);
	(void)list_dots(t->trees[0].fd, &b->dots); /* what is missing is told as new */
	take_refs(t, b);
	return b;
}

void before_tell(struct protect *t)
{
	if (!t->before)
		return;
	tell_dots(t, t->trees[0].fd);
	tell_refs(t);
}
