/* SPDX-License-Identifier: Apache-2.0 */
/* egress/unresolved.h - under `network: none`: names that the command asks for, all of them
 * refused.
 *
 *     quiet (a socket in the sandbox's network, and nothing else) -> the first question:
 * brig-egress is started to read it -> told
 *
 * What it reads it writes to a page that both have; the monitor trusts nothing in there. A sandbox
 * that asks for nothing costs no process. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/text/err.h"
#include "egress/rules/host.h"

enum { UNRESOLVED_NAMES = 32 }; /* that are kept; more are counted */

/* Shared with the worker, which alone writes. */
struct unresolved_page {
	uint64_t questions; /* for names of hosts */
	uint32_t names;     /* different ones, of those that are kept */
	struct host name[UNRESOLVED_NAMES];
	uint64_t last[UNRESOLVED_NAMES]; /* which question it was asked for with last, from 1 */
};

struct unresolved;

/* Takes the socket, whose queue is the sandbox's to fill. NULL: no memory; it is closed. */
struct unresolved *unresolved_new(int socket);
struct unresolved *unresolved_free(struct unresolved *a); /* ends the worker; takes NULL */

/* Readable: unresolved_turn has something to do; -1: it never will. */
int unresolved_fd(const struct unresolved *a);

/* true once: there is a first name. A worker that cannot be had ends it: the kernel refuses
 * questions then, and nobody counts them. */
bool unresolved_turn(struct unresolved *a);
/* Why there is none; NULL: there is one, or nobody asked. */
const struct err *unresolved_failed(const struct unresolved *a);

uint64_t unresolved_questions(const struct unresolved *a);
bool unresolved_nth(const struct unresolved *a, size_t n,
		    struct host *ret); /* false: there are no more */
/* Was it asked for again after so many questions? */
bool unresolved_since(const struct unresolved *a, size_t n, uint64_t questions);

/* names/refuse.c: what brig-egress does when it is started with this word. The socket is 3, what
 * wakes the monitor 4, the page 5. */
#define UNRESOLVED_WORD "names"
int refuse_main(void);
