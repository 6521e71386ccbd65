/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_packages.c - the lists of dpkg, ucf and rpm, and brig's own of what it copied: whatever
 * stands in them, no path leads elsewhere. The first byte chooses the list. */
#include "fuzz.h"

#include "backend/kit/packages/packages.h"
#include "backend/kit/packages/shipped.h"
#include "base/text/str.h"

static void check_shipped(const struct shipped *s)
{
	for (size_t i = 0; i < s->n; i++) {
		const char *path = s->v[i].path;

		require(str_starts(path, "/etc/") || str_starts(path, "/var/lib/"));
		require(!strstr(path, "/../") && !strstr(path, "//"));
		require(strlen(s->v[i].sum) == 32 || strlen(s->v[i].sum) == 64);
		require(i == 0 || strcmp(s->v[i - 1].path, path) <= 0);
		require(s->v[i].package != NULL && !strchr(s->v[i].package, '\n'));
	}
}

static void check_list(struct arena *a, const char *text)
{
	struct packages p;

	if (!packages_read(a, text, "stamp", &p))
		return;
	require(strlen(p.id) == PACKAGES_ID && !strchr(p.id, '/') && !p.tree);
	for (size_t i = 0; i < p.n; i++) {
		require(str_starts(p.v[i].place, PACKAGES_PLACE "/") && p.v[i].path[0] == '/');
		require(!p.v[i].live || str_starts(p.v[i].path, "/etc/") ||
			str_starts(p.v[i].path, "/var/"));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(arena) struct arena *a = arena_new((size_t)1 << 24);
	struct shipped s = { .arena = a };
	char *text;

	if (!size)
		return 0;
	require(a != NULL);
	text = text_of(data + 1, size - 1);
	if (data[0] % 4 == 1)
		(void)shipped_status(&s, (const char *)data + 1, size - 1);
	else if (data[0] % 4 == 2)
		(void)shipped_ucf(&s, text, (const char *)data + 1, size - 1);
	else if (data[0] % 4 == 3)
		(void)shipped_rpm(&s, (const char *)data + 1, size - 1);
	else
		check_list(a, text);
	shipped_sort(&s);
	check_shipped(&s);
	free(text);
	return 0;
}
