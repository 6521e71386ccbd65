/* SPDX-License-Identifier: Apache-2.0 */
/* backend/docker/guard.h - the parts of the guard; nobody else includes this. */
#pragma once

#include <sys/socket.h>

#include "backend/docker/docker.h"
#include "backend/docker/gate/gate.h"
#include "backend/kit/limits/disk.h"

#define NONCE_HEX 32

#define GUARD_DOOR_SUFFIX "-door" /* of the helper's name */
#define GUARD_LOOK "-look"        /* of the one that the image is looked at in */

enum {
	DOOR_FDS = DOOR_SOCKETS_MAX + 1,
	GUARD_BUNDLES = 6,
	GUARD_PATH_MAX = 4096,
	CONTAINER_MAX = 80
};
enum { WORK_PATH_MAX = GUARD_PATH_MAX + 64 };

/* A command of an open sandbox, from the request for it to the gate's word that it has ended. */
struct guard_command {
	uint32_t number;     /* COMMAND_FIRST: a free place */
	uint64_t give_up_at; /* when it was killed: by then it has ended, or all ends; 0: it was not
			      */
};

enum hit { HIT_PIDS, HIT_MEMORY, HITS };

/* Of network proxy and bridge; see docker_door.c. */
struct guard_door {
	char container[CONTAINER_MAX]; /* of the helper; "" until it was made */
	char helper[GUARD_PATH_MAX];   /* the program */
	char image[80];                /* with that program alone */
	int listener, line;            /* where it reaches us, and the connection; -1: none */
	int fds[DOOR_FDS];             /* until they are handed over */
	size_t n;
	int routes; /* its routing socket, where there are members; -1: none */
	const char *bundles[GUARD_BUNDLES]; /* that the image has */
	size_t bundle_count;
};

struct guard {
	const struct guard_start *s;
	const struct backend_plan *plan;
	struct engine engine;
	struct image image;
	struct bridge bridge;
	struct guard_door door;
	char work[WORK_PATH_MAX]; /* where the engine finds the workspace; "": at its place */
	char home[WORK_PATH_MAX]; /* and the kept HOME */
	struct ledger ledger;
	char nonce[NONCE_HEX + 1];
	char container[CONTAINER_MAX]; /* its id; "" until it was made */
	bool no_cgroups;               /* the engine keeps no limit, whatever it says */
	bool started;                  /* the engine said so */
	bool paused;                   /* likewise */
	bool unfit;                    /* the image does not let the workspace be where it is to */
	bool moved;                    /* it is elsewhere, therefore */
	bool told_pull;                /* that the image is being fetched */
	char gate[GUARD_PATH_MAX];     /* the program that is first inside */
	char gate_inside[48];          /* where: nobody can foresee it */
	bool same_kernel;              /* inside as here */
	bool no_filter;                /* it has none, and the command is under none */
	bool unlocked;                 /* its mounts come apart when it ends */
	char secret[GATE_SECRET + 1];  /* by which it says that nothing was executed */
	int listener, line;            /* of an open sandbox: for its gate, and to it; -1: none */
	struct ucred inside;           /* the gate's, as the host counts */
	struct guard_command commands[COMMANDS_MAX];
	int attach;         /* the hijacked stream; -1: at its end */
	struct buf early;   /* what came on it, not yet looked at */
	struct demux demux; /* where in it that is */
	struct client *wait;
	int hits[HITS];    /* counters of the container's control group; -1: not to be had */
	bool look_at_hits; /* again and again: nobody wakes us when they move */
	int64_t pid;       /* of the container's init, as the engine counts; 0: unknown */
	struct disk disk;  /* of writes.c, as are: */
	int proc;          /* of the container; -1: not yet */
	uint64_t seen_at;  /* when all of it was */
	bool look_at_writes;
	struct supervisor_msg end; /* what is known of the end so far */
};

/* An error that another process has told, fit to be told on. */
void guard_take_words(struct err *to, const struct err *from);

/* What the image runs by itself, to brig. */
int guard_tell_image(const struct guard *g, struct err *e);

/* Both return true when brig is gone, or has said to end it all. */
bool guard_hears(struct guard *g, int *signal);
bool guard_note(struct guard *g, const char *text);

int guard_set_up(struct guard *g, struct err *e); /* set_up.c: to the started container */
/* Makes the container brig-ID with this end of its name; its id goes to `container`. */
typedef void body_fn(const struct backend_plan *p, const struct body_run *r, struct json *j);
int guard_create(struct guard *g, const char *suffix, body_fn *body, char container[CONTAINER_MAX],
		 struct err *e);

/* targets.c: refuses an image with a link where something will be mounted, and finds the bundles
 * of certificates that it has. */
int targets_check(struct guard *g, struct err *e);

/* gate.c: the program; that all in the container is as it was asked for; the word to begin. */
int gate_find(struct guard *g, struct err *e);
int gate_pass(struct guard *g, struct err *e);
int gate_go(struct guard *g, struct err *e);

/* line.c: a socket that a container is shown as the run's file of that name. */
int guard_listen(const struct guard *g, const char *what, int *ret, struct err *e);
/* Of an open sandbox: before its container is made, and when its gate has answered. */
int line_listen(struct guard *g, struct err *e);
int line_take(struct guard *g, struct err *e);
/* To the gate; -errno when it cannot be reached. */
int line_pass_on(struct guard *g, const struct supervisor_request *r, const int *fds, size_t n);
/* Does one that was killed not end? */
bool line_is_late(const struct guard *g);
bool line_waits(const struct guard *g); /* for the end of one that was killed */
/* What the gate says, to brig; false when it is gone. */
bool line_hear(struct guard *g);
void line_leave(struct guard *g);

/* work.c: before the container is made, and before it is started. */
int work_show(struct guard *g, struct err *e);
int work_check(struct guard *g, struct err *e);

/* own_root.c: gives the folders of a writable root to the user inside, while the gate waits. false:
 * they are root's, as the image has them. */
bool own_root(const struct guard *g);

/* helper.c: finds or makes the image that the helper starts from, and compares it. */
int helper_image(struct guard *g, struct err *e);

/* bridge.c: closes all that is near, before the command begins; and what came later. */
int bridge_close(struct guard *g, const struct door_answer *a, struct err *e);
void bridge_follow(struct guard *g); /* when its descriptor is readable */
void bridge_lost(struct guard *g);   /* the helper has ended, or says something unasked */

/* docker_door.c, in this order. With a router the helper stays until the end. */
int door_write_files(const struct guard *g, struct err *e);
int door_begin(struct guard *g, struct err *e);     /* makes and starts the helper */
int door_wait(struct guard *g, struct err *e);      /* until the door is open */
int door_hand_over(struct guard *g, struct err *e); /* the sockets to brig; the helper ends */
void door_leave(struct guard *g);                   /* the same on the way out */
void guard_serve(struct guard *g);                  /* serve.c: to its end */
void guard_kill(struct guard *g, int signal);
void guard_pause(struct guard *g, bool on); /* and tells brig what came of it */
void guard_resize(struct guard *g);         /* to the size of our end's terminal */
void guard_watch_hits(struct guard *g);     /* at once after the start: a short run is soon over */
void guard_read_hits(struct guard *g);
void guard_watch_writes(struct guard *g);
void guard_read_writes(struct guard *g);
/* Removes all there is; the ledger's entry stays if something could not be, or may yet appear.
 * Returns whether nothing is left. */
bool guard_clean(struct guard *g);
