/* SPDX-License-Identifier: Apache-2.0 */
/* apps/toolset/tool_scripts.c - the scripts of a role as tools: under their own names, with their
 * parameters as arguments. The body is the role's; a model chooses values. */
#include <string.h>

#include "apps/toolset/tools_internal.h"
#include "base/text/str.h"

struct line_word {
	const char *p;
	size_t n;
};

/* What the first word of a line is, as far as that can be told without being a shell. */
static struct line_word first_word(const char *line, size_t n)
{
	size_t at = 0, len = 0;

	while (at < n && (line[at] == ' ' || line[at] == '\t'))
		at++;
	while (at + len < n && line[at + len] != ' ' && line[at + len] != '\t')
		len++;
	return (struct line_word){ line + at, len };
}

static bool is_allowed(const struct strlist *l, struct line_word w)
{
	for (size_t i = 0; i < l->n; i++)
		if (strlen(l->v[i]) == w.n && strncmp(l->v[i], w.p, w.n) == 0)
			return true;
	return false;
}

/* The role's own list against the role's own script: a slip is found before a model is. */
static int check_lines(const struct code_script *s, struct err *e)
{
	const char *line = s->body;

	while (s->allowed.n && *line) {
		size_t n = strcspn(line, "\n");
		struct line_word w = first_word(line, n);

		if (w.n && w.p[0] != '#' && !is_allowed(&s->allowed, w))
			return err_refuse(e, ERR_CONFIG, EPERM, "allowed_commands of that script",
					  "script '%.60s' begins a line with '%.*s', which its "
					  "allowed_commands do not list",
					  s->name, (int)(w.n < 60 ? w.n : 60), w.p);
		line += n + (line[n] == '\n');
	}
	return 0;
}

static const struct tool_arg *tool_scripts_arguments(struct arena *a, const struct code_script *s)
{
	struct tool_arg *v = arena_alloc(a, (s->parameter_count + 1) * sizeof(*v));

	for (size_t i = 0; v && i < s->parameter_count; i++)
		v[i] = (struct tool_arg){ .name = s->parameters[i].name,
					  .type = TOOL_TEXT,
					  .about = s->parameters[i].about,
					  .need = s->parameters[i].required };
	if (v)
		v[s->parameter_count] = (struct tool_arg){ 0 };
	return v;
}

int scripts_new(struct tools *t, struct err *e)
{
	const struct code_spec *c = &t->spec->command.code;
	const struct tool *like = tools_named(t, "run_script");

	t->scripts = arena_alloc(t->spec->arena, (c->script_count + 1) * sizeof(*t->scripts));
	if (!t->scripts)
		return err_nomem(e);
	for (size_t i = 0; i < c->script_count; i++) {
		const struct code_script *s = &c->scripts[i];
		const struct tool_arg *input = tool_scripts_arguments(t->spec->arena, s);

		if (tools_named(t, s->name))
			return err_refuse(e, ERR_CONFIG, EEXIST, "rename the script",
					  "there are two tools named '%.60s'", s->name);
		if (!input)
			return err_nomem(e);
		if (check_lines(s, e) < 0)
			return -e->code;
		t->scripts[i] = *like;
		t->scripts[i].name = t->scripts[i].title = s->name;
		t->scripts[i].about =
			s->about ? s->about
				 : "A script of the user's, which runs in a sandbox around the "
				   "workspace.";
		t->scripts[i].input = input;
		t->scripts[i].begin = run_role_script;
		t->scripts[i].script = s;
		t->script_count++;
	}
	return 0;
}
