/* SPDX-License-Identifier: Apache-2.0 */
/* cli/sandbox/follow.h - a stream of the daemon's that goes on with the next daemon.
 *
 * A daemon that was killed has left its commands and what they wrote to their monitors: the next
 * one says it from any byte, or event, on. Blocks, at most for FOLLOW_PATIENCE_S where there is no
 * daemon. */
#pragma once

#include "base/bytes/json.h"
#include "base/text/err.h"
#include "daemon/client/daemon_client.h"

enum { FOLLOW_PATIENCE_S = 5, FOLLOW_TRIES = 4 };

struct follow {
	struct daemon_client *d;
	bool own; /* d is ours to free */
	struct sse sse;
	uint64_t next;  /* of a command's output: the first byte that was not heard yet */
	uint64_t since; /* when this connection began */
	unsigned tries; /* connections in a row that brought nothing */
	bool ended;     /* its last event was heard */
};

/* The client is borrowed, and its stream has begun. */
void follow_begin(struct follow *f, struct daemon_client *d, size_t event_max);
void follow_done(struct follow *f);

/* As daemon_client_event; 0: whoever speaks has ended without a last word, and -errno with *e where
 * the connection broke: follow_again may go on, if follow_broken says so. */
int follow_event(struct follow *f, uint64_t deadline, struct err *e);
bool follow_broken(const struct follow *f, int r);
/* The next daemon, asked for the rest at `target`. *e is what broke, and stays where nobody comes
 * in time, or has anything to say four times in a row; else it is cleared. */
int follow_again(struct follow *f, const char *target, struct err *e);

/* What an event says of a command's output that was not heard before: how many bytes of *data,
 * which is the caller's to free, from *from on. */
ssize_t follow_output(struct follow *f, const struct jread *v, char **data, const char **from,
		      struct err *e);

/* A daemon: the one that listens, or in place of one that was killed another, which is started as
 * for any command. One that was stopped is waited for, as in an upgrade, and not started. */
int follow_connect(struct daemon_client **ret, struct err *e);
