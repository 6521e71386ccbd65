/* SPDX-License-Identifier: Apache-2.0 */
/* model/request/spec_check.c - a spec as a whole: paths made absolute, and what no backend could
 * take or none may take refused.
 *
 * System folders. A mount or a writable path that is one of the roots below, or holds one, is
 * refused in either mode. What lies below one of them may be shown, but not be writable, except
 * where people keep work of their own: below a home folder (never the home itself), /srv/X, /opt/X,
 * /var/tmp and /run/user/UID/X. /var/lib, /var/www and the like hold services' state: whoever means
 * one of them names it in mount_roots, which is then the permission. */
#include <stdio.h>
#include <string.h>

#include "base/files/home.h"
#include "base/text/str.h"
#include "model/dialect/dialect.h"
#include "model/dialect/extra_args.h"
#include "model/known/gpus.h"
#include "model/known/tool_settings.h"
#include "model/request/code.h"
#include "model/request/spec_targets.h"
#include "model/settings/envrules.h"
#include "model/settings/paths.h"
#include "model/settings/rule.h"
#include "model/settings/spec.h"

static const char *const system_roots[] = { "/",      "/etc", "/root", "/home", "/boot", "/sys",
					    "/proc",  "/dev", "/usr",  "/bin",  "/sbin", "/lib",
					    "/lib64", "/var", "/run",  "/opt",  "/srv" };

/* Below these a writable path needs so many components of its own. */
static const struct {
	const char *folder;
	size_t depth;
} own_places[] = {
	{ "/home", 2 }, { "/srv", 1 }, { "/opt", 1 }, { "/var/tmp", 0 }, { "/run/user", 2 },
};

/* Who is to mend it: the place in a file, when one wrote the field. */
int spec_blame(const struct spec *s, enum field_id id, const char *flag, struct err *e)
{
	if (s->where[id])
		return err_wrap(e, "%.160s: %s", s->where[id], fields[id].key);
	return err_wrap(e, "%s", flag);
}

static bool holds_system_root(const char *path)
{
	for (size_t i = 0; i < ARRAY_LEN(system_roots); i++)
		if (path_under(system_roots[i], path))
			return true;
	return false;
}

static size_t components_below(const char *path, const char *folder)
{
	size_t n = 0;

	for (const char *p = path + strlen(folder); *p; p++)
		n += *p == '/';
	return n;
}

static bool own_place(const char *path, const struct place *at)
{
	if (at->home && path_under(path, at->home) && !str_eq(path, at->home))
		return true;
	for (size_t i = 0; i < ARRAY_LEN(own_places); i++)
		if (path_under(path, own_places[i].folder) &&
		    components_below(path, own_places[i].folder) >= own_places[i].depth)
			return true;
	return false;
}

/* Named on purpose, by somebody who may: a dialect's defaults are nobody's word. */
static bool named_root(const struct spec *s, const char *path)
{
	for (size_t i = 0; spec_wrote(s, FIELD_MOUNT_ROOTS) && i < s->mount_roots.n; i++)
		if (!holds_system_root(s->mount_roots.v[i]) &&
		    path_under(path, s->mount_roots.v[i]))
			return true;
	return false;
}

static int check_system(const struct spec *s, const struct place *at, const char *path,
			bool writable, struct err *e)
{
	if (holds_system_root(path))
		return err_refuse(e, ERR_POLICY, EPERM, "name the folder below it that is needed",
				  "'%.200s' is a folder of the system", path);
	if (!writable || own_place(path, at) || named_root(s, path))
		return 0;
	for (size_t i = 1; i < ARRAY_LEN(system_roots); i++)
		if (path_under(path, system_roots[i]))
			return err_refuse(e, ERR_POLICY, EPERM,
					  "show it read-only, or name it in mount_roots",
					  "'%.200s' is part of the system and cannot be writable",
					  path);
	return 0;
}

/* The same, and the home folder: what a grant makes writable in it the host obeys. */
static int check_grant(const struct spec *s, const struct place *at, const char *path,
		       bool writable, struct err *e)
{
	enum home_kind kind = home_kind(path, at->home);
	bool home = writable && !named_root(s, path) && kind != HOME_APART;

	/* /home/NAME is somebody's before it is a part of the system. */
	if (!(home && kind == HOME_ITSELF) && check_system(s, at, path, writable, e) < 0)
		return -e->code;
	if (!home)
		return 0;
	return err_refuse(e, ERR_POLICY, EPERM, "name the folder below it that is needed",
			  "'%.200s' is, or contains, your home folder", path);
}

/* Why a folder cannot be the workspace; NULL: it can. */
static const char *unfit(const struct spec *s, const struct place *at, const char *home)
{
	static const char *const live[] = { "/proc", "/sys", "/dev" };
	bool writable = s->policy == POLICY_WORKSPACE_WRITE;
	enum home_kind kind;
	struct err ignored;

	if (str_eq(s->workdir, "/"))
		return "the root of the host";
	kind = home_kind(s->workdir, home);
	if (kind == HOME_ITSELF || (home && str_eq(s->workdir, home)))
		return "a home folder";
	if (kind == HOME_CONTAINS)
		return "a folder that contains your home folder";
	for (size_t i = 0; i < ARRAY_LEN(live); i++)
		if (path_under(s->workdir, live[i]))
			return "part of the system";
	return check_system(s, at, s->workdir, writable, &ignored) < 0 ? "part of the system"
								       : NULL;
}

static int check_workspace(struct spec *s, const struct place *at, struct err *e)
{
	/* A spec may be checked twice; the folder found the first time was nobody's word. */
	bool given = s->workdir && !s->private_workspace;
	bool host_run = spec_on_host(s);
	const char *why, *home = NULL;

	if (path_resolve(s->arena, at, given ? s->workdir : at->cwd, &s->workdir, e) < 0)
		return err_wrap(e, "workdir");
	if (at->home && path_resolve(s->arena, at, at->home, &home, e) < 0)
		return err_wrap(e, "HOME");
	why = host_run ? NULL : unfit(s, at, home);
	if (!why)
		return 0;
	if (given)
		return err_refuse(e, ERR_POLICY, EPERM, "choose the project folder below it",
				  "workdir '%s' is %s", s->workdir, why);
	s->private_workspace = true;
	return 0;
}

/* Where other programs look for theirs. */
static int check_files_of_others(struct spec *s, const struct place *at, struct err *e)
{
	if (s->ssh.identity_file &&
	    path_resolve(s->arena, at, s->ssh.identity_file, &s->ssh.identity_file, e) < 0)
		return err_wrap(e, "ssh.identity_file");
	if (s->ssh.config_file &&
	    path_resolve(s->arena, at, s->ssh.config_file, &s->ssh.config_file, e) < 0)
		return err_wrap(e, "ssh.config_file");
	if (s->kube.config && path_resolve(s->arena, at, s->kube.config, &s->kube.config, e) < 0)
		return err_wrap(e, "kubernetes.kubeconfig");
	return 0;
}

/* The target's own name is what everything else is compared with, so it is compared with none. */
static int check_target(const char *target, struct err *e)
{
	if (str_eq(target, WORKSPACE_PLACE) || str_eq(target, "/work"))
		return 0;
	return target_check(target, "", e) < 0 ? err_wrap(e, "workspace.target") : 0;
}

bool spec_place_taken(const struct spec *s, const char *place)
{
	static const char *const built[] = { "/var/tmp", "/nix/store", "/run", "/root" };
	char home[sizeof("/home/") + 64];
	struct err ignored;

	for (size_t i = 0; i < ARRAY_LEN(built); i++)
		if (path_under(built[i], place))
			return true;
	(void)snprintf(home, sizeof(home), "/home/%.64s", s->user_name);
	return check_target(place, &ignored) < 0 ||
	       path_under(place, "/etc") || /* which is made up */
	       path_under(place, home) || path_under(home, place) ||
	       (s->command.code.kind != CODE_NONE && path_under(place, CODE_FOLDER));
}

static int settle_target(struct spec *s, struct err *e)
{
	bool host_run = spec_on_host(s);

	s->inside = s->target;
	if (!str_eq(s->target, WORKSPACE_SAME))
		return check_target(s->target, e);
	s->inside = s->workdir;
	if (host_run)
		return 0;
	if (s->private_workspace || s->no_workspace || spec_claims_pod(s) ||
	    spec_place_taken(s, s->workdir))
		s->inside = WORKSPACE_PLACE;
	if (!spec_moved_workspace(s) || !spec_wrote(s, FIELD_TARGET))
		return 0;
	(void)err_set(e, ERR_POLICY, EPERM,
		      "the workspace cannot be at its own path: '%.200s' is a place of brig's own "
		      "inside",
		      s->workdir);
	(void)spec_blame(s, FIELD_TARGET, "workspace.target", e);
	return err_hint(e, "leave workspace.target out, and it is at %s", WORKSPACE_PLACE);
}

bool spec_links_workspace(const struct spec *s)
{
	return str_eq(s->target, WORKSPACE_SAME) && !path_under(s->inside, WORKSPACE_PLACE);
}

bool spec_moved_workspace(const struct spec *s)
{
	return str_eq(s->target, WORKSPACE_SAME) && !s->private_workspace && !s->no_workspace &&
	       !str_eq(s->inside, s->workdir);
}

bool spec_has_layer(const struct spec *s)
{
	return s->workspace_mode == WORKSPACE_OVERLAY && s->policy == POLICY_WORKSPACE_WRITE &&
	       !s->private_workspace && !s->no_workspace;
}

/* Such a path has one place only, its own; what is reserved are folders of the system. */
static int check_own_place(const struct spec *s, const char *path, struct err *e)
{
	if (target_place(s, path, e) == 0)
		return 0;
	return str_eq(path, s->inside)
		       ? err_hint(e, "it is shown anyway; --policy readonly lets it only be read")
		       : err_hint(e, "name the folder below it that is needed");
}

static int check_paths(struct spec *s, const struct place *at, struct strlist *l, const char *flag,
		       struct err *e)
{
	for (size_t i = 0; i < l->n; i++)
		if (path_resolve(s->arena, at, l->v[i], &l->v[i], e) < 0 ||
		    check_own_place(s, l->v[i], e) < 0 ||
		    (l == &s->write && check_grant(s, at, l->v[i], true, e) < 0))
			return spec_blame(s, l == &s->write ? FIELD_WRITE : FIELD_READ, flag, e);
	return 0;
}

static int outside_roots(const struct spec *s, const char *what, const char *path, struct err *e)
{
	char list[160] = "";
	size_t n = 0;

	for (size_t i = 0; i < s->mount_roots.n && n < sizeof(list); i++)
		n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%s", i ? ", " : "",
				      s->mount_roots.v[i]);
	(void)err_set(e, ERR_POLICY, EPERM, "%s '%.200s' is outside the permitted roots", what,
		      path);
	return err_hint(e, "these are: %s", list);
}

static bool in_roots(const struct spec *s, const char *path)
{
	for (size_t i = 0; i < s->mount_roots.n; i++)
		if (path_under(path, s->mount_roots.v[i]))
			return true;
	return s->mount_roots.n == 0;
}

/* A dialect's own roots bind its files, not the flags of whoever uses them. A role was measured
 * with more than mount_roots when it was read. */
static bool roots_apply(const struct spec *s, enum field_id id)
{
	if (s->dialect_used == DIALECT_INITRUNNER && s->origin[id] == ORIGIN_FILE)
		return false;
	return spec_wrote(s, FIELD_MOUNT_ROOTS) || s->origin[id] != ORIGIN_FLAG;
}

static int check_roots(struct spec *s, const struct place *at, struct err *e)
{
	for (size_t i = 0; i < s->mount_roots.n; i++)
		if (path_resolve(s->arena, at, s->mount_roots.v[i], &s->mount_roots.v[i], e) < 0)
			return err_wrap(e, "mount_roots");
	/* RLM Code measures the working folder, too. */
	if (s->dialect_used == DIALECT_RLM && !s->private_workspace &&
	    roots_apply(s, FIELD_WORKDIR) && !in_roots(s, s->workdir))
		return outside_roots(s, "workdir", s->workdir, e);
	for (size_t i = 0; i < s->mounts.n && roots_apply(s, FIELD_MOUNT); i++)
		if (!in_roots(s, s->mounts.v[i].source))
			return outside_roots(s, "mount", s->mounts.v[i].source, e),
			       spec_blame(s, FIELD_MOUNT, "mount", e);
	for (size_t i = 0; i < s->copies.n && roots_apply(s, FIELD_COPIES); i++)
		if (!in_roots(s, s->copies.v[i].source))
			return outside_roots(s, "copy", s->copies.v[i].source, e),
			       spec_blame(s, FIELD_COPIES, "copies", e);
	return 0;
}

static int check_mounts(struct spec *s, const struct place *at, struct err *e)
{
	for (size_t i = 0; i < s->mounts.n; i++) {
		struct mount_spec *m = &s->mounts.v[i];

		if (path_resolve(s->arena, at, m->source, &m->source, e) < 0 ||
		    target_place(s, m->target, e) < 0 ||
		    check_grant(s, at, m->source, m->writable, e) < 0)
			return spec_blame(s, FIELD_MOUNT, "mount", e);
	}
	return 0;
}

/* On the host, here or elsewhere, a variable is as good as a program. */
static int check_untrusted_env(const struct spec *s, const struct envvar *v, struct err *e)
{
	bool host_run = spec_on_host(s) || spec_over_ssh(s);

	if (!host_run || !spec_strangers(s, v->by))
		return 0;
	(void)err_set(e, ERR_POLICY, EPERM,
		      "'%.100s' is set by %s, for a command that is not contained", v->name,
		      v->by == ORIGIN_LINE ? "a line of a batch" : "an untrusted project file");
	if (v->by == ORIGIN_LINE)
		return err_hint(e, "set it for all lines, on the command line of brig batch");
	(void)spec_blame(s, FIELD_ENV, "env.set", e);
	return err_hint(e, "read the file, then trust it as it is now: brig allow");
}

/* What a file sets would act on programs before they have begun; a flag is the caller's own word.
 */
static int check_env(const struct spec *s, struct err *e)
{
	for (size_t i = 0; i < s->env.n; i++) {
		const struct envvar *v = &s->env.v[i];
		bool file = v->by > ORIGIN_DIALECT && v->by <= ORIGIN_ENVIRONMENT;

		if (check_untrusted_env(s, v, e) < 0)
			return -e->code;
		if (!file || !env_steers_programs(v->name))
			continue;
		(void)err_set(e, ERR_POLICY, EPERM, "'%.100s' changes how programs are started",
			      v->name);
		(void)spec_blame(s, FIELD_ENV, "env.set", e);
		return err_hint(e, "if that is intended, on the command line: --env %.60s=...",
				v->name);
	}
	return 0;
}

static bool writable_inside(const struct spec *s, const char *path)
{
	if (s->policy != POLICY_READONLY && !s->private_workspace && !s->no_workspace &&
	    path_under(path, s->workdir))
		return true;
	for (size_t i = 0; i < s->write.n; i++)
		if (path_under(path, s->write.v[i]))
			return true;
	for (size_t i = 0; i < s->mounts.n; i++)
		if (s->mounts.v[i].writable && path_under(path, s->mounts.v[i].source))
			return true;
	return false;
}

/* What brig writes itself must not be the command's to change, or to put a link in the place of. */
static int check_metrics(struct spec *s, const struct place *at, struct err *e)
{
	bool host_run = spec_on_host(s);

	if (!s->metrics_textfile)
		return 0;
	if (path_resolve(s->arena, at, s->metrics_textfile, &s->metrics_textfile, e) < 0)
		return spec_blame(s, FIELD_METRICS_TEXTFILE, "metrics.textfile", e);
	if (host_run || !writable_inside(s, s->metrics_textfile))
		return 0;
	return err_refuse(e, ERR_POLICY, EPERM, "choose a folder that the command cannot write to",
			  "metrics.textfile '%.200s' could be changed inside", s->metrics_textfile);
}

static int check_extra_args(const struct spec *s, struct err *e)
{
	enum extra_args_style style = s->dialect_used == DIALECT_INITRUNNER ? EXTRA_ARGS_INITRUNNER
				      : s->dialect_used == DIALECT_RLM      ? EXTRA_ARGS_RLM
									    : EXTRA_ARGS_BRIG;

	return extra_args_check(&s->docker.extra_args, style, NULL, NULL, e);
}

static int check_policy(const struct spec *s, struct err *e)
{
	bool disk = spec_wrote(s, FIELD_DISK) && s->home != HOME_KEEP;

	if (s->policy == POLICY_READONLY && (s->write.n || disk))
		return err_refuse(e, ERR_USAGE, EINVAL, "use --policy workspace_write",
				  "policy readonly does not allow --%s",
				  s->write.n ? "write" : "disk");
	for (size_t i = 0; i < s->mounts.n; i++)
		if (s->policy == POLICY_READONLY && s->mounts.v[i].writable)
			return err_refuse(e, ERR_USAGE, EINVAL, "use --policy workspace_write",
					  "policy readonly does not allow the writable mount '%s'",
					  s->mounts.v[i].target);
	return 0;
}

static int check_home(const struct spec *s, struct err *e)
{
	const struct tool_settings *t;

	if (s->home_seed.n && s->home != HOME_KEEP)
		return err_refuse(e, ERR_USAGE, EINVAL, "--home keep",
				  "home_seed is for a HOME that is kept");
	for (size_t i = 0; i < s->home_seed.n; i++)
		if (tool_settings_get(s->home_seed.v[i], &t, e) < 0)
			return spec_blame(s, FIELD_HOME_SEED, "--home-seed", e);
	return 0;
}

bool spec_switched_off(const struct spec *s, enum field_id id)
{
	bool off = spec_on_host(s);

	/* InitRunner's `none` is its word on all that a role says beside it. */
	if (s->dialect_used == DIALECT_INITRUNNER)
		return off && s->origin[id] == ORIGIN_FILE;
	return s->dialect_used == DIALECT_IRONCLAW && off &&
	       !(id == FIELD_POLICY && s->policy == POLICY_READONLY) &&
	       (s->origin[id] == ORIGIN_USER || s->origin[id] == ORIGIN_FILE ||
		s->origin[id] == ORIGIN_ENVIRONMENT);
}

/* A command on the host has the host's network: a door that only the dialect brings along is
 * nobody's request. */
static void drop_door(struct spec *s)
{
	bool host_run = spec_on_host(s);
	bool asked = spec_asks(s, FIELD_EGRESS_ALLOW) && !spec_switched_off(s, FIELD_EGRESS_ALLOW);

	if (host_run && s->network == NETWORK_PROXY && !spec_wrote(s, FIELD_NETWORK) && !asked)
		s->network = NETWORK_HOST;
	if (host_run && spec_wrote(s, FIELD_NETWORK) && spec_switched_off(s, FIELD_NETWORK))
		s->network = NETWORK_HOST;
}

/* Whoever names a host wants to reach it: a list without a word on the network means the door. An
 * empty one names none, and is what an untrusted file may write. So does --allow where a file that
 * stands below the flags says none: `brig init` writes that. Whoever wants to be asked about names
 * wants a door as well. */
static void imply_door(struct spec *s)
{
	bool ask = s->egress.ask;
	bool flagged = (s->origin[FIELD_EGRESS_ALLOW] == ORIGIN_FLAG && s->egress.allow.n) ||
		       (s->origin[FIELD_EGRESS_ASK] == ORIGIN_FLAG && ask);
	bool stands = s->origin[FIELD_NETWORK] == ORIGIN_SYSTEM ||
		      s->origin[FIELD_NETWORK] == ORIGIN_USER ||
		      s->origin[FIELD_NETWORK] == ORIGIN_PROJECT;

	if (s->network != NETWORK_NONE)
		return;
	if (stands && flagged) {
		s->network = NETWORK_PROXY;
		s->origin[FIELD_NETWORK] = ORIGIN_FLAG;
		s->where[FIELD_NETWORK] = NULL;
	} else if ((spec_asks(s, FIELD_EGRESS_ALLOW) || ask) && !spec_wrote(s, FIELD_NETWORK)) {
		s->network = NETWORK_PROXY;
	}
}

/* Without a door these say nothing. On the command line, or beside the network in one file, that is
 * somebody's mistake; elsewhere, or where a line of a batch has closed its own, they are standing
 * rules for the runs that have one. */
static bool in_vain(const struct spec *s, enum field_id id)
{
	if (s->origin[FIELD_NETWORK] == ORIGIN_LINE)
		return false;
	if (s->origin[id] == ORIGIN_FLAG)
		return true;
	return s->origin[id] == ORIGIN_FILE && s->origin[FIELD_NETWORK] == ORIGIN_FILE;
}

static int refuse_vain(const struct spec *s, enum field_id id, struct err *e)
{
	bool flag = s->origin[id] == ORIGIN_FLAG && fields[id].flag;

	(void)err_set(e, ERR_USAGE, EINVAL, "%s%s says nothing under network '%s'",
		      flag ? "--" : "", flag ? fields[id].flag : fields[id].key,
		      fields[FIELD_NETWORK].words[s->network]);
	if (s->origin[id] == ORIGIN_FILE && s->where[id])
		(void)err_wrap(e, "%.160s", s->where[id]);
	if (id == FIELD_CREDENTIAL)
		return err_hint(e, "it is put in by the door: --allow HOST opens one");
	return err_hint(e, "only the door reads it: --network proxy has one");
}

/* To write the default asks for nothing: `config show` does so for every setting. */
static int check_doorless(const struct spec *s, struct err *e)
{
	CLEANUP(spec) struct spec *plain = NULL;

	if (s->network == NETWORK_PROXY)
		return 0;
	for (int i = FIELD_EGRESS_ALLOW; i <= FIELD_CREDENTIAL; i++) {
		enum field_id id = (enum field_id)i;

		if (!in_vain(s, id))
			continue;
		if (!plain)
			plain = spec_new(e);
		if (!plain)
			return -e->code;
		if (!spec_same(s, plain, id))
			return refuse_vain(s, id, e);
	}
	return 0;
}

/* What a dialect's page closes, no flag and no other file opens. */
static int check_closed(const struct spec *s, struct err *e)
{
	bool closed = s->dialect_used == DIALECT_AGENTS || s->dialect_used == DIALECT_RLM ||
		      s->dialect_used == DIALECT_IRONCLAW;
	bool service = s->network == NETWORK_PROXY && s->egress.host_service;

	if (!closed || spec_on_host(s) || (s->network != NETWORK_HOST && !service))
		return 0;
	return err_refuse(
		e, ERR_POLICY, EPERM,
		"write the settings as a brig.yaml: brig config show is a beginning",
		"%s: the host's network and services stay closed to a sandbox of the dialect "
		"'%s'; this will never be supported",
		service ? "egress.host_service" : "network 'host'",
		dialect_name((enum dialect)s->dialect_used));
}

/* A tool that is to have no network gets a sandbox that has none: no hook in the interpreter could
 * hold what it asks for. */
static int settle_offline(struct spec *s, struct err *e)
{
	const char *where = s->command.code.tool[CODE_PYTHON].offline;

	if (!where || s->network == NETWORK_NONE)
		return 0;
	if (spec_on_host(s) || spec_over_ssh(s))
		return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP,
				  "choose a backend that has a sandbox, or network_disabled: false",
				  "%.160s: network_disabled cannot be had where the network is not "
				  "brig's",
				  where);
	if (s->command.code.kind == CODE_PYTHON)
		s->network = NETWORK_NONE;
	return 0;
}

static int check_egress(struct spec *s, struct err *e)
{
	struct rule r;

	imply_door(s);
	drop_door(s);
	if (check_closed(s, e) < 0 || settle_offline(s, e) < 0 || check_doorless(s, e) < 0)
		return -e->code;
	for (size_t i = 0; i < s->egress.allow.n; i++)
		if (rule_parse(s->arena, s->egress.allow.v[i], &r, e) < 0 ||
		    rule_check_allow(&r, e) < 0)
			return spec_blame(s, FIELD_EGRESS_ALLOW, "--allow", e);
	return 0;
}

/* The host's own network has no ports to be shown: whatever listens there is on the host. */
static int check_ports(const struct spec *s, struct err *e)
{
	if (!s->ports.n || s->network != NETWORK_HOST)
		return 0;
	(void)err_refuse(e, ERR_USAGE, EINVAL,
			 "leave one of the two out: a server is on the host itself there",
			 "network 'host' has no ports of its own to publish");
	return spec_blame(s, FIELD_PORTS, "--publish", e);
}

static int check_anchor(const struct spec *s, const char *name, struct err *e)
{
	if (name[0] == '/' || str_eq(name, "syslog") || str_starts_nocase(name, "https://") ||
	    str_starts_nocase(name, "http://"))
		return 0;
	(void)err_refuse(e, ERR_CONFIG, EINVAL,
			 "an absolute path, syslog, or an address with https://",
			 "'%.100s' cannot take the head of the record", name);
	return spec_blame(s, FIELD_AUDIT_ANCHOR, "audit.anchor", e);
}

static int check_audit(struct spec *s, const struct place *at, struct err *e)
{
	for (size_t i = 0; i < s->audit.anchor.n; i++)
		if (check_anchor(s, s->audit.anchor.v[i], e) < 0)
			return -e->code;
	if (!s->audit.dir)
		return 0;
	return path_resolve(s->arena, at, s->audit.dir, &s->audit.dir, e) < 0
		       ? spec_blame(s, FIELD_AUDIT_DIR, "audit.dir", e)
		       : 0;
}

static int check_gpus(const struct spec *s, struct err *e)
{
	struct gpu_name name;

	if (s->gpus && s->gpu.n)
		return err_refuse(e, ERR_USAGE, EINVAL, "leave one of them out",
				  "gpus is a count, gpu says which: not both");
	for (size_t i = 0; i < s->gpu.n; i++)
		if (!gpu_name(s->gpu.v[i], &name))
			return err_refuse(e, ERR_USAGE, EINVAL,
					  "such as 0, GPU-8f6d2c1a-..., or 0/3/0 for a MIG device: "
					  "nvidia-smi -L; nvidia-smi mig -lci",
					  "gpu '%.60s' is neither a number nor the id of a GPU",
					  s->gpu.v[i]);
	return 0;
}

int spec_check(struct spec *s, const struct place *at, struct err *e)
{
	if (check_policy(s, e) < 0 || check_home(s, e) < 0 || check_env(s, e) < 0 ||
	    check_extra_args(s, e) < 0 || check_egress(s, e) < 0 || check_ports(s, e) < 0 ||
	    check_gpus(s, e) < 0)
		return -e->code;
	if (s->command.tty && !s->command.unattended && !spec_wrote(s, FIELD_TIMEOUT))
		s->command.timeout = 0;
	if (spec_wrote(s, FIELD_DISK) && !spec_wrote(s, FIELD_TMP) &&
	    s->limits.disk < s->limits.tmp)
		s->limits.tmp = s->limits.disk;
	if (check_workspace(s, at, e) < 0 || settle_target(s, e) < 0 ||
	    check_mounts(s, at, e) < 0 || targets_check_volumes(s, e) < 0)
		return -e->code;
	if (check_paths(s, at, &s->read, "read", e) < 0 ||
	    check_paths(s, at, &s->write, "write", e) < 0 || check_roots(s, at, e) < 0 ||
	    check_audit(s, at, e) < 0)
		return -e->code;
	if (check_metrics(s, at, e) < 0 || targets_differ(s, e) < 0 ||
	    check_files_of_others(s, at, e) < 0)
		return -e->code;
	return code_resolve(s, e);
}
