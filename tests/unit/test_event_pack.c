/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_event_pack.c - events as they travel, and those that nobody may believe. */
#include "unit.h"

#include "base/text/cleanup.h"
#include "egress/event_pack.h"

static struct egress_event full(void)
{
	struct egress_event ev = { .kind = EGRESS_EVENT_DONE,
				   .reason = 3,
				   .port = 443,
				   .status = 200,
				   .count = 7,
				   .bytes_out = 1ULL << 40,
				   .bytes_in = 5 };

	memset(ev.host, 'h', sizeof(ev.host) - 1);
	memset(ev.method, 'm', sizeof(ev.method) - 1);
	memset(ev.address, 'a', sizeof(ev.address) - 1);
	memset(ev.rule, 'r', sizeof(ev.rule) - 1);
	memset(ev.credential, 'c', sizeof(ev.credential) - 1);
	memset(ev.what, 'w', sizeof(ev.what) - 1);
	memset(ev.hint, 'i', sizeof(ev.hint) - 1);
	memset(ev.path, 'p', sizeof(ev.path) - 1);
	memset(ev.fields, 'f', sizeof(ev.fields) - 1);
	return ev;
}

static void an_event_arrives_as_it_was(void **state)
{
	const struct egress_event longest = full(), least = { .kind = EGRESS_EVENT_READY },
				  usual = { .kind = EGRESS_EVENT_ALLOW,
					    .port = 443,
					    .host = "api.example.org",
					    .method = "GET",
					    .rule = "api.example.org" },
				  used = { .kind = EGRESS_EVENT_USAGE,
					   .rule = "a-model",
					   .tokens_in = 1,
					   .tokens_cached = 2,
					   .tokens_out = 3,
					   .cost = UINT64_MAX };
	const struct egress_event *all[] = { &longest, &least, &usual, &used };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		char packed[EVENT_PACKED_MAX];
		struct egress_event ev;
		size_t n = event_pack(all[i], packed);

		assert_in_range(n, 1, sizeof(packed));
		for (size_t k = 0; k < n; k++)
			assert_int_equal(event_unpack(packed, k, &ev), 0);
		assert_int_equal(event_unpack(packed, n, &ev), n);
		assert_int_equal(ev.kind, all[i]->kind);
		assert_int_equal(ev.reason, all[i]->reason);
		assert_int_equal(ev.port, all[i]->port);
		assert_int_equal(ev.status, all[i]->status);
		assert_int_equal(ev.count, all[i]->count);
		assert_true(ev.bytes_out == all[i]->bytes_out && ev.bytes_in == all[i]->bytes_in);
		assert_true(ev.tokens_in == all[i]->tokens_in && ev.cost == all[i]->cost &&
			    ev.tokens_cached == all[i]->tokens_cached &&
			    ev.tokens_out == all[i]->tokens_out);
		assert_string_equal(ev.host, all[i]->host);
		assert_string_equal(ev.method, all[i]->method);
		assert_string_equal(ev.address, all[i]->address);
		assert_string_equal(ev.rule, all[i]->rule);
		assert_string_equal(ev.credential, all[i]->credential);
		assert_string_equal(ev.what, all[i]->what);
		assert_string_equal(ev.hint, all[i]->hint);
	}
}

static void an_ordinary_one_is_small(void **state)
{
	const struct egress_event ev = { .kind = EGRESS_EVENT_ALLOW,
					 .port = 443,
					 .host = "api.example.org",
					 .method = "GET",
					 .rule = "api.example.org" };
	char packed[EVENT_PACKED_MAX];

	(void)state;
	assert_in_range(event_pack(&ev, packed), 1, 120);
}

/* The worker reads what a guest sends: whoever has it writes these. */
static void lengths_that_do_not_add_up_are_no_event(void **state)
{
	const struct egress_event ev = full();
	char packed[EVENT_PACKED_MAX];
	struct egress_event got;
	size_t n = event_pack(&ev, packed),
	       texts = sizeof(ev.host) + sizeof(ev.method) + sizeof(ev.address) + sizeof(ev.rule) +
		       sizeof(ev.credential) + sizeof(ev.what) + sizeof(ev.hint) + sizeof(ev.path) +
		       sizeof(ev.fields) - 9,
	       head = n - texts;

	(void)state;
	/* Behind the numbers come the lengths: each one more, one less, all of it. */
	for (size_t at = head - 18; at < head; at += 2)
		for (int by = -1; by <= 1; by += 2) {
			char bad[EVENT_PACKED_MAX];
			uint16_t was;

			memcpy(bad, packed, n);
			memcpy(&was, bad + at, 2);
			was = (uint16_t)(was + by);
			memcpy(bad + at, &was, 2);
			assert_int_equal(event_unpack(bad, n, &got), -EBADMSG);
			was = UINT16_MAX;
			memcpy(bad + at, &was, 2);
			assert_int_equal(event_unpack(bad, n, &got), -EBADMSG);
		}
}

static void a_packet_holds_whole_ones(void **state)
{
	static char all[4 * EGRESS_PACKET];
	const struct egress_event ev = full();
	size_t n = 0, made = 0, seen = 0, part;

	(void)state;
	for (; n + EVENT_PACKED_MAX <= sizeof(all); made++)
		n += event_pack(&ev, all + n);
	for (size_t at = 0; at < n; at += part) {
		struct egress_event got;

		part = event_packet(all + at, n - at);
		assert_in_range(part, 1, EGRESS_PACKET);
		for (size_t k = 0; k < part; seen++) {
			ssize_t one = event_unpack(all + at + k, part - k, &got);

			assert_true(one > 0);
			k += (size_t)one;
		}
	}
	assert_int_equal(seen, made);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(an_event_arrives_as_it_was),
	cmocka_unit_test(an_ordinary_one_is_small),
	cmocka_unit_test(lengths_that_do_not_add_up_are_no_event),
	cmocka_unit_test(a_packet_holds_whole_ones),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
