/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/run/run_ports.c - the published ports of a run. */
#include "sandbox/run/run.h"

#include <stdio.h>

#include "sandbox/ports/publish.h"

static int lend(void *arg, struct lent *ret)
{
	const struct run *r = arg;

	return r->job ? r->backend->open->lend(r->job, ret) : -ECHILD;
}

/* The addresses are told before the command can say anything. */
int run_ports_open(struct run *r, struct err *e)
{
	struct published one;

	if (!r->spec->ports.n)
		return 0;
	if (publish_open(r->spec, &r->ports, e) < 0)
		return -e->code;
	for (size_t i = 0; publish_nth(r->ports, i, &one); i++) {
		char text[128];

		outcome_publish(r->o, &one);
		(void)snprintf(text, sizeof(text),
			       "port %u of the sandbox is 127.0.0.1:%u on this host", one.port,
			       one.host);
		run_tell(r, text);
	}
	return 0;
}

void run_ports_start(struct run *r)
{
	if (r->ports)
		publish_start(r->ports, lend, r);
}
