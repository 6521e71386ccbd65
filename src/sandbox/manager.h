/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/manager.h - the inside of brig.h, for the command line, which fills a request's spec
 * itself. */
#pragma once

#include "brig.h"
#include "model/outcome/outcome.h"
#include "model/settings/spec.h"
#include "sandbox/sandbox.h"

/* brig as the bwrap backend starts it inside a sandbox; see backend_inside. */
_Noreturn void sandbox_inside(int letter);

struct spec *request_spec(brig_request *q);
brig_request *request_from(
	const struct spec *s); /* with a copy of these settings; NULL: no memory */
/* A copy of what was asked for, checked against where this process stands. */
struct spec *request_checked(const brig_request *q, struct err *e);
void request_signals(brig_request *q, int signalfd); /* borrowed; see struct run_io */

/* What is seen of its runs goes there; borrowed. */
void request_learn(brig_request *q, struct sightings *to);

/* Whoever is asked about names that no rule allows: the person at this terminal, as struct run_io
 * has it (-1: none), or, of an open sandbox, an asker; both borrowed. */
void request_asks(brig_request *q, int terminal,
		  int (*always)(void *arg, const char *rule, bool writes, struct buf *diff,
				struct err *e));
void request_asker(brig_request *q, const struct name_asker *a);
int run_handle_answer(brig_run *x, uint32_t id, enum run_answer a, const char *by, struct err *e);
int sandbox_answer(brig_sandbox *s, uint32_t id, enum run_answer a, const char *by, struct err *e);

/* Output is told (brig_request_on_output) and not kept: nothing of it is in the result. The sandbox
 * is dispatched by the caller, whatever its commands do: the kernel lets few of them wait for one
 * and the same descriptor by epoll in epoll. */
void request_tell(brig_request *q);
/* The second half of that alone: output is kept. */
void request_apart(brig_request *q);
/* What a command of an open sandbox is, from an order: copied. Its variables are in place of
 * brig_request_env. */
struct order;
int request_order(brig_request *q, const struct order *o, struct brig_error *e);
/* A command of an open sandbox gets a terminal of that size. */
void request_terminal(brig_request *q, unsigned short rows, unsigned short cols);
void run_handle_resize(brig_run *x, unsigned short rows, unsigned short cols);
/* A signal for the command's process group, once it runs; for every process of a sandbox. */
void run_handle_signal(brig_run *x, int sig);
/* Once it has ended: what the reader of its output has not taken is let go. */
void run_handle_drop(brig_run *x);
bool run_handle_began(const brig_run *x);                   /* is it executed? */
const char *run_handle_id(const brig_run *x);               /* on the record; borrowed */
uint32_t run_handle_number(const brig_run *x);              /* 0: it was never started */
void sandbox_end_command(brig_sandbox *s, uint32_t number); /* with all it has left running */
void sandbox_signal(brig_sandbox *s, int sig);
int sandbox_pause(brig_sandbox *s, bool on, struct err *e);
/* What it has changed in its overlay workspace, as a patch, hostile text: in pieces, until `put`
 * returns other than 0. Of a run that is over: of the workspace of these settings alone; NULL: the
 * last one. Blocks. */
int sandbox_changes(brig_sandbox *s, int (*put)(void *arg, const char *data, size_t n), void *arg,
		    struct err *e);
int sandbox_changes_of(const struct spec *s, const char *run,
		       int (*put)(void *arg, const char *data, size_t n), void *arg, struct err *e);
/* An operation on files (proc/files/files.h): words and ends, borrowed. *ret is for
 * sandbox_end_command.
 */
int sandbox_files(brig_sandbox *s, const char *const *words, const int *ends, uint32_t *ret,
		  struct err *e);
/* The limits that a command of an open sandbox would have: milliseconds (0: none), bytes of each
 * stream. */
struct command_limits {
	uint64_t timeout, output;
};
struct command_limits sandbox_limits(const brig_sandbox *s, const brig_request *q);
size_t sandbox_living(const brig_sandbox *s); /* commands, with those that left something */
/* The router of a sandbox and its companions, which is there as long as the descriptor is, and who
 * answers for the names of the spec's members in it; and the sandbox that is opened, whose spec has
 * members, as the nth of them. */
struct members_router {
	int fd; /* -1: none */
	int pid, pidfd;
};
int sandbox_router(const struct spec *s, struct members_router *ret, struct err *e);
void sandbox_router_close(struct members_router *r); /* also one of { .fd = -1 } */
void request_seat(brig_request *q, int router, unsigned n);
/* A pair of sockets between the backend and its process inside, taken over when it is opened. */
void request_line(brig_request *q, int here, int there);
/* What the image of an open sandbox would run by itself, and where; NULL: it says nothing, or there
 * is none. Borrowed. */
const char *const *sandbox_image_command(const brig_sandbox *s, const char **folder);
/* What an open sandbox is made of, for whoever asks while it is open; borrowed. */
const struct outcome *sandbox_facts(const brig_sandbox *s);
/* Of a call to a program that runs in it already (interp/context.h), which is no command: the names
 * that were asked for since so many questions, and why it may have failed, by the last that it said
 * on stderr. */
uint64_t sandbox_questions(const brig_sandbox *s);
void sandbox_explain(const brig_sandbox *s, uint64_t questions, const char *said, size_t n,
		     struct outcome *o);
/* Removes what died with its monitor has left behind. */
void sandbox_tidy(void);
/* Has all been judged that runs have left in this folder, around and below it, and lives none? Else
 * a refusal. After sandbox_tidy. */
int sandbox_judged(const char *path, struct err *e);
/* What sandbox_tidy found in the workspace of this spec; free it. NULL: no memory. */
struct outcome *sandbox_told(const struct spec *s);
/* Pods whose run is gone, each told by its name; dry: and left. */
int sandbox_prune_pods(bool dry, void (*said)(void *arg, const char *pod), void *arg,
		       struct err *e);

/* Spools of job arrays that nobody will ask for any more. */
int sandbox_prune_spools(bool dry, void (*said)(void *arg, const char *spool), void *arg,
			 struct err *e);

/* The same from a path; "-" is standard input. */
int request_code_file(brig_request *q, enum code_kind kind, const char *path, struct err *e);
int request_code(brig_request *q, enum code_kind kind, const void *text, size_t n, const char *file,
		 struct err *e);

/* Why none would: the settings are wrong; this version or the caller's word does not let it run;
 * this machine has no engine for it. */
enum spec_fault { FAULT_FILE, FAULT_VERSION, FAULT_MACHINE };

/* The backend that would run this spec, which nothing is started for; the error says why none
 * would, and *why whose fault that is. */
int spec_backend(const struct spec *s, const char **name, enum spec_fault *why, struct err *e);
/* Where the companions of this sandbox are run: in containers beside it, by that backend. NULL:
 * they are programs of this machine. */
int companion_backend(const struct spec *s, const char **name, struct err *e);
/* Fetches an image for a backend; NULL: for the one that has images. */
int sandbox_pull(const char *backend, const char *ref, brig_note_fn *note, void *arg,
		 struct err *e);
/* Builds one from the text of a Dockerfile alone, whose argument BASE gets `base` unless NULL. */
int sandbox_build(const char *ref, const char *text, const char *base, brig_note_fn *note,
		  void *arg, struct err *e);
struct outcome *result_outcome(brig_result *r);
brig_result *result_new(struct outcome *o); /* takes o over, unless NULL comes back */
const struct spec *manager_spec(const brig_manager *m);

void error_export(const struct err *from, struct brig_error *to);
void error_import(const struct brig_error *from, struct err *to);
/* Refuses a name that would end earlier than its caller thinks. */
int error_name(const char *what, const char *name, struct err *e);
int error_missing(const char *what, struct brig_error *to); /* "no WHAT was given"; -EINVAL */
