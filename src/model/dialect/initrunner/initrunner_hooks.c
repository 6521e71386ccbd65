/* SPDX-License-Identifier: Apache-2.0 */
/* model/dialect/initrunner/initrunner_hooks.c - security.tools: the audit hook inside Python, off
 * unless it is switched on. Its other keys belong to others, and are passed over. */
#include "base/text/str.h"
#include "model/dialect/initrunner/initrunner.h"

/* Threads begin without what a hook of the page's authors knows of its caller: always blocked. */
static const char *const always[] = { "threading", "_thread" };

static int initrunner_hooks_add(struct role_reader *r, struct strlist *l, const char *name,
				struct err *e)
{
	const char **slot = ARENA_PUSH(r->s->arena, l->v, l->n);

	if (!slot)
		return err_nomem(e);
	*slot = name;
	return 0;
}

static int read_modules(struct role_reader *r, const struct node *tools, struct strlist *ret,
			struct err *e)
{
	static const char *const usual[] = { "os",     "subprocess", "shutil",      "sys",
					     "ctypes", "importlib",  "http.server", "socket",
					     "pickle", "shelve",     "marshal",     "code",
					     "codeop" };
	const struct node *n = node_get(tools, "blocked_custom_modules");

	if (role_read_strings(r, tools, "blocked_custom_modules", ret, e) < 0)
		return -e->code;
	for (size_t i = 0; (!n || n->kind == NODE_NULL) && i < ARRAY_LEN(usual); i++)
		if (initrunner_hooks_add(r, ret, usual[i], e) < 0)
			return -e->code;
	for (size_t i = 0; i < ARRAY_LEN(always); i++)
		if (initrunner_hooks_add(r, ret, always[i], e) < 0)
			return -e->code;
	return 0;
}

static int read_action(struct role_reader *r, const struct node *tools, bool *log, struct err *e)
{
	const struct node *n = node_get(tools, "sandbox_violation_action");
	const char *text = NULL;

	if (n && role_read_string(r, tools, "sandbox_violation_action", &text, e) < 0)
		return -e->code;
	*log = text && str_eq(text, "log");
	if (!text || *log || str_eq(text, "raise"))
		return 0;
	(void)node_error(r->src->name, n, e, "unknown sandbox_violation_action '%.60s'", text);
	return err_hint(e, "one of raise, log");
}

int role_read_hooks(struct role_reader *r, const struct node *tools, struct err *e)
{
	static const char *const keys[] = { "audit_hooks_enabled",      "allowed_write_paths",
					    "allowed_network_hosts",    "block_private_ips",
					    "allow_subprocess",         "allow_eval_exec",
					    "sandbox_violation_action", "blocked_custom_modules",
					    "allowed_custom_modules",   NULL };
	struct code_hooks h = { 0 };
	bool on = false, closed = true;
	const struct node *n;

	if (!tools || tools->kind == NODE_NULL)
		return 0;
	if (role_near_keys(r, tools, keys, "security.tools", e) < 0 ||
	    role_read_flag(r, tools, "audit_hooks_enabled", &on, e) < 0 ||
	    role_read_strings(r, tools, "allowed_write_paths", &h.write, e) < 0 ||
	    role_read_strings(r, tools, "allowed_network_hosts", &h.hosts, e) < 0 ||
	    role_read_flag(r, tools, "block_private_ips", &closed, e) < 0 ||
	    role_read_flag(r, tools, "allow_subprocess", &h.programs, e) < 0 ||
	    role_read_flag(r, tools, "allow_eval_exec", &h.evals, e) < 0 ||
	    read_action(r, tools, &h.log, e) < 0 || read_modules(r, tools, &h.blocked, e) < 0)
		return -e->code;
	if (!on)
		return 0;
	n = node_get(tools, "audit_hooks_enabled");
	h.near = !closed;
	h.where = arena_printf(r->s->arena, "%s:%d:%d", r->src->name, n->line, n->column);
	r->s->command.code.hooks = h;
	return h.where ? 0 : err_nomem(e);
}
