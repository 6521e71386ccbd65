/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/route_run.c - POST /v1/run: one command in a sandbox that is made for it and ends with it.
 *
 * made -> ready -> the command is attached to the call -> its end, or the caller's leaving, deletes
 * the sandbox. Until it is ready the one who waits is struct one_run; from then on route_execs.c
 * knows what to delete. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "daemon/api.h"

struct one_run {
	struct events_listener listener; /* first */
	struct loop_timer later;
	struct api *api;
	struct http_call *call;
	struct events_cursor at;
	char id[SANDBOX_ID_SIZE];
};

static void forget(struct one_run *w)
{
	events_unlisten(&w->listener);
	loop_at(w->api->loop, &w->later, 0);
	free(w);
}

static void discard(struct api *a, const char *id)
{
	struct err e;

	(void)sandboxes_do(a->boxes, "", id, SANDBOX_DELETE, 0, NULL, NULL, &e);
}

static void gone(void *arg)
{
	struct one_run *w = arg;

	discard(w->api, w->id);
	forget(w);
}

static void begin(struct one_run *w)
{
	CLEANUP(jread) struct jread *body = NULL;
	struct http_call *c = w->call;
	struct api *a = w->api;
	char exec[EXEC_ID_SIZE], id[SANDBOX_ID_SIZE];
	struct err e = { 0 };
	enum problem p = sandboxes_failure(a->boxes, w->id, &e);

	memcpy(id, w->id, sizeof(id));
	c->gone = NULL;
	c->parts[0] = id;
	if (p == PROBLEM_NONE && jread_parse(c->body, c->body_len, &body, &e) < 0)
		p = PROBLEM_INVALID; /* it was read before */
	if (p == PROBLEM_NONE)
		p = exec_begin(a, c, body, exec, &e);
	forget(w);
	if (p == PROBLEM_NONE) {
		exec_attach(a, c, exec, 0, id);
	} else {
		discard(a, id);
		http_problem(c, p, &e);
	}
	c->parts[0] = NULL;
}

static void look(struct loop_timer *t, uint64_t now)
{
	struct one_run *w = (struct one_run *)((char *)t - offsetof(struct one_run, later));
	struct event_text ev;
	bool settled = false;

	(void)now;
	while (events_next(w->api->events, &w->at, "", w->id, &ev) > 0)
		settled |= str_eq(ev.type, "sandbox.ready") || str_eq(ev.type, "sandbox.failed") ||
			   str_eq(ev.type, "sandbox.stopped") ||
			   str_eq(ev.type, "sandbox.deleting");
	if (settled)
		begin(w);
}

/* Not from within events_add: whoever adds may be in the middle of something. */
static void news(struct events_listener *l)
{
	struct one_run *w = (struct one_run *)l;

	loop_at(w->api->loop, &w->later, 1);
}

void serve_run(struct api *a, struct http_call *c, const struct jread *body)
{
	uint64_t before = events_last(a->events);
	struct one_run *w = calloc(1, sizeof(*w));
	struct err e = { 0 };
	enum problem p = PROBLEM_INTERNAL;

	(void)err_nomem(&e);
	if (w) {
		*w = (struct one_run){ .listener = { .news = news },
				       .later = { .due = look },
				       .api = a,
				       .call = c,
				       .at = { .seq = before } };
		p = sandbox_begin(a, c, body, w->id, &e);
	}
	if (p != PROBLEM_NONE) {
		free(w);
		http_problem(c, p, &e);
		return;
	}
	c->gone = gone;
	c->arg = w;
	events_listen(a->events, &w->listener);
	news(&w->listener);
}
