/* SPDX-License-Identifier: Apache-2.0 */
/* apps/toolset/tool_questions.c - names that no rule allows, asked for in sandboxes of the tools:
 * told to whoever has the person, and the answer to the sandbox. */
#include <stdlib.h>

#include "apps/toolset/tools_internal.h"
#include "sandbox/manager.h"

struct tool_question {
	struct tool_question *next;
	const struct tool_asker *of;
	uint32_t handle, id; /* ours; of its sandbox */
};

static void on_opened(void *arg, const struct name_question *n)
{
	struct tool_asker *a = arg;
	struct tools *t = a->of;
	struct tool_question *q = calloc(1, sizeof(*q));

	if (!q)
		return; /* it is late then */
	*q = (struct tool_question){
		.next = t->questions, .of = a, .handle = ++t->asked, .id = n->id
	};
	t->questions = q;
	if (t->asks_by.asked)
		t->asks_by.asked(t->asks_by.arg, q->handle, n->host, n->port);
	else
		tools_answer(t, q->handle, RUN_ANSWER_NOBODY, "nobody: the host does not ask");
}

static void tool_questions_on_closed(void *arg, const struct name_question *n,
				     const char *word UNUSED, const char *by UNUSED)
{
	struct tool_asker *a = arg;
	struct tool_question **at = &a->of->questions, *q;

	while (*at && ((*at)->of != a || (*at)->id != n->id))
		at = &(*at)->next;
	q = *at;
	if (!q)
		return;
	*at = q->next;
	if (a->of->asks_by.closed)
		a->of->asks_by.closed(a->of->asks_by.arg, q->handle);
	free(q);
}

void asker_begin(struct tool_asker *a, struct tools *t, brig_request *q)
{
	a->of = t;
	a->as = (struct name_asker){ .arg = a,
				     .opened = on_opened,
				     .closed = tool_questions_on_closed };
	if (t->spec->egress.ask)
		request_asker(q, &a->as);
}

void tools_ask_by(struct tools *t, const struct tools_asks *by)
{
	if (!t->daemon.tenant)
		t->asks_by = *by;
}

void tools_answer(struct tools *t, uint32_t handle, enum run_answer a, const char *by)
{
	struct tool_question *q = t->questions;
	struct err unused;

	while (q && q->handle != handle)
		q = q->next;
	if (!q)
		return;
	if (q->of->sandbox && *q->of->sandbox)
		(void)sandbox_answer(*q->of->sandbox, q->id, a, by, &unused);
	else if (q->of->run && *q->of->run)
		(void)run_handle_answer(*q->of->run, q->id, a, by, &unused);
}
