/* SPDX-License-Identifier: Apache-2.0 */
/* egress/worker/session_ask.c - a connection to a name that no rule allows waits for a person.
 *
 * Nothing of what it sent is consumed before the answer: the step that was refused is taken again,
 * and decides with what is known then. */
#include <stdio.h>
#include <string.h>

#include "egress/worker/session.h"

#define ONCE "--ask: once"
#define RUN "--ask: for this run"

static void add_reason(struct egress_verdict *v, const char *why)
{
	size_t n = strlen(v->what);

	(void)snprintf(v->what + n, sizeof(v->what) - n, " (%s)", why);
}

/* Whose word lets this name through; NULL: nobody's. */
static const char *granted(struct worker *k, const struct arrival *from, struct egress_verdict *v)
{
	uint32_t id;

	if (from->granted_port == v->port && host_eq(&from->granted, &v->host))
		return ONCE;
	switch (questions_look(k->questions, &v->host, v->port, loop_now(k->loop), false, &id)) {
	case QUESTION_YES:
		return RUN;
	case QUESTION_NO:
		add_reason(v, "asked, and the answer was no");
		break;
	case QUESTION_LATE:
		add_reason(v, "asked, and nobody answered");
		break;
	default:
		break;
	}
	return NULL;
}

bool asked_decide(struct worker *k, const struct arrival *from, const struct egress_request *q,
		  struct egress_verdict *v)
{
	struct egress_request again = *q;

	if (egress_decide(k->rules, q, v))
		return true;
	if (!k->questions || !v->askable)
		return false;
	again.granted = granted(k, from, v);
	return again.granted && egress_decide(k->rules, &again, v);
}

bool session_asks(struct session *s, struct egress_verdict *v)
{
	struct worker *k = s->k;
	enum question_found found;
	uint32_t id = 0;

	/* A name that carries a secret is shown to nobody; one beyond the budget is not asked
	 * about. */
	if (!k->questions || !v->askable || !rate_name(k->rate, &v->host, v) ||
	    !name_may_leave(k, v))
		return false;
	found = questions_look(k->questions, &v->host, v->port, loop_now(k->loop), true, &id);
	if (found == QUESTION_FLOOD)
		add_reason(v, "not asked: there were too many questions");
	if (found != QUESTION_NEW && found != QUESTION_WAITS)
		return false;
	if (s->question != id)
		session_patience(s, QUESTION_HOLD_US + SECOND);
	s->question = id;
	if (found == QUESTION_NEW)
		report_question(k, v, id);
	return true;
}

/* They look again at what they were refused, each by itself. */
static void run_waiting(struct worker *k, uint32_t id, const struct question_entry *once)
{
	for (struct session *s = k->sessions, *next; s; s = next) {
		next = s->next;
		if (s->question != id)
			continue;
		s->question = 0;
		session_patience(s, HEAD_US);
		if (once) {
			s->from.granted = once->host;
			s->from.granted_port = once->port;
		}
		session_run(s);
	}
}

void asked_answer(struct worker *k, const struct egress_answer *a)
{
	struct question_entry x;

	if (questions_answer(k->questions, a->id, (enum question_answer)a->answer,
			     loop_now(k->loop), &x))
		run_waiting(k, a->id, a->answer == ANSWER_ONCE ? &x : NULL);
}

void asked_tick(struct worker *k, uint64_t now)
{
	uint32_t id;

	while (k->questions && (id = questions_late(k->questions, now)))
		run_waiting(k, id, NULL);
}
