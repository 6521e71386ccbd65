/* SPDX-License-Identifier: Apache-2.0 */
/* proc/supervisor.h - the protocol between brig and the process that supervises its commands.
 *
 * init of native and bwrap, the guards of none and the guard of docker all speak this, each over
 * one SEQPACKET socketpair that nothing inside can reach; so do that guard and the gate of a
 * container that stays open, over a line of their own. Fixed structs, descriptors beside them
 * where a word says so; both ends are of one build. Nothing is allocated: safe between clone and
 * exec. */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/err.h"
#include "proc/order.h"

enum supervisor_said {
	SUPERVISOR_NOTE,    /* text for the user */
	SUPERVISOR_DOOR,    /* under network proxy, before the command: the door's sockets come
			     * along */
	SUPERVISOR_IMAGE,   /* of a container, before the command: what its image runs by itself, in
			     * a file that comes along: the folder, the words, each with its end */
	SUPERVISOR_AGENT,   /* of a container, before the command: agent_socket.h comes along */
	SUPERVISOR_READY,   /* ... or it waits for whoever makes the door from outside. Of a gate,
			     * on its line: it is the gate, and text is its secret */
	SUPERVISOR_FAILED,  /* the command was not started; err says why */
	SUPERVISOR_BEGINS,  /* the next thing is the command: from here on it may have run, whatever
			     * else is said. Descriptors may come along */
	SUPERVISOR_STARTED, /* it runs. From init without descriptors: nothing can keep this word
			     * back */
	SUPERVISOR_TERMINAL, /* of a command that was asked for with one: its master comes along */
	SUPERVISOR_SOCKETS,  /* what was asked for by ASK_SOCKETS: those that could be made come
			      * along */
	SUPERVISOR_PAUSED,   /* of a container: what was asked for by ASK_PAUSE is done, or err says
			      * why not */
	SUPERVISOR_USAGE,    /* what was asked for by ASK_USAGE */
	SUPERVISOR_EXITED,   /* the command ended, and it alone; status is its wait status */
	SUPERVISOR_ENDED,    /* nothing of the command is left */
	SUPERVISOR_LOST,     /* a supervisor was killed or asked to exit by someone else, and then
			      * everything was ended: how the command would have ended is unknown */
};

/* What a sandbox used; only its first process knows. */
struct supervisor_usage {
	uint64_t written; /* bytes, by children that were reaped */
	uint64_t held;    /* bytes in objects of System V */
	uint64_t tasks;   /* at the command's end, with it; 0: not asked for */
};

/* What an engine said of its container. */
struct supervisor_container {
	int exit_code;        /* of ENDED; a signal's death is 128 and its number */
	bool ended;           /* the engine told the exit code */
	bool oom, pids, disk; /* limits that were hit */
	bool user_ns, podman; /* of STARTED */
	bool moved;           /* of STARTED: the workspace is at WORKSPACE_PLACE after all */
	bool by_policy, node; /* of STARTED: a policy closes its network, but for its own node */
	bool no_seccomp;      /* of STARTED: its kernel has no filters, and is not ours */
	bool never_ran;       /* of ENDED: err says why the command could not be executed */
	unsigned unenforced;  /* of STARTED: bits 1 << enum limit the engine did not take */
	int32_t first;        /* of STARTED, if it stays open: its first process, as the kernel
			       * numbers it for us; 0: that cannot be seen */
};

struct supervisor_msg {
	enum supervisor_said said;
	uint32_t command; /* which one; COMMAND_FIRST, or the number that ASK_EXEC gave it */
	int status;       /* a wait status */
	int landlock;     /* of BEGINS: ABI obtained */
	bool unlocked;    /* of BEGINS and STARTED: its mounts are not locked */
	unsigned fds;     /* of BEGINS: which descriptors are attached, in the supervisor's order */
	bool left;        /* of ENDED and LOST: some descendant would not die in time */
	uint64_t at;      /* when, on the monotonic clock, in microseconds; 0: not said */
	uint64_t started; /* of EXITED: when it was executed, if that was not said before; else 0 */
	struct supervisor_usage usage;
	struct supervisor_container container;
	struct err err;
	char text[512]; /* of NOTE; of a container's STARTED: the image's digest */
};

enum {
	COMMAND_FIRST = 0,  /* the one that a sandbox was started with, or an open one itself */
	COMMANDS_MAX = 256, /* of an open sandbox at a time, with what they have left running */
};

enum supervisor_asks {
	ASK_GO,     /* what was to be done outside is done: go on */
	ASK_SIGNAL, /* for the command's process group; SIGKILL: for all there is of it */
	ASK_USAGE,
	ASK_EXEC, /* one more command, under a number that none has had: its order, its output, its
		   * errors and, if it has any, its input come along as descriptors. With a
		   * terminal, which is made inside, the order alone. To init a short order comes
		   * behind the request instead, and is no descriptor */
	ASK_SOCKETS, /* lend.h */
	ASK_PAUSE,   /* of a container: all of it stands still (signal is 1), or goes on (0) */
	ASK_PROCESS, /* SIGCONT for one process inside, whose number is `command`; 0: for every
		      * reaper, which an ordinary user's monitor does not see */
};

struct supervisor_request {
	enum supervisor_asks asks;
	uint32_t command;
	int signal;
	bool tty;   /* of ASK_EXEC */
	bool files; /* of ASK_EXEC: an operation on files (files.h) in place of a command; behind
		     * the order come its ends */
	unsigned short rows, cols;
};

/* A request with as much of an order as there is. */
struct supervisor_packet {
	struct supervisor_request ask;
	char order[ORDER_SHORT];
};

static_assert(offsetof(struct supervisor_packet, order) == sizeof(struct supervisor_request),
	      "no gap");
