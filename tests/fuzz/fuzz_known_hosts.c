/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_known_hosts.c - whatever a file says, its keys are whole, of types that are verified,
 * and none that it revokes is left. */
#include "fuzz.h"

#include "model/known/known_hosts.h"

static void check_keys(const struct known_keys *k)
{
	require(k->n <= KNOWN_KEYS_MAX);
	for (size_t i = 0; i < k->n; i++)
		require(known_key_is(k->v[i].kind, strlen(k->v[i].kind), k->v[i].blob, k->v[i].n) &&
			!strpbrk(k->v[i].text, " \t\r\n"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(arena) struct arena *a = arena_new((size_t)1 << 20);
	CLEANUP(mem) char *text = text_of(data, size);
	struct known_keys keys = { 0 }, other = { 0 }, revoked;
	struct err e;

	require(a != NULL);
	if (known_hosts_read(a, (const char *)data, size, "git.test", 22, &keys, &e) < 0 ||
	    known_hosts_read(a, (const char *)data, size, "git.test", 2222, &other, &e) < 0)
		return 0;
	check_keys(&keys);
	check_keys(&other);
	revoked = keys;
	known_hosts_settle(&keys);
	check_keys(&keys);
	for (size_t i = 0; i < keys.n; i++)
		for (size_t k = 0; k < revoked.n; k++)
			require(!revoked.v[k].revoked || revoked.v[k].n != keys.v[i].n ||
				memcmp(revoked.v[k].blob, keys.v[i].blob, keys.v[i].n) != 0);
	(void)known_hosts_is_line(text);
	return 0;
}
