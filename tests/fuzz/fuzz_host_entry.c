/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_host_entry.c - an entry that was put in is there, once, and can be cut out; JSON stays
 * JSON. */
#include <errno.h>

#include "fuzz.h"

#include "apps/mcp/host_entry.h"
#include "base/bytes/jread.h"

#define VALUE "{\"command\": \"b\"}"

static bool is_json(const char *p, size_t n)
{
	struct jread *v = NULL;
	struct err e;
	bool ok = jread_parse(p, n, &v, &e) == 0;

	(void)jread_free(v);
	return ok;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum entry_form form = size && data[0] == '[' ? ENTRY_TOML : ENTRY_JSON;
	struct buf one = BUF_INIT(1 << 22), two = BUF_INIT(1 << 22), cut = BUF_INIT(1 << 22);
	const char *text = (const char *)data, *value = form == ENTRY_TOML ? "c = 1\n" : VALUE;
	struct err e = { 0 };
	bool json = is_json(text, size);

	if (entry_put(form, text, size, "servers", "brig", value, &one, &e) == 0) {
		require(!one.failed && memmem(one.data, one.len, value, strlen(value)));
		if (form == ENTRY_JSON && json)
			require(is_json(one.data, one.len));
		require(entry_put(form, one.data, one.len, "servers", "brig", value, &two, &e) ==
			0);
		require(one.len == two.len && memcmp(one.data, two.data, one.len) == 0);
		require(entry_cut(form, one.data, one.len, "servers", "brig", &cut, &e) == 0);
		if (form == ENTRY_JSON && json)
			require(is_json(buf_str(&cut), cut.len));
	}
	buf_done(&one);
	buf_done(&two);
	buf_done(&cut);
	return 0;
}
