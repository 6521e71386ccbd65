/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "egress/ssh/proof.h"

struct blob {
	unsigned char b[1024];
	size_t n;
};

static void add(struct blob *to, const void *p, size_t n)
{
	agentmsg_put_number(to->b + to->n, (uint32_t)n);
	memcpy(to->b + to->n + AGENTMSG_HEAD, p, n);
	to->n += AGENTMSG_HEAD + n;
}

static void add_text(struct blob *to, const char *text)
{
	add(to, text, strlen(text));
}

static bool reads(const struct blob *key, const struct blob *signature, struct proof *p)
{
	const struct agentmsg_bytes k = { key->b, key->n }, s = { signature->b, signature->n };

	return proof_read(&k, &s, p);
}

/* Every cut of them is none. */
static void cuts_are_none(const struct blob *key, const struct blob *signature)
{
	struct proof p;

	for (size_t i = 0; i < key->n; i++) {
		struct blob cut = *key;

		cut.n = i;
		assert_false(reads(&cut, signature, &p));
	}
	for (size_t i = 0; i < signature->n; i++) {
		struct blob cut = *signature;

		cut.n = i;
		assert_false(reads(key, &cut, &p));
	}
}

static void ed25519_has_its_sizes(void **state UNUSED)
{
	struct blob key = { .n = 0 }, sig = { .n = 0 };
	unsigned char bytes[80] = { 1 };
	struct proof p;

	add_text(&key, "ssh-ed25519");
	add(&key, bytes, 32);
	add_text(&sig, "ssh-ed25519");
	add(&sig, bytes, 64);
	assert_true(reads(&key, &sig, &p) && p.kind == PROOF_ED25519 && p.key.n == 32);
	cuts_are_none(&key, &sig);
	sig.n = 0;
	add_text(&sig, "ssh-ed25519");
	add(&sig, bytes, 65);
	assert_false(reads(&key, &sig, &p));
	sig.n = 0;
	add_text(&sig, "rsa-sha2-256");
	add(&sig, bytes, 64);
	assert_false(reads(&key, &sig, &p));
}

static void rsa_never_signs_with_sha1(void **state UNUSED)
{
	struct blob key = { .n = 0 }, sig = { .n = 0 };
	unsigned char n[257] = { 0, 0x80 }, s[256] = { 1 };
	struct proof p;

	add_text(&key, "ssh-rsa");
	add(&key, "\1\0\1", 3);
	add(&key, n, sizeof(n));
	add_text(&sig, "rsa-sha2-512");
	add(&sig, s, sizeof(s));
	assert_true(reads(&key, &sig, &p) && p.kind == PROOF_RSA && p.n.n == 256);
	assert_string_equal(p.hash, "SHA512");
	cuts_are_none(&key, &sig);
	sig.n = 0;
	add_text(&sig, "ssh-rsa");
	add(&sig, s, sizeof(s));
	assert_false(reads(&key, &sig, &p));
}

static void numbers_of_ecdsa_have_one_form(void **state UNUSED)
{
	static const struct {
		const char *r;
		size_t n;
		bool good;
	} all[] = {
		{ "\1", 1, true },        { "\0\xff", 2, true }, { "\xff", 1, false },
		{ "\0\1", 2, false },     { "\0", 1, false },    { "\x7f\1", 2, true },
		{ "\0\0\xff", 3, false },
	};
	struct blob key = { .n = 0 };
	unsigned char point[65] = { 4 };

	add_text(&key, "ecdsa-sha2-nistp256");
	add_text(&key, "nistp256");
	add(&key, point, sizeof(point));
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		struct blob in = { .n = 0 }, sig = { .n = 0 };
		struct proof p;

		add(&in, all[i].r, all[i].n);
		add(&in, "\1", 1);
		add_text(&sig, "ecdsa-sha2-nistp256");
		add(&sig, in.b, in.n);
		assert_int_equal(reads(&key, &sig, &p), all[i].good);
		if (all[i].good)
			cuts_are_none(&key, &sig);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ed25519_has_its_sizes),
		cmocka_unit_test(rsa_never_signs_with_sha1),
		cmocka_unit_test(numbers_of_ecdsa_have_one_form),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
