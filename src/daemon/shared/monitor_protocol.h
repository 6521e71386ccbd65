/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/shared/monitor_protocol.h - how a daemon and the monitors of its sandboxes speak.
 *
 * SEQPACKET, fixed structs, descriptors beside them where a word says so. The daemon that starts a
 * monitor has a socket pair with it; a later one connects to the socket with the sandbox's id in
 * the folder of all sockets. A monitor says MONITOR_HELLO first, and where the sandbox stands with
 * it. Of another version only that word and MONITOR_STOP are understood: their fields stay where
 * they are. */
#pragma once

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/err.h"
#include "daemon/shared/sandbox_id.h"

enum {
	MONITOR_VERSION = 2,
	MONITOR_CLIENTS = 8,
	MONITOR_SECRETS = 16,
	MONITOR_REASON = 24,
	MONITOR_BY = 96
};

/* In the folder of a sandbox, which is its owner's alone. The folder itself is locked as long as
 * there is a monitor, from before it is started. */
#define MONITOR_SPEC "spec"     /* a brig.yaml as JSON */
#define MONITOR_SOCKET "socket" /* of a monitor of version 1 */
/* Of a tenant's: what it asked for, and how it has narrowed that since. The daemon's alone. */
#define MONITOR_ASKED "asked"
#define MONITOR_NARROWED "narrowed"
#define MONITOR_STATE "state" /* JSON, the last whole line holds; the daemon's alone to write */
#define MONITOR_FACTS "facts" /* JSON: what the sandbox that was opened is like */
#define MONITOR_FIRST "first" /* of containers: USE_FIRST of each, "-," in front: and our own */
#define MONITOR_ENDED "ended" /* the reason, in one word, for who did not hear of it */
#define MONITOR_WHY "why"     /* ... and a struct err, where there is more to say */
#define MONITOR_LOG "log"     /* what the user should know, line by line */
#define MONITOR_LEFT "left in the workspace: " /* so begin those of its end */
#define MONITOR_EXECS "execs"                  /* a folder: kept.h, one file for each command */
#define MONITOR_COMPANIONS "companions"        /* JSON: how each of them is */
#define MONITOR_DATA "data"                    /* a folder: one for each companion that has data */
#define MONITOR_STORE "store" /* a folder: what the sandbox keeps (model/outcome/store.h) */
#define MONITOR_LAYER "layer" /* the id of the layer over its workspace, where it has one */

enum monitor_asks {
	MONITOR_STOP,  /* value: milliseconds from SIGTERM to SIGKILL */
	MONITOR_BEGIN, /* the first, and once: idle, life; secrets come along: sealed files, each
			* with NAME=VALUE, a variable for credentials that come from one */
	MONITOR_EXEC,  /* an order (proc/order.h) comes along, behind the request or, if that is too
			* little room, as the first descriptor; and, if it has input, both ends of
			* a pipe, the one to read from first. value 1: the sandbox ends with it,
			* before its own end is said */
	MONITOR_SIGNAL, /* value: its number */
	MONITOR_CANCEL,
	MONITOR_INPUT,     /* is answered by MONITOR_GIVES */
	MONITOR_INPUT_END, /* nothing more comes */
	MONITOR_RESIZE,    /* rows, cols */
	MONITOR_HOLD,      /* value: so many listeners; none of them lets the sandbox be idle */
	MONITOR_TIMES,     /* idle, life: as of now */
	MONITOR_PAUSE,
	MONITOR_CONTINUE,
	MONITOR_FILES, /* an operation on files (proc/files/files.h), value: its number. An order
			* comes along, and its ends; the rest is said through them */
	MONITOR_FILES_END, /* value: the number of one that takes too long */
	MONITOR_ANSWER,    /* value: the number of a question, rows: enum run_answer; who gives it
			    * comes along behind the request */
	MONITOR_CODE,      /* as MONITOR_EXEC without input: a call of a context; value 1: of a new
			    * one, in place of what is behind the name */
	MONITOR_ASKS
};

struct monitor_ask {
	uint32_t version, asks;
	uint64_t value;
	char exec[EXEC_ID_SIZE]; /* which one */
	uint16_t rows, cols;
	uint8_t tty;
	uint64_t timeout,
		output;      /* of MONITOR_EXEC, _CODE: milliseconds, bytes; 0: the sandbox's own */
	uint64_t idle, life; /* milliseconds; 0: for ever */
};

enum { MONITOR_ORDER = 4096 };

/* As much of the order as there is. */
struct monitor_packet {
	struct monitor_ask ask;
	char order[MONITOR_ORDER];
};

static_assert(offsetof(struct monitor_packet, order) == sizeof(struct monitor_ask), "no gap");

enum monitor_says {
	MONITOR_HELLO,   /* value: enum monitor_stage */
	MONITOR_OPENED,  /* MONITOR_FACTS is there */
	MONITOR_REFUSED, /* the sandbox could not be opened: err says why, and reason in one word,
			  * if there is one. The last word */
	MONITOR_RUNS, /* the command is executed; or one was, and this is said to a newcomer. Within
		       * milliseconds, or with what comes sooner */
	MONITOR_GREW, /* something was kept of the command */
	MONITOR_DONE, /* ... its end was; reason: the outcome, value: the exit status, with
		       * MONITOR_RAN if this says MONITOR_RUNS as well */
	MONITOR_GIVES,  /* comes with the end to write a command's input to, or without */
	MONITOR_PAUSED, /* err: why not */
	MONITOR_CONTINUED,
	MONITOR_CLOSED,    /* the sandbox is gone; reason: why; err: its own end. The last word */
	MONITOR_COMPANION, /* value: enum companion_state, reason; MONITOR_COMPANIONS has it */
	MONITOR_DENIED,    /* a companion something: reason has the kind, err what and why */
	MONITOR_QUESTION,  /* a name that no rule allows waits: value: the question's number, and
			    * from bit 32 the port; err.what: the host */
	MONITOR_ANSWERED,  /* the same once it is open no longer; reason: the answer, err.hint: by
			    * whom */
};

#define MONITOR_RAN ((uint64_t)1 << 32)

enum monitor_stage { MONITOR_IS_OPENING, MONITOR_IS_OPEN, MONITOR_IS_PAUSED, MONITOR_IS_STOPPING };

enum companion_state {
	COMPANION_STARTING,
	COMPANION_READY,
	COMPANION_FAILED,
	COMPANION_STOPPED,
	COMPANION_STATES
};

struct monitor_say {
	uint32_t version, says;
	uint64_t value;
	char exec[EXEC_ID_SIZE];
	char reason[MONITOR_REASON];
	struct err err;
	char companion[64]; /* its name */
};

/* The sockets of a sandbox. */
struct monitor_ends {
	int client[2], listener, line[2];
};

/* What a daemon starts monitors with. The sockets are made for many at once, in a network of their
 * own: else each start of a run would find all of them when it lists the sockets of the host. */
struct monitors {
	int folder; /* of the sockets, by id; borrowed */
	int low;    /* of host_reserve: there are two descriptors for each sandbox */
	size_t ready;
	struct monitor_ends ends[32];
};

void monitors_init(struct monitors *m, int folder);
void monitors_done(struct monitors *m);

/* The daemon's side: starts one for the sandbox in `folder`, which is the descriptor that holds its
 * lock. *ret is a socket to it, *pidfd the process, a child of ours. Returns when it is executed.
 */
int monitor_start(int folder, struct monitors *m, const char *id, int *ret, int *pidfd,
		  struct err *e);

/* Connects to one that is there, by the name of its socket in a folder. -errno */
int monitor_connect(struct monitors *m, int folder, const char *name, int *ret, int *pidfd);

/* A process that removes what was put aside in the folder of that name, in the folder of all
 * sandboxes, and ends. lost: and what sandboxes have left whose monitor was killed, for which all
 * of them are asked. */
#define MONITOR_ASIDE ".gone"
int monitor_start_tidy(int folder, const struct monitors *m, bool lost, int *pidfd, struct err *e);

/* What a program with this first argument is: it never returns to its own. */
#define MONITOR_NAME "brig-monitor"
int monitor_main(int argc, char **argv);
