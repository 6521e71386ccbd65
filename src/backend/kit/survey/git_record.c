/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/survey/git_record.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "backend/kit/survey/record_devices.h"
#include "base/files/draft.h"
#include "base/files/lives.h"
#include "base/files/state.h"
#include "base/text/str.h"
#include "git/gitsay.h"

#define FOLDER RECORD_FOLDER
#define MAGIC "brig-workspace 3"
#define WHOLE "whole"
#define PART "open"
#define SUM_SIZE 17 /* the last word, of all before it: what was written halfway is no record */
#define REST "."    /* is in a list that has not all */
#define STAMP_NUMBERS 8

/* ---- the list ---- */

static void git_record_put(struct buf *text, enum record_kind kind, const char *path,
			   const struct stamp *s)
{
	buf_printf(text, "%c %llx %llx %x %llx %llx.%lx %llx.%lx", (char)kind,
		   (unsigned long long)s->ident.dev, (unsigned long long)s->ident.ino,
		   (unsigned)s->ident.type, (unsigned long long)s->size,
		   (unsigned long long)s->mtime.tv_sec, (unsigned long)s->mtime.tv_nsec,
		   (unsigned long long)s->ctime.tv_sec, (unsigned long)s->ctime.tv_nsec);
	buf_putc(text, '\0');
	buf_add(text, path, strlen(path) + 1);
}

void known_put(struct buf *text, enum record_kind kind, const char *path, const struct stat *st)
{
	const struct stamp s = stamp_of(st);

	git_record_put(text, kind, path, &s);
}

void known_keep(struct buf *text, const struct known_thing *k)
{
	git_record_put(text, k->kind, k->path, &k->was);
}

static const struct stamp none;

void known_put_partial(struct buf *text)
{
	git_record_put(text, RECORD_PART, REST, &none);
}

/* A slash before it, so that it is not taken for the part of a git folder that it may be, too. */
static bool name_path(const char *path, char out[PATH_MAX])
{
	return snprintf(out, PATH_MAX, "/%s", path) < PATH_MAX;
}

void known_put_name(struct buf *text, const char *path, const struct stamp *was)
{
	char name[PATH_MAX];

	if (name_path(path, name))
		git_record_put(text, RECORD_NAME, name, was ? was : &none);
}

const struct known_thing *known_name(const struct known_list *l, const char *path)
{
	char name[PATH_MAX];

	return name_path(path, name) ? known_find(l, name) : NULL;
}

bool known_is_git(const struct known_thing *k)
{
	return k->kind == RECORD_GIT || k->kind == RECORD_MADE;
}

bool known_partial(const struct known_list *l)
{
	return known_find(l, REST);
}

/* Lower-case hexadecimal digits, as known_put writes them. */
static const char *git_record_number(const char *at, char end, unsigned long long *ret)
{
	size_t n = strspn(at, "0123456789abcdef");

	if (!n || n > 16 || at[n] != end)
		return NULL;
	*ret = strtoull(at, NULL, 16);
	return at + n + (end != '\0');
}

static bool read_stamp(const char *at, struct stamp *ret)
{
	static const char ends[STAMP_NUMBERS] = { ' ', ' ', ' ', ' ', '.', ' ', '.', '\0' };
	unsigned long long v[STAMP_NUMBERS];

	for (size_t i = 0; i < STAMP_NUMBERS; i++)
		if (!(at = git_record_number(at, ends[i], &v[i])))
			return false;
	*ret = (struct stamp){
		.ident = { .dev = (dev_t)v[0], .ino = (ino_t)v[1], .type = (mode_t)v[2] },
		.size = (off_t)v[3],
		.mtime = { .tv_sec = (time_t)v[4], .tv_nsec = (long)v[5] },
		.ctime = { .tv_sec = (time_t)v[6], .tv_nsec = (long)v[7] }
	};
	return true;
}

static bool read_entry(const char *words, const char *path, struct known_thing *ret)
{
	*ret = (struct known_thing){ .path = path, .kind = (enum record_kind)words[0] };
	return words[0] && strchr("gmpn", words[0]) && words[1] == ' ' &&
	       (path[0] == '/') == (ret->kind == RECORD_NAME) && read_stamp(words + 2, &ret->was);
}

static int git_record_by_path(const void *a, const void *b)
{
	return strcmp(((const struct known_thing *)a)->path, ((const struct known_thing *)b)->path);
}

bool known_read(struct known_list *l)
{
	const char *at = l->text.len ? l->text.data : NULL, *path;
	size_t room = 0;

	free(l->v);
	l->v = NULL;
	l->n = 0;
	if (l->text.failed || (l->text.len && l->text.data[l->text.len - 1]))
		return false;
	for (const char *c = at; c; c = gitsay_next(&l->text, c))
		room++;
	if (!room)
		return true;
	l->v = calloc(room / 2 + 1, sizeof(*l->v));
	while (l->v && at && (path = gitsay_next(&l->text, at)) &&
	       read_entry(at, path, &l->v[l->n])) {
		l->n++;
		at = gitsay_next(&l->text, path);
	}
	if (l->v && !at) {
		qsort(l->v, l->n, sizeof(*l->v), git_record_by_path);
		return true;
	}
	l->n = 0;
	return false;
}

const struct known_thing *known_find(const struct known_list *l, const char *path)
{
	const struct known_thing wanted = { .path = path };

	return l->n ? bsearch(&wanted, l->v, l->n, sizeof(*l->v), git_record_by_path) : NULL;
}

bool known_same(const struct known_list *l, const char *path, const struct stat *st)
{
	const struct known_thing *k = known_find(l, path);
	const struct stamp now = stamp_of(st);

	return k && k->kind == RECORD_PART && stamp_same(&k->was, &now);
}

void known_move(struct known_list *l, dev_t from, dev_t to)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].was.ident.dev == from)
			l->v[i].was.ident.dev = to;
}

void known_restamp(struct known_list *l, const char *path, const struct stat *st)
{
	for (size_t i = 0; i < l->n; i++)
		if (str_eq(l->v[i].path, path))
			l->v[i].was = stamp_of(st);
}

void known_done(struct known_list *l)
{
	buf_done(&l->text);
	free(l->v);
	l->v = NULL;
	l->n = 0;
}

/* ---- who lives ---- */

static int git_record_lock(int fd, int how, short type)
{
	struct flock all = { .l_type = type, .l_whence = SEEK_SET, .l_len = 1 };

	return fcntl(fd, how, &all) < 0 ? -errno : 0;
}

int record_live(int *life, struct err *e)
{
	CLEANUP(fd) int fd = state_open(FOLDER, NULL, 0, e);
	int r = fd < 0 ? fd : lives_join(fd);

	if (fd < 0)
		return fd;
	if (r < 0)
		return err_errno(e, r, "cannot lock brig's records of workspaces");
	*life = r;
	return TAKE_FD(fd);
}

bool record_locked(int fd)
{
	struct flock all = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1 };

	return fd < 0 || fcntl(fd, F_OFD_GETLK, &all) < 0 || all.l_type != F_UNLCK;
}

int record_join(int record, bool *alone)
{
	*alone = git_record_lock(record, F_OFD_SETLK, F_WRLCK) == 0;
	return *alone ? 0 : git_record_lock(record, F_OFD_SETLKW, F_RDLCK);
}

void record_share(int record)
{
	(void)git_record_lock(record, F_OFD_SETLK, F_RDLCK);
}

bool record_alone(int record)
{
	return git_record_lock(record, F_OFD_SETLK, F_WRLCK) == 0;
}

void record_leave(int record)
{
	(void)git_record_lock(record, F_OFD_SETLK, F_UNLCK);
}

/* Two that both kept theirs would each find the other. */
bool record_last(int record)
{
	record_leave(record);
	return record_alone(record);
}

/* ---- the file ---- */

void record_name(const struct ident *tree, char out[RECORD_NAME_SIZE])
{
	(void)snprintf(out, RECORD_NAME_SIZE, "%llx-%llx", (unsigned long long)tree->dev,
		       (unsigned long long)tree->ino);
}

bool record_ident(const char *name, struct ident *ret)
{
	unsigned long long dev, ino;
	const char *at = git_record_number(name, '-', &dev);

	if (!at || !git_record_number(at, '\0', &ino))
		return false;
	*ret = (struct ident){ .dev = (dev_t)dev, .ino = (ino_t)ino, .type = S_IFDIR };
	return true;
}

int record_find(int records, const struct ident *tree)
{
	char name[RECORD_NAME_SIZE];

	record_name(tree, name);
	return records < 0 ? -1 : openat(records, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
}

bool record_unfinished(int records, const struct ident *tree)
{
	static const char open[] = MAGIC "\0" PART;
	CLEANUP(fd) int fd = record_find(records, tree);
	char head[sizeof(open)];

	return fd >= 0 && pread(fd, head, sizeof(head), 0) == (ssize_t)sizeof(head) &&
	       memcmp(head, open, sizeof(head)) == 0 && !record_locked(fd);
}

void record_rename(int live, const struct ident *was, const struct ident *is)
{
	char from[RECORD_NAME_SIZE], to[RECORD_NAME_SIZE];

	record_name(was, from);
	record_name(is, to);
	if (record_device_note(live, is->dev) == 0)
		(void)renameat2(live, from, live, to, RENAME_NOREPLACE);
}

int record_open(int live, const struct ident *tree, struct err *e)
{
	char name[RECORD_NAME_SIZE];
	int fd;

	record_name(tree, name);
	fd = openat(live, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT) {
		int r = record_device_note(live, tree->dev);

		if (r < 0)
			return err_errno(e, r, "cannot make brig's record of the workspace");
		fd = openat(live, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	}
	return fd < 0 ? err_sys(e, "cannot open brig's record of the workspace") : fd;
}

static bool is_sound(const struct buf *b)
{
	size_t n = b->len > SUM_SIZE ? b->len - SUM_SIZE : 0;
	unsigned long long sum;

	return n && !b->failed && !b->data[b->len - 1] && !b->data[n - 1] &&
	       git_record_number(b->data + n, '\0', &sum) && sum == mem_hash(0, b->data, n);
}

/* Inodes are given again, and to a folder in the place of one that is gone first of all. Empty
 * where the file system does not tell. */
static void birth_of(int tree, char out[RECORD_BIRTH])
{
	struct statx st;

	*out = '\0';
	if (statx(tree, "", AT_EMPTY_PATH, STATX_BTIME, &st) == 0 && (st.stx_mask & STATX_BTIME))
		(void)snprintf(out, RECORD_BIRTH, "%llx.%x",
			       (unsigned long long)st.stx_btime.tv_sec, st.stx_btime.tv_nsec);
}

bool record_is_of(const struct known_list *l, int tree, bool sure)
{
	char born[RECORD_BIRTH];

	birth_of(tree, born);
	return *born && *l->born ? str_eq(born, l->born) : !sure;
}

/* Its words, and behind them the entries. */
static bool git_record_read_text(int record, struct buf *ret)
{
	int r;

	(void)flock(record, LOCK_SH);
	r = buf_read_file(ret, record);
	(void)flock(record, LOCK_UN);
	return r == 0 && is_sound(ret);
}

bool record_load(int record, struct known_list *ret, bool *whole, struct buf *path)
{
	CLEANUP(buf) struct buf text = BUF_INIT(RECORD_MAX);
	const char *state, *born, *tree, *first;

	if (!git_record_read_text(record, &text) || !str_eq(text.data, MAGIC))
		return false;
	state = gitsay_next(&text, text.data);
	born = state ? gitsay_next(&text, state) : NULL;
	tree = born ? gitsay_next(&text, born) : NULL;
	first = tree ? gitsay_next(&text, tree) : NULL;
	if (!first || (!str_eq(state, WHOLE) && !str_eq(state, PART)))
		return false;
	(void)snprintf(ret->born, sizeof(ret->born), "%s", born);
	*whole = str_eq(state, WHOLE);
	if (path)
		buf_add(path, tree, strlen(tree) + 1);
	ret->text.len = 0;
	buf_add(&ret->text, first, text.len - (size_t)(first - text.data) - SUM_SIZE);
	return known_read(ret);
}

/* In its place: a file that is emptied first gets new blocks, and waits for them, at every start
 * and every end. */
static int write_text(int record, const struct buf *text)
{
	struct stat st;
	int r;

	if (lseek(record, 0, SEEK_SET) < 0 || fstat(record, &st) < 0)
		return -errno;
	r = fd_write_all(record, text->data, text->len);
	if (r == 0 && st.st_size > (off_t)text->len && ftruncate(record, (off_t)text->len) < 0)
		r = -errno;
	return r;
}

int record_store(int record, int tree, const char *path, const struct buf *text, bool whole)
{
	CLEANUP(buf) struct buf all = BUF_INIT(RECORD_MAX + 8192);
	char born[RECORD_BIRTH];
	int r;

	birth_of(tree, born);
	buf_add(&all, MAGIC, sizeof(MAGIC));
	buf_add(&all, whole ? WHOLE : PART, whole ? sizeof(WHOLE) : sizeof(PART));
	buf_add(&all, born, strlen(born) + 1);
	buf_add(&all, path, strlen(path) + 1);
	if (text->len)
		buf_add(&all, text->data, text->len);
	if (text->failed || all.failed)
		return -E2BIG;
	buf_printf(&all, "%016llx", (unsigned long long)mem_hash(0, all.data, all.len));
	buf_putc(&all, '\0');
	if (all.failed)
		return -E2BIG;
	(void)flock(record, LOCK_EX); /* those that join read it meanwhile */
	r = write_text(record, &all);
	(void)flock(record, LOCK_UN);
	return r;
}

/* ---- marks ---- */

static void mark_path(const char *mark, const struct ident *tree, char out[80])
{
	char name[RECORD_NAME_SIZE];

	record_name(tree, name);
	(void)snprintf(out, 80, "%s/%s", mark, name);
}

/* A further name of the record: a file that is made and removed costs a run more. */
bool record_mark(int live, const char *mark, const struct ident *tree)
{
	char name[RECORD_NAME_SIZE], path[80];
	struct err e;

	record_name(tree, name);
	mark_path(mark, tree, path);
	if (linkat(live, name, live, path, 0) == 0)
		return true;
	if (errno != ENOENT)
		return false;
	(void)mkdirat(live, mark, 0700);
	(void)fd_close(record_open(live, tree, &e));
	return linkat(live, name, live, path, 0) == 0;
}

void record_unmark(int live, const char *mark, const struct ident *tree)
{
	char path[80];

	mark_path(mark, tree, path);
	(void)unlinkat(live, path, 0);
}

int record_marks(const char *mark)
{
	char folder[32];

	(void)snprintf(folder, sizeof(folder), FOLDER "/%s", mark);
	return state_find(folder, NULL, 0);
}

bool record_is_open(int records, const struct ident *tree)
{
	char path[80];

	mark_path(RECORD_OPEN, tree, path);
	return records >= 0 && faccessat(records, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* ---- what was seen ---- */

static void seen_name(const struct ident *tree, char out[RECORD_NAME_SIZE + 8])
{
	char record[RECORD_NAME_SIZE];

	record_name(tree, record);
	(void)snprintf(out, RECORD_NAME_SIZE + 8, "%s.seen", record);
}

void record_seen_load(int records, const struct ident *tree, struct seen_folders *seen)
{
	CLEANUP(fd) int fd = -1;
	char name[RECORD_NAME_SIZE + 8];

	seen_name(tree, name);
	if (records >= 0 && seen)
		fd = openat(records, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0)
		seen_load(seen, fd);
}

/* In one piece, since others may be reading. Without it the next walk takes longer. */
void record_seen_store(int live, const struct ident *tree, struct seen_folders *seen)
{
	char name[RECORD_NAME_SIZE + 8];
	struct draft d;

	if (!seen_is_new(seen) || draft_open(live, &d) < 0)
		return;
	seen_name(tree, name);
	if (seen_store(seen, d.fd) < 0)
		draft_drop(&d);
	else
		(void)draft_keep(&d, name, 0600);
}
