/* SPDX-License-Identifier: Apache-2.0 */
#include "apps/wrap/wrap_branch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/kit/protect/brings.h"
#include "base/files/fd.h"
#include "base/text/str.h"
#include "model/settings/spec_lists.h"

#define NAME_LONGEST 100

/* The name is a word of git's, and of a file system. No hooks: they may come out of the branch.
 * What is checked out is the commit that was looked at, wherever the branch may be by now. */
static const char script[] =
	"exec >&2\n"
	"git() { command git -c core.hooksPath=/dev/null -c core.fsmonitor=false \"$@\"; }\n"
	"if git worktree list --porcelain | grep -qxF \"branch refs/heads/$1\"; then\n"
	"echo \"branch '$1' has a work tree already\"; exit 1; fi\n"
	"git worktree add --detach -- \"$2\" \"$3\" || exit\n"
	"git show-ref --verify --quiet \"refs/heads/$1\" || git branch \"$1\" \"$3\" || exit\n"
	"git -C \"$2\" symbolic-ref HEAD \"refs/heads/$1\"";

/* --- its name --- */

static bool part_ok(const char *p, size_t n)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

	if (!n || p[0] == '.' || p[0] == '-' || p[n - 1] == '.' ||
	    (n >= 5 && strncmp(p + n - 5, ".lock", 5) == 0))
		return false;
	for (size_t i = 0; i < n; i++)
		if (!strchr(letters, p[i]) || (i && p[i] == '.' && p[i - 1] == '.'))
			return false;
	return true;
}

static int check_name(const char *name, struct err *e)
{
	bool ok = *name && strlen(name) <= NAME_LONGEST;

	for (const char *p = name; ok;) {
		size_t n = strcspn(p, "/");

		ok = part_ok(p, n);
		if (!p[n])
			break;
		p += n + 1;
	}
	return ok ? 0
		  : err_refuse(e, ERR_USAGE, EINVAL,
			       "letters, digits, '.', '_' and '-', in parts with '/' between them",
			       "--branch '%.100s' is not a name that brig makes a folder of", name);
}

/* --- the repository --- */

static int no_repository(const char *cwd, struct err *e)
{
	return err_refuse(e, ERR_USAGE, ENOENT, "start it in one, or leave --branch out",
			  "--branch: '%.200s' is in no git repository with a work tree", cwd);
}

/* A short file of text by that name, in that folder itself, without its line feed. */
static bool wrap_branch_read_text(int folder, const char *name, char text[PATH_MAX])
{
	CLEANUP(fd)
	int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return false;
	n = read(fd, text, PATH_MAX - 1);
	if (n <= 0 || memchr(text, 0, (size_t)n))
		return false;
	text[n - (text[n - 1] == '\n')] = '\0';
	return true;
}

/* The repository's own word is in that folder of it, and not wherever a path leads from there. */
static bool is_one_name(const char *s)
{
	return *s && !strchr(s, '/') && !str_eq(s, ".") && !str_eq(s, "..");
}

/* "gitdir: TOP/.git/worktrees/NAME", as git writes it into further work trees. Anybody can write
 * that into a folder; that the repository says the same of the folder is what counts. */
static bool read_link(int folder, const char *at, char top[PATH_MAX])
{
	static const char head[] = "gitdir: ", mark[] = "/.git/worktrees/";
	CLEANUP(fd) int admin = -1;
	char text[PATH_MAX], back[PATH_MAX], own[PATH_MAX + 8];
	char *cut;

	if (!wrap_branch_read_text(folder, ".git", text) || !str_starts(text, head))
		return false;
	memmove(text, text + sizeof(head) - 1, strlen(text) - sizeof(head) + 2);
	cut = text[0] == '/' ? strstr(text, mark) : NULL;
	if (!cut || !is_one_name(cut + sizeof(mark) - 1))
		return false;
	admin = fd_open_nolinks(AT_FDCWD, text, O_RDONLY | O_DIRECTORY, 0);
	(void)snprintf(own, sizeof(own), "%s/.git", at);
	if (admin < 0 || !wrap_branch_read_text(admin, "gitdir", back) || !str_eq(back, own))
		return false;
	*cut = '\0';
	(void)snprintf(top, PATH_MAX, "%s", text);
	return true;
}

/* 1: here it is; 0: look above. */
static int branch_look(const char *at, char top[PATH_MAX], struct err *e)
{
	CLEANUP(fd) int folder = fd_open_nolinks(AT_FDCWD, at, O_RDONLY | O_DIRECTORY, 0);
	struct stat st;

	if (folder < 0 || fstatat(folder, ".git", &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	/* As git sees it: what is above may be anybody's to make, as in /tmp. */
	if (st.st_uid != geteuid())
		return err_refuse(e, ERR_POLICY, EPERM, "start it in a repository of your own",
				  "--branch: '%.200s/.git' is somebody else's", at);
	if (S_ISDIR(st.st_mode)) {
		(void)snprintf(top, PATH_MAX, "%s", at);
		return 1;
	}
	if (read_link(folder, at, top))
		return 1;
	return err_refuse(e, ERR_POLICY, EINVAL, "start it in the repository's own work tree",
			  "--branch: '%.200s/.git' is neither a folder nor leads to that of a "
			  "repository",
			  at);
}

int wrap_branch_top(const char *cwd, char top[PATH_MAX], struct err *e)
{
	char at[PATH_MAX], *slash;

	if (!realpath(cwd, at))
		return err_sys(e, "cannot look at '%.200s'", cwd);
	for (;;) {
		int r = branch_look(at, top, e);

		if (r)
			return r < 0 ? r : 0;
		slash = strrchr(at, '/');
		if (!slash || slash == at)
			return no_repository(cwd, e);
		*slash = '\0';
	}
}

int wrap_branch_find(const char *cwd, const char *name, struct wrap_branch *ret, struct err *e)
{
	struct wrap_branch b = { .name = name };
	char flat[NAME_LONGEST + 1];
	struct stat st;

	if (check_name(name, e) < 0 || wrap_branch_top(cwd, b.top, e) < 0)
		return -e->code;
	(void)snprintf(flat, sizeof(flat), "%s", name);
	for (char *p = flat; *p; p++)
		if (*p == '/')
			*p = '+';
	if (snprintf(b.place, sizeof(b.place), "%s.worktrees", b.top) >= (int)sizeof(b.place) ||
	    snprintf(b.folder, sizeof(b.folder), "%s/%s", b.place, flat) >= (int)sizeof(b.folder))
		return err_set(e, ERR_USAGE, ENAMETOOLONG, "--branch: the path is too long");
	b.there = lstat(b.folder, &st) == 0;
	*ret = b;
	return 0;
}

/* --- its folder --- */

int wrap_branch_place(const struct wrap_branch *b, struct err *e)
{
	CLEANUP(fd) int fd = -1;
	struct stat st;

	if (mkdir(b->place, 0755) < 0 && errno != EEXIST) {
		(void)err_sys(e, "cannot make the folder of work trees '%.200s'", b->place);
		return err_hint(e, "it stands beside the repository: make it, as yours, or clone "
				   "to where you may write");
	}
	fd = fd_open_nolinks(AT_FDCWD, b->place, O_PATH | O_DIRECTORY, 0);
	if (fd < 0 || fstat(fd, &st) < 0 || st.st_uid != geteuid() || (st.st_mode & S_IWOTH))
		return err_refuse(
			e, ERR_POLICY, EPERM, "move it away: brig makes a folder of its own there",
			"'%.200s' is a link, somebody else's, or open to everybody", b->place);
	return 0;
}

int wrap_branch_line(struct arena *a, const struct wrap_branch *b, struct strlist *ret,
		     struct err *e)
{
	const char *const words[] = {
		"--quiet",   "--backend", "auto",   "--policy", "workspace_write",
		"--network", "none",      "--git",  "write",    "--workdir",
		b->top,      "--write",   b->place, "--",       "sh",
		"-c",        script,      "sh",     b->name,    b->folder,
		b->commit
	};
	struct strlist l = { 0 };

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (list_add_string(a, &l, words[i], e) < 0)
			return -e->code;
	*ret = l;
	return 0;
}

/* The first of them, and how many more there are. */
static void put_names(const struct branch_names *n, char *text, size_t size)
{
	unsigned long more = n->more;

	for (size_t at = strlen(n->names.data) + 1; at < n->names.len;
	     at += strlen(n->names.data + at) + 1)
		more++;
	if (more)
		(void)snprintf(text, size, "'%.150s' and %lu more", n->names.data, more);
	else
		(void)snprintf(text, size, "'%.150s'", n->names.data);
}

/* Lines to paste: a run may have chosen the name, so it is one word, and never half of one. */
static void propose(const struct wrap_branch *b, const struct branch_names *n, struct err *e)
{
	CLEANUP(buf) struct buf object = BUF_INIT(2 * PATH_MAX);
	CLEANUP(buf) struct buf line = BUF_INIT(8 * PATH_MAX);

	buf_printf(&object, "%.12s:%s", n->commit, n->names.data);
	buf_puts(&line, "look at it: git show ");
	buf_put_word(&line, buf_str(&object));
	buf_puts(&line, "; if it is yours: git worktree add ");
	buf_put_word(&line, b->folder);
	buf_printf(&line, " %s, then this again", b->name);
	if (line.len < sizeof(e->hint))
		(void)err_hint(e, "%s", buf_str(&line));
	else
		(void)err_hint(e,
			       "look at it: git show %.12s; if it is yours: git worktree add, then "
			       "brig wrap in it",
			       n->commit);
}

int wrap_branch_look(struct wrap_branch *b, struct err *e)
{
	struct branch_names n = BRANCH_NAMES_NONE;
	char names[256];
	bool asked = branch_brings(b->top, b->name, &n);

	(void)snprintf(b->commit, sizeof(b->commit), "%s", n.commit[0] ? n.commit : "HEAD");
	if (n.names.len)
		put_names(&n, names, sizeof(names));
	if (!asked)
		(void)err_refuse(
			e, ERR_CONFIG, EIO, "by hand: git worktree add, then brig wrap in it",
			"--branch: git could not be asked what is in branch '%s'", b->name);
	else if (n.names.len)
		(void)err_set(e, ERR_POLICY, EPERM,
			      "branch '%s' has %s, which programs on this host obey and your work "
			      "tree has not in these words",
			      b->name, names);
	if (asked && n.names.len)
		propose(b, &n, e);
	asked = asked && !n.names.len;
	buf_done(&n.names);
	return asked ? 0 : -e->code;
}

void wrap_branch_merge(const struct wrap_branch *b, struct buf *text)
{
	struct branch_names n = BRANCH_NAMES_NONE;
	bool asked = branch_brings(b->top, b->name, &n);

	if (!asked)
		buf_puts(text, " (git could not be asked what that brings)");
	else if (n.names.len)
		buf_puts(text, " (it brings what programs on this host obey:");
	for (size_t at = 0; asked && at < n.names.len; at += strlen(n.names.data + at) + 1) {
		buf_puts(text, at ? ", " : " ");
		buf_put_word(text, n.names.data + at);
	}
	if (asked && n.more)
		buf_printf(text, " and %lu more", n.more);
	if (asked && n.names.len)
		buf_printf(text, "; look first: git show %s:NAME)", b->name);
	buf_done(&n.names);
}

int wrap_branch_check(const struct wrap_branch *b, struct err *e)
{
	CLEANUP(fd) int fd = fd_open_nolinks(AT_FDCWD, b->folder, O_RDONLY | O_DIRECTORY, 0);
	char top[PATH_MAX];
	struct stat st;

	if (fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == geteuid() &&
	    read_link(fd, b->folder, top) && str_eq(top, b->top))
		return 0;
	return err_refuse(e, ERR_POLICY, EINVAL, "move it away, or choose another name",
			  "'%.200s' is not a work tree of '%.200s'", b->folder, b->top);
}
