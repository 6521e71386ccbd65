/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/api/sessions.h - who looks at the dashboard: codes that are good once, and what they
 * become.
 *
 *     code, 60 s  ->  session, 8 h (15 minutes with `admin`)  ->  gone
 *
 * Of both the SHA-256 alone is kept, in memory alone. A list is full: its oldest entry goes, never
 * the owner's for a tenant. Wrong codes are counted, and many of them void all of that tenant's
 * that wait: nobody has the time to guess.
 *
 * The owner and each tenant have a host name of their own: a cookie is sent to every port of its
 * host, and who knows the name can have one. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/err.h"
#include "daemon/api/tokens.h"

#define SESSION_COOKIE "brig="

enum {
	SESSION_SECRET = 65, /* 64 hexadecimal digits, NUL */
	SESSION_CODES = 16,
	SESSIONS_MAX = 32,
	SESSION_GUESSES = 64,
	SESSION_NAME = 33, /* 32 hexadecimal digits, NUL */
};

/* For whom: the owner, or the tenant of a token. */
struct session_for {
	char tenant[TENANT_SIZE]; /* "": the owner */
	unsigned scopes;
	bool by_token;
	unsigned char digest[32]; /* of the token */
};

struct page_session {
	bool used;
	unsigned char sum[32];
	uint64_t until; /* microseconds of the monotonic clock */
	uint64_t made;
	struct session_for who;
};

struct sessions {
	struct page_session codes[SESSION_CODES], open[SESSIONS_MAX];
	unsigned guesses;
	char key[SESSION_SECRET]; /* of the names */
};

/* What makes a tenant's name one that nobody else can tell. */
void sessions_name(const struct sessions *s, const char *tenant, char name[SESSION_NAME]);
/* Whose name that is: the owner's, or that of a tenant with a code or a session. false: nobody's.
 */
bool sessions_named(const struct sessions *s, const char *name, uint64_t now,
		    char tenant[TENANT_SIZE]);

/* -EBUSY: all places are the owner's. */
int sessions_code(struct sessions *s, const struct session_for *who, uint64_t now,
		  char code[SESSION_SECRET], struct err *e);
/* With a code for that tenant, which is void afterwards. -EACCES: it is not known, or was used, or
 * is too old. */
int sessions_enter(struct sessions *s, const char *tenant, const char *code, uint64_t now,
		   char cookie[SESSION_SECRET], uint64_t *seconds, struct err *e);
/* NULL: there is none. Borrowed until the next call. */
const struct page_session *sessions_find(const struct sessions *s, const char *cookie, size_t n,
					 uint64_t now);
/* By its sum, for a call that goes on. */
const struct page_session *sessions_holds(const struct sessions *s, const unsigned char sum[32],
					  uint64_t now);
void sessions_leave(struct sessions *s, const unsigned char sum[32]);
