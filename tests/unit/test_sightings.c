/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "model/learn/sightings.h"

static void common(const char *have, const char *other, const char *want)
{
	char path[256];

	(void)snprintf(path, sizeof(path), "%s", have);
	seen_common(path, other);
	assert_string_equal(path, want);
}

static void whole_segments_are_common(void **state UNUSED)
{
	common("/a/b", "/a/c", "/a/");
	common("/a", "/a/b", "/a");
	common("/a/b", "/a", "/a");
	common("/ab", "/ac", "/");
	common("/a", "/ab", "/");
	common("/a/", "/a/b", "/a/");
	common("/a/b", "/a/", "/a/");
	common("/a/b/", "/a/b", "/a/b");
	common("/x", "/x", "/x");
	common("/", "/a", "/");
	common("", "/a", "");
	common("/a", "", "");
}

static void plain_paths_are_told_from_others(void **state UNUSED)
{
	static const char *const plain[] = { "/", "/a", "/a/b", "/a/", "/..a", "/a..", "/.a" };
	static const char *const other[] = { "",     "a",     "//",   "/a//b",
					     "/./a", "/a/..", "/a/.", "/../a" };

	for (size_t i = 0; i < ARRAY_LEN(plain); i++)
		assert_true(seen_is_plain(plain[i]));
	for (size_t i = 0; i < ARRAY_LEN(other); i++)
		assert_true(!seen_is_plain(other[i]));
	assert_true(seen_below("/a/b", "/a") && seen_below("/a", "/a") && seen_below("/a", "/a/"));
	assert_true(!seen_below("/ab", "/a") && !seen_below("/", "/a") && seen_below("/a", "/"));
}

static void requests_keep_what_they_have_in_common(void **state UNUSED)
{
	CLEANUP(sightings) struct sightings *s = sightings_new();

	assert_true(s != NULL);
	sightings_request(s, "h.test", 443, "GET", "/v1/a", "x-one x-two");
	sightings_request(s, "h.test", 443, "GET", "/v1/b", "X-One");
	sightings_request(s, "h.test", 443, "PUT", "/v1/b", "");
	sightings_request(s, "h.test", 443, "GET", "fetch:/team/a", "");
	sightings_request(s, "h.test", 443, "GET", "fetch:/team/b", "");
	sightings_request(s, "h.test", 443, "GET", "ws:/live/a", "");
	sightings_request(s, "h.test", 443, "GET", "ws:/live/b", "");
	sightings_request(s, "w.test", 443, "GET", "ws:", "");
	assert_true(s->n_requests == 6 && s->requests[0].count == 2 && s->n_fields == 2);
	assert_string_equal(s->requests[0].path, "/v1/");
	assert_string_equal(s->requests[1].path, "/v1/b");
	assert_string_equal(s->requests[3].method, "fetch");
	assert_string_equal(s->requests[3].path, "/team/b");
	assert_string_equal(s->requests[4].method, "ws");
	assert_string_equal(s->requests[4].path, "/live/");
	assert_string_equal(s->requests[5].method, "ws");
	assert_string_equal(s->requests[5].path, "");
	sightings_request(s, "h.test", 443, "GET", "", "*");
	assert_string_equal(s->requests[0].path, "");
	assert_true(s->requests[0].unruly);
}

static void floods_keep_their_places_and_are_counted(void **state UNUSED)
{
	CLEANUP(sightings) struct sightings *s = sightings_new();
	char text[64];

	assert_true(s != NULL);
	sightings_place(s, "/d");
	for (int i = 0; i < SEEN_REQUESTS + 10; i++) {
		(void)snprintf(text, sizeof(text), "h%d.test", i);
		sightings_request(s, text, 443, "GET", "/", text);
	}
	for (int i = 0; i < SEEN_FILES + 10; i++) {
		(void)snprintf(text, sizeof(text), "/d/%d", i);
		sightings_file(s, text, false, false);
		sightings_missed(s, text);
	}
	sightings_file(s, "/e/outside", false, true);
	assert_true(s->n_requests == SEEN_REQUESTS && s->more_requests == 10);
	assert_true(s->n_fields == SEEN_FIELDS && s->more_fields == SEEN_REQUESTS - SEEN_FIELDS);
	assert_true(s->n_files == SEEN_FILES && s->more_files == 10);
	assert_true(s->n_missing == SEEN_MISSING &&
		    s->more_missing == SEEN_FILES + 10 - SEEN_MISSING);
	assert_string_equal(s->requests[0].host, "h0.test");
	assert_true(!s->failed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole_segments_are_common),
		cmocka_unit_test(plain_paths_are_told_from_others),
		cmocka_unit_test(requests_keep_what_they_have_in_common),
		cmocka_unit_test(floods_keep_their_places_and_are_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
