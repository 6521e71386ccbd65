/* SPDX-License-Identifier: Apache-2.0 */
/* egress/ssh/proof.h - a host's signature over the identifier of a session, taken apart.
 *
 * Pure, bounded, nothing is copied. Key and signature are those of RFC 4253, 5656, 8332 and 8709;
 * SHA-1, certificates and what is not in its one form are no proof. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "egress/ssh/agentmsg.h"

enum proof_kind { PROOF_ED25519, PROOF_ECDSA, PROOF_RSA };

struct proof {
	enum proof_kind kind;
	const char *curve, *hash;   /* as OpenSSL names them; NULL: none */
	struct agentmsg_bytes key;  /* the 32 bytes, or the point */
	struct agentmsg_bytes n, e; /* of RSA, without zeroes in front */
	struct agentmsg_bytes a;    /* the signature; of ECDSA its r ... */
	struct agentmsg_bytes b;    /* ... and its s */
};

bool proof_read(const struct agentmsg_bytes *key, const struct agentmsg_bytes *signature,
		struct proof *ret);

/* ---- between the monitor and the process that verifies: one packet each way ---- */

enum { PROOF_KEY_MAX = 2048 };

struct proof_ask {
	uint32_t key_n, session_n, proof_n;
	unsigned char key[PROOF_KEY_MAX], session[AGENTMSG_SESSION_MAX], proof[AGENTMSG_PROOF_MAX];
};

enum { PROOF_BAD, PROOF_GOOD }; /* the answer, a byte */

/* proof_serve.c: what brig-egress does when it is started with this word. The socket is 3. */
#define PROOF_WORD "prove"
int proof_main(void);
