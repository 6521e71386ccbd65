/* SPDX-License-Identifier: Apache-2.0 */
/* egress/signing.h - the user's ssh-agent, for a sandbox that may list its keys and have something
 * signed, and no more.
 *
 *     opened (the agent was looked at) -> quiet (a listening socket of the sandbox's, and nothing
 *     else) -> the first connection: brig-egress is started to take it -> one request at a time
 *
 * The worker takes messages apart into requests; it has no way to the agent. The monitor decides
 * what may be signed, over the bytes that it passes on, and has each signature put on the record
 * before it is given. It is the only one that speaks to the agent. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/cleanup.h"
#include "base/text/err.h"
#include "egress/ssh/agentmsg.h"
#include "model/settings/spec.h"

/* Signatures of a run, and how many of them may fail; a fingerprint. */
enum { SIGNING_MOST = 1000, SIGNING_FAILURES = 16, SIGNING_KEY_SIZE = 64 };

struct signing;

enum signing_refusal {
	SIGNING_OTHER_REQUEST, /* neither to list nor to sign, or no message at all */
	SIGNING_OTHER_PURPOSE, /* what was to be signed is nothing that is known */
	SIGNING_SHA1,          /* a signature that another text could share */
	SIGNING_LOGIN,         /* a login, where logins were not asked for */
	SIGNING_OTHER_HOST,    /* a login to a host that is none of the run's, or to one unknown */
	SIGNING_NOT_SIGNED,    /* the agent, or its owner, did not want to */
	SIGNING_TOO_MANY,
	SIGNING_REFUSALS
};

struct signature {
	char key[SIGNING_KEY_SIZE]; /* as ssh-add -l shows it; of a certificate: of all of it */
	enum agentmsg_purpose purpose;
	const char *host; /* of a login, where it is known; borrowed */
};

/* Whom the monitor tells. */
struct signing_host {
	/* Before it is given: below 0 it is not. */
	int (*signs)(void *arg, const struct signature *s);
	void (*refuses)(void *arg, enum signing_refusal why);
	void *arg;
};

/* Looks for the agent that SSH_AUTH_SOCK names: a socket of the caller's own, where the caller's
 * own process answers. It is held from here on, whatever the name comes to mean. Where the spec has
 * rules for SSH, logins are for those hosts alone (egress/binder.h). */
int signing_open(const struct spec *s, struct signing **ret, struct err *e);
struct signing *signing_free(struct signing *s); /* ends the worker; takes NULL */
DEFINE_CLEANUP(signing, struct signing *, signing_free)

/* Takes the socket that listens inside. */
void signing_start(struct signing *s, int listener, const struct signing_host *host);

int signing_fd(const struct signing *s); /* readable: signing_turn has something to do; -1: never */
void signing_turn(struct signing *s);

/* ---- between worker and monitor: a fixed form there, a message of the agent's back ---- */

enum signing_what { SIGNING_ASK_LIST, SIGNING_ASK_SIGN, SIGNING_ASK_BIND, SIGNING_WAS_REFUSED };

struct signing_ask {
	uint32_t what;
	uint32_t n; /* of the request to sign, or to bind */
	unsigned char request[AGENTMSG_REQUEST_MAX];
};

/* signing_serve.c: what brig-egress does when it is started with this word. The listening socket is
 * 3, the monitor 4. */
#define SIGNING_WORD "sign"
int sign_main(void);
