/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/near_program.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/str.h"

enum { NAMES_MAX = 16384, NAME_MAX_HERE = 64 };

bool near_program(const char *name, char *ret, size_t n)
{
	CLEANUP(arena) struct arena *a = arena_new((size_t)4 << 20);
	const char **names = a ? arena_alloc(a, (NAMES_MAX + 1) * sizeof(*names)) : NULL;
	DIR *d = names ? opendir("/usr/bin") : NULL;
	const char *near;
	size_t count = 0;

	if (!d)
		return false;
	for (struct dirent *e; count < NAMES_MAX && (e = readdir(d));) {
		const char *copy = strlen(e->d_name) < NAME_MAX_HERE && e->d_name[0] != '.'
					   ? arena_strdup(a, e->d_name)
					   : NULL;

		if (copy)
			names[count++] = copy;
	}
	(void)closedir(d);
	names[count] = NULL;
	near = strlen(name) > 2 ? str_nearest(name, names) : NULL;
	if (near)
		(void)snprintf(ret, n, "%s", near);
	return near;
}
