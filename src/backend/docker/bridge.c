/* SPDX-License-Identifier: Apache-2.0 */
/* backend/docker/bridge.c - network bridge, in the guard: the cable that the helper's router is
 * connected to, and what is closed in that router.
 *
 *     network made -> helper connected to it -> router set up -> all that this machine is near to
 *       closed -> the command begins; what comes later is closed as it comes -> hung up: cut
 *
 * The helper keeps the routes, because whoever is not root has no say in a container's network; the
 * guard knows what is near, because the helper cannot see this machine's routes. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "backend/docker/guard.h"
#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/sys/wait.h"

#define SET_UP_MS 10000
#define LATER_MS 1000 /* within which something new is closed, or nothing passes any more */
#define ELSEWHERE_HINT                                                                             \
	"run brig where the engine runs, with its network namespace; or use --network proxy"

static void body(const struct bridge *b, const char *id, const char *nonce, struct json *j)
{
	json_object(j);
	json_kstr(j, "Name", b->name);
	json_kstr(j, "Driver", "bridge");
	json_kbool(j, "CheckDuplicate", true);
	json_kbool(j, "EnableIPv6", false);
	json_kobject(j, "Labels");
	json_kstr(j, DOCKER_LABEL_RUN, id);
	json_kstr(j, DOCKER_LABEL_NONCE, nonce);
	json_object_end(j);
	json_object_end(j);
}

int bridge_make(struct engine *g, const char *id, const char *nonce, struct bridge *b,
		struct err *e)
{
	CLEANUP(engine_answer) struct engine_answer a = { 0 };
	CLEANUP(buf) struct buf text = BUF_INIT(4096);
	struct engine_call q = { .method = "POST", .path = "/networks/create" };
	struct json j;

	(void)snprintf(b->name, sizeof(b->name), "brig-%s", id);
	json_init(&j, &text, false);
	body(b, id, nonce, &j);
	q.body = buf_str(&text);
	if (engine_ask(g, &q, &a, e) < 0)
		return -e->code;
	if (a.status < 300)
		return 0;
	b->name[0] = '\0';
	return err_refuse(e, ERR_UNAVAILABLE, EIO,
			  "use --network none, or see the engine's own network settings",
			  "the engine makes no network: %s", a.message);
}

void bridge_remove(struct engine *g, struct bridge *b)
{
	CLEANUP(engine_answer) struct engine_answer a = { 0 };
	char path[128];
	struct engine_call q = { .method = "DELETE", .path = path };
	struct err e;

	b->follow = fd_close(b->follow);
	if (!b->name[0])
		return;
	(void)snprintf(path, sizeof(path), "/networks/%s", b->name);
	/* Podman looks for the cable's end where it put it, not in the router, and then leaves the
	 * bridge. */
	if (engine_ask(g, &q, &a, &e) == 0 && (a.status < 300 || a.status == 404) && g->podman)
		nearby_part(b->port, b->device);
	b->name[0] = '\0';
}

/* ---- where does it lead? ---- */

/* A rootless engine's cable is a process of its own beside it: it leads where that one is. */
static bool is_beside(const struct guard *g)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	struct ucred who = { 0 };
	socklen_t n = sizeof(who);
	struct stat own, other;
	char path[64];
	CLEANUP(fd) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || strlen(g->engine.path) >= sizeof(to.sun_path))
		return false;
	memcpy(to.sun_path, g->engine.path, strlen(g->engine.path) + 1);
	if (connect(fd, (const struct sockaddr *)&to, sizeof(to)) < 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) < 0 || who.pid <= 0)
		return false;
	(void)snprintf(path, sizeof(path), "/proc/%d/ns/net", who.pid);
	return stat(path, &other) == 0 && stat("/proc/self/ns/net", &own) == 0 &&
	       own.st_dev == other.st_dev && own.st_ino == other.st_ino;
}

/* Only then are this machine's routes those behind the cable. */
static int leads_here(struct guard *g, const struct door_answer *a, struct err *e)
{
	g->bridge.port = a->other;
	if (g->engine.rootless ? is_beside(g)
			       : nearby_joined(a->other, a->cable, &g->bridge.device))
		return 0;
	return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP, ELSEWHERE_HINT,
			  "network bridge cannot close this host and its LAN: the engine's network "
			  "is in another namespace than brig");
}

/* ---- closing ---- */

static int hear_closed(const struct guard *g, uint64_t until, struct err *e)
{
	struct door_answer a = { 0 };
	size_t none = 0;

	if (clock_us() >= until || wait_fd(g->door.line, POLLIN, until) < 0)
		return err_set(e, ERR_UNAVAILABLE, ETIMEDOUT, "the router does not answer");
	if (fd_recv(g->door.line, &a, sizeof(a), NULL, &none) != (ssize_t)sizeof(a) ||
	    a.size != sizeof(a))
		return err_set(e, ERR_UNAVAILABLE, ECHILD, "the router is gone");
	if (!a.err.code)
		return 0;
	guard_take_words(e, &a.err);
	return -e->code;
}

/* Those from `first` on. */
static int close_from(const struct guard *g, size_t first, unsigned ms, struct err *e)
{
	const struct nearby *all = &g->bridge.closed;
	uint64_t until = clock_us() + (uint64_t)ms * 1000;

	for (size_t at = first; at < all->n;) {
		struct door_closing m = { .size = sizeof(m) };
		int r;

		while (at < all->n && m.n < DOOR_CLOSING_MAX)
			m.v[m.n++] = all->v[at++];
		r = fd_send(g->door.line, &m, sizeof(m), NULL, 0);
		if (r < 0)
			return err_errno(e, r, "cannot reach the router");
		if (hear_closed(g, until, e) < 0)
			return -e->code;
	}
	return 0;
}

int bridge_close(struct guard *g, const struct door_answer *a, struct err *e)
{
	int r;

	if (leads_here(g, a, e) < 0)
		return -e->code;
	/* Followed first: nothing comes unseen between the two. */
	r = nearby_follow();
	if (r < 0)
		return err_errno(e, r, "cannot follow the routes of this machine");
	g->bridge.follow = r;
	return nearby_read(&g->bridge.closed, e) < 0 ? -e->code : close_from(g, 0, SET_UP_MS, e);
}

/* The helper cuts it when it hears no more of us. It is ended besides, for it may hear nothing; and
 * if that cannot be, the sandbox is. */
static void bridge_cut(struct guard *g, const struct err *why)
{
	CLEANUP(engine_answer) struct engine_answer a = { 0 };
	char path[128], text[sizeof(why->what) + 64];
	const struct engine_call q = { .method = "POST", .path = path };
	struct err ignored;

	g->bridge.follow = fd_close(g->bridge.follow);
	g->door.line = fd_close(g->door.line);
	(void)snprintf(path, sizeof(path), "/containers/%s/kill", g->door.container);
	if ((engine_ask(&g->engine, &q, &a, &ignored) < 0 || a.status >= 300) && a.status != 404 &&
	    a.status != 409)
		guard_kill(g, SIGKILL);
	(void)snprintf(text, sizeof(text), "network bridge was cut: %s", why->what);
	(void)guard_note(g, text);
}

void bridge_follow(struct guard *g)
{
	size_t had = g->bridge.closed.n;
	struct err e = { 0 };

	nearby_heard(g->bridge.follow);
	if (nearby_read(&g->bridge.closed, &e) < 0 || close_from(g, had, LATER_MS, &e) < 0)
		bridge_cut(g, &e);
}

void bridge_lost(struct guard *g)
{
	struct err e = { 0 };

	(void)err_set(&e, ERR_UNAVAILABLE, ECHILD, "the router is gone");
	bridge_cut(g, &e);
}
