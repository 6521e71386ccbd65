/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/run/run_door.c - the door of a run, as the run sees it: its start, its news, its loss,
 * its end. */
#include "sandbox/run/run.h"

#include <signal.h>
#include <stdio.h>

#include "base/sys/clock.h"
#include "base/sys/wait.h"
#include "base/text/str.h"
#include "egress/monitor.h"
#include "egress/proxy_hint.h"
#include "model/settings/leaks.h"
#include "proc/cpus.h"
#include "sandbox/recorder.h"

#define DOOR_END_US ((uint64_t)2 * 1000 * 1000)
#define DOOR_CPUS 3     /* for its two processes and the sandbox's, beside our own */
#define DOOR_EVENTS 256 /* heard at a turn: whoever sends them must not keep the rest waiting */

/* A door that nobody uses is not started, where the command would have to share its CPU with it.
 * Not under the strictest profile: until it starts, the values of credentials are in this process.
 */
static bool door_waits(const struct sandbox *s)
{
	return s->only && s->backend->can & BACKEND_AWAITS && s->spec->profile != PROFILE_STRICT &&
	       cpus_spare() < DOOR_CPUS;
}

int run_door_start(struct sandbox *s, struct err *e)
{
	if (s->spec->network != NETWORK_PROXY || s->backend->can & BACKEND_DELEGATES)
		return 0;
	if (s->backend->can & BACKEND_DOOR_THERE)
		return egress_start_there(s->spec, environ, &s->door, e);
	return door_waits(s) ? egress_start_ahead(s->spec, environ, &s->door, e)
			     : egress_start(s->spec, environ, &s->door, e);
}

const char *run_door_authority(void *sandbox, struct err *e)
{
	const struct sandbox *s = sandbox;

	return egress_authority(s->door, e);
}

/* Without its worker there is no network, and nobody would see what the command does about that. */
void run_door_lost(struct sandbox *s, const struct egress_event *why)
{
	if (s->door_lost.code || s->ended || s->door_ends)
		return;
	if (why)
		(void)err_set(&s->door_lost, ERR_UNAVAILABLE, ECHILD,
			      "the door could not start: %.300s", why->what);
	else
		(void)err_set(&s->door_lost, ERR_INTERNAL, ECHILD,
			      "the door's process is gone: the run was ended");
	run_strike_all(s, SIGKILL);
}

/* Once a run: the command hears nothing of it, and what it sent is not what arrived. */
static void note_redacted(struct sandbox *s, const struct egress_event *ev)
{
	char text[192];

	if (ev->kind != EGRESS_EVENT_REDACT || s->redacted)
		return;
	s->redacted = true;
	(void)snprintf(text, sizeof(text),
		       "%s was taken out of what the command sent, and the rest went on; brig "
		       "audit show %.8s says what it was",
		       str_eq(ev->rule, leak_rows[LEAK_PLACEHOLDER].name) ? "a placeholder"
									  : "a secret",
		       s->o->id);
	run_open_tell(s, text);
}

/* What the scan found and let pass goes on, be it in an answer or by a rule: it is told, each kind
 * once. Hashes, of which every lock file is full, have the shape of keys: they are on the record.
 */
static void tell_finding(struct sandbox *s, const struct egress_event *ev)
{
	char line[256];

	if (ev->kind != EGRESS_EVENT_LEAK || !s->note ||
	    str_eq(ev->rule, leak_rows[LEAK_HEX64].name))
		return;
	for (size_t i = 0; i < s->told_count; i++)
		if (str_eq(s->told[i], ev->rule))
			return;
	if (s->told_count == ARRAY_LEN(s->told))
		return;
	(void)snprintf(s->told[s->told_count++], sizeof(s->told[0]), "%s", ev->rule);
	(void)snprintf(line, sizeof(line),
		       "something like a secret passed the door: %.100s (leak.warn on the record)",
		       ev->rule);
	s->note(s->note_arg, line);
}

/* The command hears of it in an answer that many programs do not show. Each host once. */
static void tell_unreached(struct sandbox *s, const struct egress_event *ev)
{
	char line[1024], proxy[PROXY_HINT_SIZE];
	bool named;

	if (ev->kind != EGRESS_EVENT_UNREACHED)
		return;
	for (size_t i = 0; i < s->unreached_count; i++)
		if (str_eq(s->unreached[i], ev->host))
			return;
	if (s->unreached_count == ARRAY_LEN(s->unreached))
		return;
	(void)snprintf(s->unreached[s->unreached_count++], sizeof(s->unreached[0]), "%s", ev->host);
	named = !s->spec->egress.upstream_proxy && proxy_hint(environ, proxy);
	(void)snprintf(line, sizeof(line), "%.255s:%u is allowed, but %.200s; %.400s", ev->host,
		       ev->port, ev->what, named ? proxy : ev->hint);
	run_open_tell(s, line);
}

/* Only what was answered: a name that merely looks public has been refused by its address. */
static void door_learn(const struct sandbox *s, const struct egress_event *ev)
{
	if (s->learn && ev->kind == EGRESS_EVENT_DONE &&
	    (ev->status || ev->bytes_in || ev->bytes_out))
		sightings_request(s->learn, ev->host, ev->port, ev->method, ev->path, ev->fields);
}

void run_door_turn(struct sandbox *s)
{
	struct egress_event ev;
	struct err e = { 0 };

	for (int i = 0; i < DOOR_EVENTS || egress_waiting(s->door); i++) {
		switch (egress_next(s->door, &ev)) {
		case EGRESS_QUIET:
			return;
		case EGRESS_GONE:
			run_door_lost(s, NULL);
			return;
		case EGRESS_NEWS:
			if (ev.kind == EGRESS_EVENT_FAILED)
				run_door_lost(s, &ev);
			if (ev.kind == EGRESS_EVENT_ASK)
				run_ask_open(s, &ev);
			egress_count(&ev, s->o);
			egress_denial(&ev, s->o);
			note_redacted(s, &ev);
			tell_finding(s, &ev);
			tell_unreached(s, &ev);
			door_learn(s, &ev);
			if (recorder_egress(s->recorder, &ev, &e) < 0)
				run_unrecorded(s, &e);
		}
	}
}

/* What was under way when the run ended is on the record as well. A worker that never says so is
 * not waited for. */
void run_door_end(struct sandbox *s)
{
	uint64_t until = clock_us() + DOOR_END_US;
	int fd;

	s->door_ends = true;
	egress_end(s->door);
	while (!s->unrecorded.code && (fd = egress_fd(s->door)) >= 0 && clock_us() < until) {
		(void)wait_fd(fd, POLLIN, clock_after(50));
		run_door_turn(s);
	}
}

/* The sockets go to the worker; nothing of ours is to accept on them. */
int run_door_attach(struct sandbox *s, const struct job_io *io, struct err *e)
{
	struct door_want w;
	bool here = s->door && !egress_there(s->door);
	int code = here ? door_want(&s->spec->egress, &w, e) : 0;

	if (here && code == 0)
		code = io->door_count == w.n
			       ? egress_attach(s->door, w.sockets, io->door, w.n, e)
			       : err_set(e, ERR_INTERNAL, EPROTO, "the door has lost a socket");
	if (s->spec->network == NETWORK_BRIDGE && io->door_count == 1)
		code = resolving_start(&s->resolving, io->door[0], &s->spec->members, e);
	for (size_t i = 0; i < io->door_count; i++)
		(void)fd_close(io->door[i]);
	return code;
}
