/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_egress_plan.c - a plan that is read can be written, and read again as the same. */
#include "fuzz.h"

#include "egress/egress_plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf one = BUF_INIT((size_t)1 << 24), two = BUF_INIT((size_t)1 << 24);
	struct egress_plan *p = NULL, *q = NULL;
	struct err e;

	if (egress_plan_read((const char *)data, size, &p, &e) == 0) {
		require(egress_plan_write(p, &one, &e) == 0);
		require(egress_plan_read(buf_str(&one), one.len, &q, &e) == 0);
		require(egress_plan_write(q, &two, &e) == 0);
		require(one.len == two.len && memcmp(one.data, two.data, one.len) == 0);
	}
	p = egress_plan_free(p);
	q = egress_plan_free(q);
	buf_done(&one);
	buf_done(&two);
	return 0;
}
