/* SPDX-License-Identifier: Apache-2.0 */
/* egress/worker/labels_look.c - a name that the rules let through, before anybody learns of it. */
#include <stdio.h>

#include "egress/rules/labels.h"
#include "egress/worker/worker.h"

static bool labels_may(struct worker *k, struct egress_verdict *v)
{
	size_t n = labels_below(v->rule, &v->host);
	const char *what = n && k->plan->leaks.labels != UNREADABLE_ALLOW
				   ? labels_packed(v->host.name, n)
				   : NULL;
	char rule[sizeof("*.") + HOST_NAME_MAX_LEN];

	if (!what)
		return true;
	if (k->plan->leaks.labels == UNREADABLE_WARN) {
		report_leak(k, "packed labels", false);
		return true;
	}
	(void)snprintf(rule, sizeof(rule), "*%s", v->host.name + n);
	v->host = (struct host){ 0 }; /* the record is no place for it */
	return verdict_deny(v, EGRESS_LEAK,
			    "name the host in egress.allow, or --set egress.labels=warn",
			    "a name below %s is shaped like packed data: it has %s", rule, what);
}

bool name_may_leave(struct worker *k, struct egress_verdict *v)
{
	return (!k->scanner || scan_host(k->scanner, &v->host, v)) && labels_may(k, v);
}
