/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/recorder_door.c - what the door decided and the ssh-agent signed, on the record as it
 * happens. */
#include <stdio.h>

#include "audit/log.h"
#include "base/sys/clock.h"
#include "egress/event_pack.h"
#include "egress/rules/verdict.h"
#include "sandbox/recorder_internal.h"
#include "sandbox/sandbox.h"

static enum event egress_type(const struct egress_event *ev)
{
	if (ev->kind == EGRESS_EVENT_ALLOW)
		return EVENT_EGRESS_ALLOW;
	if (ev->kind == EGRESS_EVENT_DONE)
		return EVENT_EGRESS_DONE;
	if (ev->kind == EGRESS_EVENT_USAGE)
		return EVENT_EGRESS_USAGE;
	if (ev->kind == EGRESS_EVENT_INJECT)
		return EVENT_CREDENTIAL_INJECT;
	if (ev->kind == EGRESS_EVENT_SCRUB)
		return EVENT_CREDENTIAL_SCRUB;
	if (ev->kind == EGRESS_EVENT_TOKEN)
		return EVENT_CREDENTIAL_TOKEN;
	if (ev->kind == EGRESS_EVENT_LEAK)
		return EVENT_LEAK_WARN;
	if (ev->kind == EGRESS_EVENT_REDACT)
		return EVENT_LEAK_REDACT;
	return ev->reason == EGRESS_LEAK                ? EVENT_LEAK_BLOCK
	       : ev->reason == EGRESS_CREDENTIAL_MISUSE ? EVENT_CREDENTIAL_MISUSE
							: EVENT_EGRESS_DENY;
}

/* What a number is worth. */
static const char *how_known(const struct egress_event *ev)
{
	return ev->status & EGRESS_USAGE_UNCOUNTED   ? "uncounted, estimated"
	       : ev->status & EGRESS_USAGE_ESTIMATED ? "cut, estimated"
						     : NULL;
}

static void fill_usage(const struct egress_event *ev, struct record *x)
{
	x->rule = NULL;
	record_text(x, "model", ev->rule[0] ? ev->rule : NULL);
	record_number(x, "tokens_in", (int64_t)ev->tokens_in);
	record_number(x, "tokens_cached", (int64_t)ev->tokens_cached);
	record_number(x, "tokens_out", (int64_t)ev->tokens_out);
	if (ev->status & EGRESS_USAGE_PRICED)
		record_number(x, "cost_micro_usd", (int64_t)((ev->cost + 999) / 1000));
	record_text(x, "known", how_known(ev));
}

static void fill_egress(const struct recorder *r, const struct egress_event *ev, struct record *x)
{
	enum event type = egress_type(ev);

	recorder_fill(r, x, type);
	x->rule = ev->rule[0] ? ev->rule : NULL;
	record_text(x, "host", ev->host[0] ? ev->host : NULL);
	if (ev->port)
		record_number(x, "port", ev->port);
	if (type == EVENT_EGRESS_USAGE) {
		fill_usage(ev, x);
		return;
	}
	if (type == EVENT_EGRESS_DONE) {
		record_text(x, "method", ev->method[0] ? ev->method : NULL);
		record_text(x, "address", ev->address[0] ? ev->address : NULL);
		record_number(x, "status", ev->status);
		record_number(x, "bytes_out", (int64_t)ev->bytes_out);
		record_number(x, "bytes_in", (int64_t)ev->bytes_in);
		record_text(x, "credential", ev->credential[0] ? ev->credential : NULL);
		return;
	}
	if (type == EVENT_LEAK_BLOCK || type == EVENT_LEAK_WARN || type == EVENT_LEAK_REDACT) {
		record_text(x, "pattern",
			    ev->rule[0] && type != EVENT_LEAK_BLOCK ? ev->rule : ev->what);
		return;
	}
	record_text(x, "reason",
		    ev->what[0]                ? ev->what
		    : event_is_uninspected(ev) ? "uninspected"
					       : NULL);
	if (type == EVENT_CREDENTIAL_INJECT || type == EVENT_CREDENTIAL_TOKEN)
		record_text(x, "name", ev->rule);
	if (type == EVENT_EGRESS_ALLOW || type == EVENT_EGRESS_DENY)
		record_text(x, "method", ev->method[0] ? ev->method : NULL);
}

/* The texts of a sum that the record borrows. */
struct sum_text {
	char target[RECORD_TEXT_MAX], first[RECORD_TIME_SIZE], last[RECORD_TIME_SIZE];
};

/* Where they went, as far as they went to the same place. */
static void name_target(const struct egress_event *ev, char *out, size_t n)
{
	char at[sizeof(ev->host) + 8];

	event_target(ev, at, sizeof(at));
	(void)snprintf(out, n, "%s%s%s", ev->method, ev->method[0] && ev->host[0] ? " " : "", at);
}

static void fill_sum(const struct recorder *r, const struct tally_sum *sum, struct sum_text *t,
		     struct record *x)
{
	const struct egress_event *ev = &sum->like;

	if (sum->type == EVENT_EGRESS_DONE || sum->type == EVENT_EGRESS_USAGE) {
		fill_egress(r, ev, x);
		record_number(x, "count", (int64_t)sum->count);
		return;
	}
	record_init(x, EVENT_LOG_SUMMARY);
	x->run = r->id;
	x->rule = ev->rule[0] ? ev->rule : NULL;
	name_target(ev, t->target, sizeof(t->target));
	record_time(sum->first, t->first);
	record_time(sum->last, t->last);
	record_text(x, "of", event_types[sum->type].name);
	record_number(x, "count", (int64_t)sum->count);
	record_text(x, "target", t->target[0] ? t->target : NULL);
	if (ev->kind == EGRESS_EVENT_LEAK || ev->kind == EGRESS_EVENT_REDACT)
		record_text(x, "kind", ev->rule);
	else if (sum->type == EVENT_LEAK_BLOCK && ev->what[0])
		record_text(x, "kind", ev->what);
	else if (ev->reason && ev->reason < EGRESS_REASONS)
		record_text(x, "kind", egress_reason_name(ev->reason));
	record_text(x, "first", t->first);
	record_text(x, "last", t->last);
}

int recorder_put_sums(struct recorder *r, bool end, struct err *e)
{
	struct tally_sum sum;
	struct sum_text text;
	struct record x;

	while (r->egress && tally_next(r->egress, clock_wall_us(), end, &sum)) {
		fill_sum(r, &sum, &text, &x);
		if (log_append(r->log, &x, 1, e) < 0)
			return err_kind(e, ERR_UNAVAILABLE);
	}
	return 0;
}

int recorder_egress(struct recorder *r, const struct egress_event *ev, struct err *e)
{
	struct record x;

	if (!r || !r->log || ev->kind == EGRESS_EVENT_READY || ev->kind == EGRESS_EVENT_FAILED ||
	    ev->kind == EGRESS_EVENT_UNREACHED || ev->kind == EGRESS_EVENT_ASK)
		return 0;
	if (!r->egress && !(r->egress = tally_new()))
		return err_nomem(e);
	if (tally_take(r->egress, egress_type(ev), ev, clock_wall_us())) {
		fill_egress(r, ev, &x);
		if (log_append(r->log, &x, 1, e) < 0)
			return err_kind(e, ERR_UNAVAILABLE);
	}
	return recorder_put_sums(r, false, e);
}

int recorder_answer(struct recorder *r, const struct name_question *q, const char *answer,
		    const char *by, struct err *e)
{
	struct record x;

	if (!r || !r->log)
		return 0;
	recorder_fill(r, &x, EVENT_EGRESS_ANSWER);
	record_text(&x, "host", q->host);
	record_number(&x, "port", q->port);
	record_text(&x, "answer", answer);
	record_text(&x, "by", by);
	if (log_append(r->log, &x, 1, e) < 0)
		return err_kind(e, ERR_UNAVAILABLE);
	return 0;
}

int recorder_signature(struct recorder *r, const char *key, const char *purpose, const char *host,
		       struct err *e)
{
	struct record x;

	if (!r || !r->log)
		return 0;
	recorder_fill(r, &x, EVENT_AGENT_SIGN);
	record_text(&x, "key", key);
	record_text(&x, "purpose", purpose);
	record_text(&x, "host", host);
	if (log_append(r->log, &x, 1, e) < 0)
		return err_kind(e, ERR_UNAVAILABLE);
	return 0;
}
