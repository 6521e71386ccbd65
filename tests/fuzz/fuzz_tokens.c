/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_tokens.c - a file of tokens is read whole or refused, and a line that is read is one.
 */
#include "fuzz.h"

#include "daemon/api/tokens.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct token *v = NULL;
	struct err e = { 0 };
	size_t n = 0;

	if (tokens_parse((const char *)data, size, &v, &n, &e) < 0) {
		require(e.code && e.what[0]);
		return 0;
	}
	for (size_t i = 0; i < n; i++) {
		require(tenant_name_ok(v[i].tenant));
		require(v[i].scopes & SCOPE_READ);
		require(!v[i].ceiling || v[i].ceiling[0] == '/');
	}
	tokens_drop(v, n);
	return 0;
}
