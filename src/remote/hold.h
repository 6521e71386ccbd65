/* SPDX-License-Identifier: Apache-2.0 */
/* remote/hold.h - a sandbox of this machine that a brig on another host keeps open over ssh.
 *
 * The session that opens it is brig-hold: it has the sandbox, and listens on a socket in brig's own
 * state. Each command's session is brig-attach: it hands its three streams over and waits for the
 * report. Neither outlives its session: brig-hold ends the sandbox when its input does, and a
 * command when the brig-attach that asked for it is gone.
 *
 * SEQPACKET, fixed structs, descriptors beside them where a word says so. Only who lives in the
 * same user and pid namespace is listened to (peer.h). */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/text/err.h"
#include "brig.h"

#define HOLD_STATE "hold" /* the folder of the sockets, in brig's state */

enum { HOLD_VERSION = 1, HOLD_NAME_SIZE = 33 };

enum hold_asks {
	HOLD_EXEC,   /* comes with an order (proc/order.h), input, output and errors */
	HOLD_SIGNAL, /* value: its number; SIGKILL ends what the command has left, too */
	HOLD_SIZE,   /* rows, cols: of the command's terminal */
	HOLD_ASKS
};

struct hold_ask {
	uint32_t version, asks;
	uint32_t command; /* which one, as the other side numbers them; from 1 on */
	uint32_t value;
	uint64_t timeout; /* of HOLD_EXEC: milliseconds; 0: none */
	uint16_t rows, cols;
	uint8_t tty;
};

enum hold_says {
	HOLD_ENDED,   /* comes with the report: a file with the object of --json */
	HOLD_DONE,    /* the signal, or the size, is on its way */
	HOLD_UNKNOWN, /* there is no such command, or the words are another version's */
};

struct hold_say {
	uint32_t version, says;
};

/* brig-hold: opens the sandbox, writes what it is like to standard output as one line of JSON, and
 * serves until its input ends, a signal comes or the sandbox has ended. `name` is the socket's. */
int hold_serve(brig_request *q, const char *name, brig_result **ret, struct brig_error *e);

/* brig-attach: one command in the sandbox behind `name`, with the caller's own three streams; its
 * report goes to `report`. */
struct order;
int hold_exec(const char *name, const struct hold_ask *q, const struct order *o, int report,
	      struct err *e);
/* A signal or a size for a command. Does not wait long. */
int hold_tell(const char *name, const struct hold_ask *q, struct err *e);
