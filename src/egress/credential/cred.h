/* SPDX-License-Identifier: Apache-2.0 */
/* egress/credential/cred.h - credentials that the code inside can use and never see.
 *
 * The trusted side fetches the values (cred_fetch), makes a placeholder a run (cred_placeholder)
 * and hands both to the worker. There cred_apply puts a value in the place of its placeholder, only
 * in the declared slot of a request to a bound host, port, path and method, over TLS that was
 * opened and verified. It never adds a field that is not there, and a placeholder seen anywhere
 * else is a denial. A key that signs (sigv4) is not put in: the request is signed with it anew. So
 * is a key of somebody else's at a bound host, wherever the host may take one from. Everything but
 * cred_fetch is pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/err.h"
#include "egress/rules/request_head.h"
#include "egress/rules/verdict.h"
#include "egress/seek/secret.h"
#include "model/settings/spec.h"

#define CRED_PLACEHOLDER_LEN 37 /* "brig-" and 32 letters and digits */

/* Reads the value from its source: the caller's environment, a file of at most 4 KiB that others
 * cannot write, or the output of a command run without a shell for at most 10 seconds, in `/` and
 * with the variables of host_keyring_names. `places` are those of the run (base/files/exposed.h):
 * what lies in one is not executed. One line feed at the end is dropped. Blocks. The value lies in
 * locked memory; free it with cred_value_free. */
int cred_fetch(const struct credential_spec *c, char *const *envp, const char *const *places,
	       char **value, size_t *len, struct err *e);
/* A copy in locked memory. */
int cred_value_new(const char *p, size_t n, char **ret, struct err *e);
void cred_value_free(char *value, size_t len); /* wipes it first */

int cred_placeholder(char out[CRED_PLACEHOLDER_LEN + 1], struct err *e);
/* The same for every run with that secret of 32 bytes: tools save placeholders in a HOME that is
 * kept. */
void cred_placeholder_kept(const unsigned char *secret, const char *name,
			   char out[CRED_PLACEHOLDER_LEN + 1]);

struct creds;
struct sigv4; /* egress/credential/sigv4.h */

/* secrets[i] belongs to specs->v[i]; both are borrowed for the life of the creds. bind_names:
 * {NAME} of a name that no credential has is a misuse as well. */
int creds_new(const struct credentiallist *specs, const struct secret *secrets, bool bind_names,
	      struct creds **ret, struct err *e);
/* Names that are bound and have no value in this run, for whoever asks for one; borrowed. */
void creds_lacking(struct creds *c, const struct strlist *names);
/* Where another key may stand than the run's own, at hosts that a credential is bound to: "HOST
 * NAME", "HOST ?NAME" (egress/rules/field_list.h). */
int creds_other_keys(struct creds *c, const struct strlist *texts, struct err *e);
/* Another value of specs->v[i], with a placeholder of its own (egress/oauth); borrowed until it is
 * forgotten. */
int creds_learn(struct creds *c, size_t i, const struct secret *s, struct err *e);
void creds_forget(struct creds *c, size_t i, const struct secret *s);
struct creds *creds_free(struct creds *c);
DEFINE_CLEANUP(creds, struct creds *, creds_free)

/* Where the request goes, as egress_decide found it. */
struct cred_target {
	const struct host *host;
	uint16_t port;
	bool verified; /* TLS, opened here and verified towards the host */
	bool has_body;
	int64_t now;           /* seconds since 1970; 0: any time */
	struct sigv4 *signing; /* what becomes of a signature that waits for the body's hash */
};

/* Is any credential bound to it? */
bool creds_bound(const struct creds *c, const struct cred_target *to);
/* Is any credential bound to it for some methods or paths alone? */
bool creds_narrow(const struct creds *c, const struct cred_target *to);
/* Is this field the slot of one bound to it? */
bool creds_header(const struct creds *c, const struct cred_target *to, struct egress_text name);

/* Says of the fields of a request that is about to be signed anew which of them are hashes. */
void creds_mark_hashes(const struct creds *c, const struct cred_target *to,
		       struct egress_head *head);

/* Rewrites the head in place (new texts in its arena). false: a placeholder where it must not be,
 * or something else where one should stand; *v says so, and the head is not to be sent. *used gets
 * a bit for each credential that was put in (bit i: specs->v[i]); those are to be scrubbed. Where
 * to->signing->waits, the signature in Authorization is not yet one: sigv4_finish makes it. */
bool cred_apply(const struct creds *c, const struct cred_target *to, struct egress_head *head,
		uint64_t *used, struct egress_verdict *v);

bool cred_is_placeholder(struct egress_text t); /* the shape alone */

/* "Basic " and user and password as RFC 7617 has them. */
void cred_put_basic(struct buf *out, const char *user, const char *password, size_t n);
