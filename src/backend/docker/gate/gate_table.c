/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/docker/gate/gate_table.h"

#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>

static bool is_octal(const char *p)
{
	return p[0] >= '0' && p[0] <= '3' && p[1] >= '0' && p[1] <= '7' && p[2] >= '0' &&
	       p[2] <= '7';
}

/* The kernel writes blanks and backslashes as \040. */
static bool unescape(const char *p, size_t n, char out[GATE_PATH_MAX])
{
	size_t k = 0;

	for (size_t i = 0; i < n; i++) {
		if (k + 1 >= GATE_PATH_MAX)
			return false;
		if (p[i] == '\\' && n - i > 3 && is_octal(p + i + 1)) {
			out[k++] = (char)((p[i + 1] - '0') << 6 | (p[i + 2] - '0') << 3 |
					  (p[i + 3] - '0'));
			i += 3;
		} else {
			out[k++] = p[i];
		}
	}
	out[k] = '\0';
	return true;
}

/* Digits up to a mark; NULL: none, too many, or another mark. */
static const char *gate_table_number(const char *p, char mark, unsigned *ret)
{
	const char *from = p;

	for (*ret = 0; *p >= '0' && *p <= '9' && p - from < 9; p++)
		*ret = *ret * 10 + (unsigned)(*p - '0');
	return p > from && *p == mark ? p + 1 : NULL;
}

/* "8:1 /root /point ...", from the third field on. */
static bool read_device(const char *p, struct gate_entry *ret)
{
	static const char nothing[] = "/.empty-directory";
	const size_t n = sizeof(nothing) - 1;
	unsigned high, low;
	size_t have;

	p = gate_table_number(p, ':', &high);
	p = p ? gate_table_number(p, ' ', &low) : NULL;
	if (!p)
		return false;
	ret->dev = makedev(high, low);
	ret->whole = p[0] == '/' && p[1] == ' ';
	have = strcspn(p, " \n");
	ret->nothing = have >= n && memcmp(p + have - n, nothing, n) == 0;
	return true;
}

bool gate_table_next(const char **at, struct gate_entry *ret, bool *bad)
{
	const char *line = *at, *end = strchr(line, '\n'), *field = line, *dash, *device = NULL;
	size_t n;

	if (!end)
		return false;
	*at = end + 1;
	for (int i = 0; i < 4 && field; i++) {
		field = memchr(field, ' ', (size_t)(end - field));
		field = field ? field + 1 : NULL;
		device = i == 1 ? field : device;
	}
	dash = field ? memmem(field, (size_t)(end - field), " - ", 3) : NULL;
	*bad = !dash || !read_device(device, ret);
	if (*bad)
		return false;
	n = (size_t)((const char *)memchr(field, ' ', (size_t)(dash + 1 - field)) - field);
	*bad = !unescape(field, n, ret->point);
	ret->read_only = strncmp(field + n, " ro", 3) == 0 && strchr(", ", field[n + 3]);
	n = strcspn(dash + 3, " \n");
	(void)snprintf(ret->type, sizeof(ret->type), "%.*s", (int)n, dash + 3);
	return !*bad;
}
