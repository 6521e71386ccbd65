/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/agent_socket.h"

#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/files/fd.h"

#define BACKLOG 16

int agent_socket_make(const char *path, struct err *e)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	CLEANUP(fd) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	(void)snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(fd, BACKLOG) < 0)
		return err_sys(e, "cannot make '%s' inside", path);
	return TAKE_FD(fd);
}

static int agent_socket_option(int fd, int name)
{
	socklen_t n = sizeof(int);
	int value = -1;

	return getsockopt(fd, SOL_SOCKET, name, &value, &n) < 0 ? -1 : value;
}

bool agent_socket_is(int fd)
{
	return agent_socket_option(fd, SO_DOMAIN) == AF_UNIX &&
	       agent_socket_option(fd, SO_TYPE) == SOCK_STREAM &&
	       agent_socket_option(fd, SO_ACCEPTCONN) == 1;
}
