/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/rules/path.h"

#include <assert.h>
#include <string.h>

#include "base/bytes/hex.h"
#include "base/text/str.h"

static const char *const faults[] = {
	[PATH_OK] = "is a path",
	[PATH_NOT_ABSOLUTE] = "does not begin with '/'",
	[PATH_TOO_LONG] = "is longer than 8192 bytes",
	[PATH_BAD_BYTE] = "has a byte that no path has",
	[PATH_BAD_ESCAPE] = "has a broken escape",
	[PATH_AMBIGUOUS] = "can be read in two ways",
};
static_assert(sizeof(faults) / sizeof(*faults) == PATH_FAULTS, "a text for every fault");

const char *path_fault_text(enum path_fault f)
{
	return faults[f];
}

struct egress_text path_of_target(struct egress_text target)
{
	const char *q = target.n ? memchr(target.p, '?', target.n) : NULL;

	return egress_text(target.p, q ? (size_t)(q - target.p) : target.n);
}

/* What may stand in a target: printable ASCII without blank and fragment. A '"' or '<' is sloppy
 * but nobody reads it in two ways. */
static bool target_byte(char c)
{
	return c > 0x20 && c < 0x7f && c != '#';
}

enum path_fault path_check_target(struct egress_text t)
{
	if (!t.n || (t.p[0] != '/' && !(t.n == 1 && t.p[0] == '*')))
		return PATH_NOT_ABSOLUTE;
	if (t.n > PATH_MAX_LEN)
		return PATH_TOO_LONG;
	for (size_t i = 0; i < t.n; i++)
		if (!target_byte(t.p[i]))
			return PATH_BAD_BYTE;
	return PATH_OK;
}

static bool unreserved(char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
	       (c && strchr("-._~", c));
}

/* One escape. What hides a separator, another escape or a control is refused. */
static enum path_fault add_escape(const char *p, size_t left, struct buf *out)
{
	int high = left > 2 ? hex_nibble(p[1]) : -1, low = left > 2 ? hex_nibble(p[2]) : -1, v;

	if (high < 0 || low < 0)
		return PATH_BAD_ESCAPE;
	v = high * 16 + low;
	if (v < 0x20 || v == 0x7f || strchr("/\\%;?#", v))
		return PATH_AMBIGUOUS;
	if (unreserved((char)v))
		buf_putc(out, (char)v);
	else
		buf_printf(out, "%%%02X", v);
	return PATH_OK;
}

/* Dots there, or blanks: a server on Windows drops them, and nobody else does. */
static bool ends_in_nothing(const char *segment, size_t n)
{
	return n && (segment[n - 1] == '.' || (n >= 3 && memcmp(segment + n - 3, "%20", 3) == 0));
}

static bool has_odd_segment(const char *path)
{
	for (const char *p = path + 1;; p += strcspn(p, "/") + 1) {
		size_t n = strcspn(p, "/");

		if (ends_in_nothing(p, n)) /* or means the folder itself, or the one above */
			return true;
		if (!p[n])
			return false;
		if (!n)
			return true; /* "//": some servers drop it, some do not */
	}
}

enum path_fault path_normalise(struct egress_text path, struct buf *out)
{
	enum path_fault f = path_check_target(path);

	if (f != PATH_OK)
		return f;
	if (path.p[0] != '/')
		return PATH_NOT_ABSOLUTE;
	for (size_t i = 0; i < path.n; i++) {
		char c = path.p[i];

		if (c == '\\' || c == ';' || c == '?')
			return PATH_AMBIGUOUS;
		if (c != '%') {
			buf_putc(out, c);
			continue;
		}
		f = add_escape(path.p + i, path.n - i, out);
		if (f != PATH_OK)
			return f;
		i += 2;
	}
	if (out->failed)
		return PATH_TOO_LONG;
	return has_odd_segment(buf_str(out)) ? PATH_AMBIGUOUS : PATH_OK;
}

bool path_below(const char *path, const char *prefix, bool any_case)
{
	size_t n = strlen(prefix);

	if (any_case ? !str_starts_nocase(path, prefix) : !str_starts(path, prefix))
		return false;
	return (n && prefix[n - 1] == '/') || !path[n] || path[n] == '/';
}
