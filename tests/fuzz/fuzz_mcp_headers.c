/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_mcp_headers.c - what is compared of a request's fields and body: a head, a NUL, a
 * message. What is taken says the same twice, and nothing is read beyond its end. */
#include "fuzz.h"

#include "apps/mcp/mcp_http_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *nul = size ? memchr(data, '\0', size) : NULL, *why = NULL;
	size_t n = nul ? (size_t)(nul - (const char *)data) : size;
	struct http1_request head;
	struct rpc_message m;
	const char *text = NULL;
	int code;

	if (http1_read_request((const char *)data, n, &head, &why) <= 0)
		return 0;
	for (size_t i = 0; i < head.n_fields; i++) {
		(void)header_says(head.fields[i].value, "run_command");
		(void)version_known(head.fields[i].value);
	}
	if (nul && rpc_parse(nul + 1, size - n - 1, &m, &text) == 0 && m.kind == RPC_IS_REQUEST) {
		why = NULL;
		code = headers_check(&head, &m, &why);
		require((code == 0 && !why) || (code == RPC_HEADER && why));
	}
	if (nul)
		rpc_done(&m);
	return 0;
}
