/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "model/known/known_hosts.h"

#define K1 "AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
#define K2 "AAAAC3NzaC1lZDI1NTE5AAAAIAEBAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"

static size_t keys_of(const char *text, const char *host, uint16_t port)
{
	CLEANUP(arena) struct arena *a = arena_new((size_t)1 << 20);
	struct known_keys k = { 0 };
	struct err e;

	assert_int_equal(known_hosts_read(a, text, strlen(text), host, port, &k, &e), 0);
	known_hosts_settle(&k);
	return k.n;
}

static void a_line_counts_for_exactly_its_hosts(void **state UNUSED)
{
	static const struct {
		const char *text;
		uint16_t port;
		size_t n;
	} all[] = {
		{ "git.test ssh-ed25519 " K1 "\n", 22, 1 },
		{ "Git.Test ssh-ed25519 " K1 " a comment\r\n", 22, 1 },
		{ "a.test,git.test,192.0.2.1 ssh-ed25519 " K1, 22, 1 },
		{ "# git.test ssh-ed25519 " K1 "\n\n\t git.test\tssh-ed25519\t" K1 "\n", 22, 1 },
		{ "git.test ssh-ed25519 " K1 "\ngit.test ssh-ed25519 " K2 "\n", 22, 2 },
		{ "git.test ssh-ed25519 " K1 "\ngit.test ssh-ed25519 " K1 "\n", 22, 1 },
		{ "[git.test]:2222 ssh-ed25519 " K1 "\n", 2222, 1 },
		{ "[git.test]:2222 ssh-ed25519 " K1 "\n", 22, 0 },
		{ "git.test ssh-ed25519 " K1 "\n", 2222, 0 },
		{ "git.test.evil ssh-ed25519 " K1 "\ngit.tes ssh-ed25519 " K1 "\n", 22, 0 },
		{ "*.test ssh-ed25519 " K1 "\ngit.tes? ssh-ed25519 " K1 "\n", 22, 0 },
		{ "git.test,!other.test ssh-ed25519 " K1 "\n", 22, 0 },
		{ "@cert-authority git.test ssh-ed25519 " K1 "\n", 22, 0 },
		{ "git.test ssh-rsa " K1 "\ngit.test ssh-dss " K1 "\n", 22, 0 },
		{ "git.test ssh-ed25519 " K1 "AAAA\ngit.test ssh-ed25519\ngit.test\n", 22, 0 },
		{ "git.test ssh-ed25519 " K1 "\n@revoked git.test ssh-ed25519 " K1 "\n", 22, 0 },
		{ "git.test ssh-ed25519 " K1 "\n@revoked * ssh-ed25519 " K1 "\n", 22, 0 },
		{ "git.test ssh-ed25519 " K2 "\n@revoked * ssh-ed25519 " K1 "\n", 22, 1 },
		{ "git.test ssh-ed25519 " K1 "\n@revoked b.test ssh-ed25519 " K1 "\n", 22, 1 },
	};

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if (keys_of(all[i].text, "git.test", all[i].port) != all[i].n)
			fail_msg("line %zu: not %zu keys", i, all[i].n);
}

/* As ssh-keygen -H has hidden them. */
static void hidden_names_are_found(void **state UNUSED)
{
	const char *text = "|1|AAECAwQFBgcICQoLDA0ODxAREhM=|HASH= ssh-ed25519 " K1 "\n";

	assert_int_equal(keys_of(text, "git.test", 22), 0); /* no hash at all */
	text = "|1|AAECAwQFBgcICQoLDA0ODxAREhM=|PG9jsXF23+Yn4eyPxEx0UT4ZePg= ssh-ed25519 " K1 "\n";
	assert_int_equal(keys_of(text, "git.test", 22), 1);
	assert_int_equal(keys_of(text, "git.test", 2222), 0);
	assert_int_equal(keys_of(text, "other.test", 22), 0);
}

static void a_setting_is_one_host_and_its_key(void **state UNUSED)
{
	static const char *const bad[] = { "",
					   "git.test",
					   "git.test ssh-ed25519",
					   "git.test ssh-ed25519 AAAA",
					   "*.test ssh-ed25519 " K1,
					   "a.test,b.test ssh-ed25519 " K1,
					   "@revoked git.test ssh-ed25519 " K1,
					   "|1|a|b ssh-ed25519 " K1,
					   "git.test ssh-dss " K1 };

	assert_true(known_hosts_is_line("git.test ssh-ed25519 " K1));
	assert_true(known_hosts_is_line("[git.test]:2222 ssh-ed25519 " K1 " comment"));
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_false(known_hosts_is_line(bad[i]));
}

static void too_many_keys_are_refused(void **state UNUSED)
{
	CLEANUP(arena) struct arena *a = arena_new((size_t)1 << 20);
	struct known_keys k = { 0 };
	struct err e;
	int r = 0;

	for (int i = 0; i <= KNOWN_KEYS_MAX; i++) {
		static const char line[] = "git.test ssh-ed25519 " K1 "\n";

		assert_int_equal(r, 0);
		r = known_hosts_read(a, line, strlen(line), "git.test", 22, &k, &e);
	}
	assert_true(r < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_counts_for_exactly_its_hosts),
		cmocka_unit_test(hidden_names_are_found),
		cmocka_unit_test(a_setting_is_one_host_and_its_key),
		cmocka_unit_test(too_many_keys_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
