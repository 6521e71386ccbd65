/* SPDX-License-Identifier: Apache-2.0 */
#include "model/settings/suffixes.h"

#include <stdio.h>
#include <string.h>

#define NAME_MAX_BYTES 256

/* "s3.amazonaws.com" to "com.amazonaws.s3". false: too long to be a host's. */
static bool turn_round(const char *name, char out[NAME_MAX_BYTES])
{
	size_t n = strlen(name), at = 0;

	if (n >= NAME_MAX_BYTES)
		return false;
	for (const char *end = name + n; end >= name;) {
		const char *start = end;

		while (start > name && start[-1] != '.')
			start--;
		memcpy(out + at, start, (size_t)(end - start));
		at += (size_t)(end - start);
		out[at++] = start > name ? '.' : '\0';
		end = start - 1;
	}
	return true;
}

/* The first line that is not less than the word; the table's end where there is none. */
static const char *seek(const char *word)
{
	const char *low = suffix_table, *high = suffix_table + suffix_table_size;
	size_t n = strlen(word);

	while (low < high) {
		const char *line = low + (high - low) / 2, *end;
		size_t len;
		int order;

		while (line > low && line[-1] != '\n')
			line--;
		end = memchr(line, '\n', (size_t)(high - line));
		len = (size_t)(end - line);
		order = memcmp(line, word, len < n ? len : n);
		if (order < 0 || (order == 0 && len < n))
			low = end + 1;
		else
			high = line;
	}
	return low;
}

static bool suffixes_has(const char *word, bool whole)
{
	const char *line = seek(word);
	size_t n = strlen(word);

	return (size_t)(suffix_table + suffix_table_size - line) > n &&
	       memcmp(line, word, n) == 0 && (!whole || line[n] == '\n');
}

bool suffix_is_anybodys(const char *name)
{
	char word[NAME_MAX_BYTES], more[NAME_MAX_BYTES + 4];

	if (!strchr(name, '.') || !turn_round(name, word))
		return true;
	(void)snprintf(more, sizeof(more), "%s!", word);
	if (suffixes_has(more, true))
		return false;
	(void)snprintf(more, sizeof(more), "%s.", word);
	if (suffixes_has(word, true) || suffixes_has(more, false))
		return true;
	for (const char *dot = strchr(word, '.'); dot; dot = strchr(dot + 1, '.')) {
		/* Right above the name "*" will do, and "**" begins with one. */
		const char *any = strchr(dot + 1, '.') ? "**" : "*";

		(void)snprintf(more, sizeof(more), "%.*s.%s", (int)(dot - word), word, any);
		if (suffixes_has(more, false))
			return true;
	}
	return false;
}
