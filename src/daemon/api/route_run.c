/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/api/route_run.c - POST /v1/run: one command in a sandbox that is made for it and ends with
 * it.
 *
 * made -> ready -> the command is attached to the call -> its end, or the caller's leaving, deletes
 * the sandbox. Until it is ready creation.c waits; from then on route_execs.c knows what to delete.
 */
#include "daemon/api/creation.h"

static void route_run_discard(struct api *a, struct http_call *c UNUSED, const char *id)
{
	struct err e;

	(void)sandboxes_do(a->boxes, "", id, SANDBOX_DELETE, 0, NULL, NULL, &e);
}

static void route_run_begin(struct api *a, struct http_call *c, const char *id)
{
	CLEANUP(jread) struct jread *body = NULL;
	char exec[EXEC_ID_SIZE];
	struct err e = { 0 };
	enum problem p = sandboxes_failure(a->boxes, id, &e);

	c->parts[0] = id;
	if (p == PROBLEM_NONE && jread_parse(c->body, c->body_len, &body, &e) < 0)
		p = PROBLEM_INVALID; /* it was read before */
	if (p == PROBLEM_NONE)
		p = exec_begin(a, c, body, exec, &e);
	if (p == PROBLEM_NONE) {
		exec_attach(a, c, exec, 0, id);
	} else {
		route_run_discard(a, c, id);
		http_problem(c, p, &e);
	}
	c->parts[0] = NULL;
}

void serve_run(struct api *a, struct http_call *c, const struct jread *body)
{
	static const struct creation_end end = { .settled = route_run_begin,
						 .gone = route_run_discard };
	struct events_cursor before;
	char id[SANDBOX_ID_SIZE] = "";
	struct err e = { 0 };
	enum problem p;

	events_end(a->events, "", &before);
	p = sandbox_begin(a, c, body, id, &e);
	if (p == PROBLEM_NONE && creation_wait(a, c, id, &before, &end) < 0) {
		route_run_discard(a, c, id);
		(void)err_nomem(&e);
		p = PROBLEM_INTERNAL;
	}
	if (p != PROBLEM_NONE)
		http_problem(c, p, &e);
}
