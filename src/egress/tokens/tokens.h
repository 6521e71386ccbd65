/* SPDX-License-Identifier: Apache-2.0 */
/* egress/tokens/tokens.h - logins by OAuth, of which the code inside sees placeholders alone.
 *
 * At the endpoints that credentials declare (token_url) a placeholder in the body of a request
 * becomes its value, and each token of the answer becomes a placeholder of this run, which the
 * credential's own hosts take, or for a refresh token the endpoint. Everything else that an
 * endpoint answers is written anew, so nothing of a token is left to how it was written. Pure; one
 * owner. */
#pragma once

#include "base/text/buf.h"
#include "egress/credential/cred.h"

#define TOKENS_MAX 128 /* of a run at a time; those that have expired make room */
#define TOKENS_BODY_MAX ((size_t)64 << 10)
#define TOKENS_ANSWER_MAX ((size_t)256 << 10)

struct tokens;

/* *ret is NULL where no credential has an endpoint. Values are in locked memory, all of it taken
 * here: later nothing can be locked. `creds` is told of each token, and lives longer. */
int tokens_new(const struct credentiallist *specs, const struct secret *secrets,
	       struct creds *creds, struct tokens **ret, struct err *e);
struct tokens *tokens_free(struct tokens *t); /* takes NULL */
DEFINE_CLEANUP(tokens, struct tokens *, tokens_free)

/* Is this request for an endpoint? Its number, or -1. */
int tokens_endpoint(const struct tokens *t, const struct cred_target *to, struct egress_text method,
		    struct egress_text target);

/* The whole body of a request to it, a form or JSON: as it is to be sent, and in `said` what the
 * guest says of its own. *used gets a bit for each credential. false: no memory. */
bool tokens_body(const struct tokens *t, int endpoint, struct egress_text body, struct buf *sent,
		 struct buf *said, uint64_t *used);

/* What an answer brought. */
struct tokens_news {
	unsigned n;                  /* new ones */
	size_t login;                /* the credential whose endpoint it is */
	const struct secret *renews; /* a refresh token in place of the one that was sent; or NULL */
};

/* The whole body of an answer, from which known values were taken before, written anew. Seconds
 * since 1970. -EBADMSG: it is neither a form nor JSON; -EPERM: there is a token in it that cannot
 * be kept apart from other text. Then nothing of it may pass. */
int tokens_answer(struct tokens *t, int endpoint, int64_t now, struct egress_text body,
		  struct buf *out, struct tokens_news *news, struct err *e);

/* All secrets of the run, those of the plan first. Good until the next answer. */
const struct secret *tokens_secrets(const struct tokens *t, size_t *n);
