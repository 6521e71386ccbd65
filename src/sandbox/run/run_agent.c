/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/run/run_agent.c - the user's ssh-agent, lent to a sandbox. */
#include "sandbox/run/run.h"

#include <stdio.h>

#include "base/files/fd.h"
#include "egress/signing.h"
#include "proc/agent_socket.h"
#include "sandbox/recorder.h"

/* On the record before it is given; told once for each purpose. */
static int on_signature(void *arg, const struct signature *g)
{
	struct sandbox *s = arg;
	bool login = g->purpose == AGENTMSG_LOGIN;
	struct err e = { 0 };
	char text[256];

	if (recorder_signature(s->recorder, g->key, login ? "login" : "git", g->host, &e) < 0) {
		run_unrecorded(s, &e);
		return -e.code;
	}
	s->o->signatures++;
	if (s->signed_for[g->purpose])
		return 0;
	s->signed_for[g->purpose] = true;
	(void)snprintf(text, sizeof(text),
		       "your ssh-agent %s with key %s; brig audit show %s lists each time",
		       login ? "let it log in" : "signed for git", g->key, s->o->id);
	run_open_tell(s, text);
	return 0;
}

static void on_refusal(void *arg, enum signing_refusal why)
{
	static const char *const reasons[SIGNING_REFUSALS] = {
		[SIGNING_OTHER_REQUEST] = "it may be asked for its keys and for signatures alone",
		[SIGNING_OTHER_PURPOSE] = "what was to be signed is neither git's nor a login",
		[SIGNING_SHA1] = "RSA keys sign with SHA-256 or SHA-512 alone",
		[SIGNING_LOGIN] = "logins need --ssh-agent=auth",
		[SIGNING_OTHER_HOST] = ("logins are to the hosts of --allow ssh:HOST alone, by a "
					"client that says which one it is (OpenSSH 8.9)"),
		[SIGNING_NOT_SIGNED] = "the agent did not sign, or its owner did not want it to",
		[SIGNING_TOO_MANY] =
			"a run gets no more signatures, or failures, than this one had",
	};
	struct sandbox *s = arg;

	outcome_deny(s->o, "ssh-agent", "SSH_AUTH_SOCK", reasons[why]);
}

int run_agent_open(struct sandbox *s, struct err *e)
{
	if (s->spec->ssh_agent == SSH_AGENT_NONE)
		return 0;
	return signing_open(s->spec, &s->signing, e);
}

void run_agent_start(struct sandbox *s, int listener)
{
	const struct signing_host host = { .signs = on_signature, .refuses = on_refusal, .arg = s };

	if (s->signing && listener >= 0 && agent_socket_is(listener))
		signing_start(s->signing, listener, &host);
	else
		(void)fd_close(listener);
}
