/* SPDX-License-Identifier: Apache-2.0 */
/* model/dialect/initrunner/initrunner.c - the InitRunner role: `security.sandbox` and its
 * sub-blocks.
 *
 * Inside security.sandbox every key and word must be known: a slip there would silently weaken what
 * the role's author asked for. The rest of a role belongs to others and is tolerated, except where
 * a key is a slip of one that brig reads. */
#include "model/dialect/initrunner/initrunner.h"

#include <string.h>

#include "base/text/str.h"
#include "model/dialect/foreign.h"

int role_near_keys(const struct role_reader *r, const struct node *map, const char *const *keys,
		   const char *in, struct err *e)
{
	for (const struct node *n = map->kind == NODE_MAP ? map->first : NULL; n; n = n->next) {
		const char *near = str_nearest(n->key, keys);

		if (near && !str_eq(near, n->key)) {
			(void)node_key_error(r->src->name, n, e, "unknown key '%.60s' in %s",
					     n->key, in);
			return err_hint(e, "did you mean '%s'?", near);
		}
	}
	return 0;
}

/* --- the documented defaults --- */

static int put_defaults(struct spec *s, struct err *e)
{
	static const struct dialect_default defaults[] = {
		{ FIELD_BACKEND, "auto" },
		{ FIELD_NETWORK, "none" },
		{ FIELD_TARGET, "/work" },
		{ FIELD_MEMORY, "256m" },
		{ FIELD_CPUS, "1" },
		{ FIELD_PIDS, "256" },
		{ FIELD_TIMEOUT, "30s" },
		{ FIELD_OUTPUT, "102400" },
		{ FIELD_READ_ONLY_ROOT, "true" },
		{ FIELD_DOCKER_IMAGE, "python:3.12-slim" },
		{ FIELD_DOCKER_USER, "auto" },
		{ FIELD_SSH_CONNECT_TIMEOUT, "10" },
		{ FIELD_SSH_CONTROL_PERSIST, "60s" },
	};

	return read_defaults(s, defaults, ARRAY_LEN(defaults), e);
}

/* The small /tmp belongs to the read-only root; where the root is writable so is its /tmp. */
static int put_tmp_defaults(struct spec *s, struct err *e)
{
	if (!s->read_only_root)
		return 0;
	if (read_default(s, FIELD_TMP, "64m", e) < 0)
		return -e->code;
	return read_default(s, FIELD_TMP_EXEC, "false", e);
}

/* --- single values --- */

int role_read_word(struct role_reader *r, const struct node *n, enum field_id id,
		   const char *const *words, const char *list, struct err *e)
{
	const char *text, *near;

	if (!n)
		return 0;
	if (read_text(r->src, n, &text, e) < 0)
		return -e->code;
	for (size_t i = 0; text && words[i]; i++)
		if (str_eq(words[i], text))
			return read_scalar(r->s, r->src, id, n, e);
	if (!text)
		return 0;
	near = str_nearest(text, words);
	(void)node_error(r->src->name, n, e, "unknown %s '%.60s'", n->key, text);
	return near ? err_hint(e, "did you mean '%s'?", near) : err_hint(e, "one of %s", list);
}

/* Digits and one letter, as the page documents; brig's own sizes would take more. */
static int read_memory(struct role_reader *r, const struct node *n, struct err *e)
{
	const char *text;
	size_t digits;

	if (!n)
		return 0;
	if (read_text(r->src, n, &text, e) < 0)
		return -e->code;
	digits = text ? strspn(text, "0123456789") : 0;
	if (text && (!digits ||
		     (text[digits] && (!strchr("bkmgBKMG", text[digits]) || text[digits + 1])))) {
		(void)node_error(r->src->name, n, e, "memory_limit '%.60s' is not a size", text);
		return err_hint(e, "digits and one of b, k, m, g: 256m, 1g");
	}
	return read_scalar(r->s, r->src, FIELD_MEMORY, n, e);
}

int role_read_plain(struct role_reader *r, const struct node *n, enum field_id id, struct err *e)
{
	const char *text;

	if (!n)
		return 0;
	if (fields[id].type == FIELD_T_STRING) {
		if (read_text(r->src, n, &text, e) < 0)
			return -e->code;
		if (text && (!*text || str_has_control(text)))
			return node_error(r->src->name, n, e, "%s: %s", n->key,
					  *text ? "a control character" : "it is empty");
	}
	return read_scalar(r->s, r->src, id, n, e);
}

/* --- what cannot stand together --- */

static int refuse_on_ssh(const struct role_reader *r, const struct node *sandbox, const char *key,
			 struct err *e)
{
	const struct node *n = node_get(sandbox, key);

	if (!n || !n->count)
		return 0;
	(void)node_key_error(r->src->name, n, e, "%s: backend ssh cannot mount anything", key);
	return err_hint(e, "docker and bwrap can");
}

static int warn_on_ssh(struct role_reader *r, struct err *e)
{
	static const struct {
		enum field_id id;
		const char *name;
	} ignored[] = {
		{ FIELD_NETWORK, "network" },
		{ FIELD_MEMORY, "memory_limit" },
		{ FIELD_CPUS, "cpu_limit" },
		{ FIELD_READ_ONLY_ROOT, "read_only_rootfs" },
		{ FIELD_DOCKER_IMAGE, "docker.image" },
		{ FIELD_DOCKER_USER, "docker.user" },
		{ FIELD_DOCKER_RUNTIME, "docker.runtime" },
		{ FIELD_DOCKER_EXTRA_ARGS, "docker.extra_args" },
	};

	for (size_t i = 0; i < ARRAY_LEN(ignored); i++)
		if (r->s->origin[ignored[i].id] == r->src->origin &&
		    foreign_note(r->s, e, "%s is not enforced by backend ssh", ignored[i].name) < 0)
			return -e->code;
	return 0;
}

static int check_ssh(struct role_reader *r, const struct node *sandbox, struct err *e)
{
	static const char *const mounts[] = { "bind_mounts", "allowed_read_paths",
					      "allowed_write_paths" };
	const struct node *at = node_get(sandbox, "backend");

	if (r->s->backend != BACKEND_SSH)
		return 0;
	if (!r->s->ssh.host) {
		(void)node_error(r->src->name, at ? at : sandbox, e, "backend ssh needs ssh.host");
		return err_hint(e,
				"add ssh: with host: an alias of ~/.ssh/config, or user@hostname");
	}
	for (size_t i = 0; i < ARRAY_LEN(mounts); i++)
		if (refuse_on_ssh(r, sandbox, mounts[i], e) < 0)
			return -e->code;
	return warn_on_ssh(r, e);
}

static int check_bridge(struct role_reader *r, const struct node *sandbox, struct err *e)
{
	const struct node *n = node_get(sandbox, "network");
	bool ssh = r->s->backend == BACKEND_SSH, bwrap = r->s->backend == BACKEND_BWRAP;

	if (!n || r->s->network != NETWORK_BRIDGE || (!ssh && !bwrap))
		return 0;
	(void)node_error(r->src->name, n, e, "network bridge: backend %s does not support it",
			 ssh ? "ssh" : "bwrap");
	return err_hint(e, "use backend: docker");
}

/* --- the blocks --- */

static int note_backend(struct role_reader *r, const struct node *sandbox, struct err *e)
{
	if (r->s->origin[FIELD_BACKEND] > ORIGIN_DIALECT)
		return 0;
	return foreign_note(r->s, e, "%s: %s, so the backend is auto", r->src->name,
			    sandbox ? "security.sandbox names no backend"
				    : "the role says nothing about a sandbox");
}

static int read_sandbox(struct role_reader *r, const struct node *sandbox, struct err *e)
{
	static const char *const keys[] = { "backend",
					    "network",
					    "allowed_read_paths",
					    "allowed_write_paths",
					    "memory_limit",
					    "cpu_limit",
					    "read_only_rootfs",
					    "bind_mounts",
					    "env_passthrough",
					    "docker",
					    "ssh",
					    NULL };
	static const char *const backends[] = { "auto", "bwrap", "docker", "ssh", "none", NULL };
	static const char *const networks[] = { "none", "bridge", "host", NULL };

	if (read_only_keys(r->src, sandbox, keys, "security.sandbox", e) < 0 ||
	    role_read_word(r, node_get(sandbox, "backend"), FIELD_BACKEND, backends,
			   "auto, bwrap, docker, ssh, none", e) < 0 ||
	    role_read_word(r, node_get(sandbox, "network"), FIELD_NETWORK, networks,
			   "none, bridge, host", e) < 0 ||
	    read_memory(r, node_get(sandbox, "memory_limit"), e) < 0 ||
	    role_read_plain(r, node_get(sandbox, "cpu_limit"), FIELD_CPUS, e) < 0 ||
	    role_read_plain(r, node_get(sandbox, "read_only_rootfs"), FIELD_READ_ONLY_ROOT, e) < 0)
		return -e->code;
	if (role_read_env(r, node_get(sandbox, "env_passthrough"), e) < 0 ||
	    role_read_docker(r, node_get(sandbox, "docker"), e) < 0 ||
	    role_read_ssh(r, node_get(sandbox, "ssh"), e) < 0 ||
	    role_read_mounts(r, sandbox, e) < 0 || check_bridge(r, sandbox, e) < 0)
		return -e->code;
	return check_ssh(r, sandbox, e);
}

static int refuse_old(const struct role_reader *r, const struct node *docker, struct err *e)
{
	(void)node_key_error(r->src->name, docker, e,
			     "security.docker has been removed: move it to security.sandbox with "
			     "backend: docker, image and extra_args below docker");
	return err_hint(e, "brig config migrate '%s' prints the new form", r->src->name);
}

static int read_security(struct role_reader *r, const struct node *security, struct err *e)
{
	static const char *const mine[] = { "sandbox", "preset", NULL };
	const struct node *docker = node_get(security, "docker"),
			  *sandbox = node_get(security, "sandbox"),
			  *preset = node_get(security, "preset");

	if (security && security->kind != NODE_MAP && security->kind != NODE_NULL)
		return node_error(r->src->name, security, e, "security: expected a map, not %s",
				  node_kind_name(security->kind));
	if (docker)
		return refuse_old(r, docker, e);
	if (security && role_near_keys(r, security, mine, "security", e) < 0)
		return -e->code;
	if (role_read_hooks(r, node_get(security, "tools"), e) < 0)
		return -e->code;
	if (preset && preset_read(r->s, r->src, preset, &r->role->preset, e) < 0)
		return -e->code;
	if (sandbox && sandbox->kind == NODE_NULL)
		sandbox = NULL;
	if (sandbox && read_sandbox(r, sandbox, e) < 0)
		return -e->code;
	return note_backend(r, sandbox, e);
}

/* A block one level too high would otherwise be ignored, and with it all it asks for. */
static int refuse_misplaced(const struct role_reader *r, const struct node *map, struct err *e)
{
	const struct node *n = node_get(map, "sandbox");

	if (!n)
		return 0;
	(void)node_key_error(r->src->name, n, e, "sandbox is outside security");
	return err_hint(e, "indent it below security:");
}

static int check_version(const struct role_reader *r, const struct node *root, struct err *e)
{
	const struct node *n = node_get(root, "apiVersion");

	if (root->kind != NODE_MAP)
		return node_error(r->src->name, root, e, "expected a role, not %s",
				  node_kind_name(root->kind));
	if (!n && root->count == 1 && node_get(root, "security"))
		return 0;
	if (!n || n->kind != NODE_SCALAR) {
		(void)node_error(r->src->name, n ? n : root, e, "apiVersion is missing");
		return err_hint(e, "a role begins with 'apiVersion: initrunner/v1'");
	}
	if (!str_eq(n->text, "initrunner/v1")) {
		(void)node_error(r->src->name, n, e, "apiVersion '%.60s' is not known", n->text);
		return err_hint(e, "brig reads initrunner/v1");
	}
	return 0;
}

/* What the shell tool's page lists, where a role says nothing of it. */
static struct strlist blocked_by_default(void)
{
	static const char *names[] = { "rm",       "mkfs",   "dd",       "fdisk",  "parted",
				       "mount",    "umount", "shutdown", "reboot", "halt",
				       "poweroff", "chmod",  "chown",    "passwd", "useradd",
				       "userdel",  "sudo",   "su" };

	return (struct strlist){ .v = names, .n = ARRAY_LEN(names) };
}

/* All of its script tools' scripts in one list; what one does not say its tool does. */
static int keep_scripts(struct spec *s, const struct role_tool *t, struct err *e)
{
	for (size_t i = 0; i < t->script_count; i++) {
		struct code_script *slot =
			ARENA_PUSH(s->arena, s->command.code.scripts, s->command.code.script_count);

		if (!slot)
			return err_nomem(e);
		*slot = t->scripts[i];
		if (!slot->timeout)
			slot->timeout = t->timeout;
		if (!slot->interpreter)
			slot->interpreter = t->interpreter;
	}
	return 0;
}

static void keep_tool(struct spec *s, const struct role_tool *t, enum code_kind kind)
{
	s->command.code.tool[kind].timeout = t->timeout;
	s->command.code.tool[kind].output = t->output;
	s->command.code.tool[kind].interpreter = kind == CODE_SCRIPT ? t->interpreter : NULL;
	s->command.code.tool[kind].allowed = t->allowed;
	s->command.code.tool[kind].blocked = t->default_blocked ? blocked_by_default() : t->blocked;
	if (t->offline)
		s->command.code.tool[kind].offline = t->offline;
}

/* The first tool of each kind says how its code is run. */
static int keep_tools(struct spec *s, const struct role *role, struct err *e)
{
	s->command.code.scripts = NULL;
	s->command.code.script_count = 0;
	for (size_t i = 0; i < role->tool_count; i++) {
		const struct role_tool *t = &role->tools[i];

		s->chat.shell |= t->kind == ROLE_TOOL_SHELL;
		s->chat.python |= t->kind == ROLE_TOOL_PYTHON;
		s->chat.confirm |= t->kind == ROLE_TOOL_SHELL && t->confirm_written;
		if (keep_scripts(s, t, e) < 0)
			return -e->code;
	}
	for (size_t i = role->tool_count; i-- > 0;)
		keep_tool(s, &role->tools[i],
			  role->tools[i].kind == ROLE_TOOL_PYTHON   ? CODE_PYTHON
			  : role->tools[i].kind == ROLE_TOOL_SCRIPT ? CODE_SCRIPT
								    : CODE_NONE);
	s->chat.other = role->other;
	return 0;
}

int initrunner_read_role(struct spec *s, const struct source *src, const char *cwd,
			 const struct node *root, struct role *ret, struct err *e)
{
	const struct node *spec = node_get(root, "spec"), *security = node_get(root, "security"),
			  *inner = node_get(spec, "security"),
			  *name = node_get(node_get(root, "metadata"), "name");
	struct role role = { .preset = preset_none() };
	struct role_reader r = { .s = s, .src = src, .cwd = cwd, .role = &role };

	if (check_version(&r, root, e) < 0 || put_defaults(s, e) < 0 ||
	    refuse_misplaced(&r, root, e) < 0 || refuse_misplaced(&r, spec, e) < 0)
		return -e->code;
	if (security && inner) {
		(void)node_key_error(src->name, security, e, "security appears twice");
		return err_hint(e, "keep the one below spec");
	}
	if (read_security(&r, inner ? inner : security, e) < 0 || put_tmp_defaults(s, e) < 0 ||
	    role_read_tools(&r, node_get(spec, "tools"), e) < 0 || role_read_model(&r, spec, e) < 0)
		return -e->code;
	if (name && name->kind == NODE_SCALAR) {
		role.name = arena_strdup(s->arena, name->text);
		if (!role.name)
			return err_nomem(e);
		if (foreign_set(s, src, FIELD_AUDIT_AGENT, name, role.name, e) < 0)
			return -e->code;
	}
	if (keep_tools(s, &role, e) < 0)
		return -e->code;
	*ret = role;
	return 0;
}
