/* SPDX-License-Identifier: Apache-2.0 */
/* audit/key.h - the key of one record: signs lines and heads, and fingerprints secrets. */
#pragma once

#include "base/bytes/hmac.h"
#include "base/text/err.h"

enum { KEY_SIZE = 32, KEY_ID_SIZE = 17, FINGERPRINT_SIZE = 13 };

struct audit_key {
	struct hmac_key mac;
	char id[KEY_ID_SIZE]; /* names the record: 16 hex digits that say nothing of the key */
};

void key_init(struct audit_key *k, const unsigned char raw[KEY_SIZE]);

/* From BRIG_AUDIT_KEY (64 hex digits), else from the file `key` in dirfd; -ENOENT when there is
 * none. */
int key_load(int dirfd, struct audit_key *k, struct err *e);
/* The same, but makes the file when there is none. Two who make it at once end up with one. */
int key_make(int dirfd, struct audit_key *k, struct err *e);

/* Twelve hex digits that tell two secrets apart for whoever has the key, and nothing to others. */
void key_fingerprint(const struct audit_key *k, const char *secret, size_t n,
		     char out[FINGERPRINT_SIZE]);
