/* SPDX-License-Identifier: Apache-2.0 */
/* proc/carry.h - the commands of a sandbox behind one pair of byte streams.
 *
 * Where no descriptor can be passed, as into a pod, both sides have ends of their own: what is read
 * from one goes over as frames and is written to the other. Each direction of each channel has a
 * window: nobody is sent more than it has room for, so a reader that stops makes the writer wait
 * and nothing else. What is not about channels is handed to the owner, in order.
 *
 * Neither side believes the other: sizes, numbers and windows are checked, and what breaks a rule
 * ends the conversation. Blocks nowhere. */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proc/supervisor.h"

enum {
	CARRY_PIECE = 16384,  /* bytes of a frame at most */
	CARRY_WINDOW = 65536, /* bytes on their way in one direction of one channel */
	CARRY_CHANNELS = 3,   /* of a command: what comes behind its order (supervisor.h) */
	CARRY_OUT = 10 << 20, /* bytes that wait to be sent: words, and data while there is room */
	CARRY_POLLS = 2 + COMMANDS_MAX * CARRY_CHANNELS,
};

enum carry_kind {
	/* Of channels; only carry.c sees them. */
	CARRY_DATA = 1,
	CARRY_END,    /* no more data will come */
	CARRY_GONE,   /* nobody reads any more */
	CARRY_CREDIT, /* so many bytes were taken: uint32_t */
	/* The owners'. */
	CARRY_WANT, /* struct pod_want, or whatever both sides agree on */
	CARRY_ANSWER,
	CARRY_ORDER,  /* a piece of an order (order.h) */
	CARRY_EXEC,   /* that was all of it: struct carry_exec */
	CARRY_SIGNAL, /* uint32_t */
	CARRY_RESIZE, /* two uint16_t: rows, columns */
	CARRY_SAID,   /* struct carry_said */
	CARRY_KINDS
};

/* The frame's head; numbers as the machines have them, which the first frame finds out. */
struct carry_head {
	uint32_t size; /* of what follows */
	uint32_t command;
	uint8_t kind, channel;
	uint16_t spare;
};

struct carry_exec {
	uint8_t channels; /* how many */
	uint8_t inwards;  /* bits: what the command reads */
	uint8_t tty, files;
	uint8_t alone; /* it ends with all it started */
	uint8_t spare[3];
	uint16_t rows, cols;
};

/* A word of a supervisor (supervisor.h). */
struct carry_said {
	uint32_t said;
	int32_t status;
	int32_t code, kind; /* of an error */
	uint32_t oom;       /* the kernel has killed something for want of memory */
	uint32_t pids;      /* there were too many processes, and all were ended */
	char what[384], hint[256];
};

struct carry_channel {
	int fd;          /* -1: closed */
	bool sends;      /* read here, written there; else the other way */
	bool quiet;      /* of one that sends: nothing was there when it was last looked at */
	bool ending;     /* of one that receives: to be closed once all is written */
	uint32_t credit; /* sends: bytes that there is room for. Receives: bytes that may come */
	char *data;      /* receives: CARRY_WINDOW bytes, of which len from at on wait */
	uint32_t at, len;
};

struct carry_command {
	uint32_t number; /* 0: nobody has this place */
	struct carry_channel channels[CARRY_CHANNELS];
};

struct carry; /* opaque: large */

/* A frame of the owners'; the payload is borrowed. Negative: it makes no sense, and that ends it.
 */
typedef int carry_hear_fn(void *arg, const struct carry_head *h, const void *payload);

/* Both descriptors are borrowed and not to block. NULL: no memory. */
struct carry *carry_new(int from, int to, carry_hear_fn *hear, void *arg);
struct carry *carry_free(struct carry *c); /* closes the channels */

/* Queues a frame. 0, -ENOBUFS: too much waits, -E2BIG. */
int carry_say(struct carry *c, enum carry_kind kind, uint32_t command, const void *p, size_t n);

/* Room for a command; NULL: there is none, or the number is taken. */
struct carry_command *carry_begin(struct carry *c, uint32_t number);
struct carry_command *carry_find(struct carry *c, uint32_t number);
/* The descriptor is taken over, and will not block. 0 or -errno. */
int carry_open(struct carry_command *k, size_t channel, int fd, bool sends);
void carry_end(struct carry_command *k); /* closes what is open, and gives the place back */

/* Is all that was there on its way, the last time that somebody looked? Since look_again, only if
 * somebody has. */
void carry_look_again(struct carry_command *k);
bool carry_drained(const struct carry_command *k);
bool carry_closed(const struct carry_command *k);  /* no channel that sends is open */
bool carry_flushed(const struct carry_command *k); /* all that came is written */

/* What to wait for, at most CARRY_POLLS; then, with what poll has said, everything that can be done
 * now. 0, or -errno when the conversation is over: -EPIPE, or -EPROTO for nonsense. */
size_t carry_polls(struct carry *c, struct pollfd *p);
int carry_turn(struct carry *c, const struct pollfd *p, size_t n);
