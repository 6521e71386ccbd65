/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/sha256.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_published_vectors_come_out),
		cmocka_unit_test(a_million_letters_come_out),
		cmocka_unit_test(the_pieces_do_not_matter),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
