/* SPDX-License-Identifier: Apache-2.0 */
/* model/known/known_hosts.h - the keys that a file of OpenSSH's known_hosts has for one host.
 *
 *     HOST[,HOST...] TYPE KEY [COMMENT]        HOST: name, [name]:PORT, or |1|SALT|HASH
 *     @revoked HOST[,HOST...] TYPE KEY
 *
 * A line counts where it names exactly this host and port. One with a pattern, a negation or
 * @cert-authority does not, nor one that is broken in any way: too few keys refuse a run, one too
 * many would let somebody else in. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/arena.h"
#include "base/text/err.h"

enum { KNOWN_KEYS_MAX = 16, KNOWN_BLOB_MAX = 2048 };

struct known_key {
	const char *kind, *text; /* "ssh-ed25519", and its key as it was written */
	const unsigned char *blob;
	size_t n;
	bool revoked;
};

struct known_keys {
	struct known_key v[KNOWN_KEYS_MAX];
	size_t n;
};

/* Adds what the text has for this host; the arena owns it. An error: there are too many. */
int known_hosts_read(struct arena *a, const char *text, size_t n, const char *host, uint16_t port,
		     struct known_keys *ret, struct err *e);
/* Is it one host and its key, and nothing that a file alone may have? */
bool known_hosts_is_line(const char *line);
/* Takes out those that a line has revoked, and these lines. */
void known_hosts_settle(struct known_keys *k);

/* Is it the blob of a key of that type, and one that is verified here? */
bool known_key_is(const char *kind, size_t kind_len, const unsigned char *blob, size_t n);
