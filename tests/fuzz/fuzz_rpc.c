/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_rpc.c - a message is read within its bounds or refused, and its id comes back as JSON.
 */
#include "fuzz.h"

#include "apps/mcp/rpc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rpc_message m;
	struct buf b = BUF_INIT(1 << 20);
	struct jread *back = NULL;
	struct err e;
	const char *why = NULL;
	int code = rpc_parse((const char *)data, size, &m, &why);

	require(code == 0 || (code < 0 && why));
	require(strlen(m.id) < sizeof(m.id));
	if (code == 0 && m.kind != RPC_IS_RESPONSE)
		require(m.method && (m.kind == RPC_IS_NOTIFICATION) == !m.id[0]);
	rpc_error(&b, m.id, RPC_PARAMS, why ? why : "x", NULL);
	require(!b.failed && !memchr(b.data, '\n', b.len));
	require(jread_parse(b.data, b.len, &back, &e) == 0);
	(void)jread_free(back);
	buf_done(&b);
	rpc_done(&m);
	return 0;
}
