/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/ssh/proof.h"

#include <string.h>

#include "base/text/cleanup.h"

struct proof_rest {
	const unsigned char *p;
	size_t n;
	bool bad;
};

static const struct proof_type {
	const char *key, *signature;
	enum proof_kind kind;
	const char *curve, *hash;
} types[] = {
	{ "ssh-ed25519", "ssh-ed25519", PROOF_ED25519, NULL, NULL },
	{ "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp256", PROOF_ECDSA, "P-256", "SHA256" },
	{ "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp384", PROOF_ECDSA, "P-384", "SHA384" },
	{ "ecdsa-sha2-nistp521", "ecdsa-sha2-nistp521", PROOF_ECDSA, "P-521", "SHA512" },
	{ "ssh-rsa", "rsa-sha2-256", PROOF_RSA, NULL, "SHA256" },
	{ "ssh-rsa", "rsa-sha2-512", PROOF_RSA, NULL, "SHA512" },
};

static struct agentmsg_bytes proof_string(struct proof_rest *r)
{
	struct agentmsg_bytes b = { .p = r->p };
	uint32_t n = r->bad || r->n < AGENTMSG_HEAD ? 0 : agentmsg_number(r->p);

	if (!n || n > r->n - AGENTMSG_HEAD) {
		r->bad = true;
		return b;
	}
	b.p = r->p + AGENTMSG_HEAD;
	b.n = n;
	r->p = b.p + n;
	r->n -= AGENTMSG_HEAD + n;
	return b;
}

/* A number above 0 in its shortest form (RFC 4251, section 5). */
static struct agentmsg_bytes proof_mpint(struct proof_rest *r)
{
	struct agentmsg_bytes b = proof_string(r);

	if (r->bad)
		return b;
	if (b.p[0] & 0x80 || (!b.p[0] && (b.n == 1 || !(b.p[1] & 0x80)))) {
		r->bad = true;
	} else if (!b.p[0]) {
		b.p++;
		b.n--;
	}
	return b;
}

static bool proof_is(const struct agentmsg_bytes *b, const char *text)
{
	return b->n == strlen(text) && memcmp(b->p, text, b->n) == 0;
}

static void read_key(const struct proof_type *t, struct proof_rest *r, struct proof *ret)
{
	if (t->kind == PROOF_RSA) {
		ret->e = proof_mpint(r);
		ret->n = proof_mpint(r);
		return;
	}
	if (t->kind == PROOF_ECDSA) {
		struct agentmsg_bytes curve = proof_string(r);
		const char *own = t->key + strlen("ecdsa-sha2-");

		r->bad |= !proof_is(&curve, own);
	}
	ret->key = proof_string(r);
	r->bad |= t->kind == PROOF_ED25519 && ret->key.n != 32;
}

static void read_signature(const struct proof_type *t, struct proof_rest *r, struct proof *ret)
{
	ret->a = proof_string(r);
	if (t->kind == PROOF_ED25519)
		r->bad |= ret->a.n != 64;
	if (t->kind == PROOF_ECDSA && !r->bad) {
		struct proof_rest in = { .p = ret->a.p, .n = ret->a.n };

		ret->a = proof_mpint(&in);
		ret->b = proof_mpint(&in);
		r->bad |= in.bad || in.n;
	}
}

bool proof_read(const struct agentmsg_bytes *key, const struct agentmsg_bytes *signature,
		struct proof *ret)
{
	struct proof_rest k = { .p = key->p, .n = key->n };
	struct proof_rest s = { .p = signature->p, .n = signature->n };
	struct agentmsg_bytes kind = proof_string(&k), how = proof_string(&s);

	for (size_t i = 0; !k.bad && !s.bad && i < ARRAY_LEN(types); i++) {
		const struct proof_type *t = &types[i];

		if (!proof_is(&kind, t->key) || !proof_is(&how, t->signature))
			continue;
		*ret = (struct proof){ .kind = t->kind, .curve = t->curve, .hash = t->hash };
		read_key(t, &k, ret);
		read_signature(t, &s, ret);
		return !k.bad && !k.n && !s.bad && !s.n;
	}
	return false;
}
