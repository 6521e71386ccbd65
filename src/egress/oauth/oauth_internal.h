/* SPDX-License-Identifier: Apache-2.0 */
/* egress/oauth/oauth_internal.h - the parts of the tokens, for one another. */
#pragma once

#include "egress/credential/cred.h"
#include "egress/oauth/oauth.h"

#define OAUTH_ENDPOINTS 16

struct oauth_endpoint {
	struct host host;
	uint16_t port;
	const char *path;
	size_t login; /* the credential that logs in there */
};

struct oauth_token {
	struct secret secret; /* its value is in `room` */
	char placeholder[CRED_PLACEHOLDER_LEN + 1];
	char *room;
	size_t cred;   /* whose places it may stand in besides its endpoint's bodies */
	size_t login;  /* the credential that brought it */
	int64_t until; /* 0: it says nothing of an end */
	bool used;
};

struct oauth {
	const struct credentiallist *specs;
	struct creds *creds;
	struct oauth_endpoint ends[OAUTH_ENDPOINTS];
	size_t n_ends;
	struct oauth_token v[OAUTH_MAX];
	char *room; /* locked, for all of them */
	struct secret *all;
	size_t n_plan, n_all;
	int64_t now; /* of the answer at hand */
};

enum token_name { TOKEN_NO, TOKEN_OTHER, TOKEN_ACCESS, TOKEN_REFRESH };
/* What a member or parameter of that name holds; names of all vendors, so more than the standard's.
 */
enum token_name token_name(struct egress_text name);

enum token_path { TOKEN_PATH_OTHER, TOKEN_PATH_SAME, TOKEN_PATH_ODD };
/* Odd: another path than the endpoint's, which a server may take for it. */
enum token_path token_path(const char *endpoint, struct egress_text target);

/* May a field of a request with that name hold a placeholder? */
bool token_field(struct egress_text name);

/* Can it be found in other text, and other text not be taken for it? */
bool token_is_secret(const char *p, size_t n);

/* A member or parameter of an answer. *instead is the placeholder that stands for it from now on,
 * and stays as it was where the text may pass. <0: neither. */
int token_seal(struct oauth *t, int endpoint, struct egress_text name, struct egress_text value,
	       int64_t until, const char **instead, struct oauth_news *news, struct err *e);

/* The value that the placeholder stands for in a body at that endpoint; NULL: none. */
const struct secret *oauth_value(const struct oauth *t, int endpoint, struct egress_text text,
				 uint64_t *used);

/* ---- token_form.c: parameters; -EBADMSG: it is none ---- */

int token_form_answer(struct oauth *t, int endpoint, struct egress_text body, struct buf *out,
		      struct oauth_news *news, struct err *e);
void token_form_body(const struct oauth *t, int endpoint, struct egress_text body, struct buf *sent,
		     struct buf *said, uint64_t *used);

/* ---- token_json.c: the same ---- */

int token_json_answer(struct oauth *t, int endpoint, struct egress_text body, struct buf *out,
		      struct oauth_news *news, struct err *e);
int token_json_body(const struct oauth *t, int endpoint, struct egress_text body, struct buf *sent,
		    struct buf *said, uint64_t *used);
