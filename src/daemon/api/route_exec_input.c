/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/api/route_exec_input.c - input of a command in a sandbox, on its way there: what the
 * command does not read yet waits here, and counts for its tenant. */
#include <stdio.h>
#include <string.h>

#include "base/sys/clock.h"
#include "base/text/str.h"
#include "daemon/api/api.h"

#define AGAIN_US 2000    /* until a full pipe is tried again, */
#define AGAIN_MAX 256000 /* and of one that stays full: a command may never read it */

/* Bytes on their way to a command; the pipe takes what it has room for. */
struct exec_input {
	struct loop_timer again; /* first */
	struct exec_input *next; /* of all there are */
	struct api *api;
	char tenant[TENANT_SIZE], sandbox[TENANT_SIZE], exec[EXEC_ID_SIZE];
	char *data;
	size_t len, at;
	uint64_t pause; /* until it is tried again */
	bool close;
	struct http_call *call; /* who awaits the end of it; NULL: nobody */
};

static void feed_free(struct exec_input *f)
{
	struct exec_input **at = &f->api->inputs;

	while (*at && *at != f)
		at = &(*at)->next;
	if (*at)
		*at = f->next;
	loop_at(f->api->loop, &f->again, 0);
	free(f->data);
	free(f);
}

static void feed_gone(void *arg)
{
	feed_free(arg);
}

static void feed_end(struct exec_input *f, enum problem p, const struct err *e)
{
	if (f->call && p != PROBLEM_NONE)
		http_problem(f->call, p, e);
	else if (f->call)
		http_answer(f->call, 204, NULL, NULL, "", 0);
	feed_free(f);
}

static void feed_turn(struct loop_timer *t, uint64_t now UNUSED)
{
	struct exec_input *f = (struct exec_input *)t;
	struct err e = { 0 };
	enum problem p = PROBLEM_NONE;
	size_t took = 0;

	if (exec_unsure(f->api->boxes, f->tenant, f->sandbox, f->exec)) {
		loop_at(f->api->loop, &f->again, clock_us() + AGAIN_US);
		return;
	}
	while (f->at < f->len) {
		p = exec_write(f->api->boxes, f->tenant, f->sandbox, f->exec, f->data + f->at,
			       f->len - f->at, &took, &e);
		if (p != PROBLEM_NONE || !took)
			break;
		f->at += took;
		f->pause = AGAIN_US;
	}
	if (p == PROBLEM_NONE && f->at < f->len) {
		loop_at(f->api->loop, &f->again, clock_us() + f->pause);
		f->pause = f->pause < AGAIN_MAX ? 2 * f->pause : AGAIN_MAX;
		return;
	}
	if (p == PROBLEM_NONE && f->close)
		p = exec_write(f->api->boxes, f->tenant, f->sandbox, f->exec, NULL, 0, &took, &e);
	feed_end(f, p, &e);
}

/* A command that does not read leaves its input here. */
enum problem exec_input_room(const struct api *a, const struct http_call *c, size_t n,
			     struct err *e)
{
	uint64_t sum = n;

	if (!c->caller->tenant[0])
		return PROBLEM_NONE;
	for (const struct exec_input *f = a->inputs; f; f = f->next)
		sum += str_eq(f->tenant, c->caller->tenant) ? f->len : 0;
	return sum <= API_TENANT_INPUT
		       ? PROBLEM_NONE
		       : problem_say(PROBLEM_QUOTA, e,
				     "this tenant's commands have not read %d MiB of input",
				     API_TENANT_INPUT >> 20);
}

static struct exec_input *feed_new(struct api *a, const struct http_call *c, const char *exec,
				   const char *data, size_t n)
{
	struct exec_input *f = calloc(1, sizeof(*f));
	char *copy = f ? malloc(n + 1) : NULL;

	if (!copy) {
		free(f);
		return NULL;
	}
	memcpy(copy, data, n);
	f->again.due = feed_turn;
	f->api = a;
	f->data = copy;
	f->len = n;
	f->pause = AGAIN_US;
	f->next = a->inputs;
	a->inputs = f;
	(void)snprintf(f->tenant, sizeof(f->tenant), "%s", c->caller->tenant);
	(void)snprintf(f->sandbox, sizeof(f->sandbox), "%s", c->parts[0]);
	(void)snprintf(f->exec, sizeof(f->exec), "%s", exec);
	return f;
}

bool exec_input_give(struct api *a, const struct http_call *c, const char *exec, const char *text)
{
	struct exec_input *f = feed_new(a, c, exec, text, strlen(text));

	if (!f)
		return false;
	f->close = true;
	feed_turn(&f->again, 0);
	return true;
}

void serve_exec_stdin(struct api *a, struct http_call *c, const struct jread *body UNUSED)
{
	struct exec_input *f;
	struct err e = { 0 };
	char text[8];

	if (exec_input_room(a, c, c->body_len, &e) != PROBLEM_NONE) {
		http_problem(c, PROBLEM_QUOTA, &e);
		return;
	}
	f = feed_new(a, c, c->parts[1], c->body, c->body_len);
	if (!f) {
		(void)err_nomem(&e);
		http_problem(c, PROBLEM_INTERNAL, &e);
		return;
	}
	f->close = http_param(c, "close", text, sizeof(text)) >= 0 && str_eq(text, "true");
	f->call = c;
	c->gone = feed_gone;
	c->arg = f;
	feed_turn(&f->again, 0);
}
