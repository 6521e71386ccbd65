/* SPDX-License-Identifier: Apache-2.0 */
/* egress/rules/verdict.h - what the door decided about one connection or request, and how it is
 * told.
 *
 * Plain data: owns nothing, may be copied and may cross a pipe once `rule` has been printed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/buf.h"
#include "egress/rules/addr.h"
#include "egress/rules/host.h"

/* A closed set: the word of each stands in the `brig-reason` header, in `denials` and in the audit
 * record. */
enum egress_reason {
	EGRESS_OK,
	EGRESS_NOT_ALLOWED,
	EGRESS_DENIED,
	EGRESS_PRIVATE_ADDRESS,
	EGRESS_BAD_REQUEST,
	EGRESS_TLS_MISMATCH,
	EGRESS_CREDENTIAL_MISUSE,
	EGRESS_LEAK,
	EGRESS_LIMIT,
	EGRESS_BUDGET, /* of what models may be used for */
	EGRESS_BAD_ANSWER,
	EGRESS_INTERNAL,
	EGRESS_REASONS
};

struct egress_verdict {
	enum egress_reason reason; /* EGRESS_OK: go on */
	const char *rule;          /* text of the rule that decided, borrowed; NULL: none did */
	char what[640];            /* "Host not in allowlist: api.example.org"; no secret in it */
	char hint[448];            /* what would let it through: "--allow api.example.org" */
	uint32_t retry_after;      /* seconds, with EGRESS_LIMIT; 0: waiting does not help */
	uint32_t wait_ms;          /* with EGRESS_OK: its turn is then, not before */

	/* Filled by egress_decide, whatever it decided, as far as it came. */
	struct host host; /* the canonical name; empty when it was none */
	char address[48]; /* that was asked for in place of a name, as it was written; "": none */
	uint16_t port;
	bool narrow;       /* a rule of this name and port is about methods or paths */
	bool passthrough;  /* TLS is not opened for this name, only its server name checked */
	bool ssh;          /* a tunnel for SSH: begin it, and let nothing else through it */
	bool host_service; /* the one port of the host itself: bytes are passed as they are */
	bool askable;      /* refused only because no rule allows this public name at this port */
	bool pinned;       /* dial `pin` and `pin_port` and resolve nothing */
	struct addr pin;
	uint16_t pin_port;
};

const char *egress_reason_name(enum egress_reason r); /* "not-allowed" */
int egress_reason_status(enum egress_reason r);       /* of the HTTP answer: 403, 400, 402 ... */

/* Sets reason, what and hint, and returns false, so that a check can `return verdict_deny(...)`.
 * The hint may be NULL. Bytes of the client that are not printable are replaced. */
bool verdict_deny(struct egress_verdict *v, enum egress_reason r, const char *hint, const char *fmt,
		  ...) __attribute__((format(printf, 4, 5)));

/* The body of the answer the guest gets: {"error", "reason", "what", "hint", "host", "port",
 * "rule", "retry_after"} and a line feed. `error` is one text, as clients print it: what and hint.
 */
void verdict_json(const struct egress_verdict *v, struct buf *out);
