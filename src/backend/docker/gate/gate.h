/* SPDX-License-Identifier: Apache-2.0 */
/* backend/docker/gate/gate.h - what guard and gate say to one another.
 *
 *     gate: hello ─▶ guard: want, its mounts ─▶ gate: answer ─▶ guard: go ─▶ the command
 *
 * The gate is the first process of the sandbox's container and its init. It speaks through the
 * container's own streams, before the command has them: there is no socket that the command could
 * find later, and every runtime passes streams on. All of it has a fixed form, and both must be of
 * one: a guard that has run since before an upgrade finds the new gate, and what it says would be
 * read as something else. So the magic changes with the form.
 *
 * For a sandbox that stays open, or has ports to be published, the container is shown a socket
 * besides, the line. The gate reaches the guard through it before it answers, and the guard listens
 * to nobody else from then on; what is said is in proc/supervisor.h. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/text/err.h"

#define GATE_PROGRAM "brig-gate"
#define GATE_MAGIC "brig gate 3" /* another form of anything below: another number */
#define GATE_GO '!'
#define GATE_LINE ".line" /* behind the gate's own path: the socket */

enum {
	GATE_ID = 40,     /* of a boot, or a kernel: see boot_id */
	GATE_SECRET = 32, /* characters */
	GATE_MOUNTS_MAX = 1024,
	GATE_HOSTS = 5,
	GATE_PATH_MAX = 4096,
	GATE_FAILED = GATE_SECRET + 8, /* characters: the secret, then an errno in hex */
	GATE_REFUSED = 125,
};

struct gate_hello {
	char magic[16];
	char boot[GATE_ID]; /* /proc/sys/kernel/random/boot_id; "" where there is none */
};

struct gate_want {
	uint32_t mounts;     /* that follow */
	uint32_t uid, gid;   /* of the command */
	uint8_t any_user;    /* the image says who: these ids do not count */
	uint8_t rootless;    /* the caller's own groups may have come along */
	uint8_t same_kernel; /* devices and inodes mean the same on both sides */
	uint8_t profile;     /* enum seccomp_profile: the filter it loads */
	uint8_t read_only_root;
	uint8_t more_mounts; /* the engine adds what nobody can list: graphics cards */
	uint8_t no_input;
	uint8_t open;               /* there is no command: they come over the line */
	uint8_t line;               /* there is one: also without commands, for ASK_SOCKETS */
	uint8_t agent;              /* an agent's socket goes out over it, first */
	uint8_t lent;               /* it has CAP_SETFCAP, and gives it up */
	uint64_t hosts[GATE_HOSTS]; /* file systems of the host's that nobody may be shown, or 0 */
	uint64_t groups;            /* the one at /sys/fs/cgroup, where nobody may write, or 0 */
	uint64_t users;             /* the guard's user namespace, or 0 */
	char secret[GATE_SECRET];   /* says that the command could not be executed */
};

enum gate_kind { GATE_BIND, GATE_TMPFS, GATE_NULL, GATE_KINDS };

struct gate_mount {
	uint64_t dev, ino; /* of GATE_BIND */
	uint32_t type;     /* S_IFMT bits, likewise */
	uint32_t kind;     /* enum gate_kind */
	uint32_t read_only;
	uint32_t length;          /* of the path with its NUL: no more of it is sent */
	char path[GATE_PATH_MAX]; /* inside */
};

struct gate_answer {
	char magic[16];
	struct err err;    /* code 0: all is as it was asked for */
	uint8_t no_filter; /* ... but another kernel, which has no such filters */
	uint8_t unlocked;  /* ... but its mounts come apart when it ends */
};

/* gate_check.c, inside: is /proc the kernel's, and not a folder of the image? */
bool gate_has_proc(void);
/* And: is this what was asked for? `own` is the path of the gate itself. */
int gate_check(const struct gate_want *w, const struct gate_mount *mounts, const char *own,
	       struct err *e);

/* gate_line.c, inside: the line, on which the secret was said. */
struct gate_line {
	int fd;
	struct commands *commands;
};

int gate_reach(const struct gate_want *w, const char *own, struct gate_line *ret, struct err *e);
_Noreturn void gate_serve_line(const struct gate_line *l);
/* The same beside the container's own command: answers what there is; false when the guard is gone.
 */
bool gate_answer(int line);
