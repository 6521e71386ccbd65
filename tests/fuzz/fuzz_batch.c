/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_batch.c - a line of a batch never loosens what holds, and a ledger is believed only as
 * far as it is whole. */
#include "fuzz.h"

#include <string.h>

#include "apps/batch/batch_internal.h"
#include "sandbox/manager.h"

enum { LINES = 8 };

static void try_line(const char *text, size_t size)
{
	CLEANUP(jread) struct jread *line = NULL;
	struct err e = { 0 };
	CLEANUP(spec) struct spec *holds = spec_new(&e);
	brig_request *q = NULL;

	require(holds);
	if (batch_line_read(text, size, &line, &e) < 0) {
		require(e.code && e.hint[0] && !line);
		return;
	}
	if (batch_line_request(line, holds, &q, &e) < 0) {
		require(e.code && !q);
		return;
	}
	require(request_spec(q)->network == NETWORK_NONE);
	require(request_spec(q)->mounts.n == 0 && request_spec(q)->write.n == 0);
	require(request_spec(q)->policy <= holds->policy);
	brig_request_free(q);
}

static void try_ledger(const char *text, size_t size)
{
	struct batch_known known[LINES] = { 0 };
	uint64_t results;
	size_t whole;
	struct err e = { 0 };

	if (batch_ledger_read(text, size, "d", LINES, known, &results, &whole, &e) < 0) {
		require(e.code);
		return;
	}
	require(whole <= size && text[whole - 1] == '\n');
	for (size_t i = 0; i < LINES; i++)
		require(!known[i].ended || known[i].attempts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct batch_lines all;
	struct err e = { 0 };

	if (!size)
		return 0;
	if (data[0] == 'L') {
		try_ledger((const char *)data + 1, size - 1);
		return 0;
	}
	try_line((const char *)data, size);
	if (batch_lines_find((const char *)data, size, &all, &e) == 0)
		for (size_t i = 0; i < all.n; i++)
			require(all.v[i].at + all.v[i].size <= size);
	batch_lines_done(&all);
	return 0;
}
