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
	struct sightings *learn; /* what is seen of a run; borrowed; NULL: nothing is */
	const struct seat *seat; /* of a sandbox that has members; borrowed until it is open */
	int *line;               /* see job_want; likewise */
};

/* Says what the user should know; text is one line. */
typedef void note_fn(void *arg, const char *text);

struct sandbox;     /* with the commands in it */
struct command_run; /* one of them */

/* ---- a command: of a run, or in a sandbox that is open ---- */

/* A run, which is a sandbox with one command. Starts it and returns when it runs, or was refused:
 * then it is over at once, and *o says why. The spec, which must be checked, and *o must outlive
 * the run. NULL: no memory. */
struct command_run *run_begin(const struct spec *s, const struct run_io *io, note_fn *note,
			      void *note_arg, struct outcome *o);

/* A command in an open sandbox: as a run, with an outcome of its own. Its spec is the sandbox's
 * with another command. Turning it turns its sandbox, too, and what ends that ends it. The spec
 * must outlive it; the sandbox need not. */
struct command_run *run_exec(struct sandbox *s, const struct spec *spec, const struct run_io *io,
			     note_fn *note, void *note_arg, struct outcome *o);

bool run_over(const struct command_run *r);

/* Waits for what comes next, at most `wait_ms` (-1: for ever), and deals with it. */
void run_turn(struct command_run *r, int wait_ms);

/* For a program with a loop of its own: run_dispatch has something to do when the descriptor is
 * readable. It never waits. -errno */
int run_fd(struct command_run *r);
void run_dispatch(struct command_run *r);

void run_signal(struct command_run *r, int sig); /* for its process group */
void run_resize(struct command_run *r, unsigned short rows, unsigned short cols);

/* Of a run with an asker: see run_open_answer. */
int run_answer(struct command_run *r, uint32_t id, enum run_answer a, const char *by,
	       struct err *e);

/* A further command: is it executed? Its number in its sandbox, where no other gets it. */
bool run_began(const struct command_run *r);
uint32_t run_number(const struct command_run *r);

/* Of a command that has ended: lets go of what the reader of its output did not take yet. */
void run_drop_output(struct command_run *r);

/* Waits until nothing of it is left, completes the outcome and frees it. Takes NULL. */
void run_end(struct command_run *r);

/* ---- a sandbox without a command, which stays until run_close ---- */

/* Over at once if it was refused. Turned as a run is. Of io it has the asker, the seat and the
 * line. */
struct sandbox *run_open(const struct spec *s, int cancel, const struct run_io *io, note_fn *note,
			 void *note_arg, struct outcome *o);
bool run_open_over(const struct sandbox *s);
int run_open_fd(struct sandbox *s);
void run_open_dispatch(struct sandbox *s);

/* The answer to an open question. `always` is on the record as such; whoever writes the rule down
 * has done so. `by` is who gave it. */
int run_open_answer(struct sandbox *s, uint32_t id, enum run_answer a, const char *by,
		    struct err *e);

void run_open_signal(struct sandbox *s, int sig); /* for every process in it */

/* Everything in it stands still, its commands' deadlines too, or goes on. */
int run_pause(struct sandbox *s, bool on, struct err *e);
/* An operation on files: see job_want.files. */
int run_files(struct sandbox *s, const char *const *words, const int *ends, uint32_t *ret,
	      struct err *e);
/* What it has changed in its overlay workspace, as look_text has it (workspace/layer_look.h); it
 * stands still meanwhile. Blocks. */
typedef int run_changes_put(void *arg, const char *data, size_t n);
int run_open_changes(struct sandbox *s, run_changes_put *put, void *arg, struct err *e);
/* The same of a run that is over, of the workspace of these settings: NULL: the last one. */
int run_changes(const struct spec *s, const char *run, run_changes_put *put, void *arg,
		struct err *e);
/* Its commands that run, or have left something running. */
size_t run_living(const struct sandbox *s);
/* The end of all that the command of this number has started and left, which may be nothing. */
void run_end_command(struct sandbox *s, uint32_t number);

/* What its image, of a companion, runs by itself; see job_io. */
const char *const *run_image_command(const struct sandbox *s, const char **folder);

/* See sandbox_explain. */
uint64_t run_open_questions(const struct sandbox *s);
void run_open_explain(const struct sandbox *s, uint64_t questions, const char *said, size_t n,
		      struct outcome *o);

/* Ends it with all that runs in it, completes the outcome and frees it. Takes NULL. */
void run_close(struct sandbox *s);

/* All of it. Fills *o in every case, refusals included; the outcome says how it went. */
void sandbox_run(const struct spec *s, const struct run_io *io, note_fn *note, void *note_arg,
		 struct outcome *o);

/* The plan as JSON, or an error; nothing is run. */
int sandbox_plan(const struct spec *s, struct json *j, struct err *e);
