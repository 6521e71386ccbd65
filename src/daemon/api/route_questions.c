/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/api/route_questions.c - names that a sandbox asks for and no rule allows: which, and an
 * answer.
 *
 * A tenant's sandbox is bounded by what the owner allows: the owner alone answers. */
#include <stdio.h>

#include "base/text/num.h"
#include "base/text/str.h"
#include "daemon/api/api.h"

#define LIST_MAX ((size_t)64 << 10)

void serve_questions(struct api *a, struct http_call *c, const struct jread *body UNUSED)
{
	api_answer_of(a, c, "questions", LIST_MAX, questions_list);
}

/* "always" is a change of the owner's settings, which has a route of its own. */
static bool question_read_answer(const char *text, enum run_answer *ret)
{
	static const struct {
		const char *word;
		enum run_answer answer;
	} words[] = { { "no", RUN_ANSWER_NO },
		      { "once", RUN_ANSWER_ONCE },
		      { "run", RUN_ANSWER_RUN } };

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (str_eq(text, words[i].word)) {
			*ret = words[i].answer;
			return true;
		}
	return false;
}

void serve_question_answer(struct api *a, struct http_call *c, const struct jread *body)
{
	enum run_answer what = RUN_ANSWER_NO;
	const char *by = c->caller->session ? "the owner, in the dashboard"
			 : c->caller->local ? "the owner, over the daemon's socket"
					    : "the owner, with a token";
	enum problem p = PROBLEM_NONE;
	struct err e = { 0 };
	uint64_t id;

	if (!api_is_owner(c))
		p = problem_say(PROBLEM_FORBIDDEN, &e, "the daemon's owner alone answers");
	else if (num_count(c->parts[1], &id) < 0)
		p = problem_say(PROBLEM_INVALID, &e, "that is not the number of a question");
	else if (!question_read_answer(jread_str(body, "answer"), &what))
		p = problem_say(
			PROBLEM_INVALID, &e,
			"'answer' is once, run or no; for always: /v1/policy/allow, then run");
	else
		p = questions_answer_one(a->boxes, c->caller->tenant, c->parts[0], id, what, by,
					 &e);
	if (p != PROBLEM_NONE)
		http_problem(c, p, &e);
	else
		http_answer(c, 204, NULL, NULL, "", 0);
}
