/* SPDX-License-Identifier: Apache-2.0 */
/* egress/budget/budget.h - what a run may use of models: tokens and money, of all of them and of
 * each host.
 *
 * A call is one request to an API of a model. It is judged before it goes, by what the calls before
 * it have used, and never cut short; what it used is known when it is over. So each call that is
 * under way at that time may go beyond, and there are at most BUDGET_CALLS of them where there is a
 * limit. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/text/err.h"
#include "egress/budget/usage.h"
#include "egress/rules/host.h"
#include "egress/rules/verdict.h"
#include "model/settings/spec.h"

enum {
	BUDGET_CALLS = 16,
	BUDGET_UNSAID = 8192, /* tokens that an answer which was cut is charged with at least */
};

#define BUDGET_NANO 1000000ULL /* in a thousandth of a USD */

struct budget;
struct budget_call;

/* The settings are checked here. */
int budget_new(const struct egress_spec *s, struct budget **ret, struct err *e);
struct budget *budget_free(struct budget *b);
DEFINE_CLEANUP(budget, struct budget *, budget_free)

/* Is it asked for limits that the door can only keep where it opens TLS? */
bool budget_limits(const struct egress_spec *s);

bool budget_is_model(const struct budget *b, const struct host *h);

struct budget_request {
	const struct host *host;
	struct egress_text method, target;
	bool websocket, has_body;
	bool coded; /* what the body says cannot be read */
};

/* true: it may go so far; *ret is NULL when it is no call of a model. false: *v says why not. */
bool budget_open(struct budget *b, const struct budget_request *q, struct budget_call **ret,
		 struct egress_verdict *v);
struct budget_call *budget_close(struct budget_call *c); /* one that is charged, or never went */

/* What the request's body says, before it is sent: without its end it is no request. */
bool budget_up(struct budget_call *c, const char *p, size_t n, bool last, struct egress_verdict *v);
/* The head of the answer. `readable`: its body is not coded. */
void budget_answer(struct budget_call *c, int status, struct egress_text type, bool readable);
void budget_down(struct budget_call *c, const char *p, size_t n);

struct budget_told {
	char model[USAGE_MODEL_MAX + 1]; /* printable; "": not known */
	uint64_t in, cached, out;
	uint64_t cost;  /* of a USD, the thousand-millionth part */
	bool priced;    /* the cost is known */
	bool estimated; /* it was cut */
	bool uncounted; /* nothing was said */
};

/* It is over; once. `whole`: with all of its answer; else so many bytes of both bodies passed, and
 * `sent` says whether the request was whole. false: there is nothing to tell. */
bool budget_charge(struct budget_call *c, bool whole, bool sent, uint64_t bytes_out,
		   uint64_t bytes_in, struct budget_told *ret);
