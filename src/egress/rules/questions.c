/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/rules/questions.h"

enum { FREE, OPEN, RUN, NO, LATE };

static struct question_entry *questions_find(struct questions *q, const struct host *h,
					     uint16_t port)
{
	for (unsigned i = 0; i < QUESTIONS_MAX; i++)
		if (q->v[i].state != FREE && q->v[i].port == port && host_eq(&q->v[i].host, h))
			return &q->v[i];
	return NULL;
}

/* An entry is kept for each question, so there is one as long as one may be asked. */
static struct question_entry *empty(struct questions *q)
{
	for (unsigned i = 0; i < QUESTIONS_MAX; i++)
		if (q->v[i].state == FREE)
			return &q->v[i];
	return NULL;
}

static void close_as(struct questions *q, struct question_entry *x, enum question_answer a,
		     uint64_t now)
{
	static const uint8_t becomes[ANSWERS] = {
		[ANSWER_NO] = NO, [ANSWER_ONCE] = FREE, [ANSWER_RUN] = RUN, [ANSWER_LATE] = LATE
	};
	bool yes = a == ANSWER_ONCE || a == ANSWER_RUN;

	q->open--;
	q->refused = yes ? 0 : q->refused + 1;
	if (q->refused >= QUESTIONS_NO) {
		q->refused = 0;
		q->quiet_until = now + QUESTION_REST_US;
	}
	x->state = becomes[a];
	x->until = now + QUESTION_REST_US;
}

static enum question_found questions_ask(struct questions *q, const struct host *h, uint16_t port,
					 uint64_t now, uint32_t *id)
{
	bool may = q->open < QUESTIONS_OPEN && q->asked < QUESTIONS_MAX && now >= q->quiet_until;
	struct question_entry *x = may ? empty(q) : NULL;

	if (!x)
		return QUESTION_FLOOD;
	q->open++;
	*x = (struct question_entry){ .host = *h,
				      .port = port,
				      .state = OPEN,
				      .id = ++q->asked,
				      .until = now + QUESTION_HOLD_US };
	*id = x->id;
	return QUESTION_NEW;
}

enum question_found questions_look(struct questions *q, const struct host *h, uint16_t port,
				   uint64_t now, bool asks, uint32_t *id)
{
	struct question_entry *x = questions_find(q, h, port);

	if (x && x->state == OPEN && now >= x->until)
		close_as(q, x, ANSWER_LATE, x->until);
	if (x && x->state == LATE && now >= x->until) {
		x->state = FREE;
		x = NULL;
	}
	if (!x)
		return asks ? questions_ask(q, h, port, now, id) : QUESTION_NONE;
	*id = x->id;
	if (x->state == OPEN)
		return QUESTION_WAITS;
	if (x->state == RUN)
		return QUESTION_YES;
	return x->state == NO ? QUESTION_NO : QUESTION_LATE;
}

bool questions_answer(struct questions *q, uint32_t id, enum question_answer a, uint64_t now,
		      struct question_entry *ret)
{
	for (unsigned i = 0; id && a < ANSWERS && i < QUESTIONS_MAX; i++)
		if (q->v[i].state == OPEN && q->v[i].id == id) {
			close_as(q, &q->v[i], a, now);
			*ret = q->v[i];
			return true;
		}
	return false;
}

uint32_t questions_late(struct questions *q, uint64_t now)
{
	for (unsigned i = 0; q->open && i < QUESTIONS_MAX; i++)
		if (q->v[i].state == OPEN && now >= q->v[i].until) {
			close_as(q, &q->v[i], ANSWER_LATE, now);
			return q->v[i].id;
		}
	return 0;
}
