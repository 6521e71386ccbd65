/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/run/run_agent.c - the user's ssh-agent, lent to a run. */
#include "sandbox/run/run.h"

#include <stdio.h>

#include "base/files/fd.h"
#include "egress/signing.h"
#include "proc/agent_socket.h"
#include "sandbox/recorder.h"

/* On the record before it is given; told once for each purpose. */
static int on_signature(void *arg, const struct signature *s)
{
	struct run *r = arg;
	bool login = s->purpose == AGENTMSG_LOGIN;
	struct err e = { 0 };
	char text[256];

	if (recorder_signature(r->recorder, s->key, login ? "login" : "git", &e) < 0) {
		run_unrecorded(r, &e);
		return -e.code;
	}
	r->o->signatures++;
	if (r->signed_for[s->purpose])
		return 0;
	r->signed_for[s->purpose] = true;
	(void)snprintf(text, sizeof(text),
		       "your ssh-agent %s with key %s; brig audit show %s lists each time",
		       login ? "let it log in" : "signed for git", s->key, r->o->id);
	run_tell(r, text);
	return 0;
}

static void on_refusal(void *arg, enum signing_refusal why)
{
	static const char *const reasons[SIGNING_REFUSALS] = {
		[SIGNING_OTHER_REQUEST] = "it may be asked for its keys and for signatures alone",
		[SIGNING_OTHER_PURPOSE] = "what was to be signed is neither git's nor a login",
		[SIGNING_SHA1] = "RSA keys sign with SHA-256 or SHA-512 alone",
		[SIGNING_LOGIN] = "logins need --ssh-agent=auth",
		[SIGNING_NOT_SIGNED] = "the agent did not sign, or its owner did not want it to",
		[SIGNING_TOO_MANY] =
			"a run gets no more signatures, or failures, than this one had",
	};
	struct run *r = arg;

	outcome_deny(r->o, "ssh-agent", "SSH_AUTH_SOCK", reasons[why]);
}

int run_agent_open(struct run *r, struct err *e)
{
	if (r->spec->ssh_agent == SSH_AGENT_NONE)
		return 0;
	return signing_open(r->spec->ssh_agent == SSH_AGENT_AUTH, &r->signing, e);
}

void run_agent_start(struct run *r, int listener)
{
	const struct signing_host host = { .signs = on_signature, .refuses = on_refusal, .arg = r };

	if (r->signing && listener >= 0 && agent_socket_is(listener))
		signing_start(r->signing, listener, &host);
	else
		(void)fd_close(listener);
}
