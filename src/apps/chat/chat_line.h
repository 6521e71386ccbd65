/* SPDX-License-Identifier: Apache-2.0 */
/* apps/chat/chat_line.h - the way to one model: a door of its own, and requests through it.
 *
 * The key is a credential of that door, whose worker puts it into the one request that its only
 * rule lets out. Who asks holds a placeholder, and speaks plain HTTP over a Unix socket that has no
 * name any more. The door's processes are started by a thread and end with it. */
#pragma once

#include <stdint.h>

#include "apps/chat/chat_events.h"
#include "base/text/cleanup.h"
#include "base/text/err.h"
#include "model/settings/spec.h"
#include "sandbox/sandbox.h"

struct chat_line;

/* Waits until it is open. Audit, roots, pinned names, leak rules and a credential of that name come
 * from the spec, which is borrowed; a key from the environment is wiped there. `note` is told what
 * the door refuses, by another thread. */
int chat_line_open(const struct spec *s, note_fn *note, void *arg, struct chat_line **ret,
		   struct err *e);
struct chat_line *chat_line_close(struct chat_line *l);
DEFINE_CLEANUP(chat_line, struct chat_line *, chat_line_close)

const char *chat_line_key(const struct chat_line *l); /* its name; NULL: there is none */

struct chat_ask {
	const char *body;
	size_t len;
	uint64_t deadline; /* microseconds of the clock */
	int signals;       /* readable: it is given up with EINTR */
	chat_text_fn *text;
	void *arg;
};

/* Asks, a few times if the server is busy or fails before it has said anything. *ret is the
 * caller's to free, also on errors. */
int chat_line_ask(struct chat_line *l, const struct chat_ask *q, struct chat_answer *ret,
		  struct err *e);
