/* SPDX-License-Identifier: Apache-2.0 */
/* backend/docker/pids.c - did the container run into its limit on processes?
 *
 * The engine does not tell, but the kernel does, to whoever shares its view of control groups: the
 * counter of refused forks, and a wake-up when it moves. Where it cannot be seen nothing is said.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "backend/docker/guard.h"
#include "base/fd.h"
#include "base/str.h"

/* The line of /proc/PID/cgroup for pids, or v2's only one. Believed only when it names the
 * container: the engine may count processes in another namespace. */
static bool cgroup_folder(const char *text, const char *id, char *out, size_t n)
{
	while (*text) {
		size_t len = strcspn(text, "\n");
		const char *first = strchr(text, ':'),
			   *second = first ? strchr(first + 1, ':') : NULL;
		size_t names = second ? (size_t)(second - first - 1) : 0;
		const char *folder = NULL;

		if (second && second < text + len &&
		    memmem(second, len - (size_t)(second - text), id, strlen(id))) {
			if (names == 4 && memcmp(first + 1, "pids", 4) == 0)
				folder = "/sys/fs/cgroup/pids";
			else if (names == 0)
				folder = "/sys/fs/cgroup";
		}
		if (folder) {
			(void)snprintf(out, n, "%s%.*s/pids.events", folder,
				       (int)(text + len - second - 1), second + 1);
			if (access(out, R_OK) == 0)
				return true;
		}
		text += len + (text[len] == '\n');
	}
	return false;
}

void guard_read_pids(struct guard *g)
{
	char text[64];
	ssize_t n = pread(g->pids, text, sizeof(text) - 1, 0);

	if (n > 0) {
		text[n] = '\0';
		g->end.pids |= str_starts(text, "max ") && text[4] != '0';
	} else {
		g->pids = fd_close(g->pids);
	}
}

void guard_watch_pids(struct guard *g)
{
	CLEANUP(engine_answer) struct engine_answer a = { 0 };
	char path[1024], text[8192];
	const struct engine_call q = { .method = "GET", .path = path };
	struct err e;
	int64_t pid;

	(void)snprintf(path, sizeof(path), "/containers/%s/json", g->container);
	if (engine_ask(&g->engine, &q, &a, &e) < 0)
		return;
	pid = jread_int(jread_get(a.json, "State"), "Pid", 0);
	(void)snprintf(path, sizeof(path), "/proc/%lld/cgroup", (long long)pid);
	if (pid <= 0 || fd_read_file(AT_FDCWD, path, text, sizeof(text)) <= 0 ||
	    !cgroup_folder(text, g->container, path, sizeof(path)))
		return;
	g->pids = open(path, O_RDONLY | O_CLOEXEC);
	guard_read_pids(g);
}
