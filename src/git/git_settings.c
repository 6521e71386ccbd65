/* SPDX-License-Identifier: Apache-2.0 */
#include "git/git_settings.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "base/text/buf.h"
#include "base/text/str.h"
#include "git/git_syntax.h"
#include "model/settings/paths.h"

enum {
	FILE_MAX = 1 << 20,
	DEPTH_MAX = 10,
	FILES_MAX = 64,
	TEXT_MAX = 1 << 16,
	KEY_MAX = 1 << 14,
	FILTERS_MAX = 64
};

/* Sorted by section, as they are written. The first six are the identity; the last four are for who
 * has an ssh-agent. */
static const struct {
	const char *section, *key;
} known[] = {
	{ "user", "name" },
	{ "user", "email" },
	{ "author", "name" },
	{ "author", "email" },
	{ "committer", "name" },
	{ "committer", "email" },
	{ "advice", "detachedhead" },
	{ "branch", "autosetupmerge" },
	{ "branch", "autosetuprebase" },
	{ "branch", "sort" },
	{ "color", "ui" },
	{ "column", "ui" },
	{ "commit", "cleanup" },
	{ "commit", "verbose" },
	{ "core", "abbrev" },
	{ "core", "autocrlf" },
	{ "core", "commentchar" },
	{ "core", "eol" },
	{ "core", "quotepath" },
	{ "core", "safecrlf" },
	{ "core", "whitespace" },
	{ "diff", "algorithm" },
	{ "diff", "colormoved" },
	{ "diff", "mnemonicprefix" },
	{ "diff", "renames" },
	{ "fetch", "prune" },
	{ "i18n", "commitencoding" },
	{ "i18n", "logoutputencoding" },
	{ "init", "defaultbranch" },
	{ "log", "date" },
	{ "merge", "conflictstyle" },
	{ "merge", "ff" },
	{ "pull", "ff" },
	{ "pull", "rebase" },
	{ "push", "autosetupremote" },
	{ "push", "default" },
	{ "rebase", "autosquash" },
	{ "rebase", "autostash" },
	{ "rerere", "enabled" },
	{ "tag", "sort" },
	{ "user", "useconfigonly" },
	{ "user", "signingkey" },
	{ "gpg", "format" },
	{ "commit", "gpgsign" },
	{ "tag", "gpgsign" },
};
enum {
	IDENTITY = 6,
	KNOWN = sizeof(known) / sizeof(*known),
	SIGNING = KNOWN - 4,
	FORMAT = SIGNING + 1,
	COMMITS = SIGNING + 2
};

/* A filter that attributes may name. What it runs is the caller's and stays outside, but for one
 * that every machine has in the same words. */
enum filter_key { FILTER_CLEAN, FILTER_SMUDGE, FILTER_PROCESS, FILTER_REQUIRED, FILTER_KEYS };
static const char *const filter_keys[] = { "clean", "smudge", "process", "required" };
static const struct {
	enum filter_key key;
	const char *value;
} stock_lfs[] = {
	{ FILTER_CLEAN, "git-lfs clean -- %f" },
	{ FILTER_SMUDGE, "git-lfs smudge -- %f" },
	{ FILTER_SMUDGE, "git-lfs smudge --skip -- %f" },
	{ FILTER_PROCESS, "git-lfs filter-process" },
	{ FILTER_PROCESS, "git-lfs filter-process --skip" },
	{ FILTER_REQUIRED, "true" },
};

struct git_filter {
	const char *name, *value[FILTER_KEYS];
};

struct git_reading {
	struct arena *arena;
	const struct git_files *files;
	const char *value[KNOWN]; /* the last one counts, as for git */
	struct git_filter *filters;
	size_t filter_count;
	const char *file;      /* being read */
	unsigned depth, count; /* of files, open and in all */
	bool undecided, full;
	bool own; /* the repository's file: what it includes may be anything */
};

static int git_settings_read_file(struct git_reading *r, const char *path);

/* ---- git's patterns for folders ---- */

/* `**` crosses slashes, `*` and `?` do not. Bounded: each `*` or `**` tries every rest once, and a
 * pattern has at most STARS_MAX of them. */
static bool match(const char *p, const char *s, bool nocase)
{
	for (; *p; p++, s++) {
		if (p[0] == '*') {
			bool any = p[1] == '*';

			p += any ? 2 : 1;
			/* A "**" with its slash also stands for no folder at all. */
			if (any && *p == '/' && match(p + 1, s, nocase))
				return true;
			for (;; s++) {
				if (match(p, s, nocase))
					return true;
				if (!*s || (!any && *s == '/'))
					return false;
			}
		}
		if (!*s || (*p == '?' && *s == '/'))
			return false;
		if (*p != '?' && (nocase ? tolower(*p) != tolower(*s) : *p != *s))
			return false;
	}
	return !*s;
}

int git_dir_matches(const char *pattern, const char *path, bool nocase)
{
	enum { STARS_MAX = 4 };
	unsigned stars = 0;

	for (const char *p = pattern; *p; p++)
		stars += *p == '*' && p[1] != '*';
	if (strpbrk(pattern, "[\\") || stars > STARS_MAX || strlen(pattern) >= PATH_MAX)
		return -ENOTSUP;
	return match(pattern, path, nocase);
}

/* ---- includes ---- */

/* A path as a configuration file writes it; NULL when it cannot be resolved. */
static const char *path_in(struct git_reading *r, const char *text)
{
	const char *slash = strrchr(r->file, '/');

	if (text[0] == '/')
		return arena_strdup(r->arena, text);
	if (text[0] == '~')
		return text[1] == '/' && r->files->home
			       ? arena_printf(r->arena, "%s/%s", r->files->home, text + 2)
			       : NULL;
	return arena_printf(r->arena, "%.*s/%s", (int)(slash ? slash - r->file : 0), r->file, text);
}

/* The condition as git completes it: from the top, or anywhere; a folder means what is below it. */
static const char *gitdir_pattern(struct git_reading *r, const char *text)
{
	const char *rest = text[strlen(text) - 1] == '/' ? "**" : "";

	if (text[0] == '~' || str_starts(text, "./")) {
		const char *path = path_in(r, text[0] == '.' ? text + 2 : text);

		return path ? arena_printf(r->arena, "%s%s", path, rest) : NULL;
	}
	return arena_printf(r->arena, "%s%s%s", text[0] == '/' ? "" : "**/", text, rest);
}

/* 1, 0, or negative: not to be decided here. */
static int condition_holds(struct git_reading *r, const char *condition)
{
	bool nocase = str_starts(condition, "gitdir/i:");
	const char *pattern, *dir = r->files->git_dir;
	char real[PATH_MAX];
	int found;

	if (!nocase && !str_starts(condition, "gitdir:"))
		return -ENOTSUP; /* onbranch, hasconfig and what will come */
	condition = strchr(condition, ':') + 1;
	pattern = *condition ? gitdir_pattern(r, condition) : NULL;
	if (!pattern || !dir)
		return -ENOTSUP;
	found = git_dir_matches(pattern, dir, nocase);
	if (found == 0 && realpath(dir, real))
		found = git_dir_matches(pattern, real, nocase);
	return found;
}

static int include(struct git_reading *r, const struct git_setting *s)
{
	bool conditional = str_eq(s->section, "includeif");
	int holds = conditional ? condition_holds(r, s->sub) : 1;
	const char *path = s->value && holds ? path_in(r, s->value) : NULL;

	if (holds == 0 && !r->own)
		return 0;
	if (holds < 0 || r->own || !path || r->depth >= DEPTH_MAX || r->count++ >= FILES_MAX)
		r->undecided = true;
	else
		(void)git_settings_read_file(r, path);
	return 0;
}

/* ---- settings ---- */

static struct git_filter *filter_of(struct git_reading *r, const char *name)
{
	struct git_filter *f;

	for (size_t i = 0; i < r->filter_count; i++)
		if (str_eq(r->filters[i].name, name))
			return &r->filters[i];
	if (r->filter_count == FILTERS_MAX)
		return NULL;
	f = ARENA_PUSH(r->arena, r->filters, r->filter_count);
	if (f)
		*f = (struct git_filter){ .name = arena_strdup(r->arena, name) };
	r->full |= !f || !f->name;
	return f && f->name ? f : NULL;
}

static void take_filter(struct git_reading *r, const struct git_setting *s)
{
	struct git_filter *f = str_has_control(s->sub) ? NULL : filter_of(r, s->sub);

	for (size_t i = 0; f && i < FILTER_KEYS; i++) {
		if (!str_eq(s->key, filter_keys[i]))
			continue;
		f->value[i] = arena_strdup(r->arena, s->value ? s->value : "true");
		r->full |= !f->value[i];
	}
}

static int on_setting(void *arg, const struct git_setting *s)
{
	struct git_reading *r = arg;

	if (str_eq(s->key, "path") &&
	    ((str_eq(s->section, "include") && !*s->sub) || str_eq(s->section, "includeif")))
		return include(r, s);
	if (*s->sub && str_eq(s->section, "filter"))
		take_filter(r, s);
	for (size_t i = 0; i < KNOWN; i++) {
		const char *value = s->value ? s->value : "true";

		if (*s->sub || !str_eq(s->section, known[i].section) ||
		    !str_eq(s->key, known[i].key) || str_has_control(value))
			continue;
		r->value[i] = arena_strdup(r->arena, value);
		r->full |= !r->value[i];
	}
	return 0;
}

/* A file of the caller's, opened so that nothing can hold brig up; below the workspace it would be
 * the command's. */
static int open_own(const struct git_reading *r, const char *path)
{
	CLEANUP(fd) int fd = -1;
	char real[PATH_MAX];
	struct stat st;

	/* Most are not there, which one look tells for less than one at each folder on the way. */
	if (faccessat(AT_FDCWD, path, F_OK, AT_EACCESS) < 0 || !realpath(path, real))
		return -errno;
	if (!r->own && r->files->workspace && path_under(real, r->files->workspace))
		return -EPERM;
	fd = fd_open_nolinks(AT_FDCWD, real, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -EPERM;
	if (S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3)) /* /dev/null: how to say "none" */
		return -ENOENT;
	if (!S_ISREG(st.st_mode) || st.st_size > FILE_MAX)
		return -EPERM;
	return TAKE_FD(fd);
}

/* What git would silently do without is fine; what git would read and brig does not is undecided.
 */
static int git_settings_read_file(struct git_reading *r, const char *path)
{
	CLEANUP(fd) int fd = open_own(r, path);
	CLEANUP(mem) char *text = fd < 0 ? NULL : malloc(FILE_MAX);
	const char *before = r->file;
	ssize_t n;

	if (fd < 0) {
		r->undecided |= fd != -ENOENT && fd != -ENOTDIR && fd != -EACCES;
		return fd;
	}
	n = text ? read(fd, text, FILE_MAX) : -1;
	r->file = path;
	r->depth++;
	if (n < 0 || git_syntax_read(text, (size_t)n, on_setting, r) < 0)
		r->undecided = true;
	r->depth--;
	r->file = before;
	return 0;
}

static void git_settings_read_all(struct git_reading *r)
{
	const struct git_files *f = r->files;
	const char *own = f->config ? arena_printf(r->arena, "%s/git/config", f->config)
			  : f->home ? arena_printf(r->arena, "%s/.config/git/config", f->home)
				    : NULL;

	if (f->system)
		(void)git_settings_read_file(r, f->system);
	if (f->global) {
		(void)git_settings_read_file(r, f->global);
		return;
	}
	if (own)
		(void)git_settings_read_file(r, own);
	if (f->home && (own = arena_printf(r->arena, "%s/.gitconfig", f->home)))
		(void)git_settings_read_file(r, own);
}

/* Its kind and itself, without the comment; NULL: that is no public key. */
static const char *key_of(struct arena *a, const char *text)
{
	static const char *const kinds[] = { "ssh-", "ecdsa-", "sk-" };
	size_t kind = strcspn(text, " \r\n"), key = strspn(text + kind, " ");
	bool known_kind = false;

	key = key ? kind + key + strcspn(text + kind + key, " \r\n") : 0;
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		known_kind |= str_starts(text, kinds[i]);
	text = known_kind && key ? arena_printf(a, "key::%.*s", (int)key, text) : NULL;
	return text && !str_has_control(text) ? text : NULL;
}

/* The key's file is the caller's and not shown: git inside is told what it holds. */
static const char *signing_key(const struct git_reading *r)
{
	const char *said = r->value[SIGNING], *home = r->files->home;
	char text[KEY_MAX] = "";
	CLEANUP(fd) int fd = -1;
	const char *path;

	if (str_starts(said, "key::"))
		return key_of(r->arena, said + strlen("key::"));
	if (str_starts(said, "ssh-"))
		return key_of(r->arena, said);
	path = str_starts(said, "~/") && home ? arena_printf(r->arena, "%s%s", home, said + 1)
					      : said;
	if (path && !str_ends_nocase(path, ".pub"))
		path = arena_printf(r->arena, "%s.pub", path);
	fd = path && path[0] == '/' ? open_own(r, path) : -1;
	return fd >= 0 && read(fd, text, sizeof(text) - 1) > 0 ? key_of(r->arena, text) : NULL;
}

/* Signing is a setting of the whole, or of nothing. */
static void settle_signing(struct git_reading *r)
{
	const char *format = r->value[FORMAT];
	const char *key = NULL;

	if (r->files->signing && !r->undecided && format && str_eq(format, "ssh") &&
	    r->value[SIGNING])
		key = signing_key(r);
	r->value[SIGNING] = key;
	for (size_t i = SIGNING; i < KNOWN && !key; i++)
		r->value[i] = NULL;
}

static void put_quoted(struct buf *b, const char *text)
{
	buf_putc(b, '"');
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			buf_putc(b, '\\');
		buf_putc(b, *text);
	}
	buf_putc(b, '"');
}

static void git_settings_put_value(struct buf *b, const char *key, const char *value)
{
	buf_printf(b, "\t%s = ", key);
	put_quoted(b, value);
	buf_putc(b, '\n');
}

static bool is_stock(const struct git_filter *f)
{
	for (size_t key = 0; key < FILTER_KEYS; key++) {
		bool found = !f->value[key];

		for (size_t i = 0; i < ARRAY_LEN(stock_lfs) && !found; i++)
			found = stock_lfs[i].key == key &&
				str_eq(stock_lfs[i].value, f->value[key]);
		if (!found)
			return false;
	}
	return str_eq(f->name, "lfs") && f->value[FILTER_CLEAN];
}

/* Without its filter a file would be committed as it is. So git is told that it cannot do without
 * one, and refuses a file whose filter is not there. */
static void put_filter(struct buf *b, const struct git_filter *f)
{
	bool stock = is_stock(f);

	buf_puts(b, "[filter ");
	put_quoted(b, f->name);
	buf_puts(b, "]\n");
	for (size_t i = 0; i < FILTER_REQUIRED; i++)
		if (stock && f->value[i])
			git_settings_put_value(b, filter_keys[i], f->value[i]);
	git_settings_put_value(b, filter_keys[FILTER_REQUIRED], "true");
}

static bool is_true(const char *value)
{
	static const char *const words[] = { "true", "yes", "on", "1" };

	for (size_t i = 0; value && i < ARRAY_LEN(words); i++)
		if (strcasecmp(value, words[i]) == 0)
			return true;
	return false;
}

const char *git_settings_text(struct arena *a, const struct git_files *f, struct git_left *left)
{
	CLEANUP(buf) struct buf b = BUF_INIT(TEXT_MAX);
	struct git_reading r = { .arena = a, .files = f };
	const char *section = "";

	git_settings_read_all(&r);
	left->signing = is_true(r.value[COMMITS]);
	settle_signing(&r);
	left->signing &= !r.value[COMMITS];
	for (size_t i = r.undecided ? IDENTITY : 0; i < KNOWN; i++) {
		if (!r.value[i])
			continue;
		if (!str_eq(section, known[i].section))
			buf_printf(&b, "[%s]\n", section = known[i].section);
		git_settings_put_value(&b, known[i].key, r.value[i]);
	}
	for (size_t i = 0; i < r.filter_count; i++)
		put_filter(&b, &r.filters[i]);
	left->undecided = r.undecided;
	return r.full || b.failed ? NULL : arena_strdup(a, buf_str(&b));
}

struct git_files git_files_of_caller(void)
{
	const char *off = getenv("GIT_CONFIG_NOSYSTEM"), *system = getenv("GIT_CONFIG_SYSTEM");

	return (struct git_files){ .home = getenv("HOME"),
				   .config = getenv("XDG_CONFIG_HOME"),
				   .global = getenv("GIT_CONFIG_GLOBAL"),
				   .system = off      ? NULL
					     : system ? system
						      : "/etc/gitconfig" };
}

const char *const git_who_names[] = { "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME",
				      "GIT_COMMITTER_EMAIL" };
static_assert(ARRAY_LEN(git_who_names) == GIT_WHO_COUNT, "one variable for each");

/* known[] begins with name and e-mail of "user", which stand for both of the others. */
void git_identity(struct arena *a, const struct git_files *f, const char *ret[GIT_WHO_COUNT])
{
	struct git_reading r = { .arena = a, .files = f };

	git_settings_read_all(&r);
	r.own = true;
	if (f->own)
		(void)git_settings_read_file(&r, f->own);
	for (size_t i = 0; i < GIT_WHO_COUNT; i++) {
		const char *said = getenv(git_who_names[i]), *own = r.value[2 + i];

		if (said && *said && !str_has_control(said))
			ret[i] = said;
		else if (r.undecided)
			ret[i] = NULL;
		else
			ret[i] = own ? own : r.value[i % 2];
	}
}
