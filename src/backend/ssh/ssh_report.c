/* SPDX-License-Identifier: Apache-2.0 */
/* backend/ssh/ssh_report.c - what another brig says of its run, taken into an outcome of this one.
 *
 * The report comes from the remote host: it is believed as far as that host is, read strictly, and
 * everything in it is bounded. The conductor's own judgement (a time limit, a cancel) stands. */
#include <errno.h>
#include <string.h>

#include "backend/ssh/ssh.h"
#include "base/jread.h"
#include "base/str.h"

#define LIST_MAX 4096 /* more than another brig lists */

static bool find_kind(const char *name, enum outcome_kind *ret)
{
	for (int k = 0; name && k < OUTCOME_KINDS; k++)
		if (str_eq(outcome_name((enum outcome_kind)k), name)) {
			*ret = (enum outcome_kind)k;
			return true;
		}
	return false;
}

static void read_error(const struct jread *v, struct err *e)
{
	const char *code = jread_str(v, "code"), *what = jread_str(v, "what"),
		   *hint = jread_str(v, "hint");
	enum err_kind kind = ERR_INTERNAL;

	for (int k = 0; code && k < ERR_KINDS; k++)
		if (str_eq(err_kind_name((enum err_kind)k), code))
			kind = (enum err_kind)k;
	(void)err_set(e, kind, EREMOTEIO, "%s", what ? what : "no reason was given");
	if (hint)
		(void)err_hint(e, "%s", hint);
}

static void read_limits(const struct jread *v, enum enforcer *by)
{
	for (int l = 0; l < LIMIT_COUNT; l++) {
		const char *name = jread_str(v, limit_name((enum limit)l));

		for (int f = 0; name && f < ENFORCER_COUNT; f++)
			if (str_eq(enforcer_name((enum enforcer)f), name))
				by[l] = (enum enforcer)f;
	}
}

static const char *keep(struct outcome *o, const char *text)
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
	i->seccomp = seccomp && !str_eq(seccomp, "none") ? keep(o, seccomp) : NULL;
	i->landlock_abi = (int)(jread_int(v, "landlock_abi", 0) & 0xff);
	i->cgroup = keep(o, jread_str(v, "cgroup"));
	i->network = keep(o, jread_str(v, "network"));
	i->uid_inside = (uint32_t)jread_int(v, "uid_inside", 0);
	i->gid_inside = (uint32_t)jread_int(v, "gid_inside", 0);
	read_limits(jread_get(v, "limits"), i->limits);
}

static void read_lists(const struct jread *v, struct outcome *o)
{
	const struct jread *hit = jread_get(v, "limits_hit"), *denied = jread_get(v, "denials"),
			   *dropped = jread_get(v, "denials_dropped");

	for (size_t i = 0; i < jread_count(hit) && i < LIST_MAX; i++)
		for (int l = 0; l < LIMIT_COUNT; l++) {
			const char *name = jread_text(jread_at(hit, i));

			if (name && str_eq(name, limit_name((enum limit)l)))
				outcome_hit(o, (enum limit)l);
		}
	for (size_t i = 0; i < jread_count(denied) && i < LIST_MAX; i++) {
		const struct jread *d = jread_at(denied, i);
		const char *kind = jread_str(d, "kind"), *target = jread_str(d, "target"),
			   *reason = jread_str(d, "reason");

		if (!kind || !target || !reason)
			continue;
		outcome_deny(o, kind, target, reason);
		if (jread_int(d, "count", 1) > 1)
			outcome_drop(o, kind, (uint64_t)jread_int(d, "count", 1) - 1);
	}
	for (int c = 0; c < DENIAL_CLASSES; c++) {
		int64_t n =
			c == DENIAL_FOLDER
				? 0
				: jread_int(dropped, denial_class_kind((enum denial_class)c), 0);

		if (n > 0)
			outcome_drop(o, denial_class_kind((enum denial_class)c), (uint64_t)n);
	}
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
	enum outcome_kind kind;

	if (jread_parse(text, n, &v, e) < 0)
		return err_wrap(e, "the report of the remote brig");
	if (!find_kind(jread_str(v, "outcome"), &kind))
		return err_set(e, ERR_INTERNAL, EPROTO, "the remote brig reports no outcome");
	read_isolation(jread_get(v, "isolation"), o, i);
	read_lists(v, o);
	if (o->kind != OUTCOME_FAILED)
		return 0;
	o->kind = kind;
	o->exit_code = (int)jread_int(v, "exit_code", 0) & 0xff;
	o->signal = (int)jread_int(v, "signal", 0) & 0x7f;
	if (kind == OUTCOME_REFUSED || kind == OUTCOME_FAILED)
		read_error(jread_get(v, "error"), &o->error);
	return 0;
}
