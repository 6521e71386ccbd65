/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/packages/shipped.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes/hex.h"
#include "base/bytes/md5.h"
#include "base/text/str.h"

#define SUM (MD5_HEX - 1)
#define LONG_SUM (SHA256_HEX - 1)

struct shipped_line {
	const char *at;
	size_t n;
};

static bool shipped_next_line(const char **text, size_t *n, struct shipped_line *ret)
{
	const char *end;

	if (!*n)
		return false;
	end = memchr(*text, '\n', *n);
	*ret = (struct shipped_line){ *text, end ? (size_t)(end - *text) : *n };
	*text += ret->n + !!end;
	*n -= ret->n + !!end;
	return true;
}

static bool shipped_begins(const struct shipped_line *l, const char *with)
{
	return l->n >= strlen(with) && memcmp(l->at, with, strlen(with)) == 0;
}

static bool is_sum(const char *at, size_t n)
{
	unsigned char sum[LONG_SUM / 2];

	return hex_decode(at, sum, n / 2) == 0;
}

/* Below one of the two, and without a name that means another folder. */
static bool is_path(const char *path)
{
	if (strlen(path) >= PATH_MAX || str_has_control(path) ||
	    !(str_starts(path, "/etc/") || str_starts(path, "/var/lib/")))
		return false;
	for (const char *name = path; name; name = strchr(name, '/')) {
		size_t n = strcspn(++name, "/");

		if (n == 0 || n > NAME_MAX || (n <= 2 && strspn(name, ".") >= n))
			return false;
	}
	return true;
}

/* `n` digits, whatever follows them. */
static int shipped_add(struct shipped *s, const char *package, const char *path, const char *sum,
		       size_t n)
{
	struct shipped_file *f;

	if (!path)
		return -ENOMEM;
	if (!*path || !is_path(path) || !is_sum(sum, n))
		return 0;
	f = ARENA_PUSH(s->arena, s->v, s->n);
	if (!f)
		return -ENOMEM;
	*f = (struct shipped_file){ .path = path, .package = package };
	memcpy(f->sum, sum, n);
	return 0;
}

/* " /etc/x/y 0123...": a path may have blanks in it, and "obsolete" may follow. */
static int conffile(struct shipped *s, const char *package, const struct shipped_line *l)
{
	const char *sum = NULL;

	for (size_t i = 1; i + SUM < l->n; i++)
		if (l->at[i] == ' ' && (i + 1 + SUM == l->n || l->at[i + 1 + SUM] == ' ') &&
		    is_sum(l->at + i + 1, SUM))
			sum = l->at + i + 1;
	return sum ? shipped_add(s, package,
				 arena_strndup(s->arena, l->at + 1, (size_t)(sum - l->at) - 2), sum,
				 SUM)
		   : 0;
}

int shipped_status(struct shipped *s, const char *text, size_t n)
{
	bool installed = false, inside = false;
	const char *package = "";
	struct shipped_line l;
	int r = 0;

	while (r == 0 && shipped_next_line(&text, &n, &l)) {
		if (inside && l.n && l.at[0] == ' ') {
			r = installed ? conffile(s, package, &l) : 0;
			continue;
		}
		inside = shipped_begins(&l, "Conffiles:");
		if (shipped_begins(&l, "Package: ")) {
			installed = false;
			package = arena_strndup(s->arena, l.at + 9, l.n - 9);
			r = package ? 0 : -ENOMEM;
		} else if (shipped_begins(&l, "Status: ")) {
			installed = l.n > 10 && memcmp(l.at + l.n - 10, " installed", 10) == 0;
		}
	}
	return r;
}

/* "PACKAGE /path", a line each. */
static const char *owner_of(struct shipped *s, const char *registry, const char *path)
{
	size_t n = strlen(path);

	for (const char *at = registry; (at = strstr(at, path)); at += n) {
		const char *end = at;

		if ((at[n] != '\n' && at[n]) || at == registry)
			continue;
		while (end > registry && (end[-1] == ' ' || end[-1] == '\t'))
			end--;
		at = end;
		while (at > registry && at[-1] != '\n')
			at--;
		return arena_strndup(s->arena, at, (size_t)(end - at));
	}
	return "ucf";
}

int shipped_ucf(struct shipped *s, const char *registry, const char *text, size_t n)
{
	struct shipped_line l;
	int r = 0;

	while (r == 0 && shipped_next_line(&text, &n, &l)) {
		struct shipped_line path = { l.at + SUM + 2, l.n > SUM + 2 ? l.n - SUM - 2 : 0 };
		const char *copy, *package;

		if (!shipped_begins(&path, "/"))
			continue;
		copy = arena_strndup(s->arena, path.at, path.n);
		package = copy && *copy ? owner_of(s, registry, copy) : NULL;
		r = package ? shipped_add(s, package, copy, l.at, SUM) : -ENOMEM;
	}
	return r;
}

/* Nearly all files are elsewhere: no text is kept of those. */
static bool may_be_shown(const char *path, size_t n)
{
	return (n > 5 && memcmp(path, "/etc/", 5) == 0) ||
	       (n > 9 && memcmp(path, "/var/lib/", 9) == 0);
}

/* Whose it is, as the line before or anew. */
static const char *package_of(const struct shipped *s, const struct shipped_line *l, size_t n)
{
	const char *last = s->n ? s->v[s->n - 1].package : "";

	return n && strlen(last) == n && memcmp(last, l->at, n) == 0
		       ? last
		       : arena_strndup(s->arena, l->at, n);
}

/* Folders, links and files that need not be there have no sum; the sums of other kinds are of no
 * use here. */
static int shipped_rpm_file(struct shipped *s, const struct shipped_line *l)
{
	const char *sum = memchr(l->at, '\t', l->n), *end = l->at + l->n, *tab;
	const char *package;

	tab = sum ? memchr(sum + 1, '\t', (size_t)(end - sum) - 1) : NULL;
	if (!tab || (tab - ++sum != SUM && tab - sum != LONG_SUM) ||
	    memchr(tab, '\0', (size_t)(end - tab)) || memchr(l->at, '\0', (size_t)(sum - l->at)) ||
	    !may_be_shown(tab + 1, (size_t)(end - tab) - 1))
		return 0;
	package = package_of(s, l, (size_t)(sum - 1 - l->at));
	if (!package)
		return -ENOMEM;
	return str_has_control(package)
		       ? 0
		       : shipped_add(s, package,
				     arena_strndup(s->arena, tab + 1, (size_t)(end - tab) - 1), sum,
				     (size_t)(tab - sum));
}

int shipped_rpm(struct shipped *s, const char *text, size_t n)
{
	struct shipped_line l;
	int r = 0;

	while (r == 0 && shipped_next_line(&text, &n, &l))
		r = shipped_rpm_file(s, &l);
	return r;
}

static int shipped_by_path(const void *a, const void *b)
{
	return strcmp(((const struct shipped_file *)a)->path,
		      ((const struct shipped_file *)b)->path);
}

void shipped_sort(struct shipped *s)
{
	if (s->n)
		qsort(s->v, s->n, sizeof(*s->v), shipped_by_path);
}
