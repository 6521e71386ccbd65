/* SPDX-License-Identifier: Apache-2.0 */
/* egress/worker/look.c - what comes in is looked at and never held up: for shapes of secrets, as
 * much of it as leaks.answers says; and for what a model has used. */
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

/* ---- models: what one may use is asked before a request goes, what it used told at the end ----
 */

bool exchange_budget(struct exchange *x, const struct http1_request *q)
{
	const struct budget_request r = {
		.host = &x->t.v.host,
		.method = exchange_text(q->method),
		.target = exchange_text(q->path),
		.websocket = websocket_asked(q),
		.has_body = x->has_body,
		/* Without the leak scan nobody unpacks a request. */
		.coded = http1_count(q->fields, q->n_fields, "Content-Encoding") && !x->k->scanner,
	};

	return budget_open(x->k->budget, &r, &x->call, &x->t.v);
}

bool exchange_budget_up(struct exchange *x, const char *p, size_t n, bool last,
			struct egress_verdict *v)
{
	return !x->call || budget_up(x->call, p, n, last, v);
}

void exchange_budget_answer(struct exchange *x, const struct http1_answer *a)
{
	bool coded = http1_count(a->fields, a->n_fields, "Content-Encoding");

	x->call_reads_clean = coded && x->scrub;
	if (x->call)
		budget_answer(x->call, a->status, exchange_text(http1_field(a, "Content-Type")),
			      !coded || x->scrub);
}

/* As it came, or where it came packed what was in there. */
void exchange_budget_down(struct exchange *x, struct http1_text came, struct http1_text clean)
{
	struct http1_text t = x->call_reads_clean ? clean : came;

	if (x->call)
		budget_down(x->call, t.p, t.n);
}

void exchange_budget_end(struct exchange *x, bool whole)
{
	struct budget_told told;

	if (!x->call)
		return;
	if (budget_charge(x->call, whole, x->up_done || x->t.status, x->t.bytes_out, x->t.bytes_in,
			  &told))
		report_usage(x->k, &x->t.v, &told);
	x->call = budget_close(x->call);
}
