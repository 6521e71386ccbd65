/* SPDX-License-Identifier: Apache-2.0 */
/* The argument vectors of the programs that carry a cable: each word of them switches something off
 * that would lead to the host. BRIG_UPDATE_GOLDEN=1 rewrites the files. */
#include "unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/kit/net/nearby.h"
#include "backend/kit/net/user_cable.h"
#include "base/files/fd.h"

static void compare(const char *folder, const char *program, const char *file)
{
	const char *argv[USER_CABLE_ARGS];
	char path[4096], want[4096] = "", got[4096] = "";
	FILE *f;

	user_cable_argv(program, "PID", argv);
	for (size_t i = 0; argv[i]; i++)
		(void)snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s\n", argv[i]);
	(void)snprintf(path, sizeof(path), "%s/%s", folder, file);
	if (getenv("BRIG_UPDATE_GOLDEN")) {
		f = fopen(path, "w");
		assert_non_null(f);
		assert_true(fputs(got, f) >= 0 && fclose(f) == 0);
	}
	assert_true(fd_read_file(AT_FDCWD, path, want, sizeof(want)) > 0);
	assert_string_equal(got, want);
}

static void pasta_forwards_nothing(void **state)
{
	compare(*state, "/usr/bin/pasta", "cable_pasta.txt");
}

static void slirp4netns_forwards_nothing(void **state)
{
	compare(*state, "/usr/bin/slirp4netns", "cable_slirp4netns.txt");
}

static bool covers(const struct rtnl_addr *a, const unsigned char *b)
{
	for (unsigned bit = 0; bit < a->prefix; bit++)
		if ((a->bytes[bit / 8] ^ b[bit / 8]) & (0x80 >> bit % 8))
			return false;
	return true;
}

static void what_is_near_everywhere_is_closed(void **state UNUSED)
{
	static const struct {
		unsigned char address[4];
		bool near;
	} all[] = {
		{ { 0, 0, 0, 0 }, true },          { { 10, 1, 2, 3 }, true },
		{ { 100, 64, 0, 1 }, true },       { { 100, 63, 255, 255 }, false },
		{ { 127, 0, 0, 1 }, true },        { { 169, 254, 169, 254 }, true },
		{ { 172, 31, 255, 255 }, true },   { { 172, 32, 0, 0 }, false },
		{ { 168, 63, 129, 16 }, true },    { { 168, 63, 129, 17 }, false },
		{ { 192, 0, 0, 170 }, true },      { { 192, 0, 1, 0 }, false },
		{ { 192, 88, 99, 1 }, true },      { { 192, 168, 255, 1 }, true },
		{ { 198, 19, 255, 253 }, true },   { { 198, 20, 0, 0 }, false },
		{ { 224, 0, 0, 251 }, true },      { { 240, 0, 0, 1 }, true },
		{ { 255, 255, 255, 255 }, true },  { { 1, 1, 1, 1 }, false },
		{ { 223, 255, 255, 255 }, false },
	};

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		struct rtnl_addr a;
		bool near = false;

		for (size_t k = 0; nearby_always(k, &a); k++)
			near |= covers(&a, all[i].address);
		assert_int_equal(near, all[i].near);
	}
}

static void the_machines_own_loopback_is_read(void **state UNUSED)
{
	static struct nearby n;
	struct err e = { 0 };
	size_t had;

	assert_int_equal(nearby_read(&n, &e), 0);
	had = n.n;
	/* A second look finds nothing new, and forgets nothing. */
	assert_int_equal(nearby_read(&n, &e), 0);
	assert_true(n.n >= had);
	for (size_t i = 0; i < n.n; i++)
		assert_true(n.v[i].prefix > 0 && n.v[i].prefix <= 32);
}

int main(int argc, char **argv)
{
	char *folder = argc > 1 ? argv[1] : NULL;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_prestate(pasta_forwards_nothing, folder),
		cmocka_unit_test_prestate(slirp4netns_forwards_nothing, folder),
		cmocka_unit_test(what_is_near_everywhere_is_closed),
		cmocka_unit_test(the_machines_own_loopback_is_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
