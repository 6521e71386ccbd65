/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_path.c - a resolved path is absolute and plain, and resolving it again changes nothing.
 */
#include "fuzz.h"

#include "base/text/arena.h"
#include "model/settings/paths.h"
#include "model/settings/spec.h"

static void require_plain(const char *p, size_t limit)
{
	size_t n = strlen(p);

	require(p[0] == '/' && n <= limit);
	if (n == 1)
		return;
	require(p[n - 1] != '/');
	while (*p) {
		size_t len = strcspn(p + 1, "/");

		require(len > 0 && !(len == 1 && p[1] == '.') &&
			!(len == 2 && p[1] == '.' && p[2] == '.'));
		p += len + 1;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct place at = { .cwd = "/a/b", .home = size % 2 ? "/home/me/" : NULL };
	struct arena *a = arena_new((size_t)16 << 20);
	char *text = text_of(data, size);
	const char *path = NULL, *again = NULL;
	struct err e;

	require(a != NULL);
	if (size < 1 << 20 && path_resolve(a, &at, text, &path, &e) == 0) {
		require_plain(path, strlen(text) + 16);
		require(path_resolve(a, &at, path, &again, &e) == 0 && strcmp(path, again) == 0);
		require(path_under(path, path) && path_under(path, "/"));
		if (text[0] != '/' && text[0] != '~' && !strstr(text, ".."))
			require(path_under(path, "/a/b"));
	}
	free(text);
	(void)arena_free(a);
	return 0;
}
