/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kubernetes/pod/pod_talk.h - what brig-guard and brig-pod say before the first command.
 *
 *     guard: want ─▶ pod: looks at itself, tries to get out ─▶ answer ─▶ commands (far/frames.h)
 *
 * Fixed forms. The first bytes of both are the same in every version, so that a helper image of
 * another one is told apart; the rest is of one build. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes/sha256.h"
#include "base/text/err.h"
#include "egress/worker_start.h"
#include "model/settings/door_spec.h"
#include "proc/commands.h"

#define POD_MAGIC "brig pod 1"
#define POD_VERSION BRIG_VERSION
/* Variables of the container that closes the network. */
#define POD_ADDRESS "BRIG_POD_ADDRESS"
#define POD_ADDRESS_OF_NODE WORKER_OWN_ADDRESS /* the door closes it, too */

/* Places of the door's container. The first is a volume of its own, the second the command's
 * container has as well, read-only, where DOOR_ROOTS says. */
#define POD_PLAN_FOLDER "/brig-plan"
#define POD_PLAN_KEY "plan"
#define POD_PLAN_FILE POD_PLAN_FOLDER "/" POD_PLAN_KEY
#define POD_TRUST_FOLDER "/etc/ssl/certs"
#define POD_TRUST_ROOTS "ca-certificates.crt" /* what brig-egress trusts */
#define POD_TRUST_ALL "ca-bundle.crt"         /* what commands do: these, and the run's own */

enum {
	POD_TARGETS_MAX = 16,
	POD_MARK = 64,
	POD_REFUSED = 125,
	POD_NUMBER = 32,
	POD_DOOR_COMMAND = 1, /* of the door's line: channel 0 ends it, 1 has its decisions */
	POD_ROOTS_MAX = 8 << 20,
	/* FRAMES_SIGNAL of the door's line: everything leads to it; any other number is said back
	 * behind all that was decided when it came. */
	POD_DOOR_SEEN = 0,
};

struct pod_mark {
	char magic[16], version[32];
	uint32_t size; /* of the whole: another byte order or form shows here */
	uint32_t spare[3];
};

/* An address that must not be reached. */
struct pod_target {
	uint16_t family, port;
	uint8_t address[16];
	uint8_t node; /* it is the pod's own node */
	uint8_t spare[3];
};

struct pod_want {
	struct pod_mark mark;
	uint32_t uid, gid;
	uint32_t files;   /* open ones of a process */
	uint32_t pids;    /* processes and threads; 0: no limit */
	uint8_t profile;  /* enum seccomp_profile */
	uint8_t closed;   /* nothing may be reached */
	uint8_t no_links; /* ... and no device but loopback may be up */
	uint8_t read_only_root;
	uint8_t door; /* everything leads to the door: it says door_number on door_port */
	uint16_t door_port;
	uint8_t door_number[POD_NUMBER];
	uint64_t tmp; /* bytes of each private folder */
	uint32_t targets;
	struct pod_target target[POD_TARGETS_MAX];
};

struct pod_answer {
	struct pod_mark mark;
	uint8_t user_ns; /* ids inside are others than on the node */
	uint8_t seccomp; /* the cluster's own filter was there before brig's */
	uint8_t node;    /* the node alone can be reached */
	uint8_t sized;   /* /tmp is a file system of the size that was asked for */
	uint8_t spare[4];
	struct err err; /* code 0: all is as it was asked for */
};

/* The same for the door's container: what is wanted, then the certificates in pieces of an order.
 */
struct pod_door_want {
	struct pod_mark mark;
	struct door_want door;
	uint32_t roots; /* bytes that follow */
	uint8_t number[POD_NUMBER];
	uint8_t plan[SHA256_SIZE]; /* of POD_PLAN_FILE: a Secret is known by name alone */
};

struct pod_door_answer {
	struct pod_mark mark;
	uint16_t port; /* where it says the number, until POD_DOOR_SEEN comes */
	uint8_t six;   /* both families lead there */
	uint8_t spare[5];
	struct err err;
};

/* pod_check.c, inside: is the container what was asked for? */
int pod_check(const struct pod_want *w, struct pod_answer *a);

/* pod_pids.c, inside: the limit of processes. */
struct pod_pids {
	uint64_t most; /* 0: none */
	uint64_t next; /* look, on the monotonic clock */
	int proc;
	bool hit; /* there were more, and all were ended */
};
int pod_pids_begin(struct pod_pids *p, uint64_t most, struct err *e);
/* Looks, if it is time to; how long until the next time in milliseconds, -1: nothing runs. */
int pod_pids_look(struct pod_pids *p, const struct commands *t);

/* pod_net.c, inside. As root with NET_ADMIN, in the pod's network: takes every device but loopback
 * down, and looks whether a route is left. */
int pod_close_network(struct err *e);
/* Whether it is the pod's own, by the kubelet's word; one that is the node's is not ours. */
int pod_network_is_own(struct err *e);
/* As anybody: is a device but loopback up, can one of the targets be reached? Where devices may be
 * up a policy closes them, some time after the start: it is waited for, and has to last. */
int pod_try_network(const struct pod_want *w, bool *node, struct err *e);
/* Adds the cluster's API server, and who answers for names beside it, to the targets: by the
 * variables that a kubelet gives to every container (NULL: none). */
void pod_add_services(const char *host, const char *port, struct pod_want *w);

/* door_move.c, inside, as root with NET_ADMIN and SYS_ADMIN: takes the pod's device away from it,
 * and leaves it a cable to the door. The caller is where the device is, afterwards. */
struct pod_doorway {
	int fds[DOOR_SOCKETS_MAX]; /* as door_want lists them */
	int proof;                 /* listens in the door's room */
	uint16_t port;             /* ... on this */
	bool six;
};
int pod_open_door(const struct door_want *w, struct pod_doorway *ret, struct err *e);
/* pod_proof.c, inside: does everything lead to the door? */
int pod_try_door(const struct pod_want *w, struct err *e);
/* door_serve.c: the first process of the door's container; never returns. */
_Noreturn void pod_door(void);

/* pod_serve.c, inside: the first process; never returns. */
_Noreturn void pod_serve(void);
