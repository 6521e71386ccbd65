/* SPDX-License-Identifier: Apache-2.0 */
/* backend/docker/docker_door.c - the door of a container, or its router, in the guard.
 *
 *     helper made and started -> it reached us -> it sent the sockets -> the sandbox has joined its
 *     network -> we hang up, and it ends; with a router we do so at the end
 *
 * The helper's container is made first and owns the network namespace; the sandbox's is put into it
 * when the door is open. So nothing of the image runs before, and the sandbox's container needs no
 * program of ours, no capability and no moment of waiting. */
#include <fcntl.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "backend/docker/guard.h"
#include "backend/kit/net/members.h"
#include "base/files/fd.h"
#include "base/sys/clock.h"
#include "base/sys/wait.h"
#include "proc/host_find.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif
#define OPEN_MS 60000 /* a container's start, on a machine that has other work */
#define NO_RESOLV "# nobody answers here\n"
#define LOOK_MS 250 /* whether the helper still lives */
#define ENGINE_HINT                                                                                \
	"the engine must run on this machine's own kernel, its default runtime be runc or crun"

#define TUN_HINT                                                                                   \
	"as root: modprobe tun; chmod 0666 /dev/net/tun, which this engine's user cannot open; "   \
	"or "                                                                                      \
	"use --network proxy"

bool docker_has_door(const struct backend_plan *p)
{
	return p->box->door || p->box->network == NETWORK_BRIDGE || p->members;
}

static bool has_router(const struct guard *g)
{
	return g->plan->box->network == NETWORK_BRIDGE;
}

/* Members alone need no socket of it. */
static struct door_want docker_door_wanted(const struct guard *g)
{
	return g->plan->box->door ? *g->plan->box->door
	       : has_router(g)    ? DOOR_WANT_NAMES
				  : (struct door_want){ 0 };
}

int door_write_files(const struct guard *g, struct err *e)
{
	const struct box_plan *b = g->plan->box;
	const char *name = g->plan->tune.hostname ? g->plan->tune.hostname : b->hostname;
	const char *more = g->plan->members ? g->plan->members : "";
	const char *hosts = arena_printf(b->arena, DOOR_HOSTS "%s", name, more);
	const char *names = b->network != NETWORK_NONE ? DOOR_RESOLV
			    : g->plan->members         ? MEMBERS_RESOLV
						       : NO_RESOLV;

	if (!hosts)
		return err_nomem(e);
	if (ledger_file(&g->ledger, "hosts", hosts, e) < 0 ||
	    ledger_file(&g->ledger, "resolv", names, e) < 0)
		return -e->code;
	return b->door ? ledger_file(&g->ledger, "roots", b->ops[b->roots_op].data, e) : 0;
}

/* ---- the helper ---- */

static int start_helper(struct guard *g, struct err *e)
{
	CLEANUP(engine_answer) struct engine_answer a = { 0 };
	char path[128];
	const struct engine_call q = { .method = "POST", .path = path, .ms = ENGINE_SLOW_MS };

	(void)snprintf(path, sizeof(path), "/containers/%s/start", g->door.container);
	ledger_say(&g->ledger, LEDGER_STARTING);
	if (engine_ask(&g->engine, &q, &a, e) < 0)
		return -e->code;
	ledger_say(&g->ledger, LEDGER_QUIET);
	if (a.status >= 300)
		return err_refuse(e, ERR_UNAVAILABLE, EIO,
				  strstr(a.message, "/dev/net/tun") ? TUN_HINT : ENGINE_HINT,
				  "the engine cannot start the door's container: %.250s",
				  a.message);
	return 0;
}

/* Another version of brig may have removed the image that was just found. */
static int make_helper(struct guard *g, struct err *e)
{
	int r = -ENOENT;

	for (int i = 0; i < 2 && r == -ENOENT; i++) {
		r = helper_image(g, e);
		if (r == 0)
			r = guard_create(g, GUARD_DOOR_SUFFIX, docker_door_body, g->door.container,
					 e);
	}
	return r;
}

static const char *what_for(const struct guard *g)
{
	return has_router(g)        ? "network bridge"
	       : g->plan->box->door ? "network proxy"
				    : "a sandbox with companions";
}

int door_begin(struct guard *g, struct err *e)
{
	struct err missing;
	int r = host_find_own(DOOR_HELPER, g->door.helper, &missing);

	if (r == -ENOENT) {
		(void)err_set(e, ERR_UNAVAILABLE, ENOENT,
			      "%s on docker needs the program '%s', which is not installed",
			      what_for(g), DOOR_HELPER);
		return err_hint(e, "%s", missing.hint);
	}
	if (r < 0) {
		*e = missing;
		return r;
	}
	if (guard_listen(g, "door", &g->door.listener, e) < 0 || make_helper(g, e) < 0)
		return -e->code;
	return start_helper(g, e);
}

/* ---- the sockets ---- */

static int helper_ended(struct guard *g, struct err *e)
{
	CLEANUP(engine_answer) struct engine_answer a = { 0 };
	char path[128];
	const struct engine_call q = { .method = "GET", .path = path };
	const struct jread *state;

	(void)snprintf(path, sizeof(path), "/containers/%s/json", g->door.container);
	if (engine_ask(&g->engine, &q, &a, e) < 0)
		return -e->code;
	state = jread_get(a.json, "State");
	if (a.status == 200 && jread_bool(state, "Running"))
		return 0;
	return err_refuse(e, ERR_UNAVAILABLE, ECHILD, ENGINE_HINT,
			  "the door's container ended (%d) without opening it",
			  (int)jread_int(state, "ExitCode", -1));
}

/* Until the descriptor is readable; gives up with the helper, with brig and with the clock. */
static int wait_readable(struct guard *g, int fd, uint64_t until, struct err *e)
{
	while (wait_fd(fd, POLLIN, clock_after(LOOK_MS)) < 0) {
		if (guard_note(g, NULL))
			return err_set(e, ERR_INTERNAL, ECANCELED, "the run was given up");
		if (helper_ended(g, e) < 0)
			return -e->code;
		if (clock_us() > until)
			return err_set(e, ERR_UNAVAILABLE, ETIMEDOUT,
				       "the door's container does not answer");
	}
	return 0;
}

static int docker_door_option(int fd, int name)
{
	int v = -1;
	socklen_t n = sizeof(v);

	return getsockopt(fd, SOL_SOCKET, name, &v, &n) < 0 ? -1 : v;
}

/* Which network a socket belongs to; 0 where the kernel does not say (before 5.14). */
static uint64_t network_of(int fd)
{
	uint64_t v = 0;
	socklen_t n = sizeof(v);

	return getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &v, &n) < 0 ? 0 : v;
}

static bool is_wanted(int fd, const struct door_socket *want)
{
	int type = want->kind == DOOR_DNS_PACKET ? SOCK_DGRAM : SOCK_STREAM;
	union {
		struct sockaddr any;
		struct sockaddr_in6 six;
	} at = { 0 };
	socklen_t n = sizeof(at);

	if (docker_door_option(fd, SO_TYPE) != type ||
	    docker_door_option(fd, SO_ACCEPTCONN) != (type == SOCK_STREAM) ||
	    getsockname(fd, &at.any, &n) < 0)
		return false;
	/* The port is at the same place in both. */
	return (at.any.sa_family == AF_INET || at.any.sa_family == AF_INET6) &&
	       ntohs(at.six.sin6_port) == want->port;
}

/* The worker will take whatever comes through them for the sandbox's: none may be of this machine's
 * own network, all of one. */
static int check_sockets(const struct guard_door *d, const struct door_want *w, struct err *e)
{
	CLEANUP(fd) int own = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool right = d->n == w->n && own >= 0;

	for (size_t i = 0; right && i < d->n; i++)
		right = is_wanted(d->fds[i], &w->sockets[i]) &&
			network_of(d->fds[i]) == network_of(d->fds[0]) &&
			(!network_of(own) || network_of(d->fds[i]) != network_of(own));
	return right ? 0
		     : err_set(e, ERR_INTERNAL, EPROTO,
			       "the door's container did not send the door's sockets");
}

/* ---- members ---- */

/* Who has a say in both networks, the container's and the router's? Root has it, and whoever made
 * the user namespace that a rootless engine lives in; else the helper, whose capability is root's.
 */
static bool has_say(const struct guard *g)
{
	return geteuid() == 0 || g->engine.rootless;
}

static int join_members(struct guard *g, struct err *e)
{
	const struct seat *seat = g->s->seat;
	CLEANUP(fd) int own = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int protocol = g->door.routes < 0 ? -1 : docker_door_option(g->door.routes, SO_PROTOCOL);

	if (!seat || !has_say(g))
		return 0;
	if (docker_door_option(g->door.routes, SO_DOMAIN) != AF_NETLINK ||
	    protocol != NETLINK_ROUTE || own < 0 ||
	    (network_of(own) && network_of(g->door.routes) == network_of(own)))
		return err_set(e, ERR_INTERNAL, EPROTO,
			       "the door's container did not send its routing socket");
	return members_join(seat->router, g->door.routes, seat->place, e);
}

static int hear_helper(struct guard *g, struct err *e)
{
	struct guard_door *d = &g->door;
	const struct door_want w = docker_door_wanted(g);
	struct door_answer a = { 0 };
	ssize_t n;

	d->n = ARRAY_LEN(d->fds);
	n = fd_recv(d->line, &a, sizeof(a), d->fds, &d->n);
	if (n != (ssize_t)sizeof(a) || a.size != sizeof(a))
		return err_refuse(e, ERR_UNAVAILABLE, EPROTO,
				  "install brig and its programs together",
				  "the program '%s' is not of this version of brig", d->helper);
	if (a.err.code) {
		guard_take_words(e, &a.err);
		return err_wrap(e, has_router(g)        ? "network bridge is not available"
				   : g->plan->box->door ? "the door could not be opened"
							: "companions are not available");
	}
	if (g->s->seat && has_say(g) && d->n)
		d->routes = d->fds[--d->n];
	if (check_sockets(d, &w, e) < 0 || join_members(g, e) < 0)
		return -e->code;
	d->routes = fd_close(d->routes);
	return has_router(g) ? bridge_close(g, &a, e) : 0;
}

int door_wait(struct guard *g, struct err *e)
{
	const struct seat *seat = g->s->seat;
	bool lays = seat && !has_say(g); /* the helper does */
	struct door_order w = { .size = sizeof(w),
				.router = has_router(g),
				.member = seat != NULL,
				.place = seat ? seat->place : 0,
				.want = docker_door_wanted(g) };
	uint64_t until = clock_us() + (uint64_t)OPEN_MS * 1000;
	int r;

	if (wait_readable(g, g->door.listener, until, e) < 0)
		return -e->code;
	g->door.line = accept4(g->door.listener, NULL, NULL, SOCK_CLOEXEC);
	g->door.listener = fd_close(g->door.listener);
	r = g->door.line < 0 ? -errno
			     : fd_send(g->door.line, &w, sizeof(w), lays ? &seat->router : NULL,
				       lays ? 1 : 0);
	if (r < 0)
		return err_errno(e, r, "cannot reach the door's container");
	if (wait_readable(g, g->door.line, until, e) < 0)
		return -e->code;
	return hear_helper(g, e);
}

static void drop_sockets(struct guard *g)
{
	for (size_t i = 0; i < g->door.n; i++)
		g->door.fds[i] = fd_close(g->door.fds[i]);
	g->door.n = 0;
}

int door_hand_over(struct guard *g, struct err *e)
{
	const struct supervisor_msg m = { .said = SUPERVISOR_DOOR };
	int r = g->door.n ? fd_send(g->s->control, &m, sizeof(m), g->door.fds, g->door.n) : 0;

	drop_sockets(g);
	if (!has_router(g))
		door_leave(g);
	return r < 0 ? err_errno(e, r, "cannot pass the door's sockets on") : 0;
}

void door_leave(struct guard *g)
{
	drop_sockets(g);
	g->door.routes = fd_close(g->door.routes);
	g->door.listener = fd_close(g->door.listener);
	g->door.line = fd_close(g->door.line);
}
