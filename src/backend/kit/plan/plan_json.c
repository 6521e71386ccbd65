/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/plan/plan_json.c - a plan as people and tests read it. */
#include <assert.h>
#include <stdio.h>

#include "backend/kit/plan/plan.h"

static const char *const op_names[] = {
	[OP_DIR] = "dir",         [OP_FILE] = "file",   [OP_SYMLINK] = "symlink",
	[OP_PRIVATE] = "private", [OP_BIND] = "bind",   [OP_BIND_FD] = "bind",
	[OP_DEVICE] = "device",   [OP_PROC] = "proc",   [OP_DEVPTS] = "devpts",
	[OP_OVERLAY] = "overlay", [OP_IMAGE] = "image", [OP_LAYER] = "layer",
	[OP_MASK] = "mask",       [OP_COVER] = "cover", [OP_HIDE] = "hide",
	[OP_SHOW] = "show",       [OP_CODE] = "code",
};
static_assert(ARRAY_LEN(op_names) == OP_KINDS, "a name for every operation");

static void op_json(const struct op *o, struct json *j)
{
	bool bound = o->kind == OP_BIND || o->kind == OP_BIND_FD;

	json_object(j);
	json_kstr(j, "op", op_names[o->kind]);
	if (o->src)
		json_kstr(j, "source", o->src);
	json_kstr(j, "target", o->dst);
	if (o->kind == OP_SYMLINK)
		json_kstr(j, "to", o->data);
	if (o->kind == OP_CODE)
		json_ku64(j, "size", o->size);
	if (bound)
		json_kbool(j, "read_only", !o->writable);
	if (o->kind == OP_BIND_FD && !o->package)
		json_kbool(j, "idmapped", true);
	if (o->package && *o->package)
		json_kstr(j, "package", o->package);
	json_object_end(j);
}

static void maps_json(const char *key, const struct id_map *m, size_t n, bool range, struct json *j)
{
	json_karray(j, key);
	for (size_t i = 0; i < n; i++) {
		json_object(j);
		json_ku64(j, "inside", m[i].inside);
		if (range)
			json_kstr(j, "outside", "a free range");
		else
			json_ku64(j, "outside", m[i].outside);
		json_ku64(j, "count", m[i].count);
		json_object_end(j);
	}
	json_array_end(j);
}

static void limits_json(const struct box_plan *p, struct json *j)
{
	const struct limits *l = &p->limits;

	json_kobject(j, "limits");
	json_ku64(j, "memory", l->memory);
	json_key(j, "cpus");
	if (l->cpus)
		json_milli(j, l->cpus);
	else
		json_null(j);
	json_ku64(j, "cpu_shares", l->cpu_shares);
	json_ku64(j, "pids", l->pids);
	json_ku64(j, "tmp", l->tmp);
	json_ku64(j, "disk", l->disk);
	json_ku64(j, "files", l->files);
	json_ku64(j, "output", p->output);
	json_ku64(j, "timeout_ms", p->timeout);
	json_object_end(j);
}

/* What the door would put in, and where; no value is fetched for a plan. */
static void credentials_json(const struct box_plan *p, struct json *j)
{
	json_karray(j, "credentials");
	for (size_t i = 0; i < p->credentials.n; i++) {
		const struct credential_spec *c = &p->credentials.v[i];

		json_object(j);
		json_kstr(j, "name", c->name);
		json_karray(j, "hosts");
		for (size_t h = 0; h < c->hosts.n; h++)
			json_str(j, c->hosts.v[h]);
		json_array_end(j);
		if (c->git)
			json_kstr(j, "git", c->git);
		json_object_end(j);
	}
	json_array_end(j);
}

void box_plan_members(const struct box_plan *p, struct json *j)
{
	json_ku64(j, "schema", 1);
	json_kstr(j, "backend", p->backend);
	json_kstr(j, "policy", fields[FIELD_POLICY].words[p->policy]);
	json_kstr(j, "network", fields[FIELD_NETWORK].words[p->network]);
	json_kstr(j, "profile", fields[FIELD_PROFILE].words[p->profile]);
	json_kstrs(j, "argv", p->argv);
	json_kstr(j, "cwd", p->cwd);
	json_ku64(j, "uid", p->uid);
	json_ku64(j, "gid", p->gid);
	maps_json("uid_map", p->uids, p->uid_count, p->needs_range, j);
	maps_json("gid_map", p->gids, p->gid_count, p->needs_range, j);
	json_karray(j, "namespaces");
	json_str(j, "user");
	json_str(j, "mount");
	json_str(j, "pid");
	if (p->network != NETWORK_HOST)
		json_str(j, "net");
	json_str(j, "ipc");
	json_str(j, "uts");
	json_str(j, "cgroup");
	json_array_end(j);
	limits_json(p, j);
	if (!gpu_set_empty(&p->gpus)) {
		json_key(j, "gpus");
		gpu_set_json(&p->gpus, j);
	}
	if (p->credentials.n)
		credentials_json(p, j);
	json_kstrs(j, "env", (const char *const *)p->envp);
	json_karray(j, "writable");
	for (size_t i = 0; i < p->writable_count; i++)
		json_str(j, p->writable[i]);
	json_array_end(j);
	json_karray(j, "ops");
	for (size_t i = 0; i < p->op_count; i++)
		if (p->ops[i].look == LOOK_NOT || !p->ops[i].skip)
			op_json(&p->ops[i], j);
	json_array_end(j);
}

void box_plan_json(const struct box_plan *p, struct json *j)
{
	json_object(j);
	box_plan_members(p, j);
	json_object_end(j);
}
