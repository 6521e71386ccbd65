/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/tool_login.h"

#include <errno.h>
#include <string.h>

#include "base/jread.h"
#include "base/json.h"
#include "base/str.h"

enum login_form {
	LOGIN_LINES, /* npmrc: where packages come from, and tokens for there */
	LOGIN_JSON,  /* an object, of which `members` enter; NULL: all */
	LOGIN_URLS,  /* git-credentials: a URL a line */
	LOGIN_NONE,  /* the tool has none, or only a cache */
};

static const char *const of_claude[] = { "claudeAiOauth", NULL };
static const char *const of_codex[] = { "OPENAI_API_KEY", "auth_mode", "last_refresh", "tokens",
					NULL };

static const struct tool {
	struct tool_login public; /* first */
	enum login_form form;
	const char *const *members;
} tools[] = {
	{ { "claude", ".claude/.credentials.json" }, LOGIN_JSON, of_claude },
	{ { "codex", ".codex/auth.json" }, LOGIN_JSON, of_codex },
	{ { "git", ".git-credentials" }, LOGIN_URLS, NULL },
	{ { "uv", NULL }, LOGIN_NONE, NULL },
	{ { "npm", ".npmrc" }, LOGIN_LINES, NULL },
	{ { "apt", NULL }, LOGIN_NONE, NULL },
	{ { "opencode", ".local/share/opencode/auth.json" }, LOGIN_JSON, NULL },
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

static int take_lines(char *text, bool (*wanted)(const char *line), struct buf *out)
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
		return take_lines(text, is_npm_login, out);
	case LOGIN_URLS:
		return take_lines(text, is_url, out);
	case LOGIN_NONE:
		break;
	}
	return 0;
}
