/* SPDX-License-Identifier: Apache-2.0 */
/* egress/authority/keeper.h - the process that holds the run's certificate authority.
 *
 * It makes a key that never leaves it, tells the certificate once, and then answers three questions
 * on a socket: "this is the key that leaves are for" (once), "a leaf for this name", and "sign this
 * text with that key of the user's" (keeper_sign.h). It has no network and no files; whoever holds
 * the other end of the socket can have leaves made, and texts of one form signed, and nothing else.
 * Fixed messages, one a packet. */
#pragma once

#include <stdint.h>

#include "base/text/err.h"

enum { KEEPER_NAME_MAX = 254, KEEPER_LEAF_MAX = 2048 };

enum keeper_kind { KEEPER_KEY, KEEPER_LEAF, KEEPER_SIGN };

struct keeper_ask {
	uint32_t kind;
	uint32_t serial; /* comes back with the answer: one that came too late is not taken for the
			    next */
	uint32_t len;
	unsigned char data[KEEPER_NAME_MAX]; /* a SubjectPublicKeyInfo, a canonical host name, or
						number, hash and text */
};

struct keeper_answer {
	int32_t status; /* 0 or -errno */
	uint32_t serial;
	uint32_t len;
	unsigned char leaf[KEEPER_LEAF_MAX]; /* DER; or a signature */
};

/* Whose authority it is, and whether it makes one for a later run (egress/authority/prepared.h). */
enum keeper_way { KEEPER_MAKES, KEEPER_MAKES_TWO, KEEPER_TAKES };

/* The keeper's whole life: writes to `out` the certificate as PEM, unless it takes one from
 * `record`, and with the last two ways a record for a later run; reads the keys of client
 * certificates from it, where it is a socket; closes it; serves until `sock` ends. Returns an exit
 * status. */
int keeper_main(enum keeper_way way, int sock, int out, int record);
