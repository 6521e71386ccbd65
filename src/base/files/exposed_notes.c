/* SPDX-License-Identifier: Apache-2.0 */
/* base/files/exposed_notes.c - notes of the places that guests may write.
 *
 * STATE/exposed has two links for each place, which lead nowhere and are read with one system call:
 *
 *	i-DEVICE-INODE -> BIRTH AS PATH  what it is; its birth tells an inode that was used again
 *	p-HASH -> PATH                   what it is called, for devices whose numbers change
 *
 * and files for locks and to count by. AS is a letter for each way that it was given; earlier
 *versions had none.
 */
#include "base/files/exposed_notes.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/bytes/sha256.h"
#include "base/files/fd.h"
#include "base/files/folder.h"
#include "base/files/home.h"
#include "base/files/lives.h"
#include "base/files/state.h"
#include "base/text/cleanup.h"
#include "base/text/str.h"

#define LOCK ".lock"
#define ADDED ".added" /* a byte for each place since the notes were counted */

enum {
	TIDY_FROM = 20000, /* entries, two for each place: from there on those that are gone go */
	ENTRIES_MAX = 131072, /* and what is noted until they are counted */
	COUNT_AT = 256,       /* places: all notes are looked through once for so many */
	NAME_SIZE = 64,
	BIRTH_SIZE = 32,
	AS_SIZE = 16,
};

static const struct {
	char letter;
	const char *word;
} as_words[] = {
	{ EXPOSED_AS_WORKSPACE, "workspace" }, { EXPOSED_AS_WRITE, "--write" },
	{ EXPOSED_AS_MOUNT, "--mount" },       { EXPOSED_AS_HOME, "kept HOMEs" },
	{ EXPOSED_AS_STORE, "stores" },        { EXPOSED_AS_DATA, "data of companions" },
	{ EXPOSED_AS_COPY, "sandbox cp" },     { EXPOSED_AS_GIT, "git folder" },
	{ EXPOSED_AS_VOLUME, "volumes" },
};

const char *exposed_as_word(char as)
{
	for (size_t i = 0; i < ARRAY_LEN(as_words); i++)
		if (as_words[i].letter == as)
			return as_words[i].word;
	return NULL;
}

/* ---- one note ---- */

int exposed_look_at(int fd, struct statx *x)
{
	return statx(fd, "", AT_EMPTY_PATH | AT_NO_AUTOMOUNT,
		     STATX_BASIC_STATS | STATX_BTIME | STATX_MNT_ID, x) < 0
		       ? -errno
		       : 0;
}

static void identity_name(const struct statx *x, char name[NAME_SIZE])
{
	(void)snprintf(name, NAME_SIZE, "i-%x:%x-%llx", x->stx_dev_major, x->stx_dev_minor,
		       (unsigned long long)x->stx_ino);
}

static void path_name(const char *path, char name[NAME_SIZE])
{
	char hex[SHA256_HEX];

	sha256_of(path, strlen(path), hex);
	(void)snprintf(name, NAME_SIZE, "p-%.40s", hex);
}

/* When it was made, as text without a blank; "-": the file system does not say. */
static void birth_text(const struct statx *x, char out[BIRTH_SIZE])
{
	if (x->stx_mask & STATX_BTIME)
		(void)snprintf(out, BIRTH_SIZE, "%llx.%x", (unsigned long long)x->stx_btime.tv_sec,
			       x->stx_btime.tv_nsec);
	else
		(void)snprintf(out, BIRTH_SIZE, "-");
}

/* false: there is none of that name. */
static bool note_read(int notes, const char *name, struct exposed_note *ret)
{
	ssize_t n = readlinkat(notes, name, ret->text, sizeof(ret->text) - 1);
	const char *blank;

	ret->text[n < 0 ? 0 : n] = '\0';
	ret->path = strchr(ret->text, '/');
	if (!ret->path)
		ret->path = ret->text;
	blank = memchr(ret->text, ' ', (size_t)(ret->path - ret->text));
	ret->birth = blank ? (size_t)(blank - ret->text) : 0;
	ret->as = blank ? blank + 1 : ret->path;
	ret->as_count = strcspn(ret->as, " /");
	return n >= 0;
}

/* Of what is noted by its inode: is it this one, or one that had its number before? */
static bool is_of(const struct exposed_note *n, const struct statx *x)
{
	char birth[BIRTH_SIZE];

	birth_text(x, birth);
	return !n->birth || birth[0] == '-' || n->text[0] == '-' ||
	       (strlen(birth) == n->birth && strncmp(birth, n->text, n->birth) == 0);
}

bool exposed_noted(int notes, const struct statx *x, const char *real, struct exposed_note *ret)
{
	char name[NAME_SIZE];

	identity_name(x, name);
	if (note_read(notes, name, ret) && is_of(ret, x))
		return true;
	path_name(real, name);
	return note_read(notes, name, ret);
}

/* ---- noting ---- */

static bool exposed_notes_is_gone(const char *path)
{
	struct stat st;

	return *path != '/' || (lstat(path, &st) < 0 && (errno == ENOENT || errno == ENOTDIR));
}

/* Looks through all notes; with `tidy` those go whose place is not where it was. */
static int count_notes(int notes, bool tidy, size_t *ret)
{
	struct exposed_note note;
	struct folder f;
	size_t n = 0;

	if (lseek(notes, 0, SEEK_SET) < 0)
		return -errno;
	folder_begin(&f, notes);
	for (const struct fd_entry *one; (one = folder_next(&f));) {
		if (tidy && note_read(notes, one->name, &note) &&
		    exposed_notes_is_gone(note.path) && unlinkat(notes, one->name, 0) == 0)
			continue;
		n++;
	}
	*ret = n;
	return -f.error;
}

/* One more place. Is it time to look through all notes? Where it cannot be told, it is. Whoever
 * dies in here was counted and has noted nothing: the next count comes earlier. */
static bool is_time_to_count(int added)
{
	struct stat st;

	return added < 0 || write(added, "", 1) != 1 || fstat(added, &st) < 0 ||
	       st.st_size >= COUNT_AT;
}

static int exposed_notes_make_room(int notes, struct err *e)
{
	CLEANUP(fd)
	int added =
		openat(notes, ADDED, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
	size_t n = 0;
	int r;

	if (!is_time_to_count(added))
		return 0;
	r = count_notes(notes, false, &n);
	if (r == 0 && n >= TIDY_FROM)
		r = count_notes(notes, true, &n);
	if (r < 0)
		return err_errno(e, r, "cannot read the list of places that sandboxes write");
	if (n >= ENTRIES_MAX)
		return err_refuse(e, ERR_UNAVAILABLE, ENOSPC,
				  "remove folders that are no longer needed",
				  "the list of places that sandboxes write is full");
	if (added >= 0)
		(void)!ftruncate(added, 0);
	return 0;
}

/* What is noted of the identity may be of an older path, or of a folder that is gone. */
static int put_identity(int notes, const char *name, const char *text)
{
	char draft[NAME_SIZE];

	if (symlinkat(text, notes, name) == 0)
		return 0;
	if (errno != EEXIST)
		return -errno;
	(void)snprintf(draft, sizeof(draft), "t-%d", gettid());
	(void)unlinkat(notes, draft, 0);
	if (symlinkat(text, notes, draft) < 0 || renameat(notes, draft, notes, name) < 0)
		return -errno;
	return 0;
}

static int exposed_notes_put(int notes, const char *name, const char *text, const char *real,
			     struct err *e)
{
	char by_path[NAME_SIZE];
	int r = 0;

	if (exposed_notes_make_room(notes, e) < 0)
		return -e->code;
	path_name(real, by_path);
	if (symlinkat(real, notes, by_path) < 0 && errno != EEXIST)
		r = -errno;
	if (r == 0)
		r = put_identity(notes, name, text);
	if (r < 0)
		return err_errno(e, r, "cannot note that sandboxes write '%.200s'", real);
	return 0;
}

/* The letters that it has, and this one. false: it has it. */
static bool add_letter(const struct exposed_note *n, char as, char out[AS_SIZE])
{
	size_t room = n && n->as_count < AS_SIZE - 2 ? n->as_count : 0;

	(void)snprintf(out, AS_SIZE, "%.*s%c", (int)room, room ? n->as : "", as);
	return !room || !memchr(n->as, as, room);
}

static int note_open(int fd, const char *real, enum exposed_as as, struct err *e)
{
	char name[NAME_SIZE], birth[BIRTH_SIZE], text[PATH_MAX + 64], by[AS_SIZE];
	CLEANUP(fd) int notes = -1;
	struct exposed_note was;
	struct statx x;
	bool known;

	if (exposed_look_at(fd, &x) < 0)
		return err_sys(e, "cannot look at '%.200s'", real);
	notes = state_open(EXPOSED_FOLDER, NULL, 0, e);
	if (notes < 0)
		return err_wrap(e, "cannot note that sandboxes write '%.150s'", real);
	identity_name(&x, name);
	known = note_read(notes, name, &was) && is_of(&was, &x);
	if (!add_letter(known ? &was : NULL, (char)as, by) && str_eq(was.path, real))
		return 0;
	birth_text(&x, birth);
	(void)snprintf(text, sizeof(text), "%s %s %s", birth, by, real);
	return exposed_notes_put(notes, name, text, real, e);
}

static int no_path(const char *path, struct err *e)
{
	return err_set(e, ERR_UNAVAILABLE, ENOENT, "'%.200s' has no path here", path);
}

int exposed_note(const char *path, enum exposed_as as, struct err *e)
{
	CLEANUP(fd) int fd = open(path, O_PATH | O_CLOEXEC);
	char real[PATH_MAX];

	if (fd < 0 || fd_real_path(fd, real) < 0)
		return err_sys(e, "cannot look at '%.200s'", path);
	return real[0] == '/' ? note_open(fd, real, as, e) : no_path(path, e);
}

int exposed_note_first(int fd, int folder, const char *name, enum exposed_as as, struct err *e)
{
	char real[PATH_MAX + NAME_MAX + 2];
	size_t n;

	if (fd_real_path(folder, real) < 0)
		return err_sys(e, "cannot look at the folder of '%.200s'", name);
	n = strlen(real);
	if (snprintf(real + n, sizeof(real) - n, "%s%s", str_eq(real, "/") ? "" : "/", name) >=
		    PATH_MAX - (int)n ||
	    real[0] != '/')
		return no_path(name, e);
	return note_open(fd, real, as, e);
}

/* ---- who lives ---- */

static int exposed_notes_lock(int fd, int how, short type)
{
	struct flock all = { .l_type = type, .l_whence = SEEK_SET, .l_len = 1 };

	if (fcntl(fd, how, &all) < 0)
		return -errno;
	return how == F_OFD_GETLK && all.l_type != F_UNLCK ? -EAGAIN : 0;
}

/* The gate: who begins to live passes it with a shared lock, and has a lock of lives.h when it lets
 * go; who takes back closes it, and finds all locks that there are. */
static int open_lock(int notes, struct err *e)
{
	int fd;

	fd = openat(notes, LOCK, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	return fd < 0 ? err_sys(e, "cannot open the list of places that sandboxes write") : fd;
}

/* Who asks a person what may be taken back sees by it that a run was there meanwhile. Two that
 * count at once may come to one number, and never to the one before. */
static int count_run(int fd)
{
	uint64_t n = exposed_runs(fd) + 1;

	return pwrite(fd, &n, sizeof(n), 0) == sizeof(n) ? 0 : -EIO;
}

/* Where the file system has no locks nothing can be taken back, and nobody need keep others from
 * it. */
int exposed_hold(struct err *e)
{
	CLEANUP(fd) int notes = state_open(EXPOSED_FOLDER, NULL, 0, e);
	CLEANUP(fd) int gate = notes < 0 ? notes : open_lock(notes, e);
	int r;

	if (gate < 0)
		return gate;
	r = exposed_notes_lock(gate, F_OFD_SETLKW, F_RDLCK);
	if (r == 0 || r == -ENOLCK || r == -EOPNOTSUPP || r == -ENOSYS || r == -EINVAL)
		r = lives_join(notes);
	if (r < 0)
		return err_errno(e, r, "cannot lock the list of places that sandboxes write");
	if (count_run(gate) < 0) {
		(void)fd_close(r);
		return err_set(e, ERR_UNAVAILABLE, EIO, "cannot note that a run begins");
	}
	return r;
}

static int refuse_living(struct err *e)
{
	return err_refuse(e, ERR_UNAVAILABLE, EBUSY,
			  "end them first: brig sandbox list shows those that are open, "
			  "brig audit runs --live the others",
			  "commands of yours live in sandboxes, and could still write there");
}

/* Another environment may have led to another state. */
static bool lives_elsewhere(void)
{
	char home[PATH_MAX];
	const char *listed = home_listed(geteuid(), home, sizeof(home)) == 0 ? home : NULL;

	for (int i = 0; i < STATE_CACHE; i++) {
		CLEANUP(fd) int notes = state_find_at(i, listed, EXPOSED_FOLDER), fd = -1;

		if (notes >= 0)
			fd = openat(notes, LOCK, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
		if ((fd >= 0 && exposed_notes_lock(fd, F_OFD_GETLK, F_WRLCK) < 0) ||
		    (notes >= 0 && lives_others(notes, -1)))
			return true;
	}
	return false;
}

uint64_t exposed_runs(int lock)
{
	uint64_t n = 0;

	return pread(lock, &n, sizeof(n), 0) == sizeof(n) ? n : 0;
}

int exposed_lock(struct err *e)
{
	CLEANUP(fd) int notes = -1, fd = -1;
	int r;

	if (lives_elsewhere())
		return refuse_living(e);
	notes = state_open(EXPOSED_FOLDER, NULL, 0, e);
	fd = notes < 0 ? notes : open_lock(notes, e);
	if (fd < 0)
		return fd;
	r = exposed_notes_lock(fd, F_OFD_SETLK, F_WRLCK);
	if (r == -EAGAIN || r == -EACCES || (r == 0 && lives_others(notes, -1)))
		return refuse_living(e);
	if (r < 0)
		return err_errno(e, r, "cannot lock the list of places that sandboxes write");
	return TAKE_FD(fd);
}

/* ---- taking back ---- */

/* What is there, by its inode; notes of others that had its name stay: they are elsewhere now. */
static int forget_there(int notes, int fd)
{
	char name[NAME_SIZE];
	struct exposed_note n;
	struct statx x;
	int r = exposed_look_at(fd, &x);

	if (r < 0)
		return r;
	identity_name(&x, name);
	if (!note_read(notes, name, &n))
		return 0;
	return unlinkat(notes, name, 0) < 0 ? -errno : 1;
}

/* What had the name and was moved is a guest's still, wherever it lies now. */
int exposed_forget(const char *path, struct err *e)
{
	CLEANUP(fd) int notes = state_find(EXPOSED_FOLDER, NULL, 0);
	CLEANUP(fd) int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	char by_path[NAME_SIZE];
	struct exposed_note n;
	int r;

	if (fd < 0)
		return err_sys(e, "cannot look at '%.200s'", path);
	if (notes < 0)
		return 0;
	r = forget_there(notes, fd);
	path_name(path, by_path);
	if (r >= 0 && note_read(notes, by_path, &n))
		r = unlinkat(notes, by_path, 0) < 0 ? -errno : 1;
	if (r < 0)
		return err_errno(e, r, "cannot take back the note of '%.200s'", path);
	return r;
}

bool exposed_was(const char *path, char was[PATH_MAX])
{
	CLEANUP(fd) int notes = state_find(EXPOSED_FOLDER, NULL, 0);
	CLEANUP(fd) int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	char name[NAME_SIZE];
	struct exposed_note n;
	struct statx x;

	if (notes < 0 || fd < 0 || exposed_look_at(fd, &x) < 0)
		return false;
	identity_name(&x, name);
	if (!note_read(notes, name, &n) || !is_of(&n, &x))
		return false;
	(void)snprintf(was, PATH_MAX, "%s", n.path);
	return true;
}

/* ---- the list ---- */

struct exposed_entry {
	char *path;
	char as[AS_SIZE];
	int64_t since;
	bool is_name; /* by its name, not by what it is */
	bool same;
};

struct exposed_entries {
	struct exposed_entry *v;
	size_t n, room;
};

static void entries_done(struct exposed_entries *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i].path);
	free(l->v);
}

static struct exposed_entry *exposed_notes_add(struct exposed_entries *l)
{
	size_t room = l->room ? 2 * l->room : 64;
	struct exposed_entry *v;

	if (l->n == l->room) {
		v = reallocarray(l->v, room, sizeof(*v));
		if (!v)
			return NULL;
		l->v = v;
		l->room = room;
	}
	return memset(&l->v[l->n++], 0, sizeof(*l->v));
}

/* Is it what is called so now? */
static bool exposed_notes_is_there(const struct exposed_note *n, const char *name)
{
	CLEANUP(fd) int fd = open(n->path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	char now[NAME_SIZE];
	struct statx x;

	if (fd < 0 || exposed_look_at(fd, &x) < 0)
		return false;
	identity_name(&x, now);
	return str_eq(now, name) && is_of(n, &x);
}

static int exposed_notes_take(struct exposed_entries *l, int notes, const char *name)
{
	struct exposed_note n;
	struct stat st;
	struct exposed_entry *one;

	if ((name[0] != 'i' && name[0] != 'p') || name[1] != '-' || !note_read(notes, name, &n) ||
	    *n.path != '/' || fstatat(notes, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	one = exposed_notes_add(l);
	if (!one || !(one->path = strdup(n.path)))
		return -ENOMEM;
	(void)snprintf(one->as, sizeof(one->as), "%.*s", (int)n.as_count, n.as);
	one->since = st.st_mtim.tv_sec;
	one->is_name = name[0] == 'p';
	one->same = !one->is_name && exposed_notes_is_there(&n, name);
	return 0;
}

/* Names first: they were noted once, and never again. */
static int exposed_notes_by_path(const void *a, const void *b)
{
	const struct exposed_entry *x = a, *y = b;
	int r = strcmp(x->path, y->path);

	return r ? r : y->is_name - x->is_name;
}

/* Notes of one path are one row. */
static int exposed_notes_tell(const struct exposed_entries *l, struct exposed_row *row,
			      exposed_row_fn *fn, void *arg)
{
	int r = 0;

	for (size_t i = 0, next; r == 0 && i < l->n; i = next) {
		const char *as = "";
		struct stat st;

		row->path = l->v[i].path;
		row->since = l->v[i].since;
		row->same = false;
		for (next = i; next < l->n && str_eq(l->v[next].path, row->path); next++) {
			row->same |= l->v[next].same;
			if (!*as || l->v[next].same)
				as = l->v[next].as;
		}
		row->as = as;
		row->there = lstat(row->path, &st) == 0;
		r = fn(arg, row);
	}
	return r;
}

static int each_of(int notes, struct exposed_row *row, exposed_row_fn *fn, void *arg, struct err *e)
{
	struct exposed_entries l = { 0 };
	struct folder f;
	int r = 0;

	folder_begin(&f, notes);
	for (const struct fd_entry *one; r == 0 && (one = folder_next(&f));)
		r = exposed_notes_take(&l, notes, one->name);
	if (r == 0)
		r = -f.error;
	if (r == 0 && l.n)
		qsort(l.v, l.n, sizeof(*l.v), exposed_notes_by_path);
	if (r < 0)
		(void)err_errno(e, r, "cannot read the list of places that sandboxes write");
	else
		r = exposed_notes_tell(&l, row, fn, arg);
	entries_done(&l);
	return r;
}

static bool exposed_notes_is_same(int a, int b)
{
	struct stat x, y;

	return a >= 0 && b >= 0 && fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_ino == y.st_ino &&
	       x.st_dev == y.st_dev;
}

int exposed_each(exposed_row_fn *fn, void *arg, struct err *e)
{
	CLEANUP(fd) int used = state_find(EXPOSED_FOLDER, NULL, 0);
	char home[PATH_MAX], path[PATH_MAX];
	const char *listed = home_listed(geteuid(), home, sizeof(home)) == 0 ? home : NULL;
	int had[STATE_CACHE], r = 0;
	size_t n = 0;

	for (int i = 0; r == 0 && i < STATE_CACHE; i++) {
		int notes = state_find_at(i, listed, EXPOSED_FOLDER);
		struct exposed_row row = { .state = path,
					   .used = exposed_notes_is_same(notes, used) };
		bool again = notes < 0;

		for (size_t k = 0; k < n; k++)
			again |= exposed_notes_is_same(notes, had[k]);
		had[n++] = notes;
		if (!again && state_place(i, listed, path, sizeof(path)) == 0)
			r = each_of(notes, &row, fn, arg, e);
	}
	while (n)
		(void)fd_close(had[--n]);
	return r;
}
