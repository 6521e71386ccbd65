/* SPDX-License-Identifier: Apache-2.0 */
/* base/files/exposed.c - the places that guests may write, and what lies in them.
 *
 * A path is walked name by name, as the kernel would, and each folder entered is looked up. Where
 * the walk leaves a mount (by a link, onto another mount, at its end) the folder is looked for in
 * all other mounts of its file system, and the way up from there is looked up as well: a bind mount
 * is a second way into a place, or out of one. */
#include "base/files/exposed.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <linux/magic.h>

#include "base/bytes/sha256.h"
#include "base/files/exposed_notes.h"
#include "base/files/fd.h"
#include "base/files/folder.h"
#include "base/files/home.h"
#include "base/files/mounts.h"
#include "base/files/state.h"
#include "base/text/arena.h"
#include "base/text/cleanup.h"
#include "base/text/str.h"

#define SEEN (O_PATH | O_NOFOLLOW | O_CLOEXEC)
#define LINKS_MAX 40 /* as the kernel has it */

enum {
	ALSO_MAX = 256,
	PLAIN_MAX = 120,
	TRIES = 8,
	NOTES_MAX = STATE_CACHE,  /* the places of a state */
	OWNERS_MAX = 8,           /* other users on one way, for root */
	NAME_ROOM = NAME_MAX + 2, /* too long a name stays too long, and openat says so */
};

/* One thing on the way. */
struct thing {
	int fd;
	struct statx x;
};

struct look {
	/* Of each state that this user may have had, then of the other users whose things are met.
	 */
	int notes[NOTES_MAX + OWNERS_MAX];
	size_t own_count, note_count;
	uid_t owners[OWNERS_MAX];
	size_t owner_count;
	bool again; /* one was met behind what was looked up already */
	unsigned flags;
	struct ident also[ALSO_MAX];
	const char *const *also_name;
	size_t also_count;
	struct arena *arena; /* of the mounts */
	struct mounts mounts;
	bool have_mounts;
	struct thing cur;
	char real[PATH_MAX];     /* of cur: every link is resolved */
	char todo[2 * PATH_MAX]; /* names still to be walked */
	unsigned links;
	bool passes;      /* what is met now does not count */
	struct statx end; /* where the walk came to */
	bool nameless;    /* that has no name: a pipe, a file that was removed */
	bool missing;     /* there is nothing */
	struct err *why;
};

/* Results of a step: go on, it is exposed, or the walk is over. */
enum step { ON, EXPOSED, OVER };

static bool exposed_same(const struct statx *a, const struct statx *b)
{
	return a->stx_ino == b->stx_ino && a->stx_dev_major == b->stx_dev_major &&
	       a->stx_dev_minor == b->stx_dev_minor;
}

static bool same_mount(const struct statx *a, const struct statx *b)
{
	return a->stx_dev_major == b->stx_dev_major && a->stx_dev_minor == b->stx_dev_minor &&
	       (!(a->stx_mask & b->stx_mask & STATX_MNT_ID) || a->stx_mnt_id == b->stx_mnt_id);
}

/* ---- asking ---- */

static enum step exposed_say(const struct look *l, const char *place, bool now)
{
	(void)err_set(l->why, ERR_POLICY, EPERM,
		      now ? "it lies in '%.200s', where this run works or may write"
			  : "it lies in '%.200s', where commands in sandboxes may have written",
		      place);
	return EXPOSED;
}

/* A name that a shell takes as it stands, and that a hint has room for. */
static bool is_plain(const char *path)
{
	size_t n = strlen(path);

	for (const char *c = path; *c; c++)
		if (!(*c >= 'a' && *c <= 'z') && !(*c >= 'A' && *c <= 'Z') &&
		    !(*c >= '0' && *c <= '9') && !strchr("/._-+@:,=%", *c))
			return false;
	return n <= PLAIN_MAX;
}

/* By the name that it has now, which may be another than when it was noted. */
static enum step say_noted(const struct look *l, bool own, const char *place, const char *real)
{
	const char *who = own ? "if all that lies there is yours" : "its owner can take that back";

	(void)exposed_say(l, place, false);
	if (is_plain(real))
		(void)err_hint(l->why, "%s: brig exposed forget %s", who, real);
	else
		(void)err_hint(l->why, "%s: brig exposed lists such places", who);
	return EXPOSED;
}

static enum step exposed_unknown(const struct look *l, int code)
{
	(void)err_errno(l->why, code, "'%.200s' cannot be looked at",
			l->real[0] ? l->real : l->todo);
	l->why->kind = ERR_POLICY;
	return EXPOSED;
}

/* Do these notes have it? */
static enum step is_noted(const struct look *l, size_t at, const struct statx *x, const char *real)
{
	struct exposed_note n;

	return exposed_noted(l->notes[at], x, real, &n)
		       ? say_noted(l, at < l->own_count, n.path, real)
		       : ON;
}

/* Root is given other users' files, and led through their folders by their links: what their
 * sandboxes write is in their own notes. Whatever they have put there can only add to what is
 * exposed. 0 or -errno. */
static int meet_owner(struct look *l, uid_t uid)
{
	char home[PATH_MAX], path[PATH_MAX], notes[PATH_MAX + sizeof("/" EXPOSED_FOLDER)];
	int fd;

	if (geteuid() != 0 || uid == 0)
		return 0;
	for (size_t i = 0; i < l->owner_count; i++)
		if (l->owners[i] == uid)
			return 0;
	if (l->owner_count == OWNERS_MAX)
		return -E2BIG;
	l->owners[l->owner_count++] = uid;
	if (home_listed(uid, home, sizeof(home)) < 0 ||
	    state_place(STATE_LISTED, home, path, sizeof(path)) < 0)
		return 0;
	(void)snprintf(notes, sizeof(notes), "%s/" EXPOSED_FOLDER, path);
	fd = open(notes, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? 0 : -errno;
	l->notes[l->note_count++] = fd;
	l->again = true;
	return 0;
}

/* Is this itself a place? */
static enum step is_place(struct look *l, const struct statx *x, const char *real)
{
	int r = meet_owner(l, x->stx_uid);

	if (r < 0)
		return exposed_unknown(l, r);
	if (l->passes)
		return ON;
	for (size_t i = 0; i < l->also_count; i++)
		if (l->also[i].ino == x->stx_ino &&
		    l->also[i].dev == makedev(x->stx_dev_major, x->stx_dev_minor))
			return l->flags & EXPOSED_BESIDES ? ON
							  : exposed_say(l, l->also_name[i], true);
	for (size_t i = 0; i < l->note_count; i++)
		if (is_noted(l, i, x, real) == EXPOSED)
			return EXPOSED;
	return ON;
}

/* Cuts the last name off; "/" stays. */
static void exposed_cut(char *path)
{
	char *slash = strrchr(path, '/');

	if (slash)
		slash[slash == path ? 1 : 0] = '\0';
}

static int exposed_append(char path[PATH_MAX], const char *name)
{
	size_t n = str_eq(path, "/") ? 0 : strlen(path);

	return snprintf(path + n, PATH_MAX - n, "/%s", name) < (int)(PATH_MAX - n) ? 0
										   : -ENAMETOOLONG;
}

/* All folders from this one up to the root; `path` is its own, and used up. */
static enum step climb(struct look *l, char *path)
{
	CLEANUP(fd) int fd = open(path, SEEN | O_DIRECTORY);
	struct statx x, above;
	int up;

	if (fd < 0 || exposed_look_at(fd, &x) < 0)
		return exposed_unknown(l, errno);
	for (;;) {
		if (is_place(l, &x, path) == EXPOSED)
			return EXPOSED;
		up = openat(fd, "..", SEEN | O_DIRECTORY);
		if (up < 0)
			return exposed_unknown(l, errno);
		(void)fd_close(fd);
		fd = up;
		if (exposed_look_at(fd, &above) < 0)
			return exposed_unknown(l, errno);
		if (exposed_same(&above, &x) && same_mount(&above, &x))
			return ON;
		x = above;
		exposed_cut(path);
	}
}

/* The path of w by this mount, if that shows it. */
static bool by_mount(const struct mount *m, const struct where *w, char path[PATH_MAX])
{
	size_t n = str_eq(m->root, "/") ? 0 : strlen(m->root);
	const char *rest = w->path + n;

	if (m->dev != w->dev || strncmp(w->path, m->root, n) != 0 || (*rest && *rest != '/'))
		return false;
	if (str_eq(rest, "/"))
		rest = "";
	return snprintf(path, PATH_MAX, "%s%s", str_eq(m->point, "/") && *rest ? "" : m->point,
			rest) < PATH_MAX;
}

static int have_mounts(struct look *l)
{
	struct err e = { 0 };

	if (l->have_mounts)
		return 0;
	l->arena = arena_new((size_t)32 << 20);
	if (!l->arena)
		return -ENOMEM;
	if (mounts_read(l->arena, &l->mounts, &e) < 0)
		return -e.code;
	l->have_mounts = true;
	return 0;
}

/* The same thing by every other mount that shows it. One that is hidden by another mount is not
 * shown to anybody. */
static enum step aliases(struct look *l, const struct thing *t)
{
	char path[PATH_MAX];
	struct where w;
	int r = have_mounts(l);

	if (r == 0)
		r = mounts_where(&l->mounts, l->arena, t->fd, &w);
	if (r < 0)
		return exposed_unknown(l, r);
	for (size_t i = 0; i < l->mounts.n; i++) {
		const struct mount *m = &l->mounts.v[i];
		CLEANUP(fd) int fd = -1;
		struct statx x;

		if (((t->x.stx_mask & STATX_MNT_ID) && m->id == t->x.stx_mnt_id) ||
		    !by_mount(m, &w, path))
			continue;
		fd = open(path, SEEN);
		if (fd < 0 || exposed_look_at(fd, &x) < 0 || !exposed_same(&x, &t->x))
			continue;
		if (is_place(l, &x, path) == EXPOSED)
			return EXPOSED;
		if (!S_ISDIR(x.stx_mode))
			exposed_cut(path);
		if (climb(l, path) == EXPOSED)
			return EXPOSED;
	}
	return ON;
}

static enum step start_at_root(struct look *l)
{
	int fd = open("/", SEEN | O_DIRECTORY);

	if (fd < 0)
		return exposed_unknown(l, errno);
	if (l->cur.fd >= 0)
		(void)fd_close(l->cur.fd);
	l->cur.fd = fd;
	(void)snprintf(l->real, sizeof(l->real), "/");
	return exposed_look_at(fd, &l->cur.x) < 0 ? exposed_unknown(l, errno)
						  : is_place(l, &l->cur.x, "/");
}

/* Puts `head` before what is still to be walked. */
static int prepend(struct look *l, const char *head)
{
	char rest[sizeof(l->todo)];

	(void)snprintf(rest, sizeof(rest), "%s", l->todo);
	return snprintf(l->todo, sizeof(l->todo), "%s%s%s", head, *rest ? "/" : "", rest) <
			       (int)sizeof(l->todo)
		       ? 0
		       : -ENAMETOOLONG;
}

/* The links of procfs are the kernel's: their text is no path, and leads nobody. */
static enum step magic(struct look *l, const char *name)
{
	CLEANUP(fd) int fd = openat(l->cur.fd, name, O_PATH | O_CLOEXEC);
	char real[PATH_MAX];
	struct statx x;
	int r;

	if (fd < 0)
		return exposed_unknown(l, errno);
	if (exposed_look_at(fd, &x) < 0 || fd_real_path(fd, real) < 0)
		return exposed_unknown(l, errno);
	l->nameless = real[0] != '/' || !x.stx_nlink;
	if (real[0] != '/')
		return S_ISREG(x.stx_mode) || S_ISDIR(x.stx_mode) ? exposed_unknown(l, ENOENT)
								  : OVER;
	if (!x.stx_nlink)
		exposed_cut(real);
	r = prepend(l, real);
	return r < 0 ? exposed_unknown(l, r) : start_at_root(l);
}

/* Does the link in the folder that the walk has come to lie in a place? */
static enum step judge_link(struct look *l)
{
	bool passes = l->passes;
	char path[PATH_MAX];
	enum step s = ON;

	l->passes = false;
	memcpy(path, l->real, sizeof(path));
	if (passes) /* else every folder above was looked up on the way */
		s = climb(l, path);
	if (s == ON)
		s = aliases(l, &l->cur);
	l->passes = passes;
	return s;
}

static enum step exposed_follow(struct look *l, int link, const char *name)
{
	char goal[PATH_MAX];
	struct statfs fs;
	ssize_t n;
	int r;

	if (++l->links > LINKS_MAX)
		return exposed_unknown(l, ELOOP);
	if (judge_link(l) == EXPOSED)
		return EXPOSED;
	if (fstatfs(l->cur.fd, &fs) < 0)
		return exposed_unknown(l, errno);
	if (fs.f_type == PROC_SUPER_MAGIC)
		return magic(l, name);
	n = readlinkat(link, "", goal, sizeof(goal) - 1);
	if (n < 0)
		return exposed_unknown(l, errno);
	goal[n] = '\0';
	r = prepend(l, goal);
	if (r < 0)
		return exposed_unknown(l, r);
	return goal[0] == '/' ? start_at_root(l) : ON;
}

/* The last name of the path, which is no folder. */
static enum step judge_file(struct look *l, const struct thing *t)
{
	l->end = t->x;
	if (is_place(l, &t->x, l->real) == EXPOSED)
		return EXPOSED;
	if (!same_mount(&t->x, &l->cur.x) && aliases(l, t) == EXPOSED)
		return EXPOSED;
	if ((l->flags & EXPOSED_SHARED) && S_ISREG(t->x.stx_mode) && t->x.stx_nlink > 1 &&
	    (t->x.stx_uid == geteuid() || (t->x.stx_mode & (S_IWGRP | S_IWOTH)))) {
		(void)err_set(l->why, ERR_POLICY, EPERM,
			      "it has %u names (hard links), and one may lie where commands in "
			      "sandboxes write",
			      t->x.stx_nlink);
		return EXPOSED;
	}
	return OVER;
}

static enum step go_up(struct look *l)
{
	int fd = openat(l->cur.fd, "..", SEEN | O_DIRECTORY);

	if (fd < 0)
		return exposed_unknown(l, errno);
	(void)fd_close(l->cur.fd);
	l->cur.fd = fd;
	exposed_cut(l->real);
	return exposed_look_at(fd, &l->cur.x) < 0 ? exposed_unknown(l, errno) : ON;
}

/* A command cannot move the place that it writes to: whoever enters and leaves it at once, as
 * `../x` does from there, has passed nothing of the command's. */
static bool is_left_again(const struct look *l)
{
	const char *at = l->todo;

	for (size_t n; *at; at += n) {
		at += strspn(at, "/");
		n = strcspn(at, "/");
		if (n != 1 || *at != '.')
			return n == 2 && strncmp(at, "..", 2) == 0;
	}
	return false;
}

static enum step enter_folder(struct look *l)
{
	if (is_place(l, &l->cur.x, l->real) == ON)
		return ON;
	if (!is_left_again(l))
		return EXPOSED;
	err_clear(l->why);
	return ON;
}

/* Is there nothing, or nothing that this process gets to? A guest may make it, or open its folder,
 * as soon as nobody looks. */
static bool is_out_of_reach(const struct look *l, int code)
{
	return code == ENOENT || code == ENOTDIR ||
	       ((l->flags & EXPOSED_REACHED) && (code == EACCES || code == ENAMETOOLONG));
}

/* One name further. */
static enum step exposed_enter(struct look *l, const char *name)
{
	struct thing next = { .fd = openat(l->cur.fd, name, SEEN) };
	CLEANUP(fd) int fd = next.fd;
	int r;

	l->missing = fd < 0 && is_out_of_reach(l, errno);
	if (fd < 0)
		return l->missing ? OVER : exposed_unknown(l, errno);
	r = exposed_look_at(fd, &next.x);
	if (r < 0)
		return exposed_unknown(l, r);
	r = meet_owner(l, next.x.stx_uid);
	if (r < 0)
		return exposed_unknown(l, r);
	if (S_ISLNK(next.x.stx_mode))
		return exposed_follow(l, fd, name);
	if (!same_mount(&next.x, &l->cur.x) && aliases(l, &l->cur) == EXPOSED)
		return EXPOSED;
	r = exposed_append(l->real, name);
	if (r < 0)
		return exposed_unknown(l, r);
	if (!S_ISDIR(next.x.stx_mode)) {
		l->missing = *l->todo; /* nothing is below a file, until it is a folder */
		return judge_file(l, &next);
	}
	(void)fd_close(l->cur.fd);
	l->cur = next;
	l->cur.fd = TAKE_FD(fd);
	return enter_folder(l);
}

/* Takes the next name off what is to be walked; false: there is none. */
static bool next_name(struct look *l, char name[NAME_ROOM])
{
	size_t skip = strspn(l->todo, "/"), n = strcspn(l->todo + skip, "/");

	(void)snprintf(name, NAME_ROOM, "%.*s", (int)n, l->todo + skip);
	memmove(l->todo, l->todo + skip + n, strlen(l->todo + skip + n) + 1);
	return n > 0;
}

/* `file` is what the kernel says the path leads to, or -1: the walk must have come to the same. */
static enum step exposed_walk(struct look *l, int file)
{
	struct statx x;
	char name[NAME_ROOM];
	enum step s = start_at_root(l);

	while (s == ON && next_name(l, name)) {
		if (str_eq(name, "."))
			continue;
		s = str_eq(name, "..") ? go_up(l) : exposed_enter(l, name);
	}
	if (s == EXPOSED || aliases(l, &l->cur) == EXPOSED)
		return EXPOSED;
	if (s == ON)
		l->end = l->cur.x;
	if (l->nameless || (l->missing && file < 0))
		return OVER;
	if (file < 0 || exposed_look_at(file, &x) < 0)
		return exposed_unknown(l, errno);
	return exposed_same(&x, &l->end) ? OVER : exposed_unknown(l, ESTALE);
}

/* The places of this run. What is not there yet cannot have been written to. */
static int open_also(struct look *l, const char *const *also)
{
	for (l->also_name = also; also && also[l->also_count]; l->also_count++) {
		CLEANUP(fd) int fd = -1;
		struct stat st;

		if (l->also_count == ALSO_MAX)
			return -E2BIG;
		fd = open(also[l->also_count], O_PATH | O_CLOEXEC);
		if (fd < 0 && errno != ENOENT && errno != ENOTDIR)
			return -errno;
		if (fd >= 0 && fstat(fd, &st) < 0)
			return -errno;
		if (fd >= 0)
			l->also[l->also_count] = ident_of(&st);
	}
	return 0;
}

/* Most places of a state are one and the same. */
static bool has_notes(const struct look *l, int fd)
{
	struct stat st, had;

	if (fstat(fd, &st) < 0)
		return false;
	for (size_t i = 0; i < l->note_count; i++)
		if (fstat(l->notes[i], &had) == 0 && had.st_ino == st.st_ino &&
		    had.st_dev == st.st_dev)
			return true;
	return false;
}

/* Another environment may have led to another state: who sets XDG_STATE_HOME today has made notes
 * elsewhere yesterday. */
static int open_notes(struct look *l)
{
	char home[PATH_MAX];
	const char *listed = home_listed(geteuid(), home, sizeof(home)) == 0 ? home : NULL;

	for (int i = 0; i < NOTES_MAX; i++) {
		CLEANUP(fd) int fd = state_find_at(i, listed, EXPOSED_FOLDER);

		if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
			return -errno;
		if (fd >= 0 && !has_notes(l, fd))
			l->notes[l->note_count++] = TAKE_FD(fd);
	}
	return 0;
}

static void close_notes(struct look *l)
{
	while (l->note_count)
		(void)fd_close(l->notes[--l->note_count]);
}

/* Anew for as long as users are met whose notes were not looked at from the beginning. */
static enum step walk_all(struct look *l, const char *path, int file)
{
	enum step s = ON;
	int r = 0;

	for (l->again = true; s != EXPOSED && l->again;) {
		l->again = l->nameless = l->missing = false;
		l->links = 0;
		l->todo[0] = '\0';
		if (path[0] != '/')
			r = getcwd(l->todo, PATH_MAX) ? 0 : -errno;
		if (r == 0 &&
		    snprintf(l->todo + strlen(l->todo), PATH_MAX, "/%s", path) >= PATH_MAX)
			r = -ENAMETOOLONG;
		s = r < 0 ? exposed_unknown(l, r) : exposed_walk(l, file);
	}
	return s;
}

static bool ask_once(const char *path, const char *const *also, unsigned flags, struct err *why)
{
	struct look l = {
		.flags = flags, .passes = flags & EXPOSED_LINKS, .cur.fd = -1, .why = why
	};
	CLEANUP(fd)
	int file = open(path, O_PATH | O_CLOEXEC); /* first: it mounts what is mounted
						    * by being used */
	enum step s;
	struct stat st;
	int r = file >= 0 || is_out_of_reach(&l, errno) ? 0 : -errno;

	if (r < 0) {
		(void)exposed_unknown(&l, r);
		return true;
	}
	r = open_notes(&l);
	l.own_count = l.note_count;
	if (r == 0 && file >= 0 && fstat(file, &st) == 0)
		r = meet_owner(&l, st.st_uid);
	if (r == 0)
		r = open_also(&l, also);
	s = r < 0 ? exposed_unknown(&l, r) : walk_all(&l, path, file);
	if (l.cur.fd >= 0)
		(void)fd_close(l.cur.fd);
	close_notes(&l);
	arena_free(l.arena);
	return s == EXPOSED;
}

/* Whoever owns the file may be making or replacing it just now. */
static bool exposed_ask(const char *path, const char *const *also, unsigned flags, struct err *why)
{
	for (int i = 0; i < TRIES; i++) {
		if (!ask_once(path, also, flags, why))
			return false;
		if (why->code != ESTALE && why->code != ENOENT)
			return true;
		err_clear(why);
	}
	return ask_once(path, also, flags, why);
}

bool exposed_path(const char *path, const char *const *also, unsigned flags, struct err *why)
{
	return exposed_ask(path, also, flags, why);
}

bool exposed_fd(int fd, const char *const *also, unsigned flags, struct err *why)
{
	char path[32];

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return exposed_ask(path, also, flags, why);
}
