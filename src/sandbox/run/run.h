/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/run/run.h - a sandbox and the commands in it, as the files of this folder share them.
 *
 * `struct sandbox` has what its commands share: backend, plan and job, the door, ports, names, an
 * ssh-agent. `struct command_run` is one command in it: streams, clock, outcome, record.
 *
 * A run is a sandbox with one command, which begin and end as one (run_begin.c): they share loop,
 * outcome and recorder, and the sandbox is freed with its command. In a sandbox that was opened
 * each command has these of its own, and whichever is turned turns the sandbox with it; a command
 * may outlive its sandbox.
 *
 * States: choosing and planning (an error is a refusal) -> started -> running -> ending (the
 * deadline passed or somebody cancelled: everything inside is killed, at once or after a moment of
 * grace) -> ended (the backend has removed every trace) -> drained (what the command wrote before
 * it ended has reached its goal). */
#pragma once

#include <termios.h>

#include "base/sys/loop.h"
#include "egress/monitor.h"
#include "egress/resolving.h"
#include "sandbox/home/kept_home.h"
#include "sandbox/home/volumes.h"
#include "sandbox/image_use.h"
#include "sandbox/layers/layer.h"
#include "sandbox/prompt.h"
#include "sandbox/sandbox.h"
#include "sandbox/streams/stream.h"

enum sandbox_source {
	SANDBOX_EVENT,
	SANDBOX_ALARM,
	SANDBOX_DOOR,
	SANDBOX_NAMES,
	SANDBOX_AGENT,
	SANDBOX_PORTS,
	SANDBOX_CANCEL,
	SANDBOX_SOURCES
};

enum run_source {
	RUN_OUT,
	RUN_ERR,
	RUN_IN,
	RUN_ROOM,
	RUN_ASK, /* the terminal, while its person is asked */
	RUN_SIGNAL,
	RUN_CANCEL,
	/* Of a command in an open sandbox alone. */
	RUN_EVENT,
	RUN_SANDBOX, /* what goes on in its sandbox */
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

struct sandbox_watch {
	struct loop_watch w; /* first */
	struct sandbox *s;
};

struct sandbox_timer {
	struct loop_timer t; /* first */
	struct sandbox *s;
};

struct run_watch {
	struct loop_watch w; /* first */
	struct command_run *r;
};

struct run_timer {
	struct loop_timer t; /* first */
	struct command_run *r;
};

struct sandbox {
	const struct spec *spec;
	struct spec
		*own; /* the caller's, and the HOME that is kept, and the layer; NULL: none is */
	struct kept_home home;
	struct volumes volumes;
	struct layer layer;      /* of an overlay workspace */
	struct image_use image;  /* of brig's own that is the root */
	const struct seat *seat; /* borrowed until it has started */
	int *line;               /* likewise; see job_want */
	int cancel;              /* readable: cancel; -1: none, or its only command hears it */
	note_fn *note;
	void *note_arg;

	struct command_run *only;     /* it is a run: its command; NULL: it was opened */
	struct command_run *commands; /* of an open one */
	struct command_run *carrier;  /* of an open one: see run_carry */

	const struct backend *backend;
	struct backend_plan *plan;
	struct backend_job *job;
	struct isolation isolation;       /* what contains it and its commands */
	int events, alarm;                /* of the job; borrowed */
	uint64_t alarm_at;                /* when it was looked at, in microseconds */
	int lives;                        /* exposed_hold's; -1: no command was let go */
	const char *const *image_command; /* borrowed from the job; see job_io */
	const char *image_folder;

	struct outcome *o;
	struct recorder *recorder; /* NULL: nothing is recorded */
	struct err unrecorded;     /* why the record can take no more: it was ended for it */
	struct loop *loop;
	struct sandbox_watch watches[SANDBOX_SOURCES];
	struct sandbox_timer kill, look, drain, again, late;
	uint64_t started; /* microseconds; 0: it never was */
	bool cancelled, ended;
	bool over;    /* nothing is left to be waited for */
	bool offered; /* its descriptor was given to a loop around ours */

	struct egress *door; /* network proxy; NULL: none */
	bool door_ends;      /* nobody is surprised when it is gone */
	struct err door_lost;
	const struct name_asker *asker; /* who is asked for names; NULL: the terminal, or nobody */
	struct run_asks asks;
	bool redacted;      /* that something was is told */
	char told[16][128]; /* kinds of secrets that were seen to pass */
	size_t told_count;
	char unreached[4][256]; /* allowed hosts that did not answer */
	size_t unreached_count;
	struct unresolved *unresolved; /* network none; NULL: nobody listens */
	struct resolving resolving;    /* network bridge */
	struct publish *ports;         /* NULL: none are published */
	struct sightings *learn;       /* borrowed; NULL: nothing is learned */
	struct signing *signing;       /* with ssh_agent; NULL: none is lent */
	bool signed_for[3];            /* enum agentmsg_purpose: it was told */
};

struct command_run {
	const struct spec *spec;
	const struct command *command;
	struct run_io io;
	note_fn *note;
	void *note_arg;
	struct buf held; /* notes that would be written across its screen; NUL-ended */

	bool joins;               /* its sandbox was there before it, and has others */
	struct sandbox *of;       /* of one that joins: NULL once that has ended */
	struct command_run *next; /* in the sandbox's list */
	uint32_t number;          /* of it in its sandbox */
	uint64_t questions;       /* asked in its sandbox before it */
	int events;               /* of one that joins; borrowed from the job */

	struct outcome *o;
	struct recorder *recorder; /* NULL: nothing is recorded */
	struct err unrecorded;     /* of one that joins: see the sandbox's */
	struct loop *loop;
	struct run_watch watches[RUN_SOURCES];
	struct run_timer deadline, kill, look, drain, back;
	uint64_t started; /* microseconds */
	uint64_t left;    /* of its time, while its sandbox is paused; 0: it has no limit */

	struct pump out, err;
	struct last_words said; /* the last of its error output; on a terminal, of its output */
	struct vtfilter out_filter, err_filter;
	struct feed in;
	int master; /* of its terminal; -1: none */

	bool cancelled, ended;
	bool over;    /* nothing is left to be waited for */
	bool offered; /* its descriptor was given to a loop around ours */
};

/* ---- run_start.c ---- */

/* Says on *o that nothing was run, and why. */
void run_refuse(struct outcome *o, const struct err *e);
/* Makes the sandbox, with its command if it is a run; `from` is when that began. */
void run_start(struct sandbox *s, uint64_t from, struct err *e);
/* One more command in a sandbox that is open. */
void run_join(struct command_run *r, uint64_t from, struct err *e);

/* ---- run_signal.c ---- */

/* A signal for the command's process group, or for nothing once that has ended. */
void run_strike(const struct command_run *r, int sig);
/* The first verdict on how it ends stands. */
void run_end_as(struct outcome *o, enum outcome_kind kind, int sig);
void run_cancel(struct command_run *r, int sig);
void run_leave(struct command_run *r);
void run_hang_up(struct command_run *r);
void run_hear_signals(struct command_run *r);
bool run_asked_to_stop(void *run);
/* The same of a sandbox: a signal for everything in it; a cancel of one that was opened. */
void run_strike_all(const struct sandbox *s, int sig);
void run_cancel_all(struct sandbox *s);
bool run_open_asked_to_stop(void *sandbox);

/* ---- run_clock.c ---- */

void run_set_timers(struct command_run *r);
void run_stop_clock(struct command_run *r);
void run_open_set_timers(struct sandbox *s);
void run_open_stop_clock(struct sandbox *s);

/* ---- run_turn.c ---- */

void run_set_watches(struct command_run *r);
void run_open_set_watches(struct sandbox *s);
/* Waits from now on for what its state wants. */
void run_arrange(struct command_run *r);
void run_open_arrange(struct sandbox *s);
void run_open_turn(struct sandbox *s, int wait_ms);
void run_look_at_alarm(struct sandbox *s);

/* ---- run_commands.c ---- */

void run_carry(struct sandbox *s, struct command_run *r);
void run_hand_on(struct sandbox *s);
/* All that runs in an open sandbox, or it goes on: its layer stays the sandbox's own. */
int run_stand_still(struct sandbox *s, bool on, struct err *e);
/* Takes a command out of its sandbox. */
void run_forget(struct command_run *r);
void run_lose_commands(struct sandbox *s);

/* ---- run_end.c ---- */

/* The sandbox's backend has news of it, or of one of its commands. */
void run_event(struct sandbox *s, bool alarm);
void run_command_event(struct command_run *r);
void run_note_end(struct outcome *o, uint64_t started);
void run_has_ended(struct command_run *r);
/* The record can take no more: the sandbox, or the command that joined it, is ended for it. */
void run_unrecorded(struct sandbox *s, const struct err *why);
void run_command_unrecorded(struct command_run *r, const struct err *why);
/* One line for the user: from a command, or from a sandbox. */
void run_tell(void *run, const char *text);
void run_open_tell(void *sandbox, const char *text);
/* Does the command have its terminal as a screen? */
bool run_is_painted(const struct command_run *r);

/* ---- what a sandbox may have: a door, names nobody answers, an ssh-agent, ports ---- */

int run_door_start(struct sandbox *s, struct err *e);
const char *run_door_authority(void *sandbox, struct err *e);
int run_door_attach(struct sandbox *s, const struct job_io *io, struct err *e);
void run_door_turn(struct sandbox *s);
/* why: the door's own words, or NULL */
void run_door_lost(struct sandbox *s, const struct egress_event *why);
void run_door_end(struct sandbox *s);

/* ---- run_ask.c: names that somebody is asked about ---- */

int run_ask_check(struct sandbox *s, struct err *e); /* is somebody there? */
void run_ask_open(struct sandbox *s, const struct egress_event *ev);
void run_ask_late(struct sandbox *s);
void run_ask_type(struct sandbox *s); /* the terminal has something */
/* The descriptor to read the answer from; -1: nobody is asked at a terminal now. */
int run_ask_fd(const struct sandbox *s);
void run_ask_end(struct sandbox *s); /* what is open is open no longer */

void run_names_turn(struct sandbox *s);
/* The outcome gets what was asked for; of a command, while it ran. */
void run_note_keys(const struct sandbox *s); /* of the caller's, that a grant shows */
void run_names_count(struct sandbox *s);
void run_names_count_own(struct command_run *r);

/* ---- run_layer.c: what an overlay workspace has in front ---- */

int run_layer_make(struct sandbox *s, struct err *e);
void run_layer_end(struct sandbox *s); /* nothing inside lives any more */
/* Of an open sandbox: a command has ended, whose outcome gets what came of workspace.apply. */
void run_layer_after(struct sandbox *s, struct outcome *o);
void run_layer_done(struct sandbox *s); /* one of a run that never was goes */

int run_agent_open(struct sandbox *s, struct err *e);
/* Takes the listener. */
void run_agent_start(struct sandbox *s, int listener);

int run_ports_open(struct sandbox *s, struct err *e);
void run_ports_start(struct sandbox *s);
