/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/run/run_door.c - the door of a run, as the run sees it: its start, its news, its loss,
 * its end. */
#include "sandbox/run/run.h"

#include <signal.h>
#include <stdio.h>

#include "base/sys/clock.h"
#include "base/text/str.h"
#include "egress/monitor.h"
#include "model/settings/leaks.h"
#include "sandbox/recorder.h"

#define DOOR_END_US ((uint64_t)2 * 1000 * 1000)
#define DOOR_EVENTS 256 /* heard at a turn: whoever sends them must not keep the rest waiting */

int run_door_start(struct run *r, struct err *e)
{
	if (r->spec->network != NETWORK_PROXY || r->backend->can & BACKEND_DELEGATES)
		return 0;
	return r->backend->can & BACKEND_DOOR_THERE
		       ? egress_start_there(r->spec, environ, &r->door, e)
		       : egress_start(r->spec, environ, &r->door, e);
}

const char *run_door_authority(void *arg, struct err *e)
{
	const struct run *r = arg;

	return egress_authority(r->door, e);
}

/* Without its worker there is no network, and nobody would see what the command does about that. */
void run_door_lost(struct run *r, const struct egress_event *why)
{
	if (r->door_lost.code || r->ended || r->door_ends)
		return;
	if (why)
		(void)err_set(&r->door_lost, ERR_UNAVAILABLE, ECHILD,
			      "the door could not start: %.300s", why->what);
	else
		(void)err_set(&r->door_lost, ERR_INTERNAL, ECHILD,
			      "the door's process is gone: the run was ended");
	run_strike(r, SIGKILL);
}

/* Once a run: the command hears nothing of it, and what it sent is not what arrived. */
static void note_redacted(struct run *r, const struct egress_event *ev)
{
	char text[192];

	if (ev->kind != EGRESS_EVENT_REDACT || r->redacted)
		return;
	r->redacted = true;
	(void)snprintf(text, sizeof(text),
		       "%s was taken out of what the command sent, and the rest went on; brig "
		       "audit show %.8s says what it was",
		       str_eq(ev->rule, leak_rows[LEAK_PLACEHOLDER].name) ? "a placeholder"
									  : "a secret",
		       r->o->id);
	run_tell(r, text);
}

/* What the scan found and let pass goes on, be it in an answer or by a rule: it is told, each kind
 * once. Hashes, of which every lock file is full, have the shape of keys: they are on the record.
 */
static void tell_finding(struct run *r, const struct egress_event *ev)
{
	char line[256];

	if (ev->kind != EGRESS_EVENT_LEAK || !r->note ||
	    str_eq(ev->rule, leak_rows[LEAK_HEX64].name))
		return;
	for (size_t i = 0; i < r->told_count; i++)
		if (str_eq(r->told[i], ev->rule))
			return;
	if (r->told_count == ARRAY_LEN(r->told))
		return;
	(void)snprintf(r->told[r->told_count++], sizeof(r->told[0]), "%s", ev->rule);
	(void)snprintf(line, sizeof(line),
		       "something like a secret passed the door: %.100s (leak.warn on the record)",
		       ev->rule);
	r->note(r->note_arg, line);
}

/* The command hears of it in an answer that many programs do not show. Each host once. */
static void tell_unreached(struct run *r, const struct egress_event *ev)
{
	char line[768];

	if (ev->kind != EGRESS_EVENT_UNREACHED)
		return;
	for (size_t i = 0; i < r->unreached_count; i++)
		if (str_eq(r->unreached[i], ev->host))
			return;
	if (r->unreached_count == ARRAY_LEN(r->unreached))
		return;
	(void)snprintf(r->unreached[r->unreached_count++], sizeof(r->unreached[0]), "%s", ev->host);
	(void)snprintf(line, sizeof(line), "%.255s:%u is allowed, but %.200s; %.200s", ev->host,
		       ev->port, ev->what, ev->hint);
	run_tell(r, line);
}

void run_door_turn(struct run *r)
{
	struct egress_event ev;
	struct err e = { 0 };

	for (int i = 0; i < DOOR_EVENTS || egress_waiting(r->door); i++) {
		switch (egress_next(r->door, &ev)) {
		case EGRESS_QUIET:
			return;
		case EGRESS_GONE:
			run_door_lost(r, NULL);
			return;
		case EGRESS_NEWS:
			if (ev.kind == EGRESS_EVENT_FAILED)
				run_door_lost(r, &ev);
			if (ev.kind == EGRESS_EVENT_ASK)
				run_ask_open(r, &ev);
			egress_count(&ev, r->o);
			egress_denial(&ev, r->o);
			note_redacted(r, &ev);
			tell_finding(r, &ev);
			tell_unreached(r, &ev);
			if (recorder_egress(r->recorder, &ev, &e) < 0)
				run_unrecorded(r, &e);
		}
	}
}

/* What was under way when the run ended is on the record as well. A worker that never says so is
 * not waited for. */
void run_door_end(struct run *r)
{
	uint64_t until = clock_us() + DOOR_END_US;
	struct pollfd p = { .events = POLLIN };

	r->door_ends = true;
	egress_end(r->door);
	while (!r->unrecorded.code && (p.fd = egress_fd(r->door)) >= 0 && clock_us() < until) {
		(void)poll(&p, 1, 50);
		run_door_turn(r);
	}
}

/* The sockets go to the worker; nothing of ours is to accept on them. */
int run_door_attach(struct run *r, const struct job_io *io, struct err *e)
{
	struct door_want w;
	bool here = r->door && !egress_there(r->door);
	int code = here ? door_want(&r->spec->egress, &w, e) : 0;

	if (here && code == 0)
		code = io->door_count == w.n
			       ? egress_attach(r->door, w.sockets, io->door, w.n, e)
			       : err_set(e, ERR_INTERNAL, EPROTO, "the door has lost a socket");
	if (r->spec->network == NETWORK_BRIDGE && io->door_count == 1)
		code = resolving_start(&r->resolving, io->door[0], &r->spec->members, e);
	for (size_t i = 0; i < io->door_count; i++)
		(void)fd_close(io->door[i]);
	return code;
}
