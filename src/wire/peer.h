/* SPDX-License-Identifier: Apache-2.0 */
/* wire/peer.h - who is at the other end of the daemon's socket.
 *
 * A guest of a sandbox has the caller's own uid: the uid alone tells nothing. A peer is taken when
 * it is of the daemon's user (or root) and lives in the daemon's own user and pid namespace. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct peer {
	bool ours;
	pid_t pid;
	uid_t uid;
	const char *why; /* it is not ours; a constant */
};

/* Never fails: who cannot be told is not ours. */
void peer_look(int sock, struct peer *ret);
/* The other way round, for who calls: why what listens there is not to be spoken to, or NULL. It
 * may be the system's own, which cannot be looked into, but nothing that lives in a namespace
 * below. */
const char *peer_distrust(int sock);
