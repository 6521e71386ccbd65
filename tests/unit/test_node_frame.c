/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_node_frame.c - what two brigs say to each other, however it is split; and what neither
 * may say. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "proc/node/node_frame.h"
#include "far/far_place.h"

static void frames_arrive_however_they_are_split(void **state UNUSED)
{
	CLEANUP(buf) struct buf b = BUF_INIT(4096);
	struct node_frame f;

	node_put(&b, NODE_OUT, "a\nb\0c", 5);
	node_put_number(&b, NODE_TAKEN, 70000, 4);
	node_put(&b, NODE_BEGAN, NULL, 0);
	for (size_t step = 1; step <= b.len; step++) {
		struct node_reader r;
		size_t seen = 0;

		node_reader_init(&r, NODE_FROM_NODE);
		for (size_t at = 0; at < b.len; at += step) {
			node_reader_add(&r, b.data + at, b.len - at < step ? b.len - at : step);
			while (node_reader_next(&r, &f) == 1) {
				seen++;
				if (f.kind == NODE_OUT)
					assert_true(f.size == 5 &&
						    memcmp(f.data, "a\nb\0c", 5) == 0);
				if (f.kind == NODE_TAKEN)
					assert_int_equal(node_number(&f), 70000);
			}
		}
		assert_int_equal(seen, 3);
		node_reader_done(&r);
	}
}

static int read_bytes(enum node_side from, const char *p, size_t n)
{
	struct node_reader r;
	struct node_frame f;
	int got;

	node_reader_init(&r, from);
	node_reader_add(&r, p, n);
	got = node_reader_next(&r, &f);
	if (got < 0) /* and for good */
		assert_int_equal(node_reader_next(&r, &f), -EPROTO);
	node_reader_done(&r);
	return got;
}

static void what_is_not_the_others_to_say_ends_the_conversation(void **state UNUSED)
{
	CLEANUP(buf) struct buf b = BUF_INIT(4096);

	node_put(&b, NODE_REPORT, "{}", 2);
	assert_int_equal(read_bytes(NODE_FROM_NODE, b.data, b.len), 1);
	assert_int_equal(read_bytes(NODE_FROM_HERE, b.data, b.len), -EPROTO);
	assert_int_equal(read_bytes(NODE_FROM_NODE, "slurmstepd: error", 17), -EPROTO);
	b.data[b.len - 1] = 'x';
	assert_int_equal(read_bytes(NODE_FROM_NODE, b.data, b.len), -EPROTO);
	b.data[4] = 0x7f; /* more than a report may have */
	assert_int_equal(read_bytes(NODE_FROM_NODE, b.data, NODE_HEADER), -EPROTO);
}

static void a_frame_beyond_its_size_is_not_made(void **state UNUSED)
{
	CLEANUP(buf) struct buf b = BUF_INIT(1 << 20);
	static const char big[NODE_PART + 1];

	node_put(&b, NODE_OUT, big, sizeof(big));
	assert_true(b.failed);
}

static void a_path_is_the_same_only_where_it_can_be(void **state UNUSED)
{
	const struct far_place ext = { .dev = 1, .ino = 7, .type = 0xef53 },
			       nfs = { .dev = 9, .ino = 7, .type = 0x6969 },
			       other = { .dev = 1, .ino = 8, .type = 0x6969 };

	assert_true(far_place_same(&ext, &ext, true));
	assert_false(far_place_same(&ext, &nfs, true));
	assert_false(far_place_same(&ext, &ext, false)); /* two disks, one number */
	assert_true(far_place_same(&ext, &nfs, false));  /* the server of that file system */
	assert_false(far_place_same(&nfs, &other, false));
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(frames_arrive_however_they_are_split),
	cmocka_unit_test(what_is_not_the_others_to_say_ends_the_conversation),
	cmocka_unit_test(a_frame_beyond_its_size_is_not_made),
	cmocka_unit_test(a_path_is_the_same_only_where_it_can_be),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
