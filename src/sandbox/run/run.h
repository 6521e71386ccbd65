/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/run/run.h - one run from spec to outcome, as the files of this folder share it.
 *
 * States: choosing and planning (an error is a refusal) -> started -> running -> ending (the
 * deadline passed or somebody cancelled: everything inside is killed, at once or after a moment of
 * grace) -> ended (the backend has removed every trace) -> drained (what the command wrote before
 * it ended has reached its goal).
 *
 * A sandbox that is opened is a run without a command: it has the job, the plan, the door. Each of
 * its commands is a run of its own, with streams, deadline, cancel and a record, that borrows the
 * job; whichever is turned turns the sandbox with it. */
#pragma once

#include <termios.h>

#include "base/sys/loop.h"
#include "egress/monitor.h"
#include "egress/resolving.h"
#include "sandbox/home/kept_home.h"
#include "sandbox/prompt.h"
#include "sandbox/sandbox.h"
#include "sandbox/streams/stream.h"

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
	RUN_ASK,     /* the terminal, while its person is asked */
	RUN_SANDBOX, /* of a command: what goes on in the sandbox that it belongs to */
	RUN_SOURCES
};

struct egress_event;

/* Open questions, the first first. */
struct run_asks {
	struct run_question {
		uint32_t id;
		char host[256];
		uint16_t port;
		uint64_t until;
	} v[QUESTIONS_OPEN];
	size_t n;
	struct prompt prompt; /* of the first, while it is `shown` */
	bool shown, painted;
	bool changed; /* `before` is to be restored */
	struct termios before;
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
	struct buf held; /* notes that would be written across the command's screen; NUL-ended */
	bool redacted;   /* that something was is told */
	struct recorder *recorder; /* NULL: nothing is recorded */
	struct loop *loop;
	struct run_watch watches[RUN_SOURCES];
	struct run_timer deadline, kill, look, drain, again, late, back;
	struct pump out, err;
	struct last_words said; /* the last of its error output; on a terminal, of its output */
	struct vtfilter out_filter, err_filter;
	struct feed in;
	uint64_t started;  /* microseconds */
	uint64_t left;     /* of its time, while its sandbox is paused; 0: it has no limit */
	int events, alarm; /* of the job; borrowed */
	uint64_t alarm_at; /* when it was looked at, in microseconds */
	int master;        /* of the command's terminal; -1: none */
	int lives;         /* exposed_hold's; -1: the command was not let go */
	const char *const *image_command; /* borrowed from the job; see job_io */
	const char *image_folder;
	bool cancelled, ended;
	bool over;           /* nothing is left to be waited for */
	struct egress *door; /* network proxy; NULL: none */
	struct run_asks asks;
	bool door_ends; /* nobody is surprised when it is gone */
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

/* ---- run_start.c ---- */

/* Says on *o that nothing was run, and why. */
void run_refuse(struct outcome *o, const struct err *e);
/* Starts the command, or makes the sandbox; `from` is when the run began. */
void run_start(struct run *r, uint64_t from, struct err *e);

/* ---- run_signal.c ---- */

/* A signal for what the run controls, or for nothing once that has ended. */
void run_strike(const struct run *r, int sig);
/* The first verdict on how it ends stands. */
void run_end_as(struct run *r, enum outcome_kind kind, int sig);
void run_cancel(struct run *r, int sig);
void run_leave(struct run *r);
void run_hang_up(struct run *r);
void run_hear_signals(struct run *r);
bool run_asked_to_stop(void *arg);

/* ---- run_clock.c ---- */

void run_set_timers(struct run *r);
void run_stop_clock(struct run *r);

/* ---- run_turn.c ---- */

void run_set_watches(struct run *r);
/* Waits from now on for what its state wants. */
void run_arrange(struct run *r);
void run_look_at_alarm(struct run *r);

/* ---- run_commands.c ---- */

void run_carry(struct run *sandbox, struct run *r);
void run_hand_on(struct run *sandbox);
/* Takes a command out of its sandbox. */
void run_forget(struct run *r);
void run_lose_commands(struct run *sandbox);

/* ---- run_end.c ---- */

void run_event(struct run *r, bool alarm);
void run_note_end(struct run *r);
void run_has_ended(struct run *r);
/* The record can take no more: the run is ended for it. */
void run_unrecorded(struct run *r, const struct err *why);
/* One line for the user. */
void run_tell(void *run, const char *text);
/* Does the command have its terminal as a screen? */
bool run_is_painted(const struct run *r);

/* ---- what a run may have: a door, names nobody answers, an ssh-agent, ports ---- */

int run_door_start(struct run *r, struct err *e);
const char *run_door_authority(void *arg, struct err *e);
int run_door_attach(struct run *r, const struct job_io *io, struct err *e);
void run_door_turn(struct run *r);
/* why: the door's own words, or NULL */
void run_door_lost(struct run *r, const struct egress_event *why);
void run_door_end(struct run *r);

/* ---- run_ask.c: names that somebody is asked about ---- */

int run_ask_check(struct run *r, struct err *e); /* is somebody there? */
void run_ask_open(struct run *r, const struct egress_event *ev);
void run_ask_late(struct run *r);
void run_ask_type(struct run *r); /* the terminal has something */
/* The descriptor to read the answer from; -1: nobody is asked at a terminal now. */
int run_ask_fd(const struct run *r);
void run_ask_end(struct run *r); /* what is open is open no longer */

void run_names_turn(struct run *r);
/* The outcome gets what was asked for; of a command, while it ran. */
void run_note_keys(const struct run *r); /* of the caller's, that a grant shows */
void run_names_count(struct run *r);
void run_names_count_own(struct run *r);

int run_agent_open(struct run *r, struct err *e);
/* Takes the listener. */
void run_agent_start(struct run *r, int listener);

int run_ports_open(struct run *r, struct err *e);
void run_ports_start(struct run *r);
