/* SPDX-License-Identifier: Apache-2.0 */
/* egress/oauth/oauth.h - logins by OAuth, of which the code inside sees placeholders alone.
 *
 * At the endpoints that credentials declare (token_url) a placeholder in the body of a request
 * becomes its value, and each token of the answer becomes a placeholder of this run, which the
 * credential's own hosts take, or for a refresh token the endpoint. Everything else that an
 * endpoint answers is written anew, so nothing of a token is left to how it was written. Pure; one
 * owner. */
#pragma once

#include "base/text/buf.h"
#include "egress/credential/cred.h"

#define OAUTH_MAX 128 /* of a run at a time; those that have expired make room */
#define OAUTH_BODY_MAX ((size_t)64 << 10)
#define OAUTH_ANSWER_MAX ((size_t)256 << 10)

#define OAUTH_OF_ONE                                                                               \
	4 /* that an answer may bring: an access token, a refresh token, an id token ... */

struct oauth;

/* *ret is NULL where no credential has an endpoint. Values are in locked memory, all of it taken
 * here: later nothing can be locked. `creds` is told of each token, and lives longer. */
int oauth_new(const struct credentiallist *specs, const struct secret *secrets, struct creds *creds,
	      struct oauth **ret, struct err *e);
struct oauth *oauth_free(struct oauth *t); /* takes NULL */
DEFINE_CLEANUP(oauth, struct oauth *, oauth_free)

#define OAUTH_NONE (-1)
#define OAUTH_ODD (-2)

/* Is this request for an endpoint, by whatever method? Its number, or none. Odd: the server may
 * take it for one (another writing of the path, another port, no TLS), and its answer would not be
 * written anew; it is not to be sent. */
int oauth_endpoint(const struct oauth *t, const struct cred_target *to, struct egress_text target);

/* Asked before a request is sent: what an answer without room brings is lost, and the server may
 * have taken the old one back. */
bool oauth_has_room(const struct oauth *t, int64_t now);

/* The whole body of a request to it, a form or JSON: as it is to be sent, and in `said` what the
 * guest says of its own. *used gets a bit for each credential. false: no memory. */
bool oauth_body(const struct oauth *t, int endpoint, struct egress_text body, struct buf *sent,
		struct buf *said, uint64_t *used);

/* What an answer brought. */
struct oauth_news {
	unsigned n;   /* new ones */
	size_t login; /* the credential whose endpoint it is */
	const struct secret
		*renews; /* a refresh token in place of the one that was sent; or NULL */
};

/* The whole body of an answer, from which known values were taken before, written anew. Seconds
 * since 1970. -EBADMSG: it is neither a form nor JSON; -EPERM: there is a token in it that cannot
 * be kept apart from other text. Then nothing of it may pass. */
int oauth_answer(struct oauth *t, int endpoint, int64_t now, struct egress_text body,
		 struct buf *out, struct oauth_news *news, struct err *e);

/* All secrets of the run, those of the plan first. Good until the next answer. */
const struct secret *oauth_secrets(const struct oauth *t, size_t *n);
