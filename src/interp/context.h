/* SPDX-License-Identifier: Apache-2.0 */
/* interp/context.h - a context: its program in an open sandbox, one call at a time, and its end.
 *
 *	starting -> idle <-> busy           any -> dying -> gone
 *
 * A call has a time limit. Its end, and a cancel, are an interrupt; who does not obey within three
 * seconds is ended, as is whoever writes what is no answer, or is not called for half an hour. The
 * end of a context is that of its program and of all that this has started. One timer serves all
 * states. Names, and what is kept of a call, are the caller's. */
#pragma once

#include "base/sys/loop.h"
#include "brig.h"
#include "interp/interp.h"

enum { CONTEXTS_MAX = 8, CONTEXT_NAME_SIZE = 64, CONTEXT_WHY_SIZE = 160 };

/* Results to look at that a call may have, and their bytes. */
enum { CONTEXT_SHOWN_MAX = 64, CONTEXT_SHOWN_BYTES = 16 << 20 };

struct context;
struct outcome;

/* None of them may free the context but `ended`. */
struct context_listener {
	void (*output)(void *arg, int stream, const char *p, size_t n);
	void (*said)(void *arg, const struct interp_answer *a); /* what it shows; an exception */
	void (*answered)(void *arg, int code, bool late);       /* the call is over */
	/* Once, and nothing comes after it: it is gone. `o` is how its program ended, or NULL;
	 * `called`: a call ends with it. */
	void (*ended)(void *arg, const char *why, const struct outcome *o, bool called, bool late);
	void *arg;
};

/* Starts the program, as a command of a sandbox that outlives the context. */
int context_new(struct loop *l, brig_sandbox *s, const struct context_listener *by,
		struct context **ret, struct err *e);
struct context *context_free(struct context *x); /* waits for its end; tells nobody */
DEFINE_CLEANUP(context, struct context *, context_free)

/* Only while nothing else is under way; `args` ends with NULL; 0 ms: no limit. */
int context_ask(struct context *x, const char *code, const char *const *args, uint64_t timeout_ms,
		struct err *e);
/* After a call, or as it ends without an answer: the names that were asked for since the last one,
 * and why it may have failed. */
void context_explain(struct context *x, struct outcome *o);
void context_cancel(struct context *x);
void context_rest(struct context *x, bool on); /* its sandbox stands still: so does its time */
/* Ends it, and returns when it is gone: `ended` was called. NULL: as it says itself. */
void context_finish(struct context *x, const char *why);
bool context_dying(const struct context *x);         /* it takes no call any more */
const char *context_run_id(const struct context *x); /* the id of its run on the record */

/* Lower-case letters, digits, '.', '_' and '-', a letter or digit first; 63 at most. */
bool context_name_ok(const char *name);
