/* SPDX-License-Identifier: Apache-2.0 */
/* model/dialect/initrunner/initrunner_tools.c - the tools of a role that run commands: shell,
 * python and script.
 *
 * They are read and kept for the part of brig that serves tools. Other types belong to others and
 * are passed over. */
#include <string.h>

#include "base/text/num.h"
#include "base/text/str.h"
#include "model/dialect/initrunner/initrunner.h"

#define TOOLS_MAX 256
#define TIMEOUT_MAX 86400 /* seconds */
#define OUTPUT_MAX ((uint64_t)1 << 30)

static const struct role_bounds seconds = { 1, TIMEOUT_MAX }, characters = { 1, OUTPUT_MAX };

/* A number of the tool, or *ret as it was when there is none. */
int role_read_number(const struct role_reader *r, const struct node *map, const char *key,
		     const struct role_bounds *b, uint64_t *ret, struct err *e)
{
	const struct node *n = node_get(map, key);
	const char *text = NULL;
	uint64_t v;

	if (n && read_text(r->src, n, &text, e) < 0)
		return -e->code;
	if (!text)
		return 0;
	if (num_count(text, &v) < 0 || v < b->min || v > b->max)
		return node_error(r->src->name, n, e,
				  "%s '%.40s' is not a number from %llu to %llu", key, text,
				  (unsigned long long)b->min, (unsigned long long)b->max);
	*ret = v;
	return 0;
}

int role_read_flag(const struct role_reader *r, const struct node *map, const char *key, bool *ret,
		   struct err *e)
{
	const struct node *n = node_get(map, key);

	return n && n->kind != NODE_NULL ? node_bool(r->src->name, n, ret, e) : 0;
}

/* Text without control characters, kept in the spec's arena. */
int role_read_string(const struct role_reader *r, const struct node *map, const char *key,
		     const char **ret, struct err *e)
{
	const struct node *n = node_get(map, key);
	const char *text = NULL;

	if (n && read_text(r->src, n, &text, e) < 0)
		return -e->code;
	if (!text)
		return 0;
	if (!*text || str_has_control(text))
		return node_error(r->src->name, n, e, "%s: %s", key,
				  *text ? "a control character" : "it is empty");
	*ret = arena_strdup(r->s->arena, text);
	return *ret ? 0 : err_nomem(e);
}

int role_read_strings(const struct role_reader *r, const struct node *map, const char *key,
		      struct strlist *ret, struct err *e)
{
	const struct node *list = node_get(map, key);

	if (!list || list->kind == NODE_NULL)
		return 0;
	if (list->kind != NODE_LIST)
		return node_error(r->src->name, list, e, "%s: expected a list, not %s", key,
				  node_kind_name(list->kind));
	for (const struct node *n = list->first; n; n = n->next) {
		const char **slot;

		if (n->kind != NODE_SCALAR || !*n->text || str_has_control(n->text))
			return node_error(r->src->name, n, e,
					  "%s: expected texts without control characters", key);
		slot = ARENA_PUSH(r->s->arena, ret->v, ret->n);
		if (slot)
			*slot = arena_strdup(r->s->arena, n->text);
		if (!slot || !*slot)
			return err_nomem(e);
	}
	return 0;
}

static bool is_identifier(const char *s)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";

	return *s && !(*s >= '0' && *s <= '9') && s[strspn(s, letters)] == '\0';
}

static int initrunner_tools_read_name(const struct role_reader *r, const struct node *map,
				      const char **ret, struct err *e)
{
	const struct node *n = node_get(map, "name");

	if (map->kind != NODE_MAP || !n || n->kind != NODE_SCALAR || !is_identifier(n->text))
		return node_error(r->src->name, n ? n : map, e,
				  "name: expected letters, digits and '_'");
	*ret = arena_strdup(r->s->arena, n->text);
	return *ret ? 0 : err_nomem(e);
}

/* --- scripts --- */

/* For the model; lines and all. */
static int read_about(const struct role_reader *r, const struct node *map, const char **ret,
		      struct err *e)
{
	const struct node *n = node_get(map, "description");
	const char *text = NULL;

	if (n && read_text(r->src, n, &text, e) < 0)
		return -e->code;
	*ret = text && *text ? arena_strdup(r->s->arena, text) : NULL;
	return text && *text && !*ret ? err_nomem(e) : 0;
}

static int read_parameter(const struct role_reader *r, const struct node *map,
			  struct code_script *s, struct err *e)
{
	struct code_parameter p = { .fallback = "" }, *slot;
	const struct node *fallback = node_get(map, "default");
	const char *text = NULL;

	if (initrunner_tools_read_name(r, map, &p.name, e) < 0 ||
	    role_read_flag(r, map, "required", &p.required, e) < 0)
		return -e->code;
	if (fallback && read_text(r->src, fallback, &text, e) < 0)
		return -e->code;
	p.fallback = arena_strdup(r->s->arena, text ? text : "");
	if (!p.fallback)
		return err_nomem(e);
	slot = ARENA_PUSH(r->s->arena, s->parameters, s->parameter_count);
	if (!slot)
		return err_nomem(e);
	*slot = p;
	return 0;
}

static int read_body(const struct role_reader *r, const struct node *map, const char **ret,
		     struct err *e)
{
	const struct node *n = node_get(map, "body");

	if (!n || n->kind != NODE_SCALAR || !n->text[strspn(n->text, " \t\r\n")])
		return node_error(r->src->name, n ? n : map, e, "body: a script needs one");
	*ret = arena_strdup(r->s->arena, n->text);
	return *ret ? 0 : err_nomem(e);
}

static int read_script(const struct role_reader *r, const struct node *map, struct role_tool *t,
		       struct err *e)
{
	static const char *const keys[] = { "name",
					    "description",
					    "body",
					    "interpreter",
					    "parameters",
					    "timeout_seconds",
					    "allowed_commands",
					    NULL };
	const struct node *list = node_get(map, "parameters");
	struct code_script s = { 0 }, *slot;

	if (role_near_keys(r, map, keys, "scripts", e) < 0 ||
	    initrunner_tools_read_name(r, map, &s.name, e) < 0 ||
	    read_about(r, map, &s.about, e) < 0 || read_body(r, map, &s.body, e) < 0 ||
	    role_read_string(r, map, "interpreter", &s.interpreter, e) < 0 ||
	    role_read_number(r, map, "timeout_seconds", &seconds, &s.timeout, e) < 0 ||
	    role_read_strings(r, map, "allowed_commands", &s.allowed, e) < 0)
		return -e->code;
	s.timeout *= 1000;
	for (const struct node *n = list && list->kind == NODE_LIST ? list->first : NULL; n;
	     n = n->next)
		if (read_parameter(r, n, &s, e) < 0)
			return -e->code;
	for (size_t i = 0; i < t->script_count; i++)
		if (str_eq(t->scripts[i].name, s.name))
			return node_error(r->src->name, map, e, "two scripts named '%.60s'",
					  s.name);
	slot = ARENA_PUSH(r->s->arena, t->scripts, t->script_count);
	if (!slot)
		return err_nomem(e);
	*slot = s;
	return 0;
}

static int read_scripts(const struct role_reader *r, const struct node *map, struct role_tool *t,
			struct err *e)
{
	const struct node *list = node_get(map, "scripts");

	if (!list || list->kind != NODE_LIST || !list->count)
		return node_error(r->src->name, list ? list : map, e,
				  "scripts: a script tool needs a list of them");
	if (list->count > TOOLS_MAX)
		return node_error(r->src->name, list, e, "scripts: more than %d", TOOLS_MAX);
	for (const struct node *n = list->first; n; n = n->next)
		if (read_script(r, n, t, e) < 0)
			return -e->code;
	return 0;
}

/* --- tools --- */

static int read_working_dir(const struct role_reader *r, const struct node *map, const char **ret,
			    struct err *e)
{
	const struct node *n = node_get(map, "working_dir");

	return n && n->kind != NODE_NULL ? read_path(r->s, r->src, n, ret, e) : 0;
}

/* Its default is nobody's word; what is written must hold. */
static int read_offline(const struct role_reader *r, const struct node *map, struct role_tool *t,
			struct err *e)
{
	const struct node *n = node_get(map, "network_disabled");

	if (role_read_flag(r, map, "network_disabled", &t->network_disabled, e) < 0)
		return -e->code;
	if (!n || n->kind == NODE_NULL || !t->network_disabled || t->kind != ROLE_TOOL_PYTHON)
		return 0;
	t->offline = arena_printf(r->s->arena, "%s:%d:%d", r->src->name, n->line, n->column);
	return t->offline ? 0 : err_nomem(e);
}

static int read_tool(const struct role_reader *r, const struct node *map, enum role_tool_kind kind,
		     struct err *e)
{
	static const char *const keys[] = { "type",
					    "timeout_seconds",
					    "max_output_bytes",
					    "working_dir",
					    "interpreter",
					    "network_disabled",
					    "allowed_commands",
					    "blocked_commands",
					    "scripts",
					    "require_confirmation",
					    NULL };
	struct role_tool t = { .kind = kind, .timeout = 30, .output = 102400, .confirm = true },
			 *slot;

	t.interpreter = kind == ROLE_TOOL_SCRIPT ? "/bin/sh" : NULL;
	t.network_disabled = kind == ROLE_TOOL_PYTHON;
	t.default_blocked = kind == ROLE_TOOL_SHELL && !node_get(map, "blocked_commands");
	if (role_near_keys(r, map, keys, "tools", e) < 0 ||
	    role_read_number(r, map, "timeout_seconds", &seconds, &t.timeout, e) < 0 ||
	    role_read_number(r, map, "max_output_bytes", &characters, &t.output, e) < 0 ||
	    read_working_dir(r, map, &t.working_dir, e) < 0 ||
	    role_read_string(r, map, "interpreter", &t.interpreter, e) < 0 ||
	    read_offline(r, map, &t, e) < 0 ||
	    role_read_flag(r, map, "require_confirmation", &t.confirm, e) < 0 ||
	    role_read_strings(r, map, "allowed_commands", &t.allowed, e) < 0 ||
	    role_read_strings(r, map, "blocked_commands", &t.blocked, e) < 0)
		return -e->code;
	t.timeout *= 1000;
	t.confirm_written = t.confirm && node_get(map, "require_confirmation");
	if (kind == ROLE_TOOL_SCRIPT && read_scripts(r, map, &t, e) < 0)
		return -e->code;
	slot = ARENA_PUSH(r->s->arena, r->role->tools, r->role->tool_count);
	if (!slot)
		return err_nomem(e);
	*slot = t;
	return 0;
}

/* Kept for who would tell of it. */
static int pass_over(struct role_reader *r, const char *type, struct err *e)
{
	const char **slot;

	for (size_t i = 0; i < r->role->other.n; i++)
		if (str_eq(r->role->other.v[i], type))
			return 0;
	slot = ARENA_PUSH(r->s->arena, r->role->other.v, r->role->other.n);
	if (slot)
		*slot = arena_strdup(r->s->arena, type);
	return slot && *slot ? 0 : err_nomem(e);
}

int role_read_tools(struct role_reader *r, const struct node *tools, struct err *e)
{
	static const char *const kinds[] = { [ROLE_TOOL_SHELL] = "shell",
					     [ROLE_TOOL_PYTHON] = "python",
					     [ROLE_TOOL_SCRIPT] = "script" };

	if (!tools || tools->kind == NODE_NULL)
		return 0;
	if (tools->kind != NODE_LIST || tools->count > TOOLS_MAX)
		return node_error(r->src->name, tools, e, "tools: expected a list of at most %d",
				  TOOLS_MAX);
	for (const struct node *n = tools->first; n; n = n->next) {
		const struct node *type = node_get(n, "type");

		size_t i = 0;

		if (!type || type->kind != NODE_SCALAR)
			continue;
		while (i < ARRAY_LEN(kinds) && !str_eq(type->text, kinds[i]))
			i++;
		if ((i < ARRAY_LEN(kinds) ? read_tool(r, n, (enum role_tool_kind)i, e)
					  : pass_over(r, type->text, e)) < 0)
			return -e->code;
	}
	return 0;
}
