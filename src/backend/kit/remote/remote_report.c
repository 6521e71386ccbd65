/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/remote/remote_report.c - what another brig says of its run, taken into an outcome of
 * this one.
 *
 * The report comes from the remote host: it is believed as far as that host is, read strictly, and
 * everything in it is bounded. The conductor's own judgement (a time limit, a cancel) stands. */
#include "backend/kit/remote/remote_report.h"

#include <errno.h>
#include <string.h>

#include "base/bytes/jread.h"
#include "base/text/str.h"

static void report_read_limits(const struct jread *v, enum enforcer *by)
{
	for (int l = 0; l < LIMIT_COUNT; l++) {
		const char *name = jread_str(v, limit_name((enum limit)l));

		for (int f = 0; name && f < ENFORCER_COUNT; f++)
			if (str_eq(enforcer_name((enum enforcer)f), name))
				by[l] = (enum enforcer)f;
	}
}

/* No name but one that a node of a GPU can have is taken over. */
static void read_gpus(const struct jread *v, struct gpu_set *s)
{
	const char *path;

	*s = (struct gpu_set){ 0 };
	for (size_t k = 0; k < jread_count(v); k++)
		if ((path = jread_text(jread_at(v, k))))
			(void)gpu_set_name(s, path);
}

static const char *report_keep(struct outcome *o, const char *text)
{
	return text ? arena_strdup(o->arena, text) : NULL;
}

static void read_isolation(const struct jread *v, struct outcome *o, struct isolation *i)
{
	const char *seccomp = jread_str(v, "seccomp");

	if (!v)
		return;
	i->user_ns = jread_bool(v, "user_ns");
	i->pid_ns = jread_bool(v, "pid_ns");
	i->mount_ns = jread_bool(v, "mount_ns");
	i->net_ns = jread_bool(v, "net_ns");
	i->ipc_ns = jread_bool(v, "ipc_ns");
	i->uts_ns = jread_bool(v, "uts_ns");
	i->cgroup_ns = jread_bool(v, "cgroup_ns");
	i->no_new_privs = jread_bool(v, "no_new_privs");
	i->capabilities_dropped = jread_bool(v, "capabilities_dropped");
	i->read_only_root = jread_bool(v, "read_only_root");
	i->seccomp = seccomp && !str_eq(seccomp, "none") ? report_keep(o, seccomp) : NULL;
	i->landlock_abi = (int)(jread_int(v, "landlock_abi", 0) & 0xff);
	i->cgroup = report_keep(o, jread_str(v, "cgroup"));
	i->network = report_keep(o, jread_str(v, "network"));
	i->uid_inside = (uint32_t)jread_int(v, "uid_inside", 0);
	i->gid_inside = (uint32_t)jread_int(v, "gid_inside", 0);
	read_gpus(jread_get(v, "gpus"), &i->gpus);
	report_read_limits(jread_get(v, "limits"), i->limits);
}

int report_facts(const char *text, size_t n, struct outcome *o, struct isolation *i, struct err *e)
{
	CLEANUP(jread) struct jread *v = NULL;

	if (jread_parse(text, n, &v, e) < 0 || !jread_get(v, "isolation"))
		return err_set(e, ERR_INTERNAL, EPROTO,
			       "the remote brig does not say what the sandbox is like");
	read_isolation(jread_get(v, "isolation"), o, i);
	return 0;
}

int report_read(const char *text, size_t n, struct outcome *o, struct isolation *i, struct err *e)
{
	CLEANUP(jread) struct jread *v = NULL;
	struct outcome unused = { 0 };

	if (jread_parse(text, n, &v, e) < 0)
		return err_wrap(e, "the report of the remote brig");
	if (outcome_read_end(v, o->kind == OUTCOME_FAILED ? o : &unused, e) < 0)
		return err_wrap(e, "the remote brig");
	if (o->kind == OUTCOME_CANCELLED &&
	    (unused.kind == OUTCOME_EXITED || unused.kind == OUTCOME_CANCELLED))
		outcome_ended_as(o, unused.exit_code);
	read_isolation(jread_get(v, "isolation"), o, i);
	outcome_read_lists(v, o);
	return 0;
}
