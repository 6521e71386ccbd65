/* SPDX-License-Identifier: Apache-2.0 */
/* far/frames.h - the commands of a sandbox behind one pair of byte streams.
 *
 * Where no descriptor can be passed, as into a pod, both sides have ends of their own: what is read
 * from one goes over as frames and is written to the other. Each direction of each channel has a
 * window: a side sends no more than the other has room for, so a reader that stops makes its writer
 * wait and nothing else. What is not about channels is handed to the owner, in order.
 *
 * A line may be a file that one side writes and the other reads later: then no room is
 * granted, and a reader whose channel is full reads no further.
 *
 * Neither side believes the other: sizes, numbers and windows are checked, and what breaks a rule
 * ends the conversation. Blocks nowhere. */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/sys/loop.h"
#include "base/text/buf.h"
#include "proc/supervisor.h"

enum {
	FRAMES_PIECE = 16384,  /* bytes of a frame at most */
	FRAMES_WINDOW = 65536, /* bytes on their way in one direction of one channel; of a line that
				* says nothing else */
	FRAMES_CHANNELS =
		3, /* of a command: the descriptors that follow its order (supervisor.h) */
	FRAMES_OUT = 10 << 20, /* bytes that wait to be sent: words, and data while there is room */
	FRAMES_POLLS = 2 + COMMANDS_MAX * FRAMES_CHANNELS,
};

enum frames_kind {
	/* Of channels; only frames.c sees them. */
	FRAMES_DATA = 1,
	FRAMES_END,    /* no more data will come */
	FRAMES_GONE,   /* its reader has gone */
	FRAMES_CREDIT, /* so many bytes were taken: uint32_t */
	/* The owners'. */
	FRAMES_WANT, /* struct pod_want, or whatever both sides agree on */
	FRAMES_ANSWER,
	FRAMES_ORDER,  /* a piece of an order (order.h) */
	FRAMES_EXEC,   /* that was all of it: struct frames_exec */
	FRAMES_SIGNAL, /* uint32_t */
	FRAMES_RESIZE, /* two uint16_t: rows, columns */
	FRAMES_SAID,   /* struct frames_said */
	/* ... where another brig is at the far end (far/far_request.h, far/far_job.h). To it: */
	FRAMES_SETTINGS, /* pieces of a request */
	FRAMES_OPTIONS,
	FRAMES_WORDS,
	FRAMES_VARIABLES,
	FRAMES_CODE,
	FRAMES_GO,   /* that was all of the request */
	FRAMES_PING, /* either side is still there */
	/* From it: */
	FRAMES_READY,  /* JSON: version, host, job */
	FRAMES_REPORT, /* a piece of what is to be said of a command, or of the sandbox: JSON */
	FRAMES_BEGAN,  /* it runs, or is open */
	FRAMES_ENDED,  /* it has ended; nothing more is said of it */
	FRAMES_KINDS
};

/* What a line is like. */
struct frames_line {
	int from, to;      /* borrowed, not to block; -1: nothing comes, nothing is sent */
	struct loop *loop; /* watches all of it; NULL: the owner does, by frames_polls */
	uint32_t window;   /* 0: FRAMES_WINDOW */
	size_t most;       /* bytes that may wait to be sent; 0: FRAMES_OUT */
	bool newlines;     /* one behind each frame: Slurm holds a line back until its end */
	bool unanswered;   /* no room is granted: it is a file, or was one */
};

/* The frame's head, in the machine's own byte order: the first frame shows whether both have the
 * same. */
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
	uint64_t timeout; /* milliseconds; 0: none, or it is kept on this side alone */
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
	struct loop_watch w; /* first; its fd is -1: closed */
	struct loop *loop;   /* of the line; NULL: none */
	bool sends;          /* read here, written there; else the other way */
	bool quiet;          /* of one that sends: nothing was there when it was last looked at */
	bool ending;         /* of one that receives: to be closed once all is written */
	bool left;           /* of one that receives: its reader has gone */
	uint32_t credit; /* sends: bytes that there is room for. Receives: bytes that may come */
	uint64_t most;   /* sends: bytes that go over yet; what comes behind them is dropped */
	char *data;      /* receives: a window's bytes, of which len from at on wait */
	uint32_t at, len;
};

struct frames_command {
	uint32_t number; /* 0: this place is free */
	struct frames *line;
	struct frames_channel channels[FRAMES_CHANNELS];
};

struct frames; /* opaque: large */

/* A frame of the owners'; the payload is borrowed. Negative: it makes no sense, and that ends it.
 */
typedef int frames_hear_fn(void *arg, const struct frames_head *h, const void *payload);

/* Both descriptors are borrowed and not to block. NULL: no memory. */
struct frames *frames_new(int from, int to, frames_hear_fn *hear, void *arg);
struct frames *frames_on(const struct frames_line *l, frames_hear_fn *hear, void *arg);
struct frames *frames_free(struct frames *c); /* closes the channels */

/* Queues a frame. 0, -ENOBUFS: too much waits, -E2BIG. */
int frames_say(struct frames *c, enum frames_kind kind, uint32_t command, const void *p, size_t n);
/* ... as many as are needed, at least one. */
int frames_say_all(struct frames *c, enum frames_kind kind, uint32_t command, const void *p,
		   size_t n);
/* What waits to be sent; borrowed until something else is done. */
const char *frames_unsent(const struct frames *c, size_t *n);

/* Room for a command; NULL: there is none, or the number is taken. */
struct frames_command *frames_begin(struct frames *c, uint32_t number);
struct frames_command *frames_find(struct frames *c, uint32_t number);
/* The descriptor is taken over, and will not block. 0 or -errno. */
int frames_open(struct frames_command *k, size_t channel, int fd, bool sends);
void frames_end(struct frames_command *k); /* closes what is open, and gives the place back */

/* Was everything on its way when the channels were last looked at? After frames_look_again only a
 * new look counts. */
void frames_look_again(struct frames_command *k);
bool frames_drained(const struct frames_command *k);
bool frames_closed(const struct frames_command *k);  /* no channel that sends is open */
bool frames_flushed(const struct frames_command *k); /* all that came is written */

/* What to wait for, at most FRAMES_POLLS; then, with what poll has said, everything that can be
 * done now. A line on a loop has its watches there: p is NULL, and the owner calls this after each
 * turn of the loop. 0, or -errno when no more can be read or sent: -EPIPE, or -EPROTO for
 * nonsense; what came is still written. */
size_t frames_polls(struct frames *c, struct pollfd *p);
int frames_turn(struct frames *c, const struct pollfd *p, size_t n);

/* Of a line that is not answered: it was read to its end. */
bool frames_said_all(const struct frames *c);
/* 0; or why nothing more is read: -EPIPE, -EPROTO. What could not be sent is another matter. */
int frames_deaf(const struct frames *c);
/* Nothing more is sent: the caller may close that end of the line. */
void frames_hush(struct frames *c);

/* The first frame of these bytes, for a caller that only looks on. How many it takes; 0: more are
 * needed; -EPROTO: it is none. */
ssize_t frames_look(const char *data, size_t n, bool newlines, struct frames_head *ret,
		    const char **payload);

/* For a caller that passes a line with newlines on: has a frame of this kind gone by? */
struct frames_glance {
	enum frames_kind kind;
	bool seen, broken; /* broken: what came is no frame, and nothing more is looked at */
	size_t len;
	char held[sizeof(struct frames_head) + FRAMES_PIECE + 1];
};
void frames_glance(struct frames_glance *g, const void *p, size_t n);
