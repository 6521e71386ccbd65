/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/near_program.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/files/folder.h"
#include "base/text/arena.h"
#include "base/text/cleanup.h"
#include "base/text/str.h"

/* Among so many names each short one has some that differ in two letters. */
enum { NAMES_MAX = 16384, NAME_MAX_HERE = 64, SHORT_NAME = 5 };

/* One letter too many, too few or wrong, two neighbours swapped, or the end missing. */
static bool one_slip(const char *a, const char *b)
{
	size_t n = strlen(a), m = strlen(b);

	while (n && m && *a == *b)
		a++, b++, n--, m--;
	if (!n)
		return true;
	while (n && m && a[n - 1] == b[m - 1])
		n--, m--;
	return (n <= 1 && m <= 1) || (n == 2 && m == 2 && a[0] == b[1] && a[1] == b[0]);
}

bool near_program(const char *name, char *ret, size_t n)
{
	CLEANUP(arena) struct arena *a = arena_new((size_t)4 << 20);
	const char **names = a ? arena_alloc(a, (NAMES_MAX + 1) * sizeof(*names)) : NULL;
	CLEANUP(fd) int bin = open("/usr/bin", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct fd_entry *e;
	struct folder f;
	const char *near;
	size_t count = 0;

	if (!names || bin < 0)
		return false;
	folder_begin(&f, bin);
	while (count < NAMES_MAX && (e = folder_next(&f))) {
		bool fits = strlen(e->name) < NAME_MAX_HERE && e->name[0] != '.' &&
			    (strlen(name) > SHORT_NAME || one_slip(name, e->name));
		const char *copy = fits ? arena_strdup(a, e->name) : NULL;

		if (copy)
			names[count++] = copy;
	}
	names[count] = NULL;
	near = strlen(name) > 2 ? str_nearest(name, names) : NULL;
	if (near)
		(void)snprintf(ret, n, "%s", near);
	return near;
}
