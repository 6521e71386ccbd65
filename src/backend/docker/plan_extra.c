/* SPDX-License-Identifier: Apache-2.0 */
/* backend/docker/plan_extra.c - flags of `docker run` that a file added, by their API field.
 *
 * The flags were checked when they were read (model/dialect/extra_args.c); here each row's field
 * finds the place in the plan that becomes that field of the body. */
#include <stddef.h>
#include <string.h>

#include "backend/docker/docker.h"
#include "base/text/num.h"
#include "base/text/str.h"
#include "model/dialect/extra_args.h"
#include "model/settings/paths.h"

enum flag_kind { V_COUNT, V_SIZE, V_NANO, V_TEXT, V_TRUE, V_ALL };

#define AT(member) offsetof(struct tuning, member)
#define NO_FLAG SIZE_MAX

static const struct {
	const char *api;
	enum flag_kind kind;
	size_t at, has; /* in struct tuning */
} rows[] = {
	{ "HostConfig.MemorySwap", V_SIZE, AT(memory_swap), NO_FLAG },
	{ "HostConfig.MemoryReservation", V_SIZE, AT(reservation), NO_FLAG },
	{ "HostConfig.MemorySwappiness", V_COUNT, AT(swappiness), AT(has_swappiness) },
	{ "HostConfig.CpuShares", V_COUNT, AT(cpu_shares), NO_FLAG },
	{ "HostConfig.CpuPeriod", V_COUNT, AT(cpu_period), NO_FLAG },
	{ "HostConfig.CpuQuota", V_COUNT, AT(cpu_quota), NO_FLAG },
	{ "HostConfig.NanoCpus", V_NANO, AT(nano_cpus), NO_FLAG },
	{ "HostConfig.CpusetCpus", V_TEXT, AT(cpuset_cpus), NO_FLAG },
	{ "HostConfig.CpusetMems", V_TEXT, AT(cpuset_mems), NO_FLAG },
	{ "HostConfig.PidsLimit", V_COUNT, AT(pids), NO_FLAG },
	{ "HostConfig.ShmSize", V_SIZE, AT(shm), NO_FLAG },
	{ "HostConfig.OomScoreAdj", V_COUNT, AT(oom_score), AT(has_oom_score) },
	{ "HostConfig.ReadonlyRootfs", V_TRUE, AT(read_only), NO_FLAG },
	{ "HostConfig.DeviceRequests", V_ALL, AT(gpus), NO_FLAG },
	{ "StopSignal", V_TEXT, AT(stop_signal), NO_FLAG },
	{ "StopTimeout", V_COUNT, AT(stop_timeout), AT(has_stop_timeout) },
	{ "Hostname", V_TEXT, AT(hostname), NO_FLAG },
};

static int plan_extra_set_number(struct tuning *t, size_t row, const char *text)
{
	uint64_t v = 0;
	int r = rows[row].kind == V_COUNT  ? num_count(text, &v)
		: rows[row].kind == V_SIZE ? num_size(text, &v)
					   : num_milli(text, &v);

	if (rows[row].kind == V_NANO)
		v *= 1000000;
	memcpy((char *)t + rows[row].at, &v, sizeof(v));
	return r;
}

/* false: it is one of the lists. */
static bool set_plain(struct backend_plan *p, const struct extra_arg *a)
{
	const uint64_t all = FIELD_ALL;
	const bool yes = true;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *at = (char *)&p->tune + rows[i].at;

		if (!str_eq(rows[i].api, a->api))
			continue;
		if (rows[i].kind == V_TEXT)
			memcpy(at, &a->value, sizeof(a->value));
		else if (rows[i].kind == V_TRUE)
			memcpy(at, &yes, sizeof(yes));
		else if (rows[i].kind == V_ALL)
			memcpy(at, &all, sizeof(all));
		else if (plan_extra_set_number(&p->tune, i, a->value) == 0 &&
			 rows[i].has != NO_FLAG)
			memcpy((char *)&p->tune + rows[i].has, &yes, sizeof(yes));
		return true;
	}
	return false;
}

static int set_label(struct backend_plan *p, const char *value, struct err *e)
{
	struct arena *a = p->box->arena;
	size_t n = strcspn(value, "=");
	struct envvar *slot = ARENA_PUSH(a, p->labels, p->label_count);

	if (!slot)
		return err_nomem(e);
	*slot = (struct envvar){ .name = arena_strndup(a, value, n),
				 .value = value[n] ? value + n + 1 : "" };
	return slot->name ? 0 : err_nomem(e);
}

/* The last of a name counts, over the plan's own too. */
static int set_ulimit(struct backend_plan *p, const char *value, struct err *e)
{
	struct arena *a = p->box->arena;
	size_t n = strcspn(value, "="), m = strcspn(value + n + 1, ":");
	struct ulimit_want u = { .name = arena_strndup(a, value, n) };
	const char *soft = arena_strndup(a, value + n + 1, m);
	const char *hard = value[n + 1 + m] ? value + n + 2 + m : soft;
	struct ulimit_want *slot = NULL;

	if (!u.name || !soft)
		return err_nomem(e);
	if (num_count(soft, &u.soft) < 0 || num_count(hard, &u.hard) < 0)
		return err_set(e, ERR_CONFIG, EINVAL, "ulimit '%s'", value);
	for (size_t i = 0; i < p->ulimit_count; i++)
		if (str_eq(p->ulimits[i].name, u.name))
			slot = &p->ulimits[i];
	if (!slot)
		slot = ARENA_PUSH(a, p->ulimits, p->ulimit_count);
	if (!slot)
		return err_nomem(e);
	*slot = u;
	return 0;
}

static int set_tmpfs(struct backend_plan *p, const char *value, struct err *e)
{
	struct arena *a = p->box->arena;
	size_t n = strcspn(value, ":");
	struct tmpfs_want t = { .path = arena_strndup(a, value, n), .plain = true };
	struct tmpfs_want *slot = NULL;

	/* Whatever was written: never a program, never a device, never a set-id bit. */
	t.options = arena_printf(a, "%s%snoexec,nosuid,nodev", value[n] ? value + n + 1 : "",
				 value[n] ? "," : "");
	if (!t.path || !t.options)
		return err_nomem(e);
	if (p->box->workspace && path_under(t.path, p->box->cwd))
		return err_refuse(e, ERR_POLICY, EPERM, "choose a place of its own, such as /data",
				  "--tmpfs '%.200s' would lie in the workspace", t.path);
	for (size_t i = 0; i < p->tmpfs_count; i++)
		if (str_eq(p->tmpfs[i].path, t.path))
			slot = &p->tmpfs[i];
	if (!slot)
		slot = ARENA_PUSH(a, p->tmpfs, p->tmpfs_count);
	if (!slot)
		return err_nomem(e);
	*slot = t;
	return 0;
}

static int apply(struct backend_plan *p, const struct extra_arg *a, struct err *e)
{
	if (set_plain(p, a))
		return 0;
	if (str_eq(a->api, "Labels"))
		return set_label(p, a->value, e);
	if (str_eq(a->api, "HostConfig.Ulimits"))
		return set_ulimit(p, a->value, e);
	if (str_eq(a->api, "HostConfig.Tmpfs"))
		return set_tmpfs(p, a->value, e);
	return err_set(e, ERR_INTERNAL, ENOSYS, "flag '%s' has no field in the plan", a->flag);
}

int docker_plan_extra(struct backend_plan *p, struct err *e)
{
	const struct strlist *args = &p->spec->docker.extra_args;
	struct tuning *t = &p->tune;
	struct extra_arg *taken;
	size_t n = 0;

	if (!args->n)
		return 0;
	taken = arena_alloc(p->box->arena, args->n * sizeof(*taken));
	if (!taken)
		return err_nomem(e);
	/* The widest style: what the file's own does not allow was refused when it was read. */
	if (extra_args_check(args, EXTRA_ARGS_INITRUNNER, taken, &n, e) < 0)
		return -e->code;
	for (size_t i = 0; i < n; i++)
		if (apply(p, &taken[i], e) < 0)
			return -e->code;
	/* Two ways to say the same; the engine takes but one. */
	if (t->cpu_quota || t->cpu_period)
		t->nano_cpus = 0;
	if (t->memory_swap < t->memory)
		t->memory_swap = t->memory;
	return 0;
}
