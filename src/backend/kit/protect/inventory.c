/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/protect/inventory.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>

#include "backend/kit/protect/gitsay.h"
#include "backend/kit/protect/journal.h"
#include "backend/kit/protect/protect_internal.h"
#include "backend/kit/protect/protected_names.h"
#include "base/clock.h"
#include "base/folder.h"
#include "base/state.h"
#include "base/str.h"

#define FOLDER "runs"
#define SPARE ".spare-"             /* and a number, of a run that ended: a new file costs more */
#define SPARES 128                  /* numbers, and so files at most; */
#define SPARE_TRIES 16              /* none is looked for, or put away, longer than this */
#define SPARE_MAX ((off_t)64 << 10) /* what is larger is removed */
#define MAGIC "brig-run 3"
#define RUN "run" /* whose it is: its first entry, and its last */
#define TEXT_MAX ((size_t)4 << 20)
#define MAKE_TRIES 16
#define TURN ".turn" /* where the next sweep goes on, where one does not get to the end; */
#define LOOKS 16     /* at so many runs each looks twice */
#define BEAT_US 1000000
#define TOLD_MAX ((size_t)1 << 20) /* of one workspace, */
#define TOLD_ROOM 4096             /* and the last words of those that found it full */

static void put(struct buf *b, const char *text)
{
	buf_add(b, text, strlen(text) + 1);
}

/* NULL: there was nothing. */
static void put_stamp(struct buf *b, const struct stamp *s)
{
	if (!s) {
		put(b, "0 0 0 0 0 0.0 0.0");
		return;
	}
	buf_printf(b, "1 %llx %llx %x %llx %llx.%lx %llx.%lx", (unsigned long long)s->ident.dev,
		   (unsigned long long)s->ident.ino, (unsigned)s->ident.type,
		   (unsigned long long)s->size, (unsigned long long)s->mtime.tv_sec,
		   (unsigned long)s->mtime.tv_nsec, (unsigned long long)s->ctime.tv_sec,
		   (unsigned long)s->ctime.tv_nsec);
	buf_putc(b, '\0');
}

/* Four fields each; the first says what it is. */
static void put_three(struct buf *b, const char *what, const char *one, const char *two,
		      const char *three)
{
	put(b, what);
	put(b, one);
	put(b, two);
	put(b, three);
}

/* The trees whose records say what was there. */
static void put_trees(const struct protect *t, struct buf *b)
{
	for (size_t i = 0; i < t->tree_count; i++) {
		const struct ident *at = &t->trees[i].ident;
		char name[64];

		if (t->trees[i].record < 0)
			continue;
		(void)snprintf(name, sizeof(name), "%llx-%llx", (unsigned long long)at->dev,
			       (unsigned long long)at->ino);
		put_three(b, "tree", t->trees[i].path, name, "");
	}
}

/* Whose it is and where. By itself it says that placeholders may be there, and no more. */
static void put_head(const struct protect *t, struct buf *b)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_REALTIME_COARSE, &now);
	put(b, MAGIC);
	put(b, t->plan->workspace);
	buf_printf(b, "%llx-%llx", (unsigned long long)t->plan->workspace_ident.dev,
		   (unsigned long long)t->plan->workspace_ident.ino);
	buf_putc(b, '\0');
	buf_printf(b, "%llx.%lx", (unsigned long long)now.tv_sec, (unsigned long)now.tv_nsec);
	buf_putc(b, '\0');
}

/* Names that a placeholder holds are the journal's. */
static void put_all(const struct protect *t, struct buf *b)
{
	put_head(t, b);
	put_three(b, RUN, t->id, "", "");
	for (size_t i = 0; i < t->plan->protected_count; i++) {
		const struct protected_name *n = &t->plan->protected[i];

		if (t->placeholder[i] || n->file)
			continue;
		put(b, "name");
		put(b, n->tree);
		put(b, n->path);
		put_stamp(b, n->existed ? &n->was : NULL);
	}
	put_trees(t, b);
	put_three(b, RUN, t->id, "", "");
}

/* A new file with its lock. A sweep may take it for a dead run's before it is locked, and removes
 * it then: that is made again. */
static int make_locked(int folder, const char *name)
{
	for (int tries = 0; tries < MAKE_TRIES; tries++) {
		CLEANUP(fd)
		int fd = openat(folder, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
		struct stat st;

		if (fd < 0 || flock(fd, LOCK_EX) < 0 || fstat(fd, &st) < 0)
			return -errno;
		if (st.st_nlink)
			return TAKE_FD(fd);
	}
	return -EAGAIN;
}

static int write_text(int fd, const struct buf *text)
{
	struct stat st;
	int r = fd_write_all(fd, text->data, text->len);

	if (r == 0 && (fstat(fd, &st) < 0 ||
		       (st.st_size > (off_t)text->len && ftruncate(fd, (off_t)text->len) < 0)))
		r = -errno;
	return r;
}

static uint64_t number_of(const char *id)
{
	uint64_t n = 0xcbf29ce484222325;

	for (; *id; id++)
		n = (n ^ (unsigned char)*id) * 0x100000001b3;
	return n >> 2;
}

/* One run after another finds the same file; runs at once begin at a place of their own. */
static void spare_name(const char *id, unsigned attempt, char out[32])
{
	unsigned n = attempt ? (unsigned)(number_of(id) % SPARES) + attempt : 0;

	(void)snprintf(out, 32, SPARE "%u", n % SPARES);
}

/* A spare file with its lock, which is what makes it ours: nobody renames or removes one without.
 * By the time it is locked it may be another run's, or another run's spare by another name. */
static int take_spare(int folder, const char *id, char name[32])
{
	for (unsigned attempt = 0; attempt < SPARE_TRIES; attempt++) {
		CLEANUP(fd) int fd = -1;
		struct stat st, named;

		spare_name(id, attempt, name);
		fd = openat(folder, name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
		if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &st) == 0 &&
		    fstatat(folder, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
		    st.st_ino == named.st_ino)
			return TAKE_FD(fd);
	}
	return -ENOENT;
}

/* For another run; too large, or no place is left: away with it. */
static void put_away(int folder, const char *id, int fd)
{
	struct stat st;
	char name[32];
	int r = fstat(fd, &st) < 0 || st.st_size > SPARE_MAX ? -1 : 0;

	for (unsigned attempt = 0; r == 0 && attempt < SPARE_TRIES; attempt++) {
		spare_name(id, attempt, name);
		if (renameat2(folder, id, folder, name, RENAME_NOREPLACE) == 0)
			return;
		r = errno == EEXIST ? 0 : -1;
	}
	(void)unlinkat(folder, id, 0);
}

/* Written while it is a spare or has a name of its own: only what is whole is called as the run. */
static int write_as(int folder, const char *name, const char *id, int fd, const struct buf *text)
{
	int r = write_text(fd, text);

	if (r == 0 && renameat(folder, name, folder, id) < 0)
		r = -errno;
	if (r < 0)
		(void)unlinkat(folder, name, 0);
	return r;
}

static int write_new(int folder, const char *id, const struct buf *text)
{
	CLEANUP(fd) int fd = -1;
	char spare[32], name[80];
	int r;

	fd = take_spare(folder, id, spare);
	if (fd >= 0 && write_as(folder, spare, id, fd, text) == 0)
		return TAKE_FD(fd);
	(void)fd_close(fd);
	(void)snprintf(name, sizeof(name), ".%s", id);
	fd = make_locked(folder, name);
	r = fd < 0 ? fd : write_as(folder, name, id, fd, text);
	return r < 0 ? r : TAKE_FD(fd);
}

static int cannot_write(int r, struct err *e)
{
	(void)err_errno(e, r, "cannot write down what the run must not change");
	return err_hint(e, "make room where brig keeps its state; brig doctor names the folder");
}

int inventory_open(struct protect *t, struct err *e)
{
	CLEANUP(buf) struct buf text = BUF_INIT(TEXT_MAX);
	CLEANUP(fd) int folder = state_open(FOLDER, NULL, 0, e);

	if (folder < 0)
		return -e->code;
	put_head(t, &text);
	if (text.failed)
		return err_nomem(e);
	t->inventory = write_new(folder, t->id, &text);
	return t->inventory < 0 ? cannot_write(t->inventory, e) : 0;
}

int inventory_fill(struct protect *t, struct err *e)
{
	CLEANUP(buf) struct buf text = BUF_INIT(TEXT_MAX);
	int r;

	put_all(t, &text);
	if (text.failed)
		return err_nomem(e);
	r = lseek(t->inventory, 0, SEEK_SET) < 0 ? -errno : write_text(t->inventory, &text);
	t->beat = clock_us();
	return r < 0 ? cannot_write(r, e) : 0;
}

void inventory_touch(struct protect *t)
{
	t->beat = clock_us();
	if (t->inventory >= 0)
		(void)futimens(t->inventory, NULL);
}

void inventory_beat(struct protect *t)
{
	if (clock_us() - t->beat >= BEAT_US)
		inventory_touch(t);
}

/* ---- what is told later ---- */

static void told_name(const struct ident *workspace, char out[80])
{
	(void)snprintf(out, 80, "told-%llx-%llx", (unsigned long long)workspace->dev,
		       (unsigned long long)workspace->ino);
}

/* What there is no room for is counted: one more word for each run. */
static void put_denials(struct buf *text, size_t there, const struct outcome *o)
{
	unsigned long long more = 0;
	char reason[80];

	for (size_t i = 0; i < o->denial_count; i++) {
		const struct denial *d = &o->denials[i];

		if (there + text->len + strlen(d->target) + strlen(d->reason) + 2 > TOLD_MAX) {
			more++;
			continue;
		}
		put(text, d->target);
		put(text, d->reason);
	}
	(void)snprintf(reason, sizeof(reason), "%llu more, which found no room here", more);
	if (more && there + text->len + sizeof(reason) + 2 <= TOLD_MAX + TOLD_ROOM) {
		put(text, ".");
		put(text, reason);
	}
}

void inventory_keep(const struct protect *t, const struct outcome *o)
{
	CLEANUP(buf) struct buf text = BUF_INIT(TOLD_MAX + TOLD_ROOM);
	CLEANUP(fd) int folder = o->denial_count ? state_find(FOLDER, NULL, 0) : -1;
	CLEANUP(fd) int fd = -1;
	struct stat st;
	char name[80];

	told_name(&t->plan->workspace_ident, name);
	fd = folder < 0 ? -1
			: openat(folder, name,
				 O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || fstat(fd, &st) < 0)
		return;
	put_denials(&text, (size_t)st.st_size, o);
	(void)fd_write_all(fd, buf_str(&text), text.len);
}

static bool read_all(int fd, struct buf *ret)
{
	char data[8192];
	ssize_t n;

	while ((n = read(fd, data, sizeof(data))) > 0)
		buf_add(ret, data, (size_t)n);
	return n == 0 && ret->len && !ret->failed && !ret->data[ret->len - 1];
}

/* What a run before left to be told. */
static void tell(const struct protect *t, int folder, struct outcome *o)
{
	CLEANUP(buf) struct buf text = BUF_INIT(TOLD_MAX + TOLD_ROOM);
	CLEANUP(fd) int fd = -1;
	const char *target = NULL, *reason;
	char name[80], said[PATH_MAX + 256];

	told_name(&t->plan->workspace_ident, name);
	fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || unlinkat(folder, name, 0) < 0)
		return;
	if (!read_all(fd, &text)) {
		outcome_deny(o, "protected-path", ".",
			     "a run that was killed left more than can be told: what it made is "
			     "in quarantine, in brig's state folder");
		return;
	}
	while ((target = gitsay_next(&text, target)) && (reason = gitsay_next(&text, target))) {
		(void)snprintf(said, sizeof(said), "after a run that was killed: %s", reason);
		outcome_deny(o, "protected-path", target, said);
		target = reason;
	}
}

void inventory_close(struct protect *t, struct outcome *o)
{
	CLEANUP(fd) int folder = state_find(FOLDER, NULL, 0);

	if (t->inventory >= 0 && folder >= 0)
		put_away(folder, t->id, t->inventory);
	t->inventory = fd_close(t->inventory);
	if (folder >= 0 && o)
		tell(t, folder, o);
}

/* ---- the finder ---- */

struct finder {
	struct protect t;
	struct box_plan plan;
	struct outcome *o;
	struct timespec beat;
};

/* Hexadecimal numbers with one character between them, and nothing else. */
static bool read_numbers(const char *text, unsigned long long *out, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char *end;

		out[i] = strtoull(text, &end, 16);
		if (end == text || (i + 1 < n ? !*end : *end))
			return false;
		text = end + 1;
	}
	return true;
}

static bool read_stamp(const char *text, bool *existed, struct stamp *ret)
{
	unsigned long long v[9];

	if (!read_numbers(text, v, ARRAY_LEN(v)))
		return false;
	*existed = v[0];
	*ret = (struct stamp){
		.ident = { .dev = (dev_t)v[1], .ino = (ino_t)v[2], .type = (mode_t)v[3] },
		.size = (off_t)v[4],
		.mtime = { .tv_sec = (time_t)v[5], .tv_nsec = (long)v[6] },
		.ctime = { .tv_sec = (time_t)v[7], .tv_nsec = (long)v[8] }
	};
	return true;
}

/* Before the last sign of life of the run: its own work, or of that time. */
static bool of_the_run(const struct finder *f, const struct stat *st)
{
	return !time_before(&f->beat, &st->st_ctim);
}

static void find_one(struct finder *f, const char *tree_path, const char *path, const char *was)
{
	struct err e;
	int tree = protect_tree(&f->t, tree_path, &e), dir;
	CLEANUP(fd) int opened = -1;
	struct stamp before, now;
	const char *name;
	struct stat st;
	bool existed;

	if (tree < 0 || !read_stamp(was, &existed, &before))
		return;
	dir = protect_parent(tree, path, &name, &opened);
	if (dir < 0 || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || S_ISSOCK(st.st_mode) ||
	    (!existed && S_ISDIR(st.st_mode) && name_points(path)))
		return;
	now = stamp_of(&st);
	if (!existed && of_the_run(f, &st))
		quarantine(&f->t, f->o, tree, path, "made during the run");
	else if (!existed)
		outcome_deny(f->o, "protected-path", path,
			     "made during the run or after it; left in place: look at it before "
			     "you use it");
	else if (S_ISDIR(st.st_mode) ? !ident_same(&now.ident, &before.ident)
				     : !stamp_same(&now, &before))
		outcome_deny(f->o, "protected-path", path,
			     "changed during the run or after it; left in place: look at it before "
			     "you use it");
}

/* One entry. */
static int recall(struct finder *f, const char *const v[4])
{
	struct box_plan *p = &f->plan;
	struct protected_name *n;

	if (str_eq(v[0], "tree"))
		protect_records_dead(&f->t, f->o, v[1], v[2]);
	if (!str_eq(v[0], "name"))
		return 0;
	n = ARENA_PUSH(p->arena, p->protected, p->protected_count);
	if (!n)
		return -ENOMEM;
	*n = (struct protected_name){ .tree = v[1], .path = v[2] };
	find_one(f, v[1], v[2], v[3]);
	return 0;
}

/* The entry behind `at`, whose last field is then v[3]. */
static bool next_entry(const struct buf *text, const char *at, const char *v[4])
{
	for (size_t i = 0; i < 4; i++)
		if (!(v[i] = gitsay_next(text, i ? v[i - 1] : at)))
			return false;
	return true;
}

/* A machine that went down may have kept the new name of a spare file, and of what was written
 * into it nothing or a part: the rest is an earlier run's, and what the user made since then is
 * none of that one's work. Of a run that had not begun there is a head alone. */
static bool is_whole(const struct buf *text, const char *at, const char *id)
{
	bool begins = false, ends = false;
	const char *first = at, *v[4];

	for (; next_entry(text, at, v); at = v[3]) {
		ends = str_eq(v[0], RUN);
		if (ends && !str_eq(v[1], id))
			return false;
		begins |= ends && at == first;
	}
	return begins && ends;
}

static void find_all(struct finder *f, const struct buf *text, const char *at)
{
	const char *v[4];
	int r = 0;

	for (; r == 0 && next_entry(text, at, v); at = v[3])
		r = recall(f, v);
	protect_unasked(&f->t, f->o);
}

/* The last field of it; NULL: it is none of ours. */
static const char *read_head(struct finder *f, const struct buf *text)
{
	const char *workspace =
		text->len && str_eq(text->data, MAGIC) ? gitsay_next(text, text->data) : NULL;
	const char *ident = workspace ? gitsay_next(text, workspace) : NULL;
	const char *facts = ident ? gitsay_next(text, ident) : NULL;
	unsigned long long v[2];

	if (!facts || !read_numbers(ident, v, 2))
		return NULL;
	f->plan.workspace = f->t.asker.avoid = workspace;
	f->plan.workspace_ident = (struct ident){ .dev = (dev_t)v[0], .ino = (ino_t)v[1] };
	if (!read_numbers(facts, v, 2))
		return NULL;
	f->t.began = (struct timespec){ .tv_sec = (time_t)v[0], .tv_nsec = (long)v[1] };
	return facts;
}

/* Placeholders are removed with the last run of the workspace. Whoever still makes mounts there
 * holds them a moment longer than its run, or, if it is an engine, until it is asked to end. */
static bool placeholders_gone(const struct ident *workspace, const char *id)
{
	CLEANUP(journal) struct journal *j = NULL;
	struct err e;

	if (journal_open(workspace, -1, &j, &e) < 0)
		return false;
	if (!journal_shared(j))
		journal_forget(j, id);
	journal_clean(j);
	return !journal_shared(j);
}

static void check(struct finder *f, const struct buf *text, const char *head, const char *id)
{
	if (!is_whole(text, head, id))
		return;
	find_all(f, text, head);
	inventory_keep(&f->t, f->o);
}

/* The lock is held: nobody else finishes this one. What is checked is checked once: then its head
 * alone stays until the placeholders are gone. */
static void finish(int folder, const char *id, int fd)
{
	CLEANUP(buf) struct buf text = BUF_INIT(TEXT_MAX);
	CLEANUP(outcome) struct outcome *o = outcome_new();
	CLEANUP(arena) struct arena *arena = arena_new(TEXT_MAX);
	struct finder f = { .t = { .id = id, .claim = -1, .inventory = -1, .config = { -1, -1 } },
			    .plan = { .arena = arena },
			    .o = o };
	struct stat st, same;
	const char *head;

	/* It may be another file by now: whoever was faster has removed it. */
	if (!o || !arena || fstat(fd, &st) < 0 ||
	    fstatat(folder, id, &same, AT_SYMLINK_NOFOLLOW) < 0 || st.st_ino != same.st_ino)
		return;
	f.t.plan = &f.plan;
	f.beat = st.st_mtim;
	head = read_all(fd, &text) ? read_head(&f, &text) : NULL;
	if (head && journal_kept(&f.plan.workspace_ident))
		return;
	if (head)
		check(&f, &text, head, id);
	if (!head || placeholders_gone(&f.plan.workspace_ident, id))
		(void)unlinkat(folder, id, 0);
	else
		(void)!ftruncate(fd, (off_t)(head + strlen(head) + 1 - text.data));
	for (size_t i = 0; i < f.t.tree_count; i++) {
		(void)fd_close(f.t.trees[i].fd);
		known_done(&f.t.trees[i].known);
	}
}

/* Of a run that was killed while it wrote: nothing had begun. What was removed by another sweep may
 * have been made again under its name. */
static void remove_unfinished(int folder, const char *name)
{
	CLEANUP(fd) int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &st) == 0 &&
	    S_ISREG(st.st_mode) && st.st_nlink)
		(void)unlinkat(folder, name, 0);
}

static void look_at_run(int folder, const char *id)
{
	CLEANUP(fd) int fd = openat(folder, id, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
		finish(folder, id, fd);
}

static bool look_at_entry(void *arg, int folder, const char *name)
{
	(void)arg;
	if (str_starts(name, "told-") || str_starts(name, SPARE) || str_eq(name, TURN))
		return false;
	if (name[0] == '.')
		remove_unfinished(folder, name);
	else
		look_at_run(folder, name);
	return true;
}

/* The runs of a workspace, however many others there are, and what they have placed in it. */
static void sweep_workspace(int folder, const struct ident *workspace)
{
	CLEANUP(journal) struct journal *look = NULL, *j = NULL;
	const char *at = NULL;
	char id[JOURNAL_ID];
	struct err e;

	if (journal_look(workspace, &look) < 0)
		return;
	while (journal_next_run(look, &at, id))
		look_at_run(folder, id);
	if (journal_shared(look) || journal_open(workspace, -1, &j, &e) < 0)
		return;
	for (at = NULL; journal_next_run(look, &at, id);)
		if (faccessat(folder, id, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
			journal_forget(j, id);
	journal_clean(j);
}

static void sweep_some(int folder)
{
	CLEANUP(fd) int fd = openat(folder, TURN, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	int64_t was = 0, turn;

	if (fd >= 0 && pread(fd, &was, sizeof(was), 0) != sizeof(was))
		was = 0;
	turn = was;
	folder_some(folder, LOOKS, &turn, look_at_entry, NULL);
	if (turn == was)
		return;
	if (fd < 0)
		fd = openat(folder, TURN, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	(void)!pwrite(fd, &turn, sizeof(turn), 0);
}

void inventory_sweep(const struct ident *workspace)
{
	CLEANUP(fd) int folder = state_find(FOLDER, NULL, 0);

	if (folder < 0)
		return;
	if (!workspace) {
		folder_some(folder, SIZE_MAX, &(int64_t){ 0 }, look_at_entry, NULL);
		return;
	}
	sweep_workspace(folder, workspace);
	sweep_some(folder);
}
