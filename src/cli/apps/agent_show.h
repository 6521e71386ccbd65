/* SPDX-License-Identifier: Apache-2.0 */
/* cli/apps/agent_show.h - what a person sees of a conversation with a model.
 *
 * The model's words go to standard output as they come, without what a terminal would obey; calls,
 * denials and everything of brig's go to standard error. Under --json one object follows at the
 * end, and nothing else. */
#pragma once

#include "apps/chat/chat_loop.h"

struct agent_show {
	bool json, quiet, yes;
	bool open;        /* a line of the model's is not ended */
	struct buf calls; /* for the object: a list of JSON */
};

void agent_show_init(struct agent_show *s, bool json, bool quiet, bool yes);
void agent_show_done(struct agent_show *s);
struct chat_listener agent_listener(struct agent_show *s);

/* A refused sandbox, as a panel on standard error. */
void agent_panel(const char *backend, const struct err *e);

/* The object of --json. `e` is what failed, or NULL. */
void agent_object(const struct agent_show *s, const struct spec *spec, const struct chat_history *h,
		  const struct chat_report *r, const struct err *e);
