/* SPDX-License-Identifier: Apache-2.0 */
/* http/http_query.c - fields and parameters of a call. */
#include <errno.h>
#include <string.h>

#include "base/bytes/hex.h"
#include "http/http.h"

struct http1_text http_field(const struct http_call *c, const char *name)
{
	return http1_only(c->head->fields, c->head->n_fields, name);
}

/* Decodes one component; -EINVAL when it is malformed, holds a NUL, or does not fit. */
static int decode(const char *p, size_t n, char *out, size_t room)
{
	size_t used = 0;

	for (size_t i = 0; i < n; i++) {
		char c = p[i] == '+' ? ' ' : p[i];

		if (p[i] == '%') {
			int high = i + 2 < n ? hex_nibble(p[i + 1]) : -1;
			int low = i + 2 < n ? hex_nibble(p[i + 2]) : -1;

			if (high < 0 || low < 0)
				return -EINVAL;
			c = (char)(high << 4 | low);
			i += 2;
		}
		if (!c || used + 1 >= room)
			return -EINVAL;
		out[used++] = c;
	}
	out[used] = '\0';
	return (int)used;
}

int http_param_nth(const struct http_call *c, const char *name, size_t nth, char *out, size_t n)
{
	size_t name_len = strlen(name);

	for (const char *p = c->query; *p;) {
		size_t len = strcspn(p, "&");

		if (len >= name_len && strncmp(p, name, name_len) == 0 &&
		    (len == name_len || p[name_len] == '=') && nth-- == 0) {
			size_t skip = name_len + (len > name_len);

			return decode(p + skip, len - skip, out, n);
		}
		p += len + (p[len] == '&');
	}
	return -ENOENT;
}

int http_param(const struct http_call *c, const char *name, char *out, size_t n)
{
	int r = http_param_nth(c, name, 0, out, n);
	char again[2];

	if (r >= 0 && http_param_nth(c, name, 1, again, sizeof(again)) != -ENOENT)
		return -EINVAL;
	return r;
}
