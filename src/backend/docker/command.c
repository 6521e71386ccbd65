/* SPDX-License-Identifier: Apache-2.0 */
/* backend/docker/command.c - is there such a command? Engines do not say that nothing was executed:
 * init starts, fails, and ends as any command may. Whether it is believed depends on the file, seen
 * where the command cannot have changed it: in a tree of the host's before the start, in the
 * image afterwards. */
#include <stdio.h>
#include <string.h>

#include "backend/docker/guard.h"
#include "base/str.h"
#include "model/paths.h"

/* Its path inside; NULL when it is looked for along PATH. */
static const char *own_path(const struct guard *g)
{
	const char *name = g->plan->box->argv[0], *path;
	const struct place at = { .cwd = g->plan->box->cwd };
	struct err e;

	if (!strchr(name, '/') || path_resolve(g->plan->box->arena, &at, name, &path, &e) < 0)
		return NULL;
	return path;
}

static const struct op *tree_of(const struct guard *g, const char *path)
{
	const struct op *best = NULL;

	for (size_t i = 0; i < g->plan->box->op_count; i++) {
		const struct op *o = &g->plan->box->ops[i];

		if (o->kind == OP_BIND && path_under(path, o->dst) &&
		    (!best || strlen(o->dst) > strlen(best->dst)))
			best = o;
	}
	return best;
}

/* A private folder has nothing in it at first. */
static bool was_empty(const struct guard *g, const char *path)
{
	const struct backend_plan *p = g->plan;

	for (size_t i = 0; i < p->tmpfs_count; i++)
		if (!p->tmpfs[i].plain && path_under(path, p->tmpfs[i].path))
			return !tree_of(g, path);
	return false;
}

/* Can the command have changed what the container shows there? Root's is every file of a root that
 * can be written to. */
static bool may_change(const struct guard *g, const char *path)
{
	const struct backend_plan *p = g->plan;

	for (size_t i = 0; i < p->tmpfs_count; i++)
		if (path_under(path, p->tmpfs[i].path))
			return true;
	return tree_of(g, path) || (!p->tune.read_only && (p->user != DOCKER_USER_IDS || !p->uid));
}

void command_look(struct guard *g)
{
	const char *path = own_path(g);
	const struct op *o = path ? tree_of(g, path) : NULL;
	const char *host =
		o ? arena_printf(g->plan->box->arena, "%s%s", o->src, path + strlen(o->dst)) : NULL;
	struct stat st;

	if (!host)
		return;
	if (lstat(host, &st) < 0)
		g->before = errno == ENOENT ? COMMAND_MISSING : COMMAND_UNKNOWN;
	else if (S_ISLNK(st.st_mode))
		g->before = COMMAND_UNKNOWN;
	else
		g->before =
			S_ISREG(st.st_mode) && st.st_mode & 0111 ? COMMAND_THERE : COMMAND_PLAIN;
}

static enum command_file file_at(struct guard *g, const char *folder, const char *name)
{
	CLEANUP(engine_answer) struct engine_answer a = { 0 };
	CLEANUP(buf) struct buf b = BUF_INIT(4096);
	struct engine_call q = { .method = "HEAD" };
	struct err e;

	buf_printf(&b, "/containers/%s/archive?path=", g->container);
	engine_escape(&b, folder);
	engine_escape(&b, *folder ? "/" : "");
	engine_escape(&b, name);
	q.path = buf_str(&b);
	if (engine_ask(&g->engine, &q, &a, &e) < 0)
		return COMMAND_UNKNOWN;
	if (a.status == 404)
		return COMMAND_MISSING;
	if (!a.has_mode || a.mode & GO_LINK)
		return COMMAND_THERE;
	return a.mode & GO_FOLDER || !(a.mode & 0111) ? COMMAND_PLAIN : COMMAND_THERE;
}

/* Along the PATH that the container had: the first that could be executed counts. */
static enum command_file along_path(struct guard *g, const char *name)
{
	CLEANUP(engine_answer) struct engine_answer a = { 0 };
	char request[128], folder[256];
	const struct engine_call q = { .method = "GET", .path = request };
	const char *path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
	enum command_file found = COMMAND_MISSING;
	const struct jread *env;
	struct err e;

	(void)snprintf(request, sizeof(request), "/containers/%s/json", g->container);
	if (engine_ask(&g->engine, &q, &a, &e) < 0)
		return COMMAND_UNKNOWN;
	env = jread_get(jread_get(a.json, "Config"), "Env");
	for (size_t i = 0; i < jread_count(env); i++)
		if (jread_text(jread_at(env, i)) &&
		    str_starts(jread_text(jread_at(env, i)), "PATH="))
			path = jread_text(jread_at(env, i)) + 5;
	for (size_t n; *path; path += n + (path[n] == ':')) {
		enum command_file here;

		n = strcspn(path, ":");
		(void)snprintf(folder, sizeof(folder), "%.*s", (int)n, path);
		if (was_empty(g, folder))
			continue;
		if (may_change(g, folder))
			return COMMAND_UNKNOWN;
		here = file_at(g, folder, name);
		if (here == COMMAND_THERE || here == COMMAND_UNKNOWN)
			return here;
		if (here == COMMAND_PLAIN)
			found = COMMAND_PLAIN;
	}
	return found;
}

enum command_file command_found(struct guard *g)
{
	const char *path = own_path(g);

	if (!path)
		return strchr(g->plan->box->argv[0], '/') ? COMMAND_UNKNOWN
							  : along_path(g, g->plan->box->argv[0]);
	if (tree_of(g, path))
		return g->before;
	if (was_empty(g, path))
		return COMMAND_MISSING;
	return may_change(g, path) ? COMMAND_UNKNOWN : file_at(g, "", path);
}
