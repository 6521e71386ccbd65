/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_node_frame.c - what a node of a cluster says: whatever the bytes are, and however they
 * are split, a frame is one of the node's, within its bound and within what came. */
#include "fuzz.h"

#include <string.h>

#include "backend/kit/remote/remote_report.h"
#include "proc/node/node_frame.h"

static void look(const struct node_frame *f, size_t size)
{
	CLEANUP(outcome) struct outcome *o = NULL;
	struct isolation i = { 0 };
	struct err e = { 0 };

	require(f->kind < NODE_KINDS && f->kind >= NODE_READY);
	require(f->size <= node_max(f->kind) && f->size <= size);
	if (f->kind != NODE_REPORT)
		return;
	o = outcome_new();
	require(o);
	if (report_read(f->data, f->size, o, &i, &e) < 0)
		require(e.code);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t step = size ? data[0] % 64 + 1 : 1;
	struct node_reader r;
	struct node_frame f;
	int got = 0;

	node_reader_init(&r, NODE_FROM_NODE);
	for (size_t at = 1; at < size; at += step) {
		node_reader_add(&r, data + at, size - at < step ? size - at : step);
		while ((got = node_reader_next(&r, &f)) == 1)
			look(&f, size);
		require(got == 0 || r.broken);
	}
	node_reader_done(&r);
	return 0;
}
