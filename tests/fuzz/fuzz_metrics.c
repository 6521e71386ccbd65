/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_metrics.c - a state file is refused, or what it says is written again and reads the
 * same.
 */
#include "fuzz.h"

#include "telemetry/metrics.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(metrics) struct metrics *m = metrics_new(), *back = metrics_new();
	CLEANUP(buf) struct buf first = BUF_INIT((size_t)4 << 20);
	CLEANUP(buf) struct buf second = BUF_INIT((size_t)4 << 20);
	struct err e = { 0 };

	require(m && back);
	if (metrics_parse(m, (const char *)data, size, &e) < 0) {
		require(e.code && e.what[0]);
		return 0;
	}
	require(metrics_render(m, &first) == 0);
	require(metrics_parse(back, buf_str(&first), first.len, &e) == 0);
	require(metrics_render(back, &second) == 0);
	require(first.len == second.len && memcmp(first.data, second.data, first.len) == 0);
	metrics_merge(m, back);
	return 0;
}
