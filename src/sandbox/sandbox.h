/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/sandbox.h - the conductor: a spec and a backend become one run and its outcome.
 *
 * A run is a state machine on a loop of its own. It owns the deadline, moves the streams with
 * bounded memory and decides what a cancel means; isolation itself is the backend's. */
#pragma once

#include "backend/backend.h"
#include "model/outcome/outcome.h"
#include "model/settings/answer.h"
#include "model/settings/spec.h"

typedef void output_fn(void *arg, int stream, const char *data, size_t n);

/* A name that no rule allows, held at the door until somebody says whether it may be reached. */
struct name_question {
	uint32_t id; /* no other of the run has it */
	const char *host;
	uint16_t port;
	uint64_t until; /* clock_us: then nobody has answered */
};

/* Who is asked. `word` is what came of it: once, run, always, no, late. */
struct name_asker {
	void *arg;
	void (*opened)(void *arg, const struct name_question *q);
	void (*closed)(void *arg, const struct name_question *q, const char *word, const char *by);
};

/* Adds a rule to the user's own settings, or, unless it `writes`, only says what would change. */
typedef int always_fn(void *arg, const char *rule, bool writes, struct buf *diff, struct err *e);

struct run_io {
	int in;       /* where input comes from; -1: none */
	int out, err; /* where output goes; -1: it is kept in the outcome */
	output_fn
		*on_output; /* called with what is kept, as it arrives, whole characters; or NULL */
	void *arg;
	bool tells; /* output is not kept, but goes to on_output alone */
	bool apart; /* a command whose sandbox is turned by the caller, too, and not by it */
	unsigned short rows, cols; /* of a terminal that nobody sits at; 0: ask `out` */
	int signals; /* a signalfd: TERM, INT, HUP, QUIT cancel, WINCH resizes; or -1 */
	int cancel;  /* readable: cancel; or -1 */
	const struct name_asker *asker; /* borrowed as long as the run is there; NULL: none */
	int terminal;      /* of the person who is asked instead: a descriptor for this alone, not
			      blocking; borrowed; 0: none */
	always_fn *always; /* for that person's "always"; NULL: it cannot be had */
	void *always_arg;
	const struct seat *seat; /* of a sandbox that has members; borrowed until it is open */
	int *line;               /* see job_want; likewise */
};

/* Says what the user should know; text is one line. */
typedef void note_fn(void *arg, const char *text);

struct run;

/* Starts the command and returns when it runs, or was refused: then the run is over at once, and *o
 * says why. The spec, which must be checked, and *o must outlive the run. NULL: no memory. */
struct run *run_begin(const struct spec *s, const struct run_io *io, note_fn *note, void *note_arg,
		      struct outcome *o);
bool run_over(const struct run *r);

/* Waits for what comes next, at most `wait_ms` (-1: for ever), and deals with it. */
void run_turn(struct run *r, int wait_ms);

/* For a program with a loop of its own: run_dispatch has something to do when the descriptor is
 * readable. It never waits. -errno */
int run_fd(struct run *r);
void run_dispatch(struct run *r);

/* A sandbox without a command, which stays until run_close: over at once if it was refused. Turned
 * as a run is. Of io it has the asker, the seat and the line. */
struct run *run_open(const struct spec *s, int cancel, const struct run_io *io, note_fn *note,
		     void *note_arg, struct outcome *o);

/* Of a run, or an open sandbox, with an asker: the answer to an open question. `always` is on the
 * record as such; whoever writes the rule down has done so. `by` is who gave it. */
int run_answer(struct run *r, uint32_t id, enum run_answer a, const char *by, struct err *e);

/* A command in it: a run as any other, with an outcome of its own. Its spec is the sandbox's with
 * another command. Turning it turns its sandbox, too, and what ends that ends it. The spec must
 * outlive it; the sandbox need not. */
struct run *run_exec(struct run *sandbox, const struct spec *s, const struct run_io *io,
		     note_fn *note, void *note_arg, struct outcome *o);

/* A signal for the command's process group; of an open sandbox, for every process in it. */
void run_signal(struct run *r, int sig);

/* Everything in an open sandbox stands still, its commands' deadlines too, or goes on. */
int run_pause(struct run *r, bool on, struct err *e);
/* An operation on files of an open sandbox: see job_want.files. */
int run_files(struct run *r, const char *const *words, const int *ends, uint32_t *ret,
	      struct err *e);
/* Its commands that run, or have left something running. */
size_t run_living(const struct run *r);
/* A further command: is it executed? */
bool run_began(const struct run *r);
/* A command's number in its sandbox, where no other gets it; and the end of all that this one has
 * started and left, which may be nothing. */
uint32_t run_number(const struct run *r);
void run_end_command(struct run *sandbox, uint32_t number);

/* What the image of an open sandbox, a companion, runs by itself; see job_io. */
const char *const *run_image_command(const struct run *r, const char **folder);

void run_resize(struct run *r, unsigned short rows, unsigned short cols);

/* Of a command that has ended: lets go of what the reader of its output did not take yet. */
void run_drop_output(struct run *r);

/* Ends an open sandbox with all that runs in it; run_end waits for that. */
void run_close(struct run *r);

/* Waits until nothing of the run is left, completes the outcome and frees the run. Takes NULL. */
void run_end(struct run *r);

/* All of it. Fills *o in every case, refusals included; the outcome says how it went. */
void sandbox_run(const struct spec *s, const struct run_io *io, note_fn *note, void *note_arg,
		 struct outcome *o);

/* The plan as JSON, or an error; nothing is run. */
int sandbox_plan(const struct spec *s, struct json *j, struct err *e);
