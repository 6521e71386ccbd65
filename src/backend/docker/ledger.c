/* SPDX-License-Identifier: Apache-2.0 */
/* backend/docker/ledger.c - which runs have something at an engine, so that nothing stays there.
 *
 * One file per run in brig's state folder, locked by the run's guard for as long as that lives. An
 * entry whose lock is free belongs to a guard that was killed, or whose engine had gone away: the
 * next brig removes what it names. A container is the run's only if it carries both labels, the id
 * and a nonce that nobody but the guard and its entry knows. */
#include "backend/docker/ledger.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "backend/docker/guard.h"
#include "backend/kit/protect/journal.h"
#include "base/files/claim.h"
#include "base/files/fd.h"
#include "base/files/state.h"
#include "base/sys/wait.h"
#include "base/text/str.h"

#define FOLDER "docker"
#define SWEEP_MAX 64
#define REMOVE_TRIES 20
#define REMOVE_WAIT_MS 100
#define LOCK_MS 2000
#define MAKING_SECONDS 30   /* that an engine may take to make something nobody waits for */
#define STARTING_SECONDS 10 /* that a runtime may take to start something for no engine */

static const char *const extra_files[] = { "passwd",  "group",  "git",   "ssh",    "known",
					   "seccomp", "code",   "hosts", "resolv", "roots",
					   "door",    "filter", "line" };

/* The entry is a word on what was going on, the nonce, the socket. */
int ledger_open(struct ledger *l, const char *id, const char *nonce, const char *socket,
		struct err *e)
{
	char text[CLAIM_TEXT];
	int n = snprintf(text, sizeof(text), "%c%s\n%s\n", LEDGER_QUIET, nonce, socket);

	l->fd = -1;
	l->word = LEDGER_QUIET;
	(void)snprintf(l->id, sizeof(l->id), "%s", id);
	l->dir = state_open(FOLDER, l->path, sizeof(l->path), e);
	if (l->dir < 0)
		return -e->code;
	l->fd = claim_make(l->dir, id, text, (size_t)n);
	return l->fd < 0 ? err_errno(e, l->fd, "cannot note the run in '%s'", l->path) : 0;
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

void ledger_say(struct ledger *l, enum ledger_word word)
{
	const char c = (char)word;

	/* Without the word an entry is kept a little longer or shorter: no reason to fail. */
	if (l->fd >= 0)
		(void)!pwrite(l->fd, &c, 1, 0);
	l->word = word;
}

static void ledger_forget(int dir, const char *id)
{
	char name[64];

	for (size_t i = 0; i < ARRAY_LEN(extra_files); i++) {
		(void)snprintf(name, sizeof(name), "%.32s.%s", id, extra_files[i]);
		(void)unlinkat(dir, name, 0);
	}
	work_remove(dir, id);
	journal_let_go(id);
	(void)unlinkat(dir, id, 0);
}

bool ledger_close(struct ledger *l)
{
	bool all = l->dir >= 0 && l->fd >= 0 && l->word == LEDGER_QUIET;

	if (all)
		ledger_forget(l->dir, l->id);
	ledger_leave(l);
	return all;
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

static int ledger_remove_one(struct engine *g, const char *kind, const char *id, struct err *e)
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
	if (a.status != 200 || !a.json)
		return err_set(e, ERR_UNAVAILABLE, EIO, "the engine does not list %s: %s", kind,
			       a.message);
	r = (int)jread_count(a.json);
	for (size_t i = 0; i < jread_count(a.json); i++) {
		const char *id = jread_str(jread_at(a.json, i), "Id");

		if (id && ledger_remove_one(g, kind, id, e) < 0)
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
		wait_moment(REMOVE_WAIT_MS);
	}
	return r;
}

/* Nobody else knows the names of a run's containers. */
enum { NAMES = 3, NAME_ROOM = 64 };

static void name_one(char out[NAME_ROOM], const char *id, int which)
{
	static const char *const ends[NAMES] = { "", GUARD_DOOR_SUFFIX, GUARD_LOOK };

	(void)snprintf(out, NAME_ROOM, "brig-%.32s%s", id, ends[which]);
}

static int remove_by_name(struct engine *g, const char *id, struct err *e)
{
	char name[NAME_ROOM];

	for (int i = 0; i < NAMES; i++) {
		name_one(name, id, i);
		if (ledger_remove_one(g, "containers", name, e) < 0)
			return -e->code;
	}
	return 0;
}

/* A Podman that was killed while it made or removed a container may have only half of it, and then
 * lists it never again (files that carry no label) or fails to list anything that the labels match
 * (a record without files). Asked to remove it by name it does. */
static int remove_halves(struct engine *g, const char *id, const char *query, struct err *e)
{
	int r = remove_by_name(g, id, e);

	return r < 0 ? r : remove_kind(g, "containers", query, e);
}

static int remove_by_label(struct engine *g, const char *id, const char *nonce, struct err *e)
{
	CLEANUP(buf) struct buf b = BUF_INIT(2048);
	int containers, networks;

	buf_puts(&b, "/containers/json?all=1&filters=");
	filter(&b, id, nonce);
	containers = remove_kind(g, "containers", buf_str(&b), e);
	if (containers < 0 && g->podman)
		containers = remove_halves(g, id, buf_str(&b), e);
	b.len = 0;
	buf_puts(&b, "/networks?filters=");
	filter(&b, id, nonce);
	networks = remove_kind(g, "networks", buf_str(&b), e);
	return containers < 0 || networks < 0 ? -e->code : containers + networks;
}

int remove_run(struct engine *g, const char *id, const char *nonce, enum ledger_word word,
	       struct err *e)
{
	char name[NAME_ROOM];
	int r = remove_by_label(g, id, nonce, e);

	if (!g->podman)
		return r;
	if (r >= 0 && word == LEDGER_MAKING && remove_by_name(g, id, e) < 0)
		return -e->code;
	for (int i = 0; i < NAMES && word == LEDGER_STARTING; i++) {
		name_one(name, id, i);
		stray_end(name);
	}
	return r;
}

/* ---- the sweep ---- */

/* An answer that was never heard may come true for a while. */
static bool settled(char word, time_t age)
{
	return word == LEDGER_MAKING     ? age > MAKING_SECONDS
	       : word == LEDGER_STARTING ? age > STARTING_SECONDS
					 : true;
}

/* true when nothing of the run is left, or will be. */
static bool tidy_run(const char *id, char *text, time_t age)
{
	CLEANUP(engine) struct engine g = { 0 };
	char *socket = strchr(text, '\n'), *nonce = text + 1, *end;
	struct err e = { 0 };

	if (!socket)
		return true;
	*socket++ = '\0';
	end = strchr(socket, '\n');
	if (!end || strspn(nonce, "0123456789abcdef") != strlen(nonce))
		return true;
	*end = '\0';
	/* An engine that is down keeps its containers: the entry waits for it. */
	if (engine_open_at(socket, &g, &e) < 0)
		return false;
	return remove_run(&g, id, nonce, (enum ledger_word)text[0], &e) >= 0 &&
	       settled(text[0], age);
}

static bool tidy_entry(void *arg UNUSED, const struct claim_lost *c)
{
	if (!tidy_run(c->id, c->text, c->age) && c->age <= CLAIM_KEPT_S)
		return false;
	ledger_forget(c->folder, c->id);
	return true;
}

void ledger_tidy(const char *id)
{
	CLEANUP(fd) int dir = state_find(FOLDER, NULL, 0);

	if (dir >= 0)
		claim_show(dir, id, LOCK_MS, tidy_entry, NULL);
}

void docker_sweep(void)
{
	CLEANUP(fd) int dir = state_find(FOLDER, NULL, 0);

	if (dir >= 0)
		claim_sweep(dir, SWEEP_MAX, tidy_entry, NULL);
}
