/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/bytes/hmac.h"
#include "base/bytes/md5.h"
#include "base/bytes/sha256.h"
#include "base/bytes/sha256_block.h"

static void digest(const char *data, size_t n, size_t step, char out[SHA256_HEX])
{
	unsigned char raw[SHA256_SIZE];
	struct sha256 h;

	sha256_init(&h);
	for (size_t at = 0; at < n; at += step)
		sha256_add(&h, data + at, n - at < step ? n - at : step);
	sha256_end(&h, raw);
	sha256_hex(raw, out);
}

static void the_published_vectors_come_out(void **state UNUSED)
{
	static const struct {
		const char *in, *out;
	} vectors[] = {
		{ "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
		{ "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
		{ "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
		  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
		{ "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopq"
		  "klm"
		  "nopqrlmnopqrsmnopqrstnopqrstu",
		  "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1" },
	};
	char hex[SHA256_HEX];

	for (size_t i = 0; i < sizeof(vectors) / sizeof(*vectors); i++) {
		digest(vectors[i].in, strlen(vectors[i].in), 1000, hex);
		assert_string_equal(hex, vectors[i].out);
	}
}

static void a_million_letters_come_out(void **state UNUSED)
{
	char *data = malloc(1000000), hex[SHA256_HEX];

	assert_non_null(data);
	memset(data, 'a', 1000000);
	digest(data, 1000000, 1000000, hex);
	assert_string_equal(hex,
			    "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
	free(data);
}

static void the_pieces_do_not_matter(void **state UNUSED)
{
	char data[300], whole[SHA256_HEX], cut[SHA256_HEX];

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (char)(i * 7);
	for (size_t n = 0; n <= sizeof(data); n++) {
		digest(data, n, sizeof(data), whole);
		for (size_t step = 1; step < 130; step += 9) {
			digest(data, n, step, cut);
			assert_string_equal(cut, whole);
		}
	}
}

/* On a processor without the instructions there is nothing to compare, which the list of what it
 * has confirms. */
static void the_processor_agrees_with_the_portable_code(void **state UNUSED)
{
	sha256_block_fn *fast = sha256_blocks_hardware();
	unsigned char data[64 * 33];
	char flags[16384] = "";
	FILE *f = fopen("/proc/cpuinfo", "re");

	assert_non_null(f);
	flags[fread(flags, 1, sizeof(flags) - 1, f)] = '\0';
	(void)fclose(f);
	if (strstr(flags, " sha2 ") || strstr(flags, " sha_ni "))
		assert_non_null(fast);
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (unsigned char)(i * 131 + i / 7);
	for (size_t blocks = 0; fast && blocks <= 33; blocks++) {
		uint32_t one[8], two[8];

		for (uint32_t i = 0; i < 8; i++)
			one[i] = two[i] = 0x9e3779b9U * (i + (uint32_t)blocks);
		sha256_blocks_portable(one, data, blocks);
		fast(two, data, blocks);
		assert_memory_equal(one, two, sizeof(one));
	}
}

/* RFC 4231. */
static void keyed_digests_come_out(void **state UNUSED)
{
	static const struct {
		unsigned char key;
		size_t key_n;
		const char *text, *out;
	} vectors[] = {
		{ 0x0b, 20, "Hi There",
		  "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7" },
		{ 0xaa, 131, "Test Using Larger Than Block-Size Key - Hash Key First",
		  "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54" },
	};

	for (size_t i = 0; i < sizeof(vectors) / sizeof(*vectors); i++) {
		unsigned char key[131], sum[SHA256_SIZE], again[SHA256_SIZE];
		size_t n = strlen(vectors[i].text);
		char hex[SHA256_HEX];
		struct hmac_key k;
		struct hmac h;

		memset(key, vectors[i].key, vectors[i].key_n);
		hmac_key_init(&k, key, vectors[i].key_n);
		hmac_sha256(&k, vectors[i].text, n, sum);
		sha256_hex(sum, hex);
		assert_string_equal(hex, vectors[i].out);
		hmac_begin(&h, &k);
		hmac_add(&h, vectors[i].text, 3);
		hmac_add(&h, vectors[i].text + 3, n - 3);
		hmac_end(&h, again);
		assert_true(hmac_equal(sum, again));
		again[31] ^= 1;
		assert_false(hmac_equal(sum, again));
	}
}

/* RFC 1321; lengths around the end of a block are those where its padding changes. */
static void md5_comes_out(void **state UNUSED)
{
	static const struct {
		size_t n;
		const char *sum;
	} tries[] = { { 0, "d41d8cd98f00b204e9800998ecf8427e" },
		      { 55, "ef1772b6dff9a122358552954ad0df65" },
		      { 56, "3b0c8ac703f828b04c6c197006d17218" },
		      { 64, "014842d480b571495a4a0363793f7367" },
		      { 120, "5f61c0ccad4cac44c75ff505e1f1e537" } };
	char letters[128], sum[MD5_HEX];

	memset(letters, 'a', sizeof(letters));
	for (size_t i = 0; i < sizeof(tries) / sizeof(*tries); i++) {
		md5_of(letters, tries[i].n, sum);
		assert_string_equal(sum, tries[i].sum);
	}
	md5_of("message digest", 14, sum);
	assert_string_equal(sum, "f96b697d7cb7938d525a2f31aaf161d0");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_published_vectors_come_out),
		cmocka_unit_test(a_million_letters_come_out),
		cmocka_unit_test(the_pieces_do_not_matter),
		cmocka_unit_test(the_processor_agrees_with_the_portable_code),
		cmocka_unit_test(keyed_digests_come_out),
		cmocka_unit_test(md5_comes_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
