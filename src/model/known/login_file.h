/* SPDX-License-Identifier: Apache-2.0 */
/* model/known/login_file.h - how a credential comes about by a login: a token that a program of the
 * caller's has, in its own file; or the endpoints that the command itself logs in at.
 *
 * For the door, which puts tokens into requests. The file of a program is read, and never written
 * or renewed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/err.h"
#include "model/settings/spec.h"

struct login_file {
	const char *file;    /* below HOME; JSON */
	const char *object;  /* the member that has all of it; NULL: it is no member of another */
	const char *token;   /* of that: the token */
	const char *expires; /* of that: milliseconds since 1970; NULL: it says nothing */
	bool jwt;            /* the token says itself when it expires (RFC 7519, "exp") */
	const char *renew;   /* what to do when that is over */
	/* Of a declared one, which has no `file`: it goes to these addresses alone, and the tokens
	 * that they answer to its hosts. */
	struct strlist token_urls;
	bool keeps; /* a refresh token that takes its place is written into its own file */
};

/* NULL: it does not log in so. */
static inline const struct strlist *token_urls_of(const struct credential_spec *c)
{
	return c->login && c->login->token_urls.n ? &c->login->token_urls : NULL;
}

static inline bool credential_keeps(const struct credential_spec *c)
{
	return c->login && c->login->keeps;
}

/* Its token, with a NUL behind it. -ENOENT: nobody has logged in; *e is set as with every failure,
 * and a token that has expired is one (-ETIMEDOUT). */
int login_file_read(const struct login_file *l, const char *home, char *out, size_t max,
		    size_t *len, struct err *e);
/* Seconds since 1970 at which the token of such a text ends; 0: it does not say. */
int64_t login_jwt_end(const char *token);
/* The same of a login that is there; 0 also where there is none. */
int64_t login_file_end(const struct login_file *l, const char *home);
