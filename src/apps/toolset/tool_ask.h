/* SPDX-License-Identifier: Apache-2.0 */
/* apps/toolset/tool_ask.h - one question to the daemon, on the caller's loop.
 *
 * Asked over a connection of its own, so that giving it up is closing it. Connecting and the
 * question itself are waited for, which the daemon sees to at once; whatever depends on what runs
 * inside a sandbox is not. */
#pragma once

#include "base/sys/loop.h"
#include "base/text/buf.h"
#include "base/text/err.h"
#include "daemon/client/daemon_client.h"

#define ASK_BODY_MAX ((size_t)1 << 20) /* of a question that is JSON: the daemon takes no more */

struct tool_ask {
	struct loop_watch w; /* first */
	struct loop *loop;
	struct daemon_client *client; /* NULL: nothing is being asked */
	const char *give;             /* bytes that go as they are taken; borrowed */
	size_t give_len, given;
	int status; /* 0: nothing has come */
	bool events;
	struct sse sse;
	struct buf got; /* the answer, or a problem's words */
	/* One event of a stream; must not end the question. */
	void (*event)(void *arg, const struct sse *s);
	/* The last word, with the answer in `got`; *e has a code if there is none. May free it. */
	void (*done)(void *arg, const struct err *e);
	void *arg;
	struct tool_ask *next; /* of those that nobody waits for */
};

/* `a` has its handlers, and got's maximum; the rest is set here. With `give` the question's body is
 * those bytes. */
int ask_begin(struct tool_ask *a, struct loop *l, const char *tenant,
	      const struct daemon_question *q, struct err *e);
void ask_wait(struct tool_ask *a); /* for its status, whatever the loop does */
void ask_end(struct tool_ask *a);  /* gives it up; again is harmless */
