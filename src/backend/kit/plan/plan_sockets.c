/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/plan/plan_sockets.c - the host's sockets in what is shown.
 *
 * A read-only mount does not stop a connect, so the sockets that the kernel lists are covered. The
 * list has the name as the server wrote it: by way of a link, or of a bind. What counts is where
 * the folder of that name lies on its file system; it is looked at once for each folder. A name
 * that means something to its server alone (relative, or by way of a descriptor) is tried for every
 * process that we may look at, and in the folders that are shown. */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "backend/kit/plan/plan_internal.h"
#include "base/str.h"
#include "model/paths.h"

#define LIST "/proc/net/unix"
#define RECENT 32
#define LOOKS_MAX 16384

/* Folders seen last: servers come in swarms. */
struct recent {
	const char *name;
	struct where at;
	bool found;
};

struct socket_search {
	struct box_plan *plan;
	const struct sight *sight;
	size_t first_hidden; /* index of the first cover made here */
	struct recent recent[RECENT];
	size_t next;
	size_t looks; /* left at processes: anybody may bind names that need one */
};

static bool hidden_already(const struct socket_search *s, const char *inside)
{
	for (size_t i = s->first_hidden; i < s->plan->op_count; i++)
		if (str_eq(s->plan->ops[i].dst, inside))
			return true;
	return false;
}

static int hide(struct socket_search *s, const char *inside, struct err *e)
{
	if (!inside)
		return err_nomem(e);
	if (hidden_already(s, inside)) /* every connection has a line of its own */
		return 0;
	return plan_op(s->plan, OP_HIDE, inside, e) ? 0 : -e->code;
}

static bool is_socket(const struct where *folder, const char *name)
{
	char path[PATH_MAX];
	struct stat st;

	return snprintf(path, sizeof(path), "%s/%s", folder->real, name) < (int)sizeof(path) &&
	       lstat(path, &st) == 0 && S_ISSOCK(st.st_mode);
}

/* At every place where a tree shows it. Most lie in none of them: the file is looked at last. */
static int hide_in(struct socket_search *s, const struct where *folder, const char *name, struct err *e)
{
	for (size_t i = 0; i < s->sight->n; i++) {
		const struct shown *v = &s->sight->v[i];
		const char *rest;

		if (!v->folder || v->at.dev != folder->dev || !path_under(folder->path, v->at.path))
			continue;
		if (!is_socket(folder, name))
			return 0;
		rest = folder->path + (str_eq(v->at.path, "/") ? 0 : strlen(v->at.path));
		if (hide(s,
			 arena_printf(s->plan->arena, "%s%s/%s", v->inside,
				      str_eq(rest, "/") ? "" : rest, name),
			 e) < 0)
			return -e->code;
	}
	return 0;
}

/* NULL: without memory. */
static const struct recent *resolve(struct socket_search *s, const char *folder)
{
	CLEANUP(fd) int fd = -1;
	struct recent *r;
	int found;

	for (size_t i = 0; i < RECENT; i++)
		if (s->recent[i].name && str_eq(s->recent[i].name, folder))
			return &s->recent[i];
	r = &s->recent[s->next++ % RECENT];
	*r = (struct recent){ .name = arena_strdup(s->plan->arena, folder) };
	fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	found = fd < 0 ? -errno : mounts_where(&s->sight->mounts, s->plan->arena, fd, &r->at);
	r->found = found == 0;
	return found == -ENOMEM || !r->name ? NULL : r;
}

static int hide_absolute(struct socket_search *s, const char *path, struct err *e)
{
	const char *slash = strrchr(path, '/');
	size_t n = slash > path ? (size_t)(slash - path) : 1;
	const struct recent *r;
	char folder[PATH_MAX];

	if (n >= sizeof(folder))
		return 0;
	memcpy(folder, path, n);
	folder[n] = '\0';
	r = resolve(s, folder);
	if (!r)
		return err_nomem(e);
	return r->found ? hide_in(s, &r->at, slash + 1, e) : 0;
}

/* A name that means something to its server alone: what it is for every process that we may look
 * at. `from` is what it begins at, below the folder of a process in /proc. */
static int hide_for_processes(struct socket_search *s, const char *from, const char *name, struct err *e)
{
	DIR *d = opendir("/proc");
	int r = 0;

	for (struct dirent *en; d && r == 0 && s->looks && (en = readdir(d));) {
		const char *path;

		if (en->d_name[0] < '0' || en->d_name[0] > '9')
			continue;
		s->looks--;
		path = arena_printf(s->plan->arena, "/proc/%s/%s%s", en->d_name, from, name);
		r = path ? hide_absolute(s, path, e) : err_nomem(e);
	}
	if (d)
		(void)closedir(d);
	return r;
}

/* And in the folders that are shown: its server may have gone on to another folder, or be somebody
 * else's. */
static int hide_in_shown(struct socket_search *s, const char *name, struct err *e)
{
	for (size_t i = 0; i < s->sight->n; i++) {
		struct place at = { .cwd = s->sight->v[i].at.real };
		const char *host;

		if (s->sight->v[i].folder &&
		    path_resolve(s->plan->arena, &at, name, &host, e) == 0 &&
		    hide_absolute(s, host, e) < 0)
			return -e->code;
	}
	return 0;
}

static int hide_relative(struct socket_search *s, const char *name, struct err *e)
{
	return hide_in_shown(s, name, e) < 0 ? -e->code : hide_for_processes(s, "cwd/", name, e);
}

/* By way of /proc or of a descriptor: what is behind it is known for processes alone. */
static int hide_by_process(struct socket_search *s, const char *line, const char *rest, struct err *e)
{
	if (hide_in_shown(s, strrchr(line, '/') + 1, e) < 0)
		return -e->code;
	return hide_for_processes(s, "", rest, e);
}

/* One line: seven columns, then the name, if there is one; '@' begins one that is no file. */
static int one_line(struct socket_search *s, const char *line, struct err *e)
{
	/* What begins so, and what of it a process is then asked for. */
	static const struct {
		const char *begins;
		size_t keeps;
	} own[] = { { "/proc/self/", 11 }, { "/proc/thread-self/", 18 }, { "/dev/fd/", 5 } };

	for (int column = 0; column < 7; column++) {
		while (*line && *line != ' ')
			line++;
		while (*line == ' ')
			line++;
	}
	if (!*line || *line == '@')
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(own); i++)
		if (str_starts(line, own[i].begins))
			return hide_by_process(s, line, line + own[i].keeps, e);
	if (str_starts(line, "/proc/") && hide_in_shown(s, strrchr(line, '/') + 1, e) < 0)
		return -e->code;
	return *line == '/' ? hide_absolute(s, line, e) : hide_relative(s, line, e);
}

int plan_sockets(struct box_plan *p, const struct sight *sight, struct err *e)
{
	CLEANUP(fd) int fd = open(LIST, O_RDONLY | O_CLOEXEC);
	struct socket_search s = {
		.plan = p, .sight = sight, .first_hidden = p->op_count, .looks = LOOKS_MAX
	};
	bool headed = false; /* the first line names the columns */
	char text[8192];
	size_t have = 0;
	ssize_t n;

	if (fd < 0)
		return err_sys(e, "cannot read the list of sockets '" LIST "'");
	while ((n = read(fd, text + have, sizeof(text) - 1 - have)) > 0) {
		char *line = text, *end;

		have += (size_t)n;
		text[have] = '\0';
		while ((end = memchr(line, '\n', have - (size_t)(line - text)))) {
			*end = '\0';
			if (headed && one_line(&s, line, e) < 0)
				return -e->code;
			headed = true;
			line = end + 1;
		}
		have -= (size_t)(line - text);
		memmove(text, line, have);
		if (have == sizeof(text) - 1)
			return err_set(e, ERR_INTERNAL, EIO, "a line of '" LIST "' is too long");
	}
	return n < 0 ? err_sys(e, "cannot read '" LIST "'") : 0;
}
