/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/apps/wrap_list.h"

#include <stdio.h>
#include <string.h>

#include "apps/wrap/wrap_agents.h"
#include "apps/wrap/wrap_line.h"
#include "apps/wrap/wrap_program.h"
#include "base/bytes/json.h"
#include "base/text/buf.h"
#include "base/text/str.h"
#include "cli/cli.h"
#include "model/dialect/credentials.h"
#include "model/known/tool_settings.h"

#define LIST_MAX ((size_t)1 << 20)
#define COLUMN 12 /* of what a line is about */

/* --- as text --- */

static void wrap_list_put_head(struct buf *b, const char *what)
{
	buf_printf(b, "  %-*s", COLUMN - 2, what);
}

static void put_program(struct buf *b, const struct wrap_agent *a)
{
	struct wrap_program p;

	wrap_list_put_head(b, "program");
	if (wrap_program_find(a->name, &p) == 0)
		buf_printf(b, "%s\n", p.path);
	else
		buf_printf(b, "'%s' is not in your PATH: %s\n", a->name, a->install);
}

/* The caller's own entry of that name, else brig's, which is put into *known; NULL: neither. */
static const struct credential_spec *key_of(struct arena *arena, const struct spec *s,
					    const char *name, struct credential_spec *known)
{
	const struct credential_spec *c = credential_find(&s->credentials, name);

	return c ? c : credential_known(arena, name, known) ? known : NULL;
}

static void put_keys(struct buf *b, struct arena *arena, const struct spec *s,
		     const struct wrap_agent *a)
{
	for (size_t i = 0; a->credentials[i]; i++) {
		struct credential_spec known;
		const struct credential_spec *c = key_of(arena, s, a->credentials[i], &known);

		wrap_list_put_head(b, i ? "" : "key");
		buf_printf(b, "%s%s%s, for %s%s alone\n", i && !a->each ? "else " : "",
			   a->credentials[i],
			   wrap_has_credential(s, a->credentials[i]) ? "" : " (not set)",
			   c && c->hosts.n ? c->hosts.v[0] : "?",
			   c && c->paths.n ? c->paths.v[0] : "");
	}
}

static void wrap_list_put_words(struct buf *b, const char *what, const struct wrap_word *w)
{
	for (const char *head = what; w->text; head = "") {
		const char *why = w->why;

		wrap_list_put_head(b, head);
		const char *with = w->with;

		for (const char *gap = ""; w->text && str_eq(w->why, why) && w->with == with;
		     w++, gap = " ")
			buf_printf(b, "%s%s", gap, w->text);
		buf_printf(b, "%s%s: %s\n", with ? " with " : "", with ? with : "", why);
	}
}

/* What brig writes there besides, and your settings do not have. */
static void put_answer(struct buf *b, const struct settings_file *f)
{
	if (!f->logins && !f->key)
		return;
	wrap_list_put_head(b, "");
	buf_printf(b, "and by brig, in a HOME that is new: %s\n",
		   f->logins ? "security.auth.selectedType: it logs in with the key, without asking"
			     : "customApiKeyResponses: it uses the key, without asking");
}

static void put_settings(struct buf *b, const struct wrap_agent *a)
{
	const struct tool_settings *t = tool_settings_find(a->seed);

	for (size_t i = 0; t && i < 2 && t->files[i].path; i++) {
		wrap_list_put_head(b, i ? "" : "settings");
		buf_printf(b, "of ~/%s:", t->files[i].path);
		for (const char *const *n = t->files[i].names; *n; n++)
			buf_printf(b, " %s", *n);
		buf_putc(b, '\n');
		put_answer(b, &t->files[i]);
	}
}

static void put_agent(struct buf *b, struct arena *arena, const struct spec *s,
		      const struct wrap_agent *a)
{
	buf_printf(b, "%s (%s)\n", a->name, a->title);
	put_program(b, a);
	put_keys(b, arena, s, a);
	for (size_t i = 0; a->hosts && a->hosts[i]; i++) {
		wrap_list_put_head(b, i ? "" : "hosts");
		buf_printf(b, "%s\n", a->hosts[i]);
	}
	wrap_list_put_words(b, "variables", a->variables);
	if (a->hides_git) {
		wrap_list_put_head(b, "");
		buf_puts(b, "GIT_AUTHOR_NAME and its kin: its shell hides your git settings\n");
	}
	wrap_list_put_words(b, "arguments", a->arguments);
	put_settings(b, a);
	if (a->remark) {
		wrap_list_put_head(b, "remark");
		buf_printf(b, "%s\n", a->remark);
	}
	buf_putc(b, '\n');
}

/* --- as JSON --- */

static void json_words(struct json *j, const char *key, const struct wrap_word *w)
{
	json_karray(j, key);
	for (; w->text; w++) {
		json_object(j);
		json_kstr(j, "text", w->text);
		json_kstr(j, "why", w->why);
		if (w->with)
			json_kstr(j, "with", w->with);
		if (w->without)
			json_kstr(j, "without", w->without);
		json_object_end(j);
	}
	json_array_end(j);
}

static void json_keys(struct json *j, struct arena *arena, const struct spec *s,
		      const struct wrap_agent *a)
{
	json_karray(j, "credentials");
	for (size_t i = 0; a->credentials[i]; i++) {
		struct credential_spec known;
		const struct credential_spec *c = key_of(arena, s, a->credentials[i], &known);

		json_object(j);
		json_kstr(j, "name", a->credentials[i]);
		json_kbool(j, "set", wrap_has_credential(s, a->credentials[i]));
		json_karray(j, "hosts");
		for (size_t k = 0; c && k < c->hosts.n; k++)
			json_str(j, c->hosts.v[k]);
		json_array_end(j);
		json_object_end(j);
	}
	json_array_end(j);
}

static void json_settings(struct json *j, const struct wrap_agent *a)
{
	const struct tool_settings *t = tool_settings_find(a->seed);

	json_karray(j, "settings");
	for (size_t i = 0; t && i < 2 && t->files[i].path; i++) {
		json_object(j);
		json_kstr(j, "file", t->files[i].path);
		json_karray(j, "names");
		for (const char *const *n = t->files[i].names; *n; n++)
			json_str(j, *n);
		json_array_end(j);
		json_object_end(j);
	}
	json_array_end(j);
}

static void json_agent(struct json *j, struct arena *arena, const struct spec *s,
		       const struct wrap_agent *a)
{
	struct wrap_program p;
	bool found = wrap_program_find(a->name, &p) == 0;

	json_object(j);
	json_kstr(j, "name", a->name);
	json_kstr(j, "title", a->title);
	json_kstr(j, "program", found ? p.path : NULL);
	json_kstr(j, "shown", found && p.show[0] ? p.show : NULL);
	json_kstr(j, "install", a->install);
	json_keys(j, arena, s, a);
	json_kbool(j, "every_credential", a->each);
	json_karray(j, "hosts");
	for (size_t i = 0; a->hosts && a->hosts[i]; i++)
		json_str(j, a->hosts[i]);
	json_array_end(j);
	json_words(j, "variables", a->variables);
	json_words(j, "arguments", a->arguments);
	json_settings(j, a);
	json_object_end(j);
}

void wrap_list_print(const struct spec *s, bool json)
{
	CLEANUP(arena) struct arena *arena = arena_new((size_t)1 << 20);
	CLEANUP(buf) struct buf b = BUF_INIT(LIST_MAX);
	struct json j;

	json_init(&j, &b, true);
	if (json) {
		json_object(&j);
		json_ku64(&j, "schema", 1);
		json_karray(&j, "agents");
	}
	for (const struct wrap_agent *a = wrap_agents; arena && a->name; a++)
		if (json)
			json_agent(&j, arena, s, a);
		else
			put_agent(&b, arena, s, a);
	if (json) {
		json_array_end(&j);
		json_object_end(&j);
		buf_putc(&b, '\n');
	} else {
		buf_puts(&b,
			 "each: your terminal, no time limit, a HOME of its own that is kept for "
			 "the project,\nthe toolchains below your HOME, and no other hosts than "
			 "these\n");
	}
	(void)fputs(buf_str(&b), stdout);
}
