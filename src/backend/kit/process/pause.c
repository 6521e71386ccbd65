/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/process/pause.c - everything inside stands still, and goes on again.
 *
 * By the control group, where there is one that can: nobody inside sees it, init stands still as
 * well, and what somebody inside had stopped is left alone. Else init stops all there is with one
 * signal. A process that was about to continue another when it was
 * stopped may have done so: the signal is repeated until two looks find every thread stopped.
 * Those that keep one another running win, and the sandbox goes on as it was. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/kit/process/job.h"
#include "base/files/folder.h"
#include "base/text/num.h"

#define ROUNDS 400
#define BETWEEN_NS (500 * 1000)
#define QUIET_LOOKS 2

/* Of a process or a thread; 0: it is gone. The name in front of it may hold any character. */
static char state_of(int folder, const char *path)
{
	char text[512];
	const char *end =
		fd_read_file(folder, path, text, sizeof(text)) > 0 ? strrchr(text, ')') : NULL;

	return end && end[1] == ' ' ? end[2] : '\0';
}

static bool stands(char state)
{
	return state == 'T' || state == 't' || state == 'Z' || state == 'X' || !state;
}

/* Its first thread may have ended long before the others. */
static bool all_threads_stand(int proc, const char *pid, bool *stopped)
{
	char path[64];
	CLEANUP(fd) int tasks = -1;
	const struct fd_entry *d;
	struct folder f;

	*stopped = false;
	(void)snprintf(path, sizeof(path), "%.20s/task", pid);
	tasks = openat(proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (tasks < 0)
		return true;
	folder_begin(&f, tasks);
	while ((d = folder_next(&f))) {
		char state;

		(void)snprintf(path, sizeof(path), "%.20s/stat", d->name);
		state = state_of(tasks, path);
		*stopped |= state == 'T';
		if (!stands(state))
			return false;
	}
	return true;
}

typedef bool visit_fn(struct backend_job *j, uint64_t pid, const char *name);

/* Every process but init; false as soon as a visit says so. */
static bool visit_all(struct backend_job *j, visit_fn *visit)
{
	int proc = j->given[INIT_FD_PROC];
	const struct fd_entry *d;
	struct folder f;
	uint64_t pid;

	if (lseek(proc, 0, SEEK_SET) < 0)
		return false;
	folder_begin(&f, proc);
	while ((d = folder_next(&f)))
		if (num_count(d->name, &pid) == 0 && pid > 1 && !visit(j, pid, d->name))
			return false;
	return !f.error;
}

static bool is_still(struct backend_job *j, uint64_t pid UNUSED, const char *name)
{
	bool unused;

	return all_threads_stand(j->given[INIT_FD_PROC], name, &unused);
}

/* Somebody inside has stopped it: it is not ours to continue. */
static bool note_stopped(struct backend_job *j, uint64_t pid, const char *name)
{
	bool stopped;

	if (j->stopped_count < ARRAY_LEN(j->stopped) &&
	    all_threads_stand(j->given[INIT_FD_PROC], name, &stopped) && stopped)
		j->stopped[j->stopped_count++] = (uint32_t)pid;
	return true;
}

static bool was_stopped(const struct backend_job *j, uint64_t pid)
{
	for (size_t i = 0; i < j->stopped_count; i++)
		if (j->stopped[i] == pid)
			return true;
	return false;
}

static bool go_on(struct backend_job *j, uint64_t pid, const char *name UNUSED)
{
	const struct supervisor_request r = { .asks = ASK_PROCESS,
					      .command = (uint32_t)pid,
					      .signal = SIGCONT };

	return was_stopped(j, pid) || fd_send(j->control, &r, sizeof(r), NULL, 0) == 0;
}

static bool goes_on(struct backend_job *j, uint64_t pid, const char *name)
{
	bool stopped;

	return was_stopped(j, pid) || !all_threads_stand(j->given[INIT_FD_PROC], name, &stopped) ||
	       !stopped;
}

/* Init does it, a moment later: the next pause would take what still stands for something that
 * somebody inside has stopped. Who stops itself all the time is not waited for. */
static bool continue_all(struct backend_job *j)
{
	const struct supervisor_request reapers = { .asks = ASK_PROCESS, .signal = SIGCONT };
	const struct timespec moment = { .tv_nsec = BETWEEN_NS };
	bool asked =
		fd_send(j->control, &reapers, sizeof(reapers), NULL, 0) == 0 && visit_all(j, go_on);

	for (int i = 0; i < ROUNDS && asked && !visit_all(j, goes_on); i++)
		(void)nanosleep(&moment, NULL);
	return asked;
}

static int stop_all(struct backend_job *j, struct err *e)
{
	const struct timespec moment = { .tv_nsec = BETWEEN_NS };
	unsigned quiet = 0;

	j->stopped_count = 0;
	(void)visit_all(j, note_stopped);
	for (int i = 0; i < ROUNDS && quiet < QUIET_LOOKS; i++) {
		box_signal(j, COMMAND_FIRST, SIGSTOP);
		(void)nanosleep(&moment, NULL);
		quiet = visit_all(j, is_still) ? quiet + 1 : 0;
	}
	if (quiet == QUIET_LOOKS)
		return 0;
	(void)continue_all(j);
	return err_refuse(e, ERR_UNAVAILABLE, EBUSY, "try again, or stop the sandbox",
			  "processes inside keep one another from being paused");
}

/* What the report named is what is used: a freezer that does not freeze is an error. */
static int freeze(struct backend_job *j, bool on, struct err *e)
{
	int r = cgroup_freeze(j->cgroup, on);

	j->frozen = r == 0 && on;
	return r == 0 ? 0
		      : err_refuse(e, ERR_UNAVAILABLE, -r, "try again, or stop the sandbox",
				   "the kernel does not freeze what is in its control group");
}

static int box_pause(struct backend_job *j, bool on, struct err *e)
{
	if (cgroup_can_freeze(j->cgroup))
		return freeze(j, on, e);
	if (on)
		return stop_all(j, e);
	if (!continue_all(j))
		return err_set(e, ERR_UNAVAILABLE, ECHILD, "the sandbox has ended");
	return 0;
}

static size_t box_living(const struct backend_job *j)
{
	return commands_there(j->commands);
}

const struct open_ops box_open_ops = { .lend = box_lend, .pause = box_pause, .living = box_living };
