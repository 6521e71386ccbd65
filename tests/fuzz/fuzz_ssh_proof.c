/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_ssh_proof.c - a host's key and signature are taken apart within their bounds; so is the
 * message that brings them. */
#include "fuzz.h"

#include "egress/ssh/proof.h"

static void inside(const struct agentmsg_bytes *part, const struct agentmsg_bytes *whole)
{
	require(!part->n || (part->p >= whole->p && part->p + part->n <= whole->p + whole->n));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct agentmsg_bind b;
	struct proof p;
	struct agentmsg_bytes key, proof;

	if (agentmsg_read_bind(data, size, &b)) {
		const struct agentmsg_bytes whole = { data, size };

		inside(&b.host_key, &whole);
		inside(&b.session, &whole);
		inside(&b.proof, &whole);
		require(b.session.n <= AGENTMSG_SESSION_MAX && b.proof.n <= AGENTMSG_PROOF_MAX);
		key = b.host_key;
		proof = b.proof;
	} else {
		size_t half = size ? data[0] % size : 0;

		key = (struct agentmsg_bytes){ data + (size ? 1 : 0), half };
		proof = (struct agentmsg_bytes){ data + half, size - half };
		if (half == 0 || half + 1 > size)
			return 0;
	}
	if (!proof_read(&key, &proof, &p))
		return 0;
	inside(&p.key, &key);
	inside(&p.n, &key);
	inside(&p.e, &key);
	inside(&p.a, &proof);
	inside(&p.b, &proof);
	require(p.a.n && (p.kind != PROOF_ECDSA || (p.b.n && p.key.n)));
	require(p.kind != PROOF_ED25519 || (p.key.n == 32 && p.a.n == 64));
	require(p.kind != PROOF_RSA || (p.n.n && p.e.n && p.n.p[0]));
	return 0;
}
