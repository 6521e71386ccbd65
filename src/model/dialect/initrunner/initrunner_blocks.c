/* SPDX-License-Identifier: Apache-2.0 */
/* model/dialect/initrunner/initrunner_blocks.c - env_passthrough and the sub-blocks docker and ssh
 * of security.sandbox. */
#include <string.h>

#include "base/text/num.h"
#include "base/text/str.h"
#include "model/dialect/extra_args.h"
#include "model/dialect/foreign.h"
#include "model/dialect/initrunner/initrunner.h"
#include "model/settings/envrules.h"

#define NAMES_MAX 1024 /* of env_passthrough */

/* --- env_passthrough --- */

static bool set_by_brig(const char *name)
{
	static const char *const names[] = { "PATH", "HOME",  "USER",   "LOGNAME",
					     "PWD",  "SHELL", "TMPDIR", "HOSTNAME" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (str_eq(names[i], name))
			return true;
	return false;
}

static int pass_name(struct role_reader *r, const struct node *n, struct err *e)
{
	const char *name;

	if (read_text(r->src, n, &name, e) < 0)
		return -e->code;
	if (!name || !env_name_valid(name))
		return node_error(r->src->name, n, e,
				  "env_passthrough: '%.60s' is not a variable name",
				  name ? name : "null");
	if (env_steers_programs(name)) {
		(void)node_error(r->src->name, n, e,
				 "env_passthrough: '%.60s' changes how programs are started", name);
		e->kind = ERR_POLICY;
		return e->code = EPERM, -EPERM;
	}
	if (env_looks_secret(name))
		return foreign_note(r->s, e,
				    "env_passthrough: '%.60s' is not passed, its name is that of a "
				    "secret",
				    name);
	if (set_by_brig(name))
		return foreign_note(r->s, e,
				    "env_passthrough: '%.60s' is not passed, brig sets it itself",
				    name);
	return spec_set(r->s, FIELD_ENV_PASS, name, r->src->origin, e) < 0
		       ? read_failed(r->src, n, e)
		       : 0;
}

int role_read_env(struct role_reader *r, const struct node *list, struct err *e)
{
	if (!list)
		return 0;
	if (list->kind != NODE_LIST && list->kind != NODE_NULL)
		return node_error(r->src->name, list, e, "env_passthrough: expected a list, not %s",
				  node_kind_name(list->kind));
	if (list->count > NAMES_MAX)
		return node_error(r->src->name, list, e, "env_passthrough: more than %d names",
				  NAMES_MAX);
	(void)spec_list_begin(r->s, FIELD_ENV_PASS, r->src->origin);
	for (const struct node *n = list->first; n; n = n->next)
		if (pass_name(r, n, e) < 0)
			return -e->code;
	return read_where(r->s, r->src, FIELD_ENV_PASS, list, e);
}

/* --- docker --- */

static int read_image(struct role_reader *r, const struct node *n, struct err *e)
{
	if (!n || n->kind == NODE_NULL)
		return 0;
	if (foreign_image(r->src, n, e) < 0)
		return -e->code;
	return role_read_plain(r, n, FIELD_DOCKER_IMAGE, e);
}

static bool is_ids(const char *text, bool *root)
{
	char uid[12];
	size_t n = strcspn(text, ":");
	uint64_t u, g = 1;

	if (!n || n >= sizeof(uid))
		return false;
	memcpy(uid, text, n);
	uid[n] = '\0';
	if (num_count(uid, &u) < 0 || u > 65535 ||
	    (text[n] && (num_count(text + n + 1, &g) < 0 || g > 65535)))
		return false;
	*root = !u;
	return true;
}

static int read_user(struct role_reader *r, const struct node *n, struct err *e)
{
	const char *text;
	bool root = false;

	if (!n)
		return 0;
	if (read_text(r->src, n, &text, e) < 0)
		return -e->code;
	if (text && !str_eq(text, "auto") && !is_ids(text, &root))
		return node_error(r->src->name, n, e, "user '%.60s' is not auto, UID:GID or null",
				  text);
	if ((!text || root) &&
	    foreign_note(r->s, e,
			 "%s:%d: docker.user: the command runs as root inside the container",
			 r->src->name, n->line) < 0)
		return -e->code;
	return foreign_set(r->s, r->src, FIELD_DOCKER_USER, n, text ? text : "", e);
}

static int check_extra_args(struct role_reader *r, const struct node *list, struct err *e)
{
	struct strlist args = { 0 };
	const struct extra_arg *gpus = NULL;
	struct extra_arg *out;
	size_t n = 0;

	for (const struct node *c = list->kind == NODE_LIST ? list->first : NULL; c; c = c->next) {
		const char **slot = ARENA_PUSH(r->s->arena, args.v, args.n);

		if (!slot)
			return err_nomem(e);
		if (read_text(r->src, c, slot, e) < 0)
			return -e->code;
		if (!*slot)
			*slot = "";
	}
	out = arena_alloc(r->s->arena, (args.n + 1) * sizeof(*out));
	if (!out)
		return err_nomem(e);
	if (extra_args_check(&args, EXTRA_ARGS_INITRUNNER, out, &n, e) < 0)
		return read_failed(r->src, list, e);
	for (size_t i = 0; i < n; i++)
		if (str_eq(out[i].flag, "--gpus"))
			gpus = &out[i];
	if (!gpus)
		return 0;
	return foreign_note(r->s, e, "%s:%d: extra_args: --gpus=%s reduces isolation", r->src->name,
			    list->line, gpus->value);
}

int role_read_docker(struct role_reader *r, const struct node *docker, struct err *e)
{
	static const char *const keys[] = { "image", "user", "runtime", "extra_args", NULL };
	static const char *const runtimes[] = { "runc",      "runsc",   "kata-runtime",
						"kata-qemu", "kata-fc", "kata-clh",
						NULL };
	const struct node *args = node_get(docker, "extra_args");

	if (!docker)
		return 0;
	if (read_only_keys(r->src, docker, keys, "security.sandbox.docker", e) < 0 ||
	    read_image(r, node_get(docker, "image"), e) < 0 ||
	    read_user(r, node_get(docker, "user"), e) < 0 ||
	    role_read_word(r, node_get(docker, "runtime"), FIELD_DOCKER_RUNTIME, runtimes,
			   "runc, runsc, kata-runtime, kata-qemu, kata-fc, kata-clh", e) < 0)
		return -e->code;
	if (!args)
		return 0;
	if (check_extra_args(r, args, e) < 0)
		return -e->code;
	return read_list(r->s, r->src, FIELD_DOCKER_EXTRA_ARGS, args, e);
}

/* --- ssh --- */

static int read_host(struct role_reader *r, const struct node *ssh, struct err *e)
{
	const struct node *n = node_get(ssh, "host");
	const char *text = NULL;

	if (n && read_text(r->src, n, &text, e) < 0)
		return -e->code;
	if (!text || !*text) {
		(void)node_error(r->src->name, n ? n : ssh, e, "ssh.host is missing");
		return err_hint(e, "an alias of ~/.ssh/config, or user@hostname");
	}
	/* A leading dash would be read as an option of ssh. */
	if (*text == '-' || text[strcspn(text, " \t\r\n")])
		return node_error(r->src->name, n, e, "ssh.host '%.60s' is not a host", text);
	return role_read_plain(r, n, FIELD_SSH_HOST, e);
}

static int read_ssh_file(struct role_reader *r, const struct node *n, enum field_id id,
			 struct err *e)
{
	const char *path;

	if (!n || n->kind == NODE_NULL)
		return 0;
	if (read_path(r->s, r->src, n, &path, e) < 0)
		return -e->code;
	return foreign_set(r->s, r->src, id, n, path, e);
}

int role_read_ssh(struct role_reader *r, const struct node *ssh, struct err *e)
{
	static const char *const keys[] = { "host",        "remote_cwd",      "identity_file",
					    "config_file", "connect_timeout", "control_persist",
					    NULL };
	const struct node *timeout = node_get(ssh, "connect_timeout");
	uint64_t seconds;

	if (!ssh || ssh->kind == NODE_NULL)
		return 0;
	if (read_only_keys(r->src, ssh, keys, "security.sandbox.ssh", e) < 0 ||
	    read_host(r, ssh, e) < 0)
		return -e->code;
	if (timeout && timeout->kind == NODE_SCALAR && num_count(timeout->text, &seconds) < 0)
		return node_error(r->src->name, timeout, e,
				  "connect_timeout '%.60s' is not a number of seconds",
				  timeout->text);
	if (role_read_plain(r, node_get(ssh, "remote_cwd"), FIELD_SSH_REMOTE_CWD, e) < 0 ||
	    read_ssh_file(r, node_get(ssh, "identity_file"), FIELD_SSH_IDENTITY_FILE, e) < 0 ||
	    read_ssh_file(r, node_get(ssh, "config_file"), FIELD_SSH_CONFIG_FILE, e) < 0 ||
	    role_read_plain(r, timeout, FIELD_SSH_CONNECT_TIMEOUT, e) < 0)
		return -e->code;
	return role_read_plain(r, node_get(ssh, "control_persist"), FIELD_SSH_CONTROL_PERSIST, e);
}
