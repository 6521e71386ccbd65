/* SPDX-License-Identifier: Apache-2.0 */
/* base/sys/sockets.h - the unix sockets of this network namespace that are bound to files.
 *
 * The kernel tells the name that the server wrote, which says nothing once the file was renamed,
 * and through its diagnostic socket also which file it is. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/un.h>

#include "base/text/err.h"

struct bound_socket {
	const char *name; /* borrowed for the call */
	bool known;       /* which file it is: */
	dev_t dev;        /* of the file system, as in mountinfo */
	uint32_t ino;     /* the lower half of its number */
	uint32_t number;  /* of the socket itself; 0: unknown */
	bool connected;   /* to another: nobody else reaches it */
};

typedef int sockets_each(void *ctx, const struct bound_socket *b, struct err *e);

/* Every socket, and every connection to it, at least once; `each` ends the list by a negative
 * result. Sets *known: whether the kernel said which files they are. */
int sockets_list(sockets_each *each, void *ctx, bool *known, struct err *e);

/* One answer of the diagnostic socket. Sets *end at the last one. -errno when the kernel refused,
 * *e untouched then; or what `each` returned. */
int sockets_answer(const void *data, size_t n, sockets_each *each, void *ctx, bool *end,
		   struct err *e);

/* The address of a socket in an open folder, to bind it or to connect to it: its path where that is
 * short enough for one. Otherwise it leads through the descriptor, and whoever looks for sockets by
 * their names has to ask every process. */
void socket_address(int folder, const char *name, struct sockaddr_un *ret);
