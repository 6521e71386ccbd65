/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_challenge.c - WWW-Authenticate of a registry: what is read is text, and ends. */
#include "fuzz.h"

#include "base/text/str.h"
#include "image/challenge.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct challenge c;
	struct err e = { 0 };

	/* Without a NUL behind it: a field of an answer has none. */
	char *bare = malloc(size ? size : 1);

	require(bare != NULL);
	memcpy(bare, data, size);
	if (challenge_parse(bare, size, &c, &e) == 0) {
		require(c.scheme == CHALLENGE_BASIC || c.realm[0]);
		require(memchr(c.realm, '\0', sizeof(c.realm)) && !str_has_control(c.realm));
		require(memchr(c.service, '\0', sizeof(c.service)) && !str_has_control(c.service));
		require(memchr(c.scope, '\0', sizeof(c.scope)) && !str_has_control(c.scope));
	} else {
		require(e.code && e.what[0]);
	}
	free(bare);
	return 0;
}
