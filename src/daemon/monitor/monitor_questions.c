/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/monitor/monitor_questions.c - names that no rule allows: whoever listens to a monitor is
 * told, and may answer. */
#include <stdio.h>
#include <string.h>

#include "daemon/monitor/monitor_internal.h"

static struct monitor_say questions_word(enum monitor_says says, const struct name_question *q)
{
	struct monitor_say s = { .says = says, .value = q->id | (uint64_t)q->port << 32 };

	(void)snprintf(s.err.what, sizeof(s.err.what), "%s", q->host);
	return s;
}

static void on_opened(void *arg, const struct name_question *q)
{
	const struct monitor_say s = questions_word(MONITOR_QUESTION, q);

	clients_say(arg, &s);
}

static void questions_on_closed(void *arg, const struct name_question *q, const char *answer,
				const char *by)
{
	struct monitor_say s = questions_word(MONITOR_ANSWERED, q);

	(void)snprintf(s.reason, sizeof(s.reason), "%s", answer);
	(void)snprintf(s.err.hint, sizeof(s.err.hint), "%s", by);
	clients_say(arg, &s);
}

void questions_begin(struct monitor *m, brig_request *q)
{
	m->asker =
		(struct name_asker){ .arg = m, .opened = on_opened, .closed = questions_on_closed };
	if (request_spec(q)->egress.ask)
		request_asker(q, &m->asker);
}

void questions_take(struct monitor *m, const struct monitor_ask *q, const char *by, size_t n)
{
	struct err unused; /* it is answered already, or late: that is told */
	char text[MONITOR_BY];

	(void)snprintf(text, sizeof(text), "%.*s", (int)strnlen(by, n), by);
	if (m->sandbox && q->rows < RUN_ANSWERS)
		(void)sandbox_answer(m->sandbox, (uint32_t)q->value, (enum run_answer)q->rows, text,
				     &unused);
}
