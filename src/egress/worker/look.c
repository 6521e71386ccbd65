/* SPDX-License-Identifier: Apache-2.0 */
/* egress/worker/look.c - the leak scan of what comes in: noted, never held up; and so only as much
 * of it is looked at as leaks.answers says. */
#include <string.h>

#include "egress/worker/exchange_internal.h"

void look_at(struct exchange *x, const char *p, size_t n, bool last)
{
	struct scan_release ignored;
	struct egress_verdict v = { 0 };
	char copy[FLOW_READ];
	uint64_t left = x->k->plan->leaks.answers - x->looked;
	size_t at = 0, all = n;

	n = n < left ? n : (size_t)left;
	x->looked += n;
	last = last && n == all;
	while (x->scan_down && (at < n || last)) {
		size_t k = n - at < FLOW_READ ? n - at : FLOW_READ;
		bool end = last && at + k == n;

		memcpy(copy, p + at, k);
		if (!scan_feed(x->scan_down, copy, k, end, &ignored, &v) || end)
			x->scan_down = scan_close(x->scan_down);
		at += k;
	}
	if (n < all)
		x->scan_down = scan_close(x->scan_down);
}

static int look_decoded(void *context, char *p, size_t n, struct err *e UNUSED)
{
	struct exchange *x = context;

	x->d->turn += n;
	look_at(x, p, n, false);
	return 0;
}

/* A body on its way down, as it is or as what it says. A coding that is broken is the guest's to
 * find out. */
void look_at_body(struct exchange *x, const char *p, size_t n, bool last)
{
	struct err e = { 0 };

	if (!x->scan_down)
		return;
	if (!x->decoder_down) {
		look_at(x, p, n, last);
		return;
	}
	if (decoder_feed(x->decoder_down, p, n, last, look_decoded, x, &e) < 0)
		x->scan_down = scan_close(x->scan_down);
	if (last)
		look_at(x, "", 0, true);
}
