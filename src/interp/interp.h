/* SPDX-License-Identifier: Apache-2.0 */
/* interp/interp.h - a conversation with the program of one context (context.py), over two pipes.
 *
 *	starting -> idle <-> busy          any -> lost
 *
 * Who starts the program, where, and for how long a request may take, is the caller's. The program
 * runs code that is not ours: whatever it writes that is no answer to what it was asked for ends
 * the conversation. Nothing blocks; what waits to be sent is one request. */
#pragma once

#include "base/sys/loop.h"
#include "base/text/err.h"
#include "interp/interp_answer.h"

extern const char interp_program[]; /* the text of context.py, for python3 -c */

struct interp;

/* Neither may free the conversation. */
struct interp_listener {
	void (*answer)(void *arg,
		       const struct interp_answer *a); /* to the request; done is the last */
	void (*lost)(void *arg, const char *why,
		     bool gone); /* once, and nothing comes after it; gone: it has closed a pipe */
	void *arg;
};

/* Takes both descriptors, which are the caller's ends: `to` is written, `from` is read. */
int interp_new(struct loop *l, int to, int from, const struct interp_listener *by,
	       struct interp **ret, struct err *e);
struct interp *interp_free(struct interp *x);
DEFINE_CLEANUP(interp, struct interp *, interp_free)

/* Sends code, with texts as its arguments (they end with NULL), both borrowed until this returns.
 * Only while nothing else is under way; before the program has said that it is ready, too. */
int interp_ask(struct interp *x, const char *code, const char *const *args, struct err *e);

void interp_interrupt(struct interp *x); /* asks; whether it obeys is another matter */
