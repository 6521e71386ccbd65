/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/sessions.h - who looks at the dashboard: codes that are good once, and what they become.
 *
 *     code, 60 s  ->  session, 8 h (15 minutes with `admin`)  ->  gone
 *
 * Of both the SHA-256 alone is kept, in memory alone. A list is full: its oldest entry goes. Wrong
 * codes are counted, and many of them void all that wait: nobody has the time to guess. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "daemon/tokens.h"

#define SESSION_COOKIE "brig="

enum {
	SESSION_SECRET = 65, /* 64 hexadecimal digits, NUL */
	SESSION_CODES = 16,
	SESSIONS_MAX = 32,
	SESSION_GUESSES = 64,
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
};

int sessions_code(struct sessions *s, const struct session_for *who, uint64_t now,
		  char code[SESSION_SECRET], struct err *e);
/* The code is void afterwards. -EACCES: it is not known, or was used, or is too old. */
int sessions_enter(struct sessions *s, const char *code, size_t n, uint64_t now,
		   char cookie[SESSION_SECRET], uint64_t *seconds, struct err *e);
/* NULL: there is none. Borrowed until the next call. */
const struct page_session *sessions_find(const struct sessions *s, const char *cookie, size_t n,
					 uint64_t now);
/* By its sum, for a call that goes on. */
const struct page_session *sessions_holds(const struct sessions *s, const unsigned char sum[32],
					  uint64_t now);
void sessions_leave(struct sessions *s, const unsigned char sum[32]);
