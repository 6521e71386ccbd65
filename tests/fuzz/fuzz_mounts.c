/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_mounts.c - a mountinfo and a password file, as a host might write them. What is taken
 * is whole, and a path is found on a mount that it lies on. */
#include "fuzz.h"

#include "base/files/home.h"
#include "base/files/mounts.h"

static void check_mounts(char *text)
{
	CLEANUP(arena) struct arena *a = arena_new(1 << 22);
	struct mounts m = { 0 };

	require(a != NULL);
	if (mounts_parse(a, text, &m) < 0)
		return;
	for (size_t i = 0; i < m.n && i < 64; i++) {
		struct where w;

		require(m.v[i].root && m.v[i].type && m.v[i].point[0] == '/');
		if (mounts_where_text(&m, a, m.v[i].point, &w) == 0)
			require(strcmp(w.real, m.v[i].point) == 0 && w.path);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = text_of(data, size), home[64] = "";

	if (home_find(text, size ? data[0] : 0, home, sizeof(home)) == 0)
		require(home[0] == '/' && strlen(home) < sizeof(home) && strstr(text, home));
	check_mounts(text);
	free(text);
	return 0;
}
