/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/shared/event_log.h - what happened to sandboxes: numbered, kept on disk, told to who
 * listens.
 *
 * One counter per daemon, which goes on after a restart. An event is on disk before anybody hears
 * of it. Listeners belong to a tenant and hear of its sandboxes alone. They fetch what they can
 * take, each at its own pace, from the files: the daemon keeps nothing for a slow one. What is kept
 * for a tenant has a place of its own, so that no other tenant can push it out. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/text/cleanup.h"
#include "base/text/err.h"

struct events;

struct event_note {
	const char *type; /* "sandbox.ready" ... */
	const char *tenant;
	const char *sandbox, *exec, *companion; /* ids and a name; NULL: none */
	const char *reason;                     /* one word; NULL: none */
	const char *data;                       /* a JSON object; NULL: {} */
};

/* Returns the number it was given; 0: it could not be written, and nobody has heard of it. */
uint64_t events_add(struct events *ev, const struct event_note *n);

bool events_heard(const struct events *ev); /* does anybody listen? */

/* The folder "events" below the state; what a killed daemon left half written is cut off. */
int events_open(int state_dir, struct events **ret, struct err *e);
struct events *events_free(struct events *ev);
DEFINE_CLEANUP(events, struct events *, events_free)

/* Removes the logs of tenants that are gone, as the caller says; idle_s: since the last event. The
 * log of all keeps what it has. A tenant of that name that comes later begins with nothing. */
typedef bool tenant_gone_fn(void *arg, const char *tenant, uint64_t idle_s);
void events_forget(struct events *ev, tenant_gone_fn *gone, void *arg);

uint64_t events_last(const struct events *ev); /* 0: there was none yet */
/* From which on nothing is missing for this tenant; "": of all events. */
uint64_t events_oldest(const struct events *ev, const char *tenant);

/* Where a reader stands: after `seq`. */
struct events_cursor {
	uint64_t seq;
	uint64_t segment; /* 0: not looked for yet */
	off_t at;
};

/* Behind all that there is: what happens from now on. */
void events_end(const struct events *ev, const char *tenant, struct events_cursor *ret);

struct event_text {
	uint64_t seq;
	const char *type, *json; /* the type is NUL-terminated, the object is not */
	size_t n;
};

/* The next one for this tenant ("": any) and sandbox (NULL: any): 1, and *ret is borrowed until
 * the next call of any function here; 0: there is none yet; -ESTALE: it is no longer kept; or
 * another -errno. */
int events_next(struct events *ev, struct events_cursor *at, const char *tenant,
		const char *sandbox, struct event_text *ret);

struct events_listener {
	struct events_listener *next, **link;
	void (*news)(struct events_listener *l); /* something was added; fetches nothing itself */
};

void events_listen(struct events *ev, struct events_listener *l);
void events_unlisten(struct events_listener *l); /* may be called again */
