/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_agentmsg.c - a request to sign is bounded and comes back as it was; what passes for
 * git's is nothing else. */
#include "fuzz.h"

#include "egress/ssh/agentmsg.h"

static void as_request(const unsigned char *p, size_t n)
{
	unsigned char out[AGENTMSG_HEAD + AGENTMSG_REQUEST_MAX];
	struct agentmsg_sign s;
	size_t m;

	if (!agentmsg_read_sign(p, n, &s))
		return;
	require(s.key.n && s.key.n <= AGENTMSG_KEY_MAX && s.key.p > p && s.key.p + s.key.n < p + n);
	require(s.data.n && s.data.n <= AGENTMSG_DATA_MAX && s.data.p > s.key.p &&
		s.data.p + s.data.n < p + n);
	m = agentmsg_write_sign(&s, out, sizeof(out));
	require(m == AGENTMSG_HEAD + n && agentmsg_number(out) == n &&
		memcmp(out + AGENTMSG_HEAD, p, n) == 0);
	require(!agentmsg_wants_sha1(&s) || memcmp(s.key.p + AGENTMSG_HEAD, "ssh-", 4) == 0);
	if (agentmsg_purpose(&s) == AGENTMSG_GIT)
		require((s.data.n == 63 || s.data.n == 95) &&
			memcmp(s.data.p, "SSHSIG\0\0\0\3git\0\0\0\0", 17) == 0);
	else if (agentmsg_purpose(&s) == AGENTMSG_LOGIN)
		require(s.data.p[0] == 0 && s.data.n > s.key.n + 50);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct agentmsg_bytes key = { .p = data, .n = size < 16 ? size : 16 };

	as_request(data, size);
	if (agentmsg_has_key(data, size, &key))
		require(agentmsg_is_keys(data, size));
	require(!agentmsg_is_signed(data, size) || !agentmsg_is_keys(data, size));
	return 0;
}
