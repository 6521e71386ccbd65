/* SPDX-License-Identifier: Apache-2.0 */
/* model/dialect/credentials.h - credentials as they are written, and the well-known ones.
 *
 * Pure: what a credential is and where it may go. Values are fetched by egress/credential/cred.c.
 */
#pragma once

#include "base/text/arena.h"
#include "base/text/err.h"
#include "model/dialect/dialect.h"
#include "model/settings/spec.h"

#define CREDENTIALS_MAX 64
#define TOKEN_URLS_MAX 4

/* What an entry of `credentials` may hold; for its reader and for the schema. */
enum credential_shape {
	CREDENTIAL_TEXT,
	CREDENTIAL_TEXTS,
	CREDENTIAL_SOURCE,
	CREDENTIAL_SERVICE,
	CREDENTIAL_FLAG
};

struct credential_key {
	const char *name, *help;
	enum credential_shape shape;
};

extern const struct credential_key credential_keys[]; /* ended by one without a name */

/* The map `credentials` of brig.yaml. */
int credentials_read(struct spec *s, const struct source *src, const struct node *map,
		     struct err *e);

struct service; /* model/known/services.h */

/* Hosts, paths, slot and git's user of that row; nothing else of *c is touched. */
int credential_of_row(struct arena *a, const struct service *row, struct credential_spec *c,
		      struct err *e);
/* Fills *ret from the table of well-known names (GITHUB_TOKEN at api.github.com ...), the value
 * from the variable of that name. false: not in the table. */
bool credential_known(struct arena *a, const char *name, struct credential_spec *ret);
/* All of them, as the IronClaw dialect has it: those the caller's environment lacks are left out
 * when they are fetched. */
int credentials_add_known(struct spec *s, struct err *e);

const struct credential_spec *credential_find(const struct credentiallist *l, const char *name);
int credentials_add(struct arena *a, struct credentiallist *l, const struct credential_spec *c,
		    struct err *e);

/* Declares one by hand: its value, from the variable NAME, goes as Bearer to exactly HOST[:PORT].
 */
int credentials_declare(struct spec *s, const char *name, const char *host, struct err *e);

/* One of its hosts; "*.NAME" is all below it, for a key that signs: it is never sent itself. */
int credential_host(struct arena *a, const struct credential_spec *c, const char *text,
		    const char **host, uint16_t *port, struct err *e);

/* true: the allowlist lets this run reach a host that the credential is bound to. */
bool credential_reachable(struct arena *a, const struct spec *s, const struct credential_spec *c);
/* For the host service, whose bytes are passed as they are: nothing can be put in. */
bool credential_of_service(struct arena *a, const struct credential_spec *c);

/* The login at egress.upstream_proxy, which is the door's alone; NULL: none is asked for. */
int credential_login(const struct spec *s, const struct credential_spec **ret, struct err *e);

/* Puts together what this run is granted: with --credential only those named, declared, well-known
 * or all of a service; without it all that are declared. */
int credentials_granted(struct arena *a, const struct spec *s, struct credentiallist *ret,
			struct err *e);
