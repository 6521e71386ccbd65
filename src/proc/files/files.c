/* SPDX-License-Identifier: Apache-2.0 */
/* proc/files/files.c - brig-files: one operation, and out. */
#include "proc/files/files.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "base/files/folder.h"
#include "base/tar/tar.h"
#include "base/text/str.h"
#include "proc/files/files_internal.h"

#define FILES_MAX 256 /* descriptors: one for each level of a tree */
#define CPU_SECONDS 300
/* The link that leads to the workspace where that is at another path. */
#define WORKSPACE_LINK "/workspace"
/* Of the folder of links that native shows as /etc, and of what packages ship: see brigs_etc. */
#define ETC "etc/"

/* ---- orders ---- */

void file_order_words(const struct file_order *o, struct file_words *ret)
{
	const uint64_t numbers[] = { o->verb, o->flags, o->mode, o->limit };

	for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
		(void)snprintf(ret->number[i], sizeof(ret->number[i]), "%llu",
			       (unsigned long long)numbers[i]);
		ret->argv[i] = ret->number[i];
	}
	ret->argv[4] = o->path;
	ret->argv[5] = o->to;
	ret->argv[FILE_WORDS] = NULL;
}

int file_order_read(const char *const *argv, struct file_order *ret)
{
	uint64_t numbers[4];
	size_t n = 0;

	while (argv[n])
		n++;
	if (n != FILE_WORDS)
		return -EPROTO;
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
		char *end;

		errno = 0;
		numbers[i] = strtoull(argv[i], &end, 10);
		if (errno || *end || end == argv[i])
			return -EPROTO;
	}
	if (numbers[0] >= FILE_VERBS || !*argv[4])
		return -EPROTO;
	*ret = (struct file_order){ .verb = (enum file_verb)numbers[0],
				    .flags = (unsigned)numbers[1],
				    .mode = (unsigned)numbers[2],
				    .limit = numbers[3],
				    .path = argv[4],
				    .to = argv[5] };
	return 0;
}

/* ---- answers ---- */

static void files_answer(int fd, const struct file_answer *a)
{
	while (write(fd, a, sizeof(*a)) < 0 && errno == EINTR)
		;
}

void file_refuse(int answers, int error)
{
	const struct file_answer a = { .says = FILE_DONE, .error = error };

	files_answer(answers, &a);
}

uint32_t file_mode(const struct stat *st)
{
	bool held = S_ISREG(st->st_mode) && st->st_nlink == 0 && (st->st_mode & 07777) == 0444;

	return held ? S_IFSOCK : st->st_mode;
}

static struct file_answer of_stat(const struct stat *st)
{
	return (struct file_answer){ .mode = file_mode(st),
				     .size = (uint64_t)st->st_size,
				     .mtime = (int64_t)st->st_mtim.tv_sec * 1000000 +
					      st->st_mtim.tv_nsec / 1000 };
}

void file_has(struct file_work *w, const struct stat *st)
{
	struct file_answer a = st ? of_stat(st) : (struct file_answer){ 0 };

	a.says = FILE_HAS;
	files_answer(w->answers, &a);
}

void file_tell_left(const struct file_work *w)
{
	size_t at = 0;

	while (at < w->left_len) {
		struct file_left l = { .says = FILE_LEFT };
		struct file_answer a;

		l.length = w->left_len - at < sizeof(l.text) ? (uint32_t)(w->left_len - at)
							     : (uint32_t)sizeof(l.text);
		memcpy(l.text, w->left + at, l.length);
		memcpy(&a, &l, sizeof(a));
		files_answer(w->answers, &a);
		at += l.length;
	}
}

/* ---- paths ---- */

/* What brig's own link leads to is known without it: the folder that this process is in. */
static const char *behind_link(const char *path)
{
	size_t n = strlen(WORKSPACE_LINK);
	struct stat st;

	if (strncmp(path, WORKSPACE_LINK, n) != 0 || (path[n] && path[n] != '/') ||
	    lstat(WORKSPACE_LINK, &st) < 0 || !S_ISLNK(st.st_mode))
		return path;
	for (path += n; *path == '/';)
		path++;
	return *path ? path : ".";
}

static int open_read_only(const char *folder)
{
	CLEANUP(fd) int fd = open(folder, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct statfs fs;

	return fd >= 0 && fstatfs(fd, &fs) == 0 && (fs.f_flags & ST_RDONLY) ? TAKE_FD(fd) : -1;
}

/* brig's /etc has links to what it made in /.etc and to its copy of what packages ship. A link is
 * brig's if it leads to the same name in one of these, and both it and that stand on mounts that
 * are read-only: nobody inside can have made it, nor change where it leads. Returns that folder,
 * and in *path what leads on from there; -1: no such link. */
static int brigs_etc(const char **path)
{
	static const char *const goals[] = { "/.etc", "/.packages/etc" };
	const char *rest = *path + strspn(*path, "/");
	char name[NAME_MAX + 1], to[PATH_MAX], expected[PATH_MAX];
	CLEANUP(fd) int etc = -1, goal = -1;
	ssize_t n;

	if (rest == *path || !str_starts(rest, ETC))
		return -1;
	rest += strlen(ETC);
	rest += strspn(rest, "/");
	if (strcspn(rest, "/") >= sizeof(name))
		return -1;
	(void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(rest, "/"), rest);
	etc = open_read_only("/etc");
	n = etc < 0 ? -1 : readlinkat(etc, name, to, sizeof(to) - 1);
	if (n < 0)
		return -1;
	to[n] = '\0';
	for (size_t i = 0; i < ARRAY_LEN(goals); i++) {
		(void)snprintf(expected, sizeof(expected), "%s/%s", goals[i], name);
		if (strcmp(to, expected) == 0)
			goal = open_read_only(goals[i]);
	}
	if (goal >= 0)
		*path = rest;
	return TAKE_FD(goal);
}

int file_open(const char *path, int flags)
{
	CLEANUP(fd) int root = -1;

	path = behind_link(path);
	root = brigs_etc(&path);
	if (root < 0)
		root = open(path[0] == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	while (*path == '/')
		path++;
	return root < 0 ? -errno
			: fd_open_nolinks(root, *path ? path : ".",
					  flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, FD_IN_ROOT);
}

int file_above(const char *path, int flags, const char **name)
{
	const char *slash, *inside = behind_link(path);
	char above[PATH_MAX];

	if (strcmp(inside, ".") == 0)
		return -EINVAL;
	slash = strrchr(inside, '/');
	*name = slash ? slash + 1 : inside;
	if (!**name || strcmp(*name, ".") == 0 || strcmp(*name, "..") == 0)
		return -EINVAL;
	if (!slash)
		return file_open(".", flags);
	if (snprintf(above, sizeof(above), "%.*s", (int)(slash - inside), inside) >=
	    (int)sizeof(above))
		return -ENAMETOOLONG;
	return file_open(*above ? above : "/", flags);
}

int file_is_plain(int fd, struct stat *ret)
{
	struct statfs fs;

	if (fstat(fd, ret) < 0 || fstatfs(fd, &fs) < 0)
		return -errno;
	if (S_ISDIR(ret->st_mode))
		return -EISDIR;
	if (!S_ISREG(ret->st_mode) || fs.f_type == PROC_SUPER_MAGIC || fs.f_type == SYSFS_MAGIC ||
	    fs.f_type == CGROUP2_SUPER_MAGIC || fs.f_type == CGROUP_SUPER_MAGIC)
		return -EMEDIUMTYPE;
	return 0;
}

/* ---- verbs without data ---- */

int file_stat(struct file_work *w)
{
	CLEANUP(fd) int fd = file_open(w->o.path, O_PATH);
	struct stat st;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	file_has(w, &st);
	return 0;
}

static int make_all(const char *path)
{
	CLEANUP(fd) int at = -1;
	const char *next = behind_link(path);
	char name[NAME_MAX + 1];

	at = open(next[0] == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	while (at >= 0) {
		size_t n;
		int fd;

		next += strspn(next, "/");
		n = strcspn(next, "/");
		if (!n)
			return 0;
		if (n >= sizeof(name))
			return -ENAMETOOLONG;
		memcpy(name, next, n);
		name[n] = '\0';
		next += n;
		if (mkdirat(at, name, 0755) < 0 && errno != EEXIST && errno != EROFS &&
		    errno != EACCES && errno != EPERM)
			return -errno;
		fd = openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0)
			return errno == ENOENT ? -EACCES : -errno;
		(void)fd_close(at);
		at = fd;
	}
	return -errno;
}

int file_mkdir(struct file_work *w)
{
	CLEANUP(fd) int above = -1;
	const char *name;

	if (w->o.flags & FILE_PARENTS)
		return make_all(w->o.path);
	above = file_above(w->o.path, O_PATH | O_DIRECTORY, &name);
	if (above < 0)
		return above;
	return mkdirat(above, name, 0755) < 0 ? -errno : 0;
}

int file_move(struct file_work *w)
{
	const char *from_name, *to_name;
	CLEANUP(fd) int from = file_above(w->o.path, O_PATH | O_DIRECTORY, &from_name), to = -1;
	struct stat st;

	if (from < 0)
		return from;
	to = file_above(w->o.to, O_PATH | O_DIRECTORY, &to_name);
	if (to < 0)
		return to;
	if (!(w->o.flags & FILE_OVER) && fstatat(to, to_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return -EEXIST;
	return renameat(from, from_name, to, to_name) < 0 ? -errno : 0;
}

static int files_remove_one(int above, const char *name, unsigned depth, uint64_t *left);

static int remove_below(int folder, unsigned depth, uint64_t *left)
{
	const struct fd_entry *d;
	struct folder f;
	int r = 0;

	folder_begin(&f, folder);
	while (r == 0 && (d = folder_next(&f)))
		r = files_remove_one(folder, d->name, depth, left);
	return r < 0 ? r : -f.error;
}

static int files_remove_one(int above, const char *name, unsigned depth, uint64_t *left)
{
	CLEANUP(fd) int fd = -1;
	int r;

	if (depth == TAR_DEPTH_MAX || !*left)
		return -E2BIG;
	--*left;
	if (unlinkat(above, name, 0) == 0)
		return 0;
	if (errno != EISDIR)
		return -errno;
	fd = openat(above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	r = fd < 0 ? -errno : remove_below(fd, depth + 1, left);
	if (r < 0)
		return r;
	return unlinkat(above, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

int file_remove(struct file_work *w)
{
	const char *name;
	CLEANUP(fd) int above = file_above(w->o.path, O_PATH | O_DIRECTORY, &name);
	uint64_t left = FILE_TREE_MAX;

	if (above < 0)
		return above;
	if (w->o.flags & FILE_ALL)
		return files_remove_one(above, name, 0, &left);
	if (unlinkat(above, name, 0) == 0)
		return 0;
	if (errno != EISDIR)
		return -errno;
	return unlinkat(above, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

/* ---- the process ---- */

static int limit(uint64_t bytes)
{
	const struct {
		int what;
		rlim_t most;
	} rows[] = { { RLIMIT_CORE, 0 },
		     { RLIMIT_NOFILE, FILES_MAX },
		     { RLIMIT_CPU, CPU_SECONDS },
		     { RLIMIT_FSIZE, bytes } };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct rlimit now, l;

		if (getrlimit((__rlimit_resource_t)rows[i].what, &now) < 0)
			return -errno;
		l.rlim_cur = l.rlim_max = rows[i].most < now.rlim_max ? rows[i].most : now.rlim_max;
		if (setrlimit((__rlimit_resource_t)rows[i].what, &l) < 0)
			return -errno;
	}
	return 0;
}

static int files_carry_out(struct file_work *w, const char *const *argv)
{
	static file_verb_fn *const verbs[] = {
		[FILE_STAT] = file_stat,     [FILE_READ] = file_read,   [FILE_WRITE] = file_write,
		[FILE_LIST] = file_list,     [FILE_MKDIR] = file_mkdir, [FILE_MOVE] = file_move,
		[FILE_REMOVE] = file_remove, [FILE_WATCH] = file_watch, [FILE_PACK] = file_pack,
		[FILE_UNPACK] = file_unpack,
	};
	int r = file_order_read(argv, &w->o);

	static_assert(ARRAY_LEN(verbs) == FILE_VERBS, "one for each");
	if (r == 0)
		r = limit(w->o.limit < FILE_BYTES_MAX ? w->o.limit : FILE_BYTES_MAX);
	return r < 0 ? r : verbs[w->o.verb](w);
}

_Noreturn void files_main(const char *const *argv, const int ends[FILE_ENDS], uint64_t *written)
{
	struct file_work w = { .data = ends[FILE_END_DATA],
			       .answers = ends[FILE_END_ANSWERS],
			       .word = ends[FILE_END_WORD],
			       .written = written };
	struct file_answer done = { .says = FILE_DONE };
	int r;

	(void)prctl(PR_SET_NAME, "brig-files", 0, 0, 0);
	(void)umask(022);
	r = files_carry_out(&w, argv);
	done.error = r < 0 ? -r : 0;
	done.more = r > 0 ? (uint32_t)r : 0;
	/* Before the data's end is seen. */
	files_answer(w.answers, &done);
	_exit(0);
}
