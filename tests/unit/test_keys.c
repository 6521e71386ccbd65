/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_keys.c - the way out of a terminal that the command has for its own. */
#include "unit.h"

#include "base/text/cleanup.h"
#include "sandbox/streams/keys.h"

#define SECOND ((uint64_t)1000000)

/* Typed three times, `gap` microseconds apart, cut into pieces of `cut` bytes. */
static bool thrice(const char *key, uint64_t gap, size_t cut)
{
	struct keys k = { 0 };
	bool left = false;

	for (int i = 0; i < 3; i++)
		for (size_t at = 0; at < strlen(key); at += cut) {
			size_t n = strlen(key) - at < cut ? strlen(key) - at : cut;

			left |= keys_leave(&k, key + at, n, SECOND + (uint64_t)i * gap);
		}
	return left;
}

static void the_key_three_times_is_the_way_out(void **state UNUSED)
{
	static const char *const keys[] = { "\x1c",
					    "\x1b[92;5u",
					    "\x1b[92;5:1u",
					    "\x1b[92:124;5u",
					    "\x1b[92;133u",
					    "\x1b[27;5;92~",
					    "\x1b\x1c",
					    "\x1b[57442;5u\x1c",
					    "\x1b[1\x1c",
					    "\x1b[92;5:1u\x1b[92;5:3u",
					    "\x1b[220;43;28;1;8;1_",
					    "\x1b[35:39:92;5u" };

	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		for (size_t cut = 1; cut < 8; cut++)
			if (!thrice(keys[i], SECOND / 2, cut))
				fail_msg("not seen: key %zu cut at %zu", i, cut);
}

static void nothing_else_is(void **state UNUSED)
{
	static const char *const keys[] = { "\x03",
					    "\\",
					    "\x1b[92u",
					    "\x1b[92;1u",
					    "\x1b[92;2u",
					    "\x1b[92;5:3u",
					    "\x1b[192;5u",
					    "\x1b[921;5u",
					    "\x1b[27;5;93~",
					    "\x1b[27;2;92~",
					    "\x1b[92;5~",
					    "\x1b]92;5u",
					    "92;5u",
					    "\x1b[92;u",
					    "\x1b[220;43;28;0;8;1_",
					    "\x1b[220;43;92;1;8;1_",
					    "\x1b[28;1_",
					    "\x1b[35:39;5u",
					    "\x1b[27;;92~",
					    "\x1b[92;000000000000000000000000000005u" };

	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		for (size_t cut = 1; cut < 8; cut++)
			if (thrice(keys[i], SECOND / 2, cut))
				fail_msg("taken for it: key %zu cut at %zu", i, cut);
	assert_false(thrice("\x1c", 2 * SECOND, 1));
}

static void twice_and_a_pause_begins_anew(void **state UNUSED)
{
	struct keys k = { 0 };

	assert_false(keys_leave(&k, "\x1c\x1c", 2, SECOND));
	assert_false(keys_leave(&k, "\x1c\x1c", 2, 4 * SECOND));
	assert_true(keys_leave(&k, "x\x1c", 2, 5 * SECOND));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_key_three_times_is_the_way_out),
		cmocka_unit_test(nothing_else_is),
		cmocka_unit_test(twice_and_a_pause_begins_anew),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
