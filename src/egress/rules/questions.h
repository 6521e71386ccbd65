/* SPDX-License-Identifier: Apache-2.0 */
/* egress/rules/questions.h - the names that a person is asked about, as the door keeps them.
 *
 *     unknown --> open --> run      yes, for the rest of the run
 *                  | '---> unknown  yes, once: whoever waits passes, and nobody else
 *                  |-----> no       for the rest of the run
 *                  '-----> late     nobody answered: no, and unknown again after a while
 *
 * One question a name and port, a handful open at a time, a bounded number a run, and none for a
 * while after a handful that got no "yes": what comes beyond that is "no" at once. Pure: no socket,
 * clock or log; times are microseconds. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "egress/rules/host.h"

#define QUESTION_US ((uint64_t)60 * 1000 * 1000) /* somebody has so long to answer */
#define QUESTION_HOLD_US                                                                           \
	(QUESTION_US + (uint64_t)10 * 1000 * 1000)        /* the door itself waits so long */
#define QUESTION_REST_US ((uint64_t)5 * 60 * 1000 * 1000) /* then nobody is asked for so long */

enum {
	QUESTIONS_OPEN = 4, /* at a time */
	QUESTIONS_MAX = 64, /* a run */
	QUESTIONS_NO = 4,   /* refused one after another: whoever asks so much is not let ask */
};

enum question_answer {
	ANSWER_NO,
	ANSWER_ONCE,
	ANSWER_RUN,
	ANSWER_LATE, /* none came */
	ANSWERS
};

enum question_found {
	QUESTION_NONE,  /* nothing is known */
	QUESTION_NEW,   /* it is to be asked now */
	QUESTION_WAITS, /* it was asked, and there is no answer yet */
	QUESTION_YES,
	QUESTION_NO,
	QUESTION_LATE,  /* nobody answered, a while ago */
	QUESTION_FLOOD, /* too many are open, or were asked */
};

struct question_entry {
	struct host host;
	uint16_t port;
	uint16_t state; /* of questions.c */
	uint32_t id;
	uint64_t until; /* open: it is late then; late: it may be asked again then */
};

struct questions {
	struct question_entry v[QUESTIONS_MAX];
	uint32_t asked; /* ids are 1 and so on, in order */
	unsigned open;
	unsigned refused;     /* since the last "yes" */
	uint64_t quiet_until; /* no new question before */
};

/* What is known of this name at this port; `asks`: a new question is opened if there may be one.
 * *id is that of a question that is new or waits. */
enum question_found questions_look(struct questions *q, const struct host *h, uint16_t port,
				   uint64_t now, bool asks, uint32_t *id);
/* false: there is no such open question. *ret is what it was about. */
bool questions_answer(struct questions *q, uint32_t id, enum question_answer a, uint64_t now,
		      struct question_entry *ret);
/* An open question whose time is over, which is late from now on; 0: none. */
uint32_t questions_late(struct questions *q, uint64_t now);
