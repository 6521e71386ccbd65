/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/service.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/text/cleanup.h"
#include "base/text/num.h"
#include "base/text/str.h"

#define FIRST_FD 3

static bool is_listening(int fd)
{
	struct sockaddr_un a = { 0 };
	socklen_t n = sizeof(a), m = sizeof(int);
	int listens = 0;

	return getsockname(fd, (struct sockaddr *)&a, &n) == 0 && a.sun_family == AF_UNIX &&
	       getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &m) == 0 && listens;
}

int service_socket(void)
{
	const char *pid = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
	uint64_t v;

	if (!pid || num_count(pid, &v) < 0 || v != (uint64_t)getpid() || !count ||
	    !str_eq(count, "1") || !is_listening(FIRST_FD) ||
	    fcntl(FIRST_FD, F_SETFD, FD_CLOEXEC) < 0 || fcntl(FIRST_FD, F_SETFL, O_NONBLOCK) < 0)
		return -1;
	return FIRST_FD;
}

void service_notify(const char *text)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	size_t n = path ? strlen(path) : 0;
	CLEANUP(fd) int fd = -1;

	if (n < 2 || n >= sizeof(a.sun_path) || (path[0] != '/' && path[0] != '@'))
		return;
	memcpy(a.sun_path, path, n);
	if (path[0] == '@')
		a.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd >= 0)
		(void)sendto(fd, text, strlen(text), MSG_NOSIGNAL, (const struct sockaddr *)&a,
			     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n));
}
