/* SPDX-License-Identifier: Apache-2.0 */
/* proc/confine.h - what a process gives up before it reads a hostile byte, by its role.
 *
 * One table (confine.c) says for each role which files it may open, which ports it may reach, which
 * system calls are left and who it is afterwards; docs/design/confine.md has it in words. Every
 * role but that of commands is also without a core, a tracer, further processes and privileges.
 * Fails when a layer that this kernel has cannot be put on: whoever calls must not go on then. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/err.h"

enum confine_role {
	CONFINE_COMMAND,   /* in a sandbox: files, abstract sockets and signals; all else is the
			      backend's */
	CONFINE_WORKER,    /* the door: connects, binds nothing, opens nothing */
	CONFINE_KEEPER,    /* signs for the door; makes no socket */
	CONFINE_SIGNER,    /* in front of an ssh-agent: accepts */
	CONFINE_TLS,       /* brig-tls: accepts, and makes pairs */
	CONFINE_SENDER,    /* brig-send: one port, trusted certificates */
	CONFINE_SPEAKER,   /* brig-speaker: one port, names, trusted certificates */
	CONFINE_REGISTRY,  /* brig-registry: any port, names, trusted certificates */
	CONFINE_UNPACKER,  /* makes files below one folder, without more memory than it has */
	CONFINE_BUNDLER,   /* brig-unpack: ... with memory */
	CONFINE_LAYERER,   /* brig-unpack of an image's layer: ... and links, whiteouts, times */
	CONFINE_INSPECTOR, /* brig-unpack that only looks: no file at all */
	CONFINE_WALKER,    /* looks through trees: reads below some folders */
	CONFINE_ROLES
};

enum { CONFINE_FILES = 16384 }; /* descriptors that a server has at most */

/* What the table leaves to the caller; what a role has no use for is ignored. NULL: nothing. */
struct confine_want {
	const char *const *writable; /* COMMAND: all that may be changed */
	size_t writable_count;
	uint64_t no_sockets; /* COMMAND: a bit for each of the first of them, in which no socket may
				be made; all that have no bit are like these, if there are any */
	int procs;           /* COMMAND: one more procfs, which nothing inside can reach; or -1 */
	int folder;          /* UNPACKER, BUNDLER, LAYERER */
	const int *looks;    /* WALKER: the folders */
	size_t look_count;
	uint16_t port;  /* SENDER, SPEAKER */
	uint64_t bytes; /* to which an open file may grow; not of COMMAND */
};

/* Of this thread and its children; call it while there is one thread. No allocation. */
int confine(enum confine_role role, const struct confine_want *want, struct err *e);

/* At the start, before anything is read: dies with its parent, cannot be traced. */
int confine_early(struct err *e);

int landlock_abi(void); /* 0, with errno: the kernel has none */
