/* SPDX-License-Identifier: Apache-2.0 */
/* doctor/attack.h - live attacks on a sandbox, each with a control that shows it can work.
 *
 * The attacker is brig itself, started inside with the name of an attack. The same function is
 * called outside, where it must succeed: on the host if it harms nobody there, else in scratch
 * namespaces with a limit on processes, which end with it. An attack whose control does not work
 * proves nothing, and the report says so. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/bytes/json.h"
#include "base/text/buf.h"
#include "base/text/err.h"
#include "model/settings/spec.h"

/* What the host has put out for the attacker to reach. */
struct bait {
	const char *secret; /* a file, whose text is the token */
	const char *name;   /* of an abstract socket somebody listens on */
	pid_t victim;       /* a process that does nothing */
	const char *token;
};

enum attack_place {
	PLACE_HOST,    /* the control runs on the host, as the user there is */
	PLACE_SCRATCH, /* ... as root of namespaces of its own */
	PLACE_ROOT,    /* ... on the host, and only root can */
};

struct attack {
	const char *name, *what;
	/* true: it worked, and `detail` says what was got; false: what stopped it. */
	bool (*try)(const struct bait *b, char *detail, size_t n);
	enum attack_place control;
};

extern const struct attack attacks[];
extern const size_t attack_count;

enum { BOMB_FORKS = 64, BOMB_MIB = 96, FLOOD_MIB = 8 };

/* The three that are judged by how the run ends. */
int attack_forks(void); /* how many processes it got, BOMB_FORKS at most */
void attack_memory(void);

/* Runs the control of an attack; 1 it worked, 0 it did not, -1 it is not available here. */
int attack_control(const struct attack *a, const struct bait *b, char *detail, size_t n);
int attack_control_forks(void); /* the same in scratch namespaces */
int attack_control_memory(void);

/* The program inside; argv after "_attack". Returns the exit status. */
int attack_inside(int argc, char **argv);

/* One line of a report. */
struct assault {
	const char *name, *what;
	bool held, proven;
	char detail[160], control[160];
};

enum { ASSAULTS_MAX = 32, BESIEGED_MAX = 4 };

struct siege {
	const char *backend;
	bool usable;
	char why[384]; /* not usable */
	struct assault done[ASSAULTS_MAX];
	size_t count;
	unsigned ms;
};

struct report {
	struct siege sieges[BESIEGED_MAX];
	size_t count;
};

/* Attacks every backend of auto's, or the one named, that can be used here. Takes a second or so
 * for each. An error when the baits could not be laid out. */
/* `config` says which image a container is made from; may be NULL. */
int attack_all(const char *backend, const struct spec *config, struct report *ret, struct err *e);
size_t attack_broke(const struct report *r); /* attacks that worked, or backends named in vain */
void attack_text(const struct report *r, struct buf *out);
void attack_json(const struct report *r, struct json *j);
