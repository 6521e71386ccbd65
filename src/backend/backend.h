/* SPDX-License-Identifier: Apache-2.0 */
/* backend/backend.h - what every way of isolating a command has in common.
 *
 * A backend decides first and does later: `plan` turns a spec into a value that can be printed and
 * compared, `start` carries it out. The conductor (src/sandbox) owns the loop: it moves stdio,
 * keeps the deadline and calls `event` whenever the descriptor for it is readable. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "model/door.h"
#include "model/outcome.h"
#include "model/spec.h"

struct backend_plan; /* opaque, one type per backend */
struct backend_job;  /* a started command; opaque, one type per backend */

/* The conductor's ends of the command's streams; -1 when there is none. The backend opens them, the
 * conductor owns them once start has returned. With a terminal only `in` and `out` are set, to the
 * same master (two descriptors). */
struct job_io {
	int in, out, err;
	int in_peer; /* the command's own end of `in`, to count what it never read */
	int events;  /* borrowed from the job: readable when `event` has something to say */
	int door[DOOR_SOCKETS_MAX]; /* under network proxy: as the plan's door_want lists them */
	size_t door_count;
	int alarm; /* borrowed: POLLPRI is news for `event` too; -1: none. It cannot stand behind
		    * `events`, because looking at such a descriptor uses its news up */
};

struct job_want {
	bool tty;
	bool no_input; /* the command reads end of file at once */
	const char *id;
	const char *const *variables; /* further ones for the inside, NAME=VALUE; NULL: none */
	const char *authority;     /* under network proxy: the certificate to trust inside, PEM */
	unsigned short rows, cols; /* of the terminal; 0: unknown */
};

/* What a running job told. */
enum job_event {
	JOB_NOTHING,
	JOB_STARTED, /* the command runs */
	JOB_ENDED,   /* nothing of it is left; `finish` may be called */
};

struct backend {
	const char *name;
	enum backend_kind kind;
	unsigned bit; /* in field.honoured */

	/* Can it work here, tried with the layout of a real run? Fills what it would give. */
	int (*probe)(struct isolation *ret, struct err *e);

	/* Computes, reads the file system, changes nothing. *notes is what the user should know
	 * before the start: NULL-terminated, borrowed from the plan. */
	int (*plan)(const struct spec *s, struct backend_plan **ret, const char *const **notes,
		    struct err *e);
	void (*plan_json)(const struct backend_plan *p, struct json *j);
	struct backend_plan *(*plan_free)(struct backend_plan *p);

	/* Starts the command. The plan must outlive the job. */
	int (*start)(struct backend_plan *p, const struct job_want *w, struct job_io *io,
		     struct backend_job **ret, struct err *e);
	enum job_event (*event)(struct backend_job *j, bool alarm, struct outcome *o);

	/* A signal for the command's process group; SIGKILL ends everything there is. */
	void (*signal)(struct backend_job *j, int sig);

	/* After JOB_ENDED, or to give up: ends what still lives, removes every trace, completes the
	 * outcome and frees the job. */
	void (*finish)(struct backend_job *j, struct outcome *o);
};

extern const struct backend backend_native, backend_none;

/* Removes what runs that died with their monitor have left behind. Before planning: a plan must not
 * take a dead run's placeholder for something of the user's. Cheap when there is nothing. */
void backends_tidy(void);

/* The backend for a spec: the one named, or the first of auto's that can honour all that was
 * written. Refuses settings the backend cannot honour, naming one that can. */
int backend_choose(const struct spec *s, const struct backend **ret, struct err *e);
