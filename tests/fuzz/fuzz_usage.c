/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_usage.c - an answer in any pieces says the same, whatever is in it; no number of it is
 * beyond what can be added up. */
#include "fuzz.h"

#include "egress/budget/usage.h"

static struct usage read_in(const uint8_t *data, size_t size, enum usage_framing framing,
			    size_t piece)
{
	struct usage_reader r;

	usage_open(&r, framing);
	for (size_t at = 0; at < size; at += piece)
		usage_feed(&r, (const char *)data + at, size - at < piece ? size - at : piece);
	usage_end(&r);
	return r.u;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	for (int framing = USAGE_JSON; framing <= USAGE_EVENTS; framing++) {
		struct usage whole = read_in(data, size, (enum usage_framing)framing, size + 1);
		struct usage_sum s = usage_sum(&whole);

		for (int i = 0; i < USAGE_NUMBERS; i++)
			require(whole.n[i] <= USAGE_MOST);
		require(s.cached + s.written <= s.in && s.hour <= s.written);
		require(memchr(whole.model, '\0', sizeof(whole.model)));
		for (size_t piece = 1; piece < 8; piece += 3) {
			struct usage cut = read_in(data, size, (enum usage_framing)framing, piece);

			require(memcmp(whole.n, cut.n, sizeof(cut.n)) == 0);
			require(whole.bad == cut.bad && whole.in == cut.in && whole.out == cut.out);
			require(strcmp(whole.model, cut.model) == 0);
		}
	}
	return 0;
}
