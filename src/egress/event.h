/* SPDX-License-Identifier: Apache-2.0 */
/* egress/event.h - what the worker tells its monitor; event_pack.h says how it travels.
 *
 * The socket between the two is the ring: it holds a bounded number of packets. A request whose
 * decision does not fit waits, and so does everything behind it. Texts are NUL-terminated. */
#pragma once

#include <stdint.h>

enum { EGRESS_LEARN_PATH = 206, EGRESS_LEARN_FIELDS = 255 };

enum egress_event_kind {
	EGRESS_EVENT_READY,  /* listening */
	EGRESS_EVENT_FAILED, /* it could not start: `what` and `hint` */
	EGRESS_EVENT_ALLOW,
	EGRESS_EVENT_DENY,
	EGRESS_EVENT_DONE,   /* an allowed request is over: address, status, bytes, credential */
	EGRESS_EVENT_INJECT, /* a credential was put into a request: `rule` is its name */
	EGRESS_EVENT_SCRUB,  /* values were taken out of an answer */
	EGRESS_EVENT_LEAK,   /* something like a secret was let pass: `rule` is its kind, `count` */
	EGRESS_EVENT_REDACT, /* ... was taken out; the same */
	EGRESS_EVENT_UNREACHED, /* an allowed host was not: `what` says why */
	EGRESS_EVENT_ASK,       /* a name that no rule allows waits for an answer: `count` is the
				   question's       number */
	EGRESS_EVENT_USAGE, /* a call of a model is over: `rule` is the model, `tokens_*`, `cost` */
	EGRESS_EVENT_TOKEN, /* a login brought tokens: `rule` is its credential */
	EGRESS_EVENT_RENEWED, /* one of them belongs into the credential's file: `what` is the next
				 piece, `count` counts them from 0, `status` is 1 with the last */
	EGRESS_EVENT_KINDS
};

enum egress_usage {
	EGRESS_USAGE_PRICED = 1,
	EGRESS_USAGE_ESTIMATED = 2, /* it was cut */
	EGRESS_USAGE_UNCOUNTED = 4, /* nothing was said: estimated, too */
};

struct egress_event {
	uint32_t kind;
	uint32_t reason; /* enum egress_reason */
	uint16_t port;
	uint16_t status;              /* of the answer; 0: none came */
	uint32_t count;               /* of the same, of a leak; otherwise 0, which is one */
	uint64_t bytes_out, bytes_in; /* bodies and tunnels */
	/* Of USAGE: a part of those in was cached; thousand-millionth parts of a USD. `status`:
	 * bits of enum egress_usage. */
	uint64_t tokens_in, tokens_cached, tokens_out, cost;
	char host[256];
	char method[32]; /* "CONNECT" for a tunnel, "TLS" and "SSH" for those that are
			    not opened */
	char address[48];
	char rule[128];
	char credential[64]; /* that was put into it; empty: none */
	char what[320];
	char hint[256];
	/* Of DONE while brig learns (worker/learn.c), else empty: the path by which a rule could
	 * name the request, without its query; the fields of it that such a rule would refuse. */
	char path[EGRESS_LEARN_PATH + 1];
	char fields[EGRESS_LEARN_FIELDS + 1];
};

/* What the worker hears of a question. */
struct egress_answer {
	uint32_t id;
	uint32_t answer; /* enum question_answer */
};

/* The first packet to the worker comes with the configuration, the second with the sockets: this,
 * and the descriptors. Then come answers, one a packet. */
struct egress_sockets {
	uint32_t n;
	uint32_t kinds[24]; /* enum door_kind */
	uint32_t ports[24];
};
