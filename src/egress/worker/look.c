/* SPDX-License-Identifier: Apache-2.0 */
/* egress/worker/look.c - the leak scan of what comes in: noted, never held up. */
#include <string.h>

#include "egress/worker/worker.h"

void look_at(struct session *s, const char *p, size_t n, bool last)
{
	struct scan_release ignored;
	struct egress_verdict v = { 0 };
	char copy[FLOW_READ];
	size_t at = 0;

	while (s->x.scan_down && (at < n || last)) {
		size_t k = n - at < FLOW_READ ? n - at : FLOW_READ;
		bool end = last && at + k == n;

		memcpy(copy, p + at, k);
		if (!scan_feed(s->x.scan_down, copy, k, end, &ignored, &v) || end)
			s->x.scan_down = scan_close(s->x.scan_down);
		at += k;
	}
}

static int look_decoded(void *context, char *p, size_t n, struct err *e)
{
	struct session *s = context;

	(void)e;
	s->turn += n;
	look_at(s, p, n, false);
	return 0;
}

/* A body on its way down, as it is or as what it says. A coding that is broken is the guest's to
 * find out. */
void look_at_body(struct session *s, const char *p, size_t n, bool last)
{
	struct exchange *x = &s->x;
	struct err e = { 0 };

	if (!x->decoder_down) {
		look_at(s, p, n, last);
		return;
	}
	if (decoder_feed(x->decoder_down, p, n, last, look_decoded, s, &e) < 0)
		x->scan_down = scan_close(x->scan_down);
	if (last)
		look_at(s, "", 0, true);
}
