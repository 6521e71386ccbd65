/* SPDX-License-Identifier: Apache-2.0 */
/* egress/rules/allow.h - one decision for every transport: may the sandbox talk to this?
 *
 * Pure: no socket, clock or log. Immutable once compiled, so every connection may share it. The
 * rules are those of struct egress_spec, whose texts are checked here again: an empty list denies
 * all, deny beats allow, the port is part of a rule (443 where none is written), "*.x" covers what
 * lies below x and never x itself.
 *
 * The door asks at each step with what it knows by then: the name and port when a connection is
 * made (method and target not there), the server name once a ClientHello came, method and target of
 * every single request. A later "yes" never undoes an earlier "no". Nothing may be resolved before
 * the first "yes"; every address a resolver gives is then asked about with egress_address. What a
 * person may be asked about is marked (`askable`), and the answer is `granted` of the next call: it
 * stands in for the missing rule and for nothing else. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/err.h"
#include "egress/rules/addr.h"
#include "egress/rules/host.h"
#include "egress/rules/verdict.h"
#include "model/settings/spec.h"

struct egress_rules;

/* The name under which the guest reaches the one declared service of the host. */
#define EGRESS_HOST_SERVICE "host.brig.internal"

/* Whose word it is that lets a name through while brig learns what a command asks for. */
#define EGRESS_LEARNS "brig learn"

enum egress_via {
	EGRESS_VIA_TUNNEL, /* CONNECT or SOCKS: a name and a port, nothing was sent yet */
	EGRESS_VIA_HTTP,   /* plain HTTP: transparent, or absolute form at the explicit proxy */
	EGRESS_VIA_TLS,    /* inside TLS, or about to be: a ClientHello was read */
	EGRESS_VIA_OTHER,  /* bytes that are neither TLS nor HTTP */
};

struct egress_request {
	enum egress_via via;
	struct egress_text host;   /* of the request line, Host field, CONNECT line, SOCKS request;
				      for   a bare ClientHello its server name */
	struct egress_text tunnel; /* the name this connection was opened for (CONNECT, SOCKS, the
				      synthetic address); p NULL: it was opened to no name */
	struct egress_text sni;    /* p NULL: none was sent */
	uint16_t port;             /* where the connection is meant to go */
	struct egress_text method, target; /* of a request; p NULL: not known yet */
	bool websocket;                    /* it asks to go on as one */
	const char *granted; /* a person's word on this very name and port, in place of a rule that
				allows; borrowed. NULL: none */
};

int egress_rules_new(const struct egress_spec *s, struct egress_rules **ret, struct err *e);
struct egress_rules *egress_rules_free(struct egress_rules *r);
DEFINE_CLEANUP(egress_rules, struct egress_rules *, egress_rules_free)

/* Returns true, and ret->reason is EGRESS_OK, when it may pass. ret is filled either way. */
bool egress_decide(const struct egress_rules *r, const struct egress_request *q,
		   struct egress_verdict *ret);

/* Is there a rule for SSH? Then a connection that was dialled is asked about as a tunnel first. */
bool egress_has_ssh(const struct egress_rules *r);

/* May a field of that name go with a request to a host whose rules are about methods or paths? One
 * that may not could name another path, host or method than the rules were asked about. */
bool egress_field_passes(const struct egress_rules *r, const struct host *host,
			 struct egress_text name);

/* May this answer of the resolver be dialled for a name that egress_decide let through? `own` are
 * the addresses of this machine. Dial exactly the address that was asked about. */
bool egress_address(const struct addr *a, const struct addr *own, size_t n_own,
		    struct egress_verdict *ret);
