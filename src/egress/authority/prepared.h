/* SPDX-License-Identifier: Apache-2.0 */
/* egress/authority/prepared.h - certificate authorities that were made ahead, so that a run with a
 * door has a certificate without starting one.
 *
 *     made (a file of the state folder, by the keeper of an earlier run, before anything of a
 *     guest's was read) -> taken (locked by one run, whose sandbox alone trusts it)
 *       -> spent (its door starts: the file goes) | given back (nothing ever reached the door)
 *
 * A file has the certificate and its key, mode 0600, and counts for a day. A run that is killed
 * leaves its file free again: no key was used, and nobody else has seen it. */
#pragma once

#include <stddef.h>

#include "base/text/buf.h"
#include "base/text/err.h"

/* A run's certificate is 700 bytes, its key 150. */
enum { PREPARED_PEM_MAX = 2048, PREPARED_KEY_MAX = 512, PREPARED_MAX = 4096 };

struct prepared {
	int fd; /* locked; from its beginning: what prepared_read reads. -1: none was free */
	int slot;
};

/* Locks one, and says its certificate. Without one there is nothing to say: the door makes its own.
 */
void prepared_take(struct prepared *p, char pem[PREPARED_PEM_MAX]);
/* From now on nobody else can have it; the descriptor stays. 0 or -errno: it must not be used. */
int prepared_spend(struct prepared *p);
void prepared_close(struct prepared *p); /* gives it back, unless it was spent */

/* Keeps what a keeper wrote, where there is room. */
void prepared_keep(const char *record, size_t n);

/* ---- the record ---- */

struct prepared_record {
	const char *pem; /* a text */
	const char *key; /* PKCS#8 */
	size_t key_len;
};

int prepared_write(const struct prepared_record *r, struct buf *out); /* 0 or -ENOMEM */
/* Borrows of data; 0 or -EBADMSG. */
int prepared_read(const char *data, size_t n, struct prepared_record *ret);
