/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/monitor/tool_login.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes/jread.h"
#include "base/bytes/json.h"
#include "base/text/str.h"

enum login_form {
	LOGIN_LINES, /* npmrc: where packages come from, and tokens for there */
	LOGIN_JSON,  /* an object, of which `members` enter; NULL: all */
	LOGIN_URLS,  /* git-credentials: a URL a line */
	LOGIN_NONE,  /* the tool has none, or only a cache */
};

static const char *const of_claude[] = { "claudeAiOauth", NULL };
static const char *const of_codex[] = { "OPENAI_API_KEY", "auth_mode", "last_refresh", "tokens",
					NULL };

/* What a tool writes when its provider gives it new tokens for old ones. */
static const char *const claude_renews[] = { "accessToken", "refreshToken", "expiresAt", NULL };
static const char *const codex_renews[] = { "access_token", "refresh_token", "id_token",
					    "last_refresh", NULL };
static const char *const opencode_renews[] = { "access", "refresh", "expires", NULL };

/* What says whose login it is: renewing does not change it. */
static const char *const whose[] = { "account_id",       "accountId", "auth_mode",
				     "subscriptionType", "type",      NULL };

static const struct tool {
	struct tool_login public; /* first */
	enum login_form form;
	const char *const *members, *const *renews;
} tools[] = {
	{ { "claude", ".claude/.credentials.json" }, LOGIN_JSON, of_claude, claude_renews },
	{ { "codex", ".codex/auth.json" }, LOGIN_JSON, of_codex, codex_renews },
	{ { "git", ".git-credentials" }, LOGIN_URLS, NULL, NULL },
	{ { "uv", NULL }, LOGIN_NONE, NULL, NULL },
	{ { "npm", ".npmrc" }, LOGIN_LINES, NULL, NULL },
	{ { "apt", NULL }, LOGIN_NONE, NULL, NULL },
	{ { "opencode", ".local/share/opencode/auth.json" }, LOGIN_JSON, NULL, opencode_renews },
};

static bool is_among(const char *const *list, const char *word)
{
	for (; list && *list; list++)
		if (str_eq(*list, word))
			return true;
	return !list;
}

static int take_members(const char *text, size_t n, const char *const *members, struct buf *out)
{
	CLEANUP(jread) struct jread *v = NULL;
	struct err e;
	struct json j;

	if (jread_parse(text, n, &v, &e) < 0 || jread_kind(v) != JREAD_OBJECT)
		return -EBADMSG;
	json_init(&j, out, false);
	json_object(&j);
	for (void *it = jread_first(v); it; it = jread_next(v, it)) {
		CLEANUP(mem) char *value = NULL;

		if (!is_among(members, jread_key(it)))
			continue;
		value = jread_dump(jread_value(it));
		if (!value)
			return -ENOMEM;
		json_key(&j, jread_key(it));
		json_raw(&j, value, strlen(value));
	}
	json_object_end(&j);
	return out->failed ? -ENOMEM : 0;
}

/* "registry=...", "@scope:registry=...", "//host/:_authToken=..." and their kind. npm would put
 * variables of its own into "${...}". */
static bool is_npm_login(const char *line)
{
	static const char *const ends[] = { "registry",  ":_authToken", ":_auth",
					    ":username", ":_password",  ":email" };
	size_t key = strcspn(line, "= \t");

	if (strstr(line, "${") || !(line[0] == '@' || str_starts(line, "//") ||
				    (key == 8 && str_starts(line, "registry"))))
		return false;
	for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
		size_t n = strlen(ends[i]);

		if (key >= n && strncmp(line + key - n, ends[i], n) == 0)
			return true;
	}
	return false;
}

static bool is_url(const char *line)
{
	return str_starts(line, "https://") || str_starts(line, "http://");
}

static int tool_login_take_lines(char *text, bool (*wanted)(const char *line), struct buf *out)
{
	char *line;

	while ((line = strsep(&text, "\n")))
		if (wanted(line))
			buf_printf(out, "%s\n", line);
	return out->failed ? -ENOMEM : 0;
}

const struct tool_login *tool_login_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(tools); i++)
		if (str_eq(tools[i].public.name, name))
			return &tools[i].public;
	return NULL;
}

int tool_login_take(const struct tool_login *t, char *text, size_t n, struct buf *out)
{
	const struct tool *tool = (const struct tool *)t;

	switch (tool->form) {
	case LOGIN_JSON:
		return take_members(text, n, tool->members, out);
	case LOGIN_LINES:
		return tool_login_take_lines(text, is_npm_login, out);
	case LOGIN_URLS:
		return tool_login_take_lines(text, is_url, out);
	case LOGIN_NONE:
		break;
	}
	return 0;
}

/* ---- what comes back ---- */

#define TOKEN_MAX 16384
#define DEPTH_MAX 8

/* No blank, quote or backslash: no shell, path with blanks or option can be made of it. */
static bool tool_login_is_token(const char *s)
{
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
			     "._~+/=:|-");

	return n > 0 && n <= TOKEN_MAX && !s[n];
}

static bool is_renewed(const struct jread *host, const struct jread *inside)
{
	if (jread_kind(host) != jread_kind(inside))
		return false;
	return jread_kind(host) == JREAD_INT ||
	       (jread_kind(host) == JREAD_STRING && tool_login_is_token(jread_text(inside)));
}

static bool tool_login_is_same(const struct jread *a, const struct jread *b)
{
	CLEANUP(mem) char *x = jread_dump(a), *y = jread_dump(b);

	return x && y && str_eq(x, y);
}

static int tool_login_put(struct json *j, const struct jread *v)
{
	CLEANUP(mem) char *text = jread_dump(v);

	if (!text)
		return -ENOMEM;
	json_raw(j, text, strlen(text));
	return 0;
}

static int renew(const struct tool *t, const struct jread *host, const struct jread *inside,
		 int depth, struct json *j);

static int renew_member(const struct tool *t, void *it, const struct jread *inside, int depth,
			struct json *j)
{
	const char *key = jread_key(it);
	const struct jread *was = jread_value(it), *now = jread_get(inside, key);

	json_key(j, key);
	if (is_among(whose, key) && now && !tool_login_is_same(was, now))
		return -EPERM;
	if (depth == 0 && !is_among(t->members, key))
		return tool_login_put(j, was);
	if (jread_kind(was) == JREAD_OBJECT && jread_kind(now) == JREAD_OBJECT)
		return renew(t, was, now, depth + 1, j);
	return tool_login_put(j, is_among(t->renews, key) && is_renewed(was, now) ? now : was);
}

static int renew(const struct tool *t, const struct jread *host, const struct jread *inside,
		 int depth, struct json *j)
{
	int r = depth > DEPTH_MAX ? -EBADMSG : 0;

	json_object(j);
	for (void *it = jread_first(host); r == 0 && it; it = jread_next(host, it))
		r = renew_member(t, it, inside, depth, j);
	json_object_end(j);
	return r;
}

bool tool_login_renews(const struct tool_login *t)
{
	return ((const struct tool *)t)->renews != NULL;
}

int tool_login_renew(const struct tool_login *t, const char *host, size_t n, const char *inside,
		     size_t m, struct buf *out)
{
	const struct tool *tool = (const struct tool *)t;
	CLEANUP(jread) struct jread *was = NULL, *now = NULL;
	CLEANUP(mem) char *before = NULL;
	struct json j;
	struct err e;
	int r;

	if (!tool->renews || jread_parse(host, n, &was, &e) < 0 ||
	    jread_parse(inside, m, &now, &e) < 0 || jread_kind(was) != JREAD_OBJECT ||
	    jread_kind(now) != JREAD_OBJECT)
		return -EBADMSG;
	json_init(&j, out, false);
	r = renew(tool, was, was, 0, &j);
	before = r == 0 && !out->failed ? strdup(buf_str(out)) : NULL;
	out->len = 0;
	json_init(&j, out, false);
	if (r == 0)
		r = renew(tool, was, now, 0, &j);
	if (r < 0)
		return r;
	return !before || out->failed ? -ENOMEM : !str_eq(before, buf_str(out));
}
