/* SPDX-License-Identifier: Apache-2.0 */
/* egress/credential/cred_internal.h - the parts of the credentials, for one another. */
#pragma once

#include <stdbool.h>

#include "base/text/arena.h"
#include "base/text/buf.h"
#include "egress/credential/cred.h"
#include "egress/credential/sigv4.h"
#include "egress/rules/field_list.h"
#include "model/dialect/credentials.h"

#define CRED_TEXT_MAX 131072

struct binding {
	struct host host;
	const char *below; /* "*.NAME" in place of one host; NULL: that host */
	uint16_t port;
};

struct cred_learned {
	const struct secret *secret; /* NULL: forgotten */
};

struct cred {
	const struct credential_spec *spec;
	const struct secret *secret;
	struct binding *hosts;
	size_t n_hosts;
	char *name, *escaped;         /* {NAME} and %7BNAME%7D */
	struct cred_learned *learned; /* during the run */
	size_t n_learned;
};

struct creds {
	struct arena *arena;
	struct cred *v;
	size_t n;
	bool bind_names;
	struct field_list other_keys;
	const struct strlist *lacking; /* bound names without a value; NULL: none */
};

/* One request on its way. */
struct cred_job {
	const struct creds *creds;
	const struct cred_target *to;
	struct egress_head *head;
	struct egress_verdict *v;
	uint64_t bound, used;
	const struct cred *signer; /* the id of the key that the client says it has signed with */
	struct sigv4_claim claim;
	bool named; /* a credential is bound to the host, at this port or another, over TLS or not
		     */
};

enum cred_outcome { NOT_THIS, REPLACED, REFUSED };

/* ---- cred.c ---- */

/* May this credential go with this request? Called before a value is put in, with the target as the
 * guest wrote it. */
bool cred_permitted(struct cred_job *j, const struct cred *c);
bool cred_foreign(struct cred_job *j, const struct cred *c,
		  const char *slot); /* false, with a denial */

bool cred_bound_here(const struct cred *c, const struct cred_target *to);
bool binding_is(const struct binding *b, const struct host *host);

/* ---- cred_sign.c: false is a denial ---- */

/* Its id in Authorization, its token in X-Amz-Security-Token. */
enum cred_outcome cred_sign_field(struct cred_job *j, const struct cred *c, struct egress_text name,
				  struct egress_text *value);
bool cred_sign_slot(const struct credential_spec *c, struct egress_text name);
/* The signature stands in the query of a URL: nobody but its maker can make that again. */
bool cred_presigned(struct cred_job *j);
/* Signs the head as it will be sent. */
bool cred_sign(struct cred_job *j);

/* ---- cred_text.c ---- */

bool cred_same(struct egress_text a, const char *b);
bool cred_same_nocase(struct egress_text a, const char *b);
/* What the per-run placeholder, {NAME} or %7BNAME%7D stand for; NULL: it is something else. */
const struct secret *cred_token(const struct cred *c, struct egress_text t);
/* Does a placeholder of it begin at p? */
bool cred_placeholder_at(const struct cred *c, const char *p, size_t n);
/* How long {NAME} of this credential at p is; 0: it is not there. */
size_t cred_name_at(const struct cred *c, const char *p, size_t n);
/* "Scheme token" in two; false when it is not of that form. */
bool cred_split_scheme(struct egress_text v, struct egress_text *scheme, struct egress_text *rest);
/* The text of a buffer, kept in the request's arena; the buffer is wiped. */
bool cred_keep(struct cred_job *j, struct buf *b, struct egress_text *ret);
void cred_put_escaped(struct buf *b, const struct secret *s);
void cred_put_base64(struct buf *b, const char *p, size_t n);
bool cred_get_base64(struct egress_text t, struct buf *out); /* strict; padding at the end alone */

/* ---- cred_account.c: keys of somebody else's; false is a denial ---- */

bool cred_other_field(struct cred_job *j, const struct egress_field *f);
/* One part of the query, between two '&'. */
bool cred_other_parameter(struct cred_job *j, struct egress_text part);
/* May it go on to a host that a credential is bound to? */
bool cred_cookie_passes(const struct cred_job *j, struct egress_text name);

/* ---- cred_list.c, cred_left.c: false is a denial ---- */

bool cred_cookies(struct cred_job *j);
bool cred_target_names(struct cred_job *j);
bool cred_check_left(
	struct cred_job *j); /* what is left of placeholders stands where it must not */
