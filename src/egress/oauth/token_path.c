/* SPDX-License-Identifier: Apache-2.0 */
/* egress/oauth/token_path.c - is a path that of an endpoint? Servers read more than one writing of
 * it as the same: escapes, doubled slashes, dot segments, parameters behind a ';', another case, a
 * format behind a dot. Under a writing that the door did not know the tokens would come in. */
#include <string.h>

#include "base/bytes/hex.h"
#include "base/text/cleanup.h"
#include "base/text/str.h"
#include "egress/oauth/oauth_internal.h"
#include "egress/rules/path.h"

enum { ROUNDS = 3 }; /* of escapes within escapes */

/* In place. A '%' without two digits is a sign like others. */
static void undo_escapes(struct buf *b)
{
	size_t n = 0;

	for (size_t i = 0; i < b->len; i++) {
		int high = b->len - i > 2 && b->data[i] == '%' ? hex_nibble(b->data[i + 1]) : -1;
		int low = high >= 0 ? hex_nibble(b->data[i + 2]) : -1;

		b->data[n++] = low >= 0 ? (char)(high * 16 + low) : b->data[i];
		i += low >= 0 ? 2 : 0;
	}
	b->len = n;
}

static char plain(char c)
{
	return (char)(c == '\\' ? '/' : c >= 'A' && c <= 'Z' ? c | 32 : c);
}

/* Without parameters, and the blanks and dots that some servers drop at its end. */
static size_t bare_length(const char *segment, size_t n)
{
	const char *semicolon = memchr(segment, ';', n);

	n = semicolon ? (size_t)(semicolon - segment) : n;
	while (n && (segment[n - 1] == ' ' || segment[n - 1] == '.'))
		n--;
	return n;
}

static bool is_parent(const char *segment, size_t n)
{
	return n >= 2 && memcmp(segment, "..", 2) == 0 && (n == 2 || segment[2] == ';');
}

static void cut_at_last(struct buf *b, char sign)
{
	while (b->len && b->data[--b->len] != sign)
		;
}

/* A form that all writings have in common. It is compared and never sent. */
static void read_loosely(struct egress_text path, struct buf *out)
{
	CLEANUP(buf) struct buf b = BUF_INIT(PATH_MAX_LEN + 1);
	const char *p, *end;

	buf_add(&b, path.p, path.n);
	if (b.failed || !b.len)
		return;
	for (int i = 0; i < ROUNDS; i++)
		undo_escapes(&b);
	for (size_t i = 0; i < b.len; i++)
		b.data[i] = plain(b.data[i]);
	for (p = b.data, end = p; end < b.data + b.len && *end && !strchr("?#", *end);)
		end++;
	while (p < end) {
		const char *slash = memchr(p, '/', (size_t)(end - p));
		size_t n = (size_t)((slash ? slash : end) - p), bare = bare_length(p, n);

		if (is_parent(p, n))
			cut_at_last(out, '/');
		if (bare) {
			buf_putc(out, '/');
			buf_add(out, p, bare);
		}
		p += n + 1;
	}
	p = out->len ? memrchr(out->data, '/', out->len) : NULL;
	end = p ? memchr(p, '.', (size_t)(out->data + out->len - p)) : NULL;
	if (end && end > p + 1)
		out->len = (size_t)(end - out->data);
}

enum token_path token_path(const char *endpoint, struct egress_text target)
{
	CLEANUP(buf) struct buf normal = BUF_INIT(PATH_MAX_LEN * 3 + 1);
	CLEANUP(buf) struct buf a = BUF_INIT(PATH_MAX_LEN + 2), b = BUF_INIT(PATH_MAX_LEN + 2);
	const struct egress_text path = path_of_target(target);

	if ((path.n == strlen(endpoint) && memcmp(path.p, endpoint, path.n) == 0) ||
	    (path_normalise(path, &normal) == PATH_OK && str_eq(buf_str(&normal), endpoint)))
		return TOKEN_PATH_SAME;
	read_loosely(path, &a);
	read_loosely(egress_text(endpoint, strlen(endpoint)), &b);
	if (a.failed || b.failed)
		return TOKEN_PATH_ODD;
	return a.len == b.len && memcmp(buf_str(&a), buf_str(&b), a.len) == 0 ? TOKEN_PATH_ODD
									      : TOKEN_PATH_OTHER;
}
