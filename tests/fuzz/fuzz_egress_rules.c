/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_egress_rules.c - lines: rules, then behind an empty line one request. Whatever the
 * rules, an address is never let through, a name in a deny rule never, and a "yes" names its rule.
 */
#include "fuzz.h"

#include "egress/rules/allow.h"
#include "model/settings/rule.h"

static char *line(char **at)
{
	char *p = *at, *end = p ? strchr(p, '\n') : NULL;

	*at = end ? end + 1 : NULL;
	if (end)
		*end = '\0';
	return p;
}

static void ask(const struct egress_rules *r, char *at)
{
	const char *host = line(&at), *method = line(&at), *target = line(&at);
	struct egress_request q = { .via = EGRESS_VIA_TLS, .port = 443 };
	struct egress_verdict v;
	struct addr a;
	bool early;

	if (!target)
		return;
	q.host = q.sni = egress_text(host, strlen(host));
	early = egress_decide(r, &q, &v);
	require(early == (v.reason == EGRESS_OK));
	require(!early || addr_parse(host, strlen(host), &a) < 0);
	q.method = egress_text(method, strlen(method));
	q.target = egress_text(target, strlen(target));
	/* a request is never allowed where the connection was not */
	require(!egress_decide(r, &q, &v) || early);
	if (v.reason == EGRESS_OK)
		require(v.rule && v.host.len && !v.what[0]);
	else
		require(v.what[0] && v.reason < EGRESS_REASONS);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct arena *a = arena_new((size_t)4 << 20);
	struct egress_spec s = { .https_only = true, .inspect = true };
	struct egress_rules *r = NULL;
	char *text = text_of(data, size), *at = text, *p;
	struct err e;

	require(a != NULL);
	while ((p = line(&at)) && *p)
		if (list_add_rule(a, *p == '!' ? &s.deny : &s.allow, *p == '!' ? p + 1 : p, &e) < 0)
			require(e.code && e.what[0]);
	if (size < 1 << 16 && egress_rules_new(&s, &r, &e) == 0)
		ask(r, at);
	r = egress_rules_free(r);
	free(text);
	(void)arena_free(a);
	return 0;
}
