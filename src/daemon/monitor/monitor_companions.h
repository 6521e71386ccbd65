/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/monitor/monitor_companions.h - the companions of a monitor's sandbox: each is a sandbox of
 * its own.
 *
 *     starting → ready → (failed → starting → ...) → stopped, each for itself
 *
 * All of them are on the loop of the monitor, which owns them as it owns the sandbox: they are
 * paused and stopped with it, and its end is theirs. docs/design/companions.md has the whole. */
#pragma once

#include <pthread.h>

#include "daemon/monitor/monitor_internal.h"
#include "daemon/shared/restart.h"
#include "model/settings/spec.h"
#include "sandbox/manager.h"

enum { COMPANION_WORDS = 4096 };

/* The last of what somebody wrote. */
struct companion_words {
	char text[COMPANION_WORDS];
	size_t n;
};

struct companion {
	struct loop_watch turns, serves, asks; /* its sandbox; its command; what goes on beside */
	struct loop_timer next, again;         /* check; try after its end */
	struct monitor *m;
	const struct companion_spec *spec;
	const char *address; /* of the monitor's spec */
	enum companion_state state;
	char reason[MONITOR_REASON];
	brig_sandbox *sandbox; /* NULL: it has ended */
	pthread_t opens;       /* who waits for an engine, or counts what is left */
	bool opening;
	struct err unopened;
	brig_request *request, *aside_request;
	brig_run *run, *aside; /* its command; a check, or a hook in the sandbox. NULL: none */
	bool healthy;          /* what is beside is a hook */
	size_t hooks;          /* that were run */
	uint64_t failures;     /* of checks, in a row */
	uint64_t since;        /* its command runs, in microseconds; 0: it did not begin */
	struct restart restart;
	/* Whoever is inside can end its sandbox as often as it likes: the next one gets what is
	 * left. */
	uint64_t disk; /* bytes that it may write; 0: any */
	bool full;     /* it has none left */
	struct companion_words said, answer;
	/* Things that each client, and that any, was told of; its sandbox lists but so many. */
	size_t denied[MONITOR_CLIENTS], denied_most;
};

struct companions {
	struct spec *spec;  /* the sandbox's */
	const char *engine; /* the backend whose containers they are in; NULL: none */
	struct members_router router;
	struct loop_timer bound; /* by when all of them must be ready */
	size_t n;
	struct companion v[];
};

/* Takes a spec that has companions, and begins to make them, their commands apart. An engine takes
 * its time: the sandbox is opened meanwhile, then companions_opened waits for the rest, after an
 * error as well. NULL-safe where there are none. */
int companions_open(struct monitor *m, const struct spec *s, struct err *e);
int companions_opened(struct monitor *m, struct err *e);
/* ... and starts their commands. */
int companions_start(struct monitor *m, struct err *e);

/* ... and begins with their checks; the monitor is open once all are ready. */
void companions_check_all(struct monitor *m);

int companions_pause(struct monitor *m, bool on, struct err *e);
void companions_signal(struct monitor *m, int sig);
size_t companions_living(const struct monitor *m);
void companions_close(struct monitor *m); /* after the sandbox */
/* What their doors refused, to a client as far as it takes it; one that is new hears what nobody
 * has heard. */
void companions_tell(struct monitor *m, size_t client);
void companions_meet(struct monitor *m, size_t client);

/* ---- for companion_checks.c ---- */

void companion_hear(struct companion_words *w, const char *data, size_t n);
/* Onto the log, without anything for a terminal. */
void companion_note_words(const struct monitor *m, const char *whose,
			  const struct companion_words *w);
/* Is it still to become ready, and nobody stops it? */
bool companion_is_awaited(const struct companion *c);
void companion_becomes(struct companion *c, enum companion_state state, const char *reason);
/* It does not become ready, nor does a sandbox that waits for it. `what` is a whole sentence
 * without its end. */
void companion_spoils(struct companion *c, const char *reason, const char *what);

/* Makes its sandbox; where an engine takes its time, c->opens does. Then starts its command. */
int companion_open(struct companion *c, struct err *e);
int companion_serve(struct companion *c, struct err *e);

/* companion_restart.c: it has ended, or could not begin; there will be another try. */
void companion_again(struct companion *c);

/* companion_checks.c: begins with them. */
void companion_check(struct companion *c);
void companion_check_end(struct companion *c); /* after the end of what it was done in */
