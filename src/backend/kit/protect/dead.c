/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/protect/dead.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "backend/kit/protect/journal.h"
#include "backend/kit/protect/protect_internal.h"
#include "backend/kit/survey/record_devices.h"
#include "base/files/folder.h"
#include "base/files/lives.h"
#include "base/files/state.h"
#include "base/sys/clock.h"
#include "base/sys/wait.h"
#include "base/text/str.h"
#include "git/gitsay.h"
#include "model/settings/paths.h"
#include "proc/forked.h"

#define FOLDER "workspaces"
#define TOLD_MAX ((size_t)1 << 20) /* of one workspace, */
#define TOLD_NAME (RECORD_NAME_SIZE + 8)
#define TOLD_ROOM 4096 /* and the last words of those that found it full */
#define TURN ".turn"   /* where the next sweep goes on, where one does not get to the end; */
#define AWAIT_NS 20000000L
#define AWAIT_TIMES 100
#define LOOKS 16 /* at so many trees each looks twice */
#define SANDBOX_MS 30000
#define LOOK_MS 50
#define AFTER_US 50000 /* a shorter run has none: it costs more than such a run */

/* ---- what is told later ---- */

static void told_name(const struct ident *workspace, char out[TOLD_NAME])
{
	char name[RECORD_NAME_SIZE];

	record_name(workspace, name);
	(void)snprintf(out, TOLD_NAME, "told-%s", name);
}

static void dead_put(struct buf *b, const char *text)
{
	buf_add(b, text, strlen(text) + 1);
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
		dead_put(text, d->target);
		dead_put(text, d->reason);
	}
	(void)snprintf(reason, sizeof(reason), "%llu more, which found no room here", more);
	if (more && there + text->len + sizeof(reason) + 2 <= TOLD_MAX + TOLD_ROOM) {
		dead_put(text, ".");
		dead_put(text, reason);
	}
}

void told_keep(const struct ident *workspace, const struct outcome *o)
{
	CLEANUP(buf) struct buf text = BUF_INIT(TOLD_MAX + TOLD_ROOM);
	CLEANUP(fd) int folder = -1, fd = -1;
	struct stat st;
	char name[TOLD_NAME];
	struct err e;

	told_name(workspace, name);
	if (o->denial_count)
		folder = state_open(FOLDER, NULL, 0, &e);
	if (folder >= 0)
		fd = openat(folder, name, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC,
			    0600);
	if (fd < 0 || fstat(fd, &st) < 0)
		return;
	put_denials(&text, (size_t)st.st_size, o);
	(void)fd_write_all(fd, buf_str(&text), text.len);
}

void told_tell(const struct ident *workspace, bool again, struct outcome *o)
{
	CLEANUP(buf) struct buf text = BUF_INIT(TOLD_MAX + TOLD_ROOM);
	CLEANUP(fd) int folder = state_find(FOLDER, NULL, 0), fd = -1;
	const char *target = NULL, *reason;
	char name[TOLD_NAME], said[PATH_MAX + 256];

	told_name(workspace, name);
	if (folder >= 0)
		fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || (!again && unlinkat(folder, name, 0) < 0))
		return;
	if (buf_read_file(&text, fd) < 0 || !text.len || text.data[text.len - 1]) {
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

void told_await(const struct ident *workspace)
{
	const struct timespec moment = { .tv_nsec = AWAIT_NS };
	CLEANUP(fd) int records = state_find(RECORD_FOLDER, NULL, 0);
	CLEANUP(fd) int record = record_find(records, workspace);

	for (int i = 0; i < AWAIT_TIMES && record >= 0 && record_locked(record); i++)
		(void)nanosleep(&moment, NULL);
}

/* ---- a checker, should the monitor be killed ----
 *
 * A process of its own session, forked beside the run, that does nothing but wait for the end of
 * its line: a byte dismisses it, the end alone means that its parent is no more. It has the
 * parent's memory as it was and the folders open; nobody else has to understand what was to be
 * compared. */

/* Everything else is closed: above all what tells the sandbox that its monitor lives. */
static void keep_only(struct protect *t, int lifeline, int pidfd)
{
	int keep[2 * TREES_MAX + 2 * KEPT_MAX + 4];
	size_t n = 0;

	for (int i = 0; i < 3; i++) {
		int null = open("/dev/null", O_RDWR | O_CLOEXEC);

		if (null >= 0 && null != i)
			(void)dup2(null, i);
	}
	keep[n++] = lifeline;
	if (pidfd >= 0)
		keep[n++] = pidfd;
	if (t->live >= 0)
		keep[n++] = t->live;
	if (t->life >= 0)
		keep[n++] = t->life;
	for (size_t i = 0; i < t->tree_count; i++) {
		keep[n++] = t->trees[i].fd;
		if (t->trees[i].record >= 0)
			keep[n++] = t->trees[i].record;
	}
	for (size_t i = 0; i < t->kept_count; i++) {
		keep[n++] = t->kept[i].copy;
		keep[n++] = t->kept[i].pinned;
	}
	(void)fd_close_except(3, keep, n);
	t->claim = -1;
}

/* The caller's variables may hold credentials; what says where brig's state and git are stays. */
static void forget_variables(void)
{
	static const char *const needed[] = { "HOME=", "PATH=", "XDG_", NULL };

	for (char **v = environ; v && *v; v++) {
		bool keep = false;

		for (size_t i = 0; needed[i]; i++)
			keep |= str_starts(*v, needed[i]);
		if (!keep)
			explicit_bzero(*v, strlen(*v));
	}
}

/* Nothing of the sandbox is left: its first process has ended, or nobody holds the names of the
 * workspace any more. */
static void wait_for_sandbox(const struct protect *t, int pidfd)
{
	if (pidfd >= 0) {
		if (wait_fd(pidfd, POLLIN, clock_after(SANDBOX_MS)) < 0)
			(void)syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
		(void)wait_fd(pidfd, POLLIN, clock_after(SANDBOX_MS));
		return;
	}
	for (int waited = 0; waited < SANDBOX_MS && journal_held(&t->plan->workspace_ident);
	     waited += LOOK_MS)
		wait_moment(LOOK_MS);
}

struct checker {
	struct protect *t;
	int pidfd; /* of the sandbox's first process; -1: none */
};

static int survive(void *arg, int lifeline)
{
	const struct checker *c = arg;
	struct protect *t = c->t;
	struct outcome *o;
	sigset_t all;
	char word;
	ssize_t n;

	(void)sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, NULL);
	(void)setsid();
	forget_variables();
	keep_only(t, lifeline, c->pidfd);
	while ((n = read(lifeline, &word, 1)) < 0 && errno == EINTR)
		;
	if (n != 0)
		return 0;
	wait_for_sandbox(t, c->pidfd);
	t->checker = 0;
	t->lifeline = -1;
	o = outcome_new();
	if (!o) /* the next brig makes the check */
		return 1;
	protect_end(t, false, o);
	told_keep(&t->plan->workspace_ident, o);
	return 0;
}

void protect_survive(struct protect *t, int pidfd)
{
	struct checker c = { .t = t, .pidfd = pidfd };
	const struct forked_want w = { .name = "brig-checker",
				       .what = "the checker",
				       .line = FORKED_BYTES,
				       .run = survive,
				       .arg = &c };
	struct err unused = { 0 };
	pid_t pid;

	if (!t || !t->writable || t->asked_checker ||
	    (pidfd >= 0 && clock_us() - t->beat < AFTER_US))
		return;
	t->asked_checker = true;
	pid = forked_start(&w, &t->lifeline, &unused);
	t->checker = pid > 0 ? pid : 0;
}

void protect_dismiss(struct protect *t)
{
	if (t->checker > 0)
		(void)!write(t->lifeline, "", 1);
	t->lifeline = fd_close(t->lifeline);
	t->asked_checker = false;
}

void protect_reap(struct protect *t)
{
	while (t->checker > 0 && waitpid(t->checker, NULL, 0) < 0 && errno == EINTR)
		;
	t->checker = 0;
}

/* ---- the sweep ---- */

/* Placeholders are removed with the last run of the workspace. Whoever still makes mounts there
 * holds them a moment longer than its run, or, if it is an engine, until it is asked to end. The
 * mark of a run that begins is made under the journal's lock, too. */
static void clear(int marks, const struct ident *tree, const char *name)
{
	CLEANUP(journal) struct journal *j = NULL;
	struct err e;

	if (journal_open(tree, -1, &j, &e) < 0 || journal_shared(j))
		return;
	journal_clean(j);
	(void)unlinkat(marks, name, 0);
}

struct sweep {
	struct ident workspace;
	const char *here; /* its path; NULL: there is none */
	int marks;
	int records; /* -1: there are none */
	bool found;  /* there was something to finish */
};

/* Most marks are of runs and sandboxes that live. */
static bool lives(const struct sweep *s, const struct ident *tree)
{
	CLEANUP(fd) int record = record_find(s->records, tree);

	return record >= 0 && record_locked(record);
}

static void dead_finish(struct sweep *s, const struct ident *tree, const char *name,
			const char *here)
{
	CLEANUP(mem) char *real = here ? realpath(here, NULL) : NULL;

	if (!protect_records_dead(tree, real))
		return;
	clear(s->marks, tree, name);
	s->found = true;
}

static bool look_at_mark(void *arg, int marks UNUSED, const char *name)
{
	struct sweep *s = arg;
	struct ident tree;

	if (!record_ident(name, &tree))
		return false;
	if (!lives(s, &tree))
		dead_finish(s, &tree, name, NULL);
	return true;
}

/* A record of the workspace's inode, by another number of its device. */
static bool look_at_record(void *arg, int records, const char *name)
{
	struct sweep *s = arg;
	struct ident tree;

	if (!record_ident(name, &tree) || !record_unfinished(records, &tree))
		return false;
	dead_finish(s, &tree, name, s->here);
	return true;
}

/* The mark may be gone, though nobody has looked: its tree was not mounted then, or has moved. A
 * folder without a record may have one from before the machine was started again. */
static void sweep_workspace(struct sweep *s)
{
	char name[RECORD_NAME_SIZE];

	record_name(&s->workspace, name);
	if (s->records < 0)
		return;
	if (faccessat(s->records, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		record_same_inode(s->records, s->workspace.ino, look_at_record, s);
	else if (faccessat(s->marks, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0 ||
		 record_unfinished(s->records, &s->workspace))
		dead_finish(s, &s->workspace, name, s->here);
}

static void sweep_some(struct sweep *s)
{
	CLEANUP(fd) int fd = openat(s->marks, TURN, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	int64_t was = 0, turn;

	if (fd >= 0 && pread(fd, &was, sizeof(was), 0) != sizeof(was))
		was = 0;
	turn = was;
	folder_some(s->marks, LOOKS, &turn, look_at_mark, s);
	if (turn == was)
		return;
	if (fd < 0)
		fd = openat(s->marks, TURN, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	(void)!pwrite(fd, &turn, sizeof(turn), 0);
}

/* A run that died in this workspace may have written to the git folder that worktrees share: then
 * all are looked at. */
void dead_sweep(const struct ident *workspace, const char *here)
{
	CLEANUP(fd) int marks = record_marks(RECORD_LIVE);
	CLEANUP(fd) int records = marks < 0 ? -1 : state_find(RECORD_FOLDER, NULL, 0);
	struct sweep s = { .here = here, .marks = marks, .records = records, .found = !workspace };

	if (marks < 0)
		return;
	if (workspace) {
		s.workspace = *workspace;
		sweep_workspace(&s);
	}
	if (s.found)
		folder_some(marks, SIZE_MAX, &(int64_t){ 0 }, look_at_mark, &s);
	else
		sweep_some(&s);
}

/* ---- what was not judged ---- */

struct waiting {
	const char *path;
	struct ident ident;
	int marks; /* of trees in which runs lived; -1: there are none */
	int told;  /* what their next runs are told; -1: nothing */
	bool found;
};

/* What has moved has a note of its own, by what it is, which nobody takes back by this path. */
static bool is_near(const char *noted, const char *place)
{
	return access(noted, F_OK) == 0 && (path_under(noted, place) || path_under(place, noted));
}

static bool dead_is_there(int folder, const char *name)
{
	return faccessat(folder, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* A name that may be the user's own is left where it is, and told at the next run. */
static bool look_at_tree(void *arg, int records, const char *name)
{
	char told[TOLD_NAME];
	struct known_list list = KNOWN_LIST_NONE;
	CLEANUP(buf) struct buf path = BUF_INIT(PATH_MAX);
	struct waiting *w = arg;
	CLEANUP(fd) int record = -1;
	struct ident tree;
	bool whole = false;

	if (w->found || !record_ident(name, &tree))
		return false;
	record = record_find(records, &tree);
	told_name(&tree, told);
	if (!record_locked(record) && !record_unfinished(records, &tree) &&
	    !dead_is_there(w->marks, name) && !dead_is_there(w->told, told) &&
	    !record_is_open(records, &tree))
		return false;
	w->found = (tree.ino == w->ident.ino && tree.dev == w->ident.dev) ||
		   !record_load(record, &list, &whole, &path) || is_near(buf_str(&path), w->path);
	known_done(&list);
	return false;
}

bool dead_waits(const char *path)
{
	CLEANUP(fd) int records = state_find(RECORD_FOLDER, NULL, 0);
	CLEANUP(fd) int marks = record_marks(RECORD_LIVE);
	CLEANUP(fd) int told = state_find(FOLDER, NULL, 0);
	struct waiting w = { .path = path, .marks = marks, .told = told };
	struct stat st;

	if (records < 0)
		return false;
	if (lives_others(records, -1))
		return true;
	if (stat(path, &st) == 0)
		w.ident = ident_of(&st);
	folder_some(records, SIZE_MAX, &(int64_t){ 0 }, look_at_tree, &w);
	return w.found;
}
