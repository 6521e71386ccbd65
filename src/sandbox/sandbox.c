/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/sandbox.c - one run from spec to outcome.
 *
 * States: choosing and planning (an error is a refusal) -> started -> running -> ending (the
 * deadline passed or somebody cancelled: everything inside is killed, at once or after a moment of
 * grace) -> ended (the backend has removed every trace) -> drained (what the command wrote before
 * it ended has reached its goal).
 *
 * A sandbox that is opened is a run without a command: it has the job, the plan, the door. Each of
 * its commands is a run of its own, with streams, deadline, cancel and a record, that borrows the
 * job; whichever is turned turns the sandbox with it. */
#include "sandbox/sandbox.h"

#include <limits.h>
#include <stddef.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/loop.h"
#include "base/random.h"
#include "base/state.h"
#include "base/str.h"
#include "egress/resolving.h"
#include "egress/unresolved.h"
#include "egress/monitor.h"
#include "egress/signing.h"
#include "model/credentials.h"
#include "model/groups.h"
#include "model/leaks.h"
#include "proc/agent_socket.h"
#include "sandbox/explain.h"
#include "sandbox/kept_home.h"
#include "sandbox/publish.h"
#include "sandbox/recorder.h"
#include "sandbox/stream.h"

#define GRACE_US (500 * 1000)
#define ALARM_US 1000 /* between two looks at it, each of which reads a long file */
/* How often a run under `audit.on_error: end` looks whether the record still takes its end. */
#define RECORD_LOOK_US (1000 * 1000)
#define DRAIN_US (1000 * 1000) /* for streams that somebody may hold open for ever */
#define KEEP_MAX ((size_t)1 << 30)
#define DOOR_END_US ((uint64_t)2 * 1000 * 1000)
#define DOOR_EVENTS 256 /* heard at a turn: whoever sends them must not keep the rest waiting */

enum run_source {
	RUN_OUT,
	RUN_ERR,
	RUN_IN,
	RUN_ROOM,
	RUN_EVENT,
	RUN_ALARM,
	RUN_SIGNAL,
	RUN_CANCEL,
	RUN_DOOR,
	RUN_PORTS,
	RUN_NAMES,
	RUN_AGENT,
	RUN_SANDBOX, /* of a command: what goes on in the sandbox that it belongs to */
	RUN_SOURCES
};

struct run_watch {
	struct loop_watch w; /* first */
	struct run *r;
};

struct run_timer {
	struct loop_timer t; /* first */
	struct run *r;
};

struct run {
	const struct spec *spec;
	struct spec *own; /* the caller's, and the HOME that is kept; NULL: none is */
	struct kept_home home;
	struct run_io io;
	const struct backend *backend;
	struct backend_plan *plan;
	struct backend_job *job;       /* of a command: borrowed */
	uint32_t number;               /* of the command in its sandbox */
	struct run *commands;          /* of an open sandbox */
	struct run *carrier;           /* of an open sandbox: see `carry` */
	bool offered;                  /* its descriptor was given to a loop around ours */
	struct run *of, *next;         /* of a command: its sandbox; NULL once that has ended */
	const struct command *command; /* NULL: a sandbox that is open for others */
	bool joins;                    /* it is run in a sandbox that is there */
	struct isolation isolation;    /* what contains it; of a command: see its sandbox */
	struct outcome *o;
	note_fn *note;
	void *note_arg;
	bool redacted;             /* that something was is told */
	struct recorder *recorder; /* NULL: nothing is recorded */
	struct loop *loop;
	struct run_watch watches[RUN_SOURCES];
	struct run_timer deadline, kill, look, drain, again;
	struct pump out, err;
	struct last_words said; /* the last of its error output; on a terminal, of its output */
	struct vtfilter out_filter, err_filter;
	struct feed in;
	uint64_t started;  /* microseconds */
	uint64_t left;     /* of its time, while its sandbox is paused; 0: it has no limit */
	int events, alarm; /* of the job; borrowed */
	uint64_t alarm_at; /* when it was looked at, in microseconds */
	int master;        /* of the command's terminal; -1: none */
	const char *const *image_command; /* borrowed from the job; see job_io */
	const char *image_folder;
	bool cancelled, ended;
	bool over;           /* nothing is left to be waited for */
	struct egress *door; /* network proxy; NULL: none */
	bool door_ends;      /* nobody is surprised when it is gone */
	struct err door_lost;
	struct unresolved *unresolved; /* network none; NULL: nobody listens */
	uint64_t questions;            /* of a command: asked in its sandbox before it */
	struct resolving resolving;    /* network bridge */
	struct publish *ports;         /* NULL: none are published */
	struct signing *signing;       /* with ssh_agent; NULL: none is lent */
	bool signed_for[3];            /* enum agentmsg_purpose: it was told */
	char told[16][128];            /* kinds of secrets that were seen to pass */
	size_t told_count;
	char unreached[4][256]; /* allowed hosts that did not answer */
	size_t unreached_count;
	struct err unrecorded; /* why the record can take no more: the run was ended for it */
};

static bool has_tty(const struct run *r)
{
	return r->command && r->command->tty;
}

static void set_pump(struct run *r, struct pump *p, struct stream *keep, struct vtfilter *filter,
		     int to)
{
	bool wrote = spec_wrote(r->spec, FIELD_OUTPUT);

	*p = (struct pump){ .keep = keep,
			    .both = &r->o->both,
			    .tail = keep == &r->o->err || has_tty(r) ? &r->said : NULL,
			    .which = keep == &r->o->err ? 2 : 1,
			    .limit = r->command && (to < 0 || wrote) ? r->command->output : 0,
			    .on_output = r->io.on_output,
			    .tells = r->io.tells && to < 0,
			    .arg = r->io.arg };
	keep->data.max = r->o->both.data.max = KEEP_MAX;
	if (to >= 0 && isatty(to) && !has_tty(r)) {
		vtfilter_init(filter);
		p->filter = filter;
	}
	p->raw = to >= 0 && has_tty(r) && isatty(to);
}

static void open_streams(struct run *r, struct job_io *io)
{
	set_pump(r, &r->out, &r->o->out, &r->out_filter, r->io.out);
	set_pump(r, &r->err, &r->o->err, &r->err_filter, r->io.err);
	r->master = has_tty(r) ? io->out : -1;
	pump_open(&r->out, io->out, r->io.out);
	pump_open(&r->err, io->err, r->io.err);
	feed_open(&r->in, r->io.in, io->in, io->in_peer, has_tty(r));
}

static void strike(const struct run *r, int sig)
{
	if (r->job)
		r->backend->signal(r->job, r->number, sig);
}

static void end_as(struct run *r, enum outcome_kind kind, int sig)
{
	if (r->o->kind != OUTCOME_FAILED || r->ended)
		return;
	r->o->kind = kind;
	r->o->signal = sig;
}

/* A first cancel is passed on and gives the command a moment to tidy up; a second does not wait. */
static void cancel(struct run *r, int sig)
{
	bool again = r->cancelled;

	if (r->ended) { /* only undelivered output is left: let it go */
		pump_close(&r->out);
		pump_close(&r->err);
		return;
	}
	end_as(r, OUTCOME_CANCELLED, sig);
	strike(r, again || !r->command ? SIGKILL : sig ? sig : SIGTERM);
	r->cancelled = true;
	loop_at(r->loop, &r->kill.t, clock_us() + GRACE_US);
}

void run_signal(struct run *r, int sig)
{
	if (!r->ended)
		strike(r, sig);
}

/* The way out of the command's own terminal does not ask the command. */
static void leave(struct run *r)
{
	if (r->ended)
		return;
	r->in.leave = false;
	end_as(r, OUTCOME_CANCELLED, SIGQUIT);
	strike(r, SIGKILL);
	r->cancelled = true;
}

/* SIGHUP does not come where somebody else leads the session, as su does. */
static void hang_up(struct run *r)
{
	r->in.hung = false;
	if (!r->cancelled)
		cancel(r, SIGHUP);
}

void run_resize(struct run *r, unsigned short rows, unsigned short cols)
{
	const struct winsize size = { .ws_row = rows, .ws_col = cols };

	if (r->master < 0 || r->out.from < 0)
		return;
	if (!r->backend->resize)
		(void)ioctl(r->out.from, TIOCSWINSZ, &size);
	else if (r->job)
		r->backend->resize(r->job, r->number, rows, cols);
}

static void resize(struct run *r)
{
	struct winsize size;

	if (r->master >= 0 && ioctl(r->io.out, TIOCGWINSZ, &size) == 0)
		run_resize(r, size.ws_row, size.ws_col);
}

static void on_signal(struct run *r)
{
	struct signalfd_siginfo s;

	while (read(r->io.signals, &s, sizeof(s)) == (ssize_t)sizeof(s)) {
		if (s.ssi_signo == SIGWINCH)
			resize(r);
		else
			cancel(r, (int)s.ssi_signo);
	}
}

/* ---- time ---- */

static struct run *run_of(struct loop_timer *t)
{
	return ((struct run_timer *)t)->r;
}

/* The record cannot take more: the run ends here, because its policy says so. */
static void on_look(struct loop_timer *t, uint64_t now)
{
	struct run *r = run_of(t);
	struct err e = { 0 };

	if (recorder_ready(r->recorder, &e) == 0) {
		loop_at(r->loop, t, now + RECORD_LOOK_US);
		return;
	}
	r->unrecorded = e;
	strike(r, SIGKILL);
}

static void on_deadline(struct loop_timer *t, uint64_t now)
{
	struct run *r = run_of(t);

	(void)now;
	end_as(r, OUTCOME_TIMEOUT, 0);
	if (r->o->kind == OUTCOME_TIMEOUT)
		outcome_hit(r->o, LIMIT_TIMEOUT);
	strike(r, SIGKILL);
}

/* Once: the end may take its time on another host. */
static void on_kill(struct loop_timer *t, uint64_t now)
{
	(void)now;
	strike(run_of(t), SIGKILL);
}

/* What cannot be ended may never close its end of the streams; who was connected to it may never
 * take its last bytes. */
static void on_drain(struct loop_timer *t, uint64_t now)
{
	struct run *r = run_of(t);

	(void)now;
	(void)loop_want(r->loop, &r->watches[RUN_PORTS].w, 0);
	r->ports = publish_free(r->ports);
	r->over |= r->o->left;
	if (r->joins)
		pump_end(&r->out);
}

static void stop_clock(struct run *r)
{
	loop_at(r->loop, &r->deadline.t, 0);
	loop_at(r->loop, &r->kill.t, 0);
	loop_at(r->loop, &r->look.t, 0);
	loop_at(r->loop, &r->again.t, 0);
}

/* ---- the door ---- */

/* Without its worker there is no network, and nobody would see what the command does about that. */
static void lose_door(struct run *r, const struct egress_event *why)
{
	if (r->door_lost.code || r->ended || r->door_ends)
		return;
	if (why)
		(void)err_set(&r->door_lost, ERR_UNAVAILABLE, ECHILD,
			      "the door could not start: %.300s", why->what);
	else
		(void)err_set(&r->door_lost, ERR_INTERNAL, ECHILD,
			      "the door's process is gone: the run was ended");
	strike(r, SIGKILL);
}

static void tell(void *arg, const char *text)
{
	const struct run *r = arg;

	if (r->note)
		r->note(r->note_arg, text);
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
		       "audit show %s says what it was",
		       str_eq(ev->rule, leak_rows[LEAK_PLACEHOLDER].name) ? "a placeholder"
									  : "a secret",
		       r->o->id);
	tell(r, text);
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
	tell(r, line);
}

static void on_door(struct run *r)
{
	struct egress_event ev;
	struct err e = { 0 };

	for (int i = 0; i < DOOR_EVENTS || egress_waiting(r->door); i++) {
		switch (egress_next(r->door, &ev)) {
		case EGRESS_QUIET:
			return;
		case EGRESS_GONE:
			lose_door(r, NULL);
			return;
		case EGRESS_NEWS:
			if (ev.kind == EGRESS_EVENT_FAILED)
				lose_door(r, &ev);
			egress_count(&ev, r->o);
			egress_denial(&ev, r->o);
			note_redacted(r, &ev);
			tell_finding(r, &ev);
			tell_unreached(r, &ev);
			if (recorder_egress(r->recorder, &ev, &e) < 0 && !r->unrecorded.code) {
				r->unrecorded = e;
				strike(r, SIGKILL);
			}
		}
	}
}

/* What was under way when the run ended is on the record as well. A worker that never says so is
 * not waited for. */
static void end_door(struct run *r)
{
	uint64_t until = clock_us() + DOOR_END_US;
	struct pollfd p = { .events = POLLIN };

	r->door_ends = true;
	egress_end(r->door);
	while (!r->unrecorded.code && (p.fd = egress_fd(r->door)) >= 0 && clock_us() < until) {
		(void)poll(&p, 1, 50);
		on_door(r);
	}
}

/* ---- names, without a door ---- */

/* A companion has its name in /etc/hosts, with an address of one family: who looks for the other
 * asks, and is no less served. */
static bool is_member(const struct run *r, const char *name)
{
	for (size_t i = 0; i < r->spec->members.n; i++)
		if (str_eq(r->spec->members.v[i].name, name))
			return true;
	return false;
}

/* Once a run, while it may still be waiting for an answer. The command chose the name, perhaps so
 * that it looks like another: an option to type as it stands is said for the shipped groups alone.
 */
static void on_names(struct run *r)
{
	const struct group *g;
	struct host name;
	char text[768];

	if (!unresolved_turn(r->unresolved) || !unresolved_nth(r->unresolved, 0, &name) ||
	    is_member(r, name.name))
		return;
	g = group_covering(name.name);
	(void)snprintf(text, sizeof(text),
		       "it asks for '%s' and has no network: --allow %s%s opens one for %s",
		       name.name, g ? "@" : "HOST", g ? g->name : "",
		       g ? g->help : "a host that you know (brig run --help)");
	tell(r, text);
}

static void count_names(struct run *r)
{
	struct host name;

	r->o->questions = unresolved_questions(r->unresolved);
	if (r->o->questions) /* it may have ended before it was told */
		on_names(r);
	for (size_t i = 0; unresolved_nth(r->unresolved, i, &name); i++)
		if (!is_member(r, name.name))
			outcome_asked(r->o, name.name);
	r->unresolved = unresolved_free(r->unresolved);
}

/* The socket is the sandbox's: what was asked for meanwhile was asked by this command, or by one
 * that ran beside it. */
static void count_own_names(struct run *r)
{
	const struct unresolved *a = r->of ? r->of->unresolved : NULL;
	uint64_t all = unresolved_questions(a);
	struct host name;

	if (all <= r->questions)
		return;
	r->o->questions = all - r->questions;
	for (size_t i = 0; unresolved_nth(a, i, &name); i++)
		if (unresolved_since(a, i, r->questions) && !is_member(r->of, name.name))
			outcome_asked(r->o, name.name);
}

/* ---- the user's ssh-agent ---- */

/* On the record before it is given; told once for each purpose. */
static int on_signature(void *arg, const struct signature *s)
{
	struct run *r = arg;
	bool login = s->purpose == AGENTMSG_LOGIN;
	struct err e = { 0 };
	char text[256];

	if (recorder_signature(r->recorder, s->key, login ? "login" : "git", &e) < 0) {
		if (!r->unrecorded.code)
			r->unrecorded = e;
		strike(r, SIGKILL);
		return -e.code;
	}
	r->o->signatures++;
	if (r->signed_for[s->purpose])
		return 0;
	r->signed_for[s->purpose] = true;
	(void)snprintf(text, sizeof(text),
		       "your ssh-agent %s with key %s; brig audit show %s lists each time",
		       login ? "let it log in" : "signed for git", s->key, r->o->id);
	tell(r, text);
	return 0;
}

static void on_refusal(void *arg, enum signing_refusal why)
{
	static const char *const reasons[SIGNING_REFUSALS] = {
		[SIGNING_OTHER_REQUEST] = "it may be asked for its keys and for signatures alone",
		[SIGNING_OTHER_PURPOSE] = "what was to be signed is neither git's nor a login",
		[SIGNING_SHA1] = "RSA keys sign with SHA-256 or SHA-512 alone",
		[SIGNING_LOGIN] = "logins need --ssh-agent=auth",
		[SIGNING_NOT_SIGNED] = "the agent did not sign, or its owner did not want it to",
		[SIGNING_TOO_MANY] =
			"a run gets no more signatures, or failures, than this one had",
	};
	struct run *r = arg;

	outcome_deny(r->o, "ssh-agent", "SSH_AUTH_SOCK", reasons[why]);
}

static int open_agent(struct run *r, struct err *e)
{
	if (r->spec->ssh_agent == SSH_AGENT_NONE)
		return 0;
	return signing_open(r->spec->ssh_agent == SSH_AGENT_AUTH, &r->signing, e);
}

static void start_agent(struct run *r, int listener)
{
	const struct signing_host host = { .signs = on_signature, .refuses = on_refusal, .arg = r };

	if (r->signing && listener >= 0 && agent_socket_is(listener))
		signing_start(r->signing, listener, &host);
	else
		(void)fd_close(listener);
}

static void arrange(struct run *r);

static void has_ended(struct run *r)
{
	r->job = NULL;
	r->ended = true;
	stop_clock(r);
	if (r->ports)
		publish_end(r->ports);
	if (r->o->left || !publish_done(r->ports))
		loop_at(r->loop, &r->drain.t, clock_us() + DRAIN_US);
	feed_close(&r->in);
}

static void note_end(struct run *r)
{
	r->o->phases.ended = clock_us();
	r->o->duration_us = r->o->phases.ended - r->started;
}

/* When a command was executed is heard of with its end. */
static void note_start(struct run *r)
{
	uint64_t at = r->o->phases.started;

	if (at < r->started || at > clock_us())
		r->o->phases.started = at = r->started;
	r->o->setup_us = at - r->o->phases.planned;
	r->started = at;
}

static bool command_ended(struct run *r)
{
	if (!r->backend->ended(r->job, r->number, r->o))
		return false;
	note_start(r);
	if (r->o->started)
		outcome_contain(r->o, &r->of->isolation);
	if (r->cancelled) /* what it has started did not get the time to tidy up that it used */
		strike(r, SIGKILL);
	note_end(r);
	has_ended(r);
	/* What it started may live on, and hold them. The end of its session hangs a terminal up,
	 * and all that was written there comes before that. */
	if (r->master >= 0)
		loop_at(r->loop, &r->drain.t, clock_us() + DRAIN_US);
	else
		pump_end(&r->out);
	pump_end(&r->err);
	return true;
}

/* Wakes a command for what goes on in its sandbox as well. One at a time is enough, since it turns
 * them all: the one that was asked for its descriptor last is being waited for. If every command
 * had the sandbox's descriptors in its own, the tenth could not be put into the caller's epoll: the
 * kernel bounds the ways that lead from one file through several of them. */
static void carry(struct run *sandbox, struct run *r)
{
	struct run *was = sandbox->carrier;

	sandbox->carrier = r;
	if (was && was != r)
		arrange(was);
	if (r && was != r)
		arrange(r);
}

static void hand_on(struct run *sandbox)
{
	struct run *c = sandbox->commands;

	while (c && (c->ended || !c->offered || c->io.apart))
		c = c->next;
	sandbox->carrier = NULL;
	carry(sandbox, c);
}

static void forget(struct run *r)
{
	struct run *sandbox = r->of;
	struct run **at = sandbox ? &sandbox->commands : NULL;

	while (at && *at && *at != r)
		at = &(*at)->next;
	if (at && *at)
		*at = r->next;
	r->of = r->next = NULL;
	if (sandbox && sandbox->carrier == r)
		hand_on(sandbox);
}

/* The sandbox has ended, and what ran in it with it: for the same reason, unless it was closed. */
static void lose_commands(struct run *sandbox)
{
	while (sandbox->commands) {
		struct run *r = sandbox->commands;
		const struct outcome *why = sandbox->o;

		count_own_names(r);
		forget(r);
		if (r->ended)
			continue;
		note_end(r);
		outcome_contain(r->o, &sandbox->isolation);
		r->o->limits_hit |= why->limits_hit;
		if (r->o->kind == OUTCOME_FAILED) {
			bool closed = sandbox->cancelled || why->kind == OUTCOME_EXITED;

			r->o->kind = closed ? OUTCOME_CANCELLED : why->kind;
			r->o->error = why->error;
		}
		has_ended(r);
		arrange(r);
	}
}

static void on_event(struct run *r, bool alarm)
{
	if (r->joins) {
		(void)command_ended(r);
		return;
	}
	if (r->backend->event(r->job, alarm, r->o) != JOB_ENDED) {
		if (r->ports)
			publish_lent(r->ports);
		return;
	}
	note_end(r);
	if (r->door) /* what was decided before the end */
		on_door(r);
	if (r->door && egress_there(r->door) && !r->door_lost.code)
		end_door(r); /* its processes go with the sandbox */
	for (struct run *c = r->commands; c; c = c->next)
		if (!c->ended)
			(void)command_ended(c);
	r->backend->finish(r->job, r->o);
	outcome_contain(r->o, &r->isolation);
	if (r->door_lost.code) {
		r->o->kind = OUTCOME_FAILED;
		r->o->error = r->door_lost;
	}
	has_ended(r);
	lose_commands(r);
}

/* The sockets go to the worker; nothing of ours is to accept on them. */
static int attach_door(struct run *r, const struct job_io *io, struct err *e)
{
	struct door_want w;
	bool here = r->door && !egress_there(r->door);
	int code = here ? door_want(&r->spec->egress, &w, e) : 0;

	if (here && code == 0)
		code = io->door_count == w.n
			       ? egress_attach(r->door, w.sockets, io->door, w.n, e)
			       : err_set(e, ERR_INTERNAL, EPROTO, "the door has lost a socket");
	if (r->spec->network == NETWORK_BRIDGE && io->door_count == 1)
		code = resolving_start(&r->resolving, io->door[0], e);
	for (size_t i = 0; i < io->door_count; i++)
		(void)fd_close(io->door[i]);
	return code;
}

/* ---- turning: what is waited for follows from where the run is ---- */

static void on_ready(struct loop_watch *w, uint32_t events)
{
	struct run *r = ((struct run_watch *)w)->r;
	enum run_source source = (enum run_source)((struct run_watch *)w - r->watches);

	(void)events;
	/* What was ready together with the end is no longer of interest, but for these. */
	if (r->ended && source != RUN_OUT && source != RUN_ERR && source != RUN_SIGNAL &&
	    source != RUN_PORTS)
		return;
	switch (source) {
	case RUN_OUT:
		pump_move(&r->out);
		feed_again(&r->in);
		break;
	case RUN_ERR:
		pump_move(&r->err);
		break;
	case RUN_IN:
	case RUN_ROOM:
		feed_move(&r->in);
		if (r->in.leave)
			leave(r);
		if (r->in.hung)
			hang_up(r);
		break;
	case RUN_EVENT:
	case RUN_ALARM:
		on_event(r, source == RUN_ALARM);
		break;
	case RUN_SIGNAL:
		on_signal(r);
		break;
	case RUN_CANCEL:
		cancel(r, 0);
		break;
	case RUN_DOOR:
		on_door(r);
		break;
	case RUN_PORTS:
		publish_turn(r->ports);
		break;
	case RUN_NAMES:
		on_names(r);
		break;
	case RUN_AGENT:
		signing_turn(r->signing);
		break;
	case RUN_SANDBOX:
		run_dispatch(r->of);
		break;
	case RUN_SOURCES:
		break;
	}
}

static void follow(struct run *r, enum run_source source, struct pollfd p)
{
	struct loop_watch *w = &r->watches[source].w;

	if (w->fd != p.fd)
		(void)loop_want(r->loop, w, 0);
	w->fd = p.fd;
	(void)loop_want(r->loop, w, p.fd < 0 ? 0 : (uint32_t)p.events);
}

static struct pollfd readable(int fd)
{
	return (struct pollfd){ .fd = fd, .events = POLLIN };
}

static void arrange(struct run *r)
{
	r->over |= r->ended && pump_done(&r->out) && pump_done(&r->err) && publish_done(r->ports);
	follow(r, RUN_OUT, pump_wants(&r->out));
	follow(r, RUN_ERR, pump_wants(&r->err));
	follow(r, RUN_IN, r->ended ? readable(-1) : feed_wants(&r->in));
	follow(r, RUN_ROOM, r->ended ? readable(-1) : feed_room(&r->in));
	follow(r, RUN_EVENT, readable(r->ended ? -1 : r->events));
	follow(r, RUN_ALARM, (struct pollfd){ .fd = r->ended ? -1 : r->alarm, .events = POLLPRI });
	follow(r, RUN_SIGNAL, readable(r->io.signals));
	follow(r, RUN_CANCEL, readable(r->ended || r->cancelled ? -1 : r->io.cancel));
	follow(r, RUN_DOOR, readable(r->door && !r->ended ? egress_fd(r->door) : -1));
	follow(r, RUN_NAMES, readable(r->ended ? -1 : unresolved_fd(r->unresolved)));
	follow(r, RUN_AGENT, readable(r->ended ? -1 : signing_fd(r->signing)));
	follow(r, RUN_PORTS, readable(publish_fd(r->ports)));
	follow(r, RUN_SANDBOX,
	       readable(r->of && !r->ended && r->of->carrier == r ? loop_fd(r->of->loop) : -1));
	if (r->ended && r->of && r->of->carrier == r)
		hand_on(r->of);
	if (r->over && r->offered) /* whoever waits for it may have turned another one */
		loop_stop(r->loop);
}

void run_turn(struct run *r, int wait_ms)
{
	if (r->over)
		return;
	loop_turn(r->loop, wait_ms);
	arrange(r);
}

bool run_over(const struct run *r)
{
	return r->over;
}

int run_fd(struct run *r)
{
	r->offered = true;
	if (r->of && !r->ended && !r->io.apart)
		carry(r->of, r);
	return loop_fd(r->loop);
}

/* A loop around ours looks at the alarm as well, and its news is gone then. */
static void look_at_alarm(struct run *r)
{
	uint64_t now = clock_us();

	if (r->over || r->ended || r->alarm < 0)
		return;
	if (now - r->alarm_at < ALARM_US) {
		if (!r->again.t.at)
			loop_at(r->loop, &r->again.t, r->alarm_at + ALARM_US);
		return;
	}
	r->alarm_at = now;
	loop_at(r->loop, &r->again.t, 0);
	on_event(r, true);
}

static void on_again(struct loop_timer *t, uint64_t now)
{
	(void)now;
	look_at_alarm(run_of(t));
}

void run_dispatch(struct run *r)
{
	if (r->of && !r->io.apart && r->of->carrier != r)
		run_dispatch(r->of);
	look_at_alarm(r);
	run_turn(r, 0);
}

/* ---- beginning ---- */

static void refuse(struct outcome *o, const struct err *e)
{
	bool machine = e->kind == ERR_INTERNAL;

	o->error = *e;
	o->kind = e->code == ECANCELED ? OUTCOME_CANCELLED /* while a host was being reached */
		  : machine            ? OUTCOME_FAILED
				       : OUTCOME_REFUSED;
}

/* A start that takes long is given up like a command, but has nothing to tidy up for. */
static bool asked_to_stop(void *arg)
{
	struct run *r = arg;
	struct pollfd p = { .fd = r->io.cancel, .events = POLLIN };
	struct signalfd_siginfo s;

	while (r->io.signals >= 0 && read(r->io.signals, &s, sizeof(s)) == (ssize_t)sizeof(s))
		if (s.ssi_signo != SIGWINCH)
			end_as(r, OUTCOME_CANCELLED, (int)s.ssi_signo);
	if (r->io.cancel >= 0 && poll(&p, 1, 0) > 0)
		end_as(r, OUTCOME_CANCELLED, 0);
	return r->o->kind == OUTCOME_CANCELLED;
}

/* The command may begin once its start is on the record. */
static int permit(void *arg, struct err *e)
{
	struct run *r = arg;
	int got = recorder_begin(r->recorder, r->o->id, r->backend->name, e);

	r->o->unrecorded |= got < 0;
	return got;
}

static const char *await_authority(void *arg, struct err *e)
{
	const struct run *r = arg;

	return egress_authority(r->door, e);
}

/* The start failed after the command was let go: no refusal, and the record says that it ran. */
static void was_started(struct run *r, uint64_t from)
{
	r->o->phases.started = r->o->phases.ended = clock_us();
	r->o->setup_us = r->o->phases.started - from;
	outcome_contain(r->o, &r->isolation);
	if (r->o->kind == OUTCOME_REFUSED)
		r->o->kind = OUTCOME_FAILED;
}

/* ---- ports ---- */

static int lend(void *arg, struct lent *ret)
{
	const struct run *r = arg;

	return r->job ? r->backend->lend(r->job, ret) : -ECHILD;
}

/* The addresses are told before the command can say anything. */
static int open_ports(struct run *r, struct err *e)
{
	struct published one;

	if (!r->spec->ports.n)
		return 0;
	if (publish_open(r->spec, &r->ports, e) < 0)
		return -e->code;
	for (size_t i = 0; publish_nth(r->ports, i, &one); i++) {
		char text[128];

		outcome_publish(r->o, &one);
		(void)snprintf(text, sizeof(text),
			       "port %u of the sandbox is 127.0.0.1:%u on this host", one.port,
			       one.host);
		tell(r, text);
	}
	return 0;
}

static int carry_out(struct run *r, const struct job_want *w, struct job_io *io, struct err *e)
{
	struct backend_job *j = r->of ? r->of->job : NULL;
	int got;

	if (!r->joins)
		return r->backend->start(r->plan, w, io, &r->job, e);
	got = r->backend->exec(j, w, io, &r->number, e);
	r->job = got == 0 ? j : NULL;
	return got;
}

static void start(struct run *r, uint64_t from, struct err *e)
{
	struct job_want w = { .command = r->command,
			      .no_input = r->io.in < 0,
			      .id = r->o->id,
			      .outcome = r->o,
			      .isolation = &r->isolation,
			      .wake = { r->io.signals, r->io.cancel },
			      .seat = r->io.seat,
			      .host = { .asked_to_stop = asked_to_stop, .note = tell, .arg = r } };
	bool asks = r->backend->can & BACKEND_PERMITS && r->recorder && !r->joins;
	bool awaits = r->backend->can & BACKEND_AWAITS;
	struct job_io io = { .in = -1,
			     .out = -1,
			     .err = -1,
			     .in_peer = -1,
			     .events = -1,
			     .alarm = -1,
			     .names = -1,
			     .agent = -1 };
	struct winsize size = { .ws_row = r->io.rows, .ws_col = r->io.cols };

	if (job_has_tty(&w) && (size.ws_row || ioctl(r->io.out, TIOCGWINSZ, &size) == 0)) {
		w.rows = size.ws_row;
		w.cols = size.ws_col;
	}
	if (asks)
		w.host.permit = permit;
	if (r->door) {
		w.variables = egress_variables(r->door);
		w.host.authority = await_authority;
		w.there = egress_there(r->door);
		if (!awaits && !w.there)
			w.authority = egress_authority(r->door, e);
	}
	if ((r->door && !awaits && !w.there && !w.authority) || (!asks && permit(r, e) < 0) ||
	    carry_out(r, &w, &io, e) < 0) {
		if (r->o->kind != OUTCOME_CANCELLED)
			refuse(r->o, e);
		if (r->o->started)
			was_started(r, from);
		return;
	}
	if (r->door)
		egress_there_taken(r->door);
	if (attach_door(r, &io, e) < 0)
		lose_door(r, NULL);
	r->started = r->o->phases.started = clock_us();
	r->o->started = true;
	r->o->setup_us = r->started - from;
	if (!r->command) /* for who asks meanwhile */
		outcome_contain(r->o, &r->isolation);
	if (r->command && r->command->timeout)
		loop_at(r->loop, &r->deadline.t, r->started + r->command->timeout * 1000);
	if (r->recorder && r->spec->audit.on_error == AUDIT_END)
		loop_at(r->loop, &r->look.t, r->started);
	if (io.names >= 0)
		r->unresolved = unresolved_new(io.names);
	start_agent(r, io.agent);
	r->image_command = io.image_command;
	r->image_folder = io.image_folder;
	if (r->ports)
		publish_start(r->ports, lend, r);
	r->events = io.events;
	r->alarm = io.alarm;
	open_streams(r, &io);
	r->over = false;
	arrange(r);
}

static void report_own_limits(const struct spec *s, const struct run_io *io, struct outcome *o)
{
	bool capped = io->out < 0 || spec_wrote(s, FIELD_OUTPUT);

	o->timeout_by = s->command.timeout ? ENFORCER_MONITOR : ENFORCER_NONE;
	o->output_by = capped ? ENFORCER_MONITOR : ENFORCER_NONE;
	if (o->out.truncated || o->err.truncated)
		outcome_hit(o, LIMIT_OUTPUT);
}

/* What auto did not take is told with the result and, because it is unusual, at once. */
static int choose(struct run *r, note_fn *note, void *note_arg, struct err *e)
{
	struct backend_choice c;
	int result = backend_choose(r->spec, &c, e);

	for (size_t i = 0; i < c.passed_count; i++) {
		const char *name = c.passed[i].backend->name;
		char line[768];

		outcome_pass(r->o, name, c.passed[i].why.what);
		if (result < 0 || !note)
			continue;
		(void)snprintf(line, sizeof(line), "auto chose %s and passed over %s: %s",
			       c.backend->name, name, c.passed[i].why.what);
		note(note_arg, line);
	}
	r->backend = c.backend;
	return result;
}

/* A credential that was asked for by name and can go nowhere. */
static void note_unreachable(struct run *r)
{
	const struct spec *s = r->spec;
	struct credentiallist l;
	struct err e;

	if (!r->note || s->network != NETWORK_PROXY || !s->use_credentials.n ||
	    credentials_granted(r->o->arena, s, &l, &e) < 0)
		return;
	for (size_t i = 0; i < l.n; i++) {
		char line[768];

		if (credential_reachable(r->o->arena, s, &l.v[i]))
			continue;
		if (credential_of_service(r->o->arena, &l.v[i]))
			(void)snprintf(
				line, sizeof(line),
				"credential '%.60s' is for host.brig.internal, where none is "
				"ever put in: with a certificate the server can have a name "
				"of its own (--allow NAME --set "
				"egress.resolve=NAME=127.0.0.1:PORT --set egress.roots=FILE)",
				l.v[i].name);
		else
			(void)snprintf(line, sizeof(line),
				       "credential '%.60s' is for %.200s, which is not allowed: "
				       "--allow %.200s",
				       l.v[i].name, l.v[i].hosts.v[0], l.v[i].hosts.v[0]);
		r->note(r->note_arg, line);
	}
}

static int with_home(const struct spec *s, const char *folder, const unsigned char *secret,
		     struct spec **ret, struct err *e)
{
	CLEANUP(spec) struct spec *own = spec_clone(s, e);

	if (!own)
		return -e->code;
	own->command.argv = s->command.argv;
	own->home_folder = arena_strdup(own->arena, folder);
	own->home_secret = secret;
	if (!own->home_folder)
		return err_nomem(e);
	*ret = TAKE_PTR(own);
	return 0;
}

/* A run that is refused anyway, as one that may write to the cache folder, leaves no folder there.
 * A plan that is asked for no notes is whole: every guard has looked. */
static int may_make_home(const struct run *r, struct err *e)
{
	struct backend_plan *p = NULL;
	char folder[PATH_MAX];

	if (kept_home_find(r->spec, r->backend->name, folder) == 0)
		return 0;
	if (r->backend->plan(r->spec, &p, NULL, e) < 0)
		return -e->code;
	(void)r->backend->plan_free(p);
	return 0;
}

/* Made before the plan, which changes nothing, and locked until the run has ended. */
static int keep_home(struct run *r, struct err *e)
{
	if (r->spec->home != HOME_KEEP)
		return 0;
	if (may_make_home(r, e) < 0 || kept_home_open(r->spec, r->backend->name, &r->home, e) < 0 ||
	    with_home(r->spec, r->home.folder, r->home.has_secret ? r->home.secret : NULL, &r->own,
		      e) < 0)
		return -e->code;
	r->spec = r->own;
	return 0;
}

static int start_door(struct run *r, struct err *e)
{
	if (r->spec->network != NETWORK_PROXY || r->backend->can & BACKEND_DELEGATES)
		return 0;
	return r->backend->can & BACKEND_DOOR_THERE
		       ? egress_start_there(r->spec, environ, &r->door, e)
		       : egress_start(r->spec, environ, &r->door, e);
}

/* From choosing to the started command, or to a refusal, which *r->o tells. */
static void conduct(struct run *r)
{
	const char *const *notes = NULL;
	uint64_t from = clock_us();
	struct err e = { 0 };

	if (choose(r, r->note, r->note_arg, &e) < 0) {
		refuse(r->o, &e);
		return;
	}
	r->o->backend = r->backend->name;
	if (!r->command && !r->backend->exec) {
		(void)err_refuse(&e, ERR_UNAVAILABLE, ENOTSUP,
				 "open it on native or bwrap, or run each command by itself",
				 "backend '%s' cannot keep a sandbox open for commands",
				 r->backend->name);
		refuse(r->o, &e);
		return;
	}
	if (r->spec->companions.n && !r->spec->members.n) {
		(void)err_refuse(
			&e, ERR_UNAVAILABLE, ENOTSUP,
			"brig sandbox create makes one, brig sandbox exec runs commands in it",
			"companions are beside a long-lived sandbox of the daemon alone");
		refuse(r->o, &e);
		return;
	}
	backends_tidy();
	/* The door's processes start while the plan is made. */
	if (keep_home(r, &e) < 0 || start_door(r, &e) < 0 ||
	    r->backend->plan(r->spec, &r->plan, &notes, &e) < 0) {
		refuse(r->o, &e);
		return;
	}
	r->o->phases.planned = clock_us();
	if (!(r->backend->can & (BACKEND_BARE | BACKEND_REMOTE)))
		r->o->workspace_target = arena_strdup(r->o->arena, r->spec->inside);
	for (const char *const *n = notes; r->note && n && *n; n++)
		r->note(r->note_arg, *n);
	note_unreachable(r);
	if (open_agent(r, &e) < 0 || open_ports(r, &e) < 0) {
		refuse(r->o, &e);
		return;
	}
	start(r, from, &e);
}

/* The same for a command of a sandbox that is there. */
static void conduct_command(struct run *r)
{
	uint64_t from = clock_us();
	struct err e = { 0 };

	r->backend = r->of->backend;
	r->o->backend = r->backend->name;
	r->o->phases.planned = from;
	if (r->of->ended || loop_fd(r->of->loop) < 0) {
		(void)err_set(&e, ERR_UNAVAILABLE, ECHILD, "the sandbox has ended");
		refuse(r->o, &e);
		return;
	}
	r->questions = unresolved_questions(r->of->unresolved);
	start(r, from, &e);
	if (r->over)
		return;
	r->next = r->of->commands;
	r->of->commands = r;
}

/* A run whose record ended early did not go well, whatever the command said. */
static void failed_record(struct outcome *o, const struct err *e)
{
	o->unrecorded = true;
	if (o->kind == OUTCOME_REFUSED || (o->kind == OUTCOME_FAILED && o->error.code))
		return;
	o->kind = OUTCOME_FAILED;
	o->error = *e;
}

/* Journals and the record where nobody would look for them are told of. */
static void note_state(note_fn *note, void *note_arg)
{
	char path[PATH_MAX], line[PATH_MAX + 128];

	if (!note || !state_displaced(path, sizeof(path)))
		return;
	(void)snprintf(line, sizeof(line),
		       "brig's own state and record are in '%.*s', which may not outlive the "
		       "session: set XDG_STATE_HOME to a folder of yours",
		       (int)strlen(path) - 2, path); /* without "/." */
	note(note_arg, line);
}

static void prepare(struct run *r)
{
	static const struct {
		size_t at;
		timer_fn *due;
	} timers[] = { { offsetof(struct run, deadline), on_deadline },
		       { offsetof(struct run, kill), on_kill },
		       { offsetof(struct run, look), on_look },
		       { offsetof(struct run, drain), on_drain },
		       { offsetof(struct run, again), on_again } };

	for (size_t i = 0; i < RUN_SOURCES; i++)
		r->watches[i] = (struct run_watch){ .w = { .fd = -1, .ready = on_ready }, .r = r };
	for (size_t i = 0; i < ARRAY_LEN(timers); i++)
		*(struct run_timer *)((char *)r + timers[i].at) =
			(struct run_timer){ .t.due = timers[i].due, .r = r };
	r->out.from = r->out.to = r->err.from = r->err.to = r->in.to = r->in.peer = -1;
	r->events = r->alarm = r->master = -1;
	r->home = KEPT_HOME_NONE;
	r->over = true; /* until something runs */
}

static int make_recorder(struct run *r, struct err *e)
{
	return r->joins ? recorder_join(r->spec, r->of->recorder, &r->recorder, e)
			: recorder_new(r->spec, &r->recorder, e);
}

static struct run *begin(const struct run *like, struct outcome *o)
{
	struct run *r = calloc(1, sizeof(*r));
	struct err e = { 0 };

	o->dialect = like->spec->dialect_used;
	o->timeout_ms = like->command ? like->command->timeout : 0;
	if (!r) {
		(void)err_nomem(&e);
		refuse(o, &e);
		return NULL;
	}
	*r = *like;
	r->o = o;
	prepare(r);
	if (random_hex(o->id, sizeof(o->id), &e) < 0 || make_recorder(r, &e) < 0) {
		o->unrecorded = true;
		refuse(o, &e);
		return r;
	}
	if (loop_new_small(&r->loop, &e) < 0) {
		refuse(o, &e);
		return r;
	}
	if (r->joins) {
		conduct_command(r);
		return r;
	}
	note_state(r->note, r->note_arg);
	conduct(r);
	return r;
}

struct run *run_begin(const struct spec *s, const struct run_io *io, note_fn *note, void *note_arg,
		      struct outcome *o)
{
	return begin(&(struct run){ .spec = s,
				    .command = &s->command,
				    .io = *io,
				    .note = note,
				    .note_arg = note_arg },
		     o);
}

struct run *run_open(const struct spec *s, int cancel, const struct seat *seat, note_fn *note,
		     void *note_arg, struct outcome *o)
{
	const struct run_io none = {
		.in = -1, .out = -1, .err = -1, .signals = -1, .cancel = cancel, .seat = seat
	};

	return begin(&(struct run){ .spec = s, .io = none, .note = note, .note_arg = note_arg }, o);
}

struct run *run_exec(struct run *sandbox, const struct spec *s, const struct run_io *io,
		     note_fn *note, void *note_arg, struct outcome *o)
{
	struct run *r = begin(&(struct run){ .spec = s,
					     .command = &s->command,
					     .joins = true,
					     .of = sandbox,
					     .io = *io,
					     .note = note,
					     .note_arg = note_arg },
			      o);

	/* One that was refused is not in the sandbox's list, and may outlive it. */
	if (r && r->over)
		r->of = NULL;
	return r;
}

int run_pause(struct run *r, bool on, struct err *e)
{
	uint64_t now = clock_us();

	if (!r->job || r->ended)
		return err_set(e, ERR_UNAVAILABLE, ECHILD, "the sandbox has ended");
	if (!r->backend->pause)
		return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP, "stop it instead",
				  "a sandbox of backend '%s' cannot be paused", r->backend->name);
	if (r->backend->pause(r->job, on, e) < 0)
		return -e->code;
	for (struct run *c = r->commands; c; c = c->next) {
		uint64_t at = c->deadline.t.at;

		if (on)
			c->left = !at ? 0 : at > now ? at - now : 1;
		loop_at(c->loop, &c->deadline.t, on || !c->left ? 0 : now + c->left);
	}
	return 0;
}

int run_files(struct run *r, const char *const *words, const int *ends, uint32_t *ret,
	      struct err *e)
{
	const struct command c = { .argv = words };
	const struct job_want w = { .command = &c, .files = ends, .wake = { -1, -1 } };
	struct job_io unused;

	if (!r->job || r->ended)
		return err_set(e, ERR_UNAVAILABLE, ECHILD, "the sandbox has ended");
	if (!(r->backend->can & BACKEND_FILES))
		return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP, "use a command inside instead",
				  "backend '%s' has no operations on files", r->backend->name);
	return r->backend->exec(r->job, &w, &unused, ret, e);
}

size_t run_living(const struct run *r)
{
	size_t n = 0;

	if (r->job && r->backend->living)
		return r->backend->living(r->job);
	for (const struct run *c = r->commands; c; c = c->next)
		n += !c->ended;
	return n;
}

bool run_began(const struct run *r)
{
	return !r->backend->began || r->backend->began(r->job, r->number);
}

uint32_t run_number(const struct run *r)
{
	return r->number;
}

const char *const *run_image_command(const struct run *r, const char **folder)
{
	*folder = r->image_folder;
	return r->image_command;
}

void run_end_command(struct run *sandbox, uint32_t number)
{
	if (sandbox->job && !sandbox->ended && number != COMMAND_FIRST)
		sandbox->backend->signal(sandbox->job, number, SIGKILL);
}

void run_drop_output(struct run *r)
{
	if (!r->ended)
		return;
	pump_close(&r->out);
	pump_close(&r->err);
	arrange(r);
}

void run_close(struct run *r)
{
	end_as(r, OUTCOME_EXITED, 0);
	r->cancelled = true;
	strike(r, SIGKILL);
}

void run_end(struct run *r)
{
	struct err e = { 0 };

	if (!r)
		return;
	if (r->of && !r->ended && !r->io.apart)
		carry(r->of, r);
	while (!r->over)
		run_turn(r, -1);
	if (r->joins)
		count_own_names(r);
	forget(r);
	if (r->started) {
		pump_close(&r->out);
		pump_close(&r->err);
	}
	if (r->unrecorded.code) {
		r->o->kind = OUTCOME_FAILED;
		r->o->error = r->unrecorded;
		r->o->unrecorded = true;
	}
	if (!r->joins)
		count_names(r);
	if (r->o->started) {
		report_own_limits(r->spec, &r->io, r->o);
		explain(r->spec, r->said.text, r->said.n, r->o);
	}
	if (r->plan)
		(void)r->backend->plan_free(r->plan);
	resolving_stop(&r->resolving);
	if (r->door && r->o->started)
		end_door(r);
	(void)egress_free(r->door);
	(void)publish_free(r->ports);
	(void)signing_free(r->signing);
	if (recorder_end(r->recorder, r->o, &e) < 0)
		failed_record(r->o, &e);
	(void)recorder_free(r->recorder);
	(void)loop_free(r->loop);
	kept_home_done(&r->home);
	(void)spec_free(r->own);
	free(r);
}

void sandbox_run(const struct spec *s, const struct run_io *io, note_fn *note, void *note_arg,
		 struct outcome *o)
{
	run_end(run_begin(s, io, note, note_arg, o));
}

static void choice_json(const struct backend_choice *c, struct json *j)
{
	json_reopen(j);
	json_key(j, "passed_over");
	json_array(j);
	for (size_t i = 0; i < c->passed_count; i++) {
		json_object(j);
		json_kstr(j, "backend", c->passed[i].backend->name);
		json_kstr(j, "reason", c->passed[i].why.what);
		json_object_end(j);
	}
	json_array_end(j);
	json_object_end(j);
}

int sandbox_plan(const struct spec *s, struct json *j, struct err *e)
{
	CLEANUP(spec) struct spec *own = NULL;
	struct backend_plan *p = NULL;
	struct backend_choice c;
	char home[PATH_MAX];

	if (backend_choose(s, &c, e) < 0)
		return -e->code;
	if (s->home == HOME_KEEP && kept_home_find(s, c.backend->name, home) == 0 &&
	    with_home(s, home, NULL, &own, e) < 0)
		return -e->code;
	if (c.backend->plan(own ? own : s, &p, NULL, e) < 0)
		return -e->code;
	c.backend->plan_json(p, j);
	choice_json(&c, j);
	(void)c.backend->plan_free(p);
	return 0;
}
