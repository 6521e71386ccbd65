/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/plan/plan_sockets.c - the host's sockets in what is shown.
 *
 * A read-only mount does not stop a connect, so the sockets that the kernel lists are covered. The
 * list has the name as the server wrote it: by way of a link, or of a bind. What counts is where
 * the folder of that name lies on its file system; it is looked at once for each folder. A name
 * that means something to its server alone (relative, or by way of a descriptor) is tried for every
 * process that we may look at, and in the folders that are shown. Where the file of a socket is not
 * found by its name, it is looked for (plan_lost.c). */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "backend/kit/plan/plan_internal.h"
#include "base/files/folder.h"
#include "base/files/state.h"
#include "base/text/buf.h"
#include "base/text/str.h"
#include "model/settings/paths.h"

#define RECENT 32
#define LOOKS_MAX 16384
#define HELD_MAX 128 /* folders */
#define MONITORS_MAX ((size_t)1 << 20)

/* Folders seen last: servers come in swarms. */
struct recent {
	const char *name;
	struct where at;
	bool found;
	bool own; /* brig's, for monitors */
};

/* A folder that a process is in. */
struct standing {
	const char *prefix; /* of a name in it */
	int fd; /* so that it can be asked for when the process is gone; -1: it cannot */
	dev_t dev;
	ino_t ino;
};

struct socket_search {
	struct hiding h;
	struct recent recent[RECENT];
	size_t next;
	int own_fd;          /* the folder of monitors' sockets, until it is listed; or -1 */
	struct ident own;    /* the same; no inode: there is none */
	struct buf monitors; /* the numbers of their files, in order */
	size_t looks;        /* left at processes: anybody may bind names that need one */
	struct standing *standings;
	size_t standing_count;
	bool stood; /* they were looked for */

	const struct bound_socket *now;  /* the socket that is looked at */
	bool sought;                     /* is its file looked for? */
	bool met;                        /* it is, and has no other name */
	struct where at;                 /* the folder that its name leads to; path NULL: to none */
	struct lost_socket done[RECENT]; /* every connection has an entry of its own */
	size_t next_done;
	struct lost lost;
};

static bool hidden_already(const struct hiding *h, const char *inside)
{
	for (size_t i = h->first; i < h->plan->op_count; i++)
		if (str_eq(h->plan->ops[i].dst, inside))
			return true;
	return false;
}

static int hide(struct hiding *h, const char *inside, struct err *e)
{
	if (!inside)
		return err_nomem(e);
	if (hidden_already(h, inside))
		return 0;
	return plan_op(h->plan, OP_HIDE, inside, e) ? 0 : -e->code;
}

static bool plan_sockets_look_at(const struct where *folder, const char *name, struct stat *st)
{
	char path[PATH_MAX];

	return snprintf(path, sizeof(path), "%s/%s", folder->real, name) < (int)sizeof(path) &&
	       lstat(path, st) == 0 && (S_ISSOCK(st->st_mode) || S_ISFIFO(st->st_mode));
}

/* Most lie in no tree: the file is looked at last. */
int hide_in(struct hiding *h, const struct where *folder, const char *name, struct err *e)
{
	for (size_t i = 0; i < h->sight->n; i++) {
		const struct shown *v = &h->sight->v[i];
		const char *rest;
		struct stat st;

		if (!v->folder || v->at.dev != folder->dev || !path_under(folder->path, v->at.path))
			continue;
		if (!plan_sockets_look_at(folder, name, &st))
			return 0;
		rest = rest_of(folder, &v->at);
		if (hide(h,
			 arena_printf(h->plan->arena, "%s%s/%s", v->inside,
				      str_eq(rest, "/") ? "" : rest, name),
			 e) < 0)
			return -e->code;
	}
	return 0;
}

/* NULL: without memory. */
static const struct recent *plan_sockets_resolve(struct socket_search *s, const char *folder)
{
	CLEANUP(fd) int fd = -1;
	struct recent *r;
	struct stat st;
	int found;

	for (size_t i = 0; i < RECENT; i++)
		if (s->recent[i].name && str_eq(s->recent[i].name, folder))
			return &s->recent[i];
	r = &s->recent[s->next++ % RECENT];
	*r = (struct recent){ .name = arena_strdup(s->h.plan->arena, folder) };
	fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	found = fd < 0 ? -errno : mounts_where(&s->h.sight->mounts, s->h.plan->arena, fd, &r->at);
	r->found = found == 0;
	r->own = found == 0 && s->own.ino && fstat(fd, &st) == 0 && st.st_dev == s->own.dev &&
		 st.st_ino == s->own.ino;
	return found == -ENOMEM || !r->name ? NULL : r;
}

/* Is that the file of the socket? Another link to it may lie anywhere. */
static void meet(struct socket_search *s, const struct where *folder, const char *name)
{
	struct stat st;

	if (!s->sought || s->met || folder->dev != s->now->dev)
		return;
	s->at = *folder; /* a copy: of the recent ones it may soon be none */
	s->met = plan_sockets_look_at(folder, name, &st) && (uint32_t)st.st_ino == s->now->ino &&
		 st.st_nlink == 1;
}

static int by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* Those that are on the list at all: of a daemon that could not make them elsewhere. Their folder
 * is listed once; nobody else can make a second name for a file in it. */
static void list_monitors(struct socket_search *s)
{
	const struct fd_entry *d;
	struct folder f;

	folder_begin(&f, s->own_fd);
	s->own_fd = -1;
	while ((d = folder_next(&f)))
		buf_add(&s->monitors, &(uint32_t){ (uint32_t)d->ino }, sizeof(uint32_t));
	if (s->monitors.failed || f.error)
		s->monitors.len = 0;
	if (s->monitors.len)
		qsort(s->monitors.data, s->monitors.len / sizeof(uint32_t), sizeof(uint32_t),
		      by_number);
}

static bool is_monitors(struct socket_search *s)
{
	if (s->own_fd >= 0)
		list_monitors(s);
	return s->now->known && s->now->dev == s->own.dev && s->monitors.len &&
	       bsearch(&s->now->ino, s->monitors.data, s->monitors.len / sizeof(uint32_t),
		       sizeof(uint32_t), by_number);
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
	r = plan_sockets_resolve(s, folder);
	if (!r)
		return err_nomem(e);
	if (!r->found)
		return 0;
	s->met |= r->own && is_monitors(s);
	meet(s, &r->at, slash + 1);
	return hide_in(&s->h, &r->at, slash + 1, e);
}

typedef int process_fn(struct socket_search *s, const char *pid, void *arg, struct err *e);

/* Calls fn for every process that we may look at, while there are looks left. */
static int each_process(struct socket_search *s, process_fn *fn, void *arg, struct err *e)
{
	CLEANUP(fd) int fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct fd_entry *en;
	struct folder f;
	int r = 0;

	folder_begin(&f, fd);
	while (r == 0 && s->looks && !s->met && (en = folder_next(&f))) {
		if (en->name[0] < '0' || en->name[0] > '9')
			continue;
		s->looks--;
		r = fn(s, en->name, arg, e);
	}
	return r;
}

static int note_standing(struct socket_search *s, const char *pid, void *arg UNUSED, struct err *e)
{
	struct arena *a = s->h.plan->arena;
	CLEANUP(fd) int fd = -1;
	struct standing *one;
	char path[64];
	struct stat st;

	(void)snprintf(path, sizeof(path), "/proc/%.20s/cwd", pid);
	if (stat(path, &st) < 0)
		return 0;
	for (size_t i = 0; i < s->standing_count; i++)
		if (s->standings[i].dev == st.st_dev && s->standings[i].ino == st.st_ino)
			return 0;
	if (s->standing_count < HELD_MAX)
		fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	one = ARENA_PUSH(a, s->standings, s->standing_count);
	if (!one)
		return err_nomem(e);
	*one = (struct standing){ .dev = st.st_dev, .ino = st.st_ino, .fd = TAKE_FD(fd) };
	one->prefix = one->fd < 0 ? arena_printf(a, "%s/", path)
				  : arena_printf(a, "/proc/self/fd/%d/", one->fd);
	return one->prefix ? 0 : err_nomem(e);
}

static int hide_below(struct socket_search *s, const char *prefix, const char *name, struct err *e)
{
	const char *path = arena_printf(s->h.plan->arena, "%s%s", prefix, name);

	return path ? hide_absolute(s, path, e) : err_nomem(e);
}

static int hide_for_process(struct socket_search *s, const char *pid, void *name, struct err *e)
{
	char prefix[64];

	(void)snprintf(prefix, sizeof(prefix), "/proc/%.20s/", pid);
	return hide_below(s, prefix, name, e);
}

/* A name that means something to its server alone: what it is for every process that we may look
 * at, until the file is met. */
static int hide_for_processes(struct socket_search *s, const char *rest, struct err *e)
{
	bool asked = s->sought;
	int r;

	s->sought = s->now->known;
	r = each_process(s, hide_for_process, (void *)(uintptr_t)rest, e);
	s->sought = asked;
	return r;
}

/* Processes are many, and the folders that they are in are few: each is asked for once. */
static int hide_for_folders(struct socket_search *s, const char *name, struct err *e)
{
	bool asked = s->sought;
	int r = 0;

	if (s->met)
		return 0;
	if (!s->stood && each_process(s, note_standing, NULL, e) < 0)
		return -e->code;
	s->stood = true;
	s->sought = s->now->known;
	for (size_t i = 0; r == 0 && i < s->standing_count && s->looks && !s->met; i++, s->looks--)
		r = hide_below(s, s->standings[i].prefix, name, e);
	s->sought = asked;
	return r;
}

/* And in the folders that are shown: its server may have gone on to another folder, or be somebody
 * else's. */
static int hide_in_shown(struct socket_search *s, const char *name, struct err *e)
{
	for (size_t i = 0; i < s->h.sight->n; i++) {
		struct place at = { .cwd = s->h.sight->v[i].at.real };
		const char *host;

		if (s->h.sight->v[i].folder &&
		    path_resolve(s->h.plan->arena, &at, name, &host, e) == 0 &&
		    hide_absolute(s, host, e) < 0)
			return -e->code;
	}
	return 0;
}

static int hide_relative(struct socket_search *s, const char *name, struct err *e)
{
	return hide_in_shown(s, name, e) < 0 ? -e->code : hide_for_folders(s, name, e);
}

/* By way of /proc or of a descriptor: what is behind it is known for processes alone. */
static int hide_by_process(struct socket_search *s, const char *line, const char *rest,
			   struct err *e)
{
	if (hide_in_shown(s, strrchr(line, '/') + 1, e) < 0)
		return -e->code;
	return hide_for_processes(s, rest, e);
}

static int by_name(struct socket_search *s, const char *name, struct err *e)
{
	/* What begins so, and what of it a process is then asked for. */
	static const struct {
		const char *begins;
		size_t keeps;
	} own[] = { { "/proc/self/", 11 }, { "/proc/thread-self/", 18 }, { "/dev/fd/", 5 } };

	for (size_t i = 0; i < ARRAY_LEN(own); i++)
		if (str_starts(name, own[i].begins))
			return hide_by_process(s, name, name + own[i].keeps, e);
	if (str_starts(name, "/proc/") && hide_in_shown(s, strrchr(name, '/') + 1, e) < 0)
		return -e->code;
	return *name == '/' ? hide_absolute(s, name, e) : hide_relative(s, name, e);
}

/* Does a tree show files of that device? *asked: one that is not every run's. */
static bool plan_sockets_shows(const struct sight *sight, dev_t dev, bool *asked)
{
	bool any = false;

	*asked = false;
	for (size_t i = 0; i < sight->n; i++)
		if (sight->v[i].folder && sight->v[i].at.dev == dev) {
			any = true;
			*asked |= !sight->v[i].system;
		}
	return any;
}

static bool done_already(struct socket_search *s, const struct bound_socket *b)
{
	for (size_t i = 0; i < RECENT; i++)
		if (s->done[i].dev == b->dev && s->done[i].ino == b->ino)
			return true;
	s->done[s->next_done++ % RECENT] = (struct lost_socket){ .dev = b->dev, .ino = b->ino };
	return false;
}

static int one_socket(void *ctx, const struct bound_socket *b, struct err *e)
{
	struct socket_search *s = ctx;

	s->now = b;
	s->at = (struct where){ 0 };
	s->sought = s->met = false;
	if (b->known && (!plan_sockets_shows(s->h.sight, b->dev, &s->sought) || done_already(s, b)))
		return 0;
	if (*b->name && by_name(s, b->name, e) < 0)
		return -e->code;
	return s->sought && !s->met ? lost_add(&s->h, &s->lost, b, s->at.path ? &s->at : NULL, e)
				    : 0;
}

int plan_sockets(struct box_plan *p, struct err *e)
{
	struct socket_search s = { .h = { .plan = p, .sight = p->sight, .first = p->op_count },
				   .looks = LOOKS_MAX,
				   .monitors = BUF_INIT(MONITORS_MAX) };
	CLEANUP(fd) int own = state_find("daemon/sockets", NULL, 0);
	struct stat st;
	bool known;
	int r;

	s.own_fd = own;
	if (own >= 0 && fstat(own, &st) == 0)
		s.own = ident_of(&st);
	r = sockets_list(one_socket, &s, &known, e);
	buf_done(&s.monitors);

	for (size_t i = 0; i < s.standing_count; i++)
		(void)fd_close(s.standings[i].fd);
	if (r < 0)
		return r;
	if (!known)
		plan_note(p, "the kernel does not tell which files sockets are (unix_diag): "
			     "renamed ones are not looked for");
	return plan_lost(&s.h, &s.lost, e);
}
