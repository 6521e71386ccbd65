/* SPDX-License-Identifier: Apache-2.0 */
/* backend/docker/ledger.c - which runs have something at an engine, so that nothing stays there.
 *
 * One file per run in brig's state folder, locked by the run's guard for as long as that lives. An
 * entry whose lock is free belongs to a guard that was killed, or whose engine had gone away: the
 * next brig removes what it names. A container is the run's only if it carries both labels, the id
 * and a nonce that nobody but the guard and its entry knows. */
#include "backend/docker/ledger.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>

#include "backend/docker/docker.h"
#include "base/fd.h"
#include "base/state.h"
#include "base/str.h"

#define FOLDER "docker"
#define ENTRY_MAX 512
#define SWEEP_MAX 64
#define REMOVE_TRIES 20
#define REMOVE_WAIT_MS 100
#define MAKING 'm'
#define QUIET 'q'
#define MAKING_SECONDS 30 /* that an engine may take to make something nobody waits for */
#define KEPT_SECONDS (30 * 24 * 3600) /* an engine that long away was removed */

static const char *const extra_files[] = { "passwd", "group",  "seccomp", "code",
					   "hosts",  "resolv", "roots",   "door" };

/* A word on what was going on, the nonce, the socket. */
static int write_entry(int fd, const char *nonce, const char *socket)
{
	char text[ENTRY_MAX];
	int n = snprintf(text, sizeof(text), "%c%s\n%s\n", QUIET, nonce, socket);

	return n < (int)sizeof(text) ? fd_write_all(fd, text, (size_t)n) : -ENAMETOOLONG;
}

/* Locked before it has a name: nobody can find it and take it for a dead run's. */
int ledger_open(struct ledger *l, const char *id, const char *nonce, const char *socket,
		struct err *e)
{
	char link[64];
	int r;

	l->fd = -1;
	(void)snprintf(l->id, sizeof(l->id), "%s", id);
	l->dir = state_open(FOLDER, l->path, sizeof(l->path), e);
	if (l->dir < 0)
		return -e->code;
	l->fd = openat(l->dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (l->fd < 0)
		return err_sys(e, "cannot note the run in '%s'", l->path);
	(void)flock(l->fd, LOCK_EX | LOCK_NB);
	r = write_entry(l->fd, nonce, socket);
	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", l->fd);
	if (r == 0 && linkat(AT_FDCWD, link, l->dir, id, AT_SYMLINK_FOLLOW) < 0)
		r = -errno;
	if (r < 0)
		return errno = -r, err_sys(e, "cannot note the run in '%s'", l->path);
	return 0;
}

int ledger_bytes(const struct ledger *l, const char *what, const void *p, size_t n, struct err *e)
{
	char name[64];
	CLEANUP(fd) int fd = -1;

	(void)snprintf(name, sizeof(name), "%s.%s", l->id, what);
	fd = openat(l->dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd < 0 || fchmod(fd, 0644) < 0 || fd_write_all(fd, p, n) < 0)
		return err_sys(e, "cannot write '%s' in '%s'", name, l->path);
	return 0;
}

int ledger_file(const struct ledger *l, const char *what, const char *text, struct err *e)
{
	return ledger_bytes(l, what, text, strlen(text), e);
}

void ledger_making(struct ledger *l, bool making)
{
	const char word = making ? MAKING : QUIET;

	/* Without the word an entry is kept a little longer or shorter: no reason to fail. */
	if (l->fd >= 0)
		(void)!pwrite(l->fd, &word, 1, 0);
	l->making = making;
}

static void forget(int dir, const char *id)
{
	char name[64];

	for (size_t i = 0; i < ARRAY_LEN(extra_files); i++) {
		(void)snprintf(name, sizeof(name), "%.32s.%s", id, extra_files[i]);
		(void)unlinkat(dir, name, 0);
	}
	work_remove(dir, id);
	(void)unlinkat(dir, id, 0);
}

void ledger_close(struct ledger *l)
{
	if (l->dir >= 0 && l->fd >= 0 && !l->making)
		forget(l->dir, l->id);
	ledger_leave(l);
}

void ledger_leave(struct ledger *l)
{
	l->fd = fd_close(l->fd);
	l->dir = fd_close(l->dir);
}

/* ---- removing by label ---- */

static void filter(struct buf *b, const char *id, const char *nonce)
{
	CLEANUP(buf) struct buf text = BUF_INIT(1024);

	buf_printf(&text, "{\"label\":[\"" DOCKER_LABEL_RUN "=%s\",\"" DOCKER_LABEL_NONCE "=%s\"]}",
		   id, nonce);
	engine_escape(b, buf_str(&text));
}

static int remove_one(struct engine *g, const char *kind, const char *id, struct err *e)
{
	CLEANUP(engine_answer) struct engine_answer a = { 0 };
	char path[256];
	struct engine_call q = { .method = "DELETE", .path = path };

	(void)snprintf(path, sizeof(path), "/%s/%.100s%s", kind, id,
		       str_eq(kind, "containers") ? "?force=1&v=1" : "");
	if (engine_ask(g, &q, &a, e) < 0)
		return -e->code;
	if (a.status < 300 || a.status == 404)
		return 0;
	return err_set(e, ERR_UNAVAILABLE, EBUSY, "the engine does not remove %s: %s", path,
		       a.message);
}

static int remove_listed(struct engine *g, const char *kind, const char *query, struct err *e)
{
	CLEANUP(engine_answer) struct engine_answer a = { 0 };
	struct engine_call q = { .method = "GET", .path = query };
	int r;

	if (engine_ask(g, &q, &a, e) < 0)
		return -e->code;
	if (a.status != 200)
		return err_set(e, ERR_UNAVAILABLE, EIO, "the engine does not list %s: %s", kind,
			       a.message);
	r = (int)jread_count(a.json);
	for (size_t i = 0; i < jread_count(a.json); i++) {
		const char *id = jread_str(jread_at(a.json, i), "Id");

		if (id && remove_one(g, kind, id, e) < 0)
			r = -e->code;
	}
	return r;
}

/* Removes what the labels find, and looks again: somebody else's removal may be under way. */
static int remove_kind(struct engine *g, const char *kind, const char *query, struct err *e)
{
	int r = 0;

	for (int i = 0; i < REMOVE_TRIES; i++) {
		r = remove_listed(g, kind, query, e);
		if (r != -EBUSY)
			return r;
		(void)poll(NULL, 0, REMOVE_WAIT_MS);
	}
	return r;
}

int remove_by_label(struct engine *g, const char *id, const char *nonce, struct err *e)
{
	CLEANUP(buf) struct buf b = BUF_INIT(2048);
	int containers, networks;

	buf_puts(&b, "/containers/json?all=1&filters=");
	filter(&b, id, nonce);
	containers = remove_kind(g, "containers", buf_str(&b), e);
	b.len = 0;
	buf_puts(&b, "/networks?filters=");
	filter(&b, id, nonce);
	networks = remove_kind(g, "networks", buf_str(&b), e);
	return containers < 0 || networks < 0 ? -e->code : containers + networks;
}

/* ---- the sweep ---- */

static bool is_id(const char *name)
{
	return strlen(name) == 32 && strspn(name, "0123456789abcdef") == 32;
}

/* true when nothing of the run is left, or will be. */
static bool tidy_run(const char *id, char *text, time_t age)
{
	CLEANUP(engine) struct engine g = { 0 };
	char *socket = strchr(text, '\n'), *nonce = text + 1, *end, device[16];
	struct err e = { 0 };
	int r;

	if (!socket)
		return true;
	*socket++ = '\0';
	end = strchr(socket, '\n');
	if (!end || strspn(nonce, "0123456789abcdef") != strlen(nonce))
		return true;
	*end = '\0';
	(void)snprintf(device, sizeof(device), "brig%.10s", id);
	bridge_firewall_remove(device);
	/* An engine that is down keeps its containers: the entry waits for it. */
	if (engine_open_at(socket, &g, &e) < 0)
		return false;
	r = remove_by_label(&g, id, nonce, &e);
	return r > 0 || (r == 0 && (text[0] != MAKING || age > MAKING_SECONDS));
}

static void tidy_entry(int dir, const char *id)
{
	CLEANUP(fd) int fd = openat(dir, id, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	char text[ENTRY_MAX];
	struct stat st;
	time_t age;
	ssize_t n;

	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 || fstat(fd, &st) < 0)
		return;
	n = pread(fd, text, sizeof(text) - 1, 0);
	if (n < 0)
		return;
	text[n] = '\0';
	age = time(NULL) - st.st_mtime;
	if (tidy_run(id, text, age) || age > KEPT_SECONDS)
		forget(dir, id);
}

void docker_sweep(void)
{
	char path[4096];
	CLEANUP(fd) int base = -1;
	int fd, left = SWEEP_MAX;
	DIR *d;

	if (state_path(path, sizeof(path)) < 0)
		return;
	base = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	fd = base < 0 ? -1 : openat(base, FOLDER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	d = fd < 0 ? NULL : fdopendir(fd);
	for (struct dirent *en; d && left && (en = readdir(d));)
		if (is_id(en->d_name)) {
			tidy_entry(dirfd(d), en->d_name);
			left--;
		}
	if (d)
		(void)closedir(d);
}
