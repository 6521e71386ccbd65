/* SPDX-License-Identifier: Apache-2.0 */
/* egress/worker/exchange.h - one request and its answer: verdict, scans, credential, upstream.
 *
 *     waits -> opens -> asks -> answers -> done
 *       |        |       '--------|------> refused   (the door itself has answered)
 *       '--------'-------> refused '-----> cut       (in the middle of an answer)
 *
 * It knows nothing of the connection that the request came over, only its downstream. Its owner
 * gives it the request's body as it comes, steps it when there is news, and frees it. */
#pragma once

#include "egress/worker/downstream.h"
#include "wire/http1_request.h"

struct exchange;
struct link;
struct worker;

enum exchange_state {
	EXCHANGE_WAITS,   /* for its turn, and until the monitor knows of it */
	EXCHANGE_OPENS,   /* its upstream is on the way */
	EXCHANGE_ASKS,    /* the request goes up */
	EXCHANGE_ANSWERS, /* a head went down; of the request, too, there may be more */
	EXCHANGE_DONE,    /* from here on it is over: all of the answer went down */
	EXCHANGE_REFUSED,
	EXCHANGE_CUT,
};

/* How a request came: what the layers below it said of its host. */
struct arrival {
	bool proxy;     /* to the explicit proxy */
	bool tunnelled; /* which was then asked for a tunnel */
	bool own;       /* brig's own request, which no guest can make */
	bool secure;    /* through TLS that the door has opened */
	uint16_t port;
	struct host tunnel; /* the name its connection was opened for; empty: none */
	struct host sni;
	struct host granted; /* somebody let this connection through to this name, once */
	uint16_t granted_port;
};

/* The port that its name is asked for at, before it says one; 0: it is the proxy's own. */
static inline uint16_t arrival_port(const struct arrival *a)
{
	return a->proxy && !a->tunnelled ? 0 : a->port;
}

/* Which name and port a request is for; false: the layers contradict one another. */
struct egress_request;
bool exchange_name(const struct arrival *from, const struct http1_request *q,
		   struct egress_request *ret, struct host *name, const char **why);

/* Decides at once: it may be refused when this returns. Nothing of the arguments is kept but `k`
 * and `d`. NULL: no memory. */
struct exchange *exchange_new(struct worker *k, struct downstream *d, const struct arrival *from,
			      const struct http1_request *q);
/* Reports its end, if its beginning was; the upstream goes back to the pool if it can. */
struct exchange *exchange_free(struct exchange *x);

enum exchange_state exchange_state(const struct exchange *x);
bool exchange_is_early(const struct exchange *x); /* its turn by the rate has not come */
bool exchange_step(struct exchange *x);           /* true: something moved */

/* The request's body; a request without one takes nothing. The bytes may be changed by the scan. */
bool exchange_takes(const struct exchange *x);
void exchange_body(struct exchange *x, char *p, size_t n, bool last);
/* It is no request any more: whatever the guest sends are frames, and exchange_frames takes some of
 * them. */
bool exchange_is_websocket(const struct exchange *x);
size_t exchange_frames(struct exchange *x, char *p, size_t n);
/* In place of the last piece: all of it is there, and so are these lines. */
void exchange_body_end(struct exchange *x, struct http1_text trailers);
/* Denied when part of it is gone already. */
void exchange_stop(struct exchange *x, const struct egress_verdict *why);

/* A piece of a body, as a chunk or as it is; false: the link is broken. */
bool exchange_put(struct link *l, bool chunked, const char *p, size_t n);

/* The link up, NULL before it is open. Its owner flushes it once the monitor knows everything that
 * was decided, and waits for it; it is read while the downstream is not full. */
struct link *exchange_link(struct exchange *x);
int exchange_wait(struct exchange *x); /* as link_wait: for what it has a use for now */
bool exchange_tick(struct exchange *x, uint64_t now); /* true: it must be stepped */
