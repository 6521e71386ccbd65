/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/protect/dead.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/kit/protect/gitsay.h"
#include "backend/kit/protect/journal.h"
#include "backend/kit/protect/protect_internal.h"
#include "base/folder.h"
#include "base/state.h"

#define FOLDER "workspaces"
#define TOLD_MAX ((size_t)1 << 20) /* of one workspace, */
#define TOLD_NAME (RECORD_NAME_SIZE + 8)
#define TOLD_ROOM 4096 /* and the last words of those that found it full */
#define TURN ".turn"   /* where the next sweep goes on, where one does not get to the end; */
#define LOOKS 16       /* at so many trees each looks twice */

/* ---- what is told later ---- */

static void told_name(const struct ident *workspace, char out[TOLD_NAME])
{
	char name[RECORD_NAME_SIZE];

	record_name(workspace, name);
	(void)snprintf(out, TOLD_NAME, "told-%s", name);
}

static void put(struct buf *b, const char *text)
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
		put(text, d->target);
		put(text, d->reason);
	}
	(void)snprintf(reason, sizeof(reason), "%llu more, which found no room here", more);
	if (more && there + text->len + sizeof(reason) + 2 <= TOLD_MAX + TOLD_ROOM) {
		put(text, ".");
		put(text, reason);
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

void told_tell(const struct ident *workspace, struct outcome *o)
{
	CLEANUP(buf) struct buf text = BUF_INIT(TOLD_MAX + TOLD_ROOM);
	CLEANUP(fd) int folder = state_find(FOLDER, NULL, 0), fd = -1;
	const char *target = NULL, *reason;
	char name[TOLD_NAME], said[PATH_MAX + 256];

	told_name(workspace, name);
	if (folder >= 0)
		fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || unlinkat(folder, name, 0) < 0)
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
	bool found; /* there was something to finish */
};

static void finish(struct sweep *s, const struct ident *tree, const char *name, const char *here)
{
	CLEANUP(mem) char *real = here ? realpath(here, NULL) : NULL;

	if (!protect_records_dead(tree, real))
		return;
	clear(s->marks, tree, name);
	s->found = true;
}

static bool look_at_mark(void *arg, int marks, const char *name)
{
	struct ident tree;

	(void)marks;
	if (!record_ident(name, &tree))
		return false;
	finish(arg, &tree, name, NULL);
	return true;
}

/* A record of the workspace's inode, by another number of its device. */
static bool look_at_record(void *arg, int records, const char *name)
{
	struct sweep *s = arg;
	struct ident tree;

	(void)records;
	if (!record_ident(name, &tree) || tree.ino != s->workspace.ino || !record_unfinished(&tree))
		return false;
	finish(s, &tree, name, s->here);
	return true;
}

/* The mark may be gone, though nobody has looked: its tree was not mounted then, or has moved. A
 * folder without a record may have one from before the machine was started again. */
static void sweep_workspace(struct sweep *s)
{
	CLEANUP(fd) int records = state_find(RECORD_FOLDER, NULL, 0);
	char name[RECORD_NAME_SIZE];

	record_name(&s->workspace, name);
	if (records < 0)
		return;
	if (faccessat(records, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		folder_some(records, SIZE_MAX, &(int64_t){ 0 }, look_at_record, s);
	else if (faccessat(s->marks, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0 ||
		 record_unfinished(&s->workspace))
		finish(s, &s->workspace, name, s->here);
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
	struct sweep s = { .here = here, .marks = marks, .found = !workspace };

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
