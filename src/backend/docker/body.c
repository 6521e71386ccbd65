/* SPDX-License-Identifier: Apache-2.0 */
/* backend/docker/body.c - a plan as the engine wants to hear it. Whatever holds in every run is
 * written here, not in the plan, so that no setting can leave it out. */
#include <string.h>

#include "backend/docker/docker.h"
#include "backend/docker/engine/seccomp_json.h"
#include "backend/docker/gate/gate.h"
#include "backend/kit/seccomp/seccomp.h"
#include "base/text/str.h"
#include "model/known/ssh_pins.h"
#include "model/request/code.h"
#include "model/settings/paths.h"

#define SECCOMP_MAX ((size_t)1 << 20)
#define NPROC_ROOM 4096
#define PODMAN_EMPTY "ro,noexec,nosuid,nodev,size=4096,mode=0755,notmpcopyup"

static void strings(struct json *j, const char *key, const char *const *v, size_t n)
{
	json_karray(j, key);
	for (size_t i = 0; i < n; i++)
		json_str(j, v[i]);
	json_array_end(j);
}

static size_t length(const char *const *v)
{
	size_t n = 0;

	while (v && v[n])
		n++;
	return n;
}

/* Where the engine finds what a bind shows. */
static const char *source(const struct backend_plan *p, const struct body_run *r,
			  const struct op *o)
{
	bool mapped = r->work && p->box->workspace && str_eq(o->src, p->box->workspace);

	if (o->kept && !o->stored && r->home)
		return r->home;
	return mapped ? r->work : o->src;
}

/* The host path behind a path inside, or NULL. */
static const char *host_path(const struct backend_plan *p, const struct body_run *r,
			     const char *inside)
{
	for (size_t i = p->box->op_count; i-- > 0;) {
		const struct op *o = &p->box->ops[i];

		if (o->kind == OP_BIND && path_under(inside, o->dst))
			return arena_printf(p->box->arena, "%s%s", source(p, r, o),
					    inside + strlen(o->dst));
	}
	return NULL;
}

/* ---- mounts ---- */

/* What lies below a read-only tree on a mount of its own would be writable: it is left out. */
static void bind(struct json *j, const char *src, const char *dst, bool writable)
{
	json_object(j);
	json_kstr(j, "Type", "bind");
	json_kstr(j, "Source", src);
	json_kstr(j, "Target", dst);
	json_kbool(j, "ReadOnly", !writable);
	json_kobject(j, "BindOptions");
	json_kstr(j, "Propagation", "rprivate");
	if (!writable)
		json_kbool(j, "NonRecursive", true);
	json_object_end(j);
	json_object_end(j);
}

/* An empty folder over one that a tree shows, such as brig's own record. Masks of the root are the
 * engine's. Podman would fill it with what it hides: see masks(). */
static void mask(const struct backend_plan *p, const struct body_run *r, const char *dst,
		 struct json *j)
{
	if (r->podman || !host_path(p, r, dst))
		return;
	json_object(j);
	json_kstr(j, "Type", "tmpfs");
	json_kstr(j, "Target", dst);
	json_kbool(j, "ReadOnly", true);
	json_object_end(j);
}

static void op(const struct backend_plan *p, const struct body_run *r, const struct op *o,
	       struct json *j)
{
	if (o->skip)
		return;
	if (o->kind == OP_CODE && r->files)
		bind(j, arena_printf(p->box->arena, "%s.code", r->files), o->dst, false);
	if (o->kind == OP_BIND)
		bind(j, source(p, r, o), o->dst, o->writable);
	else if (o->kind == OP_COVER && !str_eq(o->dst, CODE_FOLDER)) /* root's, as the root is */
		bind(j, host_path(p, r, o->dst), o->dst, o->writable);
	else if (o->kind == OP_HIDE)
		bind(j, "/dev/null", o->dst, false);
	else if (o->kind == OP_MASK)
		mask(p, r, o->dst, j);
}

/* Names and certificates as the door has them, over the image's and the engine's own. */
static void door_files(const struct backend_plan *p, const struct body_run *r, struct json *j)
{
	const char *roots = arena_printf(p->box->arena, "%s.roots", r->files);

	bind(j, arena_printf(p->box->arena, "%s.resolv", r->files), "/etc/resolv.conf", false);
	bind(j, arena_printf(p->box->arena, "%s.hosts", r->files), "/etc/hosts", false);
	if (!p->box->door)
		return;
	bind(j, roots, DOOR_ROOTS, false);
	for (size_t i = 0; i < r->bundle_count; i++)
		bind(j, roots, r->bundles[i], false);
}

static void mounts(const struct backend_plan *p, const struct body_run *r, struct json *j)
{
	static const char *const files[] = { "passwd", "group" };

	json_karray(j, "Mounts");
	for (size_t i = 0; i < p->box->op_count; i++)
		op(p, r, &p->box->ops[i], j);
	for (size_t i = 0; r->files && p->user == DOCKER_USER_IDS && i < ARRAY_LEN(files); i++)
		bind(j, arena_printf(p->box->arena, "%s.%s", r->files, files[i]),
		     arena_printf(p->box->arena, "/etc/%s", files[i]), false);
	if (r->files && p->git)
		bind(j, arena_printf(p->box->arena, "%s.git", r->files), DOCKER_GIT, false);
	if (r->files && p->ssh.config) {
		bind(j, arena_printf(p->box->arena, "%s.ssh", r->files), SSH_CONFIG_INSIDE, false);
		bind(j, arena_printf(p->box->arena, "%s.known", r->files), SSH_KNOWN_INSIDE, false);
	}
	if (docker_has_door(p))
		door_files(p, r, j);
	bind(j, r->gate, r->gate_inside, false);
	if (r->line)
		bind(j, arena_printf(p->box->arena, "%s.line", r->files),
		     arena_printf(p->box->arena, "%s%s", r->gate_inside, GATE_LINE), false);
	json_array_end(j);
}

static void one_tmpfs(const struct backend_plan *p, const struct body_run *r,
		      const struct tmpfs_want *t, struct json *j)
{
	CLEANUP(buf) struct buf b = BUF_INIT(1024);
	bool known = p->user == DOCKER_USER_IDS && !r->podman;

	if (t->plain) {
		json_kstr(j, t->path, t->options);
		return;
	}
	/* Podman takes no ids here, and an image's user is not known: such a folder is everybody's,
	 * and there is but one. */
	buf_printf(&b, "rw,%s,nosuid,nodev,size=%llu,mode=%04o", t->exec ? "exec" : "noexec",
		   (unsigned long long)t->size, t->owned && !known ? 01777 : t->mode);
	if (t->owned && known)
		buf_printf(&b, ",uid=%u,gid=%u", p->uid, p->gid);
	if (r->podman)
		buf_puts(&b, ",notmpcopyup");
	json_kstr(j, t->path, buf_str(&b));
}

bool docker_is_mounted(const struct backend_plan *p, const char *path)
{
	for (size_t i = 0; i < p->box->op_count; i++)
		if (p->box->ops[i].kind == OP_BIND && str_eq(p->box->ops[i].dst, path))
			return true;
	for (size_t i = 0; i < p->tmpfs_count; i++)
		if (str_eq(p->tmpfs[i].path, path))
			return true;
	return false;
}

/* The engine would make a folder of its own for each, with what the image has there. */
static void over_volumes(const struct backend_plan *p, const struct body_run *r, struct json *j)
{
	for (size_t i = 0; i < r->volume_count; i++) {
		const struct tmpfs_want t = { .path = r->volumes[i],
					      .size = (uint64_t)64 << 20,
					      .mode = 01777 };

		if (!docker_is_mounted(p, r->volumes[i]))
			one_tmpfs(p, r, &t, j);
	}
}

/* For Podman, which takes the word that keeps it from copying only here. */
static void masks(const struct backend_plan *p, const struct body_run *r, struct json *j)
{
	for (size_t i = 0; r->podman && i < p->box->op_count; i++) {
		const struct op *o = &p->box->ops[i];

		if (o->kind == OP_MASK && !o->skip && host_path(p, r, o->dst))
			json_kstr(j, o->dst, PODMAN_EMPTY);
	}
}

static void tmpfs(const struct backend_plan *p, const struct body_run *r, struct json *j)
{
	json_kobject(j, "Tmpfs");
	for (size_t i = 0; i < p->tmpfs_count; i++)
		one_tmpfs(p, r, &p->tmpfs[i], j);
	over_volumes(p, r, j);
	masks(p, r, j);
	json_object_end(j);
}

/* ---- the rest of HostConfig ---- */

static void security(const struct backend_plan *p, const struct body_run *r, bool door,
		     struct json *j)
{
	CLEANUP(buf) struct buf b = BUF_INIT(SECCOMP_MAX);
	const char *file = door ? r->filter : r->seccomp;
	struct json profile;

	buf_puts(&b, "seccomp=");
	json_init(&profile, &b, false);
	if (file)
		buf_puts(&b, file);
	else if (door)
		seccomp_json_door(&profile);
	else
		seccomp_json((enum seccomp_profile)p->box->profile, &profile);
	json_karray(j, "SecurityOpt");
	json_str(j, "no-new-privileges");
	json_str(j, buf_str(&b));
	if (door) /* its socket has the guard's label, not a container's */
		json_str(j, "label=disable");
	json_array_end(j);
}

static void body_number(struct json *j, const char *key, uint64_t v)
{
	if (v)
		json_ku64(j, key, v);
}

/* Podman would ask for a million, which not every service may have. It must not be met before the
 * control group's limit, which is told, and counts the init of the container as well. Without a
 * user namespace it would count processes of that user's elsewhere, too. */
static uint64_t nproc(const struct backend_plan *p, const struct body_run *r)
{
	uint64_t n = p->tune.pids + 2;

	return r->rootless || n > NPROC_ROOM ? n : NPROC_ROOM;
}

static void ulimit(struct json *j, const char *name, uint64_t soft, uint64_t hard)
{
	json_object(j);
	json_kstr(j, "Name", name);
	json_ku64(j, "Soft", soft);
	json_ku64(j, "Hard", hard);
	json_object_end(j);
}

static bool has_ulimit(const struct backend_plan *p, const char *name)
{
	for (size_t i = 0; i < p->ulimit_count; i++)
		if (str_eq(p->ulimits[i].name, name))
			return true;
	return false;
}

static void body_limits(const struct backend_plan *p, const struct body_run *r, struct json *j)
{
	const struct tuning *t = &p->tune;

	body_number(j, "Memory", t->memory);
	body_number(j, "MemorySwap", t->memory_swap);
	body_number(j, "MemoryReservation", t->reservation);
	if (t->has_swappiness)
		json_ku64(j, "MemorySwappiness", t->swappiness);
	body_number(j, "PidsLimit", t->pids);
	body_number(j, "NanoCpus", t->nano_cpus);
	body_number(j, "CpuShares", t->cpu_shares);
	body_number(j, "CpuPeriod", t->cpu_period);
	body_number(j, "CpuQuota", t->cpu_quota);
	if (t->cpuset_cpus)
		json_kstr(j, "CpusetCpus", t->cpuset_cpus);
	if (t->cpuset_mems)
		json_kstr(j, "CpusetMems", t->cpuset_mems);
	body_number(j, "ShmSize", t->shm);
	if (t->has_oom_score)
		json_ku64(j, "OomScoreAdj", t->oom_score);
	json_karray(j, "Ulimits");
	for (size_t i = 0; i < p->ulimit_count; i++)
		ulimit(j, p->ulimits[i].name, p->ulimits[i].soft, p->ulimits[i].hard);
	if (r->podman && !has_ulimit(p, "nproc"))
		ulimit(j, "nproc", nproc(p, r), nproc(p, r));
	json_array_end(j);
}

static const char *network_mode(const struct backend_plan *p, const struct body_run *r)
{
	if (p->box->network == NETWORK_HOST)
		return "host";
	return docker_has_door(p) ? arena_printf(p->box->arena, "container:%s", r->door) : "none";
}

static const char *hostname(const struct backend_plan *p)
{
	return p->tune.hostname ? p->tune.hostname : p->box->hostname;
}

/* The stream is ours alone: a copy on the host's disk would have no limit. */
static void no_log(struct json *j)
{
	json_kobject(j, "LogConfig");
	json_kstr(j, "Type", "none");
	json_object_end(j);
}

static void no_health_check(struct json *j)
{
	json_kobject(j, "Healthcheck");
	strings(j, "Test", (const char *const[]){ "NONE" }, 1);
	json_object_end(j);
}

/* -1 is the engine's word for all of them. */
static void gpus(const struct tuning *t, struct json *j)
{
	json_karray(j, "DeviceRequests");
	json_object(j);
	if (t->gpu_ids) {
		strings(j, "DeviceIDs", (const char *const *)t->gpu_ids, t->gpus);
	} else {
		json_key(j, "Count");
		json_i64(j, t->gpus == FIELD_ALL ? -1 : (int64_t)t->gpus);
	}
	json_karray(j, "Capabilities");
	json_array(j);
	json_str(j, "gpu");
	json_array_end(j);
	json_array_end(j);
	json_object_end(j);
	json_array_end(j);
}

static void host_config(const struct backend_plan *p, const struct body_run *r, struct json *j)
{
	json_kobject(j, "HostConfig");
	json_kbool(j, "Init", false); /* the gate is */
	json_kbool(j, "Privileged", false);
	json_kbool(j, "PublishAllPorts", false);
	strings(j, "CapDrop", (const char *const[]){ "ALL" }, 1);
	if (docker_lends(p, r->rootless, r->podman))
		strings(j, "CapAdd", (const char *const[]){ DOCKER_LENT }, 1);
	security(p, r, false, j);
	json_kbool(j, "ReadonlyRootfs", p->tune.read_only);
	json_kstr(j, "NetworkMode", network_mode(p, r));
	json_kstr(j, "IpcMode", "private");
	json_kstr(j, "CgroupnsMode", "private");
	/* Whoever joins a network must be of the user namespace that owns it: else no /sys. */
	if (r->podman && r->rootless)
		json_kstr(j, "UsernsMode",
			  docker_has_door(p) ? arena_printf(p->box->arena, "container:%s", r->door)
					     : "keep-id");
	if (p->runtime)
		json_kstr(j, "Runtime", p->runtime);
	body_limits(p, r, j);
	tmpfs(p, r, j);
	mounts(p, r, j);
	if (p->tune.gpus)
		gpus(&p->tune, j);
	if (r->tty && r->rows && r->api >= 42) {
		json_karray(j, "ConsoleSize");
		json_u64(j, r->rows);
		json_u64(j, r->cols);
		json_array_end(j);
	}
	no_log(j);
	json_object_end(j);
}

static bool is_own_label(const struct backend_plan *p, const char *name)
{
	for (size_t i = 0; i < p->label_count; i++)
		if (str_eq(p->labels[i].name, name))
			return true;
	return str_eq(name, DOCKER_LABEL_RUN) || str_eq(name, DOCKER_LABEL_NONCE);
}

static void labels(const struct backend_plan *p, const struct body_run *r, struct json *j)
{
	json_kobject(j, "Labels");
	for (size_t i = 0; i < p->label_count; i++)
		json_kstr(j, p->labels[i].name, p->labels[i].value);
	for (size_t i = 0; r->labels && i < r->labels->n; i++)
		if (!is_own_label(p, r->labels->v[i]))
			json_kstr(j, r->labels->v[i], "");
	json_kstr(j, DOCKER_LABEL_RUN, r->id);
	json_kstr(j, DOCKER_LABEL_NONCE, r->nonce);
	json_object_end(j);
}

/* In a rootless Docker's user namespace root is whoever started the engine, and files of the
 * workspace are that user's only so. Podman maps the caller to itself instead. */
bool docker_is_owner(const struct backend_plan *p, bool rootless, bool podman)
{
	return p->user_auto && rootless && !podman;
}

bool docker_lends(const struct backend_plan *p, bool rootless, bool podman)
{
	return docker_is_owner(p, rootless, podman) && docker_shares_kernel(p);
}

static void user(const struct backend_plan *p, const struct body_run *r, struct json *j)
{
	bool owner = docker_is_owner(p, r->rootless, r->podman);

	if (p->user == DOCKER_USER_IDS)
		json_kstr(j, "User",
			  arena_printf(p->box->arena, "%u:%u", owner ? 0 : p->uid,
				       owner ? 0 : p->gid));
}

void docker_body(const struct backend_plan *p, const struct body_run *r, struct json *j)
{
	const struct box_plan *b = p->box;

	json_object(j);
	json_kstr(j, "Image", r->image_id ? r->image_id : p->image);
	/* An entry point of the image's own would decide what runs. */
	strings(j, "Entrypoint", &r->gate_inside, 1);
	strings(j, "Cmd", b->argv, length(b->argv));
	user(p, r, j);
	json_kstr(j, "WorkingDir", b->cwd);
	strings(j, "Env", b->envp, length(b->envp));
	/* The host's name comes with its network, and so does the helper's. */
	if (p->box->network != NETWORK_HOST && (!docker_has_door(p) || r->podman))
		json_kstr(j, "Hostname", hostname(p));
	json_kbool(j, "Tty", r->tty);
	/* The gate hears through it, whether the command will or not. */
	json_kbool(j, "OpenStdin", true);
	json_kbool(j, "StdinOnce", true);
	json_kbool(j, "AttachStdin", true);
	json_kbool(j, "AttachStdout", true);
	json_kbool(j, "AttachStderr", true);
	no_health_check(j);
	if (p->tune.stop_signal)
		json_kstr(j, "StopSignal", p->tune.stop_signal);
	if (p->tune.has_stop_timeout)
		json_ku64(j, "StopTimeout", p->tune.stop_timeout);
	labels(p, r, j);
	host_config(p, r, j);
	json_object_end(j);
}

/* ---- the helper's container ---- */

/* Of the network that both will have. Engines switch IPv6 off where they give no address. */
static void sysctls(const struct body_run *r, struct json *j)
{
	json_kobject(j, "Sysctls");
	json_kstr(j, "net.ipv4.ip_unprivileged_port_start", "0");
	json_kstr(j, "net.ipv4.ping_group_range", "1 0"); /* nobody */
	if (!r->no_ipv6) {
		json_kstr(j, "net.ipv6.conf.all.disable_ipv6", "0");
		json_kstr(j, "net.ipv6.conf.default.disable_ipv6", "0");
		json_kstr(j, "net.ipv6.conf.lo.disable_ipv6", "0");
	}
	json_object_end(j);
}

static void door_host_config(const struct backend_plan *p, const struct body_run *r, struct json *j)
{
	static const char *const podmans[] = { "/run", "/tmp", "/var/tmp" };

	json_kobject(j, "HostConfig");
	json_kbool(j, "Privileged", false);
	strings(j, "CapDrop", (const char *const[]){ "ALL" }, 1);
	strings(j, "CapAdd", (const char *const[]){ "NET_ADMIN" }, 1);
	security(p, r, true, j);
	json_kbool(j, "ReadonlyRootfs", true);
	json_kstr(j, "NetworkMode", p->box->network == NETWORK_BRIDGE ? r->network : "none");
	json_kstr(j, "IpcMode", "private");
	json_kstr(j, "CgroupnsMode", "private");
	if (r->podman && r->rootless)
		json_kstr(j, "UsernsMode", "keep-id");
	sysctls(r, j);
	json_karray(j, "Ulimits");
	/* Podman would ask for a million of each. */
	ulimit(j, "nofile", p->box->limits.files, p->box->limits.files);
	if (r->podman)
		ulimit(j, "nproc", p->tune.pids, p->tune.pids);
	json_array_end(j);
	json_karray(j, "Mounts");
	bind(j, arena_printf(p->box->arena, "%s.door", r->files), DOOR_SOCKET_INSIDE, false);
	json_array_end(j);
	/* Podman would put folders of its own there, and copy what the root does not have. */
	json_kobject(j, "Tmpfs");
	for (size_t i = 0; r->podman && i < ARRAY_LEN(podmans); i++)
		json_kstr(j, podmans[i], PODMAN_EMPTY);
	json_object_end(j);
	no_log(j);
	json_object_end(j);
}

void docker_door_body(const struct backend_plan *p, const struct body_run *r, struct json *j)
{
	json_object(j);
	json_kstr(j, "Image", r->helper);
	strings(j, "Entrypoint", (const char *const[]){ DOOR_HELPER_INSIDE }, 1);
	strings(j, "Cmd", NULL, 0);
	json_kstr(j, "User", "0:0");
	json_kstr(j, "WorkingDir", "/");
	json_kstr(j, "Hostname", hostname(p));
	no_health_check(j);
	labels(p, r, j);
	door_host_config(p, r, j);
	json_object_end(j);
}

/* ---- the container that the image is looked at in ---- */

void docker_look_body(const struct backend_plan *p, const struct body_run *r, struct json *j)
{
	json_object(j);
	json_kstr(j, "Image", r->image_id ? r->image_id : p->image);
	strings(j, "Entrypoint", (const char *const[]){ "/" }, 1); /* cannot be executed */
	strings(j, "Cmd", NULL, 0);
	no_health_check(j);
	labels(p, r, j);
	json_kobject(j, "HostConfig");
	strings(j, "CapDrop", (const char *const[]){ "ALL" }, 1);
	json_kstr(j, "NetworkMode", "none");
	json_kobject(j, "Tmpfs");
	over_volumes(p, r, j);
	json_object_end(j);
	no_log(j);
	json_object_end(j);
	json_object_end(j);
}
