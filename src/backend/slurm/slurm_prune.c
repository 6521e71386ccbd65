/* SPDX-License-Identifier: Apache-2.0 */
/* backend/slurm/slurm_prune.c - spools of arrays that nobody will ask for any more.
 *
 * A batch removes its own. What one has left that died and was never resumed stays for a week: its
 * reports are there. One whose job Slurm still has stays as long as that, and where Slurm cannot be
 * asked all of them do. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "backend/slurm/slurm.h"
#include "base/fd.h"
#include "base/state.h"
#include "base/str.h"
#include "base/tree.h"

#define KEPT_S ((time_t)7 * 24 * 60 * 60)
#define ASK_S 30
#define PREFIX "array-"

/* Of the folder and everything right below it: a wave that works changes something there. */
static time_t changed(int state, const char *name)
{
	CLEANUP(fd) int fd = openat(state, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	struct dirent *d;
	time_t last;
	DIR *dir;

	if (fd < 0 || fstat(fd, &st) < 0)
		return 0;
	last = st.st_mtime;
	dir = fdopendir(fd);
	if (!dir)
		return last;
	(void)TAKE_FD(fd);
	while ((d = readdir(dir)))
		if (fstatat(dirfd(dir), d->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    !str_eq(d->d_name, "..") && st.st_mtime > last)
			last = st.st_mtime;
	(void)closedir(dir);
	return last;
}

/* Comments of all jobs of this user, a line each. */
static int ask_jobs(struct backend_plan *p, struct buf *out, struct err *e)
{
	const char *argv[] = { NULL, "--me", "-h", "-r", "-o", "%k", NULL };

	p->arena = arena_new(SLURM_TEXT_MAX);
	p->envp = p->arena ? slurm_environment(p->arena) : NULL;
	if (!p->envp)
		return err_nomem(e);
	return slurm_program(p->arena, "squeue", &argv[0], e) < 0
		       ? -e->code
		       : slurm_ask(p, argv, NULL, ASK_S, out, e);
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

int slurm_prune(bool dry, slurm_pruned *said, void *arg, struct err *e)
{
	CLEANUP(buf) struct buf jobs = BUF_INIT((size_t)64 << 20);
	CLEANUP(fd) int state = state_find("slurm", NULL, 0);
	struct backend_plan plan = { 0 };
	bool asked = false;
	struct dirent *d;
	int r = 0;
	DIR *dir;

	if (state < 0)
		return 0;
	dir = fdopendir(fcntl(state, F_DUPFD_CLOEXEC, 3));
	if (!dir)
		return err_sys(e, "cannot list spools of job arrays");
	while (r == 0 && (d = readdir(dir))) {
		if (!str_starts(d->d_name, PREFIX) ||
		    changed(state, d->d_name) > time(NULL) - KEPT_S)
			continue;
		if (!asked)
			r = ask_jobs(&plan, &jobs, e);
		asked = true;
		if (r < 0 || lives(buf_str(&jobs), d->d_name + strlen(PREFIX)))
			continue;
		if (!dry && tree_remove(state, d->d_name) < 0)
			r = err_sys(e, "cannot remove '%.100s'", d->d_name);
		else if (said)
			said(arg, d->d_name);
	}
	(void)closedir(dir);
	(void)arena_free(plan.arena);
	return r;
}
