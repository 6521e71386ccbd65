/* SPDX-License-Identifier: Apache-2.0 */
#include "model/known/tool_settings.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes/jread.h"
#include "base/bytes/json.h"
#include "base/text/cleanup.h"
#include "base/text/str.h"
#include "model/known/agent_files.h"

#define VALUE_MAX 128 /* bytes of a text; a taste is a word or two */

static const char *const of_claude[] = { "alwaysThinkingEnabled",
					 "cleanupPeriodDays",
					 "effortLevel",
					 "includeCoAuthoredBy",
					 "language",
					 "model",
					 "outputStyle",
					 "spinnerTipsEnabled",
					 "theme",
					 "verbose",
					 NULL };
/* The first saves the questions of a first start. */
static const char *const of_claude_state[] = { "hasCompletedOnboarding", "editorMode", "theme",
					       "verbose", NULL };
static const char *const of_codex[] = { "hide_agent_reasoning",
					"model",
					"model_reasoning_effort",
					"model_reasoning_summary",
					"model_verbosity",
					"personality",
					NULL };
static const char *const of_gemini[] = { "general.vimMode", "model.name", "ui.hideBanner",
					 "ui.hideTips",     "ui.theme",   NULL };
static const char *const logins_of_gemini[] = { "GEMINI_API_KEY", "gemini-api-key",
						"GOOGLE_CLOUD_ACCESS_TOKEN", "oauth-personal",
						NULL };
static const char *const of_opencode[] = { "model", "small_model", "theme", "username", NULL };
static const char *const of_aider[] = {
	"auto-commits", "code-theme", "dark-mode", "edit-format", "editor-model",
	"light-mode",   "map-tokens", "model",     "pretty",      "stream",
	"vim",          "weak-model", NULL
};

const struct tool_settings tool_settings[] = {
	{ "claude",
	  { { ".claude/settings.json", SETTINGS_JSON, of_claude, NULL, 0, NULL },
	    { ".claude.json", SETTINGS_JSON, of_claude_state, "ANTHROPIC_API_KEY", 20, NULL } } },
	{ "codex", { { ".codex/config.toml", SETTINGS_TOML, of_codex, NULL, 0, NULL } } },
	{ "gemini",
	  { { ".gemini/settings.json", SETTINGS_JSON, of_gemini, NULL, 0, logins_of_gemini } } },
	{ "opencode",
	  { { ".config/opencode/opencode.json", SETTINGS_JSON, of_opencode, NULL, 0, NULL } } },
	{ "aider", { { ".aider.conf.yml", SETTINGS_YAML, of_aider, NULL, 0, NULL } } },
	{ NULL, { { NULL, SETTINGS_JSON, NULL, NULL, 0, NULL } } },
};

const struct tool_settings *tool_settings_find(const char *name)
{
	for (const struct tool_settings *t = tool_settings; t->name; t++)
		if (str_eq(t->name, name))
			return t;
	return NULL;
}

bool tool_settings_in(const char *program, const char *folder)
{
	const struct tool_settings *t = tool_settings_find(program);
	size_t n = strlen(folder);

	return t && t->files[0].path && strncmp(t->files[0].path, folder, n) == 0 &&
	       t->files[0].path[n] == '/';
}

int tool_settings_get(const char *name, const struct tool_settings **ret, struct err *e)
{
	const struct tool_settings *t = tool_settings_find(name);

	if (!t)
		return err_refuse(e, ERR_CONFIG, EINVAL,
				  "brig knows those of " AGENTS_LISTED "and no others",
				  "home_seed: nothing is known about settings of '%.60s'", name);
	*ret = t;
	return 0;
}

/* --- JSON --- */

static bool is_taste(const struct jread *v)
{
	switch (jread_kind(v)) {
	case JREAD_BOOL:
	case JREAD_INT:
		return true;
	case JREAD_STRING:
		return strlen(jread_text(v)) <= VALUE_MAX && !str_has_control(jread_text(v));
	default:
		return false;
	}
}

static int tool_settings_put_value(struct json *j, const char *name, const struct jread *v)
{
	CLEANUP(mem) char *text = jread_dump(v);

	if (!text)
		return -ENOMEM;
	json_key(j, name);
	json_raw(j, text, strlen(text));
	return 0;
}

/* The names of one group stand together in its list; NULL: those without one. */
static int put_group(struct json *j, const struct jread *top, const char *const *names,
		     const char *group)
{
	size_t len = group ? strcspn(group, ".") : 0;
	char key[64] = "";
	bool begun = false;
	const struct jread *in = top;

	if (group) {
		(void)snprintf(key, sizeof(key), "%.*s", (int)len, group);
		in = jread_get(top, key);
	}
	for (; *names; names++) {
		const char *dot = strchr(*names, '.');
		bool mine = group ? dot && (size_t)(dot - *names) == len &&
					    strncmp(*names, group, len) == 0
				  : !dot;
		const char *name = dot ? dot + 1 : *names;
		const struct jread *v = mine ? jread_get(in, name) : NULL;

		if (!is_taste(v))
			continue;
		if (group && !begun) {
			json_kobject(j, key);
		}
		begun = true;
		if (tool_settings_put_value(j, name, v) < 0)
			return -ENOMEM;
	}
	if (group && begun)
		json_object_end(j);
	return begun;
}

/* As Claude Code writes it down. */
static void put_agreed(struct json *j, const struct settings_file *f, const char *placeholder)
{
	size_t n = strlen(placeholder);

	json_kobject(j, "customApiKeyResponses");
	json_karray(j, "approved");
	json_str(j, placeholder + (n > f->key_end ? n - f->key_end : 0));
	json_array_end(j);
	json_karray(j, "rejected");
	json_array_end(j);
	json_object_end(j);
}

/* As Gemini CLI does. */
static void put_login(struct json *j, const char *way)
{
	json_kobject(j, "security");
	json_kobject(j, "auth");
	json_kstr(j, "selectedType", way);
	json_object_end(j);
	json_object_end(j);
}

static int take_json(const struct settings_file *f, const char *text, size_t n, const char *answer,
		     struct buf *out)
{
	CLEANUP(jread) struct jread *v = NULL;
	struct err e;
	struct json j;
	int r, any;

	if (jread_parse(text, n, &v, &e) < 0 || jread_kind(v) != JREAD_OBJECT)
		return -EBADMSG;
	json_init(&j, out, false);
	json_object(&j);
	any = r = put_group(&j, v, f->names, NULL);
	for (size_t i = 0; r >= 0 && f->names[i]; i++) {
		size_t len = strcspn(f->names[i], ".");

		if (!f->names[i][len] || (i && strncmp(f->names[i], f->names[i - 1], len + 1) == 0))
			continue;
		r = put_group(&j, v, f->names, f->names[i]);
		any |= r > 0;
	}
	if (answer && f->logins)
		put_login(&j, answer);
	else if (answer)
		put_agreed(&j, f, answer);
	json_object_end(&j);
	buf_putc(out, '\n');
	if (r < 0 || out->failed)
		return -ENOMEM;
	if (!any && !answer)
		buf_done(out);
	return 0;
}

/* --- TOML and YAML: a name and one plain value in a line that begins with the name --- */

static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/@+-";

/* A word, in quotation marks or without; what is behind it on the line may be a comment. */
static size_t plain_value(const char *p)
{
	size_t quote = *p == '"', n = strspn(p + quote, plain), len = n + 2 * quote;
	const char *rest = p + len;

	if (!n || n > VALUE_MAX || (quote && p[n + 1] != '"'))
		return 0;
	rest += strspn(rest, " \t");
	return !*rest || *rest == '#' ? len : 0;
}

static void tool_settings_take_line(const struct settings_file *f, const char *line,
				    struct buf *out)
{
	char sign = f->form == SETTINGS_TOML ? '=' : ':';
	size_t key = strcspn(line, " \t=:");
	const char *p = line + key + strspn(line + key, " \t");
	size_t len;

	if (*p != sign)
		return;
	p += 1 + strspn(p + 1, " \t");
	len = plain_value(p);
	for (const char *const *name = f->names; len && *name; name++)
		if (strlen(*name) == key && strncmp(*name, line, key) == 0)
			buf_printf(out, "%s%s%.*s\n", *name, sign == '=' ? " = " : ": ", (int)len,
				   p);
}

/* Tables of TOML come after what stands alone; a text of several lines, in either form, could hold
 * lines that look like settings: nothing is taken from a file with one. */
static int tool_settings_take_lines(const struct settings_file *f, const char *text, size_t n,
				    struct buf *out)
{
	char line[512];

	if (memchr(text, 0, n))
		return -EBADMSG;
	for (size_t at = 0; at < n;) {
		const char *end = memchr(text + at, '\n', n - at);
		size_t len = end ? (size_t)(end - (text + at)) : n - at;

		(void)snprintf(line, sizeof(line), "%.*s", (int)(len < sizeof(line) ? len : 0),
			       text + at);
		if (len && line[len < sizeof(line) ? len - 1 : 0] == '\r')
			line[len - 1] = '\0';
		at += len + 1;
		if (f->form == SETTINGS_TOML && line[0] == '[')
			break;
		if (strstr(line, "\"\"\"") || strstr(line, "'''")) {
			buf_done(out);
			return -EBADMSG;
		}
		tool_settings_take_line(f, line, out);
	}
	return out->failed ? -ENOMEM : 0;
}

int tool_settings_take(const struct settings_file *f, const char *text, size_t n, struct buf *out)
{
	return f->form == SETTINGS_JSON ? take_json(f, text, n, NULL, out)
					: tool_settings_take_lines(f, text, n, out);
}

int tool_settings_answer(const struct settings_file *f, const char *text, size_t n,
			 const char *answer, struct buf *out)
{
	int r = take_json(f, text, n, answer, out);

	if (r != -EBADMSG)
		return r;
	buf_done(out); /* what is no such file gives nothing, and keeps nobody from an answer */
	return take_json(f, "{}", 2, answer, out);
}
