/* SPDX-License-Identifier: Apache-2.0 */
/* egress/worker/packed.c - what bodies hold packed: judged on its way, passed on or not, never
 * rewritten. */
#include <stdio.h>
#include <string.h>

#include "egress/worker/exchange_internal.h"

bool packed_open(struct exchange *x, enum scan_direction d, struct nest **ret,
		 struct egress_verdict *v)
{
	const struct nest_want w = { .scanner = x->k->scanner,
				     .unpack = x->k->unpack,
				     .direction = d };
	struct err e = { 0 };

	return nest_new(&w, ret, &e) == 0 || verdict_deny(v, EGRESS_INTERNAL, NULL, "%s", e.what);
}

bool packed_unread(struct exchange *x, enum unreadable why, struct egress_verdict *v)
{
	char kind[128];

	if (!why || x->unreadable)
		return true;
	x->unreadable = true;
	if (x->k->plan->leaks.unreadable == UNREADABLE_BLOCK)
		return verdict_deny(v, EGRESS_LEAK, "--set leaks.unreadable=warn lets it pass",
				    "something packed in it cannot be read: %s",
				    unreadable_text(why));
	if (x->k->plan->leaks.unreadable == UNREADABLE_WARN) {
		(void)snprintf(kind, sizeof(kind), "unreadable: %s", unreadable_text(why));
		report_leak(x->k, kind, false);
	}
	return true;
}

bool packed_feed(struct exchange *x, struct nest *n, const char *p, size_t len, bool last,
		 struct egress_verdict *v)
{
	return nest_feed(n, p, len, last, v) && nest_settle(n, v) &&
	       packed_unread(x, nest_unreadable(n), v);
}

/* Nothing of a small body leaves before all of it was read; of a larger one the last of it stays:
 * it says more than the longest value has. */
bool packed_ready(const struct nest *n UNUSED, struct buf *b, const char *p, size_t len, bool last,
		  size_t *ready)
{
	buf_add(b, p, len);
	*ready = last ? b->len : b->len > CODED_HOLD ? b->len - CODED_HOLD : 0;
	return !b->failed;
}

void packed_gone(struct buf *b, size_t n)
{
	b->len -= n;
	if (n)
		memmove(b->data, b->data + n, b->len);
}
