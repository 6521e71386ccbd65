/* SPDX-License-Identifier: Apache-2.0 */
/* backend/docker/docker_plan.c - from a spec to what a container will be. Asks no engine. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "backend/docker/docker.h"
#include "backend/docker/gate/gate.h"
#include "backend/kit/plan/plan_internal.h"
#include "base/text/num.h"
#include "base/text/str.h"
#include "model/dialect/dialect.h"
#include "model/known/image_name.h"
#include "model/request/code.h"
#include "model/settings/paths.h"

#define ROOT_STARTED_UID 1000
#define MIB ((uint64_t)1 << 20)
#define TMP_DEFAULT (64 * MIB)
#define SHM_MAX (64 * MIB)
#define HOME_DEFAULT (1024 * MIB)

/* ---- who the command is ---- */

static int parse_ids(struct backend_plan *p, const char *text, struct err *e)
{
	size_t n = strcspn(text, ":");
	const char *uid = arena_strndup(p->box->arena, text, n);
	uint64_t u = 0, g = 0;

	if (!uid)
		return err_nomem(e);
	if (num_count(uid, &u) < 0 || num_count(text[n] ? text + n + 1 : uid, &g) < 0 ||
	    u > UINT32_MAX - 1 || g > UINT32_MAX - 1)
		return err_refuse(e, ERR_CONFIG, EINVAL,
				  "it is auto, UID:GID, or empty for the image's own user",
				  "docker.user '%.40s' is not UID:GID", text);
	p->uid = (uint32_t)u;
	p->gid = (uint32_t)g;
	return 0;
}

/* The caller's own ids. Root's runs belong to the workspace's owner where that is an ordinary user,
 * so that its files keep their owner. */
static void auto_ids(struct backend_plan *p)
{
	struct stat st;

	p->user_auto = true;
	p->uid = geteuid();
	p->gid = getegid();
	if (p->uid)
		return;
	p->uid = p->gid = ROOT_STARTED_UID;
	if (p->box->workspace && stat(p->box->workspace, &st) == 0 && st.st_uid && st.st_gid) {
		p->uid = st.st_uid;
		p->gid = st.st_gid;
	}
}

static int who(struct backend_plan *p, struct err *e)
{
	const char *user = p->spec->docker.user;

	/* One that only a dialect brings along is a name for whoever may write the workspace. */
	if (p->spec->user.given && spec_wrote(p->spec, FIELD_USER)) {
		p->uid = p->spec->user.uid;
		p->gid = p->spec->user.gid;
	} else if (user && !*user) {
		p->user = DOCKER_USER_IMAGE;
	} else if (user && !str_eq(user, "auto")) {
		if (parse_ids(p, user, e) < 0)
			return -e->code;
	} else {
		auto_ids(p);
	}
	if (p->spec->companion && (p->user == DOCKER_USER_IMAGE || p->uid == 0))
		return err_refuse(e, ERR_POLICY, EPERM, "leave 'user' out, or name another one",
				  "a companion is never root inside");
	p->box->uid = p->uid;
	p->box->gid = p->gid;
	if (p->user == DOCKER_USER_IMAGE || p->uid == 0)
		plan_note(p->box, "the command may be root inside the container: files it makes "
				  "may belong to root");
	return 0;
}

static bool may_write(const struct stat *st, uint32_t uid, uint32_t gid)
{
	mode_t need = uid == st->st_uid ? 0300 : gid == st->st_gid ? 0030 : 0003;

	return uid == 0 || (st->st_mode & need) == need;
}

int docker_not_writable(const struct backend_plan *p, struct err *e)
{
	struct stat st = { 0 };
	char word[160];

	(void)stat(p->box->workspace, &st);
	(void)err_set(e, ERR_PERMISSION, EACCES,
		      "Permission denied: user %u in the container cannot write to '%s' (owner "
		      "%u)",
		      p->uid, p->box->workspace, st.st_uid);
	if (st.st_uid == p->uid)
		return err_hint(e, "use --policy readonly, or: chmod u+rwx %s",
				str_shell_word(p->box->workspace, word, sizeof(word)));
	return err_hint(e, "use --policy readonly, or: sudo chown -R %u:%u %s", p->uid, p->gid,
			str_shell_word(p->box->workspace, word, sizeof(word)));
}

/* The command could not even begin to write: say so before it starts. Root may show the workspace
 * as if it were the command's, which on disk it is not. */
static int check_writable(struct backend_plan *p, struct err *e)
{
	struct stat st;

	if (!p->box->workspace || p->user != DOCKER_USER_IDS ||
	    p->spec->policy != POLICY_WORKSPACE_WRITE)
		return 0;
	if (stat(p->box->workspace, &st) < 0)
		return err_sys(e, "cannot look at '%s'", p->box->workspace);
	if (may_write(&st, p->uid, p->gid))
		return 0;
	p->map_work = p->user_auto && geteuid() == 0;
	p->disk_uid = st.st_uid;
	p->disk_gid = st.st_gid;
	return p->map_work ? 0 : docker_not_writable(p, e);
}

/* ---- what it may use ---- */

static int add_tmpfs(struct backend_plan *p, struct tmpfs_want t, struct err *e)
{
	struct tmpfs_want *slot = ARENA_PUSH(p->box->arena, p->tmpfs, p->tmpfs_count);

	if (!slot)
		return err_nomem(e);
	*slot = t;
	return 0;
}

static uint64_t within_disk(const struct spec *s, uint64_t size)
{
	return s->limits.disk && s->limits.disk < size ? s->limits.disk : size;
}

/* What is in a kept HOME belongs to whoever clears it: the caller, or root, who shows it as the
 * command's. */
static int check_home(struct backend_plan *p, struct err *e)
{
	bool known = p->user == DOCKER_USER_IDS;

	if (!p->spec->home_folder)
		return 0;
	p->map_home = known && geteuid() == 0 && p->uid != 0;
	if (known && (geteuid() == 0 || p->uid == geteuid()))
		return 0;
	return err_refuse(e, ERR_POLICY, EPERM, "leave docker.user and --user out",
			  "home 'keep' needs a user in the container who is the caller: its files "
			  "would be somebody else's");
}

/* A companion's data belongs to the user inside; only root can give it to somebody else. */
static int check_data(const struct backend_plan *p, struct err *e)
{
	if (!p->spec->data_folder || geteuid() == 0 || p->uid == geteuid())
		return 0;
	return err_refuse(e, ERR_POLICY, EPERM, "leave its 'user' out",
			  "'data' needs a user in the container who is the caller: its files would "
			  "be somebody else's");
}

static int private_folders(struct backend_plan *p, struct err *e)
{
	const struct spec *s = p->spec;
	uint64_t home = within_disk(s, spec_wrote(s, FIELD_TMP) ? s->limits.tmp : HOME_DEFAULT);
	/* brig's own default for /tmp is the native backend's; containers have the seeds' one. */
	bool sized = s->origin[FIELD_TMP] != ORIGIN_DEFAULT;
	bool told = s->origin[FIELD_TMP_EXEC] != ORIGIN_DEFAULT;
	const struct tmpfs_want tmp = { .path = "/tmp",
					.size = within_disk(s, sized ? s->limits.tmp : TMP_DEFAULT),
					.mode = 01777,
					.exec = told && s->tmp_exec };

	if (s->read_only_root && !docker_is_mounted(p, tmp.path) && add_tmpfs(p, tmp, e) < 0)
		return -e->code;
	if (!docker_is_mounted(p, p->box->home) &&
	    add_tmpfs(p,
		      (struct tmpfs_want){ .path = p->box->home,
					   .size = home,
					   .mode = 0700,
					   .exec = true,
					   .owned = true },
		      e) < 0)
		return -e->code;
	if (p->box->workspace || docker_is_mounted(p, s->inside))
		return 0;
	return add_tmpfs(p,
			 (struct tmpfs_want){ .path = s->inside,
					      .size = home,
					      .mode = 0755,
					      .exec = true,
					      .owned = true },
			 e);
}

static int add_ulimit(struct backend_plan *p, const char *name, uint64_t v, struct err *e)
{
	struct ulimit_want *slot = ARENA_PUSH(p->box->arena, p->ulimits, p->ulimit_count);

	if (!slot)
		return err_nomem(e);
	*slot = (struct ulimit_want){ .name = name, .soft = v, .hard = v };
	return 0;
}

static int gpu_ids(struct backend_plan *p, struct err *e)
{
	const struct strlist *which = &p->spec->gpu;
	const char **ids = arena_alloc(p->box->arena, which->n * sizeof(*ids));

	if (!which->n)
		return 0;
	if (!ids)
		return err_nomem(e);
	for (size_t i = 0; i < which->n; i++) {
		if (strchr(which->v[i], '/'))
			return err_refuse(
				e, ERR_UNAVAILABLE, ENOTSUP,
				"by its own id, MIG-...: nvidia-smi -L",
				"gpu '%.60s': an engine knows a MIG device by its id alone",
				which->v[i]);
		ids[i] = arena_strdup(p->box->arena, which->v[i]);
		if (!ids[i])
			return err_nomem(e);
	}
	p->tune.gpu_ids = ids;
	p->tune.gpus = which->n;
	return 0;
}

static int docker_plan_limits(struct backend_plan *p, struct err *e)
{
	const struct limits *l = &p->spec->limits;
	uint64_t tmp = l->tmp < SHM_MAX ? l->tmp : SHM_MAX;

	p->root_asked = spec_wrote(p->spec, FIELD_READ_ONLY_ROOT);
	p->tune = (struct tuning){
		.memory = l->memory,
		.memory_swap = l->memory, /* the sum of both: no swap */
		.cpu_shares = l->cpu_shares,
		.nano_cpus = l->cpus * 1000000,
		.pids = l->pids + 1, /* init comes on top */
		.shm = tmp,
		.read_only = p->spec->read_only_root,
		.gpus = p->spec->gpus,
	};
	/* One byte, not none: see the native plan. */
	if (gpu_ids(p, e) < 0 || add_ulimit(p, "core", 1, e) < 0)
		return -e->code;
	/* A backstop between two looks of the watch. */
	if (l->disk && add_ulimit(p, "fsize", l->disk * 2, e) < 0)
		return -e->code;
	return add_ulimit(p, "nofile", l->files, e);
}

static int mark(struct backend_plan *p, const char *name, const char *value, struct err *e)
{
	struct envvar *slot = value ? ARENA_PUSH(p->box->arena, p->labels, p->label_count) : NULL;

	if (slot)
		*slot = (struct envvar){ .name = name, .value = value };
	return slot || !value ? 0 : err_nomem(e);
}

static int labels(struct backend_plan *p, struct err *e)
{
	struct arena *a = p->box->arena;

	if (mark(p, DOCKER_LABEL_SANDBOX, p->spec->sandbox, e) < 0 ||
	    mark(p, DOCKER_LABEL_INSTANCE, p->spec->instance, e) < 0)
		return -e->code;
	for (size_t i = 0; i < p->spec->labels.n; i++) {
		struct envvar *slot = ARENA_PUSH(a, p->labels, p->label_count);

		if (!slot)
			return err_nomem(e);
		*slot = p->spec->labels.v[i];
		slot->name = arena_printf(a, "brig.user.%s", slot->name);
		if (!slot->name)
			return err_nomem(e);
	}
	return 0;
}

/* ---- variables ---- */

static bool has_variable(const struct box_plan *b, const char *name)
{
	size_t n = strlen(name);

	for (const char **v = b->envp; *v; v++)
		if (strncmp(*v, name, n) == 0 && (*v)[n] == '=')
			return true;
	return false;
}

static bool wrote_variable(const struct spec *s, const char *name)
{
	for (size_t i = 0; i < s->env.n; i++)
		if (str_eq(s->env.v[i].name, name))
			return true;
	for (size_t i = 0; i < s->env_pass.n; i++)
		if (str_eq(s->env_pass.v[i], name))
			return true;
	return false;
}

/* The image knows its own PATH; the tools' caches go where the command may write. go runs what it
 * builds, and /tmp may be noexec. */
static int docker_plan_variables(struct backend_plan *p, struct err *e)
{
	static const struct {
		const char *name, *below;
	} caches[] = { { "XDG_CACHE_HOME", "/.cache" },
		       { "CARGO_HOME", "/.cargo" },
		       { "GOPATH", "/go" },
		       { "GOTMPDIR", "" } };
	static const char *const engines[] = { "DOCKER_HOST", "CONTAINER_HOST" };
	struct box_plan *b = p->box;
	size_t n = 0, kept = 0;
	const char **v;

	for (size_t i = 0; i < ARRAY_LEN(engines); i++)
		if (wrote_variable(p->spec, engines[i]))
			return err_refuse(e, ERR_POLICY, EPERM,
					  "an engine is root on its machine: no run may have it",
					  "variable '%s' would show the command an engine",
					  engines[i]);
	while (b->envp[n])
		n++;
	v = arena_alloc(b->arena, (n + ARRAY_LEN(caches) + 1) * sizeof(*v));
	if (!v)
		return err_nomem(e);
	for (size_t i = 0; i < n; i++)
		if (!str_starts(b->envp[i], "PATH=") || wrote_variable(p->spec, "PATH"))
			v[kept++] = b->envp[i];
	b->envp = v;
	for (size_t i = 0; i < ARRAY_LEN(caches); i++) {
		if (has_variable(b, caches[i].name))
			continue;
		v[kept] =
			arena_printf(b->arena, "%s=%s%s", caches[i].name, b->home, caches[i].below);
		if (!v[kept++])
			return err_nomem(e);
	}
	return 0;
}

/* An agents-sandbox is told whose files it works on. */
static int host_ids(struct backend_plan *p, struct err *e)
{
	struct arena *a = p->box->arena;
	const char *more[] = { arena_printf(a, "HOST_UID=%u", p->uid),
			       arena_printf(a, "HOST_GID=%u", p->gid), NULL };

	if ((p->spec->dialect_used != DIALECT_AGENTS && !p->spec->stays) ||
	    p->user == DOCKER_USER_IMAGE)
		return 0;
	return more[0] && more[1] ? box_plan_variables(p->box, more, e) : err_nomem(e);
}

/* The image's own settings stand first, so that the caller's win. */
static int git_settings(struct backend_plan *p, struct err *e)
{
	static const char *const more[] = { "GIT_CONFIG_SYSTEM=" DOCKER_GIT, NULL };
	const char *text;

	if (wrote_variable(p->spec, "GIT_CONFIG_SYSTEM"))
		return 0;
	if (box_plan_git(p->box, p->spec, &text, e) < 0)
		return -e->code;
	if (!*text)
		return 0;
	p->git = arena_printf(p->box->arena, "[include]\n\tpath = /etc/gitconfig\n%s", text);
	return p->git ? box_plan_variables(p->box, more, e) : err_nomem(e);
}

/* ---- what must not be shown ---- */

/* Both by the path as written and by where its folder really is: /var/run is a link. */
static bool docker_plan_shows(const struct op *o, const char *socket)
{
	char folder[PATH_MAX], real[PATH_MAX];
	const char *slash = strrchr(socket, '/');

	if (path_under(socket, o->src))
		return true;
	(void)snprintf(folder, sizeof(folder), "%.*s", (int)(slash - socket), socket);
	return realpath(folder, real) && path_under(real, o->src);
}

static int check_sockets(const struct backend_plan *p, struct err *e)
{
	struct engine_places at;

	if (engine_places(p->box->arena, &at, e) < 0)
		return -e->code;
	for (size_t i = 0; i < p->box->op_count; i++) {
		const struct op *o = &p->box->ops[i];

		for (size_t k = 0; o->kind == OP_BIND && k < at.n; k++)
			if (docker_plan_shows(o, at.path[k]))
				return err_refuse(e, ERR_POLICY, EPERM,
						  "an engine is root on its machine: mount a "
						  "folder that does not hold its socket",
						  "'%s' would show the command the engine's socket "
						  "'%s'",
						  o->src, at.path[k]);
	}
	return 0;
}

/* The engine's language is JSON: other bytes would arrive as something else, a path as the path of
 * another folder. */
static int check_utf8(const char *text, const char *what, struct err *e)
{
	for (size_t at = 0, n = strlen(text), len; at < n; at += len) {
		len = utf8_len(text + at, n - at);
		if (!len)
			return err_refuse(e, ERR_UNAVAILABLE, EILSEQ, "backend 'native' can",
					  "backend 'docker' cannot honour %s that are not UTF-8",
					  what);
	}
	return 0;
}

static int check_text(const struct backend_plan *p, struct err *e)
{
	const char *const *const lists[] = { p->box->argv, (const char *const *)p->box->envp };

	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		for (const char *const *v = lists[i]; v && *v; v++)
			if (check_utf8(*v, i ? "variables" : "arguments", e) < 0)
				return -e->code;
	for (size_t i = 0; i < p->box->op_count; i++) {
		const struct op *o = &p->box->ops[i];

		if ((o->src && check_utf8(o->src, "paths", e) < 0) ||
		    (o->dst && check_utf8(o->dst, "paths", e) < 0))
			return -e->code;
	}
	return 0;
}

static int check_image(const struct backend_plan *p, struct err *e)
{
	if (image_valid(p->image))
		return 0;
	return err_refuse(e, ERR_CONFIG, EINVAL,
			  "such as python:3.12-slim or registry.example/team/tool@sha256:...",
			  "'%.100s' is not the name of an image", p->image);
}

/* gVisor and Kata have a kernel of their own: no process and no socket of theirs is one of ours. */
bool docker_shares_kernel(const struct backend_plan *p)
{
	static const char *const able[] = { "runc", "crun", "youki", "io.containerd.runc.v2" };

	for (size_t i = 0; p->runtime && i < ARRAY_LEN(able); i++)
		if (str_eq(p->runtime, able[i]))
			return true;
	return !p->runtime;
}

static int check_disk(const struct backend_plan *p, struct err *e)
{
	if (!p->spec->limits.disk || docker_shares_kernel(p))
		return 0;
	return err_refuse(
		e, ERR_UNAVAILABLE, ENOTSUP, "use runtime runc, or leave the limit out",
		"limits.disk cannot be enforced with runtime '%.64s': nobody counts what its "
		"processes write",
		p->runtime);
}

/* ---- the door ---- */

static int check_door_runtime(const struct backend_plan *p, struct err *e)
{
	if (docker_shares_kernel(p))
		return 0;
	if (p->box->network == NETWORK_NONE)
		return err_refuse(
			e, ERR_UNAVAILABLE, ENOTSUP, "use runtime runc",
			"companions are not available with runtime '%.64s': its containers "
			"do not use this kernel's network",
			p->runtime);
	(void)err_set(e, ERR_UNAVAILABLE, ENOTSUP,
		      "network '%s' is not available with runtime '%.64s': its containers do "
		      "not use this kernel's network",
		      fields[FIELD_NETWORK].words[p->box->network], p->runtime);
	return err_hint(e, "use runtime runc, or --network none with '%.64s'", p->runtime);
}

/* Nothing of the user's lies over what the door shows, and no mount point is made in a host tree.
 */
static int check_door(const struct backend_plan *p, struct err *e)
{
	static const char *const shown[] = { DOOR_ROOTS, "/etc/resolv.conf", "/etc/hosts" };

	for (size_t i = 0; i < p->box->op_count; i++)
		for (size_t k = 0; k < ARRAY_LEN(shown); k++)
			if (p->box->ops[i].kind == OP_BIND &&
			    path_under(shown[k], p->box->ops[i].dst))
				return err_refuse(e, ERR_POLICY, EPERM, "choose another target",
						  "'%s' cannot be mounted under network %s: brig "
						  "shows '%s'",
						  p->box->ops[i].dst,
						  fields[FIELD_NETWORK].words[p->box->network],
						  shown[k]);
	return check_door_runtime(p, e);
}

/* ---- companions ---- */

static int members(struct backend_plan *p, struct err *e)
{
	const struct memberlist *l = &p->spec->members;

	p->companion = p->spec->companion;
	for (size_t i = 0; i < l->n; i++) {
		p->members = arena_printf(p->box->arena, "%s%s %s\n", p->members ? p->members : "",
					  l->v[i].address, l->v[i].name);
		if (!p->members)
			return err_nomem(e);
	}
	return 0;
}

/* ---- where the workspace is ---- */

static int docker_plan_ask(struct backend_plan *p, const char *path, struct err *e)
{
	const char **slot;

	if (!path_under(path, p->box->repository))
		return 0;
	slot = ARENA_PUSH(p->box->arena, p->asked, p->asked_count);
	if (!slot)
		return err_nomem(e);
	*slot = path;
	return 0;
}

/* For a workspace that the image does not let be at its own path: see move.c. */
static int places(struct backend_plan *p, struct err *e)
{
	const struct spec *s = p->spec;

	p->at_own_path = str_eq(s->target, WORKSPACE_SAME);
	p->movable = p->at_own_path && !spec_wrote(s, FIELD_TARGET) &&
		     !(code_is_file(s) && path_under(s->command.code.path, p->box->cwd));
	if (!p->box->repository)
		return 0;
	for (size_t i = 0; i < s->read.n; i++) {
		p->shows_repository |= str_eq(s->read.v[i], p->box->repository);
		if (docker_plan_ask(p, s->read.v[i], e) < 0)
			return -e->code;
	}
	for (size_t i = 0; i < s->write.n; i++)
		if (docker_plan_ask(p, s->write.v[i], e) < 0)
			return -e->code;
	for (size_t i = 0; i < s->mounts.n; i++)
		if (docker_plan_ask(p, s->mounts.v[i].target, e) < 0)
			return -e->code;
	return 0;
}

/* ---- all of it ---- */

static int docker_plan_fill(struct backend_plan *p, struct err *e)
{
	const struct spec *s = p->spec;

	p->image = s->image ? s->image : s->docker.image ? s->docker.image : DOCKER_DEFAULT_IMAGE;
	p->runtime = s->runtime ? s->runtime : s->docker.runtime;
	p->auto_pull = s->docker.auto_pull;
	p->ironclaw = s->dialect_used == DIALECT_IRONCLAW;
	p->tty = s->command.tty;
	p->publishes = s->ports.n;
	if (check_text(p, e) < 0 || check_image(p, e) < 0 || check_disk(p, e) < 0 ||
	    who(p, e) < 0 || check_writable(p, e) < 0 || check_home(p, e) < 0 ||
	    check_data(p, e) < 0 || check_sockets(p, e) < 0)
		return -e->code;
	if (private_folders(p, e) < 0 || docker_plan_limits(p, e) < 0 || labels(p, e) < 0 ||
	    docker_plan_variables(p, e) < 0 || host_ids(p, e) < 0 || git_settings(p, e) < 0 ||
	    box_plan_ssh(p->box, p->spec, &p->ssh, e) < 0)
		return -e->code;
	if (docker_plan_extra(p, e) < 0 || places(p, e) < 0 || members(p, e) < 0)
		return -e->code;
	if (docker_has_door(p) && check_door(p, e) < 0)
		return -e->code;
	if (s->network == NETWORK_HOST)
		plan_note(p->box, "network host: the command reaches whatever this machine "
				  "reaches, its own services included");
	return 0;
}

int docker_plan(const struct spec *s, struct backend_plan **ret, const char *const **notes,
		struct err *e)
{
	CLEANUP(docker_plan) struct backend_plan *p = calloc(1, sizeof(*p));

	if (!p)
		return err_nomem(e);
	p->spec = s;
	if (s->toolchains) /* the host's programs are no part of an image */
		return backend_cannot(s, "docker", FIELD_TOOLCHAINS, "true", e);
	if (box_plan_trees(s, "docker", &p->box, e) < 0 || docker_plan_fill(p, e) < 0)
		return -e->code;
	p->spec = NULL;
	if (notes)
		*notes = p->box->notes;
	*ret = TAKE_PTR(p);
	return 0;
}

void docker_plan_json(const struct backend_plan *p, struct json *j)
{
	const struct body_run r = { .id = "ID",
				    .nonce = "NONCE",
				    .tty = p->tty,
				    .files = "ID",
				    .network = "brig-ID",
				    .door = "brig-ID-door",
				    .helper = DOOR_HELPER,
				    .filter = "brig",
				    .gate = GATE_PROGRAM,
				    .gate_inside = "/.brig-GATE",
				    .seccomp = "brig" };

	json_object(j);
	json_ku64(j, "schema", 1);
	json_kstr(j, "backend", "docker");
	json_kstr(j, "policy", fields[FIELD_POLICY].words[p->box->policy]);
	json_kstr(j, "network", fields[FIELD_NETWORK].words[p->box->network]);
	json_kstr(j, "image", p->image);
	json_kbool(j, "auto_pull", p->auto_pull);
	if (p->map_work)
		json_kbool(j, "idmapped", true);
	json_kstr(j, "seccomp", fields[FIELD_PROFILE].words[p->box->profile]);
	json_ku64(j, "timeout_ms", p->box->timeout);
	json_key(j, "create");
	docker_body(p, &r, j);
	if (docker_has_door(p)) {
		json_key(j, "door");
		docker_door_body(p, &r, j);
	}
	json_object_end(j);
}

struct backend_plan *docker_plan_free(struct backend_plan *p)
{
	if (p)
		p->box = box_plan_free(p->box);
	free(p);
	return NULL;
}
