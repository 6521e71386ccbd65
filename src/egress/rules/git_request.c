/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/rules/git_request.h"

#include <string.h>
#include <strings.h>

#include "base/bytes/hex.h"
#include "base/text/buf.h"
#include "base/text/str.h"
#include "egress/rules/path.h"

#define REFS "/info/refs"
#define FETCHES "/git-upload-pack"
#define PUSHES "/git-receive-pack"
#define RECEIVE "git-receive-pack"
#define DECODINGS 3 /* a proxy in front of the server may undo one more */

static bool method_is(struct egress_text m, const char *word)
{
	return m.n == strlen(word) && memcmp(m.p, word, m.n) == 0;
}

static bool one_of(struct egress_text m, const char *const *words)
{
	for (; *words; words++)
		if (method_is(m, *words))
			return true;
	return false;
}

/* --- what git sends --- */

static bool ends_at(const char *path, const char *end, size_t *repo)
{
	size_t n = strlen(path), k = strlen(end);

	if (n < k || strcmp(path + n - k, end) != 0)
		return false;
	*repo = n - k;
	return true;
}

static size_t without_git(const char *path, size_t n)
{
	return n > 4 && memcmp(path + n - 4, ".git", 4) == 0 ? n - 4 : n;
}

static enum git_use read_use(struct egress_text method, const char *path, const char *query,
			     size_t *repo)
{
	const char *lfs = strstr(path, "/info/lfs/");

	if (!lfs)
		lfs = strstr(path, "/gitlab-lfs/");
	if (lfs) {
		*repo = (size_t)(lfs - path);
		return GIT_USE_PUSH;
	}
	if (method_is(method, "GET") && query && ends_at(path, REFS, repo))
		return str_eq(query, "service=git-upload-pack")    ? GIT_USE_FETCH
		       : str_eq(query, "service=git-receive-pack") ? GIT_USE_PUSH
								   : GIT_USE_NONE;
	if (!method_is(method, "POST") || query)
		return GIT_USE_NONE;
	return ends_at(path, FETCHES, repo)  ? GIT_USE_FETCH
	       : ends_at(path, PUSHES, repo) ? GIT_USE_PUSH
					     : GIT_USE_NONE;
}

/* --- what might be taken for a push --- */

static bool is_sign(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* A part of the path of that name; some servers drop dots and blanks at its end. */
static bool has_part(const char *path, const char *name)
{
	size_t n = strlen(name);

	for (const char *p = strchr(path, '/'); p; p = strchr(p + 1, '/')) {
		const char *q = p + 1 + n;

		if (strncasecmp(p + 1, name, n) != 0)
			continue;
		while (*q && *q != '/' && !is_sign(*q))
			q += *q == '%' && q[1] && q[2] ? 3 : 1;
		if (!*q || *q == '/')
			return true;
	}
	return false;
}

/* In place; true: there was an escape. */
static bool git_request_decode(char *text)
{
	char *out = text;
	bool any = false;

	for (const char *p = text; *p; out++) {
		int high = *p == '%' ? hex_nibble(p[1]) : -1,
		    low = high >= 0 ? hex_nibble(p[2]) : -1;

		/* A NUL ends a name to some and not to others. */
		if (low < 0 || !(high | low)) {
			*out = *p++;
			continue;
		}
		*out = (char)(high * 16 + low);
		p += 3;
		any = true;
	}
	*out = '\0';
	return any;
}

static bool query_receives(const char *query)
{
	CLEANUP(buf) struct buf b = BUF_INIT(PATH_MAX_LEN + 1);

	if (!query)
		return false;
	buf_puts(&b, query);
	if (b.failed)
		return true;
	for (int i = 0; b.len; i++) {
		if (strcasestr(b.data, RECEIVE))
			return true;
		if (i == DECODINGS)
			return strchr(b.data, '%') && strcasestr(b.data, "service");
		if (!git_request_decode(b.data))
			return false;
	}
	return false;
}

static bool by_webdav(struct egress_text method, const char *path)
{
	static const char *const always[] = { "COPY",      "LOCK",   "MKCOL", "MOVE",
					      "PROPPATCH", "UNLOCK", NULL };
	static const char *const reads[] = { "GET",      "HEAD",   "OPTIONS", "POST",
					     "PROPFIND", "REPORT", NULL };

	if (one_of(method, always))
		return true;
	return !one_of(method, reads) &&
	       (has_part(path, "objects") || has_part(path, "refs") || has_part(path, "info") ||
		has_part(path, "HEAD") || has_part(path, "packed-refs"));
}

void git_request_read(struct egress_text method, const char *path, struct egress_text target,
		      struct git_request *ret)
{
	CLEANUP(buf) struct buf b = BUF_INIT(PATH_MAX_LEN + 1);
	size_t n = path_of_target(target).n;
	const char *query = NULL;

	*ret = (struct git_request){ .repo = 0 };
	if (n < target.n) {
		buf_add(&b, target.p + n + 1, target.n - n - 1);
		query = b.failed ? RECEIVE : buf_str(&b);
	}
	ret->use = read_use(method, path, query, &ret->repo);
	ret->repo = without_git(path, ret->repo);
	ret->receives = has_part(path, RECEIVE) || query_receives(query);
	ret->writes = ret->receives || strcasestr(path, "/info/lfs") ||
		      has_part(path, "gitlab-lfs") || by_webdav(method, path);
	/* One cannot be both: `use` is exact, and then nothing else is said. */
	if (ret->use == GIT_USE_FETCH && ret->writes)
		ret->use = GIT_USE_NONE;
}

bool git_repo_is(const char *path, size_t repo, const char *rule)
{
	size_t n = rule ? strlen(rule) : 0;

	if (!rule)
		return true;
	if (rule[n - 1] == '/')
		return repo > n && memcmp(path, rule, n) == 0;
	return repo == n && memcmp(path, rule, n) == 0;
}

bool git_repo_covers(const char *path, const char *rule)
{
	size_t n = rule ? strlen(rule) : 0;
	const char *rest = path + n;

	if (!rule)
		return true;
	if (!str_starts_nocase(path, rule))
		return false;
	if (rule[n - 1] == '/')
		return true;
	if (str_starts_nocase(rest, ".git"))
		rest += 4;
	return !*rest || *rest == '/';
}
