/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/daemon.h - brigd: one process for one state folder, from its lock to its last word. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/text/err.h"

struct daemon_options {
	const char *listen;                 /* ADDR:PORT; NULL: the Unix socket alone */
	const char *token_file;             /* wanted with `listen` */
	const char *tls_cert, *tls_key;     /* of what listens there; NULL: in clear, on loopback */
	const char *ceiling;                /* a brig.yaml; NULL: the defaults */
	const char *socket;                 /* NULL: daemon_socket_path */
	int ready_fd;                       /* is told when it takes calls, by a byte; -1: nobody */
	void (*listens)(const char *where); /* is told each address; may be NULL */
};

/* Returns when it was told to stop. Its sandboxes stay. */
int daemon_run(const struct daemon_options *o, struct err *e);

/* Where the owner's socket is: /run/brig for root, else $XDG_RUNTIME_DIR/brig, else
 * /run/user/UID/brig, else the folder "run" of the state. Never in /tmp. `make`: the folder is made
 * where it is not there. */
int daemon_socket_path(char *path, size_t n, bool make, struct err *e);
/* The token file that is used when none is named. */
int daemon_token_path(char *path, size_t n, struct err *e);
