/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_gate_table.c - the table of mounts as the gate reads it. Every place found is a text in
 * bounds, every call but the last moves on, and a line that makes no sense ends it with a word. */
#include "fuzz.h"

#include "backend/docker/gate/gate_table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct gate_entry m;
	char *text = malloc(size + 1);
	const char *at = text;
	bool bad = false;

	require(text);
	if (size)
		memcpy(text, data, size);
	text[size] = '\0';
	for (const char *before = at; gate_table_next(&at, &m, &bad); before = at) {
		require(!bad && at > before && at <= text + size);
		require(memchr(m.point, '\0', sizeof(m.point)));
		require(memchr(m.type, '\0', sizeof(m.type)));
	}
	require(bad || !strchr(at, '\n'));
	free(text);
	return 0;
}
