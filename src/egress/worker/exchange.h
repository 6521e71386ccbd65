/* SPDX-License-Identifier: Apache-2.0 */
/* egress/worker/exchange.h - the parts of an exchange, for one another: heads, the way up, the way
 * down.
 */
#pragma once

#include "egress/worker/worker.h"

#define SECOND ((uint64_t)1000 * 1000)
#define HEAD_ROOM ((size_t)256 << 10)
#define PIECE 16384
#define CODED_PIECE 240 /* so little of an answer that what it says has room */
#define CODED_HOLD 65536
#define CODED_MAX (2 * CODED_HOLD + PIECE)

static inline struct http1_text exchange_method(const struct session *s)
{
	return (struct http1_text){ s->x.method, strlen(s->x.method) };
}

static inline struct egress_text exchange_text(struct http1_text t)
{
	return egress_text(t.p, t.n);
}

/* ---- exchange_head.c ---- */

bool exchange_passes(struct http1_text name); /* to the next hop? */
/* Does `Connection` say that a field is for this hop only? */
bool exchange_listed_off(const struct http1_field *f, size_t n, struct http1_text name);
/* Which name and port a request is for; false: the layers contradict one another. */
bool exchange_name(struct session *s, const struct http1_request *q, struct egress_request *ret,
		   struct host *name, const char **why);
/* Allowlist, rate, leaks, credentials; the head as it will be sent is in x.head. */
bool exchange_judge(struct session *s, const struct http1_request *q,
		    const struct egress_request *e);
bool exchange_scan(struct session *s, const struct http1_request *q); /* of the body, if any */

/* ---- exchange_up.c, exchange_down.c: true when something moved ---- */

bool exchange_up(struct session *s);
bool exchange_answer(struct session *s);
bool exchange_down(struct session *s);

/* ---- exchange.c: ends ---- */

bool exchange_put(struct link *l, bool chunked, const char *p, size_t n);
/* Denied when part of it is gone already. */
void exchange_stop(struct session *s, const struct egress_verdict *why);
/* The host is to blame: 502, or an answer cut short. */
void exchange_fail(struct session *s, int status, const char *what);
