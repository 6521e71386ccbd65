/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/plan/java_store.h - the certificates that Java trusts, with one more.
 *
 * Java reads no variable and no PEM. Its own format (JKS) is taken by every version, also where the
 * file was a PKCS#12: a header, entries, and a SHA-1 over a fixed password and all of it. */
#pragma once

#include "base/text/arena.h"
#include "base/text/err.h"

struct java_store;

/* `old` are the bytes of the store to go on from, borrowed until java_store_end; one that is no JKS
 * counts as empty. */
int java_store_new(struct arena *a, const char *old, size_t n, struct java_store **ret,
		   struct err *e);
/* The store with this certificate (PEM) behind the others; allocated in the arena. */
int java_store_end(struct java_store *s, const char *pem, const char **ret, size_t *n,
		   struct err *e);
