/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/run/run_ports.c - the published ports of a sandbox. */
#include "sandbox/run/run.h"

#include <stdio.h>

#include "sandbox/ports/publish.h"

static int lend(void *arg, struct lent *ret)
{
	const struct sandbox *s = arg;

	return s->job ? s->backend->open->lend(s->job, ret) : -ECHILD;
}

/* The addresses are told before the command can say anything. */
int run_ports_open(struct sandbox *s, struct err *e)
{
	struct published one;

	if (!s->spec->ports.n)
		return 0;
	if (publish_open(s->spec, &s->ports, e) < 0)
		return -e->code;
	for (size_t i = 0; publish_nth(s->ports, i, &one); i++) {
		char text[128];

		outcome_publish(s->o, &one);
		(void)snprintf(text, sizeof(text),
			       "port %u of the sandbox is 127.0.0.1:%u on this host", one.port,
			       one.host);
		run_open_tell(s, text);
	}
	return 0;
}

void run_ports_start(struct sandbox *s)
{
	if (s->ports)
		publish_start(s->ports, lend, s);
}
