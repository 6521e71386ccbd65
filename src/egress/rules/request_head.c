/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/rules/request_head.h"

#include <string.h>
#include <strings.h>

bool egress_text_is(struct egress_text t, const char *word)
{
	/* Most names differ in their first sign: bit 5 is all that case can change. */
	if (t.n && ((t.p[0] ^ word[0]) & 0xdf))
		return false;
	return t.n == strlen(word) && strncasecmp(t.p, word, t.n) == 0;
}

struct egress_field *head_field(struct egress_head *h, const char *name)
{
	for (size_t i = 0; i < h->n_fields; i++)
		if (egress_text_is(h->fields[i].name, name))
			return &h->fields[i];
	return NULL;
}

bool egress_method_valid(struct egress_text m)
{
	if (!m.n || m.n > 24)
		return false;
	for (size_t i = 0; i < m.n; i++)
		if (!((m.p[i] >= 'A' && m.p[i] <= 'Z') || m.p[i] == '-'))
			return false;
	return true;
}
