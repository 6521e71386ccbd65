/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/registry/sandbox_questions.c - the open questions of a sandbox, as its monitor told of
 * them.
 *
 * Whoever listens to events hears of each. Where nobody does, nobody is there to answer, and the
 * door is told so at once.
 *
 * A door counts its questions from 1, and a sandbox that begins anew has another door. So they have
 * numbers of ours, of which there is each once: an answer that was meant for another question is
 * nobody's. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes/json.h"
#include "base/sys/clock.h"
#include "base/text/str.h"
#include "daemon/registry/sandboxes_internal.h"
#include "daemon/shared/event_log.h"

struct box_question {
	struct box_question *next;
	uint64_t number;
	uint32_t id; /* of the door's */
	uint16_t port;
	char host[256];
};

static struct box_question **box_question_find(struct sandbox_entry *b, uint32_t id)
{
	struct box_question **at = &b->questions;

	while (*at && (*at)->id != id)
		at = &(*at)->next;
	return at;
}

void questions_forget(struct sandbox_entry *b)
{
	for (struct box_question *q = b->questions, *next; q; q = next) {
		next = q->next;
		free(q);
	}
	b->questions = NULL;
}

static struct box_question *box_question_numbered(const struct sandbox_entry *b, uint64_t number)
{
	struct box_question *q = b->questions;

	while (q && q->number != number)
		q = q->next;
	return q;
}

/* No earlier daemon has used it, unless the clock went back. */
static uint64_t box_question_next(struct sandboxes *s)
{
	uint64_t now = clock_wall_us();

	s->asked = now > s->asked ? now : s->asked + 1;
	return s->asked;
}

static void box_question_put(struct json *j, const struct box_question *q)
{
	json_object(j);
	json_ku64(j, "question", q->number);
	json_kstr(j, "host", q->host);
	json_ku64(j, "port", q->port);
}

static void box_question_tell(const struct sandbox_entry *b, const struct box_question *q,
			      const char *answer, const char *by)
{
	CLEANUP(buf) struct buf data = BUF_INIT(4096);
	struct event_note n = { .type = answer ? "egress.answered" : "egress.asked",
				.tenant = b->tenant,
				.sandbox = b->id,
				.reason = answer };
	struct json j;

	json_init(&j, &data, false);
	box_question_put(&j, q);
	if (answer) {
		json_kstr(&j, "answer", answer);
		json_kstr(&j, "by", by);
	}
	json_object_end(&j);
	if (data.failed)
		return;
	n.data = buf_str(&data);
	(void)events_add(b->s->events, &n);
}

static int box_question_answer(struct sandbox_entry *b, uint32_t id, enum run_answer a,
			       const char *by)
{
	struct monitor_packet p = {
		.ask = { .asks = MONITOR_ANSWER, .value = id, .rows = (uint16_t)a }
	};

	(void)snprintf(p.order, MONITOR_BY, "%s", by);
	return link_ask_long(b, &p, strlen(p.order), NULL, 0);
}

void questions_opened(struct sandbox_entry *b, const struct monitor_say *m)
{
	struct box_question *q = calloc(1, sizeof(*q));
	uint32_t id = (uint32_t)m->value;

	if (!q || *box_question_find(b, id)) {
		free(q);
		return;
	}
	q->id = id;
	q->number = box_question_next(b->s);
	q->port = (uint16_t)(m->value >> 32);
	(void)snprintf(q->host, sizeof(q->host), "%.*s", (int)sizeof(q->host) - 1, m->err.what);
	*box_question_find(b, id) = q;
	if (!events_heard(b->s->events))
		(void)box_question_answer(b, id, RUN_ANSWER_NOBODY,
					  "nobody listens to the daemon's events");
	box_question_tell(b, q, NULL, NULL);
}

void questions_closed(struct sandbox_entry *b, const struct monitor_say *m)
{
	struct box_question **at = box_question_find(b, (uint32_t)m->value), *q = *at;
	char by[MONITOR_BY];

	if (!q)
		return;
	*at = q->next;
	(void)snprintf(by, sizeof(by), "%.*s", (int)sizeof(by) - 1, m->err.hint);
	box_question_tell(b, q, m->reason, by);
	free(q);
}

enum problem questions_list(struct sandboxes *s, const char *tenant, const char *ref,
			    struct json *j, struct err *e)
{
	struct sandbox_entry *b = entry_find(s, tenant, ref);

	if (!b)
		return problem_say(PROBLEM_NOT_FOUND, e, "there is no sandbox '%.80s'", ref);
	json_array(j);
	for (const struct box_question *q = b->questions; q; q = q->next) {
		box_question_put(j, q);
		json_object_end(j);
	}
	json_array_end(j);
	return PROBLEM_NONE;
}

enum problem questions_answer_one(struct sandboxes *s, const char *tenant, const char *ref,
				  uint64_t number, enum run_answer a, const char *by, struct err *e)
{
	struct sandbox_entry *b = entry_find(s, tenant, ref);
	const struct box_question *q = b ? box_question_numbered(b, number) : NULL;

	if (!q)
		return problem_say(PROBLEM_NOT_FOUND, e,
				   "no question %" PRIu64 " is open in '%.80s'", number, ref);
	if (b->strange || box_question_answer(b, q->id, a, by) < 0)
		return problem_say(PROBLEM_SANDBOX_NOT_READY, e, "sandbox '%s' does not answer",
				   b->id);
	return PROBLEM_NONE;
}
