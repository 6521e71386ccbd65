/* SPDX-License-Identifier: Apache-2.0 */
/* backend/docker/opener.c - brig-door: makes the network of a container that does not exist yet.
 *
 *     connect to the guard -> hear what is wanted -> open the door, or set up the router -> pass
 * its sockets on -> close what the guard names -> stay until the guard hangs up -> cut the cable
 *
 * Runs in a container of its own, whose network namespace the sandbox is put into afterwards, and
 * is the only file in there but for the guard's socket. It must stay until then: an engine joins
 * the network of running containers only. Linked statically, because there is nothing around it. */
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "backend/docker/docker.h"
#include "backend/kit/net/door_net.h"
#include "backend/kit/net/members.h"
#include "backend/kit/net/router.h"
#include "base/files/fd.h"
#include "base/sys/wait.h"

static int reach_guard(void)
{
	const struct sockaddr_un to = { .sun_family = AF_UNIX, .sun_path = DOOR_SOCKET_INSIDE };
	CLEANUP(fd) int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (const struct sockaddr *)&to, sizeof(to)) < 0)
		return -1;
	return TAKE_FD(fd);
}

/* An engine that knows less than its API may have connected us to something. */
static bool is_closed(void)
{
	CLEANUP(fd) int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct if_nameindex *all = if_nameindex();
	bool closed = fd >= 0 && all;

	for (struct if_nameindex *i = all; closed && i->if_index; i++) {
		struct ifreq r = { 0 };

		memcpy(r.ifr_name, i->if_name, strnlen(i->if_name, sizeof(r.ifr_name) - 1));
		closed = ioctl(fd, SIOCGIFFLAGS, &r) == 0 &&
			 (r.ifr_flags & IFF_LOOPBACK || !(r.ifr_flags & IFF_UP));
	}
	if_freenameindex(all);
	return closed;
}

/* Shared by both processes; so are the descriptors. */
struct opening {
	struct door_room room;
	struct router_cable cable;
	struct err err;
};

/* A network namespace of its own takes SYS_ADMIN, which is root on the machine, or a user namespace
 * that owns it, which is nothing. Whoever made that one has every say in it from outside. */
static int build_room(const struct door_want *w, struct opening *o)
{
	if (unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0) {
		(void)err_sys(&o->err, "the door's container cannot make a network of its own");
		return err_hint(&o->err, "user namespaces must be allowed: sysctl "
					 "user.max_user_namespaces, "
					 "kernel.unprivileged_userns_clone");
	}
	return door_room(w, &o->room, &o->err);
}

static int find_cable(struct opening *o)
{
	CLEANUP(fd) int here = rtnl_open();

	return here < 0 ? err_errno(&o->err, here, "cannot look at the network")
			: router_find(here, &o->cable, &o->err);
}

static int open_door(const struct door_order *w, struct opening *o)
{
	pid_t builder;
	int status = -1;

	if (!w->router && !is_closed())
		return err_set(
			&o->err, ERR_UNAVAILABLE, ENOTSUP,
			"the engine gave the door's container a network: nothing is started");
	if (w->router && find_cable(o) < 0)
		return -o->err.code;
	if (!w->want.n) /* members alone */
		return 0;
	builder = (pid_t)syscall(SYS_clone, CLONE_FILES | SIGCHLD, NULL, NULL, NULL, NULL);
	if (builder == 0)
		_exit(build_room(&w->want, o) < 0);
	while (builder > 0 && waitpid(builder, &status, 0) < 0 && errno == EINTR)
		;
	if (status != 0)
		return o->err.code ? -o->err.code : err_sys(&o->err, "cannot set the door up");
	return w->router ? router_lay(&o->room, &o->cable, &o->err) : door_cable(&o->room, &o->err);
}

/* Whoever has a say in both networks lays the cable: we, if the members' router came along. Else
 * our routing socket goes to the guard, who has it. */
static int join_members(const struct door_order *w, int router, int *routes, struct opening *o)
{
	CLEANUP(fd) int own = w->member ? rtnl_open() : -1;

	if (!w->member)
		return 0;
	if (own < 0)
		return err_errno(&o->err, own, "cannot look at the network");
	if (router >= 0)
		return members_join(router, own, w->place, &o->err);
	*routes = TAKE_FD(own);
	return 0;
}

static void opener_answer(int guard, const struct door_order *w, int router, struct opening *o)
{
	struct door_answer a = { .size = sizeof(a) };
	CLEANUP(fd) int routes = -1;
	int fds[DOOR_SOCKETS_MAX + 1];
	bool opened = open_door(w, o) == 0 && join_members(w, router, &routes, o) == 0;

	a.err = o->err;
	a.cable = o->cable.index;
	a.other = o->cable.other;
	memcpy(fds, o->room.fds, w->want.n * sizeof(*fds));
	fds[w->want.n] = routes;
	(void)fd_send(guard, &a, sizeof(a), fds, opened ? w->want.n + (routes >= 0) : 0);
	for (size_t i = 0; i < DOOR_SOCKETS_MAX; i++)
		o->room.fds[i] = fd_close(o->room.fds[i]);
}

static void close_more(int guard, struct opening *o)
{
	struct door_closing m;
	ssize_t n;

	while ((n = recv(guard, &m, sizeof(m), 0)) > 0 || (n < 0 && errno == EINTR)) {
		struct door_answer a = { .size = sizeof(a) };

		if (n < 0)
			continue;
		if (n != (ssize_t)sizeof(m) || m.n > DOOR_CLOSING_MAX)
			return;
		(void)router_close(o->room.rtnl, &o->cable, m.v, m.n, &a.err);
		if (fd_send(guard, &a, sizeof(a), NULL, 0) < 0)
			return;
	}
}

static int opener_serve(int guard, const struct door_order *w, int router)
{
	struct opening *o =
		mmap(NULL, sizeof(*o), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (o == MAP_FAILED)
		return 3;
	o->room.rtnl = -1;
	for (size_t i = 0; i < DOOR_SOCKETS_MAX; i++)
		o->room.fds[i] = -1;
	opener_answer(guard, w, router, o);
	close_more(guard, o);
	if (w->router && o->room.rtnl >= 0)
		router_cut(o->room.rtnl, &o->cable);
	door_room_done(&o->room);
	return 0;
}

int main(void)
{
	CLEANUP(fd) int guard = reach_guard(), router = -1;
	struct door_order w;
	size_t given = 1;

	if (guard < 0)
		return 1;
	if (wait_fd(guard, POLLIN, 0) < 0 ||
	    fd_recv(guard, &w, sizeof(w), &router, &given) != (ssize_t)sizeof(w) ||
	    w.size != sizeof(w) || w.want.n > DOOR_SOCKETS_MAX)
		return 2;
	return opener_serve(guard, &w, router);
}
