/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/api/once.h - idempotency keys: a request that comes twice is done once.
 *
 * Kept for 24 hours, one small file a key, by tenant and route, ONCE_MOST of a tenant; what was
 * being done when a daemon was killed is not done again, since nobody knows how far it came. */
#pragma once

#include <stddef.h>

#include "base/text/buf.h"
#include "base/text/err.h"

struct once;

int once_open(int state_dir, struct once **ret, struct err *e);
struct once *once_free(struct once *o);
DEFINE_CLEANUP(once, struct once *, once_free)

enum once_found {
	ONCE_NEW,   /* it is now being done: once_keep, once_forget or once_leave follows */
	ONCE_BUSY,  /* being done, for another call */
	ONCE_CUT,   /* was being done when the daemon died or the caller left */
	ONCE_OTHER, /* the key was used with another body */
	ONCE_DONE,  /* *status and `answer` are what it was answered with */
	ONCE_FULL,  /* the tenant has as many as it may have */
	ONCE_FAILED /* it cannot be written down */
};

enum { ONCE_ID_SIZE = 65, ONCE_MOST = 10000 };

struct once_key {
	const char *tenant, *route, *key;
	size_t key_len;
	const char *body;
	size_t body_len;
};

enum once_found once_begin(struct once *o, const struct once_key *k, char id[ONCE_ID_SIZE],
			   int *status, struct buf *answer);
void once_keep(struct once *o, const char *id, int status, const char *answer, size_t n);
void once_forget(struct once *o, const char *id);
void once_leave(struct once *o, const char *id); /* nobody heard how it ended */
void once_prune(struct once *o);                 /* those older than a day */
