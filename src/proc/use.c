/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/use.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "base/files/folder.h"

#define PROCESSES_MAX ((size_t)1 << 18)

enum use_place { UNKNOWN, BELOW, ELSEWHERE };

struct process {
	pid_t pid, parent;
	uint64_t ticks, start;
	enum use_place place; /* of the sandbox that is looked at */
};

struct use {
	int proc;
	struct process *v; /* by pid */
	size_t n, room;
};

/* Where the processes of one sandbox begin. */
struct tops {
	size_t n;
	struct {
		pid_t pid;
		bool container;
	} v[USE_TOPS];
};

/* "PID (NAME) STATE PPID ...": the name may have anything in it, so its last bracket counts. Fields
 * are numbered as proc(5) does. */
static bool read_stat(int proc, const char *pid, struct process *p)
{
	enum { PARENT = 4, USER = 14, SYSTEM = 15, START = 22 };
	char path[64], text[1024];
	uint64_t v[START + 1] = { 0 };
	char *at;

	(void)snprintf(path, sizeof(path), "%.20s/stat", pid);
	if (fd_read_file(proc, path, text, sizeof(text)) < 0)
		return false;
	at = strrchr(text, ')');
	if (!at || strlen(at) < 4)
		return false;
	at += 3; /* over the bracket, a blank and the state */
	for (int i = PARENT; i <= START; i++)
		v[i] = strtoull(at, &at, 10);
	*p = (struct process){ .pid = (pid_t)strtol(pid, NULL, 10),
			       .parent = (pid_t)v[PARENT],
			       .ticks = v[USER] + v[SYSTEM],
			       .start = v[START] };
	return true;
}

static bool use_add(struct use *all, const struct process *p)
{
	if (all->n == all->room) {
		size_t room = all->room ? all->room * 2 : 1024;
		struct process *v =
			room <= PROCESSES_MAX ? reallocarray(all->v, room, sizeof(*v)) : NULL;

		if (!v)
			return false;
		all->v = v;
		all->room = room;
	}
	all->v[all->n++] = *p;
	return true;
}

static int by_pid(const void *a, const void *b)
{
	const struct process *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

static void use_look_at(struct use *all)
{
	const struct fd_entry *x;
	struct folder f;

	folder_begin(&f, all->proc);
	while ((x = folder_next(&f))) {
		struct process p;

		if (isdigit((unsigned char)x->name[0]) && read_stat(all->proc, x->name, &p) &&
		    !use_add(all, &p))
			break;
	}
	if (all->n)
		qsort(all->v, all->n, sizeof(*all->v), by_pid);
}

static struct process *use_find(const struct use *all, pid_t pid)
{
	const struct process key = { .pid = pid };

	return pid > 1 && all->n ? bsearch(&key, all->v, all->n, sizeof(*all->v), by_pid) : NULL;
}

/* Below a top, or the first process of a container, which counts as well: all there is in it is
 * below that one, because its pid namespace has no other to leave an orphan to. */
static bool use_begins(const struct tops *t, const struct process *p)
{
	for (size_t i = 0; i < t->n; i++)
		if (p->parent == t->v[i].pid || (t->v[i].container && p->pid == t->v[i].pid))
			return true;
	return false;
}

/* A chain of parents may be as long as there are processes, and whoever is inside decides that:
 * each is walked once. Numbers that came again while they were read could make a ring of it. */
static bool belongs(const struct use *all, struct process *p, const struct tops *t)
{
	enum use_place found = ELSEWHERE;
	size_t steps = 0;

	for (struct process *at = p; at && steps++ < all->n; at = use_find(all, at->parent))
		if (at->place != UNKNOWN || use_begins(t, at)) {
			found = at->place != UNKNOWN ? at->place : BELOW;
			break;
		}
	for (struct process *at = p; at && at->place == UNKNOWN;
	     at = use_begins(t, at) ? NULL : use_find(all, at->parent))
		at->place = found;
	return found == BELOW;
}

static uint64_t number_at(const char *text, const char *key)
{
	const char *at = strstr(text, key);

	return at ? strtoull(at + strlen(key), NULL, 10) : 0;
}

/* Of a process with a number in a pid namespace of its own; brig's own beside it have none. */
static void use_count(int proc, const struct process *p, struct used *u, uint64_t *ticks)
{
	char path[64], text[8192];
	const char *at;
	size_t numbers = 0;

	(void)snprintf(path, sizeof(path), "%d/status", (int)p->pid);
	if (fd_read_file(proc, path, text, sizeof(text)) < 0)
		return;
	at = strstr(text, "\nNSpid:");
	for (at = at ? at + 7 : ""; *at && *at != '\n'; at++)
		numbers += *at == '\t';
	if (numbers < 2)
		return;
	u->processes++;
	u->threads += number_at(text, "\nThreads:");
	u->memory += (number_at(text, "\nRssAnon:") + number_at(text, "\nRssShmem:")) * 1024;
	*ticks += p->ticks;
}

/* A number may have gone to another process since. */
static bool use_is_same(const struct use *all, pid_t pid, uint64_t start)
{
	const struct process *p = use_find(all, pid);

	return p && p->start == start;
}

static void read_tops(const struct use *all, const char *text, struct tops *t)
{
	char *end;

	for (const char *at = text; *at && t->n < USE_TOPS; at = *end == ',' ? end + 1 : "") {
		pid_t pid = (pid_t)strtol(at, &end, 10);
		bool container = *end == '@';

		if (pid > 1 && (!container || use_is_same(all, pid, strtoull(end + 1, NULL, 10)))) {
			t->v[t->n].pid = pid;
			t->v[t->n++].container = container;
		}
		end += strcspn(end, ",");
	}
}

bool use_of(struct use *all, const char *tops, struct used *ret)
{
	uint64_t second = (uint64_t)sysconf(_SC_CLK_TCK), ticks = 0;
	struct tops t = { 0 };

	*ret = (struct used){ 0 };
	read_tops(all, tops, &t);
	for (size_t i = 0; i < all->n; i++)
		all->v[i].place = UNKNOWN;
	for (size_t i = 0; t.n && i < all->n; i++)
		if (belongs(all, &all->v[i], &t))
			use_count(all->proc, &all->v[i], ret, &ticks);
	ret->cpu_ms = ticks * 1000 / (second ? second : 100);
	return ret->processes > 0;
}

bool use_first(pid_t pid, char ret[USE_FIRST_SIZE])
{
	CLEANUP(fd) int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct process p;
	char name[24];

	(void)snprintf(name, sizeof(name), "%d", (int)pid);
	if (proc < 0 || pid <= 1 || !read_stat(proc, name, &p))
		return false;
	(void)snprintf(ret, USE_FIRST_SIZE, "%d@%llu", (int)pid, (unsigned long long)p.start);
	return true;
}

struct use *use_look(void)
{
	struct use *u = calloc(1, sizeof(*u));

	if (!u)
		return NULL;
	u->proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (u->proc < 0)
		return use_free(u);
	use_look_at(u);
	return u;
}

struct use *use_free(struct use *u)
{
	if (u) {
		(void)fd_close(u->proc);
		free(u->v);
		free(u);
	}
	return NULL;
}

void used_json(struct use *all, const char *tops, struct json *j)
{
	struct used u;

	if (!all || !use_of(all, tops, &u)) {
		json_null(j);
		return;
	}
	json_object(j);
	json_ku64(j, "processes", u.processes);
	json_ku64(j, "threads", u.threads);
	json_ku64(j, "memory", u.memory);
	json_ku64(j, "cpu_ms", u.cpu_ms);
	json_object_end(j);
}
