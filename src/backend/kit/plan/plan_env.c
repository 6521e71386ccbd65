/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/plan/plan_env.c - the variables inside: built from nothing, never inherited. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backend/kit/plan/plan_internal.h"
#include "base/text/buf.h"
#include "base/text/str.h"
#include "model/request/envblock.h"
#include "model/settings/envrules.h"
#include "model/settings/paths.h"
#include "model/request/volume.h"

#define PATH_FALLBACK "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define PATH_TEXT_MAX 65536

static bool folder_shown(struct box_plan *p, const char *dir)
{
	for (size_t i = 0; i < p->op_count; i++) {
		const struct op *o = &p->ops[i];

		if ((o->kind == OP_BIND || o->kind == OP_BIND_FD || o->kind == OP_SYMLINK) &&
		    path_under(dir, o->dst))
			return true;
	}
	return false;
}

/* The caller's PATH without the folders that do not exist inside. */
static const char *path_inside(struct box_plan *p, const char *path)
{
	CLEANUP(buf) struct buf b = BUF_INIT(PATH_TEXT_MAX);

	while (path && *path) {
		size_t n = strcspn(path, ":");
		const char *dir = arena_strndup(p->arena, path, n);

		if (dir && dir[0] == '/' && folder_shown(p, dir)) {
			if (b.len)
				buf_putc(&b, ':');
			buf_puts(&b, dir);
		}
		path += n + (path[n] == ':');
	}
	return b.failed || !b.len ? PATH_FALLBACK : arena_strdup(p->arena, buf_str(&b));
}

static bool path_has(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	for (const char *at = path; (at = strstr(at, dir)); at += n)
		if ((at == path || at[-1] == ':') && (at[n] == ':' || !at[n]))
			return true;
	return false;
}

/* Compilers and tools of GPUs stand in folders of their own, which distributions put into the PATH
 * of some users and not of others. */
static const char *path_with_gpus(struct box_plan *p, const char *path)
{
	static const char *const tools[] = { "/usr/local/nvidia/bin", "/usr/local/cuda/bin",
					     "/opt/rocm/bin" };

	for (size_t i = 0; path && !gpu_set_empty(&p->gpus) && i < ARRAY_LEN(tools); i++)
		if (!path_has(path, tools[i]) && folder_shown(p, tools[i]) &&
		    access(tools[i], X_OK) == 0)
			path = arena_printf(p->arena, "%s:%s", path, tools[i]);
	return path;
}

/* Those who are not behind the door. */
static const char *reached_directly(struct box_plan *p)
{
	const struct memberlist *l = &p->spec->members;
	const char *text = DOOR_DIRECT;

	for (size_t i = 0; text && i < l->n; i++)
		text = arena_printf(p->arena, "%s,%s,%s", text, l->v[i].name, l->v[i].address);
	return text;
}

static int door_variables_of(struct box_plan *p, struct envblock *b, struct err *e)
{
	const char *url = NULL, *direct = p->door ? reached_directly(p) : NULL;
	const struct door_variable *v = door_variables;

	if (!p->door)
		return 0;
	url = arena_printf(p->arena, "http://" DOOR_ADDRESS_TEXT ":%u", p->door->proxy_port);
	if (!direct || !url)
		return err_nomem(e);
	for (; v->name; v++) {
		const char *const values[] = { [DOOR_IS_PROXY] = url,
					       [DOOR_IS_DIRECT] = direct,
					       [DOOR_IS_ROOTS] = DOOR_ROOTS,
					       [DOOR_IS_ON] = "1" };

		if (envblock_put(b, v->name, values[v->is], e) < 0)
			return -e->code;
	}
	return 0;
}

/* The user inside has the ids that files of the workspace get. An engine's user is not known yet.
 */
static int host_ids(struct box_plan *p, struct envblock *b, struct err *e)
{
	const char *uid = arena_printf(p->arena, "%u", p->uid),
		   *gid = arena_printf(p->arena, "%u", p->gid);

	if (!uid || !gid)
		return err_nomem(e);
	return envblock_put(b, "HOST_UID", uid, e) < 0 || envblock_put(b, "HOST_GID", gid, e) < 0
		       ? -e->code
		       : 0;
}

/* CUDA counts those that it can open, from 0 on; the other one has the host's own numbers. */
static int gpu_variables(const struct box_plan *p, struct envblock *b, struct err *e)
{
	CLEANUP(buf) struct buf ours = BUF_INIT(GPUS_MAX * 4), theirs = BUF_INIT(GPUS_MAX * 4);
	unsigned count = 0;

	for (unsigned i = 0; i < GPUS_MAX; i++) {
		if (!(p->gpus.nvidia >> i & 1))
			continue;
		buf_printf(&ours, "%s%u", count ? "," : "", count);
		buf_printf(&theirs, "%s%u", count ? "," : "", i);
		count++;
	}
	if (!count)
		return 0;
	if (ours.failed || theirs.failed)
		return err_nomem(e);
	return envblock_put(b, "CUDA_VISIBLE_DEVICES", buf_str(&ours), e) < 0
		       ? -e->code
		       : envblock_put(b, "NVIDIA_VISIBLE_DEVICES", buf_str(&theirs), e);
}

/* The shell that is run, as programs inside that start one look for it. */
static const char *shell_of(struct box_plan *p)
{
	static const char *const known[] = { "bash", "zsh", "fish", "ksh" };
	const char *const *argv = p->spec->command.argv;
	const char *name = argv ? argv[0] : NULL;

	for (size_t i = 0; name && !p->no_nodes && !p->image && i < ARRAY_LEN(known); i++) {
		const char *path = arena_printf(p->arena, "/usr/bin/%s", known[i]);

		if (path &&
		    (str_eq(name, known[i]) || str_eq(name, path) ||
		     str_eq(name, path + strlen("/usr"))) &&
		    access(path, X_OK) == 0)
			return path;
	}
	return "/bin/sh";
}

/* The image's own, else the one that every program knows. */
static const char *image_path(const struct image_root *i)
{
	for (const char *const *v = i->env; *v; v++)
		if (str_starts(*v, "PATH="))
			return *v + strlen("PATH=");
	return PATH_FALLBACK;
}

/* First, so that brig's own take the place of those of the same names. */
static int image_variables(struct box_plan *p, struct envblock *b, struct err *e)
{
	for (const char *const *v = p->image ? p->image->env : NULL; v && *v; v++) {
		const char *value = strchr(*v, '=') + 1;
		const char *name = arena_strndup(p->arena, *v, (size_t)(value - 1 - *v));

		if (!name)
			return err_nomem(e);
		if (envblock_put(b, name, value, e) < 0)
			return -e->code;
	}
	return 0;
}

int plan_environment(struct box_plan *p, struct err *e)
{
	const struct spec *s = p->spec;
	const char *caller = getenv("PATH");
	size_t room = 70;
	struct envblock b = { .arena = p->arena };

	for (char **v = environ; v && *v; v++)
		room++;
	for (const char *const *v = p->image ? p->image->env : NULL; v && *v; v++)
		room++;
	room += s->env.n + s->env_pass.n + p->toolchain_count + s->caches.n * TOOL_CACHE_VARIABLES;
	p->envp = arena_alloc(p->arena, room * sizeof(*p->envp));
	if (!p->envp)
		return err_nomem(e);
	b.v = p->envp;
	p->path_value = p->image ? image_path(p->image) : path_with_gpus(p, path_inside(p, caller));
	if (!p->image && p->path_value && !p->no_nodes && caller &&
	    !str_eq(caller, p->path_value) && plan_other_tools(p, caller, e) < 0)
		return -e->code;
	if (image_variables(p, &b, e) < 0)
		return -e->code;
	if (!p->path_value || envblock_put(&b, "PATH", p->path_value, e) < 0 ||
	    envblock_put(&b, "HOME", p->home, e) < 0 ||
	    envblock_put(&b, "USER", p->user_name, e) < 0 ||
	    envblock_put(&b, "LOGNAME", p->user_name, e) < 0 ||
	    envblock_put(&b, "SHELL", shell_of(p), e) < 0 ||
	    envblock_put(&b, "BRIG_SANDBOX", p->backend, e) < 0 ||
	    envblock_put_callers(&b, e) < 0 || door_variables_of(p, &b, e) < 0 ||
	    envblock_put_quiet(&b, s, e) < 0 || envblock_put_caches(&b, s, e) < 0 ||
	    gpu_variables(p, &b, e) < 0 ||
	    (s->ssh_agent != SSH_AGENT_NONE &&
	     envblock_put(&b, "SSH_AUTH_SOCK", SSH_AGENT_INSIDE, e) < 0))
		return -e->code;
	/* A layered folder is a file system of its own, and git looks above it only if it is told.
	 */
	if (p->layered && p->repository &&
	    envblock_put(&b, "GIT_DISCOVERY_ACROSS_FILESYSTEM", "1", e) < 0)
		return -e->code;
	if (s->stays && !p->by_name && host_ids(p, &b, e) < 0)
		return -e->code;
	for (size_t i = 0; i < p->toolchain_count; i++)
		if (p->toolchains[i].variable &&
		    envblock_put(&b, p->toolchains[i].variable, p->toolchains[i].root, e) < 0)
			return -e->code;
	return envblock_put_asked(&b, s, &p->path_value, e);
}

int box_plan_variables(struct box_plan *p, const char *const *more, struct err *e)
{
	const char **all;
	size_t n = 0, m = 0;

	while (more && more[m])
		m++;
	if (!m)
		return 0;
	while (p->envp[n])
		n++;
	all = arena_alloc(p->arena, (n + m + 1) * sizeof(*all));
	if (!all)
		return err_nomem(e);
	memcpy(all, p->envp, n * sizeof(*all));
	memcpy(all + n, more, m * sizeof(*all));
	p->envp = all;
	return 0;
}
