/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "model/learn/sightings.h"

bool seen_below(const char *path, const char *folder)
{
	size_t n = strlen(folder);

	while (n > 1 && folder[n - 1] == '/')
		n--;
	if (n == 1)
		return path[0] == '/';
	return strncmp(path, folder, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

bool seen_is_plain(const char *path)
{
	const char *at = path;

	if (at[0] != '/')
		return false;
	while (*at == '/' && at[1]) {
		size_t n = strcspn(++at, "/");

		if (n == 0 || (n == 1 && at[0] == '.') || (n == 2 && at[0] == '.' && at[1] == '.'))
			return false;
		at += n;
	}
	return true;
}

void seen_common(char *have, const char *other)
{
	size_t n = 0, edge = 0;

	while (have[n] && have[n] == other[n]) {
		n++;
		if (have[n - 1] == '/')
			edge = n;
	}
	if (!have[n] && (!other[n] || other[n] == '/' || (n && have[n - 1] == '/')))
		return;
	if (!other[n] && (have[n] == '/' || (n && other[n - 1] == '/')))
		edge = n;
	have[edge] = '\0';
}
