/* SPDX-License-Identifier: Apache-2.0 */
/* backend/docker/podman_stray.c - processes that Podman has forgotten.
 *
 * Podman writes down that a container has processes only when its runtime has made them. Killed in
 * between it knows nothing of them when it is back, and removes the container without them: a
 * conmon and an init that waits for its start for ever, with the workspace mounted. No request of
 * its API finds them; here they are found by the container's name on conmon's command line. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include "backend/docker/docker.h"
#include "base/files/fd.h"
#include "base/files/folder.h"
#include "base/text/num.h"
#include "base/text/str.h"

#define CMDLINE_MAX 16384
#define CHILDREN_MAX 4096

/* Words of a command line: "conmon ... -n NAME ...". */
static bool watches(const char *words, size_t n, const char *name)
{
	const char *end = words + n, *base = strrchr(words, '/');
	bool next = false;

	if (!str_eq(base ? base + 1 : words, "conmon"))
		return false;
	for (const char *w = words; w < end; w += strlen(w) + 1) {
		if (next && str_eq(w, name))
			return true;
		next = str_eq(w, "-n");
	}
	return false;
}

static bool is_watcher(int proc, const char *pid, const char *name)
{
	char path[64], words[CMDLINE_MAX];
	struct stat st;
	ssize_t n;

	if (fstatat(proc, pid, &st, 0) < 0 || st.st_uid != geteuid())
		return false;
	(void)snprintf(path, sizeof(path), "%.16s/cmdline", pid);
	n = fd_read_file(proc, path, words, sizeof(words));
	return n > 0 && watches(words, (size_t)n, name);
}

static int podman_stray_hold(const char *pid)
{
	uint64_t n;

	return num_count(pid, &n) < 0 ? -1 : (int)syscall(SYS_pidfd_open, (pid_t)n, 0);
}

/* The numbers may be strangers' by the time they are used: both are held, then looked at again. */
static void end_child(int proc, const char *watcher, const char *child)
{
	CLEANUP(fd) int pidfd = podman_stray_hold(child);
	char path[64], text[CHILDREN_MAX], word[32];

	(void)snprintf(path, sizeof(path), "%.16s/task/%.16s/children", watcher, watcher);
	(void)snprintf(word, sizeof(word), "%.16s ", child);
	if (pidfd >= 0 && fd_read_file(proc, path, text, sizeof(text)) > 0 && strstr(text, word))
		(void)syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
}

/* Its children; it ends when they have. */
static void end_watched(int proc, const char *watcher, const char *name)
{
	CLEANUP(fd) int pidfd = podman_stray_hold(watcher);
	char path[64], text[CHILDREN_MAX], *at = text;

	(void)snprintf(path, sizeof(path), "%.16s/task/%.16s/children", watcher, watcher);
	if (pidfd < 0 || !is_watcher(proc, watcher, name) ||
	    fd_read_file(proc, path, text, sizeof(text)) < 0)
		return;
	for (char *child; (child = strsep(&at, " "));)
		if (*child)
			end_child(proc, watcher, child);
}

void stray_end(const char *name)
{
	CLEANUP(fd) int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct fd_entry *e;
	struct folder f;

	folder_begin(&f, proc);
	while ((e = folder_next(&f)))
		if (e->name[0] > '0' && e->name[0] <= '9' && is_watcher(proc, e->name, name))
			end_watched(proc, e->name, name);
}
