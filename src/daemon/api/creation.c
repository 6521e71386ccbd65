/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/creation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/str.h"

struct creation {
	struct events_listener listener; /* first */
	struct loop_timer later;
	struct api *api;
	struct http_call *call;
	const struct creation_end *end;
	struct events_cursor at;
	char id[SANDBOX_ID_SIZE];
};

static void creation_free(struct creation *w)
{
	events_unlisten(&w->listener);
	loop_at(w->api->loop, &w->later, 0);
	free(w);
}

static void end_with(struct creation *w, creation_fn *how)
{
	char id[SANDBOX_ID_SIZE];
	struct http_call *c = w->call;
	struct api *a = w->api;

	memcpy(id, w->id, sizeof(id));
	creation_free(w);
	how(a, c, id);
}

static void creation_on_gone(void *arg)
{
	struct creation *w = arg;

	end_with(w, w->end->gone);
}

static void creation_look(struct loop_timer *t, uint64_t now UNUSED)
{
	static const char *const last[] = { "sandbox.ready", "sandbox.failed", "sandbox.stopped",
					    "sandbox.deleting", "sandbox.deleted" };
	struct creation *w = CONTAINER_OF(t, struct creation, later);
	struct event_text ev;
	bool settled = false;

	while (events_next(w->api->events, &w->at, "", w->id, &ev) > 0)
		for (size_t i = 0; i < ARRAY_LEN(last); i++)
			settled |= str_eq(ev.type, last[i]);
	if (!settled)
		return;
	w->call->gone = NULL;
	end_with(w, w->end->settled);
}

/* Not from within events_add: whoever adds may be in the middle of something. */
static void news(struct events_listener *l)
{
	struct creation *w = (struct creation *)l;

	loop_at(w->api->loop, &w->later, 1);
}

int creation_wait(struct api *a, struct http_call *c, const char *id,
		  const struct events_cursor *before, const struct creation_end *end)
{
	struct creation *w = calloc(1, sizeof(*w));

	if (!w)
		return -ENOMEM;
	*w = (struct creation){ .listener = { .news = news },
				.later = { .due = creation_look },
				.api = a,
				.call = c,
				.end = end,
				.at = *before };
	(void)snprintf(w->id, sizeof(w->id), "%s", id);
	c->gone = creation_on_gone;
	c->arg = w;
	events_listen(a->events, &w->listener);
	news(&w->listener);
	return 0;
}
