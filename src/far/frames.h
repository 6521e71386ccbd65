/* SPDX-License-Identifier: Apache-2.0 */
/* far/frames.h - the commands of a sandbox behind one pair of byte streams.
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
	FRAMES_PIECE = 16384,  /* bytes of a frame at most */
	FRAMES_WINDOW = 65536, /* bytes on their way in one direction of one channel */
	FRAMES_CHANNELS = 3,   /* of a command: what comes behind its order (supervisor.h) */
	FRAMES_OUT = 10 << 20, /* bytes that wait to be sent: words, and data while there is room */
	FRAMES_POLLS = 2 + COMMANDS_MAX * FRAMES_CHANNELS,
};

enum frames_kind {
	/* Of channels; only frames.c sees them. */
	FRAMES_DATA = 1,
	FRAMES_END,    /* no more data will come */
	FRAMES_GONE,   /* nobody reads any more */
	FRAMES_CREDIT, /* so many bytes were taken: uint32_t */
	/* The owners'. */
	FRAMES_WANT, /* struct pod_want, or whatever both sides agree on */
	FRAMES_ANSWER,
	FRAMES_ORDER,  /* a piece of an order (order.h) */
	FRAMES_EXEC,   /* that was all of it: struct frames_exec */
	FRAMES_SIGNAL, /* uint32_t */
	FRAMES_RESIZE, /* two uint16_t: rows, columns */
	FRAMES_SAID,   /* struct frames_said */
	FRAMES_KINDS
};

/* The frame's head; numbers as the machines have them, which the first frame finds out. */
struct frames_head {
	uint32_t size; /* of what follows */
	uint32_t command;
	uint8_t kind, channel;
	uint16_t spare;
};

struct frames_exec {
	uint8_t channels; /* how many */
	uint8_t inwards;  /* bits: what the command reads */
	uint8_t tty, files;
	uint8_t alone; /* it ends with all it started */
	uint8_t spare[3];
	uint16_t rows, cols;
};

/* A word of a supervisor (supervisor.h). */
struct frames_said {
	uint32_t said;
	int32_t status;
	int32_t code, kind; /* of an error */
	uint32_t oom;       /* the kernel has killed something for want of memory */
	uint32_t pids;      /* there were too many processes, and all were ended */
	char what[384], hint[256];
};

struct frames_channel {
	int fd;          /* -1: closed */
	bool sends;      /* read here, written there; else the other way */
	bool quiet;      /* of one that sends: nothing was there when it was last looked at */
	bool ending;     /* of one that receives: to be closed once all is written */
	uint32_t credit; /* sends: bytes that there is room for. Receives: bytes that may come */
	char *data;      /* receives: FRAMES_WINDOW bytes, of which len from at on wait */
	uint32_t at, len;
};

struct frames_command {
	uint32_t number; /* 0: nobody has this place */
	struct frames_channel channels[FRAMES_CHANNELS];
};

struct frames; /* opaque: large */

/* A frame of the owners'; the payload is borrowed. Negative: it makes no sense, and that ends it.
 */
typedef int frames_hear_fn(void *arg, const struct frames_head *h, const void *payload);

/* Both descriptors are borrowed and not to block. NULL: no memory. */
struct frames *frames_new(int from, int to, frames_hear_fn *hear, void *arg);
struct frames *frames_free(struct frames *c); /* closes the channels */

/* Queues a frame. 0, -ENOBUFS: too much waits, -E2BIG. */
int frames_say(struct frames *c, enum frames_kind kind, uint32_t command, const void *p, size_t n);

/* Room for a command; NULL: there is none, or the number is taken. */
struct frames_command *frames_begin(struct frames *c, uint32_t number);
struct frames_command *frames_find(struct frames *c, uint32_t number);
/* The descriptor is taken over, and will not block. 0 or -errno. */
int frames_open(struct frames_command *k, size_t channel, int fd, bool sends);
void frames_end(struct frames_command *k); /* closes what is open, and gives the place back */

/* Is all that was there on its way, the last time that somebody looked? Since look_again, only if
 * somebody has. */
void frames_look_again(struct frames_command *k);
bool frames_drained(const struct frames_command *k);
bool frames_closed(const struct frames_command *k);  /* no channel that sends is open */
bool frames_flushed(const struct frames_command *k); /* all that came is written */

/* What to wait for, at most FRAMES_POLLS; then, with what poll has said, everything that can be
 * done now. 0, or -errno when the conversation is over: -EPIPE, or -EPROTO for nonsense. */
size_t frames_polls(struct frames *c, struct pollfd *p);
int frames_turn(struct frames *c, const struct pollfd *p, size_t n);
