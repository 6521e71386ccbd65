/* SPDX-License-Identifier: Apache-2.0 */
/* backend/docker/opener.c - brig-door: opens the door of a container that does not exist yet.
 *
 *     connect to the guard -> hear which sockets are wanted -> open the door -> pass them on
 *       -> stay until the guard hangs up
 *
 * Runs as the only process of a container of its own, whose network namespace the sandbox is put
 * into afterwards, and has no use for anything else in there. It must stay until then: an engine
 * joins the network of running containers only. Linked statically, because the image around it is
 * anybody's. */
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "backend/docker/docker.h"
#include "backend/kit/door.h"
#include "base/fd.h"

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

/* Ends in the namespace it began in. */
static int open_door(const struct door_want *w, int *fds, struct err *e)
{
	CLEANUP(fd) int guest = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);

	if (!is_closed())
		return err_set(
			e, ERR_UNAVAILABLE, ENOTSUP,
			"the engine gave the door's container a network: nothing is started");
	if (guest < 0 || unshare(CLONE_NEWNET) < 0)
		return err_sys(e, "cannot set the door up");
	return door_open(w, guest, fds, e);
}

static void answer(int guard, const struct door_want *w)
{
	struct door_answer a = { .size = sizeof(a) };
	int fds[DOOR_SOCKETS_MAX];
	bool opened = open_door(w, fds, &a.err) == 0;

	(void)fd_send(guard, &a, sizeof(a), fds, opened ? w->n : 0);
	for (size_t i = 0; opened && i < w->n; i++)
		(void)fd_close(fds[i]);
}

int main(void)
{
	CLEANUP(fd) int guard = reach_guard();
	struct door_want w;
	char end;

	if (guard < 0)
		return 1;
	if (recv(guard, &w, sizeof(w), 0) != (ssize_t)sizeof(w) || w.n > DOOR_SOCKETS_MAX)
		return 2;
	answer(guard, &w);
	while (recv(guard, &end, 1, 0) < 0 && errno == EINTR)
		;
	return 0;
}
