/* SPDX-License-Identifier: Apache-2.0 */
/* backend/docker/hits.c - did the container run into its limit on processes, or on memory?
 *
 * Engines do not tell the first and not always the second, but the kernel does, to whoever shares
 * its view of control groups: it counts refused forks and kills. The counters go with the
 * container, so they are looked at while it runs: where the kernel wakes a reader up, then; with
 * control groups v1, which since Linux 6.10 do not, every few milliseconds. Where they cannot be
 * seen nothing is said. */
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "backend/docker/guard.h"
#include "base/files/fd.h"
#include "base/text/str.h"

static const struct {
	const char *controller;      /* of v1 */
	const char *file, *file_old; /* in v2, in v1 */
	const char *word;            /* before the count */
} kinds[] = {
	[HIT_PIDS] = { "pids", "pids.events", "pids.events", "max " },
	[HIT_MEMORY] = { "memory", "memory.events", "memory.oom_control", "oom_kill " },
};
static_assert(ARRAY_LEN(kinds) == HITS, "a row for every one");

/* A line of /proc/PID/cgroup, "NUMBER:CONTROLLERS:PATH". Believed only when it names the container:
 * the engine may count processes in another namespace. */
static int open_counter(const char *line, size_t len, const char *id, enum hit hit, bool *old)
{
	const char *first = memchr(line, ':', len);
	const char *second =
		first ? memchr(first + 1, ':', len - (size_t)(first + 1 - line)) : NULL;
	const char *name = kinds[hit].controller;
	size_t names = second ? (size_t)(second - first - 1) : 0;
	char path[1024];
	int n;

	if (!second || !memmem(second, len - (size_t)(second - line), id, strlen(id)))
		return -1;
	*old = names != 0;
	if (*old && (names != strlen(name) || memcmp(first + 1, name, names) != 0))
		return -1;
	n = snprintf(path, sizeof(path), "/sys/fs/cgroup%s%s%.*s/%s", *old ? "/" : "",
		     *old ? name : "", (int)(line + len - second - 1), second + 1,
		     *old ? kinds[hit].file_old : kinds[hit].file);
	return n < (int)sizeof(path) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
}

static void open_counters(struct guard *g, const char *text)
{
	for (; *text; text += *text == '\n') {
		size_t len = strcspn(text, "\n");

		for (int i = 0; i < HITS; i++) {
			bool old = false;

			if (g->hits[i] < 0)
				g->hits[i] =
					open_counter(text, len, g->container, (enum hit)i, &old);
			if (g->hits[i] >= 0 && old)
				g->look_at_hits = true;
		}
		text += len;
	}
}

static bool counted(const char *text, const char *word)
{
	while (!str_starts(text, word)) {
		text = strchr(text, '\n');
		if (!text)
			return false;
		text++;
	}
	return text[strlen(word)] >= '1' && text[strlen(word)] <= '9';
}

void guard_read_hits(struct guard *g)
{
	bool *const seen[] = {
		[HIT_PIDS] = &g->end.container.pids, [HIT_MEMORY] = &g->end.container.oom
	};

	for (int i = 0; i < HITS; i++) {
		char text[512];
		ssize_t n = g->hits[i] >= 0 ? pread(g->hits[i], text, sizeof(text) - 1, 0) : 0;

		if (n > 0) {
			text[n] = '\0';
			*seen[i] |= counted(text, kinds[i].word);
		}
		if (n <= 0 || *seen[i])
			g->hits[i] = fd_close(g->hits[i]);
	}
	g->look_at_hits &= g->hits[HIT_PIDS] >= 0 || g->hits[HIT_MEMORY] >= 0;
}

void guard_watch_hits(struct guard *g)
{
	CLEANUP(engine_answer) struct engine_answer a = { 0 };
	char path[128], text[8192];
	const struct engine_call q = { .method = "GET", .path = path };
	struct err e;

	(void)snprintf(path, sizeof(path), "/containers/%s/json", g->container);
	if (engine_ask(&g->engine, &q, &a, &e) < 0)
		return;
	g->pid = jread_int(jread_get(a.json, "State"), "Pid", 0);
	(void)snprintf(path, sizeof(path), "/proc/%lld/cgroup", (long long)g->pid);
	if (g->pid <= 0 || fd_read_file(AT_FDCWD, path, text, sizeof(text)) <= 0)
		return;
	open_counters(g, text);
	guard_read_hits(g);
}
