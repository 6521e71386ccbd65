/* SPDX-License-Identifier: Apache-2.0 */
/* backend/slurm/slurm_prune.c - spools of arrays whose batch was never resumed.
 *
 * A batch removes its own. What one has left that died and was never resumed stays for a week: its
 * reports are there. One whose job Slurm still has stays as long as that, and where Slurm cannot be
 * asked all of them do. Of another cluster's jobs nothing is known here. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "backend/slurm/slurm.h"
#include "base/files/folder.h"
#include "base/files/state.h"
#include "base/files/tree.h"
#include "base/text/str.h"
#include "far/spool.h"

#define KEPT_S ((time_t)7 * 24 * 60 * 60)
#define ASK_KEPT_S ((time_t)60 * 60)
#define ASK_S 30
#define PREFIX "array-"

/* When something in it last changed: of the folder, its waves and their files, which a task that
 * runs writes to. 0: it cannot be looked into. */
static time_t changed(int at, const char *name, unsigned depth)
{
	CLEANUP(fd) int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	const struct fd_entry *d;
	struct folder f;
	struct stat st;
	time_t last;

	if (fd < 0 || fstat(fd, &st) < 0)
		return 0;
	last = st.st_mtime;
	folder_begin(&f, fd);
	while ((d = folder_next(&f))) {
		time_t t = 0;

		if (d->name[0] == '.' || fstatat(fd, d->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		if (S_ISDIR(st.st_mode) && depth)
			t = changed(fd, d->name, depth - 1);
		last = st.st_mtime > last ? st.st_mtime : last;
		last = t > last ? t : last;
	}
	return last;
}

int slurm_cluster(const struct backend_plan *p, char out[SLURM_NAME_ROOM], struct err *e)
{
	CLEANUP(buf) struct buf text = BUF_INIT(SLURM_TEXT_MAX);
	const char *argv[] = { NULL, "show", "config", NULL };

	if (slurm_program(p, "scontrol", &argv[0], e) < 0 ||
	    slurm_ask(p, argv, NULL, ASK_S, &text, e) < 0)
		return -e->code;
	slurm_text_cluster(buf_str(&text), out);
	return 0;
}

bool slurm_spool_cluster(int folder, char out[SLURM_NAME_ROOM])
{
	return fd_read_file(folder, "cluster", out, SLURM_NAME_ROOM) > 0;
}

struct queue {
	struct buf comments; /* of all jobs of this user, a line each */
	char cluster[SLURM_NAME_ROOM];
	bool asked;
};

static int ask_jobs(struct queue *q, struct err *e)
{
	const char *argv[] = { NULL, "--me", "-a", "-h", "-r", "-o", "%k", NULL };
	struct backend_plan p = { .arena = arena_new(SLURM_TEXT_MAX) };
	int r = -1;

	q->asked = true;
	if (slurm_environment(&p, e) == 0 && slurm_cluster(&p, q->cluster, e) == 0 &&
	    slurm_program(&p, "squeue", &argv[0], e) == 0)
		r = slurm_ask(&p, argv, NULL, ASK_S, &q->comments, e);
	(void)arena_free(p.arena);
	return r < 0 ? -e->code : 0;
}

/* "brig:NAME.WAVE" is the comment of one that lives. */
static bool lives(const char *jobs, const char *name)
{
	size_t n = strlen(name);

	for (; *jobs; jobs += strcspn(jobs, "\n"), jobs += *jobs == '\n')
		if (str_starts(jobs, SLURM_COMMENT) &&
		    strncmp(jobs + strlen(SLURM_COMMENT), name, n) == 0 &&
		    jobs[strlen(SLURM_COMMENT) + n] == '.')
			return true;
	return false;
}

/* Only the cluster that it was submitted to can say that nothing of it is left. */
static bool is_elsewhere(const struct queue *q, int state, const char *name)
{
	CLEANUP(fd) int fd = openat(state, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char cluster[SLURM_NAME_ROOM];

	return fd >= 0 && slurm_spool_cluster(fd, cluster) && !str_eq(cluster, q->cluster);
}

static bool is_old(int state, const char *name)
{
	return changed(state, name, 1) <= time(NULL) - KEPT_S;
}

/* One that an srun needs no more: either its node has read it, or that goes by srun's input. */
static void drop_ask(int state, const char *name, bool dry)
{
	struct stat st;

	if (!dry && fstatat(state, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
	    st.st_mtime <= time(NULL) - ASK_KEPT_S)
		(void)unlinkat(state, name, 0);
}

/* 1: it goes. */
static int slurm_prune_judge(struct queue *q, int state, const char *name, struct err *e)
{
	if (!is_old(state, name))
		return 0;
	if (!q->asked && ask_jobs(q, e) < 0)
		return -e->code;
	/* Once more: a batch may have been resumed since Slurm was asked. */
	return !lives(buf_str(&q->comments), name + strlen(PREFIX)) &&
	       !is_elsewhere(q, state, name) && is_old(state, name);
}

int slurm_prune(bool dry, slurm_pruned *said, void *arg, struct err *e)
{
	struct queue q = { .comments = BUF_INIT((size_t)64 << 20) };
	CLEANUP(fd) int state = state_find(SLURM_FOLDER, NULL, 0);
	const struct fd_entry *d;
	struct folder f;
	int r = 0;

	if (state < 0)
		return 0;
	folder_begin(&f, state);
	while (r == 0 && (d = folder_next(&f))) {
		if (str_starts(d->name, FAR_SPOOL_ASK))
			drop_ask(state, d->name, dry);
		if (!str_starts(d->name, PREFIX))
			continue;
		r = slurm_prune_judge(&q, state, d->name, e);
		if (r <= 0)
			continue;
		r = 0;
		if (!dry && tree_remove(state, d->name) < 0)
			r = err_sys(e, "cannot remove '%.100s'", d->name);
		else if (said)
			said(arg, d->name);
	}
	buf_done(&q.comments);
	return r;
}
