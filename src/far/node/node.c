/* SPDX-License-Identifier: Apache-2.0 */
#include "far/node/node.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "base/text/num.h"
#include "base/text/str.h"
#include "far/far_place.h"
#include "far/serve/far_serve.h"
#include "far/spool.h"
#include "sandbox/manager.h"

#define QUICK_MAX ((size_t)1 << 20)

/* ---- a run ---- */

static int read_ask(int spool, const char *name, struct buf *text)
{
	CLEANUP(fd) int fd = far_spool_read(spool, name);
	char part[65536];
	ssize_t n;

	while (fd >= 0 && ((n = read(fd, part, sizeof(part))) > 0 || (n < 0 && errno == EINTR)))
		if (n > 0)
			buf_add(text, part, (size_t)n);
	return fd < 0 || n < 0 || text->failed ? -EIO : 0;
}

/* The same comes by the input: whatever is wrong with the file is no reason not to wait for that.
 */
static void take_quickly(const char *path, struct buf *text)
{
	CLEANUP(buf) struct buf folder = BUF_INIT(PATH_MAX);
	const char *name = strrchr(path, '/');
	CLEANUP(fd) int spool = -1;

	buf_add(&folder, path, (size_t)(name - path));
	spool = far_spool_open(buf_str(&folder));
	if (spool < 0 || !str_starts(name + 1, FAR_SPOOL_ASK))
		return;
	if (read_ask(spool, name + 1, text) == 0)
		(void)unlinkat(spool, name + 1, 0);
	else
		text->len = 0;
}

int node_serve(const char *ask)
{
	CLEANUP(buf) struct buf text = BUF_INIT(QUICK_MAX);
	struct far_line line = { .from = fcntl(0, F_DUPFD_CLOEXEC, 3),
				 .to = fcntl(1, F_DUPFD_CLOEXEC, 3),
				 .newlines = true,
				 .speaks = true };

	if (ask)
		take_quickly(ask, &text);
	if (text.len) {
		line.ask = text.data;
		line.ask_size = text.len;
	}
	return far_serve(&line);
}

/* ---- a task of an array ---- */

/* What sbatch itself needed is none of the command's: it has the variables that were sent, as one
 * that srun has started. */
static void forget_variables(void)
{
	static const char *const names[] = { "PATH", "USER", "LOGNAME", "LC_ALL" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		(void)unsetenv(names[i]); /* allow unsetenv: the process is ours */
}

int node_task(const char *spool)
{
	CLEANUP(fd) int folder = far_spool_open(spool), from = -1, to = -1;
	const char *job = getenv("SLURM_ARRAY_JOB_ID"), *index = getenv("SLURM_ARRAY_TASK_ID");
	char ask[FAR_SPOOL_NAME], out[FAR_SPOOL_NAME], task[64];
	uint64_t number;

	if (folder < 0 || !job || !index || num_count(index, &number) < 0)
		return 1;
	forget_variables();
	far_spool_name(ask, number, "ask");
	far_spool_name(out, number, "out");
	(void)snprintf(task, sizeof(task), "%.32s_%llu", job, (unsigned long long)number);
	from = far_spool_read(folder, ask);
	if (from < 0)
		return 1;
	/* Another process that has made this file runs the task: it runs once. */
	to = openat(folder, out, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
	return to < 0 ? 1
		      : far_serve(&(struct far_line){ .from = from,
						      .to = to,
						      .newlines = true,
						      .speaks = true,
						      .task = task });
}

/* ---- what a node is asked ---- */

void node_where(const char *path, char *out, size_t room)
{
	struct far_place at = { 0 };
	char boot[FAR_BOOT_SIZE];

	far_boot(boot);
	(void)far_place_look(path, &at);
	(void)snprintf(out, room, "brig-place %llu %llu %llu %s", (unsigned long long)at.dev,
		       (unsigned long long)at.ino, (unsigned long long)at.type, boot);
}

void node_probe(char *out, size_t room)
{
	brig_manager *m = brig_manager_new();
	struct brig_error e = { .what = "out of memory" };
	char host[128];
	int r = m ? brig_manager_set(m, "backend", "native", &e) : -ENOMEM;

	far_asked_name(host, sizeof(host));
	if (r == 0)
		r = brig_manager_ready(m, &e);
	(void)snprintf(out, room, "brig-far %s %s %s%s%.300s", BRIG_VERSION, host,
		       r == 0 ? "ok" : "no", r == 0 ? "" : " ", r == 0 ? "" : e.what);
	brig_manager_free(m);
}
